"""Sources of attention in a record file: inputs of a softmax, kept weights, and masks and biases beside them.

Only one sentence of a batch is written; what is read is a batch of one.
"""

from typing import Any

import torch
from torch import Tensor

from transformer.attention.masks_and_biases import Bias, BiasTable, MaskTable, RelativeBias, WindowMask
from transformer.attention.record_files.axes import written_text
from transformer.attention.record_files.contents import MOST_HEADS, MOST_NOTES, MOST_POSITIONS
from transformer.attention.record_files.entries import Entry
from transformer.attention.record_files.tensors import Stored, below_infinity, read_tensor
from transformer.attention.softmax_inputs import AttentionInputs, Weights
from transformer.nn.masks import Mask

BOOL = (torch.bool,)


def written_inputs(source: AttentionInputs, batch: int, name: str, stored: Stored) -> dict[str, Any]:
    """The inputs of a softmax as JSON; `name` begins the names of its tensors."""
    k = source.k[batch : batch + 1]
    if k.stride(1) == 0:  # one key head, expanded: written once
        k = k[:, :1]
    known = None if source.known is None else source.known[batch : batch + 1]
    written = {
        "kind": "inputs",
        "q": stored.put(f"{name}.q", source.q[batch : batch + 1]),
        "k": stored.put(f"{name}.k", k),
        "scale": float(source.scale),
        "mask": _written_mask(source.mask, batch, source.n_queries, source.n_keys, name, stored),
        "bias": _written_bias(source.bias, batch, name, stored),
        "known": stored.put(f"{name}.known", known),
    }
    return {field: value for field, value in written.items() if value is not None}


def written_weights(source: Weights, batch: int, name: str, stored: Stored) -> dict[str, Any]:
    """Kept weights as JSON."""
    written = {"kind": "weights", "values": stored.put(f"{name}.weights", source.values[batch : batch + 1])}
    if source.mask is not None:
        written["mask"] = _written_mask(source.mask, batch, source.n_queries, source.n_keys, name, stored)
    if source.notes:
        written["notes"] = [written_text(note) for note in source.notes]
    return written


def read_inputs(entry: Entry) -> AttentionInputs:
    """The inputs of a softmax.

    Raises:
        CheckpointError: they are none, or do not fit each other.
    """
    entry.table("kind", "q", "k", "scale", "mask", "bias", "known")
    q = read_tensor(entry.at("q"), (1, None, None, None))
    _, n_heads, n_queries, d_k = q.shape
    k = read_tensor(entry.at("k"), (1, None, None, d_k), (q.dtype,))
    n_keys = k.shape[2]
    _check_sizes(entry, n_heads, n_queries, n_keys)
    if n_heads % k.shape[1]:
        entry.file.refuse("record_heads_apart", place=entry.place, heads=n_heads, key_heads=k.shape[1])
    known = entry.at("known")
    return AttentionInputs(
        q,
        k,
        read_mask(entry.at("mask"), n_queries, n_keys),
        entry.at("scale").number(),
        _read_bias(entry.at("bias"), n_heads, n_queries, n_keys),
        None if known.is_missing else read_tensor(known, (1, n_heads, n_queries), check=None),
    )


def read_weights(entry: Entry) -> Weights:
    """Kept weights.

    Raises:
        CheckpointError: they are none.
    """
    entry.table("kind", "values", "mask", "notes")
    values = read_tensor(entry.at("values"), (1, None, None, None))
    _, n_heads, n_queries, n_keys = values.shape
    _check_sizes(entry, n_heads, n_queries, n_keys)
    mask = entry.at("mask")
    return Weights(values, None if mask.is_missing else read_mask(mask, n_queries, n_keys), read_notes(entry))


def read_notes(entry: Entry) -> tuple[str, ...]:
    """The notes of a site, or of its source."""
    notes = entry.at("notes")
    return () if notes.is_missing else tuple(note.said() for note in notes.items(MOST_NOTES))


def read_mask(entry: Entry, n_queries: int, n_keys: int) -> Mask:
    """Who may see whom at a site of this size.

    Raises:
        CheckpointError: it is no mask, or one of another size.
    """
    kind = entry.table("kind", "keys", "causal", "spreads", "visible", "width").at("kind").choice(_MASKS)
    marked = entry.at("keys")
    keys = None if marked.is_missing else read_tensor(marked, (1, n_keys), BOOL, None)
    causal, spreads = entry.at("causal").yes(), entry.at("spreads").yes()
    if kind == "window":
        return WindowMask(keys, causal, spreads, width=entry.at("width").count())
    if kind == "table":
        visible = read_tensor(entry.at("visible"), (1, 1, n_queries, n_keys), BOOL, None)
        return MaskTable(keys, causal, spreads, visible=visible)
    return Mask(keys, causal, spreads)


_MASKS = ("keys", "table", "window")


def _written_mask(mask: Mask, batch: int, n_queries: int, n_keys: int, name: str, stored: Stored) -> dict[str, Any]:
    """A mask as JSON; one of a form that the file does not have as a table of the same cells."""
    keys = None if mask.keys is None else _sentence(mask.keys, batch)
    written: dict[str, Any] = {"kind": "keys", "keys": stored.put(f"{name}.mask.keys", keys)}
    written |= {"causal": mask.causal or None, "spreads": mask.uniform_if_masked or None}
    if isinstance(mask, WindowMask):
        written |= {"kind": "window", "width": mask.width}
    elif isinstance(mask, MaskTable):
        visible = _sentence(mask.visible, batch)
        written |= {"kind": "table", "visible": stored.put(f"{name}.mask.visible", visible)}
    elif type(mask) is not Mask:
        part = mask.part(slice(0, n_queries), slice(0, n_keys), n_queries, n_keys, batch)
        visible = torch.ones(n_queries, n_keys, dtype=torch.bool) if part is None else part.expand(n_queries, n_keys)
        written |= {"kind": "table", "visible": stored.put(f"{name}.mask.visible", visible[None, None].contiguous())}
    return {field: value for field, value in written.items() if value is not None}


def _written_bias(bias: Bias | None, batch: int, name: str, stored: Stored) -> dict[str, Any] | None:
    if bias is None:
        return None
    if isinstance(bias, RelativeBias):
        return {"diagonals": stored.put(f"{name}.bias", bias.diagonals), "n_queries": bias.n_queries}
    values = _sentence(bias.values, batch)
    for axis in (1, 2):  # a row that was expanded is written once
        values = values.narrow(axis, 0, 1) if values.stride(axis) == 0 else values
    return {"values": stored.put(f"{name}.bias", values)}


def _read_bias(entry: Entry, n_heads: int, n_queries: int, n_keys: int) -> Bias | None:
    if entry.is_missing:
        return None
    entry.table("diagonals", "n_queries", "values")
    if entry.at("values").is_missing:
        rows = entry.at("n_queries").count(MOST_POSITIONS, n_queries)
        diagonals = read_tensor(entry.at("diagonals"), (None, None), check=below_infinity)
        _one_or_all(entry.at("diagonals"), diagonals.shape[0], n_heads)
        _check_distances(entry.at("diagonals"), diagonals.shape[1], rows, n_keys)
        return RelativeBias(diagonals, rows)
    values = read_tensor(entry.at("values"), (1, None, None, n_keys), check=below_infinity)
    _one_or_all(entry.at("values"), values.shape[1], n_heads)
    _one_or_all(entry.at("values"), values.shape[2], n_queries)
    return BiasTable(values)


def _check_distances(entry: Entry, count: int, n_queries: int, n_keys: int) -> None:
    """A bias by distance has a number for each distance from the last query to the first key, and so on to the last."""
    if count < n_queries - 1 + n_keys:
        entry.file.refuse("record_distances", place=entry.place, found=count, needed=n_queries - 1 + n_keys)


def _one_or_all(entry: Entry, found: int, count: int) -> None:
    if found not in (1, count):
        entry.file.refuse("record_broadcast", place=entry.place, found=found, needed=count)


def _check_sizes(entry: Entry, n_heads: int, n_queries: int, n_keys: int) -> None:
    found, most = (n_heads, n_queries, n_keys), (MOST_HEADS, MOST_POSITIONS, MOST_POSITIONS)
    if any(size > limit for size, limit in zip(found, most, strict=True)):
        sizes = " x ".join(f"{size:,}" for size in found)
        entry.file.refuse("record_large", place=entry.place, found=sizes, heads=MOST_HEADS, positions=MOST_POSITIONS)


def _sentence(tensor: Tensor, batch: int) -> Tensor:
    """The row of one sentence; one row may stand for all of them."""
    row = min(batch, len(tensor) - 1)
    return tensor[row : row + 1]
