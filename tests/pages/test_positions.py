"""The page "Positions": first paint, every screen and control, experiments, hostile input."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.opening import figure, fine, numbers, opened, sent
from tests.pages.tiny import save_tiny
from transformer.checkpoint.ours.folder import save_folder
from transformer.lessons.positions import LATER, VARIANTS, position_table, stored_table
from transformer.models.kmer import KmerClassifier, KmerConfig
from ui.lessons.positions.controls import SCREENS, TRY
from ui.lessons.positions.screens import SIZED
from ui.store import store

page = partial(opened, "positions")


def plotted(at: AppTest) -> dict[str, Any]:
    """The first line or map of the page's first figure."""
    trace: dict[str, Any] = figure(at)["data"][0]
    return trace


def test_the_first_paint_is_the_table_of_the_paper():
    np.testing.assert_allclose(numbers(plotted(fine(page()))["z"]), position_table("paper", 100, 64))


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.usefixtures("shipped")
def test_every_screen_in_every_language(screen: str, lang: str):
    fine(page(screen=screen, lang=lang))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_table_follows_every_control(variant: str):
    at = fine(page(variant=variant, d_table="7", n_rows="9", base="100"))
    expected = position_table(variant, 9, 7, 100.0)  # type: ignore[arg-type]
    np.testing.assert_allclose(numbers(plotted(at)["z"]), expected)
    fine(page(screen="distance", variant=variant))


@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if variant != "paper"])
def test_variants_stand_beside_the_paper_with_the_difference(variant: str):
    at = fine(page(screen="variants", other=variant, d_table="8", n_rows="10"))
    tables = grid(at)
    np.testing.assert_allclose(tables["paper"][0], position_table("paper", 10, 8), atol=1e-6)
    shown, difference = tables[{"doubled": "doubled exponent"}.get(variant, variant)]
    np.testing.assert_allclose(shown, position_table(variant, 10, 8), atol=1e-6)  # type: ignore[arg-type]
    np.testing.assert_allclose(difference, shown - tables["paper"][0], atol=1e-6)
    assert f"Largest difference: {np.abs(difference).max():.3f}" in at.caption[-1].value


def grid(at: AppTest) -> dict[str, list[np.ndarray]]:
    """Tables of the variants' figure by name; behind each, its difference from the paper's."""
    found: dict[str, list[np.ndarray]] = {}
    for trace in figure(at)["data"]:
        name = trace["hovertemplate"].split("<extra>")[1].removesuffix("</extra>")
        found.setdefault(name, []).append(numbers(trace["z"]))
    return found


@pytest.fixture
def learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A translator and a classifier with learned tables beside one without."""
    save_tiny(tmp_path)
    save_tiny(tmp_path / "more", positions="learned", max_length=31)
    (tmp_path / "more" / "tiny").rename(tmp_path / "taught")
    config = KmerConfig(
        vocab=7, n_classes=3, d_model=8, n_heads=2, d_ff=5, n_layers=1, positions="learned", max_length=19
    )
    save_folder(tmp_path / "windows", "kmer", KmerClassifier(config), half=False)
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)


@pytest.mark.parametrize(("name", "rows", "width"), [("taught", 31, 12), ("windows", 19, 8)])
@pytest.mark.usefixtures("learned")
def test_a_checkpoints_own_learned_table_stands_among_the_variants(name: str, rows: int, width: int):
    at = fine(page(screen="variants", whose=name, n_rows=str(rows)))
    assert at.selectbox(key="whose").options == ["a new model, before training", "taught", "windows"]
    table, difference = grid(at)["learned"]
    model = store.checkpoint(name).model
    np.testing.assert_array_equal(table, stored_table(model)[:rows].astype(np.float32))
    np.testing.assert_allclose(difference, table - position_table("paper", rows, width), atol=1e-6)


@pytest.mark.parametrize(
    ("lang", "message"),
    [("en", "32 positions are more than the 31"), ("zh", "要求 32 个位置")],
)
@pytest.mark.usefixtures("learned")
def test_a_checkpoints_table_ends_with_a_clear_error(lang: str, message: str):
    at = fine(page(screen="variants", whose="taught", n_rows="32", lang=lang))
    assert message in at.error[0].value
    assert len(grid(at)) == 4


def test_without_a_learned_table_the_variants_say_where_one_can_come_from():
    assert any("page Checkpoints" in caption.value for caption in fine(page(screen="variants")).caption)


def test_curves_name_their_wavelength():
    at = fine(page(screen="waves", d_table="16"))
    assert plotted(at)["name"] == "dimension 0, wavelength 6.3"


def test_the_rotation_is_exact():
    at = fine(page(screen="rotation", steps="7", d_table="8"))
    assert "over all 93 positions p: " in at.markdown[-1].value
    turn, turned, there = rotation_of(at)
    np.testing.assert_allclose(turn @ turn.T, np.eye(8), atol=1e-6)
    np.testing.assert_allclose(turned, there, atol=1e-6)


def rotation_of(at: AppTest) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """R, the row that it turned, and the row that this should be."""
    _, arrays = sent(at)
    return arrays["R"].reshape(8, 8), arrays["turned"], arrays["t_q"]


def test_the_rotation_is_the_same_from_any_position():
    first = rotation_of(fine(page(screen="rotation", steps="7", d_table="8", p="0")))
    later = rotation_of(fine(page(screen="rotation", steps="7", d_table="8", p="61")))
    np.testing.assert_array_equal(first[0], later[0])
    np.testing.assert_allclose(later[2], position_table("paper", 100, 8)[68], atol=1e-6)
    np.testing.assert_allclose(later[1], later[2], atol=1e-6)


def test_any_single_dimension_can_be_drawn_with_its_wavelength():
    at = fine(page(screen="waves", d_table="16", dim="9"))
    spec = figure(at)["data"]
    line = next(trace for trace in spec if trace["name"] == f"dimension 9, wavelength {2 * np.pi * 100:,.1f}")
    np.testing.assert_allclose(numbers(line["y"]), position_table("paper", 100, 16)[:, 9])


@pytest.mark.parametrize("variant", ["doubled", "learned"])
@pytest.mark.parametrize(("lang", "words"), [("en", ("even", "odd", "free")), ("zh", ("偶数", "奇数", "自由"))])
def test_the_words_in_formulas_are_of_the_language(variant: str, lang: str, words: tuple[str, ...]):
    formula = fine(page(variant=variant, lang=lang)).latex[0].value
    assert [word in formula for word in words] == [variant == "doubled"] * 2 + [variant == "learned"]


def test_an_odd_size_has_no_rotation():
    at = page(screen="rotation", d_table="7")
    assert not at.exception
    assert "choose an even number" in at.warning[0].value


@pytest.mark.parametrize("how", LATER)
def test_every_way_on_the_same_words(how: str):
    at = fine(page(screen="later", how=how))
    _, arrays = sent(at)
    np.testing.assert_allclose(arrays["none"].reshape(5, 5)[0], arrays["none"].reshape(5, 5)[3])


@pytest.mark.parametrize("made", ["toy", "shipped"])
@pytest.mark.usefixtures("shipped")
def test_without_positions_order_is_nothing(made: str):
    at = fine(page(screen="order", made=made, draw="3"))
    without, with_them = (float(metric.value) for metric in at.metric)
    assert without < 1e-12
    assert with_them > 1e-3


def test_the_learned_table_ends_with_a_clear_error():
    at = fine(page(screen="end", ready="16", asked="17"))
    assert "17 positions are more than the 16" in at.error[0].value
    assert not fine(page(screen="end", ready="16", asked="16")).error


@pytest.mark.usefixtures("shipped")
def test_the_share_of_positions_is_said():
    at = fine(page(screen="share"))
    table = at.dataframe[0].value
    assert list(table.columns) == ["token", "embedding", "position", "sum", "share of position"]
    assert table["share of position"].between(0, 1, inclusive="neither").all()
    at.text_input(key="source").set_value("").run()
    assert "empty" in at.warning[0].value


@pytest.mark.parametrize("name", TRY)
@pytest.mark.usefixtures("shipped")
def test_try_this_sets_the_controls(name: str):
    at = page(screen="waves", d_table="6", base="10")
    at.button(key=f"positions.{name}").click().run()
    fine(at)
    for key, value in TRY[name].items():
        assert at.session_state[key] == value


@pytest.mark.parametrize("screen", SIZED)
@pytest.mark.parametrize(
    ("n_rows", "d_table"),
    [("2", "2"), ("2", "3"), ("2", "128"), ("3", "128"), ("4", "3"), ("200", "2"), ("200", "128")],
)
@pytest.mark.usefixtures("shipped")
def test_the_smallest_and_largest_tables_are_shown_on_every_screen_that_has_one(screen: str, n_rows: str, d_table: str):
    at = page(screen=screen, n_rows=n_rows, d_table=d_table)
    assert not at.exception
    odd = screen == "rotation" and d_table == "3"
    assert [warning.value for warning in at.warning if "choose an even number" not in warning.value] == []
    assert bool(at.warning) == odd


@pytest.mark.parametrize("n_rows", [2, 3, 4])
def test_fewer_positions_than_steps_still_turn(n_rows: int):
    at = fine(page(screen="rotation", steps="7", p="50", d_table="8"))
    at.slider(key="n_rows").set_value(n_rows)
    fine(at.run())
    turn, turned, there = rotation_of(at)
    assert at.slider(key="steps").value == min(3, n_rows - 1)
    np.testing.assert_allclose(turn @ turn.T, np.eye(8), atol=1e-6)
    np.testing.assert_allclose(turned, there, atol=1e-6)


@pytest.mark.parametrize(
    ("screen", "controls"),
    [
        ("waves", {"dim": "0"}),
        ("rotation", {"steps": "0", "p": "0"}),
        ("rotation", {"steps": "1", "n_rows": "2", "d_table": "2"}),
        ("end", {"ready": "1", "asked": "1"}),
        ("end", {"ready": "1", "asked": "2"}),
        ("end", {"ready": "64", "asked": "1"}),
        ("order", {"draw": "0"}),
        ("order", {"draw": "0", "made": "shipped", "source": "A"}),
        ("share", {"source": "A"}),
        ("share", {"of": "toy"}),
        ("later", {"how": "alibi", "slope": "0"}),
        ("later", {"how": "alibi", "slope": "2.0"}),
    ],
)
@pytest.mark.usefixtures("shipped")
def test_every_control_at_its_smallest(screen: str, controls: dict[str, str]):
    fine(page(screen=screen, **controls))
