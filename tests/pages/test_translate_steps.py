"""Where a decoder looked at one step: the bars of a head, the diamonds of the mean, and keys without a weight."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np

from tests.pages.opening import DrawnBar, bar_rows, bars_of, fine, opened
from tests.plots.examples import picture
from transformer import DecodingOptions, load, translate
from transformer.plots.picture import Picture
from ui.store.shipped import CHECKPOINTS
from ui.translate.views import weights_of_step

SENTENCE = "Two dogs run."


def pictures(causal: bool = False) -> tuple[Picture, Picture]:
    head = picture(5, 7, causal=causal)
    return head, replace(head, head="mean of 3 heads", values=(head.values + 0.1) / 1.7)


def drawn(head: Picture, mean: Picture, step: int) -> tuple[str, list[DrawnBar]]:
    with patch("ui.shared.bars.st.html") as sent:
        weights_of_step(head, mean, step, "key")
    (html,) = sent.call_args.args
    return html, bar_rows(html)


def test_the_page_draws_the_row_of_the_head_and_the_likeliest_tokens() -> None:
    page = fine(opened("translate", text=SENTENCE, view="steps", written="2", layer="2", head="1"))
    shown = translate(load(CHECKPOINTS / "multi30k-en-de"), SENTENCE, DecodingOptions())
    for kind in ("cross", "self"):
        one = shown.record[f"decoder.2.{kind}"].picture(1)
        seen = one.visible[1]
        rows = bars_of(page, f"step-decoder.{kind}")
        np.testing.assert_allclose([row.value for row in rows], np.where(seen, one.values[1], np.nan), atol=1e-5)
        assert [row.look for row in rows] == ["" if one else "masked" for one in seen]
        assert [row.name for row in rows] == list(one.keys.texts)
    likeliest = bars_of(page, "next-tokens")[:-1]
    found = [one.probability for one in shown.steps[1].likeliest]
    np.testing.assert_allclose([row.value for row in likeliest], found, atol=1e-5)


def test_the_bars_of_a_step_are_the_row_of_the_head_and_diamonds_that_of_the_mean() -> None:
    head, mean = pictures()
    html, rows = drawn(head, mean, 3)
    assert [row.value for row in rows] == head.values[3].tolist()
    for row, value, other in zip(rows, head.values[3], mean.values[3], strict=True):
        assert f"head 2: weight {value:.6g}; mean of 3 heads: weight {other:.6g}" in row.note
        assert f'<u style="left:{100 * other:.2f}%">' in html
    assert "query: ▁q3" in html
    assert "attention weight (probability)" in html
    assert [row.name for row in rows] == [f"▁k{i}" for i in range(7)]


def test_the_mean_itself_has_no_diamonds() -> None:
    _, mean = pictures()
    html, rows = drawn(mean, mean, 0)
    assert len(rows) == 7
    assert "<u" not in html
    assert html.count("<i></i>") == 1, "the legend names one"


def test_keys_that_a_step_may_not_see_are_hatched_and_have_no_diamond() -> None:
    html, rows = drawn(*pictures(causal=True), 2)
    assert [row.look for row in rows] == [""] * 3 + ["masked"] * 4
    assert html.count("<u") == 3
    assert rows[3].note.endswith("masked: this query may not see this key")
    assert rows[3].text == ""
    assert '<span class="masked"><i></i><bdi>masked</bdi></span>' in html


def test_a_weight_that_is_no_number_is_crossed() -> None:
    head, mean = pictures()
    head.values[1, 4] = np.nan
    html, rows = drawn(head, mean, 1)
    assert [row.look for row in rows] == [""] * 4 + ["missing"] + [""] * 2
    assert rows[4].note.endswith("not a finite number")
    assert '<span class="missing"><i></i><bdi>not a finite number</bdi></span>' in html
