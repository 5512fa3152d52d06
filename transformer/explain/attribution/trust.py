"""How far an attribution can be trusted: is a word that it names one that the model cannot do without?

For each written word, source words are ranked by the method. Comprehensiveness at k %: the log-probability (nats)
that the written word loses without the first k % of them; high is good. Sufficiency: what it loses with these alone;
low is good. Source: DeYoung et al. 2020, "ERASER", section 4. Words go as deletion takes them; special tokens stay,
and are not ranked.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transformer.attention.measures import rank_correlation
from transformer.explain.attribution.deletion import How, without
from transformer.explain.attribution.result import Attribution, groups, summed
from transformer.explain.attribution.scored_sequence import ScoredSequence

PERCENTS = (10, 20, 30, 40, 50)
"""Shares of the source words that are taken away, or left alone."""

RANDOM_ORDERS = 5
"""Random orders whose mean is the baseline."""


@dataclass(frozen=True, eq=False)
class Trust:
    """How one ranking fares, summed over written words; `rows` counts those that it ranks.

    `spearman` is the sum of rank correlations with deletion over the `correlated` words where one is defined.
    """

    comprehensiveness: Float[np.ndarray, " percent"]
    sufficiency: Float[np.ndarray, " percent"]
    rows: int
    spearman: float
    correlated: int


def trust(sequence: ScoredSequence, answers: Mapping[str, Attribution], how: How = "hidden") -> dict[str, Trust]:
    """How each of `answers` fares, by name; beside them `random`, and `reversed`: deletion's order from its other end.

    Answers are in pieces or words; deletion itself is always computed, in words, and named `deletion` in the result.

    Raises:
        AttributionError: the model cannot be without a word in this way.
    """
    word_groups = groups(sequence.source, words=True)
    words = [i for i, special in enumerate(sequence.source.merged().special) if not special]
    steps = [i for i, special in enumerate(sequence.written.merged().special) if not special]
    single = _lost(sequence, how, [list(word_groups[i]) for i in words])[steps]  # (step, word)
    scores = {"deletion": single} | {
        name: answer.merged().of_source[np.ix_(steps, words)] for name, answer in answers.items() if name != "deletion"
    }
    orders = {name: orders_of(table) for name, table in scores.items()}
    orders["reversed"] = orders["deletion"][:, ::-1]
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
    wanted = [[step in of for step in _ranked(sequence, steps)] for of in asked.values()]
    lost = _lost(sequence, how, hidden, torch.tensor(wanted))[steps]

    def fares(table: np.ndarray, score: np.ndarray | None) -> Trust:
        known = range(len(steps)) if score is None else np.flatnonzero(~np.isnan(score).any(1))
        both = np.zeros((2, len(PERCENTS)))
        for i, count in enumerate(counts):
            for row in known:
                first = frozenset(table[row, :count].tolist())
                both[:, i] += lost[row, place[first]], lost[row, place[everything - first]]
        found = [] if score is None else [rank_correlation(score[row], single[row]) for row in known]
        defined = [value for value in found if not np.isnan(value)]
        return Trust(both[0], both[1], len(known), float(sum(defined)), len(defined))

    result = {name: fares(table, scores.get(name)) for name, table in orders.items()}
    result["random"] = mean_of(fares(table, None) for table in shuffled)
    return result


def counted(percent: int, n: int) -> int:
    """How many of `n` words `percent` is: at least one, halves rounded up."""
    return max(1, int(percent * n / 100 + 0.5))


def orders_of(scores: Float[np.ndarray, "step word"]) -> np.ndarray:
    """Words from the highest score to the lowest; of equal ones the first comes first."""
    return np.argsort(-scores, axis=1, kind="stable")


def _lost(
    sequence: ScoredSequence, how: How, hidden: list[list[int]], wanted: Bool[Tensor, "set target"] | None = None
) -> Float[np.ndarray, "step set"]:
    """Log-probability that each written word loses without each set of source positions."""
    whole = without(sequence, how, [[]])
    lost = (whole - without(sequence, how, hidden, wanted)).T.numpy()
    return summed(lost, groups(sequence.written, words=True), 0)


def _ranked(sequence: ScoredSequence, steps: list[int]) -> list[int]:
    """For each written token the number of its word among those that are ranked; -1 where it is none of them."""
    number = {word: i for i, word in enumerate(steps)}
    found = [-1] * len(sequence.written)
    for word, tokens in enumerate(groups(sequence.written, words=True)):
        for token in tokens:
            found[token] = number.get(word, -1)
    return found


def mean_of(found: Iterable[Trust]) -> Trust:
    """The mean of several random orders; they have no correlation."""
    each = list(found)
    comprehensiveness = np.mean([one.comprehensiveness for one in each], axis=0)
    sufficiency = np.mean([one.sufficiency for one in each], axis=0)
    return Trust(comprehensiveness, sufficiency, each[0].rows, 0.0, 0)
