"""What decoding, recording, runs and pages ask of a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor, nn

from ..sites import Site


@runtime_checkable
class Decodable(Protocol):
    """What decoding needs of a model (in evaluation mode): it can be read whole, and token by token.

    A cache is what the model keeps of the rows that it decodes; its `reorder(rows)` keeps some, in another order.
    """

    @property
    def config(self) -> Any:
        """Its special ids and its length."""

    def __call__(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target vocab"]:
        """Logits of the token after each target position (teacher forcing)."""

    def start(self, source: Int[Tensor, "batch source"]) -> Any:
        """Read the sources and stand before the first target token; the cache of what was read."""

    def step(self, new: Int[Tensor, "batch new"], cache: Any) -> Float[Tensor, "batch vocab"]:
        """Logits of the token after `new`, which continue what `cache` holds; the cache grows by them."""


def written_pad(config: Any) -> int:
    """The padding id of targets, which some models pad with another id than sources."""
    found: int = getattr(config, "written_pad_id", config.pad_id)
    return found


def written_length(config: Any) -> int:
    """Most positions of a target, which some models have other tables for than for sources."""
    found: int = getattr(config, "written_length", config.max_length)
    return found


@dataclass(frozen=True)
class Abilities:
    """What the models of one class can do, said once by that class.

    `translates`: they read a source and write a target. `reads_windows`: the positions of their attention are windows
    of letters. `masks`: their masks are made by our layers, so that a test knows what they have to hide. `hides`: their
    forward pass takes `shown`, which hides single positions from every attention. `recurrent`: their layers run one
    position after another. `blocks`: their layers are blocks of this library, whose sub-layers can be followed.
    `continues`: they see nothing ahead and score their whole vocabulary after each token, so that `begin()` stands
    before the first token of a text and `read_on(new, cache)` gives the logits of the token after `new`. A model that
    scores tokens has a `token_interface`, one that scores states of any layer `early_scores`.
    """

    translates: bool = False
    reads_windows: bool = False
    masks: bool = False
    hides: bool = False
    recurrent: bool = False
    blocks: bool = False
    continues: bool = False


@dataclass(frozen=True)
class TokenInterface:
    """The embedding tables and the output projection.

    `embeddings` are the tables that are looked up, of the source and of the target (or of the one text), in the order
    in which a pass does it; `projection` is the module that reads each position's last state and makes scores of it.
    """

    embeddings: tuple[nn.Module, ...]
    projection: nn.Module


@runtime_checkable
class Watchable(Protocol):
    """A model that names its attention."""

    def attention_sites(self) -> Mapping[Site, nn.Module]:
        """Every attention module by its site, in the order they run."""
        ...
