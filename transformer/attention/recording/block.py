"""The block in which attention is recorded: of models of this library by hooks, of any other module as it runs."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import overload

import torch
from torch import nn

from transformer.attention import capture
from transformer.attention.capture import Recording
from transformer.attention.recording.seen import MOST_BYTES, ModuleRecording
from transformer.errors import RecordError
from transformer.nn.run_context import changed_context


@overload
def recording(module: None = None, *, outputs: bool = ..., mixing: bool = ...) -> AbstractContextManager[Recording]: ...
@overload
def recording(
    module: nn.Module, *, outputs: bool = ..., most_bytes: int = ...
) -> AbstractContextManager[ModuleRecording]: ...
def recording(
    module: nn.Module | None = None, *, outputs: bool = False, mixing: bool = False, most_bytes: int = MOST_BYTES
) -> AbstractContextManager[Recording]:
    """Record the attention of `module`, or of every model of this library, that this thread runs inside the block.

    `module` is any `torch.nn.Module`: nothing of it is changed, its output is the same (within rounding where PyTorch
    would have taken the fast path of nn.TransformerEncoder, which a note says), and nothing stays behind, also after an
    exception. Its sites are the paths of the submodules in which attention ran: PyTorch's fused attention, multi-head
    attention, and softmaxes that a product mixes values by. Written-out weights are kept, up to `most_bytes`; of fused
    attention the queries and keys, from which weights are computed when asked for.

    Without a module, models that `load` returns are watched already; for others of this library, call `watch` once.
    `outputs` keeps what the heads gave on as well, for a `donor`; `mixing` (without a module) the values too.

    Raises:
        RecordError: what was given is no module.
    """
    if module is None:
        return capture.recording(outputs, mixing)
    if not isinstance(module, nn.Module):
        raise RecordError("not_a_module", found=type(module).__name__)
    return _of_module(module, outputs, most_bytes)


@contextmanager
def _of_module(module: nn.Module, outputs: bool, most_bytes: int) -> Iterator[ModuleRecording]:
    found = ModuleRecording(keeps_outputs=outputs, module=module, most_bytes=most_bytes)
    compiler = sys.modules.get("torch._dynamo")  # nothing is compiled where it was never imported
    with ExitStack() as stack:
        if compiler is not None and any(isinstance(one, compiler.OptimizedModule) for _, one in found.paths.modules):
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(changed_context(row_sums=[], is_streaming=True))  # what runs may be a step of a loop
        stack.enter_context(found.watching())
        yield found
