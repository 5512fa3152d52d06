"""Agreement of each head with deletion: how often it looks at the word without which the translation would be another.

For each written word, every source word is removed in turn, and the one whose removal lowers the written word's
log-probability most decides it. A head agrees where the largest weight of that row stands on the deciding word. So a
page can begin with a head that was measured, and not with the sharpest one, which may look sharply at the wrong word.

Removing a word means: the unknown token stands for each of its pieces (or, where a vocabulary has none, its pieces are
left out), and the target stays as it is. Rows that no source word changes by more than `DECIDED` count for nothing, nor
do special tokens.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from transformer.attention.measures import sites_of
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.explain.attribution.deletion import DECIDED, PARTS_AT_ONCE, deciding
from transformer.explain.attribution.result import ScoredSequence, groups, summed
from transformer.messages import Message
from transformer.runs.attribution import word_losses
from transformer.runs.concurrency import forward_slot
from transformer.runs.measures.files import MeasureFile
from transformer.runs.translate import Translation, translate
from transformer.sites import Site

EARNED = 0.5
"""A head has a role if it holds in at least this share of the rows."""

KIND = "decoder.cross"
RULE = "deletion"


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
    """Every cross-attention head of a checkpoint, measured on some sentences; `rows` is how many rows were decided."""

    sentences: int
    rows: int
    heads: tuple[HeadScore, ...]

    @property
    def best(self) -> HeadScore:
        """The head that agrees most often; of equals, the first."""
        return max(self.heads, key=lambda head: -1.0 if np.isnan(head.agreement) else head.agreement)

    def of(self, site: str, head: int) -> HeadScore | None:
        """One head's numbers; None for a head that was not measured."""
        return next((one for one in self.heads if one.site == site and one.head == head), None)


def head_agreement(checkpoint: Checkpoint, sentences: Sequence[str]) -> HeadAgreement:
    """Measure every cross-attention head on what the checkpoint makes of `sentences`.

    Costs a translation and a pass a source word for each sentence.

    Raises:
        InputError: there is no sentence, or one that the checkpoint cannot read.
        CheckpointError: the checkpoint does not translate text.
    """
    if not sentences:
        raise InputError("no_sentences_to_measure")
    rows = after = 0
    hits: dict[tuple[Site, int, int], np.ndarray] = defaultdict(lambda: np.zeros(2, int))
    for text in sentences:
        translation = translate(checkpoint, text)
        losses, sites = deciding_words(checkpoint, translation), sites_of(translation.record, KIND)
        special = np.array(translation.record[sites[0]].queries.merged().special)
        words = deciding(losses, special.tolist(), [False] * losses.shape[1], DECIDED).columns
        decided, follows = words >= 0, (words[:-1] >= 0) & ~special[1:]
        rows, after = rows + int(decided.sum()), after + int(follows.sum())
        for layer, site in enumerate(sites):
            for head in range(translation.record[site].n_heads):
                best = translation.record[site].picture(head, words=True).values.argmax(axis=1)
                same, one_behind = (best == words)[decided], (best[1:] == words[:-1])[follows]
                hits[site, layer, head] += same.sum(), one_behind.sum()
    shares = {place: counts / [rows or np.nan, after or np.nan] for place, counts in hits.items()}
    return HeadAgreement(len(sentences), rows, tuple(HeadScore(*place, *map(float, s)) for place, s in shares.items()))


def deciding_words(checkpoint: Checkpoint, translation: Translation) -> Float[np.ndarray, "target_word source_word"]:
    """By how much each written word's log-probability falls when a source word is removed, in nats.

    Words are those of the record's merged axes; columns of special tokens are NaN. See `attribution.deletion`.
    """
    unknown = checkpoint.translator()[1].unknown_id
    if unknown < 0:
        found = word_losses(checkpoint, translation, "removed").values
    else:
        found = _losses_by_unknown(translation.scored_sequence(checkpoint), unknown)
    keys = translation.record[sites_of(translation.record, KIND)[0]].keys.merged()
    losses = np.full((len(found), len(keys)), np.nan)  # location attention has a key past the source
    text = [word for word, special in enumerate(translation.axes.source.merged().special) if not special]
    losses[:, text] = found[:, text]
    return losses


def _losses_by_unknown(sequence: ScoredSequence, unknown: int) -> Float[np.ndarray, "target_word source_word"]:
    """What each written word loses (nats) when the unknown token stands for each piece of a source word."""
    words = [[], *groups(sequence.source, words=True)]  # the first is the whole
    rows = [[unknown if i in word else id_ for i, id_ in enumerate(sequence.source_ids)] for word in words]
    found = []
    for start in range(0, len(rows), PARTS_AT_ONCE):
        some = rows[start : start + PARTS_AT_ONCE]
        with forward_slot():
            found.append(sequence.log_probs(some, [sequence.read_ids] * len(some)))
    log_probs = torch.cat(found)
    return summed((log_probs[:1] - log_probs[1:]).T.numpy(), groups(sequence.written, words=True), 0)


def _checked(found: HeadAgreement) -> HeadAgreement:
    shares = np.array([[one.agreement, one.previous] for one in found.heads])
    if not found.heads or not (np.isnan(shares) | ((shares >= 0) & (shares <= 1))).all():
        raise ValueError("no heads, or shares that are none")
    return found


FILE = MeasureFile("heads.json", "heads", HeadAgreement, _checked, {"rule": RULE}, {"decided_nats": DECIDED})
known_agreement = FILE.beside
