"""What it costs to be able to see what flows through a run, and to see it.

The model is the shipped translator's shape: 4 + 4 layers, 128 wide; 24 source and 21 target tokens, random weights.
"""

import copy

import torch

from benchmarks.measuring import Result, interleaved, ratio
from transformer.flow.capture import tracing, watch_flow
from transformer.models.seq2seq import Seq2Seq, Seq2SeqConfig

SECTION = "What flows through a run (4 + 4 layers, 128 wide, 24 and 21 tokens)"
ROUNDS = 60
CONFIG = Seq2SeqConfig(
    source_vocab=6_000, target_vocab=6_000, d_model=128, n_heads=4, d_ff=256, n_encoder_layers=4, n_decoder_layers=4
)


def measure(rounds: int = ROUNDS) -> list[Result]:
    """A forward pass without hooks, with hooks that nobody asks, and traced."""
    torch.manual_seed(0)
    plain = Seq2Seq(CONFIG).eval()
    watched = watch_flow(copy.deepcopy(plain, {id(t): t for t in [*plain.parameters(), *plain.buffers()]}))
    source, target = torch.randint(3, 6_000, (1, 24)), torch.randint(3, 6_000, (1, 21))

    def traced() -> None:
        with tracing():
            watched(source, target)

    with torch.inference_mode():
        if not torch.equal(plain(source, target), watched(source, target)):
            raise AssertionError("the hooks changed the output")
        seconds = interleaved(
            {"plain": lambda: plain(source, target), "watched": lambda: watched(source, target), "traced": traced},
            rounds,
        )
    cost, asked = ratio(seconds, "watched", "plain"), ratio(seconds, "traced", "plain")
    return [
        Result(SECTION, "hooks that nobody asks, against none", f"{cost:.3f} x", "at most 1.02 x", cost <= 1.02),
        Result(SECTION, "traced, against no hooks", f"{asked:.3f} x"),
    ]
