"""Positions: tables and what they are made of, how far apart two positions look, and what order means to attention.

Sources: Vaswani et al. 2017, section 3.5 (sinusoidal); Su et al. 2021, RoFormer (rotary); Press et al. 2022, ALiBi.
"""

import copy
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors.numpy import load_file
from torch import nn

from ..errors import ConfigError
from ..nn.positions import Positions, doubled_table, halved_table, sinusoidal_table
from ..nn.seq2seq import Seq2Seq
from .sentences import Sentence

Table = Float[np.ndarray, "position dimension"]

Variant = Literal["paper", "doubled", "halves", "learned"]
VARIANTS: tuple[Variant, ...] = ("paper", "doubled", "halves", "learned")
"""The paper's formula; the exponent doubled by a slip; sine and cosine in halves; what training found."""

_FORMULAS = {"paper": sinusoidal_table, "doubled": doubled_table, "halves": halved_table}

MAX_LENGTH, MAX_SIZE = 512, 1_024
"""Largest table of the lesson: positions, dimensions."""


def position_table(variant: Variant, length: int, d_model: int, base: float = 10_000.0) -> Table:
    """The table of a formula (`learned` has none), one row a position.

    Raises:
        ConfigError: the table is too large for the lesson.
    """
    if not (1 <= length <= MAX_LENGTH and 1 <= d_model <= MAX_SIZE):
        most = {"most_positions": MAX_LENGTH, "most_dimensions": MAX_SIZE}
        raise ConfigError("lesson_table_too_large", length=length, d_model=d_model, **most)
    return _FORMULAS[variant](length, d_model, base).numpy()


class TrainedTable(NamedTuple):
    """A table that training found, and how many training sentences had a token at each of its positions."""

    table: Table
    sentences: Int[np.ndarray, " position"]


@cache
def trained_table() -> TrainedTable:
    """The table of a small translator with learned positions; `learned_positions/CARD.md` says how it was made."""
    found = load_file(Path(__file__).parent / "learned_positions" / "positions.safetensors")
    return TrainedTable(found["table"].astype(float), found["sentences"])


def stored_table(model: nn.Module) -> Table | None:
    """The whole table that a checkpoint learned or brought along (of its source); None when it is a formula."""
    for name in ("source_positions", "positions"):
        found = getattr(model, name, None)
        if isinstance(found, Positions) and found.formula is None:
            return found.table.detach().double().numpy()
    return None


def wavelength(dimension: int, d_model: int, base: float = 10_000.0) -> float:
    """Positions that one turn of a dimension of the paper's table takes: 2 pi at first, almost 2 pi base at last."""
    return float(2 * np.pi * base ** (dimension // 2 * 2 / d_model))


def waves(
    dimensions: Sequence[int], length: int, d_model: int, base: float = 10_000.0
) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, "point dimension"]]:
    """Places from 0 to the last position, finely spaced, and the paper's formula there: every whole place is a row."""
    per_position = max(1, min(20, 4_000 // length))
    place = np.arange((length - 1) * per_position + 1) / per_position
    turns = place[:, None] * 2 * np.pi / np.array([wavelength(dimension, d_model, base) for dimension in dimensions])
    return place, np.where(np.array(dimensions) % 2 == 0, np.sin(turns), np.cos(turns))


def turning_angles(k: int, d_model: int, base: float = 10_000.0) -> Float[np.ndarray, " pair"]:
    """By how many degrees `rotation(k)` turns each pair (sine, cosine), from 0 to 360."""
    return np.degrees(k / base ** (np.arange(0, d_model, 2) / d_model)) % 360


class Likeness(NamedTuple):
    """How the dot product of two positions follows their distance.

    `spread`: how far products at the same distance lie apart, at most. `rises`: at how many of `steps` steps away from
    position 0 the product grows.
    """

    spread: float
    rises: int
    steps: int


def likeness(products: Float[np.ndarray, "position position2"]) -> Likeness:
    """What the products of every two rows say: whether distance alone decides, and whether they fall with distance."""
    spread = max(float(np.ptp(np.diag(products, k))) for k in range(len(products)))
    rises = int((np.diff(products[0]) > 0).sum())
    return Likeness(spread, rises, len(products) - 1)


def rotation(k: int, d_model: int, base: float = 10_000.0) -> Float[np.ndarray, "d_model d_model"]:
    """The matrix that takes row p of the paper's table to row p + k, whatever p is: a turn in every (sine, cosine).

    d_model is even: every sine has its cosine.
    """
    turn = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = k / base ** (i / d_model)
        turn[i : i + 2, i : i + 2] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return turn


def rotation_errors(table: Table, k: int, base: float = 10_000.0) -> Float[np.ndarray, " start"]:
    """For each p, how far `rotation(k)` of row p is from row p + k: 0 to machine precision for the paper's table."""
    return np.abs(table[: len(table) - k] @ rotation(k, table.shape[1], base).T - table[k:]).max(axis=1)


def rotated(x: Table, base: float = 10_000.0) -> Table:
    """Rotary positions: row p, turned by p steps in every pair of dimensions (2i, 2i + 1)."""
    return np.stack([rotation(-p, x.shape[1], base) @ row for p, row in enumerate(x)])


def alibi(n: int, slope: float) -> Float[np.ndarray, "query key"]:
    """ALiBi's bias: the further away a key, the lower its score, by `slope` a position."""
    place = np.arange(n)
    return -slope * np.abs(place[:, None] - place[None, :]).astype(float)


Later = Literal["none", "paper", "rotary", "alibi"]
LATER: tuple[Later, ...] = ("none", "paper", "rotary", "alibi")


def example_weights(how: Later, words: Sequence[int], d_model: int, seed: int, slope: float = 0.5) -> Table:
    """Attention weights (one head) of the same words with each way to tell positions.

    `words` are word numbers; equal numbers are equal words. Queries and keys come from the same random halves.
    The paper's table is added to the embeddings; `rotary` turns queries and keys; `alibi` lowers far scores.
    """
    draw = np.random.default_rng(seed)
    vocabulary = draw.integers(-2, 3, (max(words) + 1, d_model)) / 2
    to_query, to_key = (draw.integers(-2, 3, (d_model, d_model)) / 2 for _ in range(2))
    x = vocabulary[list(words)]
    if how == "paper":
        x = x + position_table(how, len(words), d_model)
    q, k = x @ to_query, x @ to_key
    if how == "rotary":
        q, k = rotated(q), rotated(k)
    scores = q @ k.T / np.sqrt(d_model)
    if how == "alibi":
        scores = scores + alibi(len(words), slope)
    return torch.from_numpy(scores).softmax(-1).numpy()


def shuffle_gaps(
    model: Seq2Seq, sentence: Sentence, order: Sequence[int], with_positions: bool
) -> Float[np.ndarray, " token"]:
    """How far each word's output moves when the words are shuffled, as a part of its length; float64.

    Words are in the order of the sentence. Without positions all are 0 to machine precision: self-attention sees a set.
    """
    exact = copy.deepcopy(model).double().eval()
    if not with_positions:
        exact.source_positions = nn.Identity()
    ids = torch.tensor([sentence.ids])
    with torch.no_grad():
        straight, _ = exact.encode(ids)
        shuffled, _ = exact.encode(ids[:, list(order)])
    back = torch.empty_like(shuffled[0])
    back[list(order)] = shuffled[0]
    return ((straight[0] - back).norm(dim=-1) / straight[0].norm(dim=-1)).numpy()
