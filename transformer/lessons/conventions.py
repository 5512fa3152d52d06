"""The same mask as different libraries want it: which cells are set, to what, in which shape.

Sources: The Annotated Transformer (`Batch.make_std_mask`, `MultiHeadedAttention`); jadore801120's
attention-is-all-you-need-pytorch; torch.nn.MultiheadAttention; torch.nn.functional.scaled_dot_product_attention.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float

from transformer.errors import InputError
from transformer.messages import Message, words


class Line(NamedTuple):
    """A line of code, and the code of the message that stands behind it as a remark."""

    text: str
    remark: str = ""


@dataclass(frozen=True)
class Convention:
    """How one API takes a mask.

    `hidden` and `visible` are what a cell holds; `axes` names the axes of its shape; `code` makes `mask` from
    `visible`, a (batch, query, key) table that is True where a query may see a key, and uses it; `back` makes `visible`
    from `mask`.
    """

    api: str
    visible: str
    hidden: str
    dtype: str
    axes: str
    code: tuple[Line, ...]
    back: tuple[Line, ...]


CONVENTIONS = {
    "annotated_source": Convention(
        "The Annotated Transformer: src_mask",
        "True",
        "False",
        "bool",
        "(batch, 1, key)",
        (
            Line("mask = visible.any(dim=1, keepdim=True)", "lesson_code_seen_by_some"),
            Line("output = attention(q, k, v, mask)", "lesson_code_unsqueezed"),
        ),
        (Line("visible = mask.expand(-1, n_queries, -1)", "lesson_code_same_for_all"),),
    ),
    "annotated_target": Convention(
        "The Annotated Transformer: tgt_mask",
        "True",
        "False",
        "bool",
        "(batch, query, key)",
        (Line("mask = visible"), Line("output = attention(q, k, v, mask)", "lesson_code_unsqueezed")),
        (Line("visible = mask"),),
    ),
    "jadore": Convention(
        "jadore801120's Transformer",
        "True",
        "False",
        "bool",
        "(batch, query, key)",
        (Line("mask = visible"), Line("output, weights = attention(q, k, v, mask)", "lesson_code_unsqueezed")),
        (Line("visible = mask"),),
    ),
    "key_padding": Convention(
        "nn.MultiheadAttention(key_padding_mask=)",
        "False",
        "True",
        "bool",
        "(batch, key)",
        (
            Line("mask = ~visible.any(dim=1)", "lesson_code_seen_by_none"),
            Line("output, weights = attention(q, k, v, key_padding_mask=mask)"),
        ),
        (Line("visible = (~mask).unsqueeze(1).expand(-1, n_queries, -1)", "lesson_code_same_for_all"),),
    ),
    "attn_2d": Convention(
        "nn.MultiheadAttention(attn_mask=), 2-D",
        "False",
        "True",
        "bool",
        "(query, key)",
        (
            Line("mask = ~visible.any(dim=0)", "lesson_code_hidden_in_all"),
            Line("output, weights = attention(q, k, v, attn_mask=mask)"),
        ),
        (Line("visible = (~mask).expand(n_batch, -1, -1)", "lesson_code_same_in_all"),),
    ),
    "attn_3d": Convention(
        "nn.MultiheadAttention(attn_mask=), 3-D",
        "False",
        "True",
        "bool",
        "(batch * heads, query, key)",
        (
            Line("mask = (~visible).repeat_interleave(n_heads, dim=0)", "lesson_code_heads_of_a_sentence"),
            Line("output, weights = attention(q, k, v, attn_mask=mask)"),
        ),
        (Line("visible = ~mask[::n_heads]", "lesson_code_first_head"),),
    ),
    "sdpa": Convention(
        "F.scaled_dot_product_attention",
        "True",
        "False",
        "bool",
        "(batch, 1, query, key)",
        (
            Line("mask = visible.unsqueeze(1)", "lesson_code_same_for_heads"),
            Line("output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)"),
        ),
        (Line("visible = mask.squeeze(1)"),),
    ),
    "additive": Convention(
        Message("lesson_convention_additive"),
        "0",
        "-inf",
        "float32",
        "(batch, 1, query, key)",
        (
            Line('mask = torch.zeros(visible.shape).masked_fill(~visible, float("-inf")).unsqueeze(1)'),
            Line("output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)", "lesson_code_added"),
        ),
        (Line("visible = (mask == 0).squeeze(1)"),),
    ),
}
"""Every convention, by a short name."""

VISIBLE = "visible"
"""The table from which every convention is made: (batch, query, key), True where a query may see a key."""

HIDDEN = {"True": 1.0, "False": 0.0, "-inf": -np.inf}
"""What a hidden cell holds, as a number."""


def conversion(given: str, wanted: str) -> str:
    """Code that makes the mask of one convention from that of another, or from `visible`, and uses it.

    Its remarks are in the language of the context.

    Raises:
        InputError: no such convention.
    """
    if given not in {VISIBLE, *CONVENTIONS} or wanted not in CONVENTIONS:
        raise InputError(
            "lesson_conversion_unknown", given=given, wanted=wanted, visible=VISIBLE, conventions=tuple(CONVENTIONS)
        )
    lines = [*([] if given == VISIBLE else CONVENTIONS[given].back), *CONVENTIONS[wanted].code]
    return "\n".join(f"{line.text}  # {words(line.remark)}" if line.remark else line.text for line in lines)


def converted(visible: Bool[np.ndarray, "batch query key"], convention: str, n_heads: int = 1) -> np.ndarray:
    """A mask as `convention` wants it; it may hold less than `visible` says: ask `holds`.

    Raises:
        InputError: no such convention.
    """
    if convention not in CONVENTIONS:
        raise InputError("lesson_convention_unknown", convention=convention, conventions=tuple(CONVENTIONS))
    seen = torch.tensor(visible)
    made = {
        "annotated_source": lambda: seen.any(dim=1, keepdim=True),
        "annotated_target": lambda: seen,
        "jadore": lambda: seen,
        "key_padding": lambda: ~seen.any(dim=1),
        "attn_2d": lambda: ~seen.any(dim=0),
        "attn_3d": lambda: (~seen).repeat_interleave(n_heads, dim=0),
        "sdpa": lambda: seen.unsqueeze(1),
        "additive": lambda: torch.zeros(seen.shape).masked_fill(~seen, -torch.inf).unsqueeze(1),
    }[convention]()
    return made.numpy()


def restored(
    made: np.ndarray, convention: str, n_batch: int, n_queries: int, n_heads: int = 1
) -> Bool[np.ndarray, "batch query key"]:
    """Who may see whom by a mask of `convention`."""
    shown = made != HIDDEN[CONVENTIONS[convention].hidden]
    if convention == "attn_3d":
        shown = shown[::n_heads]
    elif convention == "key_padding":
        shown = shown[:, None]
    elif shown.ndim == 4:
        shown = shown[:, 0]
    return np.broadcast_to(shown, (n_batch, n_queries, made.shape[-1]))


def holds(visible: Bool[np.ndarray, "batch query key"], convention: str) -> bool:
    """Whether a mask of `convention` can say all that `visible` says, alone."""
    made = converted(visible, convention)
    return bool((restored(made, convention, len(visible), visible.shape[1]) == visible).all())


def part_of(
    made: np.ndarray, row: int, convention: str, n_heads: int = 1
) -> tuple[Float[np.ndarray, "row column"], str]:
    """What a picture shows of a mask: all of one with two axes, else what sentence `row` uses, with its index."""
    if made.ndim == 2:
        return made.astype(float), ""
    index = (row * n_heads,) if convention == "attn_3d" else (row, 0) if made.ndim == 4 else (row,)
    return made[index].astype(float), f"[{', '.join(map(str, index))}]"
