"""What a recording did not see, said by the names of the modules."""

import re
from collections.abc import Iterable, Mapping

import torch
from torch import nn

from transformer.attention.recording.naming import places_in_lists
from transformer.messages import Message

ATTENTION = re.compile(r"attn|attention", re.IGNORECASE)
"""How modules that attend are called."""


def notes_of(
    root: nn.Module, ran: Mapping[str, nn.Module], sites: Iterable[str], idle: Iterable[str]
) -> tuple[str, ...]:
    """What has to be said of a recording: modules without attention by their names, and PyTorch's fast path."""
    found = []
    unseen = _without_attention(ran, list(sites))
    scripted = [path or type(root).__name__ for path, one in ran.items() if isinstance(one, torch.jit.ScriptModule)]
    if scripted:
        found.append(Message("not_seen_in_script", names=tuple(scripted[:5])))
    others = [name for name in unseen if name not in scripted]
    if others:
        found.append(Message("not_seen_in", names=tuple(others[:5])))
    mixing_nothing = tuple(dict.fromkeys(idle))
    if mixing_nothing:
        found.append(Message("softmax_is_no_attention", names=mixing_nothing[:5]))
    if any(isinstance(one, nn.TransformerEncoder) and not one.training for one in ran.values()):
        found.append(Message("fast_path_left"))
    return tuple(found)


def _without_attention(ran: Mapping[str, nn.Module], sites: list[str]) -> list[str]:
    """Innermost modules called attention in which, around which and below which none was seen."""
    paths = [site.partition("#")[0] for site in sites]
    named = [
        path
        for path, one in ran.items()
        if ATTENTION.search(type(one).__name__)
        or (ATTENTION.search(path.rpartition(".")[2]) and next(one.children(), None) is not None)
    ]
    silent = [
        path
        for path in named
        if not any(_inside(path, site) or _inside(site, path) for site in paths) and not _in_group(path, paths)
    ]
    inner = [path for path in silent if not any(other != path and _inside(other, path) for other in silent)]
    return [f"{path} ({type(ran[path]).__name__})" if path else type(ran[path]).__name__ for path in inner]


def _inside(path: str, outer: str) -> bool:
    return not outer or path == outer or path.startswith(outer + ".")


def _in_group(path: str, sites: list[str]) -> bool:
    """Whether a path is a head of a site that joins several modules of a list."""
    return any(before + rest in sites or before in sites for before, rest, _ in places_in_lists(path))
