"""What a look at a record costs: one head, a tile, an overview; each against the forward pass that it reads from."""

from functools import partial

import torch

from benchmarks.forward import BERT_BASE, recorded
from benchmarks.measuring import Result, cpu_seconds, median_seconds, peak_growth
from transformer.attention.capture import Recording, watch
from transformer.attention.record import AttentionMap
from transformer.nn.encoder import Encoder, EncoderConfig

BASE = EncoderConfig(vocab=1_000, d_model=512, n_heads=8, d_ff=2_048, n_layers=6, max_length=8_192)
"""As large as the encoder of the paper's base model; causal ones are measured too, since their mask costs something."""

SECTION = "Looking at a record"


def record_of(config: EncoderConfig, n: int, passes: int) -> tuple[Recording, float]:
    """The recording of one pass over random tokens, and the median CPU seconds of such a pass."""
    torch.manual_seed(0)
    model = watch(Encoder(config).eval())
    ids = torch.randint(config.vocab, (1, n))
    with torch.inference_mode():
        seconds = median_seconds(partial(recorded, model, ids), passes)
        return recorded(model, ids), seconds


def measure() -> list[Result]:
    """One head and one tile at 2,048 tokens, an overview at 8,192."""
    seen, forward = record_of(BERT_BASE, 2_048, 3)
    return [*_heads(seen["encoder.3.self"], forward), *_tiles(seen), *_overviews()]


def _heads(attention: AttentionMap, forward: float) -> list[Result]:
    share = median_seconds(lambda: attention.weights(5), 15) / forward
    return [
        Result(SECTION, "one head's 2,048 x 2,048 weights", f"{share:.2%} of the forward", "at most 1 %", share <= 0.01)
    ]


def _tiles(seen: Recording) -> list[Result]:
    corner = (slice(1_024, 1_280), slice(256, 512))
    site = iter(range(BERT_BASE.n_layers * BERT_BASE.n_heads))

    def first_look() -> object:
        index = next(site)
        return seen[f"encoder.{index // BERT_BASE.n_heads}.self"].tile(index % BERT_BASE.n_heads, *corner)

    attention = seen["encoder.11.self"]
    first = 1e3 * median_seconds(first_look, 50)
    again = 1e3 * median_seconds(lambda: attention.tile(11, *corner), 50)
    goal = "under 1 ms"
    return [
        Result(SECTION, "a 256 x 256 tile at 2,048 tokens, first look at its rows", f"{first:.2f} ms", goal, first < 1),
        Result(SECTION, "the same, after any look at its rows", f"{again:.2f} ms", goal, again < 1),
    ]


def _overviews() -> list[Result]:
    results = []
    for name, causal in (("everything visible", False), ("causal", True)):
        config = EncoderConfig(**(vars(BASE) | {"causal": causal}))
        seen, forward = record_of(config, 8_192, 1)
        attention = seen["encoder.3.self"]
        peak = peak_growth(partial(attention.overview, 2))
        share = min(cpu_seconds(partial(attention.overview, 5)) for _ in range(3)) / forward
        what = f"256 x 256 overview (block maxima) of 8,192 x 8,192, {name}"
        results += [
            Result(SECTION, what, f"{share:.2%} of the forward", "at most 2 %", share <= 0.02),
            Result(SECTION, f"{what}: extra memory", f"{peak / 1e6:.0f} MB", "under 100 MB", peak < 100e6),
        ]
    return results
