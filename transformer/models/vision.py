"""The Vision Transformer: patches of a picture are the tokens of an encoder.

Source: Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words"; a distillation token: Touvron et al. 2021.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.errors import ConfigError, InputError
from transformer.layers.attention import DotProductAttention
from transformer.layers.blocks import ACTIVATIONS, EncoderBlock
from transformer.layers.masks import Mask
from transformer.models.common import at_least, heads_fit, one_of, probability
from transformer.models.protocols import Abilities
from transformer.models.stacks import StackConfig
from transformer.sites import Site

CLASS, DISTILLATION = "[CLS]", "[DIST]"
"""What the tokens before the patches are called."""

MOST_PATCHES = 16_384
"""Patches of a picture: the same as the tokens of a text."""


@dataclass(frozen=True)
class VisionConfig(StackConfig):
    """Everything that tells one Vision Transformer from another.

    `patch` and `grid` are (rows, columns): pixels of a patch, patches of a picture. Before the patches stands a class
    token, and a distillation token where there is one. The head reads the class token and has the width `head`.
    `distilled_head`: a second map reads the distillation token, and the answer is the mean of both. Pixels are
    (value - `mean`) / `deviation`, a number a channel; `crop` is the share of the shorter side that is kept, around the
    centre.

    Raises:
        ConfigError: sizes that do not fit together, or an option that is not known.
    """

    patch: Sequence[int]
    grid: Sequence[int]
    n_channels: int = 3
    d_model: int = 768
    n_heads: int = 12
    d_ff: int = 3072
    n_layers: int = 12
    dropout: float = 0.0
    attention_dropout: float = 0.0
    norm_eps: float = 1e-6
    norm_first: bool = True
    activation: str = "gelu"
    distillation_token: bool = False
    head: Sequence[int] = ()
    distilled_head: bool = False
    mean: Sequence[float] = (0.5, 0.5, 0.5)
    deviation: Sequence[float] = (0.5, 0.5, 0.5)
    crop: float = 1.0

    def __post_init__(self) -> None:
        for name in ("patch", "grid", "head", "mean", "deviation"):
            object.__setattr__(self, name, tuple(getattr(self, name)))  # JSON brings lists
        at_least(self, 1, "d_model", "n_heads", "d_ff", "n_layers")
        one_of(self, "activation", tuple(ACTIVATIONS))
        probability(self, "dropout", "attention_dropout")
        heads_fit(self.d_model, self.n_heads)
        for name in ("patch", "grid"):
            if len(getattr(self, name)) != 2 or min(getattr(self, name)) < 1:
                raise ConfigError("picture_sides", name=name, value=str(getattr(self, name)))
        if self.n_channels not in {1, 3}:
            raise ConfigError("picture_channels", count=self.n_channels)
        if self.n_patches > MOST_PATCHES:
            raise ConfigError("picture_patches", count=self.n_patches, most=MOST_PATCHES)
        if len(self.head) > 1 or any(width < 1 for width in self.head):
            raise ConfigError("head_widths", head=str(self.head))

    @property
    def n_patches(self) -> int:
        """Patches of a picture."""
        return self.grid[0] * self.grid[1]

    @property
    def picture(self) -> tuple[int, int]:
        """Rows and columns of pixels that the model reads."""
        return self.patch[0] * self.grid[0], self.patch[1] * self.grid[1]

    @property
    def leading(self) -> tuple[str, ...]:
        """The names of the tokens before the patches."""
        return (CLASS, DISTILLATION) if self.distillation_token else (CLASS,)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The names of all positions: `r3c5` is the patch in the third row and the fifth column, counted from 1."""
        rows, columns = self.grid
        return (*self.leading, *(f"r{row + 1}c{column + 1}" for row in range(rows) for column in range(columns)))

    @property
    def max_length(self) -> int:
        """Positions that the model reads: always as many."""
        return len(self.leading) + self.n_patches


class VisionTransformer(nn.Module):
    """Every patch reads every other, layer by layer; then the class token says what it is."""

    architecture: ClassVar = "vision"
    abilities: ClassVar = Abilities(reads_pictures=True)

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        patch = (config.patch[0], config.patch[1])
        self.patches = nn.Conv2d(config.n_channels, config.d_model, patch, stride=patch)
        self.leading = nn.Parameter(torch.zeros(len(config.leading), config.d_model))
        self.positions = nn.Parameter(torch.zeros(config.max_length, config.d_model))
        self.dropout = nn.Dropout(config.dropout)
        blocks = nn.ModuleList(EncoderBlock(config.block) for _ in range(config.n_layers))
        self.encoder = cast(Sequence[EncoderBlock], blocks)
        self.encoder_norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
        self.head = nn.ModuleList(nn.Linear(config.d_model, width) for width in config.head)
        self.distilled_head = nn.Linear(config.d_model, config.head[-1]) if config.distilled_head else None

    def forward(self, pixels: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch position d_model"]:
        """What each token holds after the last layer and its norm."""
        x, mask = self.encoder_inputs(pixels)
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x)

    def encoder_inputs(
        self, pixels: Float[Tensor, "batch channel height width"]
    ) -> tuple[Float[Tensor, "batch position d_model"], Mask]:
        """What the first layer reads, a vector a token; all see all."""
        x = self.patches(pixels).flatten(2).transpose(1, 2)
        x = torch.cat([self.leading.expand(len(x), -1, -1), x], dim=1) + self.positions
        return self.dropout(x), Mask()

    def outputs(self, pixels: Float[Tensor, "batch channel height width"]) -> dict[str, Tensor]:
        """`hidden` (batch, position, d_model): the states after the last layer; with a head, `logits` (batch, class).

        Raises:
            InputError: the pictures are of another size.
        """
        needed = (self.config.n_channels, *self.config.picture)
        if tuple(pixels.shape[1:]) != needed:
            raise InputError("picture_of_other_size", found=str(tuple(pixels.shape[1:])), needed=str(needed))
        hidden = self(pixels.to(self.positions.dtype))
        return {"hidden": hidden, "logits": self.logits(hidden)} if self.config.head else {"hidden": hidden}

    def logits(self, hidden: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch class"]:
        """What the head makes of the states."""
        found: Tensor = self.head[0](hidden[:, 0])
        return found if self.distilled_head is None else (found + self.distilled_head(hidden[:, 1])) / 2

    def attention_sites(self) -> dict[Site, DotProductAttention]:
        """Every attention core by its site, in the order they run."""
        return {Site.of("encoder", i, "self"): block.self_attention.core for i, block in enumerate(self.encoder)}
