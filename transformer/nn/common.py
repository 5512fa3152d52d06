"""Checks that the configs share: each refusal names the option, its value and what to choose instead."""

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.errors import CheckpointError, ConfigError, InputError

Module = TypeVar("Module", bound=nn.Module)


def share_weights_clone(model: Module) -> Module:
    """The same model once more, without a copy of any weight: for hooks, so that the model itself gets none."""
    return copy.deepcopy(model, {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())})


def at_least(config: Any, least: int, *names: str) -> None:
    """Refuse sizes below `least`.

    Raises:
        ConfigError: names the first such size.
    """
    for name in names:
        value = getattr(config, name)
        if value < least:
            raise ConfigError("too_small", name=name, value=value, least=least)


def one_of(config: Any, name: str, choices: Sequence[str]) -> None:
    """Refuse a value that is none of `choices`.

    Raises:
        ConfigError: names the option and the choices.
    """
    if getattr(config, name) not in choices:
        raise ConfigError("not_one_of", name=name, value=getattr(config, name), choices=tuple(choices))


def probability(config: Any, *names: str) -> None:
    """Refuse what is not at least 0 and below 1.

    Raises:
        ConfigError: names the option.
    """
    for name in names:
        if not 0 <= getattr(config, name) < 1:
            raise ConfigError("no_probability", name=name, value=getattr(config, name))


def check_ids(what: str, ids: Int[Tensor, "*batch position"], vocab: int) -> None:
    """Refuse ids that an embedding of `vocab` rows lacks.

    Raises:
        InputError: names the first such id.
    """
    outside = ids[(ids < 0) | (ids >= vocab)]
    if outside.numel():
        raise InputError("outside_the_vocabulary", what=what, id=int(outside[0]), last=vocab - 1)


def log_probs(logits: Float[Tensor, "*batch vocab"]) -> Float[Tensor, "*batch vocab"]:
    """Natural logarithms of the next token's probabilities."""
    return F.log_softmax(logits, dim=-1)


def in_single(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The same numbers in single precision at least, so that what is made of them loses no more; `x` itself if so."""
    return x.float() if x.dtype in {torch.float16, torch.bfloat16} else x


def readable(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The same numbers on the CPU, in single precision at least: what arrays can be made of."""
    return in_single(x).cpu()


def refuse_elsewhere(model: nn.Module) -> None:
    """For what is computed on the CPU alone.

    Raises:
        CheckpointError: the model is on another device.
    """
    first = next(model.parameters(), None)
    if first is not None and first.device.type != "cpu":
        raise CheckpointError("computed_on_the_cpu", device=str(first.device))
