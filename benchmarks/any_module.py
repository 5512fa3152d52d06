"""What recording a module costs that is not this library's, against its plain forward.

The module is a GPT in nanoGPT's style, 12 layers, fused attention, batch 1, random weights.
"""

import statistics
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from transformers import GPT2Config, GPT2LMHeadModel

from benchmarks.forward import kept_bytes
from benchmarks.measuring import Result, interleaved, ratio
from transformer import recording
from transformer.attention.capture import Recording

SECTION = "Recording any module (12 layers in nanoGPT's style, fused causal attention, batch 1)"
SIZES = {256: 8, 768: 12}
"""Width -> heads."""

ROUNDS = {128: 60, 512: 20, 2_048: 6}
"""Tokens -> how often each variant runs."""

N_LAYERS, VOCAB = 12, 1_000


class Attention(nn.Module):
    """Queries, keys and values by one projection."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.resid_dropout = nn.Dropout(0.1)
        self.n_heads = n_heads

    def forward(self, x: Tensor) -> Tensor:
        """A sequence in, a sequence out."""
        b, n, d = x.size()
        q, k, v = (
            part.view(b, n, self.n_heads, d // self.n_heads).transpose(1, 2) for part in self.c_attn(x).split(d, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(b, n, d)
        result: Tensor = self.resid_dropout(self.c_proj(y))
        return result


class MLP(nn.Module):
    """Four times as wide inside."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.c_fc, self.gelu, self.c_proj = nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Each position by itself."""
        result: Tensor = self.dropout(self.c_proj(self.gelu(self.c_fc(x))))
        return result


class Block(nn.Module):
    """Attention and MLP, each behind a norm."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(d_model), Attention(d_model, n_heads)
        self.ln_2, self.mlp = nn.LayerNorm(d_model), MLP(d_model)

    def forward(self, x: Tensor) -> Tensor:
        """The residual stream goes on."""
        x = x + self.attn(self.ln_1(x))
        result: Tensor = x + self.mlp(self.ln_2(x))
        return result


class GPT(nn.Module):
    """Token ids to logits."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, d_model), nn.Embedding(2_048, d_model)
        self.h = nn.ModuleList(Block(d_model, n_heads) for _ in range(N_LAYERS))
        self.ln_f, self.lm_head = nn.LayerNorm(d_model), nn.Linear(d_model, VOCAB, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """(batch, position) to (batch, position, vocab)."""
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        result: Tensor = self.lm_head(self.ln_f(x))
        return result


def recorded(module: nn.Module, ids: Tensor) -> Recording:
    """One forward and what was kept of it."""
    with recording(module) as seen:
        module(ids)
    return seen


class Least(TorchFunctionMode):
    """The least that recording takes: a mode and hooks that do nothing, and queries and keys that are kept."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.kept: list[tuple[Tensor, Tensor]] = []
        self.handles = [
            handle
            for each in module.modules()
            if isinstance(each, (GPT, Block, Attention, MLP))
            for handle in (each.register_forward_pre_hook(_nothing), each.register_forward_hook(_nothing))
        ]

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a function of torch."""
        if func is F.scaled_dot_product_attention:
            self.kept.append((args[0], args[1]))
        return func(*args, **(kwargs or {}))


def _nothing(*_: object) -> None:
    """A hook."""


def least(module: nn.Module, ids: Tensor) -> Least:
    """One forward under what PyTorch's own mechanism costs."""
    mode = Least(module)
    with mode:
        module(ids)
    for handle in mode.handles:
        handle.remove()
    return mode


def measure() -> list[Result]:
    """Time and memory at each width."""
    torch.manual_seed(0)
    models = {width: GPT(width, heads).eval() for width, heads in SIZES.items()}
    results = []
    with torch.no_grad():
        for width, model in models.items():
            results += _recording(width, model)
        results.append(_beside_output_attentions(512))
    return results


def _beside_output_attentions(n: int) -> Result:
    """GPT-2 of the transformers library, recorded where its fused attention runs, and with all weights from its own."""
    width, heads = next(iter(SIZES.items()))
    sizes = {"n_embd": width, "n_head": heads, "n_layer": N_LAYERS, "vocab_size": VOCAB, "n_positions": n}
    fused, eager = (
        GPT2LMHeadModel(
            GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, use_cache=False, attn_implementation=attention)
        ).eval()
        for attention in ("sdpa", "eager")
    )
    ids = torch.randint(VOCAB, (1, n))
    variants: dict[str, Callable[[], object]] = {
        "plain": partial(fused, ids),
        "recorded": partial(recorded, fused, ids),
        "all weights": partial(eager, ids, output_attentions=True),
    }
    times = interleaved(variants, ROUNDS[n])
    every = sum(one.nbytes for one in eager(ids, output_attentions=True).attentions)
    kept = kept_bytes(recorded(fused, ids))
    return Result(
        SECTION,
        f"GPT-2 of the transformers library, {width} wide, {n} tokens: recorded, and output_attentions=True",
        f"{ratio(times, 'recorded', 'plain'):.3f} x and {kept / 1e6:.0f} MB, "
        f"{ratio(times, 'all weights', 'plain'):.3f} x and {every / 1e6:.0f} MB",
        "",
        None,
    )


def _recording(width: int, model: nn.Module) -> list[Result]:
    results, sizes = [], []
    for n, rounds in ROUNDS.items():
        ids = torch.randint(VOCAB, (1, n))
        plain = model(ids)
        with recording(model) as seen:
            if not torch.equal(model(ids), plain):
                raise AssertionError(f"recording changed the output at {n} tokens")
        sizes.append(kept_bytes(seen))
        variants: dict[str, Callable[[Tensor], object]] = {
            "plain": model,
            "recorded": partial(recorded, model),
            "least": partial(least, model),
        }
        times = interleaved({name: partial(variant, ids) for name, variant in variants.items()}, rounds)
        cost, floor = ratio(times, "recorded", "plain"), ratio(times, "least", "plain")
        plain_ms = statistics.median(times["plain"]) * 1e3
        measured = f"{cost:.3f} x of {plain_ms:.0f} ms (an empty mode, empty hooks and kept keys: {floor:.3f} x)"
        what = f"{width} wide, {SIZES[width]} heads, {n} tokens: recorded against plain"
        results.append(Result(SECTION, what, measured, "at most 1.05 x", cost <= 1.05))
    bound = 4 * N_LAYERS * 3 * width
    return [
        *results,
        Result(
            SECTION,
            f"{width} wide: bytes kept a token, at {', '.join(f'{n:,}' for n in ROUNDS)} tokens",
            ", ".join(f"{size / n / 1e3:.1f} kB" for n, size in zip(ROUNDS, sizes, strict=True)),
            f"at most {bound / 1e3:.1f} kB: 4 x layers x 3 d_model",
            all(size <= bound * n for n, size in zip(ROUNDS, sizes, strict=True)),
        ),
    ]
