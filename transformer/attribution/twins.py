"""A twin of a model: modules of its own for hooks to be put on, the weights shared."""

import copy
from typing import TypeVar

from torch import nn

Model = TypeVar("Model", bound=nn.Module)


def twin_of(model: Model) -> Model:
    """The same model once more, without a copy of any weight: the model itself gets no hooks."""
    return copy.deepcopy(model, {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())})
