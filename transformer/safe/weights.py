"""Where in a checkpoint the weights lie: at its top, or under one of the names that trainers use."""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from ..messages import Message
from .limits import SAVE_WEIGHTS, ReadLimits, check_names, is_text, refused, shown
from .tensors import Options, TensorInfo

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

_NO_WEIGHTS = re.compile(
    r"opt|optim\w*|sched\w*|scaler|rng\w*|state|amp|grad\w*|histor\w*|metrics?|loss(?:es)?|callbacks"
)
"""Words in names under which trainers keep what is no weights: an optimiser's averages are as many tensors."""

SETTINGS = (
    "model_args", "model_config", "model_kwargs", "settings", "hyper_parameters", "hparams", "args", "opt", "cfg",
    "config",
)  # fmt: skip
"""Names under which trainers keep options: what the model was made with before the flags of the script."""

VOCABULARIES = ("stoi", "itos", "vocab", "chars")
"""Names under which trainers keep what each id stands for: at the top, or among the options."""

MOST_CHARACTERS = 2_000_000
"""Characters of all tokens together: fewer than a worker's answer may have."""

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
    inside, done = set[int](), set[int]()

    def enter(node: Any, depth: int) -> None:
        if id(node) in inside:
            raise refused("holds_itself", source, SAVE_WEIGHTS)
        children = [] if id(node) in done else _children(node)
        if children and depth >= limits.depth:
            raise refused("nested_deep", source, SAVE_WEIGHTS, most=limits.depth)
        inside.add(id(node))
        for child in children:
            enter(child, depth + 1)
        inside.discard(id(node))
        done.add(id(node))

    enter(root, 0)


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
        raise refused("holds_one_tensor" if isinstance(root, TensorInfo) else "holds_no_tensors", source, remedy)
    check_names(tensors, source, limits)
    return tensors, place


def find_settings(root: Any) -> dict[str, Any]:
    """The plain options (texts, numbers, yes or no) that stand beside the weights, by place and name (`args.lr`)."""
    found: dict[str, Any] = {}
    for place, options in _options(root):
        named = {key: value for key, value in options.items() if isinstance(key, str) and _is_plain(key)}
        found |= {f"{place}.{key}": value for key, value in named.items() if _is_plain(value)}
    return found


def find_vocabularies(root: Any) -> dict[str, tuple[str, ...]]:
    """Tokens in the order of their ids, by place and name (`config.stoi`): lists, texts, tables of ids or of tokens."""
    found: dict[str, tuple[str, ...]] = {}
    left = MOST_CHARACTERS
    for place, table in (("", root), *_options(root)) if isinstance(root, Mapping) else ():
        for name in VOCABULARIES:
            tokens = _tokens(table.get(name))
            size = sum(map(len, tokens)) + len(tokens)
            if tokens and size <= left and all(token and is_text(token) for token in tokens):
                left -= size
                found[f"{place}.{name}" if place else name] = tokens
    return found


def _options(root: Any) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """The tables of options in a file, by their places."""
    for place in SETTINGS if isinstance(root, Mapping) else ():
        options = root.get(place)
        values = options.values if isinstance(options, Options) else options
        if isinstance(values, Mapping):
            yield place, values


def _tokens(value: Any) -> tuple[str, ...]:
    """The tokens that a value lists, in the order of their ids; none where it is no list of different tokens."""
    if isinstance(value, Mapping):
        by_id: dict[int, Any] = {}
        if all(isinstance(token, str) and type(i) is int for token, i in value.items()):
            by_id = {i: token for token, i in value.items()}
        elif all(type(i) is int for i in value):
            by_id = dict(value)
        value = [by_id.get(i) for i in range(len(value))]
    if not isinstance(value, str | list | tuple) or not all(isinstance(one, str) for one in value):
        return ()
    return tuple(value) if len(set(value)) == len(value) else ()


def other_sets(root: Any, tensors: Mapping[str, TensorInfo], place: str) -> tuple[str, ...]:
    """Names at the top under which as many tensors of the same names lie as at `place`: averaged weights, say."""
    if not isinstance(root, Mapping) or place.partition(".")[0] not in root:
        return ()
    own = place.partition(".")[0]
    names = set(tensors)
    found = []
    for key in (*WRAPPERS, "ema_state_dict", "model_ema", "ema_model", "G", "D", "student", "teacher"):
        node = root.get(key)
        if key != own and isinstance(node, Mapping) and node and len(node) < 2 * len(names) + 10:
            inside = {name for name, value in node.items() if isinstance(value, TensorInfo)}
            if inside and len(inside & names) == len(names):
                found.append(key)
    return tuple(found)


def _search(root: Any) -> tuple[dict[str, TensorInfo], str]:
    """The first dictionary of tensors under the known names, depth first, that holds no larger one.

    Each dictionary is looked at once: one that holds another under all of these names, that one a third, and so on, is
    small to write and has more paths through it than can be walked.
    """
    seen, known = set[int](), dict[int, dict[str, TensorInfo]]()
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
    """The tensors of one module that lie in `node`, or those of an encoder and a decoder that lie side by side."""
    best = _named(node, known)
    for pair in HALVES:
        halves = {half: _named(node.get(name), known) for half, name in zip(HALVES[0], pair, strict=True)}
        if all(halves.values()):
            joined = {f"{half}.{name}": info for half, named in halves.items() for name, info in named.items()}
            best = max(best, joined, key=len)
    return best


def _elsewhere(root: Any, source: str, known_size: int) -> tuple[dict[str, TensorInfo], str]:
    """The largest dictionary of tensors under any name, or in a list; each container is looked at once.

    Raises:
        CheckpointError: two are equally large, larger than `known_size`, and hold different tensors, so that nothing
            tells which is meant.
    """
    seen, known = set[int](), dict[int, dict[str, TensorInfo]]()
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
