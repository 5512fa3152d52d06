"""Answers to questions about training: a small Transformer is trained for each."""

from transformer.teaching.case import Case, Live, Table, truth
from transformer.training.snapshots import Learning
from transformer.training.tasks import Settings

EVERY, LAST = 25, 1_000
"""Updates between two looks at the run, and the last of them."""

RIGHT, SHARP = 0.99, 0.9
"""Share of unseen sequences that counts as learnt, and the mean weight of a head that counts as sharp."""


@truth
def answers_or_diagonal(live: Live) -> Case:  # noqa: ARG001  (letters, no sentence)
    """Whether right answers come before a sharp head (0) or after it (1), where a run learns to reverse letters."""
    run = Learning(Settings())
    accuracy = weight = 0.0
    while accuracy < RIGHT and weight <= SHARP and run.update < LAST:
        run.advance(run.update + EVERY)
        found = run.snapshot(keeps=False).measures
        accuracy, weight = found.accuracy, found.sharpest[2] if found.sharpest else 0.0
    told = {"update": run.update, "accuracy": accuracy, "weight": weight}
    length = run.settings.held_out().shape[1]
    given = Table.empty((f"{RIGHT:.0%}", f"{SHARP:g}"), tuple(map(str, range(EVERY, 10 * EVERY, EVERY))))
    return Case((float(accuracy < RIGHT),), asked={"length": length}, told=told, given=given)
