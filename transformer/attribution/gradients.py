"""Gradient x attention: which attention weights the written token's logit rests on, passed on through the layers.

For one logit y_t: A' = mean over heads of max(0, A * dy_t/dA). Relevance starts as the identity and grows with each
layer: encoder R_ee += A' R_ee; decoder self R_dd += A' R_dd and R_de += A' R_de; cross R_de += A' N(R_ee), where N
makes the rows of R - I sum to 1 and puts I back. Row t is read. Source: Chefer et al. 2021, "Generic Attention-model
Explainability", rules 5 to 11. Their rule 10 also multiplies by the transposed N(R_dd) from the left, which in a
causal decoder lets row t receive from later rows; it stays available as `published`, for decoders that look both
ways.

The slope of a weight is the slope of what its row mixes, times the value that it weighs, so no table of weights has to
stay in the graph: one forward pass serves every step, and of the products of tables only row t is computed.
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

CELLS_AT_ONCE = 2_000_000
"""Slopes of weights, of all layers and heads together, that are held at one time."""


@dataclass(frozen=True, eq=False)
class Mixed:
    """One attention of a run: its weights, the values that they weigh, and what came of both, which slopes pass."""

    weights: Float[Tensor, "head query key"]
    values: Float[Tensor, "head key d_v"]
    output: Float[Tensor, "1 head query d_v"]


@dataclass
class Run:
    """Every attention of one run in the order of its layers, and what the projection to the vocabulary reads."""

    encoder: list[Mixed] = field(default_factory=list)
    own: list[Mixed] = field(default_factory=list)
    cross: list[Mixed] = field(default_factory=list)
    states: Float[Tensor, "1 target d_model"] = field(default_factory=lambda: torch.empty(0))


@torch.inference_mode(mode=False)
def gradients(passage: Passage, published: bool = False, progress: Progress | None = None) -> Attribution:
    """Relevance of each source token and each token of the prefix for each written token's logit.

    Not negative; of no fixed sum. `published` is the rule as printed, for bidirectional decoders: under a causal mask
    it mixes rows that the step could not know. Costs one forward pass and a backward pass a step, in batches; memory
    is that of one run and of `CELLS_AT_ONCE` slopes (of one step's, where these are more).

    Raises:
        AttributionError: the model is not an encoder-decoder Transformer of ours.
    """
    if not isinstance(passage.model, Seq2Seq):
        raise AttributionError("attribution_needs_layers", name=passage.name)
    model, n_target = passage.model, len(passage.read_ids)
    with torch.enable_grad():
        run = _run(model, passage)
    slopes = _slopes_of_states(model, passage, run.states.detach())
    cells = sum(each.weights.numel() for each in (*run.encoder, *run.own, *run.cross))
    size = max(1, CELLS_AT_ONCE // cells)
    found = []
    for start in range(0, n_target, size):
        steps = torch.arange(start, min(start + size, n_target))
        found.append(_relevance(run, slopes, steps, published))
        if progress:
            progress(min(1.0, (start + size) / n_target))
    name = "gradients_published" if published else "gradients"
    return of_passage(passage, name, torch.cat(found).numpy(), Quantity.RELEVANCE, [Message(f"note_{name}")])


def _slopes_of_states(
    model: Seq2Seq, passage: Passage, states: Float[Tensor, "1 target d_model"]
) -> Float[Tensor, "target d_model"]:
    """How each written token's logit moves with what the last layer of the decoder ends with at its own step."""
    with torch.enable_grad():
        states.requires_grad_()
        logits = model.logits(model.decoder_norm(states))[0]
        asked = logits.gather(1, torch.tensor(passage.written_ids)[:, None]).sum()
    (found,) = torch.autograd.grad(asked, states)
    return found[0]


def _relevance(
    run: Run, slopes: Float[Tensor, "target d_model"], steps: Tensor, published: bool
) -> Float[Tensor, "step part"]:
    """Row t of the relevances of step t, for some steps."""
    count, n_target = len(steps), len(slopes)
    asked = slopes.new_zeros(count, 1, *slopes.shape)
    asked[torch.arange(count), 0, steps] = slopes[steps]
    each = [*run.encoder, *run.own, *run.cross]
    moved = torch.autograd.grad(
        run.states, [one.output for one in each], asked, retain_graph=True, is_grads_batched=True
    )
    kept = [_kept(one, slope[:, 0]) for one, slope in zip(each, moved, strict=True)]
    layers, decoder_layers = len(run.encoder), len(run.own)
    encoder, own, cross = kept[:layers], kept[layers : layers + decoder_layers], kept[layers + decoder_layers :]
    start = torch.zeros(count, 1, n_target, dtype=torch.float64)
    start[torch.arange(count), 0, steps] = 1.0
    grown = torch.zeros_like(start)  # start @ ((I + A_L) ... (I + A_1) - I), from the last layer on
    taken = start.new_zeros(count, 1, cross[0].shape[2])
    for number in reversed(range(len(own))):
        row = start + grown
        mixed = _normalised_columns(own[: number + 1], row) if published else row
        taken = taken + mixed @ cross[number]
        grown = grown + row @ own[number]
    return torch.cat([_normalised_rows(encoder, taken), grown], dim=2)[:, 0]


def _kept(one: Mixed, slope: Float[Tensor, "step head query d_v"]) -> Float[Tensor, "step query key"]:
    """A' of each step: the mean over heads of max(0, A * dy/dA)."""
    by_weight = slope @ one.values.mT
    return by_weight.mul_(one.weights).clamp_(min=0).mean(1).double()


def _sums(layers: list[Float[Tensor, "step position position"]], n: int) -> Float[Tensor, "#step position 1"]:
    """Sums of the rows of R - I, where R = (I + A_L) ... (I + A_1); 1 for a row that received nothing."""
    ones = torch.ones(1, n, 1, dtype=torch.float64)
    grown = torch.zeros_like(ones)
    for table in layers:
        grown = grown + table @ (ones + grown)
    return grown.masked_fill(grown == 0, 1.0)


def _normalised_rows(
    layers: list[Float[Tensor, "step position position"]], row: Float[Tensor, "step 1 position"]
) -> Float[Tensor, "step 1 position"]:
    """row @ N(R): N makes the rows of R - I sum to 1 and puts I back; a row that received nothing is the identity's."""
    shared = row / _sums(layers, row.shape[2]).mT
    grown = torch.zeros_like(row)
    for table in reversed(layers):
        grown = grown + (shared + grown) @ table
    return grown + row


def _normalised_columns(
    layers: list[Float[Tensor, "step position position"]], row: Float[Tensor, "step 1 position"]
) -> Float[Tensor, "step 1 position"]:
    """row @ N(R) transposed."""
    column = row.mT
    grown = torch.zeros_like(column)
    for table in layers:
        grown = grown + table @ (column + grown)
    return (grown / _sums(layers, row.shape[2]) + column).mT


def _run(model: Seq2Seq, passage: Passage) -> Run:
    """One pass through the model that keeps what slopes are taken by."""
    run = Run()
    x, mask = model.encoder_inputs(torch.tensor([passage.source_ids]))
    for block in model.encoder:
        given = block.self_attention.keys_values(block.self_residual.reads(x))
        x = _attended(block.self_attention, block.self_residual, x, given, mask, run.encoder)
        x = block.feed_forward_residual(x, block.feed_forward(block.feed_forward_residual.reads(x)))
    memory, source_mask = model.encoder_norm(x), mask
    x, mask = model.decoder_inputs(torch.tensor([passage.read_ids]))
    for decoder_block in model.decoder:
        given = decoder_block.self_attention.keys_values(decoder_block.self_residual.reads(x))
        x = _attended(decoder_block.self_attention, decoder_block.self_residual, x, given, mask, run.own)
        given = decoder_block.cross_attention.keys_values(memory)
        x = _attended(decoder_block.cross_attention, decoder_block.cross_residual, x, given, source_mask, run.cross)
        h = decoder_block.feed_forward_residual.reads(x)
        x = decoder_block.feed_forward_residual(x, decoder_block.feed_forward(h))
    run.states = x
    return run


def _attended(
    attention: MultiHeadAttention,
    residual: Residual,
    x: Float[Tensor, "1 query d_model"],
    given: KeysValues,
    mask: Mask,
    kept: list[Mixed],
) -> Float[Tensor, "1 query d_model"]:
    """An attention sub-layer whose weights are computed as a table, and kept beside what they mix."""
    table = softmax(attention.queries(residual.reads(x)), given.k, attention.core.scale, mask)
    mixed = table @ given.v
    if not mixed.requires_grad:  # the parameters are frozen, but slopes are asked all the same
        mixed.requires_grad_()
    kept.append(Mixed(table[0].detach(), given.v[0].detach(), mixed))
    made: Tensor = residual(x, attention.output(mixed.transpose(1, 2).flatten(2)))
    return made
