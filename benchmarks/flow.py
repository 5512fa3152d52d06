"""What it costs to see what flows through a run.

The model is the shipped translator's shape: 4 + 4 layers, 128 wide; 24 source and 21 target tokens, random weights.
"""

import torch
from torch import Tensor

from benchmarks.measuring import Result, interleaved, median_seconds, ratio
from transformer.flow.capture import tracing, watch_flow
from transformer.models.seq2seq import Seq2Seq, Seq2SeqConfig

SECTION = "What flows through a run (4 + 4 layers, 128 wide, 24 and 21 tokens)"
ROUNDS = 60
CONFIG = Seq2SeqConfig(
    source_vocab=6_000, target_vocab=6_000, d_model=128, n_heads=4, d_ff=256, n_encoder_layers=4, n_decoder_layers=4
)


def measure(rounds: int = ROUNDS) -> list[Result]:
    """A forward pass of the model, which has no hooks, against one of its twin, traced."""
    torch.manual_seed(0)
    plain = Seq2Seq(CONFIG).eval()
    twin = watch_flow(plain)
    source, target = torch.randint(3, 6_000, (1, 24)), torch.randint(3, 6_000, (1, 21))

    def traced() -> Tensor:
        with tracing():
            return twin(source, target)

    with torch.inference_mode():
        if not torch.equal(plain(source, target), traced()):
            raise AssertionError("tracing changed the output")
        seconds = interleaved({"plain": lambda: plain(source, target), "traced": traced}, rounds)
        twins = median_seconds(lambda: watch_flow(plain), 9)
    hooks = sum(len(module._forward_hooks) for module in plain.modules())
    return [
        Result(SECTION, "hooks on a model that nobody traces", f"{hooks}", "0", hooks == 0),
        Result(SECTION, "traced, against not", f"{ratio(seconds, 'traced', 'plain'):.3f} x"),
        Result(SECTION, "making the twin that is traced", f"{1e3 * twins:.1f} ms"),
    ]
