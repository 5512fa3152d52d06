"""The page "Positions": first paint, every screen and control, experiments, hostile input."""

import csv
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from heedmap.checkpoint.ours.folder import save_folder
from heedmap.lessons.positions import VARIANTS, position_table, stored_table, trained_table
from heedmap.nn.kmer import KmerClassifier, KmerConfig
from tests.pages.opening import Files, figure, fine, numbers, opened, sent, words_of
from tests.pages.tiny import save_tiny
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


def table_of(variant: str, length: int, d_model: int, base: float = 10_000.0) -> np.ndarray:
    """What is shown as a variant; the learned table keeps its own width."""
    if variant == "learned":
        return trained_table().table[:length]
    return position_table(variant, length, d_model, base)  # type: ignore[arg-type]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_table_follows_every_control_and_what_is_said_is_counted_in_it(variant: str):
    np.testing.assert_allclose(shown(fine(page())), position_table("paper", 100, 64), atol=1e-6)
    at = fine(page(variant=variant, d_table="6", n_rows="9", base="100"))
    expected = table_of(variant, 9, 6, 100.0)
    np.testing.assert_allclose(shown(at), expected, atol=1e-6)
    still = sum(max(column) - min(column) < 0.01 for column in expected.T)
    assert f"over these 9 positions: {still} of {expected.shape[1]}." in words_of(at)


@pytest.mark.parametrize(
    ("variant", "d_table", "n_rows", "base"),
    [
        ("paper", "64", "100", "10000"),
        ("doubled", "6", "23", "100"),
        ("halves", "2", "3", "10"),
        ("learned", "64", "100", "10000"),
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
    assert ("All curves are one" in text) == (spread < 1e-9)
    assert (f"differs by up to {spread:.2f}" in text) == (spread >= 1e-9)
    rises = sum(products[0, k + 1] > products[0, k] for k in range(n - 1))
    assert (f"rises at {rises} of {n - 1} steps" in text) == (rises > 0)
    assert ("falls with every step" in text) == (rises == 0)


def product_by(latex: str, table: np.ndarray, p: int, k: int, base: float) -> float:
    """The right side of the formula for t_p . t_(p+k), from its LaTeX: each form that it may have, with numbers."""
    d, right = table.shape[1], latex.partition(" = ")[2].strip("$\n ")
    if right.startswith(r"\textstyle\sum_j t_{p,j}"):
        return float(table[p] @ table[p + k])
    omega = base ** (-2 * np.arange(d) / d)
    if right.startswith(r"\textstyle\sum_{j = 0, 2"):
        assert r"\nu_j = \mathrm{base}^{-2j/d}" in right
        sines, cosines = (wave(p * omega) * wave((p + k) * omega) for wave in (np.sin, np.cos))
        return float(sines[::2].sum() + cosines[1::2].sum())
    assert right == r"\textstyle\sum_i \cos(k\,\omega_i), \qquad \omega_i = \mathrm{base}^{-2i/d}"
    return float(np.cos(k * omega[: d // 2]).sum())


@pytest.mark.parametrize(("d_table", "n_rows", "base"), [(6, 5, 10_000), (64, 63, 100)])
def test_the_variants_stand_beside_their_difference_from_the_paper_s_of_their_width(
    d_table: int, n_rows: int, base: int
):
    at = fine(page(screen="variants", d_table=str(d_table), n_rows=str(n_rows), base=str(base)))
    for variant in VARIANTS:
        table = shown(at, f"plot.{variant}")
        np.testing.assert_allclose(table, table_of(variant, n_rows, d_table, float(base)), atol=1e-6)
        assert table.shape == (n_rows, 64 if variant == "learned" else d_table)
        if variant == "paper":
            continue
        paper = position_table("paper", *table.shape, float(base))
        difference = shown(at, f"plot.{variant}.difference")
        np.testing.assert_allclose(difference, table - paper, atol=1e-6)
        still = [sum(max(column) - min(column) < 0.01 for column in one.astype(float).T) for one in (paper, table)]
        assert f"paper {still[0]}, variant {still[1]}." in words_of(at)
        assert f"Largest difference: {np.abs(difference).max():.3f}" in words_of(at)
    assert ("The learned table has d_model = 64, the others " in words_of(at)) == (d_table != 64)


@pytest.fixture
def learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A translator and a classifier with learned tables beside one without."""
    save_tiny(tmp_path)
    save_tiny(tmp_path / "more", positions="learned", max_length=31)
    (tmp_path / "more" / "tiny").rename(tmp_path / "taught")
    config = KmerConfig.of(
        vocab=7, n_classes=3, d_model=8, n_heads=2, d_ff=5, n_layers=1, positions="learned", max_length=19
    )
    save_folder(tmp_path / "windows", "kmer", KmerClassifier(config), half=False)
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", tmp_path)


@pytest.mark.parametrize(("name", "rows"), [("taught", 31), ("windows", 19)])
@pytest.mark.usefixtures("learned")
def test_a_checkpoints_own_learned_table_is_shown_as_far_as_it_goes(name: str, rows: int):
    for lang, message in (("en", f"positions 0 to {rows - 1}"), ("zh", f"位置 0 到 {rows - 1}")):
        at = fine(page(variant="learned", whose=name, n_rows="40", lang=lang))
        np.testing.assert_array_equal(shown(at), stored_table(store.checkpoint(name).model).astype(np.float32))
        assert message in words_of(at)
        assert at.selectbox(key="whose").options[1:] == ["taught", "windows"]


def test_the_learned_table_of_the_small_translator_is_told_as_far_as_it_was_trained():
    at = fine(page(variant="learned", n_rows="64"))
    np.testing.assert_allclose(shown(at), trained_table().table, atol=1e-6)
    for said in ("learned from 28,991 captions", "From position 62 on no training sentence", "page Your model"):
        assert said in words_of(at)
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


@pytest.mark.parametrize("n_rows", [100, 2, 3, 4])
def test_the_rotation_is_exact_and_fewer_positions_than_steps_still_turn(n_rows: int):
    at = fine(page(screen="rotation", steps="7", d_table="8", **({} if n_rows == 100 else {"p": "50"})))
    if n_rows == 100:
        assert "Over all 93 positions p" in words_of(at)
        assert f"pair 0: {np.degrees(7) % 360:.4g}°, pair 1: {np.degrees(0.7):.4g}°" in words_of(at)
    else:
        at.slider(key="n_rows").set_value(n_rows)
        fine(at.run())
        assert at.slider(key="steps").value == min(3, n_rows - 1)
    _, arrays = sent(at)
    turn = arrays["R"].reshape(8, 8)
    np.testing.assert_allclose(turn @ turn.T, np.eye(8), atol=1e-6)
    np.testing.assert_allclose(arrays["turned"], arrays["t_q"], atol=1e-6)


@pytest.mark.parametrize("made", ["toy", "shipped"])
@pytest.mark.usefixtures("shipped")
def test_without_positions_no_words_output_moves(made: str):
    at = fine(page(screen="order", made=made, draw="3"))
    without, with_them = (numbers(bars["y"]) for bars in figure(at)["data"])
    assert np.abs(without).max() < 1e-12
    assert with_them.max() > 1e-3
    assert f"moves by {with_them.max():.0%} of its length" in words_of(at)


def test_files_count_positions_and_dimensions_as_the_page_does(files: Files):
    def rows(**address: str) -> list[list[str]]:
        fine(page(**address))
        return list(csv.reader(files["csv"][1]().splitlines()))

    header, *waves = rows(screen="waves", d_table="16", n_rows="5", dim="9")
    assert header == ["", *(f"dimension {number}" for number in (0, 4, 8, 9, 12))]
    found = np.array(waves, dtype=float)
    np.testing.assert_array_equal(found[:, 0], range(5))
    np.testing.assert_allclose(found[:, 1:], position_table("paper", 5, 16)[:, [0, 4, 8, 9, 12]])
    assert rows(screen="distance", d_table="16", n_rows="3")[0] == ["", "0", "1", "2"]
    header, *words = rows(screen="order", draw="3")
    assert header[1:] == ["position in the sentence", "position when shuffled", "without positions", "with positions"]
    assert [row[1] for row in words] == list("012345") == sorted(row[2] for row in words)
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


@pytest.mark.parametrize("screen", ["table", "waves", "variants", "distance", "rotation"])
@pytest.mark.parametrize(("n_rows", "d_table"), [("2", "2"), ("200", "128")])
@pytest.mark.usefixtures("shipped")
def test_the_smallest_and_largest_tables_are_shown_on_every_screen_that_has_one(screen: str, n_rows: str, d_table: str):
    assert not fine(page(screen=screen, n_rows=n_rows, d_table=d_table)).warning
