"""The block in which attention is recorded: of models of this library by hooks, of any other module as it runs."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn

from transformer.attention import capture
from transformer.attention.capture import Recording
from transformer.layers import log_sums
from transformer.layers.rows import going_on
from transformer.recording.seen import MOST_BYTES, ModuleRecording


@contextmanager
def recording(
    module: nn.Module | None = None, *, outputs: bool = False, mixing: bool = False, most_bytes: int = MOST_BYTES
) -> Iterator[Recording]:
    """Record the attention of `module`, or of every model of this library, that this thread runs inside the block.

    `module` is any `torch.nn.Module`: nothing of it is changed, its output is the same (within rounding where PyTorch
    would have taken the fast path of nn.TransformerEncoder, which a note says), and nothing stays behind, also after an
    exception. Its sites are the paths of the submodules in which attention ran: PyTorch's fused attention, multi-head
    attention, and softmaxes that a product mixes values by. Written-out weights are kept, up to `most_bytes`; of fused
    attention the queries and keys, from which weights are computed when asked for.

    Without a module, models that `load` returns are watched already; for others of this library, call `watch` once.
    `outputs` keeps what the heads gave on as well, for a `donor`; `mixing` (without a module) the values too.
    """
    if module is None:
        with capture.recording(outputs, mixing) as seen:
            yield seen
        return
    found = ModuleRecording(keeps_outputs=outputs, module=module, most_bytes=most_bytes)
    with ExitStack() as stack:
        if any(isinstance(one, torch._dynamo.OptimizedModule) for one in module.modules()):
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(log_sums.noting())
        stack.enter_context(going_on())  # what runs may be a step of a loop
        stack.enter_context(found.watching())
        yield found
