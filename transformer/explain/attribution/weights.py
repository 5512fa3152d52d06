"""What recorded weights alone say: of a head, of a layer, the mean over all layers, or rolled out through them.

Raw weights are what a heatmap shows, and no more than that. Source: Vaswani et al. 2017, equation 1; what they do not
say: Jain and Wallace 2019; Wiegreffe and Pinter 2019. The roll-out multiplies them through the layers, with the
residual counted as one half; values, their lengths and feed-forward nets are left out. Source: Abnar and Zuidema 2020,
"Quantifying Attention Flow in Transformers", section 3; the recursion over a decoder is that of Ferrando et al. 2022,
section 3.3.
"""

import numpy as np
from jaxtyping import Float

from transformer.attention.measures import sites_of
from transformer.attention.record import Record
from transformer.errors import AttributionError, NotDefinedError
from transformer.explain.attribution.result import Attribution, answer, one_or_mean, setting_of
from transformer.explain.attribution.scored_sequence import Asked, Reading
from transformer.explain.attribution.shares import compose_decoder_layers, compose_layers
from transformer.messages import Message
from transformer.plots.quantity import Quantity

CROSS, ENCODER, DECODER = "decoder.cross", "encoder.self", "decoder.self"


def weights(asked: Asked, record: Record, layer: int | None = None, head: int | None = None) -> Attribution:
    """Weights of cross-attention (of a text: its self-attention) as they were recorded.

    Of a head, else the mean of heads, of a `layer` or of all. Rows sum to 1, unless attention looks past the end of the
    source: those keys are left out, and a note says so.

    Raises:
        AttributionError: nothing was recorded of it, or there is no such layer or head.
    """
    group, keys = (_own(record), asked.axis) if isinstance(asked, Reading) else (CROSS, asked.source)
    tables = _recorded(asked.name, record, group, head)
    notes = [Message("note_past_source_left_out")] if tables[0].shape[1] > len(keys) else []
    values = one_or_mean(tables, layer)[:, : len(keys)]
    return answer(asked, "weights", values, Quantity.WEIGHT, notes, setting_of(layer, head))


def rollout(asked: Asked, record: Record) -> Attribution:
    """Shares of source and prefix at each step, or of a text's positions after all layers; rows sum to 1.

    Of an encoder-decoder each cross-attention passes on half of its residual, and half of what it takes from the
    source.

    Raises:
        AttributionError: nothing was recorded of an encoder's or a decoder's self-attention (a recurrent model has
            none).
    """
    if isinstance(asked, Reading):
        tables = _recorded(asked.name, record, _own(record))
        values = compose_layers(map(_with_residual, tables), len(asked.axis))
    else:
        encoder, own, cross = (_recorded(asked.name, record, group) for group in (ENCODER, DECODER, CROSS))
        halves = np.full((len(asked.read), 1), 0.5)
        layers = (
            (_with_residual(first), np.concatenate([second / 2, halves], axis=1))
            for first, second in zip(own, cross, strict=True)
        )
        source = compose_layers(map(_with_residual, encoder), len(asked.source))
        values = compose_decoder_layers(layers, source, len(asked.read))
    return answer(asked, "rollout", values, Quantity.SHARE, [Message("note_rollout")])


def _own(record: Record) -> str:
    """The self-attention of a model that reads one text: its encoder's, or that of a decoder alone."""
    return ENCODER if _has(record, ENCODER) else DECODER


def _recorded(name: str, record: Record, group: str, head: int | None = None) -> list[Float[np.ndarray, "query key"]]:
    """Weights of every layer of one group of sites, as doubles: of one head, or their mean."""
    if not _has(record, group):
        raise NotDefinedError("attribution_nothing_recorded", name=name, group=group)
    sites = sites_of(record, group)
    if head is not None and not 0 <= head < record[sites[0]].n_heads:
        raise AttributionError("attribution_no_head", head=head, last=record[sites[0]].n_heads - 1)
    maps = (record[site] for site in sites)
    return [(each.head_average() if head is None else each.weights(head)).astype(np.float64) for each in maps]


def _has(record: Record, group: str) -> bool:
    return any(site.group == group for site in record)


def _with_residual(table: Float[np.ndarray, "position position"]) -> Float[np.ndarray, "position position"]:
    """Half of the weights and half of the position itself."""
    return (table + np.eye(len(table))) / 2
