"""How far a prediction is from the answer."""

from dataclasses import dataclass

import numpy as np

from transformer.attention.measures import agreement
from transformer.teaching.case import Case
from transformer.teaching.data import Question


@dataclass(frozen=True)
class Judged:
    """A prediction beside the answer.

    `off` is how far it is: of a number the difference, of a choice that of the scores (NaN where options have none),
    of a set or an order how many are wrong, of a row its Jensen-Shannon distance.
    """

    right: bool
    off: float


def judged(question: Question, case: Case, guess: tuple[float, ...]) -> Judged:
    """Hold a prediction against the answer; a number may be off by the question's tolerance."""
    answer = case.answer
    if question.kind == "row":
        row, drawn = np.array([answer]), np.array([guess])
        total = drawn.sum()
        alike = float(agreement(row, drawn / total)[0]) if total > 0 and drawn.shape == row.shape else 0.0
        return Judged(1 - alike <= question.tolerance, 1 - alike)
    if question.kind == "several":
        wrong = len(set(answer) ^ set(guess))
        return Judged(not wrong, float(wrong))
    if question.kind == "order":
        wrong = sum(one != other for one, other in zip(answer, guess, strict=False)) + abs(len(answer) - len(guess))
        return Judged(not wrong, float(wrong))
    off = abs(guess[0] - answer[0])
    if question.kind == "number":
        return Judged(off <= question.tolerance, off)
    picked = int(guess[0])
    known = 0 <= picked < len(case.scores)
    return Judged(off == 0, abs(case.scores[int(answer[0])] - case.scores[picked]) if known else float("nan"))
