"""What the key/value cache saves: the same search with it and without.

Without it, each step passes source and prefix through the model again. Random weights write no end mark early, so
every search runs to the length that is asked for.
"""

from dataclasses import dataclass, field
from functools import partial

import torch

from benchmarks.measuring import Result, interleaved, ratio
from transformer.decoding.search import DecodingOptions, decode
from transformer.models.seq2seq import Seq2Seq, preset

GOALS = {30: 2.5, 100: 4.0}
"""Tokens written -> how many times faster the cache should be."""


@dataclass(frozen=True)
class Case:
    """A size of model and a width of search."""

    name: str
    beam: int
    sizes: dict[str, int] = field(default_factory=dict)


SHIPPED = dict(d_model=128, n_heads=4, d_ff=256, n_encoder_layers=4, n_decoder_layers=4)
CASES = (
    Case("4 + 4 layers, 128 wide, as shipped; beam 5, as the page decodes", 5, SHIPPED),
    Case("the same, greedy", 1, SHIPPED),
    Case("6 + 6 layers, 512 wide, the paper's base; greedy", 1),
)

SECTION = "Decoding with the cache against without (source of 20 tokens)"


def measure(rounds: int = 3) -> list[Result]:
    """Both ways, in turns; the tokens must be the same."""
    results = []
    for case in CASES:
        torch.manual_seed(0)
        model = Seq2Seq(preset("torch", source_vocab=5_000, target_vocab=5_000, **case.sizes)).eval()
        source = torch.randint(4, 5_000, (1, 20))
        for n, goal in GOALS.items():
            options = DecodingOptions(beam=case.beam, max_length=n)
            if decode(model, source, options)[0].ids != decode(model, source, options, cached=False)[0].ids:
                raise AssertionError(f"the cache changed the {n} tokens that the model writes: {case.name}")
            ways = {way: partial(decode, model, source, options, way == "cached") for way in ("cached", "naive")}
            faster = ratio(interleaved(ways, rounds), "naive", "cached")
            measured = f"{faster:.1f} x faster"
            results.append(Result(SECTION, f"{n} tokens: {case.name}", measured, f"at least {goal} x", faster >= goal))
    return results
