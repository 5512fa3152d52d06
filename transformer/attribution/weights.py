"""Raw weights: of a head, of a layer's mean, or the mean over all layers. What a heatmap shows, and no more than that.

Source: Vaswani et al. 2017, equation 1. What they do not say: Jain and Wallace 2019; Wiegreffe and Pinter 2019.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from transformer.attention.measures import sites_of
from transformer.attention.record import Record
from transformer.attribution.passage import Passage, Reading
from transformer.attribution.result import Attribution, of_passage, of_reading
from transformer.errors import AttributionError, NotDefinedError
from transformer.messages import Message
from transformer.pictures.quantity import Quantity

CROSS, ENCODER, DECODER = "decoder.cross", "encoder.self", "decoder.self"


def weights(passage: Passage, record: Record, layer: int | None = None, head: int | None = None) -> Attribution:
    """Weights of cross-attention as they were recorded: of a head, else the mean of heads, of a `layer` or of all.

    Rows sum to 1, unless attention looks past the end of the source: those keys are left out, and a note says so.

    Raises:
        AttributionError: nothing was recorded of cross-attention, or there is no such layer or head.
    """
    tables = recorded(passage.name, record, CROSS, head)
    n_source = len(passage.source)
    notes = [Message("note_past_source_left_out")] if tables[0].shape[1] > n_source else []
    values = one_or_mean(tables, layer)[:, :n_source]
    return of_passage(passage, "weights", values, Quantity.WEIGHT, notes, setting_of(layer, head))


def encoder_weights(reading: Reading, record: Record, layer: int | None = None, head: int | None = None) -> Attribution:
    """The same of the self-attention of a model that reads one text.

    Raises:
        AttributionError: as `weights`.
    """
    tables = recorded(reading.name, record, own_group(record), head)
    return of_reading(reading, "weights", one_or_mean(tables, layer), Quantity.WEIGHT, setting=setting_of(layer, head))


def own_group(record: Record) -> str:
    """The self-attention of a model that reads one text: its encoder's, or that of a decoder alone."""
    return ENCODER if _has(record, ENCODER) else DECODER


def recorded(name: str, record: Record, group: str, head: int | None = None) -> list[Float[np.ndarray, "query key"]]:
    """Weights of every layer of one group of sites, as doubles: of one head, or their mean.

    Raises:
        AttributionError: there are none, or there is no such head.
    """
    if not _has(record, group):
        raise NotDefinedError("attribution_nothing_recorded", name=name, group=group)
    sites = sites_of(record, group)
    if head is not None and not 0 <= head < record[sites[0]].n_heads:
        raise AttributionError("attribution_no_head", head=head, last=record[sites[0]].n_heads - 1)
    maps = (record[site] for site in sites)
    return [(each.head_average() if head is None else each.weights(head)).astype(np.float64) for each in maps]


def one_or_mean(tables: Sequence[Float[np.ndarray, "row part"]], layer: int | None) -> Float[np.ndarray, "row part"]:
    """The table of a layer, or the mean over all of them.

    Raises:
        AttributionError: there is no such layer.
    """
    if layer is None:
        return np.mean(tables, axis=0)
    if not 0 <= layer < len(tables):
        raise AttributionError("attribution_no_layer", layer=layer, last=len(tables) - 1)
    return tables[layer]


def setting_of(layer: int | None, head: int | None) -> Message:
    """Which layer and head, in words."""
    where = Message("setting_all_layers") if layer is None else Message("setting_layer", layer=layer)
    which = Message("setting_mean_of_heads") if head is None else Message("setting_head", head=head)
    return Message("setting_layer_and_head", layer=where, head=which)


def _has(record: Record, group: str) -> bool:
    return any(site.group == group for site in record)
