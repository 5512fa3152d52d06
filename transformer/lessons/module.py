"""`nn.MultiheadAttention` as it is called: every tensor's shape, its masks, and rows that see nothing. All is executed.

Nothing here is said from memory: a shape is that of a tensor that was made, NaN stands where the installed PyTorch
gives NaN.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

MaskForm = Literal["none", "key_padding", "attn_2d", "attn_3d", "causal"]
MASKS: tuple[MaskForm, ...] = ("none", "key_padding", "attn_2d", "attn_3d", "causal")
"""No mask; (batch, key); (query, key); (batch * heads, query, key); (query, key) with the hint `is_causal`."""

BATCH, QUERIES, KEYS, WIDTH, HEADS = 2, 3, 5, 8, 2
KEY_WIDTH, VALUE_WIDTH = 6, 7
TOLERANCE = 1e-9
"""Sizes of the example: all different, so that a shape tells which axis is which."""

More = Literal["none", "add_zero_attn", "add_bias_kv"]
MORE: tuple[More, ...] = ("none", "add_zero_attn", "add_bias_kv")
"""What the module adds as a last key: nothing, zeros, or parameters."""

PER_HEAD = "per head"
"""The name of the query as the module cuts it into heads: `view`, then `transpose(1, 2)`."""


@dataclass(frozen=True)
class Call:
    """One way to make and call the module; `own_widths` gives keys and values widths of their own (kdim, vdim).

    `more` adds one key that no word has: zeros (add_zero_attn), or a learned one (add_bias_kv).
    """

    mask: MaskForm = "key_padding"
    batch_first: bool = True
    need_weights: bool = True
    average: bool = True
    own_widths: bool = False
    more: More = "none"

    @property
    def code(self) -> str:
        """The code of this call, which can be executed as it stands."""
        widths = f", kdim={KEY_WIDTH}, vdim={VALUE_WIDTH}" if self.own_widths else ""
        widths += f", {self.more}=True" if self.more != "none" else ""
        sides = [f"torch.randn{self._ordered(n, wide)}" for n, wide in self._sides()]
        return "\n".join(
            [
                f"attention = nn.MultiheadAttention({WIDTH}, {HEADS}, batch_first={self.batch_first}{widths})",
                f"query, key, value = {', '.join(sides)}",
                *_MASK_CODE[self.mask],
                f"output, weights = attention(query, key, value{self._arguments()})",
            ]
        )

    def _sides(self) -> list[tuple[int, int]]:
        """Positions and width of query, key and value."""
        key, value = (KEY_WIDTH, VALUE_WIDTH) if self.own_widths else (WIDTH, WIDTH)
        return [(QUERIES, WIDTH), (KEYS, key), (KEYS, value)]

    def _ordered(self, positions: int, width: int) -> tuple[int, int, int]:
        return (BATCH, positions, width) if self.batch_first else (positions, BATCH, width)

    def _arguments(self) -> str:
        """What follows query, key and value."""
        given = [_ARGUMENT[self.mask]] if self.mask != "none" else []
        if not self.need_weights:
            given.append("need_weights=False")
        elif not self.average:
            given.append("average_attn_weights=False")
        return "".join(f", {argument}" for argument in given)


_MASK_CODE: dict[MaskForm, tuple[str, ...]] = {
    "none": (),
    "key_padding": (
        f"mask = torch.zeros({BATCH}, {KEYS}, dtype=torch.bool)",
        f"mask[1, {KEYS - 2}:] = True",
    ),
    "attn_2d": (f"mask = torch.ones({QUERIES}, {KEYS}, dtype=torch.bool).triu(1)",),
    "attn_3d": (
        f"mask = torch.ones({QUERIES}, {KEYS}, dtype=torch.bool).triu(1).repeat({BATCH} * {HEADS}, 1, 1)",
        f"mask[{HEADS}:, :, {KEYS - 2}:] = True",
    ),
    "causal": (f"mask = torch.ones({QUERIES}, {KEYS}, dtype=torch.bool).triu(1)",),
}
_ARGUMENT: dict[MaskForm, str] = {
    "key_padding": "key_padding_mask=mask",
    "attn_2d": "attn_mask=mask",
    "attn_3d": "attn_mask=mask",
    "causal": "attn_mask=mask, is_causal=True",
}


class Shape(NamedTuple):
    """One tensor of a call: its name, what its axes are, its sizes, its type."""

    name: str
    axes: str
    sizes: tuple[int, ...]
    dtype: str


class Called(NamedTuple):
    """What a call had and gave: every tensor's shape in the order of the work, and the weights, if any."""

    shapes: tuple[Shape, ...]
    weights: Float[Tensor, "batch head query key"] | Float[Tensor, "batch query key"] | None


def called(call: Call) -> Called:
    """Make the module and its tensors as `call.code` does, from seed 0, and run it."""
    widths: dict[str, Any] = dict(kdim=KEY_WIDTH, vdim=VALUE_WIDTH) if call.own_widths else {}
    widths |= {call.more: True} if call.more != "none" else {}
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=call.batch_first, **widths)
        given = [torch.randn(call._ordered(*side)) for side in call._sides()]
        mask = _mask(call.mask)
        output, weights = attention(*given, **_given(call, mask))
    rows = "(batch, {0}, {1})" if call.batch_first else "({0}, batch, {1})"
    key_width, value_width = ("kdim", "vdim") if call.own_widths else ("d_model", "d_model")
    per_head = given[0].transpose(0, 0 if call.batch_first else 1)
    per_head = per_head.reshape(BATCH, QUERIES, HEADS, WIDTH // HEADS).transpose(1, 2)
    shapes = [
        _shape("query", rows.format("query", "d_model"), given[0]),
        _shape("key", rows.format("key", key_width), given[1]),
        _shape("value", rows.format("key", value_width), given[2]),
        *(_shape(name, axes, getattr(attention, name)) for name, axes in _projections(call).items()),
        _shape(PER_HEAD, "(batch, heads, query, d_head)", per_head),
    ]
    if mask is not None:
        axes = {"key_padding": "(batch, key)", "attn_3d": "(batch * heads, query, key)"}
        shapes.append(_shape(_ARGUMENT[call.mask].partition("=")[0], axes.get(call.mask, "(query, key)"), mask))
    shapes.append(_shape("out_proj.weight", "(d_model, d_model)", attention.out_proj.weight))
    shapes.append(_shape("output", rows.format("query", "d_model"), output))
    if weights is not None:
        heads = "" if call.average else "heads, "
        key = "key" if call.more == "none" else "key + 1"
        shapes.append(_shape("weights", f"(batch, {heads}query, {key})", weights))
    return Called(tuple(shapes), weights)


def _mask(form: MaskForm) -> Tensor | None:
    future = torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(1)
    if form == "none":
        return None
    if form == "key_padding":
        mask = torch.zeros(BATCH, KEYS, dtype=torch.bool)
        mask[1, KEYS - 2 :] = True
        return mask
    if form == "attn_3d":
        mask = future.repeat(BATCH * HEADS, 1, 1)
        mask[HEADS:, :, KEYS - 2 :] = True
        return mask
    return future


def _given(call: Call, mask: Tensor | None) -> dict[str, Any]:
    name = "key_padding_mask" if call.mask == "key_padding" else "attn_mask"
    causal = {"is_causal": True} if call.mask == "causal" else {}
    return {name: mask, "need_weights": call.need_weights, "average_attn_weights": call.average, **causal}


def _projections(call: Call) -> dict[str, str]:
    """Names and axes of the input projections: one tensor for all three, or three where the widths differ."""
    if not call.own_widths:
        return {"in_proj_weight": "(3 * d_model, d_model)"}
    return {
        "q_proj_weight": "(d_model, d_model)",
        "k_proj_weight": "(d_model, kdim)",
        "v_proj_weight": "(d_model, vdim)",
    }


def _shape(name: str, axes: str, tensor: Tensor) -> Shape:
    return Shape(name, axes, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))


class Argument(NamedTuple):
    """A mask of `nn.TransformerDecoderLayer`: its name, axes and sizes, and what it cuts off.

    `moved` says of each word that the mask is about, in the second sentence: how many outputs change when it does.
    """

    name: str
    axes: str
    sizes: tuple[int, ...]
    moved: tuple[int, ...]


def decoder_arguments() -> tuple[Argument, ...]:
    """The four masks of a decoder layer, each given alone: two of its self-attention, two of its cross-attention."""
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
        sides = {"tgt": torch.randn(BATCH, QUERIES, WIDTH), "memory": torch.randn(BATCH, KEYS, WIDTH)}
        sides = {name: side.double() for name, side in sides.items()}
        for name, (axes, mask) in masks.items():
            of = name.partition("_")[0]
            before, moved = layer(**sides, **{name: mask}), []
            for word in range(sides[of].shape[1]):
                changed = {**sides, of: sides[of].clone()}
                changed[of][1, word] += torch.randn(WIDTH)
                differs = (layer(**changed, **{name: mask}) - before)[1].abs().amax(-1) > TOLERANCE
                moved.append(int(differs.sum()))
            found.append(Argument(name, axes, tuple(mask.shape), tuple(moved)))
    return tuple(found)


class Blind(NamedTuple):
    """What the row of a query that sees no key holds: `nan`, `0`, or other numbers, in output and weights."""

    need_weights: bool
    output: str
    weights: str


def blind_rows() -> tuple[Blind, ...]:
    """A sentence of padding alone (every key hidden), with and without `need_weights`: what PyTorch gives for it."""
    found = []
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        query, key = torch.randn(BATCH, QUERIES, WIDTH), torch.randn(BATCH, KEYS, WIDTH)
        hidden = torch.zeros(BATCH, KEYS, dtype=torch.bool)
        hidden[1] = True
        for need_weights in (True, False):
            output, weights = attention(query, key, key, key_padding_mask=hidden, need_weights=need_weights)
            found.append(Blind(need_weights, _summary(output[1]), "" if weights is None else _summary(weights[1])))
    return tuple(found)


def _summary(numbers: Tensor) -> str:
    if bool(numbers.isnan().all()):
        return "nan"
    return "0" if not bool(numbers.any()) else f"{float(numbers.min()):.3g} … {float(numbers.max()):.3g}"


FILLS = ("-1e9", "-inf", "torch.finfo(dtype).min")
"""What hidden scores are set to in the code that one meets."""

DTYPES = ("float64", "float32", "bfloat16", "float16")


class Filled(NamedTuple):
    """What becomes of hidden scores: of a row with one hidden key (the last), and of one where every key is hidden.

    Rows are weights as text, or None where PyTorch refuses to fill them in.
    """

    dtype: str
    fill: str
    one_hidden: tuple[str, ...] | None
    all_hidden: tuple[str, ...] | None


def fills() -> tuple[Filled, ...]:
    """Every fill in every floating type, executed: scores 1, 2, 3, filled where hidden, then the softmax."""
    return tuple(_filled(dtype, fill) for dtype in DTYPES for fill in FILLS)


def _filled(name: str, fill: str) -> Filled:
    dtype: torch.dtype = getattr(torch, name)
    value = torch.finfo(dtype).min if fill.startswith("torch") else float(fill)
    scores = torch.tensor([[1.0, 2.0, 3.0]] * 2, dtype=dtype)
    hidden = torch.tensor([[False, False, True], [True, True, True]])
    try:
        weights = scores.masked_fill(hidden, value).softmax(-1)
    except RuntimeError:
        return Filled(name, fill, None, None)
    one, every = (tuple(f"{float(weight):.3g}" for weight in row) for row in weights)
    return Filled(name, fill, one, every)


def causal_alone() -> bool:
    """Whether PyTorch takes the hint `is_causal` without a mask."""
    attention, x = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), torch.zeros(BATCH, KEYS, WIDTH)
    try:
        attention(x, x, x, is_causal=True)
    except RuntimeError:
        return False
    return True
