"""Methods that go layer by layer: recorded weights and their roll-out, contributions, norms.

Weights: what a heatmap shows, and no more than that. Source: Vaswani et al. 2017, equation 1; what they do not say:
Jain and Wallace 2019; Wiegreffe and Pinter 2019. The roll-out multiplies them through the layers, the residual counted
as one half; values, their lengths and feed-forward nets are left out. Source: Abnar and Zuidema 2020, "Quantifying
Attention Flow in Transformers", section 3; the recursion over a decoder is that of Ferrando et al. 2022, section 3.3.

Layer contributions and their roll-out (ALTI+): the contribution of part j to row t is max(0, |y_t| - |y_t - P_tj|) in
the 1-norm, as a share of the row's. Exact: parts and biases sum to the sub-layer's real output, for a norm before or
after it. Feed-forward nets and the norms at the ends of the stacks mix no positions and count as passing on what they
hold. Source: Ferrando et al. 2022, "Towards Opening the Black Box of Neural Machine Translation", sections 3.1 to 3.3.

Norms: how long the vector is that each key really gives, which raw weights do not say: a large weight on a short value
gives little. Per layer |sum_h a_tj F_h(x_j)|, per head its own term. Source: Kobayashi et al. 2020, "Attention is Not
Only a Weight", section 3.

A sub-layer is a sum of one part a key, one for the residual, and constants. What a key gives is F_h(x_j) =
(x_j W_V[h] + b_V[h]) W_O[h], weighted and summed over heads; a norm after the sum is linear once its deviation is
known. Layers are run one by one. Source: Kobayashi et al. 2020, equation 3; Kobayashi et al. 2021, equations 5 to 8.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ...attention.measures import sites_of
from ...attention.record import Record
from ...errors import AttributionError, NotDefinedError
from ...messages import Message
from ...nn.attention import KeysValues, MultiHeadAttention
from ...nn.blocks import Residual, deviation
from ...nn.masks import Mask
from ...plots.picture import Quantity
from ...sites import Site
from .result import Asked, Attribution, EncodedText, ScoredSequence, answer

CROSS, ENCODER, DECODER = "decoder.cross", "encoder.self", "decoder.self"

CELLS_AT_ONCE = 4_000_000
"""Numbers of the parts (row x part x d_model) that are held at one time."""


@dataclass(frozen=True, eq=False)
class Sublayer:
    """One attention sub-layer of one sentence: `x` is what its residual carries, `memory` what its keys are made of."""

    site: Site
    x: Float[Tensor, "query d_model"]
    mask: Mask
    attention: MultiHeadAttention
    residual: Residual
    memory: Float[Tensor, "1 key d_model"]

    @property
    def shape(self) -> tuple[int, int]:
        """Queries, keys."""
        return len(self.x), self.memory.shape[1]

    @property
    def output(self) -> Float[Tensor, "query d_model"]:
        """What the model itself computes."""
        x = self.x[None]
        made: Tensor = self.residual(x, self.attention(self.residual.reads(x), self._keys_values, self.mask))
        return made[0]

    def weights(self) -> Float[Tensor, "head query key"]:
        """Attention weights; each row of each head sums to 1, unless it sees nothing."""
        return self.attention.weights(self.residual.reads(self.x[None]), self._keys_values, self.mask)[0]

    def given(self) -> Float[Tensor, "head key d_model"]:
        """F_h(x_j) as doubles: what each key would give through each head with a weight of 1, without the bias."""
        to_output = self.attention.output.weight.double().unflatten(1, (self.attention.n_heads, -1))  # (d, head, d_v)
        return torch.einsum("hjv,dhv->hjd", self._keys_values.v[0].double(), to_output)

    def visible(self) -> Bool[np.ndarray, "query key"]:
        """Which keys a row sees."""
        table = self.mask.dense(*self.shape, self.x.device)
        if table is None:
            return np.ones(self.shape, dtype=bool)
        return table[0, 0].expand(self.shape).cpu().numpy()

    def parts(self) -> Iterator[tuple[Float[Tensor, "row part d_model"], Float[Tensor, "row d_model"]]]:
        """Groups of rows: their parts, and the constant (biases) that completes their sum to the output.

        In self-attention part j is what key j gives, with the residual in part t of row t. In cross-attention the
        residual is one more part, the last. With the norm after the sum, parts have passed it.
        """
        weights, given, bias = self.weights().double(), self.given(), self.attention.output.bias
        carried, norm = self.x.double(), self.residual.norm
        n_queries, n_keys = self.shape
        size = max(1, CELLS_AT_ONCE // (n_keys * carried.shape[1]))
        for start in range(0, n_queries, size):
            here = torch.arange(start, min(start + size, n_queries))
            constants = torch.zeros_like(carried[here]) if bias is None else bias.double().expand(len(here), -1)
            parts = torch.einsum("htj,hjd->tjd", weights[:, here], given)
            if self.site.kind == "self":
                parts[torch.arange(len(here)), here] += carried[here]
            else:
                parts = torch.cat([parts, carried[here, None]], dim=1)
            if not self.residual.norm_first:
                by = deviation(norm, parts.sum(1) + constants)
                shift = getattr(norm, "bias", None)
                parts, constants = linear_part(norm, parts, by[:, None]), linear_part(norm, constants, by)
                constants = constants if shift is None else constants + shift.double()
            yield parts, constants

    @property
    def _keys_values(self) -> KeysValues:
        return self.attention.keys_values(self.memory)


def linear_part(norm: nn.Module, x: Float[Tensor, "*batch d_model"], by: Tensor) -> Float[Tensor, "*batch d_model"]:
    """What `norm` makes of a part of a sum whose deviation is `by`; all parts sum to its answer, less its bias."""
    return cast(Tensor, norm.weight).double() * (x - x.mean(-1, keepdim=True)) / by


def has_sublayers(asked: Asked) -> bool:
    """Whether a model's sub-layers can be followed: it is a Transformer of this library."""
    return asked.model.abilities.blocks


def asked_sublayers(asked: Asked) -> Iterable[Sublayer]:
    """The attention that looks at what is asked about: cross-attention to a source, or a text's self-attention."""
    if isinstance(asked, ScoredSequence):
        return (cross for _, cross in decoder_sublayers(asked))
    return self_sublayers(asked)


def self_sublayers(asked: Asked) -> Iterator[Sublayer]:
    """The self-attention of a model that reads one text, or of the encoder of an encoder-decoder."""
    model: Any = _checked(asked)
    ids = asked.source_ids if isinstance(asked, ScoredSequence) else asked.ids
    stack, blocks, x, mask = model.text_stack(torch.tensor([list(ids)]))
    for number, block in enumerate(blocks):
        residual = block.self_residual
        site = Site.of(stack, number, "self")
        yield Sublayer(site, x[0], mask, block.self_attention, residual, residual.reads(x))
        x = block(x, mask)


def decoder_sublayers(sequence: ScoredSequence) -> Iterator[tuple[Sublayer, Sublayer]]:
    """Self-attention and cross-attention of each layer of the decoder of an encoder-decoder."""
    model: Any = _checked(sequence)
    memory, source_mask = model.encode(torch.tensor([list(sequence.source_ids)]))
    x, mask = model.decoder_inputs(torch.tensor([list(sequence.read_ids)]))
    for number, block in enumerate(model.decoder):
        source, residual = block.cross_attention.keys_values(memory), block.self_residual
        site = Site.of("decoder", number, "self")
        own = Sublayer(site, x[0], mask, block.self_attention, residual, residual.reads(x))
        site, read = Site.of("decoder", number, "cross"), own.output
        yield own, Sublayer(site, read, source_mask, block.cross_attention, block.cross_residual, memory)
        x = block.feed(block.cross(read[None], source, source_mask))


def _checked(asked: Asked) -> Any:
    if not has_sublayers(asked):
        raise NotDefinedError("attribution_needs_layers", name=asked.name)
    return asked.model


def weights(asked: Asked, record: Record, layer: int | None = None, head: int | None = None) -> Attribution:
    """Weights of cross-attention (of a text: its self-attention) as they were recorded.

    Of a head, else the mean of heads, of a `layer` or of all. Rows sum to 1, unless attention looks past the end of the
    source: those keys are left out, and a note says so.

    Raises:
        AttributionError: nothing was recorded of it, or there is no such layer or head.
    """
    group, keys = (_own(record), asked.axis) if isinstance(asked, EncodedText) else (CROSS, asked.source)
    tables = _recorded(asked.name, record, group, head)
    notes = [Message("note_past_source_left_out")] if tables[0].shape[1] > len(keys) else []
    values = _one_or_mean(tables, layer)[:, : len(keys)]
    return answer(asked, "weights", values, Quantity.WEIGHT, notes, _setting(layer, head))


def rollout(asked: Asked, record: Record) -> Attribution:
    """Shares of source and prefix at each step, or of a text's positions after all layers; rows sum to 1.

    Of an encoder-decoder each cross-attention passes on half of its residual, and half of what it takes from the
    source.

    Raises:
        AttributionError: nothing was recorded of an encoder's or a decoder's self-attention (a recurrent model has
            none).
    """
    if isinstance(asked, EncodedText):
        values = _composed(map(_with_residual, _recorded(asked.name, record, _own(record))), len(asked.axis))
    else:
        encoder, own, cross = (_recorded(asked.name, record, group) for group in (ENCODER, DECODER, CROSS))
        halves = np.full((len(asked.read), 1), 0.5)
        layers = (
            (_with_residual(first), np.concatenate([second / 2, halves], axis=1))
            for first, second in zip(own, cross, strict=True)
        )
        source = _composed(map(_with_residual, encoder), len(asked.source))
        values = _composed_decoder(layers, source, len(asked.read))
    return answer(asked, "rollout", values, Quantity.SHARE, [Message("note_rollout")])


@torch.no_grad()
def contributions(asked: Asked, layer: int | None = None) -> Attribution:
    """Shares of source and prefix in what the decoder ends with at each step, or of a text's positions; rows sum to 1.

    Of one `layer`: shares in what its cross-attention (of a text: self-attention) sub-layer gives, of the positions
    that it read and of what the decoder carried, which stands at the token that was read last; nothing is followed
    through other layers.

    Raises:
        AttributionError: the model's sub-layers cannot be followed, or there is no such layer.
    """
    setting, notes = None, [Message("note_contributions")]
    if layer is not None:
        values = _one_or_mean([sublayer_contributions(each) for each in asked_sublayers(asked)], layer)
        if not isinstance(asked, EncodedText):
            values = np.concatenate([values[:, :-1], np.diag(values[:, -1])], axis=1)  # the residual at its token
        setting, notes = Message("setting_layer", layer=layer), [Message("note_contributions_layer")]
    elif isinstance(asked, EncodedText):
        values = _composed(map(sublayer_contributions, asked_sublayers(asked)), len(asked.axis))
    else:
        encoder = _composed(map(sublayer_contributions, self_sublayers(asked)), len(asked.source))
        layers = ((sublayer_contributions(a), sublayer_contributions(b)) for a, b in decoder_sublayers(asked))
        values = _composed_decoder(layers, encoder, len(asked.read))
    return answer(asked, "contributions", values, Quantity.SHARE, notes, setting)


@torch.no_grad()
def sublayer_contributions(layer: Sublayer) -> Float[np.ndarray, "query part"]:
    """Shares of each part in each row of one sub-layer: its keys, and in cross-attention the residual last.

    Rows sum to 1; a key that is masked has exactly 0. A row that no part brings nearer to its output is NaN.
    """
    nearer = []
    for parts, constant in layer.parts():
        output = parts.sum(1) + constant
        distance = (output[:, None] - parts).abs().sum(-1)
        nearer.append((output.abs().sum(-1, keepdim=True) - distance).clamp(min=0))
    found = torch.cat(nearer).numpy()
    visible = np.ones(found.shape, dtype=bool)  # the residual, too, which in self-attention is its own position's
    visible[:, : layer.shape[1]] = layer.visible()
    if layer.site.kind == "self":
        visible |= np.eye(len(visible), dtype=bool)
    return normalise_rows(found, visible)


@torch.no_grad()
def norms(asked: Asked, layer: int | None = None, head: int | None = None) -> Attribution:
    """Norms of what each source position gives each step through cross-attention, or each position of a text each.

    Of one layer: lengths of vectors. Without a `layer`: the mean over layers of each row's shares, since vectors of
    different layers have no common scale.

    Raises:
        AttributionError: the model's sub-layers cannot be followed; or there is no such layer or head.
    """
    tables = [_norms(each, head) for each in asked_sublayers(asked)]
    values = _one_or_mean([normalise_rows(table) for table in tables] if layer is None else tables, layer)
    notes = [Message("note_norms_mean")] if layer is None else []
    quantity = Quantity.SHARE if layer is None else Quantity.NORM
    return answer(asked, "norms", values, quantity, notes, _setting(layer, head))


def _norms(layer: Sublayer, head: int | None) -> Float[np.ndarray, "query key"]:
    """Norms of what each key gives in one sub-layer."""
    table, given = layer.weights().double(), layer.given()
    if head is not None:
        _refuse_head(head, len(table))
        table, given = table[head : head + 1], given[head : head + 1]
    rows = [torch.einsum("hj,hjd->jd", row, given).norm(dim=-1) for row in table.unbind(1)]
    return torch.stack(rows).numpy()


def normalise_rows(
    x: Float[np.ndarray, "row part"], visible: Bool[np.ndarray, "row part"] | None = None
) -> Float[np.ndarray, "row part"]:
    """Each row over its sum. A row that sees one part has that alone; any other that got nothing is NaN."""
    sums = x.sum(-1, keepdims=True)
    found = np.divide(x, sums, out=np.full_like(x, np.nan), where=sums != 0)
    if visible is not None:
        found[~visible] = 0.0
        alone = (visible.sum(-1) == 1) & ~np.isnan(sums[:, 0])
        found[alone] = visible[alone]
    return found


def _composed(
    layers: Iterable[Float[np.ndarray, "position position"]], n: int
) -> Float[np.ndarray, "position position"]:
    """What each position holds of each position of the input after all `layers`, in the order in which they run."""
    shares = np.eye(n)
    for layer in layers:
        shares = layer @ shares
    return shares


def _composed_decoder(
    layers: Iterable[tuple[Float[np.ndarray, "target target"], Float[np.ndarray, "target source_and_residual"]]],
    encoder: Float[np.ndarray, "source source"],
    n: int,
) -> Float[np.ndarray, "target part"]:
    """What each target position holds of each source token, then of each token of the prefix, after all `layers`.

    A layer is what its self-attention and what its cross-attention pass on; the latter's last column is the residual.
    Rows sum to 1 where those of the layers do.
    """
    of_source, of_prefix = np.zeros((n, len(encoder))), np.eye(n)
    for own, cross in layers:
        kept = cross[:, -1:] * own
        of_source = kept @ of_source + cross[:, :-1] @ encoder
        of_prefix = kept @ of_prefix
    return np.concatenate([of_source, of_prefix], axis=1)


def _one_or_mean(tables: Sequence[Float[np.ndarray, "row part"]], layer: int | None) -> Float[np.ndarray, "row part"]:
    """The table of a layer, or the mean over all of them."""
    if layer is None:
        return np.mean(tables, axis=0)
    if not 0 <= layer < len(tables):
        raise AttributionError("attribution_no_layer", layer=layer, last=len(tables) - 1)
    return tables[layer]


def _refuse_head(head: int, count: int) -> None:
    if not 0 <= head < count:
        raise AttributionError("attribution_no_head", head=head, last=count - 1)


def _setting(layer: int | None, head: int | None) -> Message:
    """Which layer and head, in words."""
    where = Message("setting_all_layers") if layer is None else Message("setting_layer", layer=layer)
    which = Message("setting_mean_of_heads") if head is None else Message("setting_head", head=head)
    return Message("setting_layer_and_head", layer=where, head=which)


def _own(record: Record) -> str:
    """The self-attention of a model that reads one text: its encoder's, or that of a decoder alone."""
    return ENCODER if any(site.group == ENCODER for site in record) else DECODER


def _recorded(name: str, record: Record, group: str, head: int | None = None) -> list[Float[np.ndarray, "query key"]]:
    """Weights of every layer of one group of sites, as doubles: of one head, or their mean."""
    if not any(site.group == group for site in record):
        raise NotDefinedError("attribution_nothing_recorded", name=name, group=group)
    maps = [record[site] for site in sites_of(record, group)]
    if head is not None:
        _refuse_head(head, maps[0].n_heads)
    return [(each.head_average() if head is None else each.weights(head)).astype(np.float64) for each in maps]


def _with_residual(table: Float[np.ndarray, "position position"]) -> Float[np.ndarray, "position position"]:
    """Half of the weights and half of the position itself."""
    return (table + np.eye(len(table))) / 2
