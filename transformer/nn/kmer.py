"""The k-mer classifier: windows of a sequence attend to each other, then decide together.

Embedded letters pass convolutions of several widths; their windows are the positions of a Transformer encoder; a
pooled vector goes through a small classifier. Windows of all widths stand one after the other along the length: widths
3 and 4 over 10 letters give 8 + 7 = 15. Related: He et al. 2023, "Nucleic Transformer".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import ConfigError, InputError
from ..sites import Site
from . import masks
from .attention import DotProductAttention
from .blocks import BlockConfig, EncoderBlock, StackConfig, Stacks, stacked
from .common import check_ids
from .fused import Linear
from .masks import Mask
from .positions import PositionConfig, Positions
from .protocols import Abilities

Letters = Int[Tensor, "batch letter"]
Shown = Bool[Tensor, "batch letter"] | None
LetterStates = Float[Tensor, "batch letter d_model"]
WindowStates = Float[Tensor, "batch window d_model"]
Logits = Float[Tensor, "batch classes"]


class Window(NamedTuple):
    """The letters `start` to `start + width - 1` (0-based) that one position of the encoder stands for."""

    start: int
    width: int


def windows(length: int, widths: Sequence[int]) -> list[Window]:
    """The windows over `length` letters, in the order of the encoder's positions: by width, then by start.

    Raises:
        InputError: the sequence is shorter than the widest window.
    """
    if length < max(widths):
        raise InputError("letters_few", found=length, needed=max(widths))
    return [Window(start, width) for width in widths for start in range(length - width + 1)]


class KmerConvolutions(nn.Module):
    """One convolution a width over the embedded letters, the results side by side, then a norm."""

    def __init__(self, d_model: int, widths: Sequence[int], norm_eps: float) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv1d(d_model, d_model, width) for width in widths)
        self.norm = nn.LayerNorm(d_model, eps=norm_eps)

    def forward(self, x: LetterStates) -> WindowStates:
        """One vector for each window."""
        letters = x.transpose(1, 2)
        return self.norm(torch.cat([convolve(letters) for convolve in self.convolutions], dim=2).transpose(1, 2))

    def along(
        self, x: Float[Tensor, "1 letter d_model"], added: Float[Tensor, "1 place d_model"], starts: Int[Tensor, " row"]
    ) -> Float[Tensor, "row window d_model"]:
        """`forward` of the letters from each of `starts` on, plus what is `added` to each place of such a stretch."""
        parts = []
        for convolve in self.convolutions:
            places = convolve(added.transpose(1, 2))[0].T
            rows = starts[:, None] + torch.arange(len(places), device=starts.device)
            kernel = cast("Tensor", convolve.weight)
            parts.append(F.embedding(rows, F.conv1d(x.transpose(1, 2), kernel)[0].T) + places)  # faster than an index
        return self.norm(torch.cat(parts, dim=1))


def whole_windows(real: Bool[Tensor, "batch letter"], widths: Sequence[int]) -> Bool[Tensor, "batch window"]:
    """True for windows that hold no padding."""
    return torch.cat([real.unfold(1, width, 1).all(-1) for width in widths], dim=1)


class MeanPooling(nn.Module):
    """The average over real windows; each counts the same."""

    def forward(self, x: WindowStates, mask: Mask) -> Float[Tensor, "batch d_model"]:
        """One vector a sequence."""
        if mask.keys is None:
            return x.mean(1)
        share = mask.keys.to(x.dtype) / mask.keys.sum(1, keepdim=True).clamp(min=1)
        return (x * share[:, :, None]).sum(1)


class AttentionPooling(nn.Module):
    """Weighted averages over windows: each head attends to them with learned queries (the weights of each sum to 1)."""

    def __init__(self, d_model: int, n_heads: int, n_questions: int = 1) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.question = nn.Parameter(torch.empty(n_heads, n_questions, d_model // n_heads))
        nn.init.normal_(self.question)
        self.key = Linear(d_model, d_model)
        self.core = DotProductAttention(d_model // n_heads)

    def forward(self, x: WindowStates, mask: Mask) -> Float[Tensor, "batch pooled"]:
        """One vector a sequence: each head's share of the features, averaged by each of that head's queries."""
        keys, values = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in (self.key(x), x))
        return self.core(self.question.expand(len(x), -1, -1, -1), keys, values, mask).flatten(1)


@dataclass(frozen=True, kw_only=True)
class KmerConfig(StackConfig):
    """Everything that tells one k-mer classifier from another; the defaults are the published form.

    Positions are added to letters, before the convolutions. `n_questions` is how many averages attention pools, side
    by side, where `pooling` is `attention`. `positions`: `doubled` is the table of the published code, whose exponent
    is doubled by a bug. `d_hidden` is the width of the small classifier's hidden layer; 0 says d_model.
    """

    vocab: int
    n_classes: int
    block: BlockConfig = BlockConfig(d_model=256)
    positions: PositionConfig = PositionConfig(kind="doubled", max_length=200)
    n_layers: int = 2
    widths: Sequence[int] = (3, 4)
    norm_after_stack: bool = True
    scale_embedding: bool = True
    pooling: str = "mean"
    n_questions: int = 1
    d_hidden: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", tuple(self.widths))  # JSON brings a list
        self.at_least(1, "vocab", "n_classes", "n_layers", "n_questions")
        if not self.widths or min(self.widths) < 1:
            raise ConfigError("window_widths", widths=str(self.widths))
        self.positions.one_of("kind", ("doubled", "sinusoidal", "learned", "stored"))
        self.one_of("pooling", ("mean", "attention"))
        self.at_least(0, "d_hidden")
        if self.block.d_model % self.block.attention.n_heads:
            sizes = {"d_model": self.block.d_model, "n_heads": self.block.attention.n_heads}
            raise ConfigError("heads_do_not_divide", **sizes)


class KmerClassifier(Stacks):
    """Read a sequence of letters and say which class it belongs to."""

    architecture: ClassVar = "kmer"
    abilities: ClassVar = Abilities(reads_windows=True, hides=True, blocks=True)

    def __init__(self, config: KmerConfig) -> None:
        super().__init__()
        self.config = config
        block, d_model = config.block, config.block.d_model
        self.embedding = nn.Embedding(config.vocab, d_model)
        self.positions = Positions(config.positions, d_model)
        self.dropout = nn.Dropout(block.dropout)
        self.kmers = KmerConvolutions(d_model, config.widths, block.norm_eps)
        self.encoder: Sequence[EncoderBlock] = stacked(EncoderBlock, block, config.n_layers)
        normed = config.norm_after_stack
        self.encoder_norm = nn.LayerNorm(d_model, eps=block.norm_eps) if normed else nn.Identity()
        attends = config.pooling == "attention"
        n_pooled = config.n_questions if attends else 1
        self.pooling = AttentionPooling(d_model, block.attention.n_heads, n_pooled) if attends else MeanPooling()
        d_hidden = config.d_hidden or d_model
        self.hidden = nn.Linear(n_pooled * d_model, d_hidden)
        self.classifier = nn.Linear(d_hidden, config.n_classes)

    def forward(self, letters: Letters, shown: Shown = None) -> Logits:
        """Logits of the classes. Where `shown` is False, neither attention nor pooling sees a window of that letter."""
        return self.decide(self.embedding(letters), self.mask(letters, shown))

    def decide(self, embedded: LetterStates, mask: Mask) -> Logits:
        """Logits from embedded letters, which may lie between letters (as integrated gradients ask)."""
        return self._decided(self._window_states(embedded), mask)

    def along(
        self, letters: Int[Tensor, " letter"], starts: Int[Tensor, " row"], length: int
    ) -> Float[Tensor, "row classes"]:
        """Logits of the `length` letters from each of `starts` on, as `forward` without dropout has them.

        Stretches that overlap share their convolutions: these are linear, so positions can be added behind them.
        """
        embedded = self.config.scaled(self.embedding(letters)[None])
        x = self.kmers.along(embedded, self.positions(embedded.new_zeros(1, length, embedded.shape[2])), starts)
        rows = letters[starts[:, None] + torch.arange(length, device=starts.device)]
        return self._decided(x, self.mask(rows))

    def _decided(self, x: WindowStates, mask: Mask) -> Logits:
        for block in self.encoder:
            x = block(x, mask)
        return self.logits(x, mask)

    def early_scores(self, state: WindowStates, source: Letters) -> Logits:
        """Logits, if this were the state after the last layer."""
        return self.logits(state, self.mask(source))

    def logits(self, states: WindowStates, mask: Mask) -> Logits:
        """What the norm, the pooling and the small classifier make of the windows' states."""
        return self.classifier(self.dropout(self.features(states, mask)))

    def features(self, states: WindowStates, mask: Mask) -> Float[Tensor, "batch d_hidden"]:
        """What the last layer decides by: the windows' states normed, pooled, and passed through the hidden layer."""
        return self.hidden(self.pooling(self.encoder_norm(states), mask)).relu()

    def encoder_inputs(self, letters: Letters, shown: Shown = None) -> tuple[WindowStates, Mask]:
        """What the first layer reads, a vector a window, and what all of them may see."""
        return self._window_states(self.embedding(letters)), self.mask(letters, shown)

    def outputs(self, letters: Letters) -> dict[str, Tensor]:
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

    def attention_sites(self) -> dict[Site, DotProductAttention]:
        """Every attention core by its site, in the order they run; positions are windows.

        `pooling`, where attention pools, has as many queries as it learned.
        """
        pooling = {Site("pooling"): self.pooling.core} if isinstance(self.pooling, AttentionPooling) else {}
        return super().attention_sites() | pooling

    def _window_states(self, embedded: LetterStates) -> WindowStates:
        """Embedded letters with positions, gathered to windows."""
        return self.kmers(self.dropout(self.positions(self.config.scaled(embedded))))

    def mask(self, letters: Letters, shown: Shown = None) -> Mask:
        """Hide windows that touch padding, or a letter that is not shown."""
        mask = masks.padding(letters, self.config.pad_id, shown)
        return mask if mask.keys is None else replace(mask, keys=whole_windows(mask.keys, self.config.widths))
