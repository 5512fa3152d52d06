"""The page Your model: code of one's own, live; what is wrong in it is one sentence with its place."""

import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest
from torch.nn import functional

from heedmap import Record
from heedmap.runs import concurrency
from tests import shapes
from tests.pages.opening import ROOT, address_of, fine, gone, matrix_sent, opened, problems, put, ran, record_sent
from tests.pages.test_chinese import english
from tests.waiting import PATIENCE, until
from ui.store import live, render_slots
from ui.your_model.bring import EXAMPLE

OWN = """
import torch
from torch import nn

class Mixes(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.table, self.out = nn.Embedding(31, 6), nn.Linear(6, 13)

    def forward(self, ids, *, times=1.0):
        x = self.table(ids)
        w = (x @ x.transpose(-2, -1) * times).softmax(-1)
        return {"logits": self.out(w @ x)}

def make():
    def read(text):
        words = text.split()
        return words, {"ids": torch.tensor([[len(word) for word in words]]), "times": 0.5}
    return Mixes(), read
"""
SITE = "Mixes"


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shipped: None):
    """`code(text)` writes the file that the server was started with."""
    file = tmp_path / "my_model.py"
    monkeypatch.setattr("ui.store.live.named", lambda: f"{file}:make")
    monkeypatch.setattr(live, "_LIBRARIES", (*live._LIBRARIES, shapes.__file__))  # which tests put around calls

    def write(text: str) -> Path:
        file.write_text(text)
        return file

    return write


def by_hand(text: str) -> np.ndarray:
    torch.manual_seed(5)
    x = torch.nn.Embedding(31, 6)(torch.tensor([len(word) for word in text.split()])).double()
    return functional.softmax(x @ x.T * 0.5, -1).detach().numpy()


page_of = partial(opened, "your_model")


def told(page: AppTest) -> str:
    return " ".join(problems(page)).replace("\\", "")


def test_a_text_is_read_run_and_shown_with_its_own_labels(code) -> None:
    code(OWN)
    page = fine(page_of(input="one three sixteen"))
    assert page.selectbox(key="model").options == ["my_model.py:make (live)", "tiny"]
    kind, weights = record_sent(page)[SITE]
    assert kind["queries"]["texts"] == kind["keys"]["texts"] == ["one", "three", "sixteen"]
    np.testing.assert_allclose(weights[0, 0], by_hand("one three sixteen"), atol=1e-6)
    weights = record_sent(ran(page, input="two words"))[SITE][1]
    np.testing.assert_allclose(weights[0, 0], by_hand("two words"), atol=1e-6)


def test_a_head_that_is_switched_off_moves_the_output_and_stands_in_the_address(code) -> None:
    code(OWN)
    page = gone(page_of(input="one three sixteen", show="off"), do=f"{SITE}~zero~h0")
    assert address_of(page)["do"] == f"{SITE}~zero~h0"
    moved = next(one.value for one in page.markdown if "The output moves by" in one.value)
    torch.manual_seed(5)
    x, out = torch.nn.Embedding(31, 6)(torch.tensor([3, 5, 7])), torch.nn.Linear(6, 13)
    was = out(functional.softmax(x @ x.T * 0.5, -1) @ x).detach()
    share = float((out.bias.detach().expand(3, 13) - was).norm() / was.norm())
    assert f"{share:.1%}" in moved
    page = gone(page, map="before")
    np.testing.assert_allclose(matrix_sent(page, "map-of-head")[1], by_hand("one three sixteen"), atol=1e-6)


def test_the_record_that_is_saved_is_read_again(code) -> None:
    code(OWN)
    found = live._run(live.loaded()[1], "one three sixteen", f"{SITE}~uniform~h0")
    again = Record.of_bytes(found.run.record.to_bytes(), "run.heedmap")
    assert (again.model, again.text) == ("my_model", "one three sixteen")
    np.testing.assert_allclose(again[SITE].weights(0), np.full((3, 3), 1 / 3), atol=1e-6)
    assert [str(one.action) for one in again.interventions] == ["uniform"]


WRONG = (
    ("import nothing_of_this_name\n", r"my_model.py, line 1: ModuleNotFoundError: No module named"),
    ("x = 3\ndef make(:\n    pass\n", r"my_model.py, line 2: SyntaxError"),
    ("def other(): pass\n", "my_model.py has no function make"),
    ("def make(): return 3\n", "make() gives int, and has to give two things"),
    (OWN.replace("return Mixes(), read", "return 3, read"), "make() gives tuple, and has to give"),
    (OWN.replace("words = text.split()", "words = text.cut()"), "my_model.py, line 18: AttributeError"),
    (OWN.replace("x = self.table(ids)", "x = self.table(ids * 99)"), "my_model.py, line 12: IndexError"),
    (OWN.replace("return words, {", "return {"), "gives dict, and has to give two things: labels"),
    (OWN.replace("return words,", "return 'words',"), "abels are a list of texts"),
    (OWN.replace("return words,", "return __import__('itertools').count(),"), "more than 65,536 labels"),
    (OWN.replace("return words,", "return words[:-1],"), "one of the recorded axes has 2 positions"),
    (OWN.replace(".softmax(-1)", ".sigmoid()"), "o attention was seen"),
    (OWN.replace("words = text.split()", "raise SystemExit(3)"), "my_model.py, line 18: SystemExit"),
    (OWN.replace("words = text.split()", "raise KeyboardInterrupt"), "my_model.py, line 18: KeyboardInterrupt"),
    (OWN.replace("x = self.table(ids)", "raise GeneratorExit('no')"), "my_model.py, line 12: GeneratorExit: no"),
    (
        OWN.replace("def make():", "class Own(BaseException): pass\ndef make():\n    raise Own(7)"),
        "my_model.py, line 18: Own: 7",
    ),
    (OWN.replace("return words,", "return (1 // 0 for _ in words),"), "my_model.py, line 19: ZeroDivisionError"),
    (OWN.replace("words = text.split()", "raise ValueError('<b>bold</b> $x$')"), "ValueError: <b>bold</b> $x$"),
)
"""Code that fails, each in its own way, and what is said of it."""


def test_what_the_users_code_does_wrong_is_one_sentence_with_its_place(code) -> None:
    page, now = page_of(input="one three sixteen"), time.time_ns()
    assert "my_model.py is no Python file that is here" in told(page)
    for number, (text, reason) in enumerate(WRONG):
        os.utime(code(text), ns=(now, now + number * 10**9))
        assert not page.run().exception
        assert len(problems(page)) == 1
        assert reason in told(page)
    assert record_sent(put(page, model="tiny"))


def test_code_that_was_saved_again_is_loaded_again_and_no_other_run_loads_it(code) -> None:
    file = code(OWN + "\nwith open(__file__ + '.log', 'a') as log:\n    log.write('x')\n")
    page = fine(page_of(input="one three sixteen"))
    fine(page.run())
    assert Path(f"{file}.log").read_text() == "x"
    code(OWN.replace('"times": 0.5', '"times": 0.0'))
    later = time.time_ns() + 10**9
    os.utime(file, ns=(later, later))
    np.testing.assert_allclose(record_sent(fine(page.run()))[SITE][1][0, 0], np.full((3, 3), 1 / 3), atol=1e-6)


SLOW = OWN.replace("def make():", "from threading import Event\nbegan, end = Event(), Event()\ndef make():").replace(
    "words = text.split()", "words = text.split()\n        began.set()\n        assert end.wait(120)"
)


def test_while_a_run_of_the_code_lasts_others_are_told_and_nobody_holds_what_pages_wait_for(
    code, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead, file = list[int](), code(SLOW)
    monkeypatch.setattr(live._HOST, "queued", ahead.append)
    _, made = live.loaded()
    slow = sys.modules["heedmap_live_my_model"]

    @render_slots.turn()
    def visit(loads: bool) -> object:
        return live.loaded() if loads else live._run(made, "one three", "")

    with ThreadPoolExecutor(3) as threads:
        visits = [threads.submit(visit, False)]
        try:
            assert slow.began.wait(PATIENCE)
            assert live.loaded()[1] is made, "code that is loaded is there for everybody"
            visits.append(threads.submit(visit, False))
            until(lambda: 1 in ahead)
            os.utime(file, ns=(time.time_ns() + 10**9,) * 2)
            visits.append(threads.submit(visit, True))
            until(lambda: 2 in ahead)
            assert (concurrency.turns._free, concurrency._forward._free) == (2, 2)
            assert not any(one.done() for one in visits)
        finally:
            slow.end.set()
        assert all(one.result(PATIENCE) for one in visits)


@pytest.mark.parametrize("show", ["off", "beside"])
def test_a_live_model_in_chinese_has_no_english_sentence(code, show: str) -> None:
    code(OWN)
    page = page_of(lang="zh", input="Wort eins", show=show, do=f"{SITE}~zero~h0")
    assert not page.exception
    assert english(page) == []


@pytest.mark.parametrize("where", ["page", "guide"])
def test_a_complete_example_runs(code, where: str) -> None:
    guide = (ROOT / "docs" / "your-model.md").read_text()
    written = next(part for part in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "def make" in part)
    code(EXAMPLE if where == "page" else written)
    assert record_sent(fine(page_of(input="a man rides")))["1.layers.self_attn"][1].shape == (2, 4, 3, 3)


def test_nothing_but_the_command_line_names_the_code(
    shipped: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "my_model.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n" + OWN)
    for name in ("MODEL", "HEEDMAP_MODEL", "HEEDMAP_LIVE"):
        monkeypatch.setenv(name, f"{file}:make")
    page = page_of(model="live", live=f"{file}:make", make=str(file))
    assert not page.exception
    assert page.selectbox(key="model").options == ["tiny"]
    assert "names a checkpoint" in told(page) or "not here" in told(page)
    assert not (tmp_path / "ran").exists()
