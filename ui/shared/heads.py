"""What is known of a checkpoint's heads: which of them a page starts with, and what each of them does."""

from collections.abc import Callable

from transformer import Translation
from transformer.atlas.roles import roles
from transformer.attention.measures import strongest_head
from transformer.messages import Message
from transformer.runs.measures.head_agreement import HeadAgreement, head_agreement, known_agreement
from transformer.sites import Site
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
        return found.best.layer, found.best.head
    strongest = strongest_head(shown.record, KIND)
    return strongest.layer, strongest.head


def role_of(name: str, site: str, head: int) -> str | None:
    """What a head does, where that was measured over many sentences; None where nobody knows.

    Of cross-attention, whether it names the deciding word or follows the one before; else what the atlas says.
    """
    return roles_of(name)(site, head)


def roles_of(name: str) -> Callable[[str, int], str | None]:
    """`role_of` for all heads of a checkpoint, looked up once."""
    found, atlas = agreement(name), _atlas(store.revision(name))

    def role(site: str, head: int) -> str | None:
        score = None if found is None else found.of(site, head)
        measured = None if score is None else score.role
        return measured or atlas.get((Site(site), head))

    return role


def agreement(name: str) -> HeadAgreement | None:
    """How often each head of cross-attention names the deciding word; None where there is nothing to measure on."""
    return _agreement(store.revision(name))


@cached(spinner="store.measuring_heads")
def _agreement(revision: Revision) -> HeadAgreement | None:
    """What lies beside the weights, or is measured once; None without sentences to measure on."""
    checkpoint = store.load(revision)
    if not checkpoint.examples:
        return None
    return known_agreement(checkpoint) or head_agreement(checkpoint, checkpoint.examples)


@cached()
def _atlas(revision: Revision) -> dict[tuple[Site, int], Message]:
    """What the atlas beside the weights says of each head; of a snapshot it says nothing."""
    checkpoint = store.load(revision)
    known = checkpoint.folder is not None and checkpoint.folder.name == checkpoint.name
    return roles(checkpoint.folder) if known and checkpoint.folder else {}
