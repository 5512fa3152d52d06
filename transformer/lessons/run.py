"""One run of a model in float64, with all that reached its sub-layers: what the lessons about layers take apart.

Source: Vaswani et al. 2017, sections 3.1 to 3.4; Xiong et al. 2020 (norm before).
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer.errors import InputError
from transformer.lessons.sentences import Sentence
from transformer.nn.attention import MultiHeadAttention
from transformer.nn.blocks import Block, FeedForward, Residual
from transformer.nn.common import share_weights_clone
from transformer.nn.protocols import HasPairStacks, HasTokenInterface

Model = TypeVar("Model", bound=nn.Module)

Words = Callable[[Sequence[int]], Sequence[str]]
"""What a person reads for each id of the output."""

PARTS = ("self", "cross", "feed_forward")
"""The sub-layers of a layer, in the order they run."""


@dataclass(frozen=True, eq=False)
class SubLayer:
    """One sub-layer of a run: the state that reached it, what it found, and its residual connection.

    `again` is what the same sub-layer finds when it reads something else.
    """

    x: Float[Tensor, "position d_model"]
    found: Float[Tensor, "position d_model"]
    residual: Residual
    again: Callable[[Tensor], Tensor]


class AttentionCall(NamedTuple):
    """One attention of a run: its module, what its keys were made of, and which of them each query sees."""

    module: MultiHeadAttention
    memory: Float[Tensor, "key d_model"]
    visible: Bool[Tensor, "query key"]


def in_float64(model: Model) -> Model:
    """A copy of a model, ready for runs whose numbers can be held against each other to the last digit."""
    return copy.deepcopy(model).double().eval()


@contextmanager
def calls(*modules: nn.Module) -> Iterator[dict[nn.Module, tuple[Any, ...]]]:
    """The arguments of each module's last call inside the block."""
    seen: dict[nn.Module, tuple[Any, ...]] = {}

    def keep(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        seen[module] = arguments

    handles = [module.register_forward_pre_hook(keep) for module in modules]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


class Run:
    """A run of a model `in_float64` on one sentence pair, or on one text alone; `words` reads the ids of its output.

    It shares the model's weights, and its hooks stand on a clone: runs of other threads do not meet in it.

    Raises:
        InputError: a sentence has no token.
    """

    def __init__(
        self,
        model: nn.Module,
        source: Sentence,
        target: Sentence | None,
        words: Words = str,
    ) -> None:
        if not source.ids or (target is not None and not target.ids):
            raise InputError("lesson_no_token")
        clone: Any = share_weights_clone(model)
        self.model = clone
        ids = torch.tensor([source.ids])
        stack = self.model.text_stack(ids).name
        self.sentences = {stack: source} if target is None else {"encoder": source, "decoder": target}
        self.words = words
        last = self.last
        kinds = (Residual, FeedForward, MultiHeadAttention)
        watched: list[nn.Module] = [one for one in self.model.modules() if isinstance(one, kinds)]
        watched += [one.key for one in watched if isinstance(one, MultiHeadAttention)]
        with torch.no_grad(), calls(*watched, *([] if last is None else [last])) as seen:
            if not isinstance(clone, HasPairStacks):
                clone.outputs(ids)
            elif target is None:
                clone.encode(ids)
            else:
                self.model(ids, torch.tensor([target.ids]))
        self._seen = seen

    @property
    def scores_words(self) -> bool:
        """Whether the output is scores of words, and not of classes."""
        return isinstance(self.model, HasTokenInterface)

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
        return PARTS if stack == "decoder" and isinstance(self.model, HasPairStacks) else ("self", "feed_forward")

    def labels(self, stack: str) -> tuple[str, ...]:
        """What a person reads for each position of a stack."""
        return self.sentences[stack].labels

    def sub_layer(self, stack: str, layer: int, part: str) -> SubLayer:
        """What happened at one sub-layer.

        Raises:
            InputError: it is not in this run.
        """
        if stack not in self.stacks or not 0 <= layer < self.n_layers(stack) or part not in self.parts(stack):
            raise InputError("lesson_no_such_sub_layer", name=f"{stack}.{layer}.{part}")
        block: Block = getattr(self.model, stack)[layer]
        residual: Residual = getattr(block, f"{part}_residual")
        x, found = self._seen[residual]
        name = part if part == "feed_forward" else f"{part}_attention"
        module = getattr(block, name)
        return SubLayer(x[0], found[0], residual, lambda reads: self._again(module, part, reads))

    def attention(self, stack: str, layer: int, kind: str) -> AttentionCall:
        """One attention of a layer.

        Raises:
            InputError: it is not in this run.
        """
        self.sub_layer(stack, layer, kind)
        module: MultiHeadAttention = getattr(getattr(self.model, stack)[layer], f"{kind}_attention")
        reads, keys_values, mask = self._seen[module]
        shape = (reads.shape[1], keys_values.k.shape[2])
        dense = mask.dense(*shape, torch.device("cpu"))
        visible = torch.ones(shape, dtype=torch.bool) if dense is None else dense[0, 0].expand(shape).clone()
        return AttentionCall(module, self._seen[module.key][0][0], visible)

    def feed_forward(self, stack: str, layer: int) -> tuple[FeedForward, Float[Tensor, "position d_model"]]:
        """A layer's feed-forward net, and what it read.

        Raises:
            InputError: the layer is not in this run.
        """
        self.sub_layer(stack, layer, "feed_forward")
        net: FeedForward = getattr(self.model, stack)[layer].feed_forward
        return net, self._seen[net][0][0]

    def end(self) -> Float[Tensor, "position d_model"] | None:
        """What the map to the output read: a row a position, or one for the whole input; None where there is none."""
        if self.last is None or self.last not in self._seen:
            return None
        read: Tensor = self._seen[self.last][0]
        return read[0] if read.dim() == 3 else read

    def _again(self, module: Any, part: str, reads: Float[Tensor, "position d_model"]) -> Tensor:
        """What a sub-layer finds when it reads something else, all around it as it was."""
        reads = reads[None]
        with torch.no_grad():
            if part == "feed_forward":
                found: Tensor = module(reads)
            else:
                _, source, mask = self._seen[module]
                found = module(reads, module.keys_values(reads) if part == "self" else source, mask)
        return found[0]
