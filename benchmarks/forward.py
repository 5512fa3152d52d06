"""What watching costs: a forward pass that is recorded, against one that is not and one that keeps all weights.

The model is as large as BERT-base (12 layers, 12 heads, 768 wide), batch 1, random weights.
"""

import copy
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.measuring import Result, interleaved, ratio
from transformer.attention.capture import Recording, recording, watch
from transformer.nn.attention import DotProductAttention
from transformer.nn.encoder import Encoder, EncoderConfig
from transformer.nn.masks import Mask

SECTION = "Recording a forward pass (12 layers, 12 heads, 768 wide, batch 1)"
ROUNDS = {16: 40, 64: 30, 128: 20, 512: 9, 1024: 7, 2048: 5}
"""Tokens -> how often each variant runs."""

BERT_BASE = EncoderConfig(
    vocab=1_000, d_model=768, n_heads=12, d_ff=3_072, n_layers=12, activation="gelu", max_length=2_048
)


class EagerAttention(nn.Module):
    """Attention as it is usually watched: all weights are computed as one tensor, and kept."""

    def __init__(self, core: DotProductAttention, kept: list[Tensor]) -> None:
        super().__init__()
        self.scale = core.scale
        self.kept = kept

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """The same result as the fused attention, for a mask that hides nothing."""
        if mask.causal or mask.keys is not None:
            raise ValueError(f"mask={mask} hides something: this comparison runs without a mask")
        weights = (q @ k.transpose(-2, -1) * self.scale).softmax(-1)
        self.kept.append(weights)
        return weights @ v


def sharing_weights(model: Encoder) -> Encoder:
    """A second model around the same parameters, so that variants differ in nothing else."""
    return copy.deepcopy(model, {id(tensor): tensor for tensor in [*model.parameters(), *model.buffers()]})


def eager(model: Encoder, kept: list[Tensor]) -> Encoder:
    """The model with its attention replaced by the eager one."""
    other = sharing_weights(model)
    for block in other.encoder:
        block.self_attention.core = EagerAttention(block.self_attention.core, kept)  # type: ignore[assignment]
    return other


def recorded(model: Encoder, ids: Tensor) -> Recording:
    """One forward pass and what was kept of it."""
    with recording() as seen:
        model(ids)
    return seen


def kept_bytes(seen: Recording) -> int:
    """Bytes of storage that a recording holds on to: whole storages, also where only a view of one was kept."""
    storages: dict[int, int] = {}
    for site in seen.sites:
        source = seen.source(site)
        tensors = [value for value in vars(source).values() if isinstance(value, Tensor)]
        mask = vars(source).get("mask")
        if isinstance(mask, Mask) and mask.keys is not None:
            tensors.append(mask.keys)
        storages |= {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())


def eager_forward(model: Encoder, ids: Tensor, kept: list[Tensor]) -> Callable[[], None]:
    """A pass that holds all weights until it is over, as whoever asks for them does."""

    def run() -> None:
        model(ids)
        kept.clear()

    return run


def measure(rounds: dict[int, int] | None = None) -> list[Result]:
    """Time and memory of the three ways at each length."""
    torch.manual_seed(0)
    plain = Encoder(BERT_BASE).eval()
    watched = watch(sharing_weights(plain))
    kept: list[Tensor] = []
    all_weights = eager(plain, kept)
    results, sizes = [], []
    for n, times in (rounds or ROUNDS).items():
        ids = torch.randint(BERT_BASE.vocab, (1, n))
        with torch.inference_mode():
            if not torch.equal(plain(ids), watched(ids)):
                raise AssertionError(f"recording changed the output at {n} tokens")
            seconds = interleaved(
                {
                    "plain": partial(plain, ids),
                    "recorded": partial(recorded, watched, ids),
                    "eager": eager_forward(all_weights, ids, kept),
                },
                times,
            )
            sizes.append((n, kept_bytes(recorded(watched, ids))))
        cost, eager_cost = ratio(seconds, "recorded", "plain"), ratio(seconds, "eager", "plain")
        measured = f"{cost:.3f} x (all weights kept: {eager_cost:.2f} x)"
        results.append(Result(SECTION, f"{n} tokens, capture against plain", measured, "at most 1.05 x", cost <= 1.05))
    return [*results, _memory(sizes)]


def _memory(sizes: list[tuple[int, int]]) -> Result:
    """Bytes kept at every length, against the bound and against the weights of all heads."""
    per_token = 4 * BERT_BASE.n_layers * (2 * BERT_BASE.d_model + BERT_BASE.n_heads)
    per_pair = 4 * BERT_BASE.n_layers * BERT_BASE.n_heads
    longest, size = sizes[-1]
    return Result(
        SECTION,
        f"bytes kept, {sizes[0][0]} to {longest} tokens",
        f"{size / longest / 1e3:.1f} kB a token; {size / 1e6:.0f} MB at {longest} "
        f"(all weights: {per_pair * longest**2 / 1e6:,.0f} MB)",
        f"at most {per_token / 1e3:.1f} kB a token: 4 x layers x (2 d_model + heads)",
        all(kept <= per_token * n for n, kept in sizes),
    )
