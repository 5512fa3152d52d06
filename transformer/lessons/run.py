"""A run of a model in float64: what each of its sub-layers read and found, for the boards of the lessons."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..nn.attention import MultiHeadAttention
from ..nn.blocks import Block, FeedForward, Residual
from ..nn.common import share_weights_clone
from .sentences import Sentence

Model = TypeVar("Model", bound=nn.Module)

Words = Callable[[Sequence[int]], Sequence[str]]
"""What a person reads for each id of the output."""

PARTS = ("self", "cross", "feed_forward")
"""The sub-layers of a layer, in the order they run."""


class SubLayer(NamedTuple):
    """One sub-layer of a run: the state that reached it, what it found, and its residual connection.

    `again` is what the same sub-layer finds when it reads something else.
    """

    x: Float[Tensor, "position d_model"]
    found: Float[Tensor, "position d_model"]
    residual: Residual
    again: Callable[[Tensor], Tensor]


def in_float64(model: Model) -> Model:
    """A copy of a model, ready for runs whose numbers can be held against each other to the last digit."""
    return copy.deepcopy(model).double().eval()


class Run:
    """A run of a model `in_float64` on one sentence pair, or on one text alone; `words` reads the ids of its output.

    It shares the model's weights, and its hooks stand on a clone: runs of other threads do not meet in it.
    """

    def __init__(self, model: nn.Module, source: Sentence, target: Sentence | None, words: Words = str) -> None:
        clone: Any = share_weights_clone(model)
        self.model = clone
        ids = torch.tensor([source.ids])
        stack = self.model.text_stack(ids).name
        self.sentences = {stack: source} if target is None else {"encoder": source, "decoder": target}
        self.words = words
        kinds = (Residual, FeedForward, MultiHeadAttention)
        watched: list[nn.Module] = [one for one in clone.modules() if isinstance(one, kinds)]
        watched += [one.key for one in watched if isinstance(one, MultiHeadAttention)]
        watched += [] if self.last is None else [self.last]
        seen: dict[nn.Module, tuple[Any, ...]] = {}
        handles = [one.register_forward_pre_hook(seen.__setitem__) for one in watched]
        with torch.no_grad():
            if not clone.abilities.translates:
                clone.outputs(ids)
            elif target is None:
                clone.encode(ids)
            else:
                self.model(ids, torch.tensor([target.ids]))
        for handle in handles:
            handle.remove()
        self._seen = seen
        """The arguments of each module's last call."""

    @property
    def scores_words(self) -> bool:
        """Whether the output is scores of words, and not of classes."""
        return hasattr(self.model, "token_interface")

    @property
    def last(self) -> nn.Linear | None:
        """The linear map to the scores of words or classes; None for an encoder that ends with its states."""
        if self.scores_words:
            found: nn.Linear = self.model.projection
            return found
        heads = [one for one in self.model.head if isinstance(one, nn.Linear)]
        return heads[-1] if heads else None

    @property
    def stacks(self) -> tuple[str, ...]:
        """What ran: `encoder`, `decoder`, or both."""
        return tuple(self.sentences)

    def n_layers(self, stack: str) -> int:
        """How many layers a stack has."""
        return len(getattr(self.model, stack))

    def parts(self, stack: str) -> tuple[str, ...]:
        """The sub-layers of each of a stack's layers."""
        return PARTS if stack == "decoder" and self.model.abilities.translates else ("self", "feed_forward")

    def labels(self, stack: str) -> tuple[str, ...]:
        """What a person reads for each position of a stack."""
        return self.sentences[stack].labels

    def sub_layer(self, stack: str, layer: int, part: str) -> SubLayer:
        """What happened at one sub-layer, one of `parts` of a layer of `stacks`."""
        block: Block = getattr(self.model, stack)[layer]
        residual: Residual = getattr(block, f"{part}_residual")
        x, found = self._seen[residual]
        module = getattr(block, part if part == "feed_forward" else f"{part}_attention")

        @torch.no_grad()
        def again(reads: Float[Tensor, "position d_model"]) -> Tensor:
            """What the sub-layer finds when it reads something else, all around it as it was."""
            if part == "feed_forward":
                return module(reads[None])[0]
            _, source, mask = self._seen[module]
            return module(reads[None], module.keys_values(reads[None]) if part == "self" else source, mask)[0]

        return SubLayer(x[0], found[0], residual, again)

    def attention(
        self, stack: str, layer: int, kind: str
    ) -> tuple[MultiHeadAttention, Float[Tensor, "key d_model"], Bool[Tensor, "query key"]]:
        """One attention of a layer: its module, what its keys were made of, and which of them each query sees."""
        module: MultiHeadAttention = getattr(getattr(self.model, stack)[layer], f"{kind}_attention")
        reads, keys_values, mask = self._seen[module]
        shape = (reads.shape[1], keys_values.k.shape[2])
        dense = mask.dense(*shape, torch.device("cpu"))
        visible = torch.ones(shape, dtype=torch.bool) if dense is None else dense[0, 0].expand(shape).clone()
        return module, self._seen[module.key][0][0], visible

    def feed_forward(self, stack: str, layer: int) -> tuple[FeedForward, Float[Tensor, "position d_model"]]:
        """A layer's feed-forward net, and what it read."""
        net: FeedForward = getattr(self.model, stack)[layer].feed_forward
        return net, self._seen[net][0][0]

    def end(self) -> Float[Tensor, "position d_model"] | None:
        """What the map to the output read, a row a position; None where there is none."""
        if self.last is None or self.last not in self._seen:
            return None
        read: Tensor = self._seen[self.last][0]
        return read[0]
