"""Gradient x attention: which attention weights the written token's logit rests on, passed on through the layers.

For one logit y_t: A' = mean over heads of max(0, A * dy_t/dA). Relevance starts as the identity and grows with each
layer: encoder R_ee += A' R_ee; decoder self R_dd += A' R_dd and R_de += A' R_de; cross R_de += A' N(R_ee), where N
makes the rows of R - I sum to 1 and puts I back. Row t is read. Source: Chefer et al. 2021, "Generic Attention-model
Explainability", rules 5 to 11. Their rule 10 also multiplies by the transposed N(R_dd) from the left, which in a
causal decoder lets row t receive from later rows; it stays available as `published`, for decoders that look both
ways.
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from transformer.attribution.deletion import Progress
from transformer.attribution.layers import softmax
from transformer.attribution.passage import Passage
from transformer.attribution.result import Attribution, of_passage
from transformer.errors import AttributionError
from transformer.layers.attention import KeysValues, MultiHeadAttention
from transformer.layers.blocks import Residual
from transformer.layers.masks import Mask
from transformer.messages import Message
from transformer.models.seq2seq import Seq2Seq
from transformer.pictures.quantity import Quantity

CELLS_AT_ONCE = 4_000_000
"""Attention weights, of all layers and heads together, that one backward pass keeps."""


@dataclass
class Tables:
    """The weights of each layer of a batch whose row t asks about step t, kept in the graph for one backward pass."""

    encoder: list[Float[Tensor, "row head source source"]] = field(default_factory=list)
    own: list[Float[Tensor, "row head target target"]] = field(default_factory=list)
    cross: list[Float[Tensor, "row head target source"]] = field(default_factory=list)


@torch.inference_mode(mode=False)
def gradients(passage: Passage, published: bool = False, progress: Progress | None = None) -> Attribution:
    """Relevance of each source token and each token of the prefix for each written token's logit.

    Not negative; of no fixed sum. `published` is the rule as printed, for bidirectional decoders: under a causal mask
    it mixes rows that the step could not know. Costs one forward and one backward pass a step, in batches.

    Raises:
        AttributionError: the model is not an encoder-decoder Transformer of ours.
    """
    if not isinstance(passage.model, Seq2Seq):
        raise AttributionError("attribution_needs_layers", name=passage.name)
    model = passage.model
    n_source, n_target, config = len(passage.source_ids), len(passage.read_ids), model.config
    cells = config.n_heads * (
        config.n_encoder_layers * n_source**2 + config.n_decoder_layers * n_target * (n_target + n_source)
    )
    size = max(1, CELLS_AT_ONCE // cells)
    found = []
    for start in range(0, n_target, size):
        steps = torch.arange(start, min(start + size, n_target))
        found.append(_relevance(model, passage, steps, published))
        if progress:
            progress(min(1.0, (start + size) / n_target))
    name = "gradients_published" if published else "gradients"
    return of_passage(passage, name, torch.cat(found).numpy(), Quantity.RELEVANCE, [Message(f"note_{name}")])


def _relevance(model: Seq2Seq, passage: Passage, steps: Tensor, published: bool) -> Float[Tensor, "step part"]:
    """Row t of the relevances of step t, for some steps."""
    count, n_source, n_target = len(steps), len(passage.source_ids), len(passage.read_ids)
    with torch.enable_grad():
        logits, tables = _eager(model, passage, count)
        asked = logits[torch.arange(count), steps, torch.tensor(passage.written_ids)[steps]].sum()
        weights = [*tables.encoder, *tables.own, *tables.cross]
        slopes = torch.autograd.grad(asked, weights)
    kept = [(w.detach() * slope).double().clamp(min=0).mean(1) for w, slope in zip(weights, slopes, strict=True)]
    layers, decoder_layers = len(tables.encoder), len(tables.own)
    encoder, own, cross = kept[:layers], kept[layers : layers + decoder_layers], kept[layers + decoder_layers :]
    r_ee = torch.eye(n_source, dtype=torch.float64).repeat(count, 1, 1)
    for table in encoder:
        r_ee = r_ee + table @ r_ee
    source = _normalised(r_ee)
    r_dd = torch.eye(n_target, dtype=torch.float64).repeat(count, 1, 1)
    r_de = torch.zeros(count, n_target, n_source, dtype=torch.float64)
    for first, second in zip(own, cross, strict=True):
        r_dd, r_de = r_dd + first @ r_dd, r_de + first @ r_de
        taken = second @ source
        r_de = r_de + (_normalised(r_dd).mT @ taken if published else taken)
    rows = torch.arange(count)
    prefix = (r_dd - torch.eye(n_target, dtype=torch.float64))[rows, steps]
    return torch.cat([r_de[rows, steps], prefix], dim=1)


def _normalised(relevance: Float[Tensor, "row position position"]) -> Float[Tensor, "row position position"]:
    """N(R): rows of R - I over their sums, and I put back; a row that received nothing stays the identity's."""
    identity = torch.eye(relevance.shape[-1], dtype=relevance.dtype)
    grown = relevance - identity
    sums = grown.sum(-1, keepdim=True)
    return torch.where(sums == 0, 0.0, grown / sums.masked_fill(sums == 0, 1.0)) + identity


def _eager(model: Seq2Seq, passage: Passage, count: int) -> tuple[Float[Tensor, "row target vocab"], Tables]:
    """The model's logits, `count` times the same, with every table of weights in the graph."""
    tables = Tables()
    x, mask = model.encoder_inputs(torch.tensor([passage.source_ids]).expand(count, -1))
    for block in model.encoder:
        h = block.self_residual.reads(x)
        given = block.self_attention.keys_values(h)
        x = _attended(block.self_attention, block.self_residual, x, given, mask, tables.encoder)
        x = block.feed_forward_residual(x, block.feed_forward(block.feed_forward_residual.reads(x)))
    memory, source_mask = model.encoder_norm(x), mask
    x, mask = model.decoder_inputs(torch.tensor([passage.read_ids]).expand(count, -1))
    for decoder_block in model.decoder:
        h = decoder_block.self_residual.reads(x)
        given = decoder_block.self_attention.keys_values(h)
        x = _attended(decoder_block.self_attention, decoder_block.self_residual, x, given, mask, tables.own)
        given = decoder_block.cross_attention.keys_values(memory)
        x = _attended(decoder_block.cross_attention, decoder_block.cross_residual, x, given, source_mask, tables.cross)
        h = decoder_block.feed_forward_residual.reads(x)
        x = decoder_block.feed_forward_residual(x, decoder_block.feed_forward(h))
    return model.logits(model.decoder_norm(x)), tables


def _attended(
    attention: MultiHeadAttention,
    residual: Residual,
    x: Float[Tensor, "row query d_model"],
    given: KeysValues,
    mask: Mask,
    kept: list[Tensor],
) -> Float[Tensor, "row query d_model"]:
    """An attention sub-layer that computes its weights as a table, and keeps it."""
    table = softmax(attention.queries(residual.reads(x)), given.k, attention.core.scale, mask)
    if not table.requires_grad:  # the parameters are frozen, but slopes by the weights are asked all the same
        table.requires_grad_()
    kept.append(table)
    made: Tensor = residual(x, attention.output((table @ given.v).transpose(1, 2).flatten(2)))
    return made
