"""Record files that are small and describe very much: what a page computes, sends and draws of them has bounds.

Their sites share one query and one key tensor.
"""

import pytest
import torch

from heedmap import AttentionMap, Record
from heedmap.attention.measures import MOST_CELLS
from heedmap.attention.softmax_inputs import AttentionInputs
from heedmap.nn.masks import Mask
from heedmap.plots.axes import Axis
from heedmap.runs import concurrency
from heedmap.safe.limits import MEGABYTE
from heedmap.sites import Site
from tests.pages.opening import brought, fine, gone, opened, put, said, sent
from ui.shared.controls import MOST_LISTED
from ui.shared.record_views import most_sent

CALL = 2**12
"""Cells whose softmax takes as long as a call does."""

HERE, BESIDE = "while a page is drawn", "in steps that give way"


def record(sites: int, heads: int, length: int, name: str = "blocks.{}.attention", width: int = 3) -> bytes:
    """The file of a record whose sites share all that they have."""
    axis = Axis.of_tokens("token", [f"w{i}" for i in range(length)])
    q, k = (torch.randn(1, count, length, width).half() for count in (heads, heads))
    source = AttentionInputs(q, k, Mask(causal=True), 0.5)
    names = [Site(name.format(i)) for i in range(sites)]
    return Record({site: AttentionMap(site, axis, axis, source) for site in names}).to_bytes()


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Cells of all softmaxes: while a page is drawn, and in steps between which others come first."""
    found = {HERE: 0, BESIDE: 0}
    for name in ("_scores", "of_heads"):
        original = getattr(AttentionInputs, name)

        def counted(self: AttentionInputs, *asked: object, original=original) -> torch.Tensor:  # type: ignore[no-untyped-def]
            cells: torch.Tensor = original(self, *asked)
            found[BESIDE if concurrency._forward.mine is not None else HERE] += CALL + cells.numel()
            return cells

        monkeypatch.setattr(AttentionInputs, name, counted)
    return found


@pytest.mark.parametrize(
    ("sites", "heads", "length", "name", "picture"),
    [
        (4_096, 4_096, 1, "blocks.{}.attention", "tokens-tiles"),
        (4_096, 2, 3, "blocks.x{}.attention", "tokens-tiles"),
        (4_093, 1, 101, "blocks.{}.attention", "tokens-tiles"),
        (1, 4_093, 101, "blocks.{}.attention", "tokens-tiles"),
        (1, 71, 509, "blocks.{}.attention", "tokens-tiles"),
        (97, 89, 79, "blocks.{}.attention", "tokens-tiles"),
        (2, 5, 2_003, "blocks.{}.attention", "tokens-tiles"),
        (47, 23, 181, "blocks.{}.attention", "heatmap"),
        (251, 8, 11, "blocks.x{}.attention", "heatmap"),
    ],
)
def test_what_a_page_does_for_a_record_is_bounded_whatever_its_header_says(
    sites: int, heads: int, length: int, name: str, picture: str, computed: dict[str, int]
) -> None:
    page = opened("your_model")
    data = record(sites, heads, length, name)
    computed.update({HERE: 0, BESIDE: 0})
    page = fine(brought(page, **{"large.heedmap": data}))
    assert computed[HERE] <= MOST_CELLS + most_sent() // 2
    assert computed[BESIDE] <= 2**28
    messages = {str(part.key): len(part.proto.bytes) for part in page.get("bidi_component")}
    assert messages[picture]
    assert max(messages.values()) <= most_sent() + MEGABYTE
    lists = [one.options for kind in ("selectbox", "button_group") for one in page.get(kind)]
    assert max(map(len, lists)) <= MOST_LISTED + 1
    told = said(page)
    assert "At first: " in told
    assert ("would take too long" in told) == (picture == "tokens-tiles" or sites * heads * length**2 > MOST_CELLS)
    before = dict(computed)
    fine(page.run())
    assert computed[BESIDE] == before[BESIDE]
    assert computed[HERE] - before[HERE] < MOST_CELLS // 8


def test_a_layer_a_head_or_a_group_among_very_many_is_written_into_a_field() -> None:
    page = brought(opened("your_model"), **{"large.heedmap": record(269, 263, 2)})
    put(page, layer=267, head=261)
    assert sent(page, "tokens-tiles")[0]["title"] == "blocks.267.attention, 261"
    assert (page.query_params["layer"], page.query_params["head"]) == ("267", "261")
    page = brought(opened("your_model"), **{"many.heedmap": record(269, 2, 3, "blocks.x{}.attention")})
    page = gone(page, kind="blocks.x267.attention")
    assert page.text_input(key="kind").value == "blocks.x267.attention"
    assert "no group of sites called blocks.y: blocks.x0.attention is shown" in said(put(page, kind="blocks.y"))


def test_the_mean_of_heads_that_would_take_hours_is_not_computed(computed: dict[str, int]) -> None:
    page = brought(opened("your_model"), **{"large.heedmap": record(3, 211, 20_011, width=1)})
    page = gone(page, head="mean")
    assert "would take too long here: choose one head" in said(page)
    assert sum(computed.values()) < 2**30
