"""Functions of torch by name, in every place where code finds them: torch, tensors, torch.nn.functional."""

from typing import Any

import torch
from torch.nn import functional as F


def functions(names: str) -> list[Any]:
    """The functions and methods of these names, which are divided by spaces."""
    holders = (torch, torch.Tensor, F, torch.special, torch.functional)
    return [getattr(holder, name) for name in names.split() for holder in holders if hasattr(holder, name)]


def _getters(names: str) -> list[Any]:
    return [getattr(torch.Tensor, name).__get__ for name in names.split()]


QUIET = frozenset(
    [
        *_getters("shape device dtype requires_grad is_leaf layout ndim is_cuda grad"),
        *functions("size dim numel is_floating_point stride __len__ item tolist data_ptr"),
    ]
)
"""Functions that make no tensor."""

CONSTANTS = frozenset(functions("arange linspace logspace eye tensor"))
"""Functions that make tensors of nothing that was read; zeros and the like are mostly filled later."""

OF_SEVERAL = frozenset(functions("meshgrid broadcast_tensors"))
"""Functions from several tensors to as many."""

KEEPING = frozenset(functions("to float double half type_as contiguous clone detach"))
"""Functions that change no number."""

ELEMENTWISE = KEEPING | frozenset(
    functions(
        "add __add__ __radd__ __iadd__ add_ sub __sub__ __rsub__ sub_ mul __mul__ __rmul__ __imul__ mul_ multiply "
        "div __truediv__ __itruediv__ div_ true_divide neg masked_fill masked_fill_ where nan_to_num clamp clamp_min "
        "tanh exp sigmoid normalize dropout dropout_ alpha_dropout feature_dropout type cpu cuda bfloat16"
    )
)
"""Functions of each number by itself."""

ALIKE = "layer_norm rms_norm group_norm batch_norm gelu relu silu"
"""Norms and activations, whose results have the axes of what they read."""
