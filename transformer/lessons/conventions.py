"""Masks as libraries want them (which cells are set, to what, in which shape), and `nn.MultiheadAttention` as called.

Nothing of the module is said from memory: a shape is that of a tensor that was made, NaN stands where the installed
PyTorch gives NaN. Sources of the conventions: The Annotated Transformer (`Batch.make_std_mask`,
`MultiHeadedAttention`); jadore801120's attention-is-all-you-need-pytorch; torch.nn.MultiheadAttention;
torch.nn.functional.scaled_dot_product_attention.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..messages import Message, words


class Convention(NamedTuple):
    """How one API takes a mask.

    `visible` and `hidden` are what a cell holds; `axes` names the axes of its shape; `make` computes the mask from
    `visible`, a (batch, query, key) table that is True where a query may see a key, and the number of heads. The line
    `code` does the same, `use` uses the mask, and `back` makes `visible` of it. Remarks are named as in the catalogue.
    """

    api: str
    visible: str
    hidden: str
    dtype: str
    axes: str
    make: Callable[[Tensor, int], Tensor]
    code: str
    use: str
    back: str


SHOWS, HIDES = ("True", "False", "bool"), ("False", "True", "bool")
"""What a visible and a hidden cell hold, and their type."""

_UNSQUEEZED = "output = attention(q, k, v, mask)  # unsqueezed"
_MULTI_HEAD = "output, weights = attention(q, k, v, attn_mask=mask)"
_FUSED = "output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)"

CONVENTIONS = {
    "annotated_source": Convention(
        "The Annotated Transformer: src_mask", *SHOWS, "(batch, 1, key)",
        lambda seen, _: seen.any(dim=1, keepdim=True),
        "mask = visible.any(dim=1, keepdim=True)  # seen_by_some", _UNSQUEEZED,
        "visible = mask.expand(-1, n_queries, -1)  # same_for_all",
    ),
    "annotated_target": Convention(
        "The Annotated Transformer: tgt_mask; jadore801120's Transformer", *SHOWS, "(batch, query, key)",
        lambda seen, _: seen, "mask = visible", _UNSQUEEZED, "visible = mask",
    ),
    "key_padding": Convention(
        "nn.MultiheadAttention(key_padding_mask=)", *HIDES, "(batch, key)", lambda seen, _: ~seen.any(dim=1),
        "mask = ~visible.any(dim=1)  # seen_by_none", "output, weights = attention(q, k, v, key_padding_mask=mask)",
        "visible = (~mask).unsqueeze(1).expand(-1, n_queries, -1)  # same_for_all",
    ),
    "attn_2d": Convention(
        "nn.MultiheadAttention(attn_mask=), 2-D", *HIDES, "(query, key)", lambda seen, _: ~seen.any(dim=0),
        "mask = ~visible.any(dim=0)  # hidden_in_all", _MULTI_HEAD,
        "visible = (~mask).expand(n_batch, -1, -1)  # same_in_all",
    ),
    "attn_3d": Convention(
        "nn.MultiheadAttention(attn_mask=), 3-D", *HIDES, "(batch * heads, query, key)",
        lambda seen, n_heads: (~seen).repeat_interleave(n_heads, dim=0),
        "mask = (~visible).repeat_interleave(n_heads, dim=0)  # heads_of_a_sentence", _MULTI_HEAD,
        "visible = ~mask[::n_heads]  # first_head",
    ),
    "sdpa": Convention(
        "F.scaled_dot_product_attention", *SHOWS, "(batch, 1, query, key)", lambda seen, _: seen.unsqueeze(1),
        "mask = visible.unsqueeze(1)  # same_for_heads", _FUSED, "visible = mask.squeeze(1)",
    ),
    "additive": Convention(
        Message("lesson_convention_additive"), "0", "-inf", "float32", "(batch, 1, query, key)",
        lambda seen, _: torch.zeros(seen.shape).masked_fill(~seen, -torch.inf).unsqueeze(1),
        'mask = torch.zeros(visible.shape).masked_fill(~visible, float("-inf")).unsqueeze(1)', f"{_FUSED}  # added",
        "visible = (mask == 0).squeeze(1)",
    ),
}  # fmt: skip
"""Every convention, by a short name."""

VISIBLE = "visible"
"""The table from which every convention is made: (batch, query, key), True where a query may see a key."""

HIDDEN = {"True": 1.0, "False": 0.0, "-inf": -np.inf}
"""What a hidden cell holds, as a number."""


def conversion(given: str, wanted: str) -> str:
    """Code that makes the mask of one convention from that of another, or from `visible`, and uses it.

    Its remarks are in the language of the context.
    """
    back, made = [] if given == VISIBLE else [CONVENTIONS[given].back], CONVENTIONS[wanted]
    lines = (line.partition("  # ") for line in (*back, made.code, made.use))
    return "\n".join(f"{code}{sign}{words(f'lesson_code_{remark}') if remark else ''}" for code, sign, remark in lines)


def converted(visible: Bool[np.ndarray, "batch query key"], convention: str, n_heads: int = 1) -> np.ndarray:
    """A mask as `convention` wants it; it may hold less than `visible` says: ask `holds`."""
    return CONVENTIONS[convention].make(torch.tensor(visible), n_heads).numpy()


def holds(visible: Bool[np.ndarray, "batch query key"], convention: str) -> bool:
    """Whether a mask of `convention` can say all that `visible` says, alone."""
    shown = converted(visible, convention) != HIDDEN[CONVENTIONS[convention].hidden]
    if convention == "key_padding":
        shown = shown[:, None]
    elif shown.ndim == 4:
        shown = shown[:, 0]
    return bool((np.broadcast_to(shown, visible.shape) == visible).all())


def part_of(
    made: np.ndarray, row: int, convention: str, n_heads: int = 1
) -> tuple[Float[np.ndarray, "row column"], str]:
    """What a picture shows of a mask: all of one with two axes, else what sentence `row` uses, with its index."""
    if made.ndim == 2:
        return made.astype(float), ""
    index = (row * n_heads,) if convention == "attn_3d" else (row, 0) if made.ndim == 4 else (row,)
    return made[index].astype(float), f"[{', '.join(map(str, index))}]"


BATCH, QUERIES, KEYS, WIDTH, HEADS = 2, 3, 5, 8, 2
"""Sizes of the module's example: all different but two, so that a shape tells which axis is which."""

MaskForm = Literal["none", "key_padding", "attn_2d", "attn_3d", "causal"]
More = Literal["none", "add_zero_attn", "add_bias_kv"]
MORE: tuple[More, ...] = ("none", "add_zero_attn", "add_bias_kv")
"""What the module adds as a last key, which no word has: nothing, zeros, or parameters."""

_FUTURE = f"mask = torch.ones({QUERIES}, {KEYS}, dtype=torch.bool).triu(1)"
MASKS: dict[MaskForm, tuple[str, str, tuple[str, ...]]] = {
    "none": ("", "", ()),
    "key_padding": (
        "key_padding_mask=mask", "(batch, key)",
        (f"mask = torch.zeros({BATCH}, {KEYS}, dtype=torch.bool)", f"mask[1, {KEYS - 2}:] = True"),
    ),
    "attn_2d": ("attn_mask=mask", "(query, key)", (_FUTURE,)),
    "attn_3d": (
        "attn_mask=mask", "(batch * heads, query, key)",
        (f"{_FUTURE}.repeat({BATCH} * {HEADS}, 1, 1)", f"mask[{HEADS}:, :, {KEYS - 2}:] = True"),
    ),
    "causal": ("attn_mask=mask, is_causal=True", "(query, key)", (_FUTURE,)),
}  # fmt: skip
"""How a mask is given, its axes, and the code that makes it; `causal` comes with the hint `is_causal`."""

PER_HEAD = "per head"
"""The name of the query as the module cuts it into heads: `view`, then `transpose(1, 2)`."""


@dataclass(frozen=True)
class Call:
    """One way to make and call the module, perhaps with one key `more`."""

    mask: MaskForm = "key_padding"
    batch_first: bool = True
    need_weights: bool = True
    average: bool = True
    more: More = "none"

    @property
    def code(self) -> str:
        """The code of this call, which can be executed as it stands."""
        argument, _, made = MASKS[self.mask]
        returned = "need_weights=False" if not self.need_weights else "average_attn_weights=False"
        given = ["query, key, value", argument, returned if not (self.need_weights and self.average) else ""]
        more = f", {self.more}=True" if self.more != "none" else ""
        return "\n".join(
            [
                f"attention = nn.MultiheadAttention({WIDTH}, {HEADS}, batch_first={self.batch_first}{more})",
                f"query, key, value = {', '.join(f'torch.randn{sizes}' for sizes in self.sizes)}",
                *made,
                f"output, weights = attention({', '.join(filter(None, given))})",
            ]
        )

    @property
    def sizes(self) -> list[tuple[int, int, int]]:
        """The shapes of query, key and value."""
        return [(BATCH, n, WIDTH) if self.batch_first else (n, BATCH, WIDTH) for n in (QUERIES, KEYS, KEYS)]


class Shape(NamedTuple):
    """One tensor of a call: its name, what its axes are, its sizes, its type."""

    name: str
    axes: str
    sizes: tuple[int, ...]
    dtype: str


def called(
    call: Call,
) -> tuple[list[Shape], Float[Tensor, "batch head query key"] | Float[Tensor, "batch query key"] | None]:
    """Run the module, made as `call.code` does from seed 0: all tensors in their order of work; the weights, if any."""
    argument, mask_axes, _ = MASKS[call.mask]
    name, mask = argument.partition("=")[0], _mask(call.mask)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        more: dict[str, Any] = {} if call.more == "none" else {call.more: True}
        attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=call.batch_first, **more)
        query, key, value = (torch.randn(sizes) for sizes in call.sizes)
        options: dict[str, Any] = {} if mask is None else {name: mask, "is_causal": call.mask == "causal"}
        options |= {"need_weights": call.need_weights, "average_attn_weights": call.average}
        output, weights = attention(query, key, value, **options)
    rows = "(batch, {0}, d_model)" if call.batch_first else "({0}, batch, d_model)"
    per_head = query.transpose(0, 0 if call.batch_first else 1).reshape(BATCH, QUERIES, HEADS, -1).transpose(1, 2)
    last_key = f"{'' if call.average else 'heads, '}query, {'key' if call.more == 'none' else 'key + 1'}"
    tensors = [
        ("query", rows.format("query"), query),
        ("key", rows.format("key"), key),
        ("value", rows.format("key"), value),
        ("in_proj_weight", "(3 * d_model, d_model)", attention.in_proj_weight),
        (PER_HEAD, "(batch, heads, query, d_head)", per_head),
        (name, mask_axes, mask),
        ("out_proj.weight", "(d_model, d_model)", attention.out_proj.weight),
        ("output", rows.format("query"), output),
        ("weights", f"(batch, {last_key})", weights),
    ]
    return [
        Shape(name, axes, tuple(one.shape), str(one.dtype).removeprefix("torch."))
        for name, axes, one in tensors
        if one is not None
    ], weights


def _mask(form: MaskForm) -> Tensor | None:
    """The mask that the code of a form makes."""
    future = torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(1)
    padding = torch.tensor([[False] * KEYS, [False] * (KEYS - 2) + [True] * 2])
    both = (future | padding[:, None]).repeat_interleave(HEADS, dim=0)
    masks = {"key_padding": padding, "attn_2d": future, "attn_3d": both, "causal": future}
    return masks.get(form)


def decoder_arguments() -> list[tuple[str, str, tuple[int, ...], tuple[int, ...]]]:
    """The masks of `nn.TransformerDecoderLayer`, each given alone: its name, axes and sizes, and what it cuts off.

    That is, for each word that the mask is about, in the second sentence: how many outputs change when the word does.
    """
    masks = {
        "tgt_mask": ("(query, query)", torch.ones(QUERIES, QUERIES, dtype=torch.bool).triu(1)),
        "tgt_key_padding_mask": ("(batch, query)", torch.arange(QUERIES).repeat(BATCH, 1) >= QUERIES - 1),
        "memory_mask": ("(query, key)", torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(1)),
        "memory_key_padding_mask": ("(batch, key)", torch.arange(KEYS).repeat(BATCH, 1) >= KEYS - 2),
    }
    found = []
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout=0.0, batch_first=True).double()
        sides = {"tgt": torch.randn(BATCH, QUERIES, WIDTH).double(), "memory": torch.randn(BATCH, KEYS, WIDTH).double()}
        for name, (axes, mask) in masks.items():
            of = name.partition("_")[0]
            before, moved = layer(**sides, **{name: mask}), []
            for word in range(sides[of].shape[1]):
                changed = {**sides, of: sides[of].clone()}
                changed[of][1, word] += torch.randn(WIDTH)
                differs = (layer(**changed, **{name: mask}) - before)[1].abs().amax(-1) > 1e-9
                moved.append(int(differs.sum()))
            found.append((name, axes, tuple(mask.shape), tuple(moved)))
    return found


def blind_rows() -> list[tuple[bool, str, str]]:
    """What PyTorch gives for a sentence of padding alone, with `need_weights` and without: output and weights.

    Each is `NaN`, `0`, a range of numbers, or empty where nothing is returned.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        attention, x = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), torch.randn(1, KEYS, WIDTH)
        hidden = torch.ones(1, KEYS, dtype=torch.bool)
        calls = {need: attention(x, x, x, key_padding_mask=hidden, need_weights=need) for need in (True, False)}
    return [(need, _summary(output), _summary(weights)) for need, (output, weights) in calls.items()]


def _summary(numbers: Tensor | None) -> str:
    if numbers is None:
        return ""
    if bool(numbers.isnan().all()):
        return "NaN"
    return "0" if not bool(numbers.any()) else f"{float(numbers.min()):.3g} … {float(numbers.max()):.3g}"


def causal_alone() -> bool:
    """Whether PyTorch takes the hint `is_causal` without a mask."""
    attention, x = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), torch.zeros(BATCH, KEYS, WIDTH)
    try:
        attention(x, x, x, is_causal=True)
    except RuntimeError:
        return False
    return True


FILLS = ("-1e9", "-inf", "torch.finfo(dtype).min")
"""What hidden scores are set to in the code that one meets."""

DTYPES = ("float64", "float32", "bfloat16", "float16")


def fills() -> list[tuple[str, str, list[str] | None, list[str] | None]]:
    """Every fill in every floating type, executed: scores 1, 2, 3, filled where hidden, then the softmax.

    Type and fill, then the weights of a row with one hidden key (the last), and of one where every key is hidden; None
    where PyTorch refuses to fill them in.
    """
    found: list[tuple[str, str, list[str] | None, list[str] | None]] = []
    for name in DTYPES:
        dtype: torch.dtype = getattr(torch, name)
        for fill in FILLS:
            value = torch.finfo(dtype).min if fill.startswith("torch") else float(fill)
            hidden = torch.tensor([[False, False, True], [True, True, True]])
            try:
                weights = torch.tensor([[1.0, 2.0, 3.0]] * 2, dtype=dtype).masked_fill(hidden, value).softmax(-1)
            except RuntimeError:
                found.append((name, fill, None, None))
                continue
            one, every = ([_weight(float(weight)) for weight in row] for row in weights)
            found.append((name, fill, one, every))
    return found


def _weight(value: float) -> str:
    return "NaN" if np.isnan(value) else f"{value:.3g}"
