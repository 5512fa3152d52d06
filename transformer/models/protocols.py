"""What decoding, recording, runs and pages ask of a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer.sites import Site


@runtime_checkable
class Cache(Protocol):
    """What a model keeps of the rows that it decodes."""

    def reorder(self, rows: Int[Tensor, " row"]) -> None:
        """Keep `rows` of the batch, in that order; a row may be kept more than once."""


@runtime_checkable
class DecodingConfig(Protocol):
    """What decoding has to know of a model's config."""

    @property
    def pad_id(self) -> int:
        """Fills up short rows; -1 if no id does."""

    @property
    def bos_id(self) -> int:
        """Starts every target."""

    @property
    def eos_id(self) -> int:
        """Ends every target."""

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
    forward pass takes `shown`, which hides single positions from every attention.
    """

    translates: bool = False
    reads_windows: bool = False
    masks: bool = False
    hides: bool = False


@dataclass(frozen=True)
class Ends:
    """Where a model's tokens come in and go out.

    `embeddings` are the tables that are looked up, of the source and of the target (or of the one text), in the order
    in which a pass does it; `projection` is the module that reads each position's last state and makes scores of it.
    """

    embeddings: tuple[nn.Module, ...]
    projection: nn.Module


@runtime_checkable
class HasEnds(Protocol):
    """A model that says where its tokens come in and go out."""

    def ends(self) -> Ends:
        """The modules where tokens are embedded and scored."""
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


@runtime_checkable
class Attending(Protocol):
    """A model of another library that tells inside which of its modules attention runs."""

    def __call__(self, *inputs: Tensor) -> Tensor:
        """A pass through the model."""
        ...

    def attending(self) -> Mapping[Site, nn.Module]:
        """The modules whose attention is recorded as it runs, by site; none where only its weights are given away."""
        ...
