"""Every question on sentences that nobody chose, every headline of the tour on its own run: no claim is false."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heedmap import load
from heedmap.lessons.attention import Recipe
from heedmap.messages import LANGUAGES, speaking
from heedmap.teaching.answers import TRUTHS
from heedmap.teaching.case import Live, judged
from heedmap.teaching.data import Step, questions, steps
from heedmap.training.snapshots import Learning
from heedmap.training.tasks import Settings
from ui.path.question import Asked

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
HELD_OUT = (CHECKPOINTS / "multi30k-en-de" / "atlas" / "captions.en").read_text("utf-8").splitlines()
Claim = Callable[[Live, Any, dict[str, Any]], object]
"""Of a run, the case that was made of it, and what the explanation says."""

SHORT = [one for one in HELD_OUT if len(one.split()) <= 8][::4][:7]
"""Of the captions that heads were measured on, every fourth one that a toy can read, too."""

COMPOSED = ("two dogs run", "Cat", "the the the", "My dog sleeps under the table", "Women wait. Men wait.")
"""The lesson's own short sentence, one word, one word thrice, no full stop, two sentences."""

opened = cache(load)


def live_of(reads: str, text: str, model: str = "") -> Live:
    name = model or {"translator": "multi30k-en-de", "classifier": "splice-junctions"}.get(reads)
    return Live(opened(CHECKPOINTS / name) if name else None, text)


def gives_away(one: Asked) -> bool:
    """Whether the question says its answer; a count may be one of the sizes that it names, an option one of several."""
    words = (one.words(one.case.answer), *one.options)
    said = [bool(re.search(rf"(?<![\w.,]){re.escape(word)}(?!\w|[.,]\d)", one.text)) for word in words]
    is_count = one.question.kind == "number" and one.case.answer[0] % 1 == 0
    return len(said) != 2 and said[0] and sum(said[1:]) < 2 and not is_count


IMPOSSIBLE = {
    "log_prob_of_a_reference": 0.01, "start_on_itself": 1.005, "blind_row": -0.001, "share_of_position": -0.5,
    "share_of_attention": 100.5, "gradient_without_root": 0.26, "heads_that_can_go": 48.5, "units_that_fire": -1.0,
    "heads_that_point_there": 2.5,
}  # fmt: skip
"""A number that no run gives, of every question about a bounded number that is not asked for exactly."""


def larger(one: float, other: float) -> int:
    return 1 if abs(one - other) < 1e-9 else 0 if one > other else 2


def halves(live: Live) -> bool:
    """The scores of one wide head are half the sum of those of four."""
    four, one = (live.board(8, 4, Recipe(n_heads=n)) for n in (4, 1))
    return np.allclose(sum(four[f"D{head}"].values for head in range(4)) / 2, one["D0"].values)


def lengths(live: Live, options: tuple[str, ...]) -> list[int]:
    return [len(live.checkpoint.translator()[1].source_ids(one)) for one in options]


TRUE: dict[str, Claim] = {
    "greedy_or_beam": lambda live, case, said: case.answer[0] == larger(said["beam"], said["greedy"]),
    "shifted_mask_loss": lambda live, case, said: (
        case.answer[0] == larger(said["broken"], said["right"]) and said["same"] in range(3) and said["n"] == 2
    ),
    "one_head_instead": lambda live, case, said: case.answer[0] == larger(said["four"], said["one"]) and halves(live),
    "without_padding_mask": lambda live, case, said: (
        lengths(live, (said["best"],)) == [min(found := lengths(live, case.options))] < [max(found)]
    ),
    "log_prob_of_a_reference": lambda live, case, said: (
        said["target"] != said["text"] and 0 < said["cost"] <= -case.answer[0] + 1e-6
    ),
    "layer_that_knows": lambda live, case, said: said["written"] in {
        one.text.strip("▁") for one in live.translation.steps if not one.rank
    } and case.scores[-1] > 0.05,
}  # fmt: skip
"""What explanations claim beyond a number, by question."""


@pytest.mark.parametrize("text", [*SHORT, *COMPOSED])
def test_a_question_about_any_sentence_keeps_its_answer_and_explains_its_own_run(text: str) -> None:
    lives = {reads: live_of(reads, text) for reads in {one.reads for one in questions().values()}}
    for name, question in questions().items():
        if question.reads in {"nothing", "classifier"} and text != SHORT[0]:
            continue  # no sentence is read
        case = TRUTHS[name](live := lives[question.reads])
        one, fields = Asked(question, case), {**case.explained}
        assert TRUE.get(name, lambda *_: True)(live, case, fields), (name, fields)
        assert not gives_away(one), one.text
        assert judged(question, case, case.answer).right
        assert bool(question.unit) == bool(case.scores)
        assert bool(case.options) != bool(question.fixed) or question.kind == "number"
        for code in LANGUAGES:
            with speaking(code):
                assert not re.search(r"\.\.|\.。|。。|  |\{[a-z_]+[:}]", f"{one.text} {one.why}"), name
        if name in IMPOSSIBLE:
            verdict = judged(question, case, (IMPOSSIBLE[name],))
            assert (verdict.right, verdict.possible) == (False, False), name
    bounded = {name for name, one in questions().items() if one.kind == "number" and one.tolerance} - IMPOSSIBLE.keys()
    assert bounded == {"score_by_hand"}  # any number may be a dot product


def favourites(live: Live) -> set[tuple[int, ...]]:
    board = live.board(8, 4)
    return {tuple(board[f"A{head}"].values.argmax(1).tolist()) for head in range(4)}


def sharpest_at_first() -> float:
    found = Learning(Settings()).snapshot(keeps=False).measures.sharpest
    return found[2] if found else 0.0


CLAIMS: dict[str, Claim] = {
    "attentions": lambda live, case, said: len({one.scores(0).shape for one in live.cross}) == 1 < len(live.cross),
    "set": lambda live, case, said: case.answer == (0,) and said["most"] > 0.1,
    "slip": lambda live, case, said: sorted(case.scores)[-2] < 1e-9 and said["score"] > 1,
    "project": lambda live, case, said: case.answer == (said["d_model"],),
    "scores": lambda live, case, said: np.isclose(case.given.values[0] @ case.given.values[1], case.answer[0]),
    "root": lambda live, case, said: case.answer[0] < said["with_root"] / 2,
    "softmax": lambda live, case, said: case.answer == (1,) and np.allclose(case.shown.values.sum(1), 1),
    "masks": lambda live, case, said: 0 < len(case.answer) < said["n"],
    "leak": lambda live, case, said: said["same"] == said["n"] and said["broken"] > said["right"] + 1,
    "heads": lambda live, case, said: len(favourites(live)) > 1,
    "residual": lambda live, case, said: 0 < said["low"] < said["high"] < 50,
    "beams": lambda live, case, said: said["beam"] > said["greedy"] + 1,
    "shifted_pair": lambda live, case, said: said["label"] == live.checkpoint.writer.labels(
        live.checkpoint.writer.target_ids("Jemand kocht das Abendessen in einer kleinen Küche."))[said["column"]],
    "training": lambda live, case, said: said["weight"] > 3 * sharpest_at_first(),
    "cut": lambda live, case, said: 0 < case.answer[0] < said["n"],
    "hurts": lambda live, case, said: said["score"] < 1.5 * sorted(case.scores)[1] < 0,
    "helps": lambda live, case, said: said["score"] > 0.5,
    "weights": lambda live, case, said: case.answer[0] < said["heads"],
    "own_target": lambda live, case, said: (
        said["target"] in {one.address.get("force") for one in steps()} - {said["text"]}
    ),
    "layers": lambda live, case, said: (np.diff(case.scores) > 0).all(),
    "one_head": lambda live, case, said: said["heads"] == 1,
    "windows": lambda live, case, said: case.answer[0] > said["n"],
}  # fmt: skip
"""What the headline of a step claims of the run that its page shows, where it can be computed."""


@pytest.mark.parametrize("step", [one for one in steps() if one.question], ids=lambda one: one.label)
def test_the_headline_of_a_step_is_true_of_its_own_run(step: Step) -> None:
    text = step.address.get("text") or step.address.get("source", "")
    live = live_of(questions()[step.question].reads, text, step.address.get("model", ""))
    case = TRUTHS[step.question](live)
    assert CLAIMS.get(step.name, lambda *_: True)(live, case, {**case.explained})
    assert step.address.get("word") in (None, case.asked.get("written")), "another word is lit than is asked about"
