"""Agreement of each head with deletion: how often it looks at the word without which the translation would be another.

Which source word decides a written one is said in one place, `runs.attribution.deciding`: the word whose removal lowers
its log-probability most, by more than `DECIDED`; special tokens neither decide nor are decided. A head agrees where the
largest weight of that row stands on the deciding word. So a page can begin with a head that was measured, and not with
the sharpest one, which may look sharply at the wrong word.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...attention.measures import sites_of
from ...checkpoint.checkpoint import Checkpoint
from ...checkpoint.ours.folder import EXAMPLES
from ...errors import InputError
from ...explain.attribution.deletion import DECIDED
from ...messages import Message
from ...sites import Site
from ..attribution import deciding
from ..translate import translate
from .files import MeasureFile

EARNED = 0.5
"""A head has a role if it holds in at least this share of the rows."""

KIND = "decoder.cross"
RULE = "usual deletion"


@dataclass(frozen=True)
class HeadScore:
    """One head: in which share of the decided rows its largest weight stands on the word that decides the row.

    `previous` is the share of rows in which it stands on the word that decides the row *before*: a head that follows
    the word that was written last. NaN where no row counts.
    """

    site: Site
    layer: int
    head: int
    agreement: float
    previous: float

    @property
    def role(self) -> Message | None:
        """What the head does more often, in at least half of the rows; of equals, that it names the deciding word."""
        best = max(self.agreement, self.previous)
        if not best >= EARNED:
            return None
        return Message("role_deciding_word") if self.agreement >= self.previous else Message("role_word_before")


@dataclass(frozen=True)
class HeadAgreement:
    """Every cross-attention head of a checkpoint, measured on sentences of `data`.

    `rows` counts the written words that one source word decides, `after` the words that follow such a word.
    """

    data: str
    sentences: int
    rows: int
    after: int
    heads: tuple[HeadScore, ...]

    @property
    def best(self) -> HeadScore:
        """The head that agrees most often; of equals, the first."""
        return max(self.heads, key=lambda head: -1.0 if np.isnan(head.agreement) else head.agreement)

    def of(self, site: str, head: int) -> HeadScore | None:
        """One head's numbers; None for a head that was not measured."""
        return next((one for one in self.heads if one.site == site and one.head == head), None)


def head_agreement(
    checkpoint: Checkpoint, sentences: Sequence[str] | None = None, data: str = EXAMPLES
) -> HeadAgreement:
    """Measure every cross-attention head on what the checkpoint makes of sentences of `data`, by default its examples.

    Costs a translation and a pass a source word for each sentence.

    Raises:
        InputError: there is no sentence, or one that the checkpoint cannot read.
        CheckpointError: the checkpoint does not translate text.
    """
    sentences = checkpoint.examples if sentences is None else sentences
    if not sentences:
        raise InputError("no_sentences_to_measure")
    rows = after = 0
    hits: dict[tuple[Site, int, int], np.ndarray] = defaultdict(lambda: np.zeros(2, int))
    for text in sentences:
        translation = translate(checkpoint, text)
        words, sites = deciding(checkpoint, translation).columns, sites_of(translation.record, KIND)
        special = np.array(translation.record[sites[0]].queries.merged().special)
        decided, follows = words >= 0, (words[:-1] >= 0) & ~special[1:]
        rows, after = rows + int(decided.sum()), after + int(follows.sum())
        for layer, site in enumerate(sites):
            for head in range(translation.record[site].n_heads):
                best = translation.record[site].picture(head, words=True).values.argmax(axis=1)
                same, one_behind = (best == words)[decided], (best[1:] == words[:-1])[follows]
                hits[site, layer, head] += same.sum(), one_behind.sum()
    shares = {place: counts / [rows or np.nan, after or np.nan] for place, counts in hits.items()}
    scores = tuple(HeadScore(*place, *map(float, both)) for place, both in shares.items())
    return HeadAgreement(data, len(sentences), rows, after, scores)


def _checked(found: HeadAgreement) -> HeadAgreement:
    shares = np.array([[one.agreement, one.previous] for one in found.heads])
    if not found.heads or not (np.isnan(shares) | ((shares >= 0) & (shares <= 1))).all():
        raise ValueError("no heads, or shares that are none")
    return found


FILE = MeasureFile("heads.json", "heads", HeadAgreement, _checked, {"rule": RULE}, {"decided_nats": DECIDED})
known_agreement = FILE.beside
