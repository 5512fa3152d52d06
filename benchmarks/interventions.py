"""What interventions cost: nothing while nobody asks for one; and how long a change takes to be read through."""

from functools import partial
from pathlib import Path

import torch

from benchmarks.forward import BERT_BASE, sharing_weights
from benchmarks.measuring import Result, interleaved, median_seconds, ratio
from transformer import DecodingOptions, Intervention, load, translate, watch
from transformer.models.encoder import Encoder
from transformer.runs.what_if import decoded_again, head_sweep, same_target

SECTION = "Interventions"
ROUNDS = {16: 60, 128: 30, 512: 11}
"""Tokens -> how often each variant runs."""

SENTENCE = "A man in a blue shirt is standing on a ladder cleaning a window."
CHECKPOINT = Path(__file__).parent.parent / "checkpoints" / "multi30k-en-de"


def measure(rounds: dict[int, int] | None = None) -> list[Result]:
    """A forward pass that could be changed and is not; and changed runs of the shipped translator."""
    torch.manual_seed(0)
    plain = Encoder(BERT_BASE).eval()
    watched = watch(sharing_weights(plain))
    results = []
    for n, times in (rounds or ROUNDS).items():
        ids = torch.randint(BERT_BASE.vocab, (1, n))
        with torch.inference_mode():
            if not torch.equal(plain(ids), watched(ids)):
                raise AssertionError(f"hooks changed the output at {n} tokens")
            seconds = interleaved({"plain": partial(plain, ids), "watched": partial(watched, ids)}, times)
        cost = ratio(seconds, "watched", "plain")
        what = f"{n} tokens, a pass without interventions against one without hooks"
        results.append(Result(SECTION, what, f"{cost:.3f} x", "at most 1.01 x", cost <= 1.01))
    return [*results, *_translator()]


def _translator() -> list[Result]:
    """The shipped translator on one sentence: same target, decode again, every head off."""
    checkpoint = load(CHECKPOINT)
    before = translate(checkpoint, SENTENCE, DecodingOptions())
    off = [Intervention("decoder.3.cross", "mean", heads=(1,))]
    tokens = len(before.target_ids)
    target = median_seconds(lambda: same_target(checkpoint, before, off), 15)
    again = median_seconds(lambda: decoded_again(checkpoint, SENTENCE, DecodingOptions(), off), 9)
    sweep = median_seconds(lambda: list(head_sweep(checkpoint, before, "mean")), 3)
    return [
        Result(SECTION, f"same target, {tokens} tokens", f"{target * 1e3:.0f} ms", "under 300 ms", target < 0.3),
        Result(SECTION, f"decode again, beam 5, {tokens} tokens", f"{again * 1e3:.0f} ms"),
        Result(SECTION, f"every one of 48 heads off, {tokens} tokens", f"{sweep:.2f} s", "under 2 s", sweep < 2),
    ]
