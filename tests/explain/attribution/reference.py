"""An encoder-decoder by hand: loops over positions and heads, from the papers, with the weights of a model of ours.

Everything that a method of attribution is checked against is computed here or in the tests, with NumPy alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from heedmap.errors import AttributionError
from heedmap.explain.attribution.result import ScoredSequence
from heedmap.nn.seq2seq import Seq2Seq, preset
from heedmap.plots.axes import Axis

SOURCE, READ, WRITTEN = (5, 9, 4, 30, 17, 9, 2), (1, 28, 4, 5, 11), (28, 4, 5, 11, 2)
DIALECTS: dict[str, dict[str, Any]] = {
    "torch": {},
    "annotated": {},
    "jadore": dict(target_vocab=31),
    "pre-norm without biases": dict(name="annotated", attention_bias=False, d_k=5, d_v=7),
    "post-norm, tied": dict(name="torch", target_vocab=31, tie_embeddings=True, tie_projection=True, activation="gelu"),
}


def model(dialect: str, **sizes: Any) -> Seq2Seq:
    """A small model with random weights, all of its sizes different, in float64; norms and biases are random too."""
    options = dict(
        source_vocab=31, target_vocab=29, d_model=12, n_heads=3, d_ff=17, n_encoder_layers=2, n_decoder_layers=3,
        max_length=23,
    )  # fmt: skip
    options |= {name: value for name, value in DIALECTS[dialect].items() if name != "name"} | sizes
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(len(dialect))
        made = Seq2Seq(preset(DIALECTS[dialect].get("name", dialect), **options)).double().eval()
        with torch.no_grad():
            for name, parameter in made.named_parameters():
                if parameter.dim() == 1:
                    parameter.add_(0.3 * torch.randn_like(parameter))
                elif "attention" in name:
                    parameter.mul_(1.7)
    return made


def scored_sequence(
    made: Any, source: Sequence[int] = SOURCE, read: Sequence[int] = READ, written: Sequence[int] = WRITTEN
) -> ScoredSequence:
    """A sequence of ids, each a word by itself, the last of the source special."""

    def axis(name: str, ids: Sequence[int]) -> Axis:
        return Axis.of_pieces(name, [f"{i}" for i in ids], [i <= 2 for i in ids])

    every = {"source": source, "read": read, "written": written}
    ids, axes = map(tuple, every.values()), (axis(name, one) for name, one in every.items())
    return ScoredSequence("small", made, *ids, *axes)


@dataclass
class Attended:
    """One attention sub-layer, by hand: x is what its residual carries, `parts[h][t][j]` = F_h(x_j) before weights."""

    x: np.ndarray
    weights: np.ndarray
    values: np.ndarray
    bias: np.ndarray
    norm: Any
    norm_first: bool
    output: np.ndarray = field(default_factory=lambda: np.zeros(0))


def refuses(code: str, call: Callable[..., object], *given: Any, **more: Any) -> None:
    """A call is refused for this reason."""
    with pytest.raises(AttributionError) as refused:
        call(*given, **more)
    assert refused.value.code == code


def array(x: torch.Tensor | None, size: int = 0) -> np.ndarray:
    """A parameter, or zeros where there is none."""
    return np.zeros(size) if x is None else x.detach().numpy().astype(np.float64)


def normed(norm: Any, x: np.ndarray) -> np.ndarray:
    """Layer norm position by position, as each of the two modules defines it."""
    return np.array([array(norm.weight) * (row - row.mean()) / deviation(norm, row) + array(norm.bias) for row in x])


def deviation(norm: Any, row: np.ndarray) -> float:
    """What a norm divides a position by: the unbiased deviation + eps, or the root of (biased variance + eps)."""
    squares = (row - row.mean()) ** 2
    if type(norm).__name__ == "AnnotatedLayerNorm":
        return float(np.sqrt(squares.sum() / (len(row) - 1)) + norm.eps)
    return float(np.sqrt(squares.mean() + norm.eps))


def attend(attention: Any, residual: Any, x: np.ndarray, keys: np.ndarray | None, visible: np.ndarray) -> Attended:
    """A whole attention sub-layer; `keys` is None where the queries' own positions are the keys."""
    n_heads = attention.n_heads
    h = normed(residual.norm, x) if residual.norm_first else x
    memory = h if keys is None else keys
    q, k, v = (
        (array(linear.weight), array(linear.bias, linear.out_features))
        for linear in (attention.query, attention.key, attention.value)
    )
    w_o, d_k, d_v = array(attention.output.weight), len(q[0]) // n_heads, len(v[0]) // n_heads
    weights = np.zeros((n_heads, len(h), len(memory)))
    values = np.zeros((n_heads, len(memory), len(w_o)))
    for head in range(n_heads):
        rows, columns = slice(head * d_k, (head + 1) * d_k), slice(head * d_v, (head + 1) * d_v)
        for j, key in enumerate(memory):
            values[head, j] = w_o[:, columns] @ (v[0][columns] @ key + v[1][columns])
        for t, query in enumerate(h):
            seen = [j for j in range(len(memory)) if visible[t, j]]
            asked = q[0][rows] @ query + q[1][rows]
            scores = [asked @ (k[0][rows] @ memory[j] + k[1][rows]) / np.sqrt(d_k) for j in seen]
            if seen:
                e = np.exp(np.array(scores) - max(scores))
                weights[head, t, seen] = e / e.sum()
    bias = array(attention.output.bias, len(w_o))
    kept = Attended(x, weights, values, bias, residual.norm, residual.norm_first)
    kept.output = finished(kept, x + bias + np.einsum("htj,hjd->td", weights, values))
    return kept


def finished(kept: Attended, total: np.ndarray) -> np.ndarray:
    """What the sub-layer makes of the sum: its norm, where that comes after."""
    return total if kept.norm_first else normed(kept.norm, total)


def feed_forward(block: Any, x: np.ndarray) -> np.ndarray:
    """The feed-forward sub-layer with its residual."""
    residual, net = block.feed_forward_residual, block.feed_forward
    h = normed(residual.norm, x) if residual.norm_first else x
    wide = h @ array(net.widen.weight).T + array(net.widen.bias)
    name = getattr(net.activation, "__name__", "")
    active = torch.nn.functional.gelu(torch.tensor(wide)).numpy() if name == "gelu" else np.maximum(wide, 0)
    total = x + active @ array(net.narrow.weight).T + array(net.narrow.bias)
    return total if residual.norm_first else normed(residual.norm, total)


@dataclass
class Run:
    """A whole run by hand: every attention sub-layer, and log-probabilities of the next token."""

    encoder: list[Attended]
    decoder: list[tuple[Attended, Attended]]
    log_probs: np.ndarray


Ids = Sequence[int]


def run(made: Seq2Seq, source: Ids, read: Ids, hidden: Ids = (), hidden_read: Ids = ()) -> Run:
    """Run the model by hand; positions in `hidden` are no keys of the encoder and of cross-attention."""
    config = made.config
    shown = np.array([i not in hidden for i in range(len(source))])
    past = np.tri(len(read), dtype=bool) & np.array([i not in hidden_read for i in range(len(read))])

    def embedded(table: Any, positions: Any, norm: Any, ids: Sequence[int]) -> np.ndarray:
        x = array(table.weight)[list(ids)] * (np.sqrt(config.block.d_model) if config.scale_embedding else 1.0)
        x = x + array(positions.table)[: len(ids)]
        return normed(norm, x) if config.norm_after_embedding else x

    x = embedded(made.source_embedding, made.source_positions, made.source_norm, source)
    encoder = []
    for block in list[Any](made.encoder):
        encoder.append(attend(block.self_attention, block.self_residual, x, None, np.tile(shown, (len(source), 1))))
        x = feed_forward(block, encoder[-1].output)
    memory = normed(made.encoder_norm, x) if config.norm_after_stack else x
    x = embedded(made.target_embedding, made.target_positions, made.target_norm, read)
    decoder = []
    for block in list[Any](made.decoder):
        first = attend(block.self_attention, block.self_residual, x, None, past)
        seen = np.tile(shown, (len(read), 1))
        second = attend(block.cross_attention, block.cross_residual, first.output, memory, seen)
        decoder.append((first, second))
        x = feed_forward(block, second.output)
    x = normed(made.decoder_norm, x) if config.norm_after_stack else x
    logits = x @ array(made.projection.weight).T + array(made.projection.bias, config.target_vocab)
    logits = config.projection_scale * logits
    return Run(encoder, decoder, logits - np.log(np.exp(logits).sum(-1, keepdims=True)))


def log_probs_of(found: Run, written: Sequence[int] = WRITTEN) -> np.ndarray:
    """Log-probabilities of the written tokens."""
    return np.array([row[token] for row, token in zip(found.log_probs, written, strict=True)])
