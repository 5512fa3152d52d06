"""Alignment error rates of every head, layer and method of a translator, against links that people drew."""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.explain.attribution.alignment_error import AlignmentCounts, alignment_counts
from transformer.explain.attribution.gold import GoldAlignment
from transformer.explain.attribution.methods import HEADED, LAYERED, attribute, defined
from transformer.runs.concurrency import forward_slot
from transformer.runs.measures.files import MeasureFile
from transformer.runs.translate import Translation, translate

SUMMARY = "alignment_error.json"
"""What the counts are called beside a checkpoint."""

Rates = dict[str, dict[str, AlignmentCounts]]
"""By name (`weights.2.3` is head 3 of layer 2, `norms.1` a layer, `contributions` a method), by row: written, read."""


@dataclass(frozen=True)
class AlignmentErrors:
    """Counts over so many sentences."""

    sentences: int
    methods: Rates


def alignment_errors(
    checkpoint: Checkpoint,
    gold: Sequence[GoldAlignment],
    progress: Callable[[int, int], None] | None = None,
    only: Collection[str] | None = None,
) -> Rates:
    """Counts of every question, over sentence pairs whose target is walked through; `only` names the methods to ask.

    Raises:
        InputError: a sentence cannot be run, or its pieces are not the words of its links.
        CheckpointError: the checkpoint does not translate text.
    """
    found: Rates = defaultdict(lambda: {"written": AlignmentCounts(), "read": AlignmentCounts()})
    for number, pair in enumerate(gold, 1):
        translation = translate(checkpoint, pair.source, forced=pair.target)
        sequence = translation.scored_sequence(checkpoint)
        for name, (method, layer, head) in questions(checkpoint, translation, only).items():
            with forward_slot():
                answer = attribute(sequence, translation.record, method, layer, head)
            for row in ("written", "read"):
                counts = alignment_counts(answer.of_source, answer.steps, answer.source, pair, reads=row == "read")
                found[name][row] += counts
        if progress:
            progress(number, len(gold))
    return dict(found)


def questions(
    checkpoint: Checkpoint, translation: Translation, only: Collection[str] | None = None
) -> dict[str, tuple[str, int | None, int | None]]:
    """Every method that is defined, by itself, of each layer and of each head, where it can be asked of one."""
    sequence = translation.scored_sequence(checkpoint)
    cross = [translation.record[site] for site in translation.record if site.group == "decoder.cross"]
    asked: dict[str, tuple[str, int | None, int | None]] = {}
    methods = defined(sequence, translation.record)
    for method in methods if only is None else [one for one in methods if one in only]:
        asked[method] = method, None, None
        for layer, attention in enumerate(cross if method in LAYERED else ()):
            asked[f"{method}.{layer}"] = method, layer, None
            for head in range(attention.n_heads if method in HEADED else 0):
                asked[f"{method}.{layer}.{head}"] = method, layer, head
    return asked


FILE = MeasureFile(SUMMARY, "alignment", AlignmentErrors, lambda found: found, {}, {})
shipped, read, saved = FILE.beside, FILE.read, FILE.write
