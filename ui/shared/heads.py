"""What was measured on a checkpoint: its heads, the one that a page starts with, and the texts that it knows."""

from collections.abc import Callable
from pathlib import Path

from heedmap import Translation
from heedmap.attention.alignments import Head
from heedmap.attention.measures import strongest_head
from heedmap.runs.measures.head_agreement import HeadAgreement, head_agreement, known_agreement
from heedmap.runs.measures.importance import FILE, Importance
from ui.store import atlases, store
from ui.store.cache import cached
from ui.store.refs import CheckpointRef, Revision
from ui.store.store import of_checkpoint
from ui.texts import plain, t

KIND = "decoder.cross"


def first_head(name: str, shown: Translation) -> tuple[int, int]:
    """The layer and head of cross-attention that a page starts with: the one that agrees most often with deletion.

    Where there is nothing to measure heads on, the surest of this sentence.
    """
    found = agreement(name)
    if found is not None and found.rows:
        return found.best.layer, found.best.head
    return strongest_head(shown.record, KIND)


def head_text(head: Head) -> str:
    """A layer and a head of it, or their mean, in words."""
    return plain(f"align.head_{'mean' if head.head == 'mean' else 'one'}", layer=head.layer, head=head.head)


def roles_of(name: str) -> Callable[[str, int], str | None]:
    """What a head of a site does, where that was measured over many sentences; None where nobody knows.

    Of cross-attention, whether it names the deciding word or follows the one before; else what the atlas says.
    """
    found, atlas = agreement(name), atlases.atlas(name)
    habits = {} if atlas is None else atlas.habits

    def role(site: str, head: int) -> str | None:
        score = None if found is None else found.of(site, head)
        measured = None if score is None else score.role
        return measured or habits.get((site, head), (None, 0))[0]

    return role


def importance(name: str) -> Importance | None:
    """How much each head of a checkpoint matters, as it was measured; None where it was not.

    Raises:
        CheckpointError: what lies beside the checkpoint is damaged.
    """
    ref = CheckpointRef.parse(name)
    path = store.CHECKPOINTS / ref.name / FILE.name
    return _importance(path, path.stat().st_mtime_ns) if store.is_shipped(ref) and path.is_file() else None


@cached()
def _importance(path: Path, written: int) -> Importance:  # noqa: ARG001  (part of the cache key)
    return FILE.read(path)


@of_checkpoint(spinner="store.measuring_heads")
def agreement(revision: Revision) -> HeadAgreement | None:
    """How often each head of cross-attention names the deciding word; None where there is nothing to measure on.

    It lies beside the weights, or is measured once.
    """
    checkpoint = store.load(revision)
    return known_agreement(checkpoint) or (head_agreement(checkpoint) if checkpoint.examples else None)


def likelihood(own: Translation, read: Translation) -> str:
    """Markdown: the log-probability of the model's own translation and, where it reads another text, of that too."""
    if read.text == own.text:
        return t("align.likely", own=own.log_prob)
    return t("align.likelier", own=own.log_prob, read=read.log_prob, target=read.text)
