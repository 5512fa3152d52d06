"""Charts have the numbers that they are given; labels are safe to draw; logos count bits; both languages are spoken."""

# ruff: noqa: RUF001 (Chinese has its own comma, colon and brackets)

import html
import importlib
import inspect
import json
import math
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plotly.subplots import make_subplots

from heedmap import plots, translate
from heedmap.attention.alignments import compared
from heedmap.attention.capture import recording, watch
from heedmap.checkpoint.checkpoint import Checkpoint
from heedmap.errors import InputError
from heedmap.lessons.sentences import toy_recurrent, toy_transformer
from heedmap.messages import LANGUAGES, Message, revealed, speaking
from heedmap.nn.search import DecodingOptions
from heedmap.plots import labels
from heedmap.plots.axes import Axis
from heedmap.plots.beams import beam_tree
from heedmap.plots.charts import curves, grouped_bars, heatmap, offset_profile, training
from heedmap.plots.export import csv
from heedmap.plots.logo import TALL, heights, letter_counts, logo
from heedmap.plots.picture import Picture, Quantity
from heedmap.plots.theme import ink, theme
from heedmap.runs.sequences.classify import classify
from heedmap.text.tokenizers import IdTokenizer, SpecialIds
from tests.classifiers import sequence_checkpoint
from tests.plots.examples import HOSTILE, picture
from tests.plots.test_beams import TREE


def test_a_title_names_what_was_changed_or_counts_it() -> None:
    changes = ("decoder.3.cross (heads 1, 3) off (mean)", "encoder.0.self (head 1, key 4) knocked out")
    assert replace(picture(), changes=changes).title.endswith("2 changes"), "both named are too long for one line"
    one = replace(picture(), changes=("encoder.0.self off (mean)",))
    assert one.title.endswith("changed: encoder.0.self off (mean)")


@pytest.mark.parametrize("quantity", [Quantity.WEIGHT, Quantity.SCORE])
def test_a_heatmap_draws_the_pictures_own_array_queries_down_and_leaves_masked_cells_empty(quantity: Quantity) -> None:
    drawn = picture(causal=True, quantity=quantity)
    figure = heatmap(drawn)
    cells, layout, largest = figure.data[0], figure.layout, float(np.abs(drawn.values[drawn.visible]).max())
    np.testing.assert_array_equal(cells.z, np.where(drawn.visible, drawn.values, np.nan))
    assert (cells.zmin, cells.zmax) == ((0, 1) if quantity is Quantity.WEIGHT else (-largest, largest))
    ends = ("#440154", "#fde725") if quantity is Quantity.WEIGHT else ("#3876be", "#d66c22")  # of the views
    assert (cells.colorscale[0][1], cells.colorscale[-1][1]) == ends
    assert cells.colorbar.title.text == drawn.unit
    assert cells.hovertemplate == "query: %{y}<br>key: %{x}<br>%{z:.6g}<extra></extra>"
    assert (layout.yaxis.autorange, layout.xaxis.side) == ("reversed", "top")
    assert layout.yaxis.title.text == "query: target (German)"
    assert layout.xaxis.title.text == "key: source (English)"
    assert [text.strip("\u2068\u2069") for text in layout.xaxis.ticktext] == list(drawn.keys.labels)


def test_no_token_becomes_markup_and_what_was_changed_is_said() -> None:
    drawn = replace(picture(texts=HOSTILE, notes=("<i>",)), site="<script>", changes=("encoder.0.self off (mean)",))
    figure = heatmap(drawn)
    texts = [*figure.layout.xaxis.ticktext, *figure.layout.yaxis.ticktext, figure.layout.title.text]
    assert not [text for text in texts if "<" in text]
    assert figure.layout.title.subtitle.text == "encoder.0.self off (mean)<br>&lt;i&gt;"


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return sum(share * one for share, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["ink", "faint", "accent", "second", "chosen"])
def test_every_colour_that_letters_have_can_be_read_on_the_paper(dark: bool, name: str) -> None:
    colours = theme(dark)
    low, high = sorted([luminance(getattr(colours, name)), luminance(colours.paper)])
    assert (high + 0.05) / (low + 0.05) >= 4.5


def subplots() -> go.Figure:
    figure = make_subplots(2, 2, subplot_titles=("a", "b", "c", "d"))
    figure.add_scatter(y=[1, 2], row=2, col=1)
    figure.add_heatmap(z=[[1, 2]], row=1, col=2)
    return figure.update_layout(title=dict(text="t", font=dict(size=17)), xaxis_title="x")


@pytest.mark.parametrize("dark", [False, True])
def test_ink_writes_every_axis_and_shares_no_template(dark: bool) -> None:
    found = ink(subplots(), theme(dark))
    assert {axis.tickfont.color for axis in found.select_xaxes()} == {theme(dark).ink}
    assert found.layout.title.font.to_plotly_json() == {"color": theme(dark).ink, "size": 17}
    found.layout.template.layout.font.size = 99
    assert ink(go.Figure(), theme(dark)).layout.template.layout.font.size == 12


@pytest.mark.parametrize("dark", [False, True])
def test_figures_hold_what_they_are_given(dark: bool) -> None:
    share, spread, chance = np.array([0.1, 0.7, 0.2]), np.array([0.01, np.nan, 0.02]), np.array([0.3, 0.4, 0.3])
    figure = offset_profile(
        [-1, 0, 1], share, spread, chance, names=("a", "b"), axis="offset", quantity="weight", dark=dark
    )
    assert list(figure.data[0].x) == [-1, 0, 1]
    assert list(figure.data[0].y) == share.tolist()
    assert list(figure.data[0].error_y.array) == [0.01, 0.0, 0.02]
    assert list(figure.data[1].y) == chance.tolist()
    lines = curves({"one": np.array([0.1, 0.2]), "two": np.array([0.3, 0.4])}, "x", "y", x=["50", "100"])
    assert [(line.name, list(line.y)) for line in lines.data] == [("one", [0.1, 0.2]), ("two", [0.3, 0.4])]
    assert [list(line.x) for line in lines.data] == [["50", "100"]] * 2
    assert lines.layout.xaxis.type == "category", "50 and 100 are names, apart as all others are"


@pytest.mark.parametrize("dark", [False, True])
def test_lines_hold_their_values_and_a_sentence_is_marked_where_there_is_one(dark: bool) -> None:
    lines = {"one": [3.0, 12.0, 48.0], "<b>two</b>": [5.0, 10.0]}
    figure = curves(
        lines, "tokens", "multiply-adds", x=[2, 4, 8], log_x=True, log_y=True, mark=7.0, mark_name="your sentence: 7",
        dashed=True, dark=dark,
    )  # fmt: skip
    found = [(list(trace.x), list(trace.y)) for trace in figure.data]
    assert found == [([2, 4, 8], [3.0, 12.0, 48.0]), ([2, 4], [5.0, 10.0])]
    assert figure.data[1].name == "&lt;b&gt;two&lt;/b&gt;"
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    mark = figure.layout.shapes[0]
    assert mark.x0 == mark.x1 == 7
    note = figure.layout.annotations[0]
    assert (note.text, note.x) == ("your sentence: 7", pytest.approx(np.log10(7)))
    assert figure.data[0].line.color != figure.data[1].line.color
    assert figure.data[0].line.dash != figure.data[1].line.dash
    figure = curves({"one": [3.0]}, "tokens", "seconds", x=[2])
    assert figure.layout.shapes == ()
    assert figure.data[0].mode == "lines"


def test_letters_share_the_information_of_their_place_with_the_small_sample_correction() -> None:
    counts = letter_counts(["GTN", "GAN", "GTA", "GTC", "GCN"], "ACGT")
    assert counts.tolist() == [[0, 1, 1], [0, 1, 1], [5, 0, 0], [0, 3, 0]]
    of_two = 2 - 1 - 3 / (2 * math.log(2) * 2)
    expected = [
        2 - 3 / (2 * math.log(2) * 5),
        2 + sum(p * math.log2(p) for p in (0.2, 0.2, 0.6)) - 3 / (10 * math.log(2)),
    ]
    np.testing.assert_allclose(heights(counts).sum(axis=0), [*expected, max(of_two, 0.0)], atol=1e-12)
    assert heights(counts)[3, 1] == pytest.approx(0.6 * expected[1])
    assert heights(np.array([[1, 0], [1, 0], [1, 0], [1, 0]])).sum() == 0, "never negative, and nothing of no letters"


def test_letters_are_as_tall_as_their_bits_the_largest_on_top() -> None:
    bits = np.array([[0.1, 1.9], [0.3, 0], [0, 0], [0.2, 0]])
    drawn = re.findall(r'translate\((\S+) (\S+)\) scale\(\S+ -(\S+)\)" fill="(#\w+)"', logo("ACGT", bits, ["1", "<2>"]))
    tall = [(float(height) * 2 / TALL, (TALL - float(foot)) * 2 / TALL) for _, foot, height, _ in drawn]
    assert tall == [pytest.approx(one, abs=1e-3) for one in [(0.1, 0.0), (0.2, 0.1), (0.3, 0.3), (1.9, 0.0)]]
    assert len({left for left, *_ in drawn}) == 2
    assert ">&lt;2&gt;</text>" in logo("ACGT", bits, ["1", "<2>"])


def test_letters_without_an_outline_bear_their_name() -> None:
    found = logo("ACDE", np.array([[0.0], [0.0], [1.0], [0.0]]), ["1"])
    assert ">D</text>" in found
    assert "<rect" in found


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
    drawn, text = html.unescape(labels.short(text, length)), revealed(text)
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


def test_the_width_of_labels_counts_wide_characters_twice_and_stops_where_they_are_cut() -> None:
    assert labels.width([]) == 0
    assert labels.width(["abc", "a"]) == pytest.approx(0.6 * 12 * 3)
    assert labels.width(["\u65e5\u672c"]) == pytest.approx(0.6 * 12 * 4)
    assert labels.width(["x" * 99]) == labels.width(["x" * labels.LENGTH])


def test_every_hostile_token_has_a_label_of_its_own() -> None:
    drawn = [labels.isolated(label) for label in Axis.of_tokens("key", HOSTILE).labels]
    assert len(set(drawn)) == len(HOSTILE)


NAMES = ("decoder.1.cross", "softmax", "log", "nan", "nat", "bit", "cells", "patches")
"""What a Chinese figure writes in Latin letters: sites, terms of the field, units, traces never shown."""

SHOWN = {"text", "title", "name", "hovertext", "hovertemplate", "customdata", "ticktext"}
"""Keys of a figure that hold what a person reads."""


def chinese() -> Picture:
    """A map whose words are messages, or Chinese."""
    queries, keys = (Axis.of_tokens(Message(f"figure_{name}"), ["词"]) for name in ("measured", "written"))
    head, cell = Message("head_number", head=2), np.ones((1, 1))
    return Picture("decoder.1.cross", head, cell, cell > 0, queries, keys, notes=(Message("figure_measured"),))


DRAWN: dict[str, tuple[Callable[..., go.Figure], Callable[[], go.Figure]]] = {
    "heatmap": (heatmap, lambda: heatmap(chinese())),
    "beams": (beam_tree, lambda: beam_tree(TREE, lambda token: f"▁{token}")),
    "marked curves": (
        curves,
        lambda: curves(
            {"模型": [1.0, 2e6]}, "词元数", "乘加", x=[2, 4], log_x=True, log_y=True, mark=3.0, mark_name="这句"
        ),
    ),
    "training": (
        training,
        lambda: training([0, 9], {"对": [0.0, 1.0]}, {"损失": [None, 1.0]}, ("学习率", [0.1, 0.1]), at=9, axis="更新"),
    ),
    "curves": (curves, lambda: curves({"甲": np.ones(3)}, "横", "纵", mark=1.0)),
    "offsets": (
        offset_profile,
        lambda: offset_profile(
            [-1, 0, 1], np.ones(3), np.ones(3), np.ones(3), names=("份额", "均匀"), axis="偏移", quantity="份额"
        ),
    ),
    "curves over names": (curves, lambda: curves({"甲": np.ones(1)}, "更新", "份额", x=["50"], dots=[0], dashed=True)),
    "grouped bars": (grouped_bars, lambda: grouped_bars({"甲": np.ones(2)}, ["子", "丑"], "纵")),
}
"""A figure of every kind, in every state that has words of its own: which function drew it, and how."""


def shown(thing: object, key: str = "") -> Iterator[str]:
    """Every string of a figure's JSON that a person reads."""
    if isinstance(thing, str):
        if key in SHOWN:
            yield thing
    elif isinstance(thing, dict):
        for name, value in thing.items():
            yield from shown(value, key if key in SHOWN and name == "_inputArray" else name)
    elif isinstance(thing, list):
        for value in thing:
            yield from shown(value, key)


def latin(text: str) -> list[str]:
    """Words of Latin letters in a text, without markup, placeholders and names."""
    plain = re.sub(r"<[^>]*>|&\w+;|%\{[^}]*\}", " ", text)
    for name in NAMES:
        plain = plain.replace(name, " ")
    return re.findall(r"[A-Za-z]{2,}", plain)


def texts_of(figure: go.Figure) -> list[str]:
    content = json.loads(figure.to_json())
    content["layout"].pop("template")
    return list(shown(content))


@pytest.mark.parametrize("name", DRAWN)
def test_a_chinese_figure_has_no_english_word(name: str) -> None:
    with speaking("zh"):
        texts = texts_of(DRAWN[name][1]())
    assert any(re.search("[\u4e00-\u9fff]", text) for text in texts)
    assert {text: found for text in texts if (found := latin(text))} == {}


def test_every_function_that_draws_is_drawn_above() -> None:
    found = set()
    for module in pkgutil.iter_modules(plots.__path__, f"{plots.__name__}."):
        for name, one in inspect.getmembers(importlib.import_module(module.name), inspect.isfunction):
            public = not name.startswith("_") and one.__module__ == module.name
            if public and inspect.signature(one).return_annotation in {go.Figure, "go.Figure"}:
                found.add(inspect.unwrap(one).__name__)
    assert found == {inspect.unwrap(drawn).__name__ for drawn, _ in DRAWN.values()} | {"ink"}


def test_a_table_of_a_picture_is_chinese_as_well() -> None:
    with speaking("zh"):
        first = csv(chinese()).splitlines()[0]
    assert first.startswith("查询\uff1a所测 | 键\uff1a写出 | decoder.1.cross · 头 2 | 注意力权重")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_quantity_has_a_unit_of_its_own(language: str) -> None:
    assert len({quantity.unit.in_language(language) for quantity in Quantity}) == len(Quantity)


def test_only_weights_and_shares_are_on_the_scale_of_probabilities() -> None:
    assert {quantity for quantity in Quantity if quantity.is_probability} == {Quantity.WEIGHT, Quantity.SHARE}


def in_chinese(text: str) -> str:
    assert isinstance(text, Message), f"{text!r} is said in English only"
    return text.in_language("zh")


def toy() -> Checkpoint:
    model = watch(toy_transformer(4, 2, seed=1))
    words = IdTokenizer(model.config.target_vocab, SpecialIds(0, 1, 2))
    return Checkpoint("toy", model, words, languages=("English", "German"))


def test_a_picture_says_what_it_shows_in_both_languages() -> None:
    cross = translate(toy(), "3 4 5", DecodingOptions(beam=1, max_length=4)).record["decoder.0.cross"]
    mean, head = cross.picture("mean", words=True, special=False), cross.picture(1, words=True, scores=True)
    model = watch(toy_recurrent(3, "location", 1))
    with recording() as seen:
        model(torch.tensor([[3, 4, 2]]), torch.tensor([[1, 3]]))
    recurrent = seen["decoder.cross"]
    for said, english, expected in (
        (cross.queries.name, "token being written (German)", "正在写的词元（German）"),
        (cross.keys.name, "source (English)", "源句（English）"),
        (mean.title, "decoder.0.cross · mean of 2 heads", "decoder.0.cross · 2 个头的平均"),
        (head.title, "decoder.0.cross · head 1", "decoder.0.cross · 头 1"),
        (mean.notes[-1], "special tokens are hidden", "特殊词元已隐藏：各行之和不再是 1"),
        (head.notes[-1], "scores are of pieces", "分数属于词片：不合并成词"),
        (mean.unit, "attention weight (probability)", "注意力权重（概率）"),
        (head.unit, "score (scaled dot product", "分数（缩放点积，掩码之前）"),
        (mean.reduced(1).notes[-1], "", "每 "),
        (compared(mean, mean).difference.unit, "difference", "差（第一个权重减第二个）"),
        (recurrent.picture(0, scores=True).unit, "score (logarithm", "分数（权重的对数"),
        (recurrent.queries.name, "query position", "查询位置"),
        (recurrent.keys.name, "key position", "键位置"),
    ):
        assert str(said).startswith(english), said
        assert in_chinese(said).startswith(expected), said


def test_an_error_with_a_noun_is_said_in_both_languages() -> None:
    checkpoint = sequence_checkpoint()
    with pytest.raises(InputError) as refused:
        classify(checkpoint, "ACG!")
    assert str(refused.value) == "letter 4 is '!', which is no DNA code: use ACGT or the codes NRYSWKMBDHV"
    assert in_chinese(refused.value.message) == "第 4 个字母是 '!'，不是 DNA 代码：请用 ACGT 或代码 NRYSWKMBDHV"
    with pytest.raises(InputError) as refused:
        translate(toy(), "3", forced=" ")
    assert in_chinese(refused.value.message).startswith("强制的译文是空的")
