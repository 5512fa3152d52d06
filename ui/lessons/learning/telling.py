"""What a training did, in sentences made from its own numbers."""

from collections.abc import Sequence

from transformer.training.snapshots import Measures
from transformer.training.tasks import Settings
from ui.texts import t

RIGHT, SHARP, FOUND = 0.99, 0.9, 0.5
"""From which share of right answers a task is learned, which mean weight is sharp, and which is an induction head."""

LEARNED_LETTERS = 0.95
"""From which share of right letters a repeated pattern is learned."""


def told(settings: Settings, found: Sequence[Measures]) -> str:
    """What happened so far, as Markdown."""
    repeats = settings.learned.target is None
    enough, last = LEARNED_LETTERS if repeats else RIGHT, found[-1]
    kind = "letters" if repeats else "rows"
    first = next((one for one in found if one.accuracy >= enough), None)
    if first is None:
        said = [t(f"learning.not_yet_{kind}", update=last.update, share=last.accuracy, tokens=last.token_accuracy)]
    else:
        said = [t(f"learning.learned_{kind}", update=first.update, seconds=first.seconds, share=first.accuracy)]
    said += [_focus(repeats, found, first)] if last.sharpest is not None else []
    if settings.sees_future:
        said.append(t("learning.saw_future", train=last.train_loss or last.loss, loss=last.loss, share=last.accuracy))
    if settings.smoothing and first is not None:
        said.append(t("learning.smoothed", top=last.top))
    return " ".join(said)


def _focus(repeats: bool, found: Sequence[Measures], learned: Measures | None) -> str:
    """How far attention is on the right position: when it became sharp, beside when answers were right."""
    weights = [one.sharpest[2] if one.sharpest else 0.0 for one in found]
    at, last = weights[-1], found[-1].update
    if repeats:
        name = "induction" if at >= FOUND else "no_induction" if learned is not None else "no_induction_yet"
        return t(f"learning.{name}", weight=at, update=last)
    sharp = next((one.update for one, weight in zip(found, weights, strict=True) if weight >= SHARP), None)
    then = next((weight for one, weight in zip(found, weights, strict=True) if one is learned), at)
    if learned is None:
        return t("learning.weight", weight=at)
    if sharp is None:
        return t("learning.never_sharp", then=then, weight=at, update=last)
    if sharp > learned.update:
        return t("learning.sharp_later", then=then, sharp=sharp)
    return t("learning.sharp_before", sharp=sharp)
