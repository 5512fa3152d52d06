"""Masks and biases of other people's attention say in their smallest form what their tables say."""

import pytest
import torch
from torch import Tensor

from heedmap.attention.tables import BiasTable, MaskTable, RelativeBias, WindowMask, bias_of, mask_of
from heedmap.nn.masks import Mask

QUERIES, KEYS = 5, 7


def distances(seed: int) -> Tensor:
    """A bias (head, query, key) that depends on key - query alone."""
    values = torch.randn(3, QUERIES + KEYS, generator=torch.Generator().manual_seed(seed))
    apart = torch.arange(KEYS)[None, :] - torch.arange(QUERIES)[:, None]
    return values[:, apart + QUERIES]


BIASES: dict[str, tuple[Tensor, type]] = {
    "by distance": (distances(1)[None], RelativeBias),
    "by distance, shared by all heads": (distances(1)[None, :1], RelativeBias),
    # Diagonals of one would not do for both.
    "by distance, of each sentence's own": (torch.stack([distances(1), distances(2)]), BiasTable),
    # ALiBi's, whose rows differ between sentences with padding: (batch, head, 1, key).
    "one row for all queries": (torch.randn(2, 3, 1, KEYS), BiasTable),
    "one row for all queries and sentences": (torch.randn(1, 3, 1, KEYS), BiasTable),
    "of any other form": (torch.randn(1, 1, QUERIES, KEYS), BiasTable),
}


@pytest.mark.parametrize(("table", "kind"), BIASES.values(), ids=BIASES)
def test_a_bias_is_kept_in_its_smallest_form_and_every_part_is_that_of_the_table(table: Tensor, kind: type) -> None:
    found = bias_of(table.clone())
    assert isinstance(found, kind)
    assert found.n_bytes < table.nbytes if kind is RelativeBias else found.n_bytes == table.nbytes
    whole = table.expand(2, 3, QUERIES, KEYS)
    for batch in range(2):
        for head in range(3):
            part = found.part(batch, head, slice(1, 4), slice(2, 7)).expand(3, -1)
            torch.testing.assert_close(part, whole[batch, head, 1:4, 2:7], rtol=0, atol=0)


def test_a_bias_that_adds_nothing_is_none() -> None:
    assert bias_of(torch.zeros(1, 3, QUERIES, KEYS)) is None


PADDED = (torch.arange(KEYS) < torch.tensor([[6], [4]]))[:, None, None]
PAST = torch.ones(QUERIES, KEYS, dtype=torch.bool).tril(KEYS - QUERIES)
WINDOW = PAST & torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(0)
HOLED = WINDOW.clone()
HOLED[2, 3] = False


TABLES: dict[str, tuple[Tensor, type]] = {
    "past": (PAST[None, None], Mask),
    "padded": (PADDED.expand(2, 1, QUERIES, KEYS), Mask),
    "both": (PADDED & PAST, Mask),
    "one row of padding for all": (PADDED[:1].expand(1, 1, QUERIES, KEYS), Mask),
    "one row of both for all": (PADDED[:1] & PAST, Mask),
    "window": (WINDOW[None, None], WindowMask),
    "window with a hole": (HOLED[None, None], MaskTable),
    "padded window": (PADDED & WINDOW, MaskTable),
}


@pytest.mark.parametrize(("table", "kind"), TABLES.values(), ids=TABLES)
def test_a_mask_says_what_its_table_says_for_every_row_of_the_batch(table: Tensor, kind: type) -> None:
    found = mask_of(table.clone())
    assert isinstance(found, kind)
    whole = table.expand(3 if len(table) == 1 else 2, 1, QUERIES, KEYS)
    for batch, rows in enumerate(whole[:, 0]):
        part = found.part(slice(1, 4), slice(2, 7), QUERIES, KEYS, batch)
        assert part is not None or bool(rows[1:4, 2:7].all())
        if part is not None:
            assert torch.equal(part.expand(3, 5), rows[1:4, 2:7])
        edge = found.visible_range(slice(1, 4), QUERIES, KEYS)
        assert bool(rows[1:4, : edge.start].all())
        assert not rows[1:4, edge.stop :].any()
    dense = found.dense(QUERIES, KEYS, table.device)
    assert torch.equal(dense.expand_as(table), table)
    assert isinstance(found, MaskTable) or found.n_bytes <= 2 * KEYS


def test_without_a_table_all_is_visible_or_the_past() -> None:
    assert Mask().part(slice(0, 5), slice(0, 7), QUERIES, KEYS, 1) is None
    part = Mask(causal=True).part(slice(0, 5), slice(0, 7), QUERIES, KEYS, 1)
    assert torch.equal(part, PAST)
