"""The k-mer classifier: windows of a sequence attend to each other, then decide together.

Embedded letters pass convolutions of several widths; their windows are the positions of a Transformer encoder; a
pooled vector goes through a small classifier. Related: He et al. 2023, "Nucleic Transformer".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer.errors import ConfigError
from transformer.nn import masks
from transformer.nn.attention import DotProductAttention
from transformer.nn.blocks import EncoderBlock
from transformer.nn.common import at_least, check_ids, one_of
from transformer.nn.kmers import AttentionPooling, KmerConvolutions, MeanPooling, Window, whole_windows, windows
from transformer.nn.masks import Mask
from transformer.nn.positions import positions
from transformer.nn.protocols import Abilities, TextStack
from transformer.nn.stacks import StackConfig
from transformer.sites import Site


@dataclass(frozen=True, kw_only=True)
class KmerConfig(StackConfig):
    """Everything that tells one k-mer classifier from another; the defaults are the published form.

    Positions are added to letters, before the convolutions. `n_questions` is how many averages attention pools, side
    by side, where `pooling` is `attention`. `positions`: `doubled` is the table of the published code, whose exponent
    is doubled by a bug. `d_hidden` is the width of the small classifier's hidden layer; 0 says d_model.
    """

    vocab: int
    n_classes: int
    d_model: int = 256
    n_layers: int = 2
    widths: Sequence[int] = (3, 4)
    norm_after_stack: bool = True
    positions: str = "doubled"
    max_length: int = 200
    scale_embedding: bool = True
    pooling: str = "mean"
    n_questions: int = 1
    d_hidden: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "widths", tuple(self.widths))  # JSON brings a list
        at_least(self, 1, "vocab", "n_classes", "n_layers", "n_questions")
        if not self.widths or min(self.widths) < 1:
            raise ConfigError("window_widths", widths=str(self.widths))
        one_of(self, "positions", ("doubled", "sinusoidal", "learned", "stored"))
        one_of(self, "pooling", ("mean", "attention"))
        at_least(self, 0, "d_hidden")
        if self.d_model % self.n_heads:
            raise ConfigError("heads_do_not_divide", d_model=self.d_model, n_heads=self.n_heads)


class KmerClassifier(nn.Module):
    """Read a sequence of letters and say which class it belongs to."""

    architecture: ClassVar = "kmer"
    abilities: ClassVar = Abilities(reads_windows=True, hides=True)

    def __init__(self, config: KmerConfig) -> None:
        super().__init__()
        self.config = config
        d_model = config.d_model
        self.embedding = nn.Embedding(config.vocab, d_model)
        self.positions = positions(config.positions, d_model, config.max_length)
        self.dropout = nn.Dropout(config.dropout)
        self.kmers = KmerConvolutions(d_model, config.widths, config.norm_eps)
        blocks = nn.ModuleList(EncoderBlock(config) for _ in range(config.n_layers))
        self.encoder = cast(Sequence[EncoderBlock], blocks)
        norm_at_end = config.norm_after_stack
        self.encoder_norm = nn.LayerNorm(d_model, eps=config.norm_eps) if norm_at_end else nn.Identity()
        attends = config.pooling == "attention"
        n_pooled = config.n_questions if attends else 1
        self.pooling = AttentionPooling(d_model, config.n_heads, n_pooled) if attends else MeanPooling()
        d_hidden = config.d_hidden or d_model
        self.hidden = nn.Linear(n_pooled * d_model, d_hidden)
        self.classifier = nn.Linear(d_hidden, config.n_classes)

    def forward(
        self, letters: Int[Tensor, "batch letter"], shown: Bool[Tensor, "batch letter"] | None = None
    ) -> Float[Tensor, "batch classes"]:
        """Logits of the classes. Where `shown` is False, neither attention nor pooling sees a window of that letter."""
        return self.decide(self.embedding(letters), self.mask(letters, shown))

    def decide(self, embedded: Float[Tensor, "batch letter d_model"], mask: Mask) -> Float[Tensor, "batch classes"]:
        """Logits from embedded letters, which may lie between letters (as integrated gradients ask)."""
        return self._decided(self._window_states(embedded), mask)

    def along(
        self, letters: Int[Tensor, " letter"], starts: Int[Tensor, " row"], length: int
    ) -> Float[Tensor, "row classes"]:
        """Logits of the `length` letters from each of `starts` on, as `forward` without dropout has them.

        Stretches that overlap share their convolutions: these are linear, so positions can be added behind them.
        """
        d_model = self.config.d_model
        embedded = self.embedding(letters)[None] * (d_model**0.5 if self.config.scale_embedding else 1.0)
        x = self.kmers.along(embedded, self.positions(embedded.new_zeros(1, length, d_model)), starts)
        rows = letters[starts[:, None] + torch.arange(length, device=starts.device)]
        return self._decided(x, self.mask(rows))

    def _decided(self, x: Float[Tensor, "batch window d_model"], mask: Mask) -> Float[Tensor, "batch classes"]:
        for block in self.encoder:
            x = block(x, mask)
        return self.logits(x, mask)

    def logits(self, states: Float[Tensor, "batch window d_model"], mask: Mask) -> Float[Tensor, "batch classes"]:
        """What the norm, the pooling and the small classifier make of the windows' states."""
        return self.classifier(self.dropout(self.features(states, mask)))

    def features(self, states: Float[Tensor, "batch window d_model"], mask: Mask) -> Float[Tensor, "batch d_hidden"]:
        """What the last layer decides by: the windows' states normed, pooled, and passed through the hidden layer."""
        return self.hidden(self.pooling(self.encoder_norm(states), mask)).relu()

    def encoder_inputs(
        self, letters: Int[Tensor, "batch letter"], shown: Bool[Tensor, "batch letter"] | None = None
    ) -> tuple[Float[Tensor, "batch window d_model"], Mask]:
        """What the first layer reads, a vector a window, and what all of them may see."""
        return self._window_states(self.embedding(letters)), self.mask(letters, shown)

    def outputs(self, letters: Int[Tensor, "batch letter"]) -> dict[str, Tensor]:
        """`logits` (batch, classes).

        Raises:
            InputError: an id that the vocabulary lacks, or a sequence that is too short or too long.
        """
        check_ids("inputs", letters, self.config.vocab)
        self.windows(letters.shape[1])
        return {"logits": self(letters)}

    def windows(self, length: int) -> list[Window]:
        """The windows over `length` letters that the positions of its attention stand for, in their order.

        Raises:
            InputError: the sequence is shorter than the widest window.
        """
        return windows(length, self.config.widths)

    def text_stack(self, letters: Int[Tensor, "batch letter"]) -> TextStack:
        """All of its layers, which read windows."""
        return TextStack("encoder", self.encoder, *self.encoder_inputs(letters))

    def attention_sites(self) -> dict[Site, DotProductAttention]:
        """Every attention core by its site, in the order they run; positions are windows.

        `pooling`, where attention pools, has as many queries as it learned.
        """
        sites = {Site.of("encoder", i, "self"): block.self_attention.core for i, block in enumerate(self.encoder)}
        return sites | ({Site("pooling"): self.pooling.core} if isinstance(self.pooling, AttentionPooling) else {})

    def _window_states(self, embedded: Float[Tensor, "batch letter d_model"]) -> Float[Tensor, "batch window d_model"]:
        """Embedded letters with positions, gathered to windows."""
        x = embedded * self.config.d_model**0.5 if self.config.scale_embedding else embedded
        return self.kmers(self.dropout(self.positions(x)))

    def mask(self, letters: Int[Tensor, "batch letter"], shown: Bool[Tensor, "batch letter"] | None = None) -> Mask:
        """Hide windows that touch padding, or a letter that is not shown."""
        mask = masks.padding(letters, self.config.pad_id, shown)
        return mask if mask.keys is None else replace(mask, keys=whole_windows(mask.keys, self.config.widths))
