"""The page "Positions": first paint, every screen and control, experiments, hostile input."""

import csv
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.opening import figure, fine, numbers, opened, sent, words_of
from tests.pages.tiny import save_tiny
from transformer.checkpoint.ours.folder import save_folder
from transformer.lessons.expressions.board import Board
from transformer.lessons.positions import LATER, VARIANTS, position_table, stored_table, trained_table
from transformer.nn.kmer import KmerClassifier, KmerConfig
from ui.lessons.positions.controls import TRY
from ui.lessons.positions.screens import SIZED
from ui.lessons.shared import matrix_csv
from ui.store import store

page = partial(opened, "positions")


def shown(at: AppTest, key: str = "plot.positions") -> np.ndarray:
    """The table that is drawn, whose rows and columns count from 0."""
    header, arrays = sent(at, key)
    assert header["table"]
    assert header["centred"]
    shape = [len(header[side]["labels"]) for side in ("queries", "keys")]
    assert [header["queries"]["labels"][-1], header["keys"]["labels"][-1]] == [str(count - 1) for count in shape]
    return arrays["weights"].reshape(shape)


def test_the_first_paint_is_the_table_of_the_paper():
    np.testing.assert_allclose(shown(fine(page())), position_table("paper", 100, 64), atol=1e-6)


def table_of(variant: str, length: int, d_model: int, base: float = 10_000.0) -> np.ndarray:
    """What is shown as a variant; the learned table keeps its own width."""
    if variant == "learned":
        return trained_table().table[:length]
    return position_table(variant, length, d_model, base)  # type: ignore[arg-type]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_table_follows_every_control_and_what_is_said_is_counted_in_it(variant: str):
    at = fine(page(variant=variant, d_table="7", n_rows="9", base="100"))
    expected = table_of(variant, 9, 7, 100.0)
    np.testing.assert_allclose(shown(at), expected, atol=1e-6)
    still = sum(max(column) - min(column) < 0.01 for column in expected.T)
    assert f"over these 9 positions: {still} of {expected.shape[1]}." in words_of(at)


@pytest.mark.parametrize(
    ("variant", "d_table", "n_rows", "base"),
    [
        ("paper", "64", "100", "10000"),
        ("paper", "7", "23", "100"),
        ("doubled", "7", "23", "100"),
        ("halves", "2", "3", "10"),
        ("learned", "64", "100", "10000"),
        ("none", "2", "3", "10"),
    ],
)
def test_the_formula_of_the_distance_gives_the_curves_and_its_words_hold(
    variant: str, d_table: str, n_rows: str, base: str
):
    """The formula on the page is evaluated as it stands; every claim is checked on all pairs of positions."""
    at = fine(page(screen="distance", variant=variant, d_table=d_table, n_rows=n_rows, base=base))
    table = table_of(variant, int(n_rows), int(d_table), float(base))
    products, n = table @ table.T, len(table)
    curves = {curve["name"]: numbers(curve["y"]) for curve in figure(at)["data"]}
    for name, curve in curves.items():
        p = int(name.rpartition(" ")[2])
        np.testing.assert_allclose(curve, products[p, p:])
        expected = [product_by(at.latex[0].value, table, p, k, float(base)) for k in range(n - p)]
        np.testing.assert_allclose(curve, expected, atol=1e-9)
    spread = max(np.ptp([products[p, p + k] for p in range(n - k)]) for k in range(n))
    text = words_of(at)
    assert ("Every product is 0" in text) == (not table.any())
    assert ("All curves are one" in text) == (spread < 1e-9 and table.any())
    assert (f"differs by up to {spread:.2f}" in text) == (spread >= 1e-9)
    rises = sum(products[0, k + 1] > products[0, k] for k in range(n - 1))
    assert (f"rises at {rises} of {n - 1} steps" in text) == (rises > 0)
    assert ("falls with every step" in text) == (rises == 0 and bool(table.any()))


def product_by(latex: str, table: np.ndarray, p: int, k: int, base: float) -> float:
    """The right side of the formula for t_p . t_(p+k), from its LaTeX: each form that it may have, with numbers."""
    d = table.shape[1]
    right = latex.partition(" = ")[2].strip("$\n ")
    omega = [base ** (-2 * i / d) for i in range(d)]
    if right == "0":
        return 0.0
    if right.startswith(r"\textstyle\sum_j t_{p,j}"):
        return float(sum(table[p, j] * table[p + k, j] for j in range(d)))
    if right.startswith(r"\textstyle\sum_{j = 0, 2"):
        assert r"\nu_j = \mathrm{base}^{-2j/d}" in right
        sines = sum(np.sin(p * omega[j]) * np.sin((p + k) * omega[j]) for j in range(0, d, 2))
        return float(sines + sum(np.cos(p * omega[j]) * np.cos((p + k) * omega[j]) for j in range(1, d, 2)))
    assert r"\omega_i = \mathrm{base}^{-2i/d}" in right
    if right.startswith(r"\textstyle\sum_{i<m}"):
        m = (d - 1) // 2
        last = np.sin(p * omega[m]) * np.sin((p + k) * omega[m])
        return float(sum(np.cos(k * omega[i]) for i in range(m)) + last)
    assert right.startswith(r"\textstyle\sum_i \cos(k\,\omega_i),")
    return float(sum(np.cos(k * omega[i]) for i in range(d // 2)))


@pytest.mark.parametrize("other", ["doubled", "halves", "learned", "none"])
@pytest.mark.parametrize(("d_table", "n_rows", "base"), [(7, 5, 10_000), (64, 63, 100)])
def test_every_table_but_the_trained_one_has_the_width_that_is_chosen(d_table: int, n_rows: int, base: int, other: str):
    at = fine(page(screen="variants", other=other, d_table=str(d_table), n_rows=str(n_rows), base=str(base)))
    tables = grid(at)
    shapes = {name: [one.shape for one in found] for name, found in tables.items()}
    both = [(n_rows, d_table)] * 2
    assert shapes == {
        "paper": both[:1], "doubled exponent": both, "halves": both, "learned": [(n_rows, 64)] * 2, "none": both
    }  # fmt: skip
    learned, difference = tables["learned"]
    np.testing.assert_allclose(learned, trained_table().table[:n_rows], atol=1e-6)
    np.testing.assert_allclose(difference, learned - by_the_paper(n_rows, 64, base), atol=1e-6)
    assert ("The learned table has d_model = 64, the others " in words_of(at)) == (d_table != 64)
    shown = tables[{"doubled": "doubled exponent"}.get(other, other)][0].astype(float)
    paper = by_the_paper(len(shown), shown.shape[1], base)
    still = [sum(max(column) - min(column) < 0.01 for column in table.T) for table in (paper, shown)]
    assert f"paper {still[0]}, variant {still[1]}." in words_of(at)
    assert f"Largest difference: {np.abs(shown - paper).max():.3f}" in words_of(at)
    for name, (table, *beside) in tables.items():
        variant = "doubled" if name == "doubled exponent" else name
        if name != "learned":
            np.testing.assert_allclose(table, table_of(variant, n_rows, d_table, float(base)), atol=1e-6)
            assert all(np.allclose(one, table - tables["paper"][0], atol=1e-6) for one in beside)


def by_the_paper(length: int, width: int, base: float) -> np.ndarray:
    """Section 3.5 of the paper, number by number."""
    return np.array(
        [
            [(np.cos if j % 2 else np.sin)(p / base ** (2 * (j // 2) / width)) for j in range(width)]
            for p in range(length)
        ]
    )


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
    assert at.selectbox(key="whose").options == [
        "a small translator, after training",
        "a new model, before training",
        "taught",
        "windows",
    ]
    table, difference = grid(at)["learned"]
    model = store.checkpoint(name).model
    np.testing.assert_array_equal(table, stored_table(model)[:rows].astype(np.float32))
    np.testing.assert_allclose(difference, table - position_table("paper", rows, width), atol=1e-6)


@pytest.mark.parametrize(("lang", "message"), [("en", "positions 0 to 30"), ("zh", "位置 0 到 30")])
@pytest.mark.usefixtures("learned")
def test_a_checkpoints_table_is_shown_as_far_as_it_goes(lang: str, message: str):
    at = fine(page(screen="variants", whose="taught", other="learned", n_rows="40", lang=lang))
    assert message in words_of(at)
    name = "learned" if lang == "en" else "可学习"
    assert [len(table) for table in grid(at)[name]] == [31, 31]


def test_without_a_learned_table_the_variants_say_where_one_can_come_from():
    assert "page Your model" in words_of(fine(page(screen="variants")))


def test_the_learned_table_of_the_small_translator_is_told_as_far_as_it_was_trained():
    at = fine(page(variant="learned", n_rows="64"))
    np.testing.assert_allclose(shown(at), trained_table().table, atol=1e-6)
    assert "learned from 28,991 captions" in words_of(at)
    assert "From position 62 on no training sentence" in words_of(at)
    assert "no training sentence" not in words_of(fine(page(variant="learned", n_rows="62")))


def test_waves_are_smooth_through_the_rows_of_the_table():
    at = fine(page(screen="waves", d_table="16", n_rows="40", dim="9"))
    lines = {trace["name"]: trace for trace in figure(at)["data"] if trace["mode"] == "lines"}
    dots = {trace["name"]: trace for trace in figure(at)["data"] if trace["mode"] == "markers"}
    table = position_table("paper", 40, 16)
    for name, line in lines.items():
        dimension = int(name.split()[1].strip(","))
        x, y = numbers(line["x"]), numbers(line["y"])
        wave = np.cos if dimension % 2 else np.sin
        np.testing.assert_allclose(y, wave(x / 10_000 ** (dimension // 2 * 2 / 16)), atol=1e-6)
        assert np.diff(x).max() <= 0.1
        np.testing.assert_allclose(numbers(dots[name]["x"]), range(40))
        np.testing.assert_allclose(numbers(dots[name]["y"]), table[:, dimension], atol=1e-6)
    assert "dimension 9, wavelength 628.3" in lines


def test_the_rotation_is_exact():
    at = fine(page(screen="rotation", steps="7", d_table="8"))
    assert "Over all 93 positions p" in words_of(at)
    assert f"pair 0: {np.degrees(7) % 360:.4g}°, pair 1: {np.degrees(0.7):.4g}°" in words_of(at)
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


@pytest.mark.parametrize(
    ("variant", "lang", "words"),
    [("doubled", "en", ("even", "odd", "free")), ("learned", "zh", ("偶数", "奇数", "自由"))],
)
def test_the_words_in_formulas_are_of_the_language(variant: str, lang: str, words: tuple[str, ...]):
    formula = fine(page(variant=variant, lang=lang)).latex[0].value
    assert [word in formula for word in words] == [variant == "doubled"] * 2 + [variant == "learned"]


@pytest.mark.parametrize("how", LATER)
def test_every_way_on_the_same_words(how: str):
    at = fine(page(screen="later", how=how))
    _, arrays = sent(at)
    np.testing.assert_allclose(arrays["none"].reshape(5, 5)[0], arrays["none"].reshape(5, 5)[3])


@pytest.mark.parametrize("made", ["toy", "shipped"])
@pytest.mark.usefixtures("shipped")
def test_without_positions_no_words_output_moves(made: str):
    at = fine(page(screen="order", made=made, draw="3"))
    without, with_them = (numbers(bars["y"]) for bars in figure(at)["data"])
    assert np.abs(without).max() < 1e-12
    assert with_them.max() > 1e-3
    assert f"moves by {with_them.max():.0%} of its length" in words_of(at)


def test_the_learned_table_ends_with_a_clear_sentence():
    at = fine(page(screen="end", ready="16", asked="17"))
    assert "positions 0 to 15; there is no row for position 16" in at.error[0].value
    np.testing.assert_allclose(shown(at, "plot.fixed"), position_table("paper", 17, 64), atol=1e-6)
    np.testing.assert_allclose(shown(at, "plot.learned"), trained_table().table[:16], atol=1e-6)
    assert not fine(page(screen="end", ready="16", asked="16")).error


def test_files_count_positions_and_dimensions_as_the_page_does(monkeypatch: pytest.MonkeyPatch):
    offered: dict[str, list[list[str]]] = {}

    def offer(board: Board, names: Sequence[str], tables: dict[str, pd.DataFrame] | None = None) -> None:
        made = {name: matrix_csv(board[name]) for name in names}
        made |= {name: table.to_csv(index=False) for name, table in (tables or {}).items()}
        offered.update({name: list(csv.reader(text.splitlines())) for name, text in made.items()})

    monkeypatch.setattr("ui.lessons.shared.matrix_downloads", offer)
    fine(page(screen="waves", d_table="16", n_rows="5", dim="9"))
    assert offered["waves"][0] == ["", "dimension 0", "dimension 4", "dimension 8", "dimension 9", "dimension 12"]
    assert [row[0] for row in offered["waves"][1:]] == list("01234")
    numbers_of = np.array(offered["waves"][1:], dtype=float)[:, 1:]
    np.testing.assert_allclose(numbers_of, position_table("paper", 5, 16)[:, [0, 4, 8, 9, 12]])
    fine(page(screen="distance", d_table="16", n_rows="3"))
    assert offered["products"][0] == ["", "0", "1", "2"]
    fine(page(screen="rotation", d_table="4"))
    assert offered["R"][0] == ["", "0", "1", "2", "3"]
    fine(page(screen="order", draw="3"))
    header, *words = offered["shuffle"]
    assert header == [
        "token", "position in the sentence", "position when shuffled", "without positions", "with positions",
    ]  # fmt: skip
    assert [row[1] for row in words] == list("012345")
    assert sorted(row[2] for row in words) == list("012345")
    assert len({row[4] for row in words}) == 6, "each word has a movement of its own"


@pytest.mark.usefixtures("shipped")
def test_the_share_of_positions_is_words_of():
    at = fine(page(screen="share"))
    table = at.dataframe[0].value
    assert list(table.columns) == ["token", "embedding", "position", "sum", "share of position"]
    share = table["share of position"]
    assert share.between(0, 1, inclusive="neither").all()
    assert f"On average {share.mean():.1%}" in words_of(at)
    odds = table["position"] ** 2 / (table["embedding"] ** 2 / 12)  # the tiny model has d_model = 12
    assert f"would be {(odds / (1 + odds)).mean():.1%}" in words_of(at)
    at.text_input(key="source").set_value("").run()
    assert "empty" in at.warning[0].value


@pytest.mark.parametrize("name", TRY)
@pytest.mark.usefixtures("shipped")
def test_try_this_sets_the_controls(name: str):
    at = page(screen="waves", d_table="6", base="10")
    at.menu_button(key="positions.try").click(name).run()
    fine(at)
    for key, value in TRY[name].items():
        assert at.session_state[key] == value


@pytest.mark.parametrize("screen", SIZED)
@pytest.mark.parametrize(("n_rows", "d_table"), [("2", "3"), ("200", "2")])
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
        ("rotation", {"steps": "0", "p": "0", "n_rows": "2", "d_table": "2"}),
        ("end", {"ready": "1", "asked": "1"}),
        ("order", {"draw": "0", "made": "shipped", "source": "A"}),
        ("share", {"source": "A"}),
        ("later", {"how": "alibi", "slope": "0"}),
    ],
)
@pytest.mark.usefixtures("shipped")
def test_every_control_at_its_smallest(screen: str, controls: dict[str, str]):
    fine(page(screen=screen, **controls))
