"""What has to be said beside a module's maps: what was not seen, which element is shown, and odd rows."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import nn

from ...messages import Message
from ..softmax_inputs import SoftmaxInputs, Weights
from .calls import places_in_lists

ATTENTION = re.compile(r"attn|attention", re.IGNORECASE)
"""How modules that attend are called."""

OF_ATTENTION = re.compile(r"norm|bias|mask|mlp|ffn|feed|drop|proj|embed|scale", re.IGNORECASE)
"""What is called after attention, and is none: `norm_attn`, `attn_mlp`, `edges_to_attn_bias`."""

SHORT_ROW = 1e-3
"""How far from 1 a row may sum by rounding."""


def without_attention(ran: Mapping[str, nn.Module], sites: Iterable[str]) -> list[str]:
    """Paths of innermost modules called attention in which, around which and below which none was seen."""
    paths = [site.partition("#")[0] for site in sites]
    silent = []
    for path, one in ran.items():
        called = path.rpartition(".")[2] if next(one.children(), None) is not None else ""
        names = (type(one).__name__, called)
        if not any(ATTENTION.search(name) and not OF_ATTENTION.search(name) for name in names):
            continue
        if any(is_inside(path, site) or is_inside(site, path) for site in paths):
            continue
        if not any(before + rest in paths or before in paths for before, rest, _ in places_in_lists(path)):
            silent.append(path)  # and is no head of a site that joins several modules of a list
    return [path for path in silent if not any(other != path and is_inside(other, path) for other in silent)]


def is_inside(path: str, outer: str) -> bool:
    """Whether a module's path is another one or below it."""
    return not outer or path == outer or path.startswith(outer + ".")


def of_rows(source: SoftmaxInputs, batch: int, changed: bool) -> Iterator[Message]:
    """What has to be known of weights that a module wrote out: rows that are NaN, and those that do not sum to 1."""
    if not isinstance(source, Weights):
        return
    weights = source.values[batch]
    sums = weights.sum(-1)
    if bool(sums.isnan().any()):
        yield Message("note_rows_nan")
        sums = sums[~sums.isnan()]
    if bool((weights < 0).any()):
        yield Message("note_weights_signed")
    near = max(SHORT_ROW, 2 * torch.finfo(weights.dtype).eps)
    if not changed and bool(((sums - 1).abs() > near).any()):
        yield Message("note_rows_sum", least=f"{float(sums.min()):.2f}", most=f"{float(sums.max()):.2f}")


def of_element(count: int, batch: int, read: Sequence[int]) -> Iterator[Message]:
    """Which of a site's elements is shown, where there are several; `read` is the shape of what the model read."""
    if count > 1 and read and count not in read[:2] and count % read[0] == 0:
        yield Message("note_element_of_parts", index=batch, count=count, read=read[0], parts=count // read[0])
    elif count > 1:
        yield Message("note_element", index=batch, count=count)
