"""What lies beside the weights in their file: the vocabulary that they were trained with, and other sets of weights."""

from collections.abc import Iterator, Mapping
from typing import Any

from transformer.safe.declared import Options, TensorInfo
from transformer.safe.names import is_text
from transformer.safe.weights import SETTINGS, WRAPPERS

VOCABULARIES = ("stoi", "itos", "vocab", "vocabulary", "chars", "word2index", "char2idx", "token_to_id")
"""Names under which trainers keep what each id stands for: at the top, or among the options."""

MOST_CHARACTERS = 2_000_000
"""Characters of all tokens together: fewer than a worker's answer may have."""


def find_vocabularies(root: Any) -> dict[str, tuple[str, ...]]:
    """Tokens in the order of their ids, by place and name (`config.stoi`): lists, texts, tables of ids or of tokens."""
    found: dict[str, tuple[str, ...]] = {}
    left = MOST_CHARACTERS
    for place, table in _tables(root):
        for name in VOCABULARIES:
            tokens = _tokens(table.get(name))
            size = sum(map(len, tokens)) + len(tokens)
            if tokens and size <= left and all(token and is_text(token) for token in tokens):
                left -= size
                found[f"{place}.{name}" if place else name] = tokens
    return found


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
            held = {name for name, value in node.items() if isinstance(value, TensorInfo)}
            if held and len(held & names) == len(names):
                found.append(key)
    return tuple(found)


def _tables(root: Any) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """The top of a file, and the options in it."""
    if isinstance(root, Mapping):
        yield "", root
        for place in SETTINGS:
            options = root.get(place)
            values = options.values if isinstance(options, Options) else options
            if isinstance(values, Mapping):
                yield place, values


def _tokens(value: Any) -> tuple[str, ...]:
    """The tokens that a value lists, in the order of their ids; none where it is no list of different tokens."""
    if isinstance(value, Mapping):
        items = value.items()
        if all(isinstance(token, str) and type(i) is int for token, i in items):
            tokens = {i: token for token, i in items}
        elif all(type(i) is int and isinstance(token, str) for i, token in items):
            tokens = dict(items)
        else:
            return ()
        whole = len(tokens) == len(value) and all(i in tokens for i in range(len(tokens)))
        found = tuple(tokens[i] for i in range(len(tokens))) if whole else ()
    elif isinstance(value, str) or (isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)):
        found = tuple(value)
    else:
        return ()
    return found if len(set(found)) == len(found) else ()
