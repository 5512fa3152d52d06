"""A small sequence classifier with random weights, for tests that need no trained one."""

import torch

from heedmap.attention.capture import watch
from heedmap.checkpoint.checkpoint import Checkpoint
from heedmap.nn.kmer import KmerClassifier, KmerConfig
from heedmap.sequences.alphabet import DNA
from heedmap.sequences.task import Landmark, SequenceTask


def sequence_checkpoint(seed: int = 0, double: bool = False, **options: object) -> Checkpoint:
    """Widths 3 and 5, two layers of three heads, attention pooling, three classes."""
    sizes: dict[str, object] = dict(
        vocab=5, n_classes=3, d_model=12, n_heads=3, n_layers=2, d_ff=17, widths=(3, 5), dropout=0.0, norm_first=True,
        positions="sinusoidal", scale_embedding=False, pooling="attention",
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = KmerClassifier(KmerConfig.of(**(sizes | options)))  # type: ignore[arg-type]
    task = SequenceTask(DNA, ("EI", "IE", "N"), 23, 1.7, {"EI": "donor"}, (Landmark("EI", 11, "GT", "donor GT"),))
    return Checkpoint("small", watch((model.double() if double else model).eval()), task=task)
