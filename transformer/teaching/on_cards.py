"""Runs that contradict a misconception, where no question does."""

import numpy as np
import torch

from transformer.lessons.masks import Batch, mask_view
from transformer.lessons.recipe import Recipe
from transformer.lessons.run import Run, in_float64
from transformer.lessons.scaling import cosines
from transformer.lessons.toy import toy_batch, toy_layers, toy_transformer
from transformer.teaching.case import Case, Live, truth
from transformer.teaching.on_toys import BESIDE, LONGER

EXACT = 1e-9
"""A change below this is rounding."""


@truth
def dot_and_cosine(live: Live) -> Case:
    """Rows in which the best key by dot product is not the best by cosine."""
    board = live.board()
    q, k, scores = board["Q0"].values, board["K0"].values, board["S0"].values
    by_angle = np.nan_to_num(cosines(q, k), nan=-2.0)
    fields = {"n": len(scores)}
    return Case((float((scores.argmax(1) != by_angle.argmax(1)).sum()),), told=fields)


@truth
def one_input(live: Live) -> Case:
    """The largest difference between Q, K, V and the same X times their matrices."""
    board = live.board()
    x = board["X"].values
    gaps = [np.abs(board[f"{one}0"].values - x @ board[f"W_{one}0"].values).max() for one in "QKV"]
    return Case((float(max(gaps)),))


@truth
def zero_after(live: Live) -> Case:
    """The sum of the first row of a decoder's weights, if hidden ones were set to zero after the softmax."""
    masked = live.board(side="decoder")["M0"]
    scores = live.board(side="decoder")["D0"].values
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = powers / powers.sum(axis=1, keepdims=True)
    hidden = np.zeros_like(weights, dtype=bool) if masked.hidden is None else masked.hidden
    return Case((float(weights[0][~hidden[0]].sum()),), told={"query": masked.rows[0]})


@truth
def padding_rows(live: Live) -> Case:  # noqa: ARG001  (the lesson's own batch)
    """Rows of padding, in a padded batch, that see some key."""
    batch: Batch = toy_batch([BESIDE, LONGER], [BESIDE, LONGER])[0]
    view = mask_view(batch, "both", 0)
    padding = view.visible[~view.keys_real]
    return Case((float(padding.any(axis=1).sum()),), told={"n": len(padding)})


@truth
def rows_without_root(live: Live) -> Case:
    """The sum of the row that is furthest from 1, without the root."""
    sums = live.board(recipe=Recipe(scaled=False))["A0"].values.sum(axis=1)
    return Case((float(sums[np.abs(sums - 1).argmax()]),))


@truth
def alone(live: Live) -> Case:
    """Outputs of a feed-forward network at other positions that change when the first position changes."""
    run = Run(in_float64(toy_layers(4, seed=1)), *live.toy)
    net, reads = run.feed_forward("encoder", 0)
    other = reads.clone()
    other[0] += 1
    with torch.no_grad():
        moved = (net(other[None])[0] - net(reads[None])[0]).abs().amax(dim=1)
    return Case((float((moved[1:] > EXACT).sum()),), told={"n": len(reads)})


@truth
def parameters_of_heads(live: Live) -> Case:  # noqa: ARG001  (counted, no sentence)
    """Parameters of a toy of width 8 with one head, and with four."""
    one, four = (sum(p.numel() for p in toy_transformer(8, heads, seed=1).parameters()) for heads in (1, 4))
    return Case((float(one),), told={"other": four})


@truth
def rows_of_cross(live: Live) -> Case:
    """Rows of a map of cross-attention, beside the tokens on both sides."""
    run = live.translation
    site = next(one for one in run.record.sites if one.kind == "cross")
    fields = {"target": len(run.target_ids), "source": len(run.source_ids)}
    return Case((float(len(run.record[site].weights(0))),), told=fields)


@truth
def column_sums(live: Live) -> Case:
    """The sum of the column that is furthest from 1."""
    weights = live.board()["A0"]
    sums = weights.values.sum(axis=0)
    far = int(np.abs(sums - 1).argmax())
    return Case((float(sums[far]),), told={"key": weights.columns[far]})


@truth
def mean_of_heads(live: Live) -> Case:
    """How far an output moves, as a part of its length, when every head uses the mean of all heads' weights."""
    board = live.board()
    heads = [name for name in board if name.startswith("A")]
    mean = np.mean([board[name].values for name in heads], axis=0)
    mixed = np.concatenate([mean @ board[f"V{head}"].values for head in range(len(heads))], axis=1)
    own = board["O"].values
    moved = mixed @ board["W_O"].values - own
    return Case((float((np.linalg.norm(moved, axis=1) / np.linalg.norm(own, axis=1)).max()),))
