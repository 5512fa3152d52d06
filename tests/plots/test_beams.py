"""The tree of a beam search: every hypothesis is there, no branches cross, and each says what became of it."""

from itertools import combinations
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedmap.errors import InputError
from heedmap.plots import labels
from heedmap.plots.beams import BAND, LETTERS, TOKEN_LENGTH, WIDE, beam_tree, places, status_text
from heedmap.text.beams import BeamTree, Node, Status
from tests.plots.examples import HOSTILE


def grow(beam: int, steps: int, seed: int) -> BeamTree:
    """A random search: each step considers 2 x beam extensions of those that live; the last step cuts or finishes."""
    random = np.random.default_rng(seed)
    nodes = [Node(0, None, 0, 0, 0.0, 0.0, 0.0, 0, "kept")]
    alive = [nodes[0]]
    for step in range(1, steps + 1):
        children = []
        for rank in range(2 * beam):
            parent = alive[int(random.integers(len(alive)))]
            status: Status = "pruned" if rank >= beam else "finished" if rank and random.random() < 0.1 else "kept"
            if status == "kept" and step == steps:
                status = "cut"
            total = parent.total - float(random.random())
            token = int(random.integers(1, len(HOSTILE)))
            node = Node(len(nodes), parent.id, token, step, total - parent.total, total, total / step, rank, status)
            nodes.append(node)
            children.append(node)
        alive = [node for node in children if node.status == "kept"]
    return BeamTree(tuple(nodes))


def label(token: int) -> str:
    return f"▁token{token}"


searches = given(st.integers(1, 5), st.integers(1, 13), st.integers(0, 2**32 - 1))
TREE = grow(beam=3, steps=11, seed=5)


def named(figure: go.Figure, what: str) -> dict[int, Any]:
    """What the traces of a status hold of each node (x, y, text, hovertext)."""
    traces = [one for one in figure.data if one.name]
    return {int(i): value for one in traces for i, value in zip(one.customdata, one[what], strict=True)}


@searches
def test_no_branches_cross_and_the_answer_runs_straight_down_the_left_side(beam: int, steps: int, seed: int) -> None:
    tree = grow(beam, steps, seed)
    spots = places(tree, label)
    for one, other in combinations([node for node in tree.nodes if node.parent is not None], 2):
        if one.step == other.step and one.parent is not None and other.parent is not None:
            before = spots[one.parent].x - spots[other.parent].x
            after = spots[one.id].x - spots[other.id].x
            assert before * after >= 0
            assert after != 0
    line = {0, *(node.id for node in tree.lineage(tree.best.id))}
    assert {node.id for node in tree.nodes if spots[node.id].x == 0} == line
    assert [spot.row for spot in spots] == [node.step for node in tree.nodes]


def pixels(figure: go.Figure) -> tuple[float, float]:
    """Pixels of a unit of x and of y, where the figure is drawn at its size."""
    layout = figure.layout
    across, down = layout.xaxis.range[1] - layout.xaxis.range[0], layout.yaxis.range[0] - layout.yaxis.range[1]
    margin = layout.margin
    return (layout.width - margin.l - margin.r) / across, (layout.height - margin.t - margin.b) / down


def boxes(figure: go.Figure) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of every node with its word, in pixels; letters are as high as their font is."""
    x_unit, y_unit = pixels(figure)
    found = []
    x, y = named(figure, "x"), named(figure, "y")
    for i, text in named(figure, "text").items():
        plain = text.removeprefix("<b>").removesuffix("</b>")
        right, across, down = 8 + labels.width([plain], LETTERS) if plain else 5, x[i] * x_unit, y[i] * y_unit
        found.append((across - 5, down - LETTERS / 2, across + right, down + LETTERS / 2))
    return found


@pytest.mark.parametrize(("beam", "steps"), [(1, 4), (3, 11), (5, 15), (5, 40), (8, 13)])
def test_no_line_crosses_a_word_and_no_word_touches_another(beam: int, steps: int) -> None:
    figure = beam_tree(grow(beam, steps, seed=7), label)
    _, y_unit = pixels(figure)
    words = boxes(figure)
    for one, other in combinations(words, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    for lines in figure.data[:3]:
        for i in range(0, len(lines.x), 3):
            upper, lower = lines.y[i] * y_unit, lines.y[i + 1] * y_unit
            assert upper + 4 < lower  # a line, and downwards
            assert all(bottom <= upper or lower <= top for _, top, _, bottom in words)


def test_a_usual_search_is_in_view_in_the_panel_of_a_small_window_and_the_worst_pruned_words_give_way() -> None:
    tree = grow(beam=5, steps=15, seed=1)
    layout, spots = beam_tree(tree, label).layout, places(tree, label)
    assert layout.width <= 560
    assert layout.height <= 660
    low, high = layout.xaxis.range
    assert all(low < spot.x < high and low + spot.x <= WIDE for spot in spots)
    assert layout.yaxis.range == (15.5, -0.5)
    assert (layout.dragmode, layout.xaxis.fixedrange, layout.yaxis.fixedrange) == (False, True, True)
    for step in range(1, 16):
        here = [node for node in tree.nodes if node.step == step]
        assert all(spots[node.id].text for node in here if node.status != "pruned")
        written = [node.rank for node in here if node.status == "pruned" and spots[node.id].text]
        left_out = [node.rank for node in here if not spots[node.id].text]
        assert max(written, default=0) < min(left_out)


def test_each_node_is_joined_to_its_parent_under_a_status_of_its_own_symbol_and_none_fades_when_one_is_chosen() -> None:
    figure, spots = beam_tree(TREE, label), places(TREE, label)
    traces = {one.name: one for one in figure.data if one.name}
    x, y = named(figure, "x"), named(figure, "y")
    assert sorted(x) == list(range(len(TREE.nodes)))
    half = BAND / 2 / pixels(figure)[1]
    drawn = {
        ((lines.x[i], lines.y[i]), (lines.x[i + 1], lines.y[i + 1]))
        for lines in figure.data[:2]
        for i in range(0, len(lines.x), 3)
    }
    above = [(spots[node.parent or 0], spots[node.id]) for node in TREE.nodes[1:]]
    assert drawn == {((one.x, one.row + half), (other.x, other.row - half)) for one, other in above}
    for node in TREE.nodes:
        assert (x[node.id], y[node.id]) == (spots[node.id].x, node.step)
        assert node.id in traces[status_text(node.status)].customdata
    assert len({one.marker.symbol for one in traces.values()}) == len(traces) >= 3
    for one in traces.values():
        assert one.unselected.marker.opacity == 1
        assert one.unselected.textfont.color == one.textfont.color


@pytest.mark.parametrize("selected", [None, 0, 17, len(TREE.nodes) - 1])
def test_the_line_of_the_selected_is_bold_and_its_probabilities_stand_at_the_left(selected: int | None) -> None:
    figure = beam_tree(TREE, label, selected)
    line = TREE.lineage(TREE.best.id if selected is None else selected)
    spots = places(TREE, label)
    assert list(figure.data[2].x[1::3]) == [spots[node.id].x for node in line]
    bold = {i for i, text in named(figure, "text").items() if "<b>" in text}
    assert bold == {0, *(node.id for node in line)}
    texts = list(figure.layout.yaxis.ticktext)[: len(line) + 1]
    assert texts == ["0", *(f"{np.exp(node.log_prob):.2f} · {node.step}" for node in line)]


def test_hover_tells_the_text_so_far_its_numbers_and_its_status() -> None:
    tree = BeamTree((
        Node(0, None, 0, 0, 0.0, 0.0, 0.0, 0, "kept"),
        Node(1, 0, 1, 1, -0.25, -0.25, -0.25, 0, "kept"),
        Node(2, 1, 2, 2, -0.5, -0.75, -0.375, 1, "finished"),
    ))  # fmt: skip
    texts = named(beam_tree(tree, label), "hovertext")
    assert texts[0] == "(nothing written yet)"
    assert texts[2] == (
        "\u2068token1 token2\u2069<br>token: log-probability -0.5<br>"
        "hypothesis: log-probability -0.75, score -0.375<br>finished; rank 2 of step 2"
    )


def test_a_long_text_on_hover_is_broken_into_lines() -> None:
    deep = max(TREE.nodes, key=lambda node: node.step)
    figure = beam_tree(TREE, lambda token: "▁" + "x" * 29)
    text = named(figure, "hovertext")[deep.id]
    lines = [line.strip("\u2068\u2069") for line in text.split("<br>")[:-3]]
    assert " ".join(lines) == " ".join(["x" * 29] * deep.step)
    assert max(map(len, lines)) <= 60


def test_tokens_are_drawn_as_they_are_and_short() -> None:
    figure = beam_tree(TREE, HOSTILE.__getitem__)
    for one in figure.data:
        for text in [*(one.text or ()), *(one.hovertext or ())]:
            assert "<" not in text.replace("<b>", "", 1).replace("</b>", "", 1).replace("<br>", "")
    long = beam_tree(grow(2, 5, 3), lambda token: "x" * 99)
    lengths = {len(text.removeprefix("<b>").removesuffix("</b>")) for one in long.data for text in one.text or ()}
    assert lengths == {TOKEN_LENGTH}


def test_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match=rf"selected=999 is not in this tree: choose 0 to {len(TREE.nodes) - 1}"):
        beam_tree(TREE, label, 999)
