"""The Vision Transformer: patches of a picture are the tokens of an encoder.

Source: Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words"; a distillation token: Touvron et al. 2021; registers:
Darcet et al. 2024.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
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

CLASS, DISTILLATION, REGISTER = "[CLS]", "[DIST]", "[REG{}]"
"""What the tokens before the patches are called."""

MOST_PATCHES = 16_384
"""Patches of a picture: the same as the tokens of a text."""


@dataclass(frozen=True)
class VisionConfig(StackConfig):
    """Everything that tells one Vision Transformer from another.

    `patch` and `grid` are (rows, columns): pixels of a patch, patches of a picture. Before the patches stand a class
    token, a distillation token and registers, in that order, those that there are. `placed` says which of these get a
    position beside the patches: `all`, the `class` token alone, or `none`. `norm_after_embedding` stands before the
    first layer, `norm_after_stack` after the last, `head_norm` after the states were read. The head reads the `first`
    token or the `mean` of the patches; its maps have the widths `head`, with a tanh between them. `distilled_head`: a
    second map reads the distillation token, and the answer is the mean of both. Pixels are (value - `mean`) /
    `deviation`, a number a channel; `crop` is the share of the shorter side that is kept, around the centre.
    `gain` multiplies what each sub-layer adds, dimension by dimension.

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
    gain: bool = False
    class_token: bool = True
    distillation_token: bool = False
    n_registers: int = 0
    placed: str = "all"
    norm_after_embedding: bool = False
    norm_after_stack: bool = True
    head: Sequence[int] = ()
    head_reads: str = "first"
    head_norm: bool = False
    distilled_head: bool = False
    mean: Sequence[float] = (0.5, 0.5, 0.5)
    deviation: Sequence[float] = (0.5, 0.5, 0.5)
    crop: float = 1.0

    def __post_init__(self) -> None:
        for name in ("patch", "grid", "head", "mean", "deviation"):
            object.__setattr__(self, name, tuple(getattr(self, name)))  # JSON brings lists
        at_least(self, 1, "d_model", "n_heads", "d_ff", "n_layers")
        at_least(self, 0, "n_registers")
        one_of(self, "activation", tuple(ACTIVATIONS))
        one_of(self, "placed", ("all", "class", "none"))
        one_of(self, "head_reads", ("first", "mean"))
        probability(self, "dropout", "attention_dropout")
        heads_fit(self.d_model, self.n_heads)
        for name in ("patch", "grid"):
            if len(getattr(self, name)) != 2 or min(getattr(self, name)) < 1:
                raise ConfigError("picture_sides", name=name, value=str(getattr(self, name)))
        if self.n_channels not in {1, 3}:
            raise ConfigError("picture_channels", count=self.n_channels)
        if self.n_patches > MOST_PATCHES:
            raise ConfigError("picture_patches", count=self.n_patches, most=MOST_PATCHES)
        if any(width < 1 for width in self.head):
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
        named = [(CLASS, self.class_token), (DISTILLATION, self.distillation_token)]
        registers = (REGISTER.format(i + 1) for i in range(self.n_registers))
        return (*(name for name, there in named if there), *registers)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The names of all positions: `r3c5` is the patch in the third row and the fifth column, counted from 1."""
        rows, columns = self.grid
        return (*self.leading, *(f"r{row + 1}c{column + 1}" for row in range(rows) for column in range(columns)))

    @property
    def max_length(self) -> int:
        """Positions that the model reads: always as many."""
        return len(self.leading) + self.n_patches

    @property
    def n_placed(self) -> int:
        """How many of the tokens before the patches have a position; the first ones."""
        return {"all": len(self.leading), "class": int(self.class_token), "none": 0}[self.placed]


class VisionTransformer(nn.Module):
    """Every patch reads every other, layer by layer; then one token, or the mean of all patches, says what it is."""

    architecture: ClassVar = "vision"
    abilities: ClassVar = Abilities(reads_pictures=True)

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        patch = (config.patch[0], config.patch[1])
        self.patches = nn.Conv2d(config.n_channels, config.d_model, patch, stride=patch)
        self.leading = nn.Parameter(torch.zeros(len(config.leading), config.d_model))
        self.positions = nn.Parameter(torch.zeros(config.n_placed + config.n_patches, config.d_model))
        self.embedding_norm = self._norm(config.norm_after_embedding)
        self.dropout = nn.Dropout(config.dropout)
        blocks = nn.ModuleList(EncoderBlock(config.block) for _ in range(config.n_layers))
        self.encoder = cast(Sequence[EncoderBlock], blocks)
        self.encoder_norm = self._norm(config.norm_after_stack)
        self.head_norm = self._norm(config.head_norm)
        widths = (config.d_model, *config.head)
        self.head = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
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
        n_leading, n_placed = len(self.config.leading), self.config.n_placed
        leading = self.leading.expand(len(x), -1, -1)
        placed = torch.cat([leading[:, :n_placed], x], dim=1) + self.positions
        x = torch.cat([placed[:, :n_placed], leading[:, n_placed:n_leading], placed[:, n_placed:]], dim=1)
        return self.dropout(self.embedding_norm(x)), Mask()

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
        n_leading = len(self.config.leading)
        found = self.head_norm(hidden[:, n_leading:].mean(1) if self.config.head_reads == "mean" else hidden[:, 0])
        for i, linear in enumerate(self.head):
            found = linear(found.tanh() if i else found)
        if self.distilled_head is None:
            return cast(Tensor, found)
        return cast(Tensor, (found + self.distilled_head(self.head_norm(hidden[:, 1]))) / 2)

    def attention_sites(self) -> dict[Site, DotProductAttention]:
        """Every attention core by its site, in the order they run."""
        return {Site.of("encoder", i, "self"): block.self_attention.core for i, block in enumerate(self.encoder)}

    def _norm(self, there: bool) -> nn.Module:
        return nn.LayerNorm(self.config.d_model, eps=self.config.norm_eps) if there else nn.Identity()
