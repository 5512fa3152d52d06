"""Watching what flows through a run, by hooks: it belongs to the caller's context, and does not change the run.

The hooks stand on a twin that shares the model's weights, so the model itself runs as if nobody could look. They keep
references to what the run computed anyway; numbers are made when they are asked for.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch import Tensor, nn

from transformer.errors import RecordError
from transformer.messages import Message
from transformer.nn.blocks import DecoderBlock, EncoderBlock, FeedForward, Residual
from transformer.nn.common import share_weights_clone
from transformer.nn.norms import AnnotatedLayerNorm
from transformer.nn.run_context import changed_context, run_context


@dataclass(frozen=True, eq=False)
class Added:
    """What one residual connection joined: the state that passed by, and what the sub-layer found."""

    state: Tensor
    found: Tensor


@dataclass(frozen=True, eq=False)
class Normed:
    """What one layer norm read, and the module that did it."""

    read: Tensor
    module: nn.LayerNorm | AnnotatedLayerNorm


@dataclass(frozen=True, eq=False)
class Units:
    """What one feed-forward net read, and the net: its hidden units are computed anew when somebody asks for them."""

    read: Tensor
    net: FeedForward


Kept = Added | Normed | Units | Tensor
K = TypeVar("K", Added, Normed, Units, Tensor)
M = TypeVar("M", bound=nn.Module)


@dataclass
class Trace:
    """Activations of a traced run, by the names of nodes and blocks in the model's diagram."""

    _kept: dict[str, list[Kept]] = field(default_factory=dict)

    def add(self, name: str, kept: Kept) -> None:
        """Keep what flowed at a place."""
        self._kept.setdefault(name, []).append(kept)

    def names(self, kind: type[K]) -> tuple[str, ...]:
        """The places where something of this kind was kept, in the order they ran."""
        return tuple(name for name, runs in self._kept.items() if isinstance(runs[0], kind))

    def at(self, name: str, kind: type[K]) -> K:
        """What was kept at a place.

        Raises:
            RecordError: nothing of this kind was kept there, or the place ran more than once (stepwise decoding).
        """
        runs = [kept for kept in self._kept.get(name, ()) if isinstance(kept, kind)]
        if not runs:
            raise RecordError("nothing_flowed", name=name, names=self.names(kind) or Message("nothing_ran"))
        if len(runs) > 1:
            raise RecordError("flowed_often", name=name, times=len(runs))
        return runs[0]


@contextmanager
def tracing() -> Iterator[Trace]:
    """Keep the activations of every traceable model (`watch_flow`) that this thread runs inside the block.

    Other threads are not seen, and nothing stays behind, also after an exception.
    """
    seen = Trace()
    with changed_context(trace=seen):
        yield seen


BEFORE = ".before"
"""What a block's name ends with, where the state before it is meant."""


@dataclass(frozen=True)
class _Observer:
    """The hook of one module."""

    name: str

    def __call__(self, module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        seen: Trace | None = run_context().trace
        if seen is None:
            return
        read: Tensor = (inputs[0] if inputs else named["hidden_states"]).detach()  # as other libraries' layers call it
        match module:
            case Residual():
                seen.add(self.name, Added(read, inputs[1].detach()))
            case FeedForward():
                seen.add(self.name, Units(read, module))
            case nn.LayerNorm() | AnnotatedLayerNorm():
                seen.add(self.name, Normed(read, module))
            case _:  # a layer
                seen.add(f"{self.name}{BEFORE}", read)
                seen.add(self.name, (output[0] if isinstance(output, tuple) else output).detach())


WATCHED = (Residual, FeedForward, nn.LayerNorm, AnnotatedLayerNorm, EncoderBlock, DecoderBlock)
"""Modules whose runs are worth keeping."""


def watch_flow(model: M, layers: Collection[str] = ()) -> M:
    """A copy of the model that shares its weights and can be traced; the model itself gets no hooks.

    `layers` are the names of modules that are layers of another library's model: of these the states are kept.
    """
    twin = share_weights_clone(model)
    for name, module in twin.named_modules():
        if isinstance(module, WATCHED) or name in layers:
            module.register_forward_hook(_Observer(name), with_kwargs=True)
    return twin
