"""The page "Attention, step by step": first paint, every control, the address, other languages, hostile input."""

import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.opening import address_of, figure, fine, marked, matrices, numbers, opened, words_of
from tests.pages.tiny import save_tiny, save_tiny_recurrent
from transformer.lessons.sentences import source_sentence, target_sentence
from transformer.runs.parity import attention_maps
from ui.lessons.attention_steps import controls
from ui.lessons.attention_steps.controls import DEFAULTS, KINDS, TRY
from ui.shared import heads
from ui.store import store

page = partial(opened, "attention_steps")


def drawn(at: AppTest) -> tuple[list[str], dict[str, np.ndarray]]:
    """Names and numbers of the matrices on the page."""
    found, arrays = matrices(at)
    return list(found), arrays


STAGES = {
    "input": ["E", "sE", "P", "X"],
    "project": ["X", "W_Q0", "Q0", "W_K0", "K0", "W_V0", "V0"],
    "scores": ["Q0", "K0", "S0"],
    "scale": ["S0", "D0"],
    "mask": ["D0", "M0"],
    "softmax": ["M0", "A0"],
    "mix": ["V0", "A0", "Z0"],
    "concatenate": ["Z0", "Z1", "Z"],
    "output": ["Z", "W_O", "O"],
    "residual": ["X", "O", "R", "g_Y", "b_Y", "Y"],
}


def test_the_page_starts_at_the_first_step_and_next_leads_through_all():
    """Each step shows its matrices and what they come from, and works out an example that fades nothing."""
    at = fine(page())
    assert at.button(key="previous").disabled
    for number, (stage, names) in enumerate(STAGES.items()):
        found, arrays = drawn(at)
        assert found == names
        assert (address_of(at).get("stage"), marked(at)["example"]) == (stage if number else None, True)
        assert "For example" in words_of(at)
        assert ("at_head" in [one.key for one in at.selectbox]) == (stage not in HEADLESS)
        if stage == "scores":
            expected = arrays["Q0"].reshape(4, 2) @ arrays["K0"].reshape(4, 2).T
            np.testing.assert_allclose(arrays["S0"].reshape(4, 4), expected, rtol=1e-5)
        if stage in EXAMPLES:
            assert EXAMPLES[stage] in at.latex[-1].value
            assert EXAMPLES[stage] in page(stage=stage, cell="none").latex[-1].value
        if stage != "residual":
            fine(at.button(key="next").click().run())


HEADLESS = ("input", "concatenate", "output", "residual")
EXAMPLES = {"scores": "S_0[0,1]", "softmax": "A_0[0,1]", "residual": "Y[0,1]"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_attention_has_its_screens(kind: str):
    at = fine(page(attention=kind, screen="board"))
    assert len(drawn(at)[0]) > 6
    screens = at.selectbox(key="screen").options
    assert ("Before, after" in screens) == (kind not in controls.RECURRENT), "nothing of a recurrent decoder changes"
    assert page(attention=kind, screen="rows").session_state["screen"] == (
        "rows" if kind not in controls.RECURRENT else "steps"
    )
    fine(page(attention=kind, screen="why"))


@pytest.mark.parametrize(
    ("address", "said", "unsaid"),
    [
        ({"stage": "input"}, "scaled up by √d", "normalises before"),
        ({"stage": "input", "norm_first": "True"}, "normalises before attention", "layer 0"),
        ({"stage": "input", "attention": "cross"}, "the decoder's self-attention handed on", "scaled up"),
        ({"stage": "input", "attention": "location"}, "Given are the decoder's state s, the embedding x", "cross"),
        ({"stage": "project", "attention": "cross"}, "Queries come from the target", "bias"),
        ({"stage": "project", "attention": "additive"}, "becomes one query", "three matrices"),
        ({"stage": "scores", "attention": "location"}, "One linear map", "the key of word j"),
        ({"stage": "scale", "scaled": "False", "temperature": "2.0"}, "Nothing is divided by √d", "vanishes"),
        ({"stage": "scale", "temperature": "2.0"}, "The temperature T divides", "Nothing is divided"),
        ({"stage": "mask"}, "Nothing is hidden here", "hatched"),
        ({"stage": "mask", "attention": "decoder"}, "get \N{MINUS SIGN}∞", "Nothing is hidden"),
        ({"stage": "mask", "attention": "decoder", "hiding": "large"}, "get \N{MINUS SIGN}10⁹", "get \N{MINUS SIGN}∞"),
        (
            {"stage": "mask", "attention": "decoder", "mask_first": "True"},
            "is scaled in the next step",
            "keep their scaled",
        ),
        ({"stage": "softmax", "attention": "decoder", "blind": "2"}, "gives zeros", "undefined"),
        ({"stage": "dropout", "dropout": "0.3"}, "p = 0.3", "rows sum to 1"),
        ({"stage": "mix", "dropout": "0.3"}, "that dropout left", "one step"),
        ({"stage": "mix", "attention": "additive"}, "the context c", "Each word collects"),
        ({"stage": "residual"}, "divided by its deviation", "nothing is normalised"),
        ({"stage": "residual", "norm_first": "True"}, "nothing is normalised here", "its deviation"),
    ],
)
def test_every_step_says_what_is_shown(address: dict[str, str], said: str, unsaid: str):
    found = words_of(fine(page(**address))).replace("\\", "")
    assert said in found
    assert unsaid not in found


def test_the_order_of_steps_is_that_of_the_computation():
    options = page(attention="decoder", mask_first="True", dropout="0.2").segmented_control(key="stage").options
    assert options[3:8] == ["Mask", "Scale", "Softmax", "Dropout", "Mix"]


def test_what_is_changed_is_always_told_and_one_button_takes_it_back():
    at = fine(page(temperature="2.0", mask_first="True", screen="rows"))
    assert "temperature T = 2.0 · mask before the scale" in words_of(at)
    at.button(key="reset").click().run()
    assert "Changed now" not in words_of(fine(at))
    assert not {"temperature", "mask_first"} & set(address_of(at))


@pytest.mark.parametrize(("lang", "words"), [("en", "if query "), ("zh", "查询 ")])
def test_the_words_in_formulas_are_of_the_language(lang: str, words: str):
    formula = fine(page(stage="mask", attention="decoder", lang=lang)).latex[0].value
    assert words in formula
    assert ("may see key" in formula) == (lang == "en")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ({"stage": "scores"}, ["S0", 1, 2]),
        ({"stage": "mask"}, ["M0", 1, 2]),
        ({"stage": "dropout", "dropout": "0.3"}, ["B0", 1, 2]),
        ({"stage": "mix"}, ["Z0", 1, 0]),
        ({"stage": "residual"}, ["Y", 1, 0]),
        ({"stage": "project"}, ["Q0", 1, 0]),
        ({"stage": "softmax", "attention": "cross", "at_head": "1"}, ["A1", 1, 2]),
        ({"stage": "scores", "attention": "additive"}, ["S", 0, 2]),
        ({"stage": "softmax", "n_tokens": "2"}, ["A0", 1, 1]),
        ({"stage": "softmax", "cell": "S0:2,3"}, ["A0", 1, 2]),
        ({"stage": "scores", "cell": "K0.3.1.scores"}, ["K0", 3, 1]),
        ({"stage": "scale", "cell": "K0.3.1.scores"}, ["D0", 0, 3]),
        ({"screen": "board", "at_head": "1"}, ["S1", 1, 2]),
    ],
)
def test_the_picked_cell_travels(address: dict[str, str], expected: list[Any]):
    found = marked(fine(page(**{"cell": "S0.1.2", **address})))
    assert found["selected"] == expected
    assert not found["example"]


def test_a_picked_cell_is_worked_out_with_its_numbers():
    at = fine(page(stage="scores", cell="S0.1.2"))
    _, arrays = drawn(at)
    q, k = arrays["Q0"].reshape(4, 2)[1], arrays["K0"].reshape(4, 2)[2]
    latex = at.latex[-1].value
    assert r"S_0[1,2] \approx" in latex
    assert rf" \approx {q @ k:.3f}".rstrip("0") in latex


def test_a_softmax_row_shows_exponentials_sum_and_quotients():
    at = fine(page(stage="softmax", cell="A0.1.2"))
    table = at.dataframe[0].value
    top = table["exp(score)"].to_numpy()
    np.testing.assert_allclose(top[:-1].sum(), top[-1])
    np.testing.assert_allclose(table["exp / sum"].astype(float).to_numpy(), top / top[-1], atol=5e-5)


@pytest.mark.parametrize("name", TRY)
@pytest.mark.usefixtures("recurrent")
def test_try_this_sets_the_controls_and_the_address(name: str):
    at = page(d_model="12", stage="output", cell="Q0.0.0")
    at.menu_button(key="attention_steps.try").click(name).run()
    fine(at)
    for key, value in {**DEFAULTS, **TRY[name]}.items():
        if key in at.query_params:
            assert address_of(at)[key] == str(value)
        if key in at.session_state:
            assert at.session_state[key] == value


@pytest.mark.parametrize(
    ("widget", "control", "value", "stage", "changed"),
    [
        ("toggle", "scaled", False, "scale", "D0"),
        ("toggle", "norm_first", True, "scores", "Q0"),
        ("segmented_control", "n_heads", "4", "scores", "Q0"),
        ("slider", "n_tokens", 6, "scores", "S0"),
        ("slider", "dropout", 0.5, "mix", "B0"),
        ("slider", "temperature", 2.5, "softmax", "A0"),
        ("selectbox", "blind", "3", "mask", "M0"),
        ("selectbox", "split", "1", "project", "Q0"),
    ],
)
def test_each_control_changes_what_it_should(widget: str, control: str, value: Any, stage: str, changed: str):
    at = page(stage=stage)
    before = drawn(at)[1].get(changed, np.zeros(0))
    getattr(at, widget)(key=control).set_value(value).run()
    after = drawn(fine(at))[1][changed]
    assert before.shape != after.shape or not np.allclose(before, after)
    assert address_of(at)[control] == str(value)


def test_a_toy_reads_the_words_that_are_typed():
    at = page(stage="input", cell="E.1.2")
    before = drawn(at)[1]["E"].reshape(4, 4)
    at.text_input(key="source_words").set_value("buffalo who buffalo fear fear buffalo").run()
    found, arrays = matrices(fine(at))
    assert [row.split()[0] for row in found["E"]["rows"]] == ["buffalo", "who", "buffalo", "fear", "fear", "buffalo"]
    assert "cell" not in address_of(at), "it was picked for other words"
    np.testing.assert_array_equal(arrays["E"].reshape(6, 4), before[[0, 1, 0, 2, 2, 0]])
    at.text_input(key="source_words").set_value("a b c d e f g h i").run()
    assert "has 9 words" in at.warning[0].value
    assert at.text_input(key="source_words").value == "a b c d e f g h i"
    at.text_input(key="source_words").set_value("").run()
    np.testing.assert_array_equal(drawn(fine(at))[1]["E"].reshape(4, 4), before)


def test_temperature_is_told_by_the_entropy_of_the_rows():
    at = fine(page(screen="rows", temperature="0.3"))
    curve = figure(at)
    table = at.dataframe[0].value.set_index("query").astype(float)
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
    assert labels == ["All as ZIP, with a table of what each is", "standard0 as CSV", "now0 as CSV", "entropies as CSV"]


def test_an_undefined_row_is_shown_as_undefined():
    at = fine(page(attention="decoder", blind="2", hiding="infinity", stage="softmax", cell="A0.1.0"))
    assert list(at.dataframe[0].value["exp / sum"])[:2] == ["undefined", "undefined"]
    assert np.isnan(drawn(at)[1]["A0"].reshape(4, 4)[1]).all()
    assert r"\frac{0}{0}" in at.latex[-1].value
    at = fine(page(attention="decoder", blind="2", hiding="large", stage="softmax"))
    np.testing.assert_allclose(drawn(at)[1]["A0"].reshape(4, 4)[1], 0.25)


def test_dropped_rows_are_summed_beside_the_standard():
    at = fine(page(dropout="0.3", draw="1", screen="rows"))
    table, weights = at.dataframe[0].value, drawn(at)[1]["now0"].reshape(4, 4).astype(float)
    sums = table["row sum, now"].astype(float).to_numpy()
    assert not np.allclose(sums, 1.0)
    np.testing.assert_allclose(sums, weights.sum(1), atol=1e-4)
    for row, said in zip(weights, table["entropy, now"], strict=True):
        shares = row[row > 0] / row.sum()
        expected = "undefined" if not len(shares) else f"{-(shares * np.log(shares)).sum():.4f}"
        assert said == expected
    assert "undefined" in list(fine(page(dropout="0.9", draw="1", screen="rows")).dataframe[0].value["entropy, now"])


@pytest.mark.parametrize("kind", controls.SITES)
@pytest.mark.usefixtures("shipped")
def test_the_trained_translator_goes_through_the_same_steps(kind: str):
    at = fine(page(made="shipped", attention=kind, stage="project"))
    assert {"Q0", "b_Q0", "K0", "V0"} <= set(drawn(at)[0])
    assert ("target" in [field.key for field in at.text_input]) == (kind != "encoder")
    fine(page(made="shipped", attention=kind, screen="board", cell="A1.1.0", at_head="1"))


@pytest.mark.usefixtures("shipped")
def test_the_trained_cross_attention_starts_with_the_head_that_was_measured(monkeypatch: pytest.MonkeyPatch):
    known = SimpleNamespace(rows=[0], best=SimpleNamespace(layer=0, head=1))
    monkeypatch.setattr(heads, "agreement", lambda _: known)
    at = fine(page(made="shipped", attention="cross", stage="softmax"))
    assert at.session_state["at_head"] == "1"
    assert "A1" in drawn(at)[0]
    assert fine(page(made="shipped", attention="encoder", stage="softmax")).session_state["at_head"] == "0"


def test_the_mean_of_the_heads_is_drawn_and_said_in_numbers():
    at = fine(page(screen="why", topic="mean", d_model="8", n_heads="4"))
    _, arrays = drawn(at)
    heads_of = [arrays[f"A{head}"].reshape(4, 4) for head in range(4)]
    np.testing.assert_allclose(arrays["A"].reshape(4, 4), np.mean(heads_of, axis=0), atol=1e-6)
    own, mean = (np.mean([one.max(axis=1) for one in side]) for side in (heads_of, [np.mean(heads_of, axis=0)]))
    assert f"is {own:.2f} in a head and {mean:.2f} in their mean" in words_of(at)


def test_a_head_reads_all_columns_and_the_root_may_divide_the_query():
    at = fine(page(stage="project", d_model="8", n_heads="4"))
    assert "Head 0 reads all 8 columns of its input through its own 2 columns" in words_of(at)
    said = words_of(fine(page(stage="scale", temperature="2.0")))
    assert float(re.search(r"by more than ([\de.+-]+)\.", said)[1]) < 1e-12


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
    fine(page(made="shipped", attention=kind, screen="board"))


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


@pytest.mark.usefixtures("shipped")
def test_bad_sentences_get_a_sentence():
    at = page(made="shipped")
    for bad, message in (("   ", "empty"), ("word " * 400, "shorten it"), ("x" * 10_000, "10,000 characters")):
        at.text_input(key="source").set_value(bad).run()
        assert not at.exception
        assert message in at.warning[0].value


@pytest.mark.usefixtures("shipped")
def test_strange_sentences_run_or_get_a_sentence():
    at = page(made="shipped")
    for strange in ("<script>alert(1)</script>", "🚲 🚲", "مرحبا", "a\u0000b\u0007"):
        at.text_input(key="source").set_value(strange).run()
        assert not at.exception


def test_without_a_checkpoint_the_page_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    at = page(made="shipped")
    assert not at.exception
    assert "train one" in at.error[0].value


@pytest.mark.parametrize("topic", ["root", "cosine"])
def test_every_why_is_answered_with_numbers(topic: str):
    at = fine(page(screen="why", topic=topic, d_model="16", n_heads="2"))
    found = words_of(at)
    if topic == "root":
        assert "At d_k = 64 the largest gradient is" in found
        variance = figure(at)
        assert [line["mode"] for line in variance["data"]] == ["lines", "markers"] * 2
    else:
        assert drawn(at)[0] == ["S", "C", "q", "k"]


def test_one_head_is_compared_with_all_that_it_was():
    names, arrays = drawn(fine(page(d_model="8", n_heads="4", split="1", screen="rows")))
    assert names == ["standard0", "standard1", "standard2", "standard3", "now0"]
    assert all(np.allclose(arrays[name].reshape(4, 4).sum(1), 1.0) for name in names)
