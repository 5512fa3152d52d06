"""What models share: configs, small helpers on tensors, and what the caller asked of the passes that it runs.

The last is one value in one context variable. It belongs to the caller's context (a thread or a task): others do not
notice, and nothing stays behind.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import CheckpointError, ConfigError, InputError

Module = TypeVar("Module", bound=nn.Module)
AnyConfig = TypeVar("AnyConfig", bound="Config")


def share_weights_clone(model: Module) -> Module:
    """The same model once more, without a copy of any weight: for hooks, so that the model itself gets none."""
    return copy.deepcopy(model, {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())})


def option(name: str, default: Any) -> Any:
    """A field of a config whose flat name is another than its own."""
    return field(default=default, metadata={"option": name})


def _option(one: Field[Any]) -> str:
    return one.metadata.get("option", one.name)


@dataclass(frozen=True, kw_only=True)
class Config:
    """The options of a model, or of one of its parts; a model's hold those of its parts.

    Files and layouts of weights name all options of a model in one flat table: by the names of the fields, or by what
    `option` calls them. A part is a field whose default is a config.
    """

    @classmethod
    def of(cls: type[AnyConfig], **options: Any) -> AnyConfig:
        """The config with these options, by their flat names.

        Raises:
            TypeError: an option is missing, or there is none of that name.
            ConfigError: a value is out of range, or sizes do not fit together.
        """
        return cls(**_changes(cls, options), **options)

    def changed(self: AnyConfig, **options: Any) -> AnyConfig:
        """The same config but for these options, by their flat names; see `of`."""
        return replace(self, **_changes(self, options), **options)

    @property
    def options(self) -> dict[str, Any]:
        """Every option by its flat name."""
        return {name: value for name, _, value in _walked(self)}

    @classmethod
    def flat(cls) -> dict[str, tuple["Field[Any]", Any]]:
        """The field of every option by its flat name, and its default (None where there is none)."""
        return {name: (one, value) for name, one, value in _walked(cls)}

    def at_least(self, least: int, *names: str) -> None:
        """Refuse sizes below `least`."""
        for name in names:
            if (value := getattr(self, name)) < least:
                raise ConfigError("too_small", name=self._called(name), value=value, least=least)

    def one_of(self, name: str, choices: Sequence[str]) -> None:
        """Refuse a value that is none of `choices`."""
        if (value := getattr(self, name)) not in choices:
            raise ConfigError("not_one_of", name=self._called(name), value=value, choices=tuple(choices))

    def probability(self, name: str) -> None:
        """Refuse what is not at least 0 and below 1."""
        if not 0 <= (value := getattr(self, name)) < 1:
            raise ConfigError("no_probability", name=self._called(name), value=value)

    def _called(self, name: str) -> str:
        return next(_option(one) for one in fields(self) if one.name == name)


def _walked(config: Any) -> Iterator[tuple[str, "Field[Any]", Any]]:
    """Flat name, field and value (of a class: default) of every option."""
    for one in fields(config):
        value = getattr(config, one.name, None)
        if isinstance(value, Config):
            yield from _walked(value)
        else:
            yield _option(one), one, value


def _changes(config: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The fields of `config` (a value or a class) that `options` set, which are taken out of there."""
    found = {}
    for one in fields(config):
        if isinstance(value := getattr(config, one.name, None), Config):
            found[one.name] = replace(value, **_changes(value, options))
        elif _option(one) in options:
            found[one.name] = options.pop(_option(one))
    return found


def check_ids(what: str, ids: Int[Tensor, "*batch position"], vocab: int) -> None:
    """Refuse ids that an embedding of `vocab` rows lacks.

    Raises:
        InputError: names the first such id.
    """
    outside = ids[(ids < 0) | (ids >= vocab)]
    if outside.numel():
        raise InputError("outside_the_vocabulary", what=what, id=int(outside[0]), last=vocab - 1)


def pad(rows: Sequence[Sequence[int]], pad_id: int) -> Int[Tensor, "batch position"]:
    """Rows of ids as one tensor, short ones filled up at the end."""
    width = max(len(row) for row in rows)
    return torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows])


def pair_outputs(model: Any, source: Int[Tensor, "batch source"], target: Tensor | None) -> dict[str, Tensor]:
    """`log_probs` (batch, target, vocab) that an encoder-decoder gives the token after each target position, in nats.

    Raises:
        InputError: there is no target, an id that a vocabulary lacks, or a source that is too long.
    """
    if target is None:
        raise InputError("no_target_ids")
    check_ids("inputs", source, model.config.source_vocab)
    check_ids("targets", target, model.config.target_vocab)
    return {"log_probs": log_probs(model(source, target))}


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


class RunContext(NamedTuple):
    """How the passes of one caller are watched and changed, and where they are in a text.

    `recording` collects attention, `interventions` change it, `trace` collects activations: objects of the rooms above,
    None where nobody asked. `row_sums` holds what the last long attention left of its rows, None where nobody records.
    `weights` holds the table of weights that the last short attention mixed by, None where nobody wants whole tables.
    `position_offset` is the position of the first query of a decoder's attention, None where a pass computes all rows.
    `is_streaming` says that the text will go on, so that positions that it does not have yet may be named.
    `is_quick` lets attention over few keys leave out the maximum of each row, and oneDNN compute linear maps: equal to
    rounding, not to the bit.
    """

    recording: Any = None
    interventions: Any = None
    trace: Any = None
    row_sums: list[Tensor] | None = None
    weights: list[Tensor] | None = None
    position_offset: int | None = None
    is_streaming: bool = False
    is_quick: bool = False


_context: ContextVar[RunContext] = ContextVar("run context", default=RunContext())  # noqa: B039  # a tuple


def run_context() -> RunContext:
    """The caller's."""
    return _context.get()


@contextmanager
def changed_context(**changes: Any) -> Iterator[None]:
    """Change fields of the caller's context for the length of a block."""
    token = _context.set(_context.get()._replace(**changes))
    try:
        yield
    finally:
        _context.reset(token)
