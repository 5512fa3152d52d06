"""The page "Attention, step by step": first paint, every control, the address, other languages, hostile input."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.opening import address_of, figure, fine, matrices, numbers, opened
from tests.pages.tiny import save_tiny, save_tiny_recurrent
from transformer.lessons.sentences import source_sentence, target_sentence
from transformer.runs.parity import attention_maps
from ui.lessons.attention_steps import controls
from ui.lessons.attention_steps.controls import DEFAULTS, KINDS, TRY
from ui.store import store

page = partial(opened, "attention_steps")


def drawn(at: AppTest) -> tuple[list[str], dict[str, np.ndarray]]:
    """Names and numbers of the matrices on the page."""
    found, arrays = matrices(at)
    return list(found), arrays


def test_the_first_paint_is_a_worked_example():
    names, arrays = drawn(fine(page()))
    assert names == ["Q0", "K0", "S0"]
    expected = arrays["Q0"].reshape(4, 2) @ arrays["K0"].reshape(4, 2).T
    np.testing.assert_allclose(arrays["S0"].reshape(4, 4), expected, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_every_attention_has_its_stages(kind: str):
    at = fine(page(attention=kind))
    for stage in at.segmented_control(key="stage").options:
        assert drawn(fine(at))[0], stage
    at = fine(page(attention=kind, screen="board"))
    assert len(drawn(at)[0]) > 6
    fine(page(attention=kind, screen="rows"))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ({"stage": "input"}, "The embedding is scaled up"),
        ({"stage": "input", "attention": "cross"}, "X is what the layers before hand on"),
        ({"stage": "input", "attention": "location"}, "Given are the decoder's state s"),
        ({"stage": "project", "attention": "additive"}, "becomes one query"),
        ({"stage": "project", "attention": "location"}, "There are no keys"),
        ({"stage": "scores", "attention": "additive"}, "squashed by tanh"),
        ({"stage": "scores", "attention": "location"}, "One linear map"),
        ({"stage": "mix", "attention": "additive"}, "the context c"),
        ({"stage": "residual"}, "centred and scaled"),
        ({"stage": "residual", "norm_first": "True"}, "nothing is normalised here"),
        ({"stage": "softmax", "attention": "location"}, "sum to 1"),
    ],
)
def test_every_step_says_what_is_shown(address: dict[str, str], said: str):
    assert said in " ".join(part.value for part in fine(page(**address)).caption)


@pytest.mark.parametrize(("lang", "words"), [("en", "where query "), ("zh", "查询 ")])
def test_the_words_in_formulas_are_of_the_language(lang: str, words: str):
    formula = fine(page(stage="mask", attention="decoder", lang=lang)).latex[0].value
    assert words in formula
    assert ("may not see" in formula) == (lang == "en")


STAGES = {
    "input": ["E", "sE", "P", "X"],
    "project": ["X", "W_Q0", "Q0", "W_K0", "K0", "W_V0", "V0"],
    "scale": ["S0", "D0"],
    "mask": ["D0", "M0"],
    "softmax": ["M0", "A0"],
    "mix": ["V0", "A0", "Z0"],
    "concatenate": ["Z0", "Z1", "Z"],
    "output": ["Z", "W_O", "O"],
    "residual": ["X", "O", "R", "Y"],
}


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_shows_its_matrices_and_what_they_come_from(stage: str):
    names, _ = drawn(fine(page(stage=stage)))
    assert names == STAGES[stage]


@pytest.mark.parametrize(
    ("stage", "cell"), [("scores", "{S_0}_{1,2}"), ("softmax", "{A_0}_{1,2}"), ("residual", "{Y}_{1,2}")]
)
def test_every_step_works_out_an_example_until_a_cell_is_picked(stage: str, cell: str):
    assert cell in fine(page(stage=stage)).latex[-1].value
    none = fine(page(stage=stage, cell="none"))
    assert not any(cell in part.value for part in none.latex)
    assert "Pick a cell above" in none.caption[-1].value


def test_a_picked_cell_is_worked_out_with_its_numbers():
    at = fine(page(cell="S0:2,3"))
    _, arrays = drawn(at)
    q, k = arrays["Q0"].reshape(4, 2)[1], arrays["K0"].reshape(4, 2)[2]
    latex = at.latex[-1].value
    assert r"{S_0}_{2,3}" in latex
    assert f"&= {q @ k:.3f}".rstrip("0") in latex


def test_a_softmax_row_shows_exponentials_sum_and_quotients():
    at = fine(page(stage="softmax", cell="A0:2,3"))
    table = at.dataframe[0].value
    top = table["exp(score)"].to_numpy()
    np.testing.assert_allclose(top[:-1].sum(), top[-1])
    np.testing.assert_allclose(table["exp / sum"].to_numpy(), top / top[-1])


@pytest.mark.parametrize("name", TRY)
@pytest.mark.usefixtures("recurrent")
def test_try_this_sets_the_controls_and_the_address(name: str):
    at = page(d_model="12", stage="output", cell="Q0:1,1")
    at.button(key=f"attention_steps.{name}").click().run()
    fine(at)
    for key, value in {**DEFAULTS, **TRY[name]}.items():
        if key in at.query_params:
            assert address_of(at)[key] == str(value)
        if key in at.session_state:
            assert at.session_state[key] == value
    again = fine(page(**address_of(at)))
    assert drawn(again)[0] == drawn(at)[0]
    for one, other in zip(drawn(again)[1].values(), drawn(at)[1].values(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("widget", "control", "value", "stage", "changed"),
    [
        ("toggle", "scaled", False, "scale", "D0"),
        ("toggle", "norm_first", True, "scores", "Q0"),
        ("segmented_control", "d_model", "8", "scores", "Q0"),
        ("segmented_control", "n_heads", "4", "scores", "Q0"),
        ("number_input", "seed", 7, "scores", "Q0"),
        ("slider", "n_tokens", 6, "scores", "S0"),
        ("slider", "dropout", 0.5, "mix", "B0"),
        ("slider", "temperature", 2.5, "softmax", "A0"),
        ("selectbox", "blind", "3", "mask", "M0"),
        ("selectbox", "split", "1", "scores", "Q0"),
    ],
)
def test_each_control_changes_what_it_should(widget: str, control: str, value: Any, stage: str, changed: str):
    at = page(stage=stage)
    before = drawn(at)[1].get(changed, np.zeros(0))
    getattr(at, widget)(key=control).set_value(value).run()
    after = drawn(fine(at))[1][changed]
    assert before.shape != after.shape or not np.allclose(before, after)
    assert address_of(at)[control] == str(value)


def test_temperature_is_told_by_the_entropy_of_the_rows():
    at = fine(page(screen="rows", temperature="0.3"))
    curve = figure(at)
    table = at.dataframe[0].value
    assert (table["entropy, now"] < table["entropy, standard"]).all()
    assert len(curve["data"]) == len(table) == 4
    (mark,) = curve["layout"]["shapes"]
    assert mark["x0"] == mark["x1"] == 0.3
    lines = [numbers(line["y"]) for line in curve["data"]]
    assert all((np.diff(line) > 0).all() for line in lines)
    for line, now, standard in zip(lines, table["entropy, now"], table["entropy, standard"], strict=True):
        x = np.log(numbers(curve["data"][0]["x"]))
        np.testing.assert_allclose(np.interp(np.log([0.3, 1.0]), x, line), [now, standard], atol=0.02)


def test_numbers_of_the_rows_can_be_taken_away():
    labels = [button.label for button in fine(page(screen="rows")).get("download_button")]
    assert labels == ["standard as CSV", "now as CSV", "entropies as CSV"]


def test_an_undefined_row_is_shown_as_undefined():
    at = fine(page(attention="decoder", blind="2", hiding="infinity", stage="softmax", cell="A0:2,1"))
    assert np.isnan(drawn(at)[1]["A0"].reshape(4, 4)[1]).all()
    assert r"\frac{0}{0}" in at.latex[-1].value
    at = fine(page(attention="decoder", blind="2", hiding="large", stage="softmax"))
    np.testing.assert_allclose(drawn(at)[1]["A0"].reshape(4, 4)[1], 0.25)


def test_dropped_rows_are_summed_beside_the_standard():
    at = fine(page(dropout="0.3", draw="1", screen="rows"))
    sums = at.dataframe[0].value["row sum, now"].to_numpy()
    assert not np.allclose(sums, 1.0)
    np.testing.assert_allclose(sums, drawn(at)[1]["now"].reshape(4, 4).sum(1), rtol=1e-5)


def test_the_address_stays_the_same_in_the_other_language():
    at = fine(page(lang="zh", attention="cross", stage="softmax"))
    assert at.title[0].value == "注意力：一步一步来"  # noqa: RUF001
    assert drawn(at)[0] == ["M0", "A0"]
    assert address_of(at)["attention"] == "cross"


@pytest.mark.parametrize("kind", controls.SITES)
@pytest.mark.usefixtures("shipped")
def test_the_trained_translator_goes_through_the_same_steps(kind: str):
    at = fine(page(made="shipped", attention=kind, stage="project"))
    assert {"Q0", "K0", "V0"} <= set(drawn(at)[0])
    fine(page(made="shipped", attention=kind, screen="board", cell="A1:2,1", at_head="1"))


@pytest.fixture
def recurrent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny random recurrent translators beside the Transformer, one with each attention."""
    save_tiny(tmp_path)
    save_tiny_recurrent(tmp_path, "additive", bidirectional=True, deep_output=True)
    save_tiny_recurrent(tmp_path, "location")
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)


@pytest.mark.parametrize("kind", controls.RECURRENT)
@pytest.mark.usefixtures("recurrent")
def test_a_trained_recurrent_translator_goes_through_its_steps(kind: str):
    at = fine(page(made="shipped", attention=kind, stage="softmax", at_step="2"))
    assert at.selectbox(key="rnn").options == [kind]
    checkpoint = store.checkpoint(kind)
    source = source_sentence(checkpoint, at.text_input(key="source").value)
    read = target_sentence(checkpoint, at.text_input(key="target").value)
    weights = attention_maps(checkpoint, np.array([source.ids]), np.array([read.ids]))["decoder.cross"][0, 0, 1]
    np.testing.assert_allclose(drawn(at)[1]["A"], weights, rtol=1e-5)
    for screen in ("board", "rows"):
        fine(page(made="shipped", attention=kind, screen=screen))


@pytest.mark.usefixtures("recurrent")
def test_a_source_longer_than_location_attention_covers_gets_a_sentence(tmp_path: Path):
    save_tiny_recurrent(tmp_path, "location", "short", max_length=3)
    at = page(made="shipped", attention="location", rnn="short")
    assert not at.exception
    assert "covers 3 positions" in at.warning[0].value


@pytest.mark.parametrize("kind", controls.RECURRENT)
@pytest.mark.usefixtures("shipped")
def test_without_a_recurrent_checkpoint_the_page_says_so(kind: str):
    assert f"with {kind} attention" in fine(page(made="shipped", attention=kind)).info[0].value


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "empty"), ("   ", "empty"), ("word " * 400, "shorten it"), ("x" * 10_000, "10,000 characters")],
)
@pytest.mark.usefixtures("shipped")
def test_bad_sentences_get_a_sentence(text: str, message: str):
    at = page(made="shipped")
    at.text_input(key="source").set_value(text).run()
    assert not at.exception
    assert message in at.warning[0].value


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "🚲 🚲", "مرحبا", "a\u0000b\u0007"])
@pytest.mark.usefixtures("shipped")
def test_strange_sentences_run_or_get_a_sentence(text: str):
    at = page(made="shipped")
    at.text_input(key="source").set_value(text).run()
    assert not at.exception


def test_without_a_checkpoint_the_page_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    at = page(made="shipped")
    assert not at.exception
    assert "train one" in at.error[0].value
