"""The same mask as different libraries want it: which cells are set, to what, in which shape.

Sources: The Annotated Transformer; jadore801120/attention-is-all-you-need-pytorch; torch.nn.MultiheadAttention;
torch.nn.functional.scaled_dot_product_attention.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float

from transformer.errors import InputError
from transformer.messages import Message


@dataclass(frozen=True)
class Convention:
    """How one API takes a mask.

    `hidden` and `visible` are what a cell holds; `shape` names the axes; `code` makes `mask` from `visible`, a
    (batch, query, key) table that is True where a query may see a key, and uses it; `back` makes `visible` from `mask`.
    """

    api: str
    visible: str
    hidden: str
    dtype: str
    shape: str
    code: str
    back: str


CONVENTIONS = {
    "annotated": Convention(
        "The Annotated Transformer",
        "1",
        "0",
        "int64",
        "(batch, 1, query, key)",
        "mask = visible.unsqueeze(1).long()\nscores = scores.masked_fill(mask == 0, -1e9)",
        "visible = mask.squeeze(1) != 0",
    ),
    "jadore": Convention(
        "jadore801120/attention-is-all-you-need-pytorch",
        "True",
        "False",
        "bool",
        "(batch, query, key)",
        "mask = visible\nscores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)",
        "visible = mask",
    ),
    "key_padding": Convention(
        "nn.MultiheadAttention(key_padding_mask=)",
        "False",
        "True",
        "bool",
        "(batch, key)",
        "mask = ~visible.any(dim=1)  # a key that no query may see\n"
        "output, weights = attention(q, k, v, key_padding_mask=mask)",
        "visible = (~mask).unsqueeze(1).expand(-1, n_queries, -1)  # nothing is hidden from some queries only",
    ),
    "attn_mask": Convention(
        "nn.MultiheadAttention(attn_mask=)",
        "False",
        "True",
        "bool",
        "(batch * heads, query, key)",
        "mask = (~visible).repeat_interleave(n_heads, dim=0)\noutput, weights = attention(q, k, v, attn_mask=mask)",
        "visible = ~mask[::n_heads]",
    ),
    "sdpa": Convention(
        "F.scaled_dot_product_attention(attn_mask=)",
        "True",
        "False",
        "bool",
        "(batch, 1, query, key)",
        "mask = visible.unsqueeze(1)\noutput = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)",
        "visible = mask.squeeze(1)",
    ),
    "additive": Convention(
        Message("lesson_convention_additive"),
        "0",
        "-inf",
        "float32",
        "(batch, 1, query, key)",
        'mask = torch.zeros(visible.shape).masked_fill(~visible, float("-inf")).unsqueeze(1)\nscores = scores + mask',
        "visible = (mask == 0).squeeze(1)",
    ),
}
"""Every convention, by a short name."""

VISIBLE = "visible"
"""The table from which every convention is made: (batch, query, key), True where a query may see a key."""


def conversion(given: str, wanted: str) -> str:
    """Code that makes the mask of one convention from that of another, or from `visible`.

    Raises:
        InputError: no such convention.
    """
    if given not in {VISIBLE, *CONVENTIONS} or wanted not in CONVENTIONS:
        raise InputError(
            "lesson_conversion_unknown", given=given, wanted=wanted, visible=VISIBLE, conventions=tuple(CONVENTIONS)
        )
    code = CONVENTIONS[wanted].code
    return code if given == VISIBLE else f"{CONVENTIONS[given].back}\n{code}"


def converted(visible: Bool[np.ndarray, "batch query key"], convention: str, n_heads: int = 1) -> np.ndarray:
    """A mask as `convention` wants it. A key-padding mask can only hold what is hidden from every query.

    Raises:
        InputError: no such convention.
    """
    if convention not in CONVENTIONS:
        raise InputError("lesson_convention_unknown", convention=convention, conventions=tuple(CONVENTIONS))
    seen = torch.from_numpy(visible)
    made = {
        "annotated": lambda: seen.unsqueeze(1).long(),
        "jadore": lambda: seen,
        "key_padding": lambda: ~seen.any(dim=1),
        "attn_mask": lambda: (~seen).repeat_interleave(n_heads, dim=0),
        "sdpa": lambda: seen.unsqueeze(1),
        "additive": lambda: torch.zeros(seen.shape).masked_fill(~seen, -torch.inf).unsqueeze(1),
    }[convention]()
    return made.numpy()


def first_of(
    made: np.ndarray, row: int, convention: str, n_queries: int, n_heads: int = 1
) -> Float[np.ndarray, "query key"]:
    """The part of a converted mask that sentence `row` uses, as a query x key table of numbers for a picture."""
    if convention == "key_padding":
        return np.repeat(made[row][None, :], n_queries, axis=0).astype(float)
    part = made[row * n_heads] if convention == "attn_mask" else made[row]
    return np.asarray(part, dtype=float).reshape(n_queries, -1)
