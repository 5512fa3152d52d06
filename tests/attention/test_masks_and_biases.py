"""Masks and biases of foreign attention: the smallest form says what the table says, cell by cell and row by row."""

import pytest
import torch
from torch import Tensor

from transformer.attention.masks_and_biases import BiasTable, MaskTable, RelativeBias, WindowMask, bias_of, mask_of
from transformer.nn.masks import Mask

QUERIES, KEYS = 5, 7


def distances(seed: int) -> Tensor:
    """A bias (head, query, key) that depends on key - query alone."""
    values = torch.randn(3, QUERIES + KEYS, generator=torch.Generator().manual_seed(seed))
    apart = torch.arange(KEYS)[None, :] - torch.arange(QUERIES)[:, None]
    return values[:, apart + QUERIES]


def same_cells(found: RelativeBias | BiasTable | None, table: Tensor) -> None:
    """Every part of the form is that part of the table, which one row or one head may stand for all."""
    assert found is not None
    whole = table.expand(2, 3, -1, -1)
    for batch in range(2):
        for head in range(3):
            part = found.part(batch, head, slice(1, 4), slice(2, 7))
            torch.testing.assert_close(part, whole[batch, head, 1:4, 2:7], rtol=0, atol=0)


def test_a_bias_by_distance_is_kept_by_its_diagonals() -> None:
    table = distances(1)[None]
    found = bias_of(table)
    assert isinstance(found, RelativeBias)
    assert found.n_bytes < table.nbytes
    same_cells(found, table)


def test_a_bias_by_distance_that_all_heads_share_is_that_of_each() -> None:
    table = distances(1)[None, :1]
    assert isinstance(bias_of(table), RelativeBias)
    same_cells(bias_of(table), table)


def test_rows_of_a_batch_with_biases_of_their_own_keep_them() -> None:
    """Each row's bias depends on the distance alone, but the two differ: diagonals of one would not do for both."""
    table = torch.stack([distances(1), distances(2)])
    found = bias_of(table)
    assert isinstance(found, BiasTable)
    same_cells(found, table)


def test_a_bias_that_each_query_shares_is_kept_as_one_row() -> None:
    """ALiBi's, whose rows differ between sentences with padding: (batch, head, 1, key)."""
    table = torch.randn(2, 3, 1, KEYS)
    found = bias_of(table)
    assert isinstance(found, BiasTable)
    assert found.n_bytes == table.nbytes
    part = found.part(1, 2, slice(1, 4), slice(2, 7))
    torch.testing.assert_close(part.expand(3, -1), table[1, 2, :, 2:7].expand(3, -1), rtol=0, atol=0)
    alone = bias_of(table[:1].clone())
    assert alone is not None
    assert alone.part(0, 2, slice(1, 4), slice(2, 7)).tolist() == table[0, 2, :, 2:7].tolist()


def test_a_bias_of_any_other_form_is_kept_whole_and_one_that_adds_nothing_is_none() -> None:
    table = torch.randn(1, 1, QUERIES, KEYS)
    same_cells(bias_of(table), table)
    assert bias_of(torch.zeros(1, 3, QUERIES, KEYS)) is None


PADDED = (torch.arange(KEYS) < torch.tensor([[6], [4]]))[:, None, None]
PAST = torch.ones(QUERIES, KEYS, dtype=torch.bool).tril(KEYS - QUERIES)
WINDOW = PAST & torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(0)
HOLED = WINDOW.clone()
HOLED[2, 3] = False


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (PAST[None, None], Mask),
        (PADDED.expand(2, 1, QUERIES, KEYS), Mask),
        (PADDED & PAST, Mask),
        (PADDED[:1].expand(1, 1, QUERIES, KEYS), Mask),
        (PADDED[:1] & PAST, Mask),
        (WINDOW[None, None], WindowMask),
        (HOLED[None, None], MaskTable),
        (PADDED & WINDOW, MaskTable),
    ],
    ids=[
        "past",
        "padded",
        "both",
        "one row of padding for all",
        "one row of both for all",
        "window",
        "window with a hole",
        "padded window",
    ],
)
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
    assert dense is not None
    assert torch.equal(dense.expand_as(table), table)
    assert isinstance(found, MaskTable) or found.n_bytes <= 2 * KEYS


def test_without_a_table_all_is_visible_or_the_past() -> None:
    assert Mask().part(slice(0, 5), slice(0, 7), QUERIES, KEYS, 1) is None
    part = Mask(causal=True).part(slice(0, 5), slice(0, 7), QUERIES, KEYS, 1)
    assert part is not None
    assert torch.equal(part, PAST)
