"""What decoding, recording, runs and pages ask of a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer.nn.blocks import DecoderBlock, EncoderBlock
from transformer.nn.masks import Mask
from transformer.sites import Site
from transformer.text.base import SpecialTokens


@runtime_checkable
class Cache(Protocol):
    """What a model keeps of the rows that it decodes."""

    def reorder(self, rows: Int[Tensor, " row"]) -> None:
        """Keep `rows` of the batch, in that order; a row may be kept more than once."""


@runtime_checkable
class DecodingConfig(SpecialTokens, Protocol):
    """What decoding has to know of a model's config."""

    @property
    def max_length(self) -> int:
        """Most positions that the model is made to read or write."""


C = TypeVar("C", bound=Cache)


@runtime_checkable
class Stepwise(Protocol[C]):
    """What can be read token by token."""

    def start(self, source: Int[Tensor, "batch source"]) -> C:
        """Read the sources and stand before the first target token."""

    def step(self, new: Int[Tensor, "batch new"], cache: C) -> Float[Tensor, "batch vocab"]:
        """Logits of the token after `new`, which continue what `cache` holds; the cache grows by them."""


@runtime_checkable
class Decodable(Stepwise[C], Protocol[C]):
    """What decoding needs of a model (in evaluation mode)."""

    @property
    def config(self) -> DecodingConfig:
        """Its special ids and its length."""

    def __call__(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target vocab"]:
        """Logits of the token after each target position (teacher forcing)."""


def written_pad(config: DecodingConfig) -> int:
    """The padding id of targets, which some models pad with another id than sources."""
    found: int = getattr(config, "written_pad_id", config.pad_id)
    return found


def written_length(config: DecodingConfig) -> int:
    """Most positions of a target, which some models have other tables for than for sources."""
    found: int = getattr(config, "written_length", config.max_length)
    return found


@dataclass(frozen=True)
class Abilities:
    """What the models of one class can do, said once by that class.

    `translates`: they read a source and write a target. `reads_windows`: the positions of their attention are windows
    of letters. `masks`: their masks are made by our layers, so that a test knows what they have to hide. `hides`: their
    forward pass takes `shown`, which hides single positions from every attention. `recurrent`: their layers run one
    position after another.
    """

    translates: bool = False
    reads_windows: bool = False
    masks: bool = False
    hides: bool = False
    recurrent: bool = False


@dataclass(frozen=True)
class TokenInterface:
    """The embedding tables and the output projection.

    `embeddings` are the tables that are looked up, of the source and of the target (or of the one text), in the order
    in which a pass does it; `projection` is the module that reads each position's last state and makes scores of it.
    """

    embeddings: tuple[nn.Module, ...]
    projection: nn.Module


@runtime_checkable
class HasTokenInterface(Protocol):
    """A model that says where its tokens are embedded and scored."""

    def token_interface(self) -> TokenInterface:
        """The modules where tokens are embedded and scored."""
        ...


class TextStack(NamedTuple):
    """The blocks that read a text: the `name` of their sites, what the first one reads, and what all may see."""

    name: str
    blocks: Sequence[EncoderBlock]
    x: Float[Tensor, "batch position d_model"]
    mask: Mask


@runtime_checkable
class HasTextStack(Protocol):
    """A model whose text (of an encoder-decoder: whose source) is read by a stack of this library's blocks."""

    def text_stack(self, ids: Int[Tensor, "batch token"]) -> TextStack:
        """The stack, and what it is about to read."""
        ...


@runtime_checkable
class HasPairStacks(HasTextStack, Protocol):
    """An encoder-decoder of this library's blocks."""

    decoder: Sequence[DecoderBlock]

    def encode(self, source: Int[Tensor, "batch source"]) -> tuple[Float[Tensor, "batch source d_model"], Mask]:
        """What the decoder reads of the source, and which of its positions it may see."""
        ...

    def decoder_inputs(self, target: Int[Tensor, "batch target"]) -> tuple[Float[Tensor, "batch target d_model"], Mask]:
        """What the first layer of the decoder reads of a target, and what each position may see of it."""
        ...


@runtime_checkable
class HasHiddenStates(Protocol):
    """A model that tells what its output projection reads, so that only some positions need to be scored."""

    def hidden(self, *inputs: Tensor | None) -> Float[Tensor, "batch target d_model"]:
        """What the projection reads at each target position (teacher forcing)."""
        ...

    def logits(self, hidden: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position vocab"]:
        """Scores of the vocabulary."""
        ...


@runtime_checkable
class Continuing(Protocol[C]):
    """A model that may score what comes next in the text that it reads, token by token."""

    @property
    def continues(self) -> bool:
        """Whether it does: it sees nothing ahead, and scores its whole vocabulary after each token."""
        ...

    def begin(self) -> C:
        """Stand before the first token of a text."""
        ...

    def read_on(self, new: Int[Tensor, "batch new"], cache: C) -> Float[Tensor, "batch vocab"]:
        """Logits of the token after `new`, which continue what `cache` holds; the cache grows by them."""
        ...


@runtime_checkable
class Watchable(Protocol):
    """A model that names its attention."""

    def attention_sites(self) -> Mapping[Site, nn.Module]:
        """Every attention module by its site, in the order they run."""
        ...
