"""Deletion: what the written tokens lose when one part of the input is not there, and how others fare against it.

For each source word j: log p(y_t | x, y_<t) - log p(y_t | x without j, y_<t), teacher forced, in nats. Positive: the
word spoke for the token. Two ways to be without: hidden from every attention, or taken out and all read again. Source:
Zeiler and Fergus 2014, section 4.2 (occlusion); Li et al. 2016, "Understanding neural networks through representation
erasure".

Trust: for each written word, source words are ranked by a method. Comprehensiveness at k %: the log-probability (nats)
that the written word loses without the first k % of them; high is good. Sufficiency: what it loses with these alone;
low is good. Words go as deletion takes them; special tokens stay, and are not ranked. Source: DeYoung et al. 2020,
"ERASER", section 4.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...attention.measures import rank_correlation
from ...errors import NotDefinedError
from ...messages import Message
from ...plots.picture import Quantity
from .result import POSITIONS_AT_ONCE, Attribution, ScoredSequence, causal_visible, groups, summed

How = Literal["hidden", "removed"]
"""How a part is not there: hidden from every attention, or taken out and all read again."""

Progress = Callable[[float], None]
"""Told what share of the work is done, from 0 to 1; it may raise to stop."""


def untold(done: float) -> None:
    """Nobody asks how much is done."""


Part = tuple[list[int], list[int]]
"""What is taken away together: positions of the source, and of the prefix."""

PARTS_AT_ONCE = 64
"""Most parts that are taken away between two reports of progress; of long texts fewer."""


def deletion(
    sequence: ScoredSequence,
    how: How = "hidden",
    words: bool = False,
    prefix: bool = True,
    progress: Progress = untold,
) -> Attribution:
    """What each written token loses without each source token, and without each token of the target prefix.

    `words` takes all pieces of a word away together, and adds up the log-probabilities of a written word's pieces: the
    exact loss of words, which no sum over pieces gives. `prefix=False` leaves the prefix out. Taking out and reading
    again moves every later position, so it is done to the source alone. Costs one run a part, in batches.

    A hidden token is no key any more; at its own position the model still holds it, so the step that read it last loses
    only what attention gave. A step loses exactly 0 with what it had not read yet. Where nothing would be left to read,
    the column is not visible.

    Raises:
        AttributionError: the model reads its source in order, so hiding does not take a word away; or there is no
            source to take words out of.
    """
    _check(sequence, how)
    source_parts = groups(sequence.source, words)
    with_prefix = prefix and how == "hidden"
    read_parts = groups(sequence.read, words) if with_prefix else []
    parts: list[Part] = [*((part, []) for part in source_parts), *(([], part) for part in read_parts)]
    rows, found = [([], []), *parts], []  # the first is the whole
    size = max(1, min(PARTS_AT_ONCE, 2 * POSITIONS_AT_ONCE // (len(sequence.source_ids) + len(sequence.read_ids))))
    for start in range(0, len(rows), size):
        found.append(_without(sequence, how, rows[start : start + size]))
        progress(min(1.0, (start + size) / len(rows)))
    log_probs = torch.cat(found)
    lost = (log_probs[:1] - log_probs[1:]).T.numpy()  # (step, part)
    axis = sequence.read if with_prefix else sequence.read.kept(())
    seen = causal_visible(len(sequence.written), len(sequence.source), len(axis))
    shifted = [[i + len(sequence.source) for i in part] for part in read_parts]
    visible = summed(seen, [*source_parts, *shifted], 1) > 0  # (step, part)
    lost = np.where(visible, lost, 0.0)  # not what rounding left of it
    if words:
        written = groups(sequence.written, words)
        lost, visible = summed(lost, written, 0), summed(visible, written, 0) > 0
    if how == "removed":  # of a source that is one word nothing would be left
        visible &= [len(part) < len(sequence.source_ids) for part in source_parts]
    notes = [Message(f"note_deletion_{how}")]
    notes += [Message("note_deletion_prefix")] if with_prefix else []
    notes += [Message("note_deletion_words")] if words else []
    steps, source, read = (one.merged() if words else one for one in (sequence.written, sequence.source, axis))
    return Attribution(
        deletion_name(how), steps, source, read, lost, visible, Quantity.LOG_PROB_LOST, notes=tuple(notes)
    )


def deletion_name(how: How) -> str:
    """The name that the method has among others, by how it takes words away."""
    return "deletion" if how == "hidden" else f"deletion_{how}"


def without(
    sequence: ScoredSequence,
    how: How,
    hidden: Sequence[Sequence[int]],
    wanted: Bool[Tensor, "row target"] | None = None,
) -> Float[Tensor, "row target"]:
    """Log-probabilities (nats) of the written tokens without some source positions, once for each list of positions.

    NaN where nothing would be left to read, and where `wanted` is given and False.
    """
    _check(sequence, how)
    return _without(sequence, how, [(list(positions), []) for positions in hidden], wanted)


def _check(sequence: ScoredSequence, how: How) -> None:
    if how == "hidden" and not sequence.model.abilities.hides:
        raise NotDefinedError("attribution_cannot_hide", name=sequence.name)
    if how == "removed" and not sequence.source_ids:
        raise NotDefinedError("attribution_no_source_to_cut", name=sequence.name)


def _without(
    sequence: ScoredSequence, how: How, parts: Sequence[Part], wanted: Bool[Tensor, "part target"] | None = None
) -> Float[Tensor, "part target"]:
    """Log-probabilities without each part."""
    n_source, n_read = len(sequence.source_ids), len(sequence.read_ids)
    if how == "hidden":
        shown, shown_read = torch.ones(len(parts), n_source).bool(), torch.ones(len(parts), n_read).bool()
        for row, (source, read) in enumerate(parts):
            shown[row, source], shown_read[row, read] = False, False
        sources: list[Sequence[int]] = [sequence.source_ids] * len(parts)
        reads: list[Sequence[int]] = [sequence.read_ids] * len(parts)
        return sequence.log_probs(sources, reads, shown, shown_read, wanted)
    by_length: dict[int, list[int]] = defaultdict(list)
    for row, (source, _) in enumerate(parts):
        by_length[n_source - len(source)].append(row)
    found = torch.full((len(parts), n_read), torch.nan, dtype=torch.float64)
    for length, rows in by_length.items():
        if length:
            left = [[id_ for i, id_ in enumerate(sequence.source_ids) if i not in parts[row][0]] for row in rows]
            asked = None if wanted is None else wanted[rows]
            found[rows] = sequence.log_probs(left, [sequence.read_ids] * len(rows), wanted=asked)
    return found


DECIDED = 1.0
"""A source word decides a written one if its removal costs more than this many nats of log-probability."""


@dataclass(frozen=True, eq=False)
class Deciding:
    """For each written word the source word that decides it, as a column (-1: none), and the most that it loses (nats).

    A special token neither decides nor is decided. `needed` is for each source word the most that any written word
    loses without it; 0 for special tokens.
    """

    columns: Int[np.ndarray, " step"]
    lost: Float[np.ndarray, " step"]
    needed: Float[np.ndarray, " part"]


def deciding(
    lost: Float[np.ndarray, "step part"],
    steps_special: Sequence[bool],
    parts_special: Sequence[bool],
    least: float = DECIDED,
) -> Deciding:
    """What decides each step, by losses by step and part, in nats; NaN where a loss is not known."""
    counted = np.where(np.isnan(lost) | np.array(parts_special, dtype=bool), -np.inf, lost)
    most, is_word = counted.max(axis=1, initial=-np.inf), ~np.array(steps_special, dtype=bool)
    columns = counted.argmax(axis=1) if counted.shape[1] else np.zeros(len(counted), dtype=int)
    needed = counted[is_word].max(axis=0, initial=0.0)
    return Deciding(np.where((most > least) & is_word, columns, -1), most, needed)


PERCENTS = (10, 20, 30, 40, 50)
"""Shares of the source words that are taken away, or left alone."""

RANDOM_ORDERS = 5
"""Random orders whose mean is the baseline."""


@dataclass(frozen=True, eq=False)
class Trust:
    """How one ranking fares at each written word; a row is NaN where the ranking has no numbers.

    `spearman` is the rank correlation with deletion, NaN too where none is defined.
    """

    comprehensiveness: Float[np.ndarray, "row percent"]
    sufficiency: Float[np.ndarray, "row percent"]
    spearman: Float[np.ndarray, " row"]


def trust(
    sequence: ScoredSequence,
    answers: Mapping[str, Attribution],
    how: How = "hidden",
    chosen: Sequence[int] | None = None,
) -> dict[str, Trust]:
    """How each of `answers` fares, by name, and beside them `random`.

    Rows are the written words `chosen`, by default all that are no special tokens. Answers are in pieces or words;
    deletion itself (`deletion_name`) is always computed, in words.
    """
    word_groups = groups(sequence.source, words=True)
    words = [i for i, special in enumerate(sequence.source.merged().special) if not special]
    steps = written_words(sequence) if chosen is None else list(chosen)
    single = _lost(sequence, how, [word_groups[i] for i in words])[steps]  # (step, word)
    truth = deletion_name(how)
    scores = {truth: single} | {
        name: answer.merged().of_source[np.ix_(steps, words)] for name, answer in answers.items() if name != truth
    }
    orders = {name: np.argsort(-table, axis=1, kind="stable") for name, table in scores.items()}  # of equals the first
    dice = np.random.default_rng(sequence.source_ids)
    shuffled = [np.tile(dice.permutation(len(words)), (len(steps), 1)) for _ in range(RANDOM_ORDERS)]
    counts = [counted(percent, len(words)) for percent in PERCENTS]
    everything, asked = frozenset(range(len(words))), defaultdict[frozenset[int], set[int]](set)
    for table in (*orders.values(), *shuffled):
        for step, row in enumerate(table):
            for first in (frozenset(row[:count].tolist()) for count in counts):
                asked[first].add(step)
                asked[everything - first].add(step)
    place = {taken: i for i, taken in enumerate(asked)}
    hidden = [[i for word in taken for i in word_groups[words[word]]] for taken in asked]
    step_of = {i: step for step, word in enumerate(steps) for i in groups(sequence.written, words=True)[word]}
    wanted = [[step_of.get(i) in of for i in range(len(sequence.written))] for of in asked.values()]
    lost = _lost(sequence, how, hidden, torch.tensor(wanted))[steps]

    def fares(table: np.ndarray, score: np.ndarray | None) -> Trust:
        both, found = np.full((2, len(steps), len(PERCENTS)), np.nan), np.full(len(steps), np.nan)
        for row in range(len(steps)) if score is None else np.flatnonzero(~np.isnan(score).any(1)):
            for i, first in enumerate(frozenset(table[row, :count].tolist()) for count in counts):
                both[:, row, i] = lost[row, place[first]], lost[row, place[everything - first]]
            found[row] = np.nan if score is None else rank_correlation(score[row], single[row])
        return Trust(both[0], both[1], found)

    chance = [(one.comprehensiveness, one.sufficiency) for one in (fares(table, None) for table in shuffled)]
    kept, alone = (np.mean(each, axis=0) for each in zip(*chance, strict=True))
    random = Trust(kept, alone, np.full(len(steps), np.nan))
    return {name: fares(table, scores.get(name)) for name, table in orders.items()} | {"random": random}


def written_words(sequence: ScoredSequence) -> list[int]:
    """The written words that are no special tokens, as rows of an answer in words."""
    return [i for i, special in enumerate(sequence.written.merged().special) if not special]


def counted(percent: int, n: int) -> int:
    """How many of `n` words `percent` is: at least one, halves rounded up."""
    return max(1, int(percent * n / 100 + 0.5))


def _lost(
    sequence: ScoredSequence, how: How, hidden: list[list[int]], wanted: Bool[Tensor, "set target"] | None = None
) -> Float[np.ndarray, "step set"]:
    """Log-probability that each written word loses without each set of source positions."""
    whole = without(sequence, how, [[]])
    lost = (whole - without(sequence, how, hidden, wanted)).T.numpy()
    return summed(lost, groups(sequence.written, words=True), 0)
