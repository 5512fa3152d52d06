"""A decoder alone, told as what it is asked for: ids in, scores of the token after each position out."""

from typing import ClassVar

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer.layers.attention import DotProductAttention
from transformer.models.encoder import Encoder
from transformer.models.protocols import Ends
from transformer.sites import Site


class TextScores(nn.Module):
    """The scores that an encoder gives that sees nothing ahead and has a head for each position; weights are shared.

    `encoder.continues` holds.
    """

    abilities: ClassVar = Encoder.abilities

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(
        self, ids: Int[Tensor, "batch position"], shown: Bool[Tensor, "batch position"] | None = None
    ) -> Float[Tensor, "batch position vocab"]:
        """Logits of the token after each position. Where `shown` is False, no attention sees that position."""
        return self.encoder.logits(self.encoder(ids, shown), ids)

    def ends(self) -> Ends:
        """The modules where tokens are embedded and scored."""
        return Ends((self.encoder.embedding,), self.encoder.head[-1])

    def attention_sites(self) -> dict[Site, DotProductAttention]:
        """Every attention core by its site, in the order they run."""
        return self.encoder.attention_sites()


def scores_of(model: nn.Module) -> TextScores | None:
    """A model's scores of what comes next; None where it gives none, or gives them itself."""
    return TextScores(model) if isinstance(model, Encoder) and model.continues else None
