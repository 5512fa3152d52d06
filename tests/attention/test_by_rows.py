"""Scores that the fused attention does not know: written out here from the papers, cell by cell."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from transformer import Intervention
from transformer.attention import by_rows
from transformer.attention.by_rows import mixed_by_rows
from transformer.attention.changed import ChangedQueriesKeys
from transformer.attention.masks_and_biases import PositionVectors
from transformer.attention.record import AttentionMap
from transformer.attention.softmax_inputs import QueriesKeys
from transformer.layers.masks import Mask
from transformer.pictures.axes import Axis
from transformer.pictures.quantity import Quantity
from transformer.sites import Site

BATCH, HEADS, KEY_HEADS, LENGTH, D_K, D_V, SPAN, SCALE, CAP = 2, 6, 3, 13, 5, 7, 4, 0.37, 1.9
PADDED = 3
KINDS = ("positions", "content to position", "position to content", "softcap", "sinks", "softcap and sinks")


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def softmax_of(kind: str, causal: bool = False) -> QueriesKeys:
    apart = torch.arange(1 - LENGTH, LENGTH)  # key - query
    real = torch.ones(BATCH, LENGTH, dtype=torch.bool)
    real[1, LENGTH - PADDED :] = False
    positions = PositionVectors(
        None if kind == "position to content" else drawn(HEADS, 2 * SPAN, D_K),
        None if kind == "content to position" else drawn(HEADS, 2 * SPAN, D_K).flip(0),
        (SPAN - apart).clamp(0, 2 * SPAN - 1),
        LENGTH,
    )
    return QueriesKeys(
        drawn(BATCH, HEADS, LENGTH, D_K) * 2,
        drawn(BATCH, KEY_HEADS, LENGTH, D_K) * 2,
        Mask(real, causal),
        SCALE,
        positions=positions if "position" in kind else None,
        softcap=CAP if "softcap" in kind else 0.0,
        sinks=drawn(HEADS) if "sinks" in kind else None,
    )


def by_the_book(kept: QueriesKeys, kind: str, batch: int, head: int, temperature: float = 1.0) -> np.ndarray:
    """He et al. 2021, equations 3 and 4; Gemma 2's logits_soft_cap; a sink as one more column, then dropped."""
    q, k = kept.q[batch, head].numpy(), kept.k[batch, head // (HEADS // KEY_HEADS)].numpy()
    rows = np.zeros((LENGTH, LENGTH))
    for i in range(LENGTH):
        scores = np.full(LENGTH + 1, -np.inf)
        for j in range(LENGTH):
            if not kept.mask.keys[batch, j] or (kept.mask.causal and j > i):
                continue
            value = q[i] @ k[j]
            if kept.positions is not None:
                place = min(max(i - j + SPAN, 0), 2 * SPAN - 1)
                value += 0 if kept.positions.keys is None else q[i] @ kept.positions.keys[head, place].numpy()
                value += 0 if kept.positions.queries is None else k[j] @ kept.positions.queries[head, place].numpy()
            value *= SCALE
            scores[j] = (CAP * np.tanh(value / CAP) if "softcap" in kind else value) / temperature
        if "sinks" in kind:
            scores[LENGTH] = float(kept.sinks[head]) / temperature
        powers = np.exp(scores - scores.max())
        rows[i] = (powers / powers.sum())[:LENGTH]
    return rows


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_any_part_is_that_of_the_map_by_the_book(kind: str, causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_rows, "ROWS", 5)
    kept, v = softmax_of(kind, causal), drawn(BATCH, KEY_HEADS, LENGTH, D_V)
    mixed, sums = mixed_by_rows(kept, v)
    known = replace(kept, known=sums)
    rows, keys = slice(2, 11), slice(1, 8)
    for batch in range(BATCH):
        for head in range(HEADS):
            whole = by_the_book(kept, kind, batch, head)
            assert ("sinks" in kind) == bool((whole.sum(1) < 1 - 1e-9).all())
            np.testing.assert_allclose(mixed[batch, head], whole @ v[batch, head // 2].numpy(), atol=1e-12)
            for one in (kept, known):  # first look, with row sums from the run and without; and a later one
                for _ in range(2):
                    np.testing.assert_allclose(one.weights(batch, head, rows, keys), whole[rows, keys], atol=1e-13)
                np.testing.assert_allclose(
                    one.block_maxima(batch, head, rows, keys, 3),
                    [[row[at : at + 3].max() for at in range(0, 7, 3)] for row in whole[rows, keys]],
                    atol=1e-13,
                )


@pytest.mark.parametrize("kind", ["positions", "softcap and sinks"])
def test_slopes_pass_as_through_one_whole_softmax(kind: str) -> None:
    kept = softmax_of(kind)
    q, v = kept.q.requires_grad_(), drawn(BATCH, KEY_HEADS, LENGTH, D_V).requires_grad_()
    mixed, _ = mixed_by_rows(kept, v)
    found = torch.autograd.grad(mixed.square().sum(), (q, v))
    step = torch.zeros_like(q)
    step[1, 4, 7, 2] = 1e-5
    with torch.no_grad():
        up, down = (mixed_by_rows(replace(kept, q=q + s), v)[0].square().sum() for s in (step, -step))
    assert float(found[0][1, 4, 7, 2]) == pytest.approx(float((up - down) / 2e-5), rel=1e-5, abs=1e-7)
    assert not kept.detached().q.requires_grad
    assert bool(found[1].any())


def test_a_sink_keeps_its_part_of_a_row_that_is_changed() -> None:
    kept = softmax_of("sinks")
    changed = ChangedQueriesKeys(kept, (Intervention("encoder.0.self", "temperature", heads=(4,), value=2.5),))
    every = slice(0, LENGTH)
    warm = by_the_book(kept, "sinks", 0, 4, temperature=2.5)
    np.testing.assert_allclose(changed.weights(0, 4, every, every), warm, atol=1e-13)
    hidden = ChangedQueriesKeys(kept, (Intervention("encoder.0.self", "knock_out", heads=(4,), keys=(6,)),))
    plain = by_the_book(kept, "sinks", 0, 4)
    left = 1 - plain[:, 6:7]  # what the knocked out key had goes to the others and to the sink
    expected = np.where(np.arange(LENGTH) == 6, 0, plain / left)
    np.testing.assert_allclose(hidden.weights(0, 4, every, every), expected, atol=1e-13)


def test_what_is_shown_says_what_it_is() -> None:
    axis = Axis.of_tokens("", [str(i) for i in range(LENGTH)])
    pictures = {
        kind: AttentionMap(Site("encoder.0.self"), axis, axis, softmax_of(kind)).picture(1, scores=True)
        for kind in ("positions", "softcap", "sinks")
    }
    assert [str(note) for note in pictures["sinks"].notes if "sink" in note]
    assert pictures["positions"].quantity is Quantity.BIASED_SCORE
    assert pictures["softcap"].quantity is Quantity.CAPPED_SCORE
    assert float(np.abs(pictures["softcap"].values).max()) < CAP
    assert not any(softmax_of(kind).of_products_alone for kind in KINDS)
    whole = softmax_of("positions")
    assert whole.kept_bytes > whole.q.nbytes + whole.k.nbytes + whole.positions.keys.nbytes


def test_a_map_of_a_thousand_positions_is_never_held_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest table of scores is one of a few rows, however long the text is."""
    largest, scores = 0, QueriesKeys.scores

    def watched(*given: object) -> Tensor:
        nonlocal largest
        found = scores(*given)  # type: ignore[arg-type]
        largest = max(largest, found.numel())
        return found

    monkeypatch.setattr(QueriesKeys, "scores", watched)
    q, k, v = (torch.randn(1, 1, 1000, 3) for _ in range(3))
    mixed_by_rows(QueriesKeys(q, k, Mask(), 1.0, softcap=3.0), v)
    assert largest == by_rows.ROWS * 1000
