"""What is known of a checkpoint's heads: which of them a page starts with, and what each of them does."""

from transformer import Translation
from transformer.attention.measures import strongest_head
from transformer.messages import Message
from transformer.runs.head_agreement import HeadAgreement, head_agreement, known_agreement
from ui.store import store
from ui.store.cache import cached
from ui.store.refs import Revision

KIND = "decoder.cross"


def first_head(name: str, shown: Translation) -> tuple[int, int]:
    """The layer and head of cross-attention that a page starts with: the one that agrees most often with deletion.

    Where there is nothing to measure heads on, the surest of this sentence.
    """
    found = agreement(name)
    if found is not None and found.rows:
        return found.truest.layer, found.truest.head
    strongest = strongest_head(shown.record, KIND)
    return strongest.layer, strongest.head


def role_of(name: str, site: str, head: int) -> Message | None:
    """What a head does, where that was measured over several sentences; None where it earned no role."""
    found = agreement(name)
    score = None if found is None else found.of(site, head)
    return None if score is None else score.role


def agreement(name: str) -> HeadAgreement | None:
    """How often each head of cross-attention names the deciding word; None where there is nothing to measure on."""
    return _agreement(store.revision(name))


@cached(max_entries=32, spinner="store.measuring_heads")
def _agreement(revision: Revision) -> HeadAgreement | None:
    """What lies beside the weights, or is measured once; None without sentences to measure on."""
    checkpoint = store.load(revision)
    if not checkpoint.examples:
        return None
    return known_agreement(checkpoint) or head_agreement(checkpoint, checkpoint.examples)
