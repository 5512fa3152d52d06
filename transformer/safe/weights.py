"""Where in a checkpoint the weights lie: at its top, or under one of the names that trainers use."""

import re
from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import Any

from transformer.messages import Message
from transformer.safe.declared import Options, TensorInfo
from transformer.safe.limits import ReadLimits
from transformer.safe.names import check_names, is_text
from transformer.safe.refusal import SAVE_WEIGHTS, refused, shown

WRAPPERS = (
    "state_dict", "model_state_dict", "model_state", "model", "net", "network", "module", "weights", "params",
    "transformer", "checkpoint", "ema",
)  # fmt: skip
"""Names under which trainers keep weights, in the order they are looked for; Lightning's is the first."""

HALVES = (
    ("encoder", "decoder"), ("encoder_state_dict", "decoder_state_dict"), ("encoder_state", "decoder_state"),
    ("enc", "dec"), ("en", "de"),
)  # fmt: skip
"""An encoder and a decoder in one file are kept under these."""

MOST_KEYS = 1_000
"""So many keys at most are looked through for the halves of a pair."""

_HALF = re.compile(r"enc(?=oder)|dec(?=oder)|(?<![a-z])(?:enc|dec)(?![a-z])")
_NO_WEIGHTS = re.compile(
    r"opt|optim\w*|sched\w*|scaler|rng\w*|state|amp|grad\w*|histor\w*|metrics?|loss(?:es)?|callbacks"
)
"""Words in names under which trainers keep what is no weights: an optimiser's averages are as many tensors."""

SETTINGS = (
    "model_args", "model_config", "model_kwargs", "settings", "hyper_parameters", "hparams", "args", "opt", "cfg",
    "config",
)  # fmt: skip
"""Names under which trainers keep options: what the model was made with before the flags of the script."""

SHOWN_PLACES = 4
_Place = tuple[Any, ...]
"""The place above and a key; empty for the root. Written out only where it is told: keys may be long, and many."""

_LONGEST_TEXT = 10_000
_LARGEST_NUMBER = 2**63


def check_tree(root: Any, source: str, limits: ReadLimits) -> None:
    """Refuse what holds itself, or is nested beyond reason. Each container is entered once.

    Raises:
        CheckpointError: there is a cycle, or too deep a nest.
    """
    inside: set[int] = set()
    done: set[int] = set()
    path: list[tuple[int, list[Any]]] = [(id(root), _children(root))]
    inside.add(id(root))
    while path:
        container, children = path[-1]
        if not children:
            path.pop()
            inside.discard(container)
            done.add(container)
            continue
        child = children.pop()
        if id(child) in inside:
            raise refused("holds_itself", source, SAVE_WEIGHTS)
        if id(child) not in done and _children(child):
            if len(path) >= limits.depth:
                raise refused("nested_deep", source, SAVE_WEIGHTS, most=limits.depth)
            inside.add(id(child))
            path.append((id(child), _children(child)))


def find_weights(root: Any, source: str, limits: ReadLimits) -> tuple[dict[str, TensorInfo], str]:
    """What the file declares of its tensors, by name, and the place where they lie.

    Raises:
        CheckpointError: there are no named tensors, too many, or names that are too long.
    """
    tensors, place = _search(root)
    if not place:  # nothing under a known name: there may be more under another
        elsewhere = _elsewhere(root, source, len(tensors))
        if len(elsewhere[0]) > len(tensors):
            tensors, place = elsewhere
    if not tensors:
        remedy = Message("remedy_save_state_dict")
        if isinstance(root, TensorInfo):
            raise refused("holds_one_tensor", source, remedy)
        raise refused("holds_no_tensors", source, remedy)
    check_names(tensors, source, limits)
    return tensors, place


def find_settings(root: Any) -> dict[str, Any]:
    """The plain options (texts, numbers, yes or no) that stand beside the weights, by place and name (`args.lr`)."""
    found: dict[str, Any] = {}
    for place in SETTINGS if isinstance(root, Mapping) else ():
        options = root.get(place)
        values = options.values if isinstance(options, Options) else options
        if isinstance(values, Mapping):
            named = {key: value for key, value in values.items() if isinstance(key, str) and _is_plain(key)}
            found |= {f"{place}.{key}": value for key, value in named.items() if _is_plain(value)}
    return found


def _search(root: Any) -> tuple[dict[str, TensorInfo], str]:
    """The first dictionary of tensors under the known names, depth first, that holds no larger one.

    Each dictionary is looked at once: one that holds another under all of these names, that one a third, and so on, is
    small to write and has more paths through it than can be walked.
    """
    seen: set[int] = set()
    known: dict[int, dict[str, TensorInfo]] = {}
    waiting: list[tuple[Any, str]] = [(root, "")]
    while waiting:
        node, place = waiting.pop()
        if not isinstance(node, Mapping) or id(node) in seen:
            continue
        seen.add(id(node))
        tensors = _lying_in(node, known)
        below = max(len(_named(node.get(name), known)) for name in WRAPPERS)
        if tensors and len(tensors) >= below:  # fewer are what a trainer keeps beside the weights: a loss, a score
            return tensors, place
        waiting.extend((node.get(name), f"{place}.{name}" if place else name) for name in reversed(WRAPPERS))
    return {}, ""


def _lying_in(node: Mapping[Any, Any], known: dict[int, dict[str, TensorInfo]]) -> dict[str, TensorInfo]:
    """The tensors of one module that lie in `node`, or of several that are used together."""
    together = [_joined(node, pair, known) for pair in (*HALVES, *_called_halves(node, known))]
    return max([_named(node, known), *together], key=len)


def _joined(
    node: Mapping[Any, Any], pair: tuple[str, str], known: dict[int, dict[str, TensorInfo]]
) -> dict[str, TensorInfo]:
    """The tensors of an encoder and a decoder that lie side by side; none where one of them is missing."""
    if not all(name in node for name in pair):
        return {}
    halves = {half: _named(node.get(name), known) for half, name in zip(("encoder", "decoder"), pair, strict=True)}
    if not all(halves.values()):
        return {}
    return {f"{half}.{name}": info for half, named in halves.items() for name, info in named.items()}


def _called_halves(node: Mapping[Any, Any], known: dict[int, dict[str, TensorInfo]]) -> list[tuple[str, str]]:
    """The two keys that are called an encoder and a decoder, whatever else they are called, if there are just two."""
    keys = [key for key in islice(node, MOST_KEYS) if isinstance(key, str) and not _is_no_weights(key)]
    named = [(half[0], key) for key in keys if (half := _HALF.search(key.lower())) and _named(node[key], known)]
    found = dict(named)
    return [(found["enc"], found["dec"])] if len(named) == len(found) == len(HALVES[0]) else []


def _elsewhere(root: Any, source: str, known_size: int) -> tuple[dict[str, TensorInfo], str]:
    """The largest dictionary of tensors under any name, or in a list; each container is looked at once.

    Raises:
        CheckpointError: two are equally large, larger than `known_size`, and hold different tensors, so that nothing
            tells which is meant.
    """
    seen: set[int] = set()
    known: dict[int, dict[str, TensorInfo]] = {}
    best: list[tuple[dict[str, TensorInfo], _Place]] = [({}, ())]
    waiting = deque[tuple[Any, _Place]]([(root, ())])
    while waiting:
        node, place = waiting.popleft()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Mapping):
            tensors = _lying_in(node, known)
            if len(tensors) > len(best[0][0]):
                best = [(tensors, place)]
            elif tensors and len(tensors) == len(best[0][0]) and tensors != best[0][0]:
                best.append((tensors, place))
            inside = [(key, value) for key, value in node.items() if isinstance(key, str) and not _is_no_weights(key)]
        elif isinstance(node, list | tuple):
            inside = [(str(i), value) for i, value in enumerate(node)]
        else:
            continue
        waiting.extend((value, (place, key)) for key, value in inside if isinstance(value, Mapping | list | tuple))
    if len(best) > 1 and len(best[0][0]) > known_size:
        places = tuple(shown(_written(place)) for _, place in best[:SHOWN_PLACES])
        raise refused("weights_in_places", source, Message("remedy_save_one"), places=places)
    return best[0][0], _written(best[0][1])


def _written(place: _Place) -> str:
    """The keys to a place, from the root on, with dots between them."""
    keys: list[str] = []
    while place:
        place, key = place
        keys.append(key)
    return ".".join(reversed(keys))


def _is_no_weights(key: str) -> bool:
    """Whether a name says that an optimiser's state, or the like, lies under it."""
    words = re.split(r"[^a-z]+", key.lower())
    return any(map(_NO_WEIGHTS.fullmatch, words)) and not {"dict", "model", "net", "ema"} & set(words)


def _named(node: Any, known: dict[int, dict[str, TensorInfo]]) -> dict[str, TensorInfo]:
    """The tensors that lie in `node` itself; what was found is kept in `known`."""
    if not isinstance(node, Mapping):
        return {}
    if id(node) not in known:
        known[id(node)] = {key: v for key, v in node.items() if isinstance(key, str) and isinstance(v, TensorInfo)}
    return known[id(node)]


def _is_plain(value: Any) -> bool:
    """Whether a value is a text or number of a size that an option has."""
    if isinstance(value, str):
        return len(value) <= _LONGEST_TEXT and is_text(value)
    return isinstance(value, bool | float) or (type(value) is int and abs(value) < _LARGEST_NUMBER)


def _children(node: Any) -> list[Any]:
    if isinstance(node, Mapping):
        return list(node.values())
    if isinstance(node, Options):
        return list(node.values.values())
    return list(node) if isinstance(node, list | tuple) else []
