"""The tree of a beam search: every hypothesis is there, no branches cross, and each says what became of it."""

from itertools import combinations

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.figures.examples import HOSTILE
from transformer.decoding.beams import BeamTree, Node, Status
from transformer.errors import InputError
from transformer.figures.beams import STEPS_IN_VIEW, TOKEN_LENGTH, beam_tree, layout, status_text


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


def points(figure: go.Figure) -> dict[int, tuple[float, float, str]]:
    """Where each node is drawn, and in the trace of which status."""
    named = [one for one in figure.data if one.name]
    return {int(i): (x, y, one.name) for one in named for i, x, y in zip(one.customdata, one.x, one.y, strict=True)}


@searches
def test_every_node_has_a_place_of_its_own(beam: int, steps: int, seed: int) -> None:
    tree = grow(beam, steps, seed)
    rows = layout(tree)
    assert len({(node.step, rows[node.id]) for node in tree.nodes}) == len(tree.nodes)


@searches
def test_no_branches_cross(beam: int, steps: int, seed: int) -> None:
    tree = grow(beam, steps, seed)
    rows = layout(tree)
    for one, other in combinations([node for node in tree.nodes if node.parent is not None], 2):
        if one.step == other.step:
            assert one.parent is not None
            assert other.parent is not None
            before = rows[tree.nodes[one.parent].id] - rows[tree.nodes[other.parent].id]
            after = rows[one.id] - rows[other.id]
            assert before * after >= 0


@searches
def test_the_answer_runs_straight_along_the_top(beam: int, steps: int, seed: int) -> None:
    tree = grow(beam, steps, seed)
    rows = layout(tree)
    line = {0, *(node.id for node in tree.lineage(tree.best.id))}
    assert {node.id for node in tree.nodes if rows[node.id] == 0} == line
    assert max(rows) <= max(sum(node.step == step for node in tree.nodes) for step in range(14))


def test_each_node_is_drawn_once_under_its_status_and_can_be_clicked() -> None:
    drawn = points(beam_tree(TREE, label))
    assert sorted(drawn) == list(range(len(TREE.nodes)))
    rows = layout(TREE)
    for node in TREE.nodes:
        assert drawn[node.id] == (node.step, rows[node.id], status_text(node.status))


def test_statuses_differ_by_symbol_and_not_by_colour_alone() -> None:
    symbols = {one.name: one.marker.symbol for one in beam_tree(TREE, label).data if one.name}
    assert len(set(symbols.values())) == len(symbols) >= 3


def test_nothing_fades_when_a_node_is_chosen() -> None:
    for one in beam_tree(TREE, label).data:
        if one.name:
            assert one.unselected.marker.opacity == 1
            assert one.unselected.textfont.color == one.textfont.color


def test_edges_join_each_node_to_its_parent() -> None:
    figure, rows = beam_tree(TREE, label), layout(TREE)
    drawn = set()
    for lines in figure.data[:2]:
        for i in range(0, len(lines.x), 3):
            drawn.add(((lines.x[i], lines.y[i]), (lines.x[i + 1], lines.y[i + 1])))
    expected = set()
    for node in TREE.nodes[1:]:
        assert node.parent is not None
        parent = TREE.nodes[node.parent]
        expected.add(((parent.step, rows[parent.id]), (node.step, rows[node.id])))
    assert drawn == expected


@pytest.mark.parametrize("selected", [None, 0, 17])
def test_the_line_of_the_selected_hypothesis_is_bold(selected: int | None) -> None:
    figure = beam_tree(TREE, label, selected)
    line = TREE.lineage(TREE.best.id if selected is None else selected)
    assert list(figure.data[2].x[1::3]) == [node.step for node in line]
    bold = {
        i for one in figure.data if one.name for i, text in zip(one.customdata, one.text, strict=True) if "<b>" in text
    }
    assert bold == {0, *(node.id for node in line)}


def test_hover_tells_the_text_so_far_its_numbers_and_its_status() -> None:
    tree = BeamTree((
        Node(0, None, 0, 0, 0.0, 0.0, 0.0, 0, "kept"),
        Node(1, 0, 1, 1, -0.25, -0.25, -0.25, 0, "kept"),
        Node(2, 1, 2, 2, -0.5, -0.75, -0.375, 1, "finished"),
    ))  # fmt: skip
    texts = {
        i: text
        for one in beam_tree(tree, label).data
        if one.name
        for i, text in zip(one.customdata, one.hovertext, strict=True)
    }
    assert texts[0] == "(nothing written yet)"
    assert texts[2] == (
        "\u2068token1 token2\u2069<br>token: log-probability -0.5<br>"
        "hypothesis: log-probability -0.75, score -0.375<br>finished; rank 2 of step 2"
    )


def test_a_long_text_on_hover_is_broken_into_lines() -> None:
    deep = max(TREE.nodes, key=lambda node: node.step)
    figure = beam_tree(TREE, lambda token: "▁" + "x" * 29)
    (text,) = [
        t for one in figure.data if one.name for i, t in zip(one.customdata, one.hovertext, strict=True) if i == deep.id
    ]
    lines = [line.strip("\u2068\u2069") for line in text.split("<br>")[:-3]]
    assert " ".join(lines) == " ".join(["x" * 29] * deep.step)
    assert max(map(len, lines)) <= 60


def test_tokens_are_drawn_as_they_are_and_short() -> None:
    figure = beam_tree(TREE, HOSTILE.__getitem__)
    for one in figure.data:
        for text in [*(one.text or ()), *(one.hovertext or ())]:
            assert "<" not in text.replace("<b>", "", 1).replace("</b>", "", 1).replace("<br>", "")
    long = beam_tree(TREE, lambda token: "x" * 99)
    assert {len(text.removeprefix("<b>").removesuffix("</b>")) for one in long.data for text in one.text or ()} == {
        TOKEN_LENGTH
    }


def test_a_long_search_begins_at_its_start_and_a_selected_hypothesis_is_in_view() -> None:
    tree = grow(beam=5, steps=40, seed=1)
    first = beam_tree(tree, label).layout
    assert first.xaxis.range[0] < 0 < STEPS_IN_VIEW < first.xaxis.range[1] < STEPS_IN_VIEW + 1
    assert first.height < 600
    late = next(node for node in tree.nodes if node.step == 33)
    low, high = beam_tree(tree, label, late.id).layout.xaxis.range
    assert low < 33 < high
    assert high - low == pytest.approx(STEPS_IN_VIEW, abs=1.5)
    assert first.dragmode == "pan"


def test_a_short_search_is_in_view_as_a_whole() -> None:
    low, high = beam_tree(grow(2, 3, 0), label).layout.xaxis.range
    assert low < 0
    assert 3 < high < 4


def test_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match=rf"selected=999 is not in this tree: choose 0 to {len(TREE.nodes) - 1}"):
        beam_tree(TREE, label, 999)
