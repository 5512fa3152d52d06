"""Where in a checkpoint the weights lie: at its top, or under one of the names that trainers use."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from transformer.checkpoint.safe.declared import Options, TensorInfo
from transformer.checkpoint.safe.limits import ReadLimits
from transformer.checkpoint.safe.refusal import SAVE_WEIGHTS, refusal

WRAPPERS = ("state_dict", "model_state_dict", "model_state", "model", "net", "network", "module", "weights", "params")
"""Names under which trainers keep weights, in the order they are looked for; Lightning's is the first."""

HALVES = ("encoder", "decoder")
"""A recurrent pair in one file is kept under these."""

SETTINGS = ("settings", "hyper_parameters", "hparams", "args", "opt", "config")
"""Names under which trainers keep options."""


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
            raise refusal(source, "a dictionary or list in it holds itself", SAVE_WEIGHTS)
        if id(child) not in done and _children(child):
            if len(path) >= limits.depth:
                raise refusal(source, f"it is nested more than {limits.depth} deep", SAVE_WEIGHTS)
            inside.add(id(child))
            path.append((id(child), _children(child)))


def find_weights(root: Any, source: str, limits: ReadLimits) -> tuple[dict[str, Any], str]:
    """The tensors by name, and the place where they lay. Works on what a file claims and on what was read from it.

    Raises:
        CheckpointError: there are no named tensors, too many, or names that are too long.
    """
    tensors, place = _search(root, ())
    if not tensors:
        kind = "a single tensor" if _is_tensor(root) else "no tensors by name"
        raise refusal(source, f"it holds {kind}", "save a state_dict: torch.save(model.state_dict(), path)")
    if len(tensors) > limits.tensors:
        raise refusal(source, f"it holds {len(tensors):,} tensors, at most {limits.tensors:,} are read", SAVE_WEIGHTS)
    longest = max(map(len, tensors))
    if longest > limits.name_characters:
        raise refusal(source, f"it names a tensor with {longest:,} characters", SAVE_WEIGHTS)
    return tensors, ".".join(place)


def find_settings(root: Any) -> dict[str, Any]:
    """The plain options (texts, numbers, yes or no) that stand beside the weights."""
    if not isinstance(root, Mapping):
        return {}
    for name in SETTINGS:
        options = root.get(name)
        values = options.values if isinstance(options, Options) else options
        if isinstance(values, Mapping):
            return {str(k): v for k, v in values.items() if isinstance(v, str | int | float | bool)}
    return {}


def _search(node: Any, place: tuple[str, ...]) -> tuple[dict[str, Any], tuple[str, ...]]:
    if not isinstance(node, Mapping):
        return {}, place
    tensors = _named(node)
    if tensors:
        return tensors, place
    halves = {half: _named(node.get(half)) for half in HALVES}
    if all(halves.values()):
        return {f"{half}.{name}": tensor for half, named in halves.items() for name, tensor in named.items()}, place
    for name in WRAPPERS:
        found, where = _search(node.get(name), (*place, name))
        if found:
            return found, where
    return {}, place


def _named(node: Any) -> dict[str, Any]:
    if not isinstance(node, Mapping):
        return {}
    return {name: value for name, value in node.items() if isinstance(name, str) and _is_tensor(value)}


def _is_tensor(value: Any) -> bool:
    return isinstance(value, TensorInfo | Tensor)


def _children(node: Any) -> list[Any]:
    if isinstance(node, TensorInfo):
        return []
    if isinstance(node, Mapping):
        return list(node.values())
    if isinstance(node, Options):
        return list(node.values.values())
    return list(node) if isinstance(node, list | tuple) else []
