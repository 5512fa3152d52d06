"""The one binary message that carries a picture's numbers to the browser; blob.js reads it.

Layout: `[u32 little-endian header length][JSON header][arrays, one after the other]`. Raw bytes are a
tenth of what JSON numbers would be, and the browser reads them without parsing.
"""

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, UInt8

from ...errors import InputError
from ...messages import say

MASKED = 255
"""The code of a cell that the mask hides: no weight has it."""

LARGEST_CODE = 254
"""The code of weight 1; codes 0 to 254 are weights."""

TOLERANCE = 1e-3
"""How far outside 0 to 1 rounding in half precision may take a weight; half of one code is more."""


def pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """One message from a JSON header and named arrays (uint8, uint32, float16 or float32), sent row by row.

    The header gains `arrays`: `[name, type, length]` of each, in order. A dataclass in it is sent as its fields, or as
    its `message()` says; texts with nothing hidden, in the language of the context.
    """
    layout = [[name, array.dtype.name, array.size] for name, array in arrays.items()]
    text = json.dumps(_as_json({**header, "arrays": layout}), separators=(",", ":"), allow_nan=False).encode()
    raw = (np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes() for array in arrays.values())
    return struct.pack("<I", len(text)) + text + b"".join(raw)


def _as_json(value: Any) -> object:
    if isinstance(value, str):
        return say(value)
    if isinstance(value, list | tuple):
        return [_as_json(one) for one in value]
    if value is None or isinstance(value, int | float):
        return value
    fields = value if isinstance(value, Mapping) else value.message() if hasattr(value, "message") else vars(value)
    return {say(name): _as_json(one) for name, one in fields.items()}


def unpack(message: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the (flat) arrays of a message that `pack` wrote."""
    start = 4 + struct.unpack_from("<I", message)[0]
    header = json.loads(message[4:start])
    arrays, offset = {}, start
    for name, dtype, length in header["arrays"]:
        arrays[name] = np.frombuffer(message, np.dtype(dtype).newbyteorder("<"), length, offset)
        offset += arrays[name].nbytes
    return header, arrays


def codes(
    weights: Float[np.ndarray, "*cells"], visible: Bool[np.ndarray, "*cells"], gamma: float = 1.0
) -> UInt8[np.ndarray, "*cells"]:
    """Weights as one byte each: `round(254 * weight ** gamma)`, or 255 where masked.

    `weight ** gamma` is kept within 1/508. NaN has no code: it becomes 0 here, and `nan_bits` tells where it was.
    """
    scaled = LARGEST_CODE * np.nan_to_num(weights, nan=0.0).clip(0.0, 1.0) ** gamma
    return np.where(visible, np.rint(scaled), MASKED).astype(np.uint8)


def nan_bits(
    weights: Float[np.ndarray, "*cells"], visible: Bool[np.ndarray, "*cells"]
) -> dict[str, UInt8[np.ndarray, " bytes"]]:
    """`{"nan": one bit a cell}`, or nothing at all where every visible weight is a number."""
    nan = np.isnan(weights) & visible
    return {"nan": np.packbits(nan)} if nan.any() else {}


def refuse_outside_unit(name: str, weights: Float[np.ndarray, "*cells"], visible: Bool[np.ndarray, "*cells"]) -> None:
    """Weights that are seen lie between 0 and 1 (or are NaN): what does not is no attention weight.

    Raises:
        InputError: one lies outside by more than rounding explains.
    """
    outside = visible & ((weights < -TOLERANCE) | (weights > 1 + TOLERANCE))
    if outside.any():
        raise InputError("component_outside_unit", name=name, value=float(weights[outside][0]))
