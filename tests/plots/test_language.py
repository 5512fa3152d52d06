"""Every figure speaks the language of the context that draws it: no English word is left in a Chinese one."""

import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Callable, Iterator

import numpy as np
import plotly.graph_objects as go
import pytest

from tests.plots.test_beams import TREE
from transformer import plots
from transformer.messages import LANGUAGES, Message, catalogue, speaking
from transformer.plots.axes import Axis
from transformer.plots.bars import grouped_bars, histogram
from transformer.plots.beams import beam_tree
from transformer.plots.curves import curves, training
from transformer.plots.export import csv
from transformer.plots.heads import offset_profile, tree_of_heads
from transformer.plots.heatmap import heatmap
from transformer.plots.lessons import table_grid
from transformer.plots.logo import logo
from transformer.plots.picture import Picture
from transformer.plots.quantity import Quantity

NAMES = ("decoder.1.cross", "softmax", "log", "nan", "nat", "bit", "cells", "patches")
"""What a Chinese figure writes in Latin letters: sites, terms of the field, units, traces never shown."""

SHOWN = {"text", "title", "name", "hovertext", "hovertemplate", "customdata", "ticktext"}
"""Keys of a figure that hold what a person reads."""


def chinese(quantity: Quantity = Quantity.WEIGHT, n: int = 5) -> Picture:
    """A map with masked and missing cells; its head and note are messages, its tokens Chinese."""
    values = np.random.default_rng(0).random((n, n))
    values[2, 1] = np.nan
    queries = Axis.of_tokens(Message("figure_masked"), [f"词{i}" for i in range(n)])
    keys = Axis.of_tokens(Message("figure_written"), [f"字{i}" for i in range(n)])
    note = (Message("figure_not_finite"), Message("figure_no_tokens"))
    visible = np.tri(n, dtype=bool)
    return Picture("decoder.1.cross", Message("quantity_weight_noun"), values, visible, queries, keys, quantity, note)


def empty() -> Picture:
    none = Axis.of_tokens("空", [])
    return Picture("decoder.1.cross", "头", np.zeros((0, 0)), np.zeros((0, 0), dtype=bool), none, none)


DRAWN: dict[str, tuple[Callable[..., go.Figure], Callable[[], go.Figure]]] = {
    "heatmap": (heatmap, lambda: heatmap(chinese())),
    "scores": (heatmap, lambda: heatmap(chinese(Quantity.SCORE))),
    "large": (heatmap, lambda: heatmap(chinese(n=101))),
    "empty": (heatmap, lambda: heatmap(empty())),
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
    "logo": (logo, lambda: logo("ACGT", np.array([[0.5, 0.0]] * 4), ["1", "2"])),
    "histogram": (histogram, lambda: histogram(np.array([2, 3]), np.array([0.0, 1.0, 2.0]), "张量")),
    "table grid": (table_grid, lambda: table_grid({"甲": np.eye(3), "乙": np.eye(3)}, {"乙": np.eye(3)}, ("行", "列"))),
    "curves": (curves, lambda: curves({"甲": np.ones(3)}, "横", "纵", mark=1.0)),
    "offsets": (
        offset_profile,
        lambda: offset_profile(
            [-1, 0, 1], np.ones(3), np.ones(3), np.ones(3), names=("份额", "均匀"), axis="偏移", quantity="份额"
        ),
    ),
    "curves over names": (curves, lambda: curves({"甲": np.ones(1)}, "更新", "份额", x=["50"], dots=[0], dashed=True)),
    "tree of heads": (
        tree_of_heads,
        lambda: tree_of_heads(
            np.array([[0.0, 1.0, 0.5, 2.0]]), ["甲", "乙"], ["注", "记"], np.array([0, 1]), 0.2, axis="距离"
        ),
    ),
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


@pytest.mark.parametrize("name", DRAWN)
def test_an_english_figure_has_no_chinese_word_of_ours(name: str) -> None:
    ours = {text for code, text in catalogue("zh").items() if code.startswith("figure_") and "{" not in text}
    texts = texts_of(DRAWN[name][1]())
    assert not [text for text in texts if text in ours]
    assert texts


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
        head = csv(chinese()).splitlines()[0]
    assert head.startswith("查询\uff1a被屏蔽 | 键\uff1a写出 | decoder.1.cross · 权重 | 注意力权重")


@pytest.mark.parametrize("quantity", Quantity)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_quantity_has_a_unit_and_a_noun(quantity: Quantity, language: str) -> None:
    with speaking(language):
        bar = heatmap(chinese(quantity)).data[0]
    title, unit = (
        re.sub(r"<br>|\s", "", text) for text in (bar.colorbar.title.text, quantity.unit.in_language(language))
    )
    assert title.startswith(unit), "however its lines are broken"
    assert bar.name == quantity.noun.in_language(language)


def test_only_weights_and_shares_are_on_the_scale_of_probabilities() -> None:
    scales = {quantity: heatmap(chinese(quantity)).data[0].zmin for quantity in Quantity}
    assert {quantity for quantity, low in scales.items() if low == 0} == {Quantity.WEIGHT, Quantity.SHARE}


def test_a_drawing_after_the_context_is_english_again() -> None:
    with speaking("zh"):
        heatmap(chinese())
    assert heatmap(chinese()).data[0].name == "weight"
