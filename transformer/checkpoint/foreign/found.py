"""What names tell of a file that no layout explains, and the lines that record its model where its own code runs."""

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from transformer.checkpoint.foreign.questions import SETTINGS
from transformer.messages import Message
from transformer.safe.contents import Contents

MOST, LONGEST = 5_000, 200
"""So many names are looked at, none of more characters."""

RECORD_FILE = "run.heedmap"
"""What the lines to copy call the file that they write."""

_ATTENTION = re.compile(r"att(?:n|ention)|(?:^|[._])(?:q|k|qkv|query|key|mha|in_proj|[qkv]_proj|[wW]_?[qkv])(?:$|[._])")
_MULTIHEAD = re.compile(r"(?:^|\.)(?:in_proj_weight|q_proj_weight)$")
_HEADS = re.compile(r"(?:^|[._])heads?$")


def found_in(contents: Contents) -> tuple[Message, ...]:
    """How many layers and heads the names tell of, and whether attention is torch.nn.MultiheadAttention."""
    names = [name for name in islice(contents.tensors, MOST) if len(name) <= LONGEST]
    attending = [name for name in names if _ATTENTION.search(name)]
    lists = _numbered(attending or names)
    heads = {path: count for path, count in lists.items() if _HEADS.search(path)}
    layers = {path: count for path, count in lists.items() if path not in heads}
    found = []
    if layers:
        path = max(layers, key=lambda path: layers[path])
        found.append(Message("found_layers", count=layers[path], path=path))
    told = [
        Message("found_heads_told", count=value, place=key)
        for key, value in contents.settings.items()
        if key.rpartition(".")[2] in SETTINGS["n_heads"] and type(value) is int
    ]
    listed = [Message("found_heads", count=count, path=path) for path, count in islice(heads.items(), 1)]
    found += told[:1] or listed or [Message("found_no_heads")]
    has_multihead = any(map(_MULTIHEAD.search, names))
    return (*found, Message("found_multihead" if has_multihead else "found_no_multihead"))


def record_lines(source: str, inputs: str = "inputs", grid: tuple[int, int] | None = None) -> tuple[str, ...]:
    """Python that records the model of the file `source` and writes a file to bring instead."""
    axes = f", grid={grid}" if grid else ""
    return (
        "from transformer import recording",
        f"with recording(model) as seen: model({inputs})",
        f'seen.record(model={Path(source).stem[:80]!r}{axes}).save("{RECORD_FILE}")',
    )


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """How many numbers follow each path in `names`, of paths that have any."""
    found: dict[str, set[str]] = {}
    for name in names:
        parts = name.split(".")
        for i, part in enumerate(parts[1:], 1):
            if part.isdecimal():
                found.setdefault(".".join(parts[:i]), set()).add(part)
    return {path: len(numbers) for path, numbers in found.items()}
