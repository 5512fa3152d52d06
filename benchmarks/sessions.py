"""Eight sessions at once on one checkpoint: does each get its own attention, and does memory stay bounded?"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.measuring import Result, peak_growth
from transformer import Checkpoint, DecodingOptions, Translation, load, translate

CHECKPOINT = Path(__file__).parents[1] / "checkpoints" / "multi30k-en-de"
RUNS = 1_000
OPTIONS = DecodingOptions(beam=1, max_length=40)
SECTION = "Eight sessions at once"
SENTENCES = (
    "A man is riding a bicycle.",
    "Two women in red coats are talking in front of a shop.",
    "Three children play football on the beach.",
    "A small brown dog jumps over a fence.",
    "A group of tourists is looking at an old church.",
    "An old lady sells flowers at the market.",
    "The boy climbs a tree.",
    "Several workers in orange vests repair the road at night.",
)


@dataclass(frozen=True)
class Seen:
    """What one run must have seen, whoever runs beside it."""

    text: str
    maps: dict[str, np.ndarray]

    @classmethod
    def of(cls, translation: Translation) -> "Seen":
        """Every weight of every head."""
        return cls(translation.text, {site: attention.all_weights() for site, attention in translation.record.items()})

    def differs(self, other: "Seen") -> bool:
        """Whether anything at all is not exactly the same."""
        if self.text != other.text or list(self.maps) != list(other.maps):
            return True
        return not all(np.array_equal(self.maps[site], other.maps[site]) for site in self.maps)


def wrong_records(checkpoint: Checkpoint, sentences: Sequence[str], runs: int) -> int:
    """How many of `runs`, spread over as many sessions as there are sentences, differ from a run without company."""
    alone = {sentence: Seen.of(translate(checkpoint, sentence, OPTIONS)) for sentence in sentences}
    together = threading.Barrier(len(sentences))

    def session(sentence: str) -> int:
        together.wait()
        share = runs // len(sentences)
        return sum(alone[sentence].differs(Seen.of(translate(checkpoint, sentence, OPTIONS))) for _ in range(share))

    with ThreadPoolExecutor(len(sentences)) as sessions:
        return sum(sessions.map(session, sentences))


def measure(runs: int = RUNS) -> list[Result]:
    """Wrong records, and the memory that eight sessions take above one."""
    checkpoint = load(CHECKPOINT)
    wrong: list[int] = []
    one = peak_growth(lambda: wrong_records(checkpoint, SENTENCES[:1], 40))
    peak = peak_growth(lambda: wrong.append(wrong_records(checkpoint, SENTENCES, runs)))
    return [
        Result(SECTION, f"wrong records in {runs:,} runs", str(wrong[0]), "0", wrong[0] == 0),
        Result(
            SECTION,
            "memory above where it stood, at its highest",
            f"{peak / 1e6:.0f} MB (one session alone: {one / 1e6:.0f} MB)",
            "under 200 MB",
            peak < 200e6,
        ),
    ]
