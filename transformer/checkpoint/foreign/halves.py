"""One half of a recurrent pair by itself, as tutorials save it: an encoder's tensors, or a decoder's."""

import re
from collections.abc import Collection
from typing import Literal

Half = Literal["encoder", "decoder", "blind"]
"""`blind` is a net that scores tokens, or a pair, in which nothing looks back: it has no attention."""

_NET = re.compile(r"(?P<root>(?:.*\.)?)(?P<net>gru|rnn|lstm)\.weight_ih_l0")
_LOOKS = frozenset({"attn", "attention", "attn_combine", "concat"})
"""Parts that only a decoder with attention has."""

_SCORES = frozenset({"out", "fc_out", "dense", "linear", "generator"})
MOST = 64
"""A half of a tutorial's pair has fewer tensors: of longer files, nothing is looked at."""


def half_of(names: Collection[str]) -> tuple[Half, str] | None:
    """Which half lies under these names, and what all of them begin with; None where it is neither."""
    nets = [net for name in names if (net := _NET.fullmatch(name))] if len(names) <= MOST else []
    if len(nets) == 2:
        starts = {net["root"].rpartition("coder.")[0][-2:] for net in nets}
        looks = any(not _LOOKS.isdisjoint(name.split(".")) for name in names)
        return ("blind", "") if starts == {"en", "de"} and not looks else None
    return _alone(names, nets[0]["root"], nets[0]["net"]) if len(nets) == 1 else None


def _alone(names: Collection[str], root: str, net: str) -> tuple[Half, str] | None:
    inside = {name.removeprefix(root) for name in names if name.startswith(root)}
    if len(inside) < len(names) or "embedding.weight" not in inside:
        return None
    parts = {name.partition(".")[0] for name in inside} - {"embedding", net}
    if parts & _LOOKS:
        return "decoder", root
    if parts & _SCORES:
        return "blind", root
    return ("encoder", root) if parts <= {"fc"} else None
