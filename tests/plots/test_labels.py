"""Labels: safe to draw, short enough for an axis, whole on hover."""

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plots.examples import HOSTILE
from transformer.plots import labels
from transformer.plots.axes import Axis

texts = st.text(st.characters(codec="utf-8"), max_size=40)


@given(texts)
def test_a_safe_label_holds_nothing_that_plotly_would_interpret(text: str) -> None:
    drawn = labels.safe(text)
    assert drawn.strip()
    assert not set("<>$") & set(drawn)
    assert "%{" not in drawn
    assert all(ord(character) >= 0x20 for character in drawn)


@given(texts.filter(lambda text: text.strip() and text.isprintable() and "▁" not in text))
def test_a_safe_label_reads_as_its_text(text: str) -> None:
    assert html.unescape(labels.safe(text)) == text


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("▁man", "▁man"),
        ("▁", "␣"),
        ("", "(empty)"),
        ("  ", "␣␣"),
        ("a\nb", "a␊b"),
        ("\x7f", "␡"),
        ("<s>", "&lt;s&gt;"),
        ("&lt;", "&amp;lt;"),
        ("$5", "&#36;5"),
        ("%{x}", "%&#123;x}"),
    ],
)
def test_what_is_drawn(text: str, drawn: str) -> None:
    assert labels.safe(text) == drawn


@given(texts, st.integers(2, 20))
def test_a_short_label_is_a_beginning_of_at_most_its_length(text: str, length: int) -> None:
    drawn = html.unescape(labels.short(text, length))
    if len(text) <= length:
        assert labels.short(text, length) == labels.safe(text)
    else:
        assert drawn.endswith("…")
        assert len(drawn) <= max(length, len("(empty)…"))


def test_a_cut_does_not_split_a_character() -> None:
    family, accent = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "e\u0301"
    assert labels.short("abc" + family + "def", 6) == "abc…"
    assert labels.short("abc" + accent + "def", 5) == "abc…"
    assert labels.short("abcd" + accent + "f", 5) == "abcd…"


def test_a_long_label_is_whole_on_hover() -> None:
    axis = Axis.of_tokens("key", ["Donaudampfschifffahrt", "the", "the"])
    whole = labels.whole(axis)["ticktext"]
    assert [text.strip("\u2068\u2069") for text in whole] == ["Donaudampfschifffahrt", "the (1)", "the (2)"]


def test_the_width_of_labels_counts_wide_characters_twice_and_stops_where_they_are_cut() -> None:
    assert labels.width([]) == 0
    assert labels.width(["abc", "a"]) == pytest.approx(0.6 * 12 * 3)
    assert labels.width(["\u65e5\u672c"]) == pytest.approx(0.6 * 12 * 4)
    assert labels.width(["x" * 99]) == labels.width(["x" * labels.LENGTH])


def test_every_hostile_token_has_a_label_of_its_own() -> None:
    drawn = [labels.isolated(label) for label in Axis.of_tokens("key", HOSTILE).labels]
    assert len(set(drawn)) == len(HOSTILE)


def test_a_long_text_is_broken_between_words_and_between_chinese_letters() -> None:
    text = "pieces are merged to words: summed over keys, averaged over queries; special tokens are hidden <b>"
    lines = labels.wrapped(text, 200.0).split("<br>")
    assert len(lines) > 1
    assert html.unescape(" ".join(lines)) == text
    chinese = labels.wrapped("词片已合并成词对键求和对查询取平均", 100.0)
    assert chinese.replace("<br>", "") == "词片已合并成词对键求和对查询取平均"
    assert max(map(len, chinese.split("<br>"))) <= 8
    closing = labels.wrapped("最关注的宽的窗口（六十个）", 12 * 12 * 1.1)  # noqa: RUF001
    assert closing.split("<br>") == ["最关注的宽的窗口（六十", "个）"]  # noqa: RUF001
