"""How far methods can be trusted that say which letters a class rests on: one sequence at a time.

Letters are ranked by a method. Comprehensiveness at k %: the log-odds (nats) of the class that the model itself finds,
lost where the first k % of the letters are unknown; sufficiency: lost where these alone are known. The rank correlation
is with mutations: what the class loses on average where another letter replaces each. Source: DeYoung et al. 2020,
"ERASER", section 4; the unknown letter replaces what is taken away.
"""

from collections.abc import Collection

import numpy as np
import torch
from jaxtyping import Float

from transformer.attention.measures import rank_correlation
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.explain.attribution.trust import PERCENTS, RANDOM_ORDERS, Trust, counted, mean_of, orders_of
from transformer.runs.sequences.attribution import integrated_gradients, log_odds_of_rows, mutations
from transformer.runs.sequences.classify import Classification, classifier
from transformer.sequences.folding import folded

MUTATIONS, GRADIENTS, WEIGHTS = "mutations", "integrated_gradients", "weights"
"""The tracks of a sequence: the first is what the others are compared with, the last the attention of the pooling."""

METHODS = (GRADIENTS, WEIGHTS)

POOLING = "pooling"

Scores = dict[str, Float[np.ndarray, " letter"]]
"""What each method says of each letter: more of it speaks for the class."""


def letter_scores(
    checkpoint: Checkpoint, run: Classification, target: int, only: Collection[str] | None = None
) -> Scores:
    """What every method, or `only` some, says of the letters that `run` read, about class `target`; mutations first.

    Integrated gradients that did not converge hold no numbers. A pooling that averages gives all windows even weights.

    Raises:
        InputError: the sequence is too long.
        CheckpointError: the checkpoint does not classify sequences.
    """
    found = {MUTATIONS: mutations(checkpoint, run.letters, target).lost}
    if only is None or GRADIENTS in only:
        walked = integrated_gradients(checkpoint, run.letters, target)
        found[GRADIENTS] = walked.added if walked.converged else np.full(len(run.letters), np.nan)
    if only is None or WEIGHTS in only:
        pooled = np.full(len(run.spans), 1 / len(run.spans))
        if POOLING in run.record:
            pooled = run.record[POOLING].head_average().astype(np.float64).mean(0)
        found[WEIGHTS] = folded(pooled, run.spans, len(run.letters)).relative
    return found


def letter_trust(checkpoint: Checkpoint, run: Classification, scores: Scores, target: int) -> dict[str, Trust]:
    """How each of `scores` fares, by name; beside them `random`, and `reversed`: mutations from the other end.

    A method without a number for some letter is not ranked (`rows` is 0).

    Raises:
        CheckpointError: the checkpoint does not classify sequences.
    """
    n = len(run.letters)
    orders = {name: orders_of(score[None])[0] for name, score in scores.items()}
    orders["reversed"] = orders[MUTATIONS][::-1]
    dice = np.random.default_rng(run.letters.ids)
    shuffled = [dice.permutation(n) for _ in range(RANDOM_ORDERS)]
    counts = [counted(percent, n) for percent in PERCENTS]
    everything, place = frozenset(range(n)), dict[frozenset[int], int]()
    for order in (*orders.values(), *shuffled):
        for first in (frozenset(order[:count].tolist()) for count in counts):
            place.setdefault(first, len(place))
            place.setdefault(everything - first, len(place))
    lost = _lost(checkpoint, run, list(place), target)

    def fares(order: np.ndarray, score: np.ndarray | None) -> Trust:
        firsts = [frozenset(order[:count].tolist()) for count in counts]
        both = np.array([[lost[place[first]], lost[place[everything - first]]] for first in firsts]).T
        if score is None:
            return Trust(both[0], both[1], 1, 0.0, 0)
        if np.isnan(score).any():
            return Trust(np.zeros(len(counts)), np.zeros(len(counts)), 0, 0.0, 0)
        found = rank_correlation(score, scores[MUTATIONS])
        return Trust(both[0], both[1], 1, 0.0 if np.isnan(found) else found, int(not np.isnan(found)))

    result = {name: fares(order, scores.get(name)) for name, order in orders.items()}
    result["random"] = mean_of(fares(order, None) for order in shuffled)
    return result


def _lost(
    checkpoint: Checkpoint, run: Classification, taken: list[frozenset[int]], target: int
) -> Float[np.ndarray, " set"]:
    """Log-odds that are lost where each set of letters is unknown."""
    _, task = classifier(checkpoint)
    rows = torch.tensor([run.letters.ids]).repeat(1 + len(taken), 1)
    for i, letters in enumerate(taken):
        rows[1 + i, list(letters)] = task.alphabet.unknown_id
    known = log_odds_of_rows(checkpoint, rows, target)
    lost: np.ndarray = (known[0] - known[1:]).numpy()
    return lost
