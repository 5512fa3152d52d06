"""One run of a model in float64, with all that reached its sub-layers, as boards of matrices.

Source: Vaswani et al. 2017, sections 3.1 (residual sum and norm), 3.3 (feed-forward net), 3.4 (embeddings, output
layer); Xiong et al. 2020 (norm before). Rows are positions, columns dimensions.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.errors import InputError
from transformer.layers.blocks import DecoderBlock, EncoderBlock, FeedForward, Residual
from transformer.lessons.calls import calls
from transformer.lessons.sentences import Sentence
from transformer.models.decoder import Decoder
from transformer.models.encoder import Encoder
from transformer.models.seq2seq import Seq2Seq

Model = Seq2Seq | Encoder | Decoder
"""Models whose layers are built of the library's own blocks, and read tokens."""

Words = Callable[[Sequence[int]], Sequence[str]]
"""What a person reads for each id of the output."""

PARTS = ("self", "cross", "feed_forward")
"""The sub-layers of a layer, in the order they run."""


@dataclass(frozen=True, eq=False)
class SubLayer:
    """One sub-layer of a run: the state that reached it, what it found, and what stands around it.

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

    It shares the model's weights, and its hooks stand on a twin: runs of other threads do not meet in it.

    Raises:
        InputError: a sentence has no token; or the first layer reads more than embedding and positions.
    """

    def __init__(self, model: Model, source: Sentence, target: Sentence | None, words: Words) -> None:
        if not source.ids or (target is not None and not target.ids):
            raise InputError("lesson_no_token")
        if isinstance(model, Encoder) and _reads_more(model):
            raise InputError("lesson_reads_more")
        shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
        self.model: Model = copy.deepcopy(model, shared)
        stack = "decoder" if isinstance(model, Decoder) else "encoder"
        self.sentences = {stack: source} if target is None else {"encoder": source, "decoder": target}
        self.words = words
        last = self.last
        watched: list[nn.Module] = [one for one in self.model.modules() if isinstance(one, (Residual, FeedForward))]
        watched += [one for block in self._blocks() for name, one in block.named_children() if "attention" in name]
        with torch.no_grad(), calls(*watched, *([] if last is None else [last])) as seen:
            ids = torch.tensor([source.ids])
            if not isinstance(self.model, Seq2Seq):
                self.model.outputs(ids)
            elif target is None:
                self.model.encode(ids)
            else:
                self.model(ids, torch.tensor([target.ids]))
        self._seen = seen

    @property
    def last(self) -> nn.Linear | None:
        """The linear map to the scores of words or classes; None for an encoder that ends with its states."""
        if not isinstance(self.model, Encoder):
            return self.model.projection
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
        return PARTS if stack == "decoder" and isinstance(self.model, Seq2Seq) else ("self", "feed_forward")

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
        block: EncoderBlock | DecoderBlock = getattr(self.model, stack)[layer]
        residual: Residual = getattr(block, f"{part}_residual")
        x, found = self._seen[residual]
        name = part if part == "feed_forward" else f"{part}_attention"
        module = getattr(block, name)
        return SubLayer(x[0], found[0], residual, lambda reads: self._again(module, part, reads))

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

    def _blocks(self) -> list[nn.Module]:
        return [block for stack in self.sentences for block in getattr(self.model, stack)]


def _reads_more(model: Encoder) -> bool:
    """Whether what the first layer reads is more than words, scaled alike, and their positions."""
    config = model.config
    return config.cls_id >= 0 and (config.scale_embedding or not config.cls_positioned)
