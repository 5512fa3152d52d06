"""Where in a module the code that runs now stands: the path of the innermost submodule, by forward hooks."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn

COMPILED = "_orig_mod"
"""What `torch.compile` calls the module that it wraps."""


def _computes_one_function(module: nn.Module) -> bool:
    """Whether it is one of torch's own layers without parts (Linear, LayerNorm), in which nothing attends."""
    return type(module).__module__.startswith("torch.nn.modules") and not module._modules


@dataclass(eq=False, slots=True)
class Call:
    """One call of a submodule: its path, the tensors that it read, and how many attentions have run in it so far.

    Calls of one `side` are of modules of one list that read the very same tensors: heads side by side.
    """

    path: str
    inputs: tuple[ref[Tensor], ...] = ()
    side: object = None
    lists: dict[str, "Call"] | None = None

    def reads_as(self, other: "Call") -> bool:
        """Whether both were given the very same tensors, which live still."""
        if not self.inputs or len(self.inputs) != len(other.inputs):
            return False
        for mine, theirs in zip(self.inputs, other.inputs, strict=True):
            tensor = mine()
            if tensor is None or tensor is not theirs():
                return False
        return True


@dataclass
class Paths:
    """The calls that this thread is inside of, outermost first; `ran` are the modules that ran, by path, in order."""

    root: nn.Module
    calls: list[Call] = field(default_factory=list)
    ran: dict[str, nn.Module] = field(default_factory=dict)
    _made: dict[int, tuple[ref[Tensor], str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._thread = get_ident()
        self._outside = Call("")
        self.modules = list(self.root.named_modules())
        self.buffers = [one for _, each in self.modules for one in each._buffers.values() if one is not None]

    @property
    def current(self) -> Call:
        """The innermost call; outside of every call, the root."""
        return self.calls[-1] if self.calls else self._outside

    def maker(self, tensor: Tensor) -> str | None:
        """The path of the numbered module (`experts.3`) that gave this tensor; None for all others."""
        found = self._made.get(id(tensor))
        return found[1] if found is not None and found[0]() is tensor else None

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Keep track inside; the hooks are taken off at the end, also after an exception. Other threads go unseen."""
        handles = []
        listed = {id(one) for _, each in self.modules if isinstance(each, nn.ModuleList) for one in each}
        try:
            for name, module in self.modules:
                if name and _computes_one_function(module) and id(module) not in listed:
                    continue
                path = ".".join(part for part in name.split(".") if part != COMPILED)
                if isinstance(module, torch.jit.ScriptModule):  # takes no hooks and shows no functions
                    self.ran[path] = module
                    continue
                handles.append(module.register_forward_pre_hook(self._entering(path), with_kwargs=True))
                handles.append(module.register_forward_hook(self._leaving(path), always_call=True))
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _entering(self, path: str) -> Any:
        container, _, number = path.rpartition(".")
        numbered, calls, ran, thread = number.isdigit(), self.calls, self.ran, self._thread

        def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if get_ident() != thread:
                return
            given = (*args, *kwargs.values()) if kwargs else args
            call = Call(path, tuple([ref(one) for one in given if isinstance(one, Tensor)]))
            if numbered:
                around = calls[-1] if calls else self._outside
                if around.lists is None:
                    around.lists = {}
                before = around.lists.get(container)
                call.side = before.side if before is not None and call.reads_as(before) else object()
                around.lists[container] = call
            calls.append(call)
            if path not in ran:
                ran[path] = module

        return enter

    def _leaving(self, path: str) -> Any:
        numbered = path.rpartition(".")[2].isdigit()

        def leave(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001
            if get_ident() != self._thread:
                return
            while self.calls and self.calls.pop().path != path:
                pass
            if numbered and isinstance(output, Tensor):
                self._made[id(output)] = ref(output), path

        return leave
