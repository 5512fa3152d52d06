"""Where in a module the code that runs now stands: the path of the innermost submodule, by forward hooks."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import is_
from threading import get_ident
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn

COMPILED = "_orig_mod"
"""What `torch.compile` calls the module that it wraps."""


@dataclass(eq=False, slots=True)
class ModuleCall:
    """One call of a submodule: its path, and the tensors that it read.

    Calls of one `side` are of modules of one list that read the very same tensors, or what modules of such lists with
    their number made (`to_q.3` for `heads.3`), which are `sources`: heads side by side. `lists` holds the last call
    inside it of a module of each list.
    """

    path: str
    inputs: tuple[ref[Tensor], ...] = ()
    side: object = None
    lists: dict[str, "ModuleCall"] | None = None
    sources: tuple[object, ...] = ()


class Paths:
    """The calls that this thread is inside of, outermost first; `ran` are the modules that ran, by path, in order."""

    def __init__(self, root: nn.Module) -> None:
        self.calls: list[ModuleCall] = []
        self.ran: dict[str, nn.Module] = {}
        self.modules = list(root.named_modules())
        self.buffers = [one for _, each in self.modules for one in each._buffers.values() if one is not None]
        self._outside = ModuleCall("")
        self._made: dict[int, tuple[ref[Tensor], ModuleCall]] = {}

    @property
    def current(self) -> ModuleCall:
        """The innermost call; outside of every call, the root."""
        return self.calls[-1] if self.calls else self._outside

    def maker(self, tensor: Tensor) -> str | None:
        """The path of the numbered module (`experts.3`) that gave this tensor; None for all others."""
        found = self._made.get(id(tensor))
        return found[1].path if found is not None and found[0]() is tensor else None

    def _source(self, tensor: Tensor, number: str) -> object:
        """What a tensor is to a numbered module: the side of the module of the same number that made it, or itself."""
        found = self._made.get(id(tensor))
        is_of = found is not None and found[0]() is tensor and found[1].path.rpartition(".")[2] == number
        return found[1].side if found is not None and is_of else ref(tensor)

    @contextmanager
    def tracked(self) -> Iterator[None]:
        """Keep track inside; the hooks are taken off at the end, also after an exception. Other threads go unseen."""
        handles = []
        listed = {id(one) for _, each in self.modules if isinstance(each, nn.ModuleList) for one in each}
        try:
            for name, module in self.modules:
                is_torchs_own = type(module).__module__.startswith("torch.nn.modules") and not module._modules
                if name and is_torchs_own and id(module) not in listed:  # Linear, LayerNorm: in these nothing attends
                    continue
                path = name
                if COMPILED in name:
                    path = ".".join(part for part in name.split(".") if part != COMPILED)
                if isinstance(module, torch.jit.ScriptModule):  # takes no hooks and shows no functions
                    self.ran[path] = module
                    continue
                enter, leave = self._hooks(path)
                handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
                handles.append(module.register_forward_hook(leave, always_call=True))
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hooks(self, path: str) -> tuple[Any, Any]:
        """What notes that a module is entered, and that it is left."""
        container, _, number = path.rpartition(".")
        numbered, calls, ran, thread = number.isdigit(), self.calls, self.ran, get_ident()

        def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if get_ident() != thread:
                return
            given = [one for one in ((*args, *kwargs.values()) if kwargs else args) if isinstance(one, Tensor)]
            call = ModuleCall(path, tuple([ref(one) for one in given]))
            if numbered:
                around = self.current
                if around.lists is None:
                    around.lists = {}
                before = around.lists.get(container)
                call.sources = tuple([self._source(one, number) for one in given])
                read = () if before is None else before.sources
                is_same = given and len(given) == len(read) and all(map(is_, call.sources, read))
                call.side = before.side if before is not None and is_same else object()
                around.lists[container] = call
            calls.append(call)
            ran.setdefault(path, module)

        def leave(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001
            if get_ident() != thread:
                return
            call = None
            while calls and (call is None or call.path != path):
                call = calls.pop()
            if numbered and call is not None and isinstance(output, Tensor):
                self._made[id(output)] = ref(output), call

        return enter, leave
