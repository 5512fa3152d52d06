"""The encoder-decoder Transformer, one definition for every known dialect.

Source: Vaswani et al. 2017. Dialects: The Annotated Transformer; jadore801120/attention-is-all-you-need-pytorch;
torch.nn.Transformer. They differ by configuration only (see the presets at the end).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..errors import ConfigError
from . import masks
from .attention import KeysValues
from .blocks import BlockCache, DecoderBlock, EncoderBlock, StackConfig, Stacks, stacked
from .common import changed_context, pair_outputs
from .masks import Mask
from .positions import Positions
from .protocols import Abilities, TokenInterface

Source = Int[Tensor, "batch source"]
Target = Int[Tensor, "batch target"]
ShownSource = Bool[Tensor, "batch source"] | None
ShownTarget = Bool[Tensor, "batch target"] | None
Memory = Float[Tensor, "batch source d_model"]
TargetStates = Float[Tensor, "batch target d_model"]


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(StackConfig):
    """Everything that tells one encoder-decoder Transformer from another.

    `projection_scale` multiplies the logits. The target's table of positions has `target_length` rows where it is
    longer or shorter (0 stands for `max_length`). `target_pad_id` pads targets where `pad_id`, which pads sources, does
    not. Rows that see nothing get zeros, or are spread evenly over all keys with `spread_blind_rows` (models that hide
    with -1e9).
    """

    source_vocab: int
    target_vocab: int
    n_encoder_layers: int = 6
    n_decoder_layers: int = 6
    norm_after_embedding: bool = False
    scale_embedding: bool = True
    tie_embeddings: bool = False
    tie_projection: bool = False
    projection_bias: bool = False
    projection_scale: float = 1.0
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    target_pad_id: int | None = None
    target_length: int = 0
    spread_blind_rows: bool = False

    def __post_init__(self) -> None:
        self.at_least(1, "source_vocab", "target_vocab", "n_encoder_layers", "n_decoder_layers")
        self.at_least(0, "target_length")
        if self.tie_embeddings and self.source_vocab != self.target_vocab:
            raise ConfigError("two_vocabularies", source_vocab=self.source_vocab, target_vocab=self.target_vocab)

    @property
    def written_length(self) -> int:
        """Most positions of a target."""
        return self.target_length or self.positions.max_length

    @property
    def written_pad_id(self) -> int:
        """The padding id of targets."""
        return self.pad_id if self.target_pad_id is None else self.target_pad_id


@dataclass
class DecoderCache:
    """What stepwise decoding keeps between steps: per block the past and the source; and where the next token goes.

    `sources` says which source each row of the batch continues: hypotheses of one share its keys and values.
    """

    blocks: list[BlockCache]
    source_mask: Mask
    sources: list[int]
    length: int = 0

    def reorder(self, rows: Int[Tensor, " row"]) -> None:
        """Keep `rows` of the batch, in that order."""
        sources = [self.sources[row] for row in rows.tolist()]
        if sources != self.sources:  # not so for most steps of a beam: each row continues the source that stood there
            for block in self.blocks:
                cast(KeysValues, block.source).reorder(rows)
            if self.source_mask.keys is not None:
                self.source_mask = replace(self.source_mask, keys=self.source_mask.keys[rows])
            self.sources = sources
        for block in self.blocks:
            block.reorder(rows)


class Seq2Seq(Stacks):
    """Read a source, write a target: the Transformer of the paper, in the dialect that `config` describes."""

    architecture: ClassVar = "seq2seq"
    abilities: ClassVar = Abilities(translates=True, masks=True, hides=True, blocks=True)

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        block, d_model = config.block, config.block.d_model
        self.source_embedding = nn.Embedding(config.source_vocab, d_model)
        self.target_embedding = (
            self.source_embedding if config.tie_embeddings else nn.Embedding(config.target_vocab, d_model)
        )
        self.source_positions: nn.Module = Positions(config.positions, d_model)
        self.target_positions = Positions(config.positions, d_model, config.written_length)
        self.source_norm = block.new_norm() if config.norm_after_embedding else nn.Identity()
        self.target_norm = block.new_norm() if config.norm_after_embedding else nn.Identity()
        self.dropout = nn.Dropout(block.dropout)
        self.encoder: Sequence[EncoderBlock] = stacked(EncoderBlock, block, config.n_encoder_layers)
        self.encoder_norm = block.new_norm() if config.norm_after_stack else nn.Identity()
        self.decoder: Sequence[DecoderBlock] = stacked(DecoderBlock, block, config.n_decoder_layers)
        self.decoder_norm = block.new_norm() if config.norm_after_stack else nn.Identity()
        self.projection = nn.Linear(d_model, config.target_vocab, bias=config.projection_bias)
        if config.tie_projection:
            self.projection.weight = self.target_embedding.weight
        self._initialise()

    def forward(
        self, source: Source, target: Target, shown: ShownSource = None, shown_target: ShownTarget = None
    ) -> Float[Tensor, "batch target vocab"]:
        """Logits of the token after each target position, given the target up to there (teacher forcing).

        Where `shown` (`shown_target`) is False, no attention sees that position of the source (of the target).
        """
        return self.logits(self.hidden(source, target, shown, shown_target))

    def hidden(
        self, source: Source, target: Target, shown: ShownSource = None, shown_target: ShownTarget = None
    ) -> TargetStates:
        """What the projection to the vocabulary reads at each target position (teacher forcing)."""
        memory, source_mask = self.encode(source, shown)
        return self.decode(target, memory, source_mask, shown_target)

    def encode(self, source: Source, shown: ShownSource = None) -> tuple[Memory, Mask]:
        """What the decoder reads of the source, and which of its positions it and the encoder may see."""
        x, mask = self.encoder_inputs(source, shown)
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x), mask

    def encoder_inputs(self, source: Source, shown: ShownSource = None) -> tuple[Memory, Mask]:
        """What the first layer of the encoder reads, and what all of them may see."""
        x = self.source_positions(self.embed(self.source_embedding, source))
        return self.source_norm(self.dropout(x)), self._hiding(masks.padding(source, self.config.pad_id, shown), shown)

    def decode(self, target: Target, memory: Memory, source_mask: Mask, shown: ShownTarget = None) -> TargetStates:
        """Hidden states of a whole target; each position sees only itself, its past and the source."""
        x, mask = self.decoder_inputs(target, shown)
        for block in self.decoder:
            x = block(x, block.cross_attention.keys_values(memory), mask, source_mask)
        return self.decoder_norm(x)

    def decoder_inputs(self, target: Target, shown: ShownTarget = None) -> tuple[TargetStates, Mask]:
        """What the first layer of the decoder reads of a target, and what each position may see of it."""
        x = self.target_positions(self.embed(self.target_embedding, target))
        mask = masks.causal(target, self.config.written_pad_id, shown)
        return self.target_norm(self.dropout(x)), self._hiding(mask, shown)

    def logits(self, hidden: TargetStates) -> Float[Tensor, "batch target vocab"]:
        """Scores of every token of the target vocabulary, before the softmax."""
        logits = self.projection(hidden)
        return logits if self.config.projection_scale == 1.0 else logits * self.config.projection_scale

    def early_scores(self, state: TargetStates, source: Source) -> Float[Tensor, "batch target vocab"]:
        """Logits, if this were the state after the last layer."""
        return self.logits(self.decoder_norm(state))

    def start(self, source: Source) -> DecoderCache:
        """Encode the source and stand before the first target token: its keys and values, and no past."""
        memory, source_mask = self.encode(source)
        blocks = [BlockCache(source=block.cross_attention.keys_values(memory)) for block in self.decoder]
        return DecoderCache(blocks, source_mask, list(range(len(source))))

    def step(self, new: Int[Tensor, "batch new"], cache: DecoderCache) -> Float[Tensor, "batch vocab"]:
        """Logits of the token after `new`, which continue what `cache` holds; the cache grows by them."""
        x = self.target_positions(self.embed(self.target_embedding, new), start=cache.length)
        x = self.target_norm(self.dropout(x))
        with changed_context(position_offset=cache.length):
            for block, cached in zip(self.decoder, cache.blocks, strict=True):
                x = block(x, cast(KeysValues, cached.source), Mask(causal=True), cache.source_mask, cached)
        cache.length += new.shape[1]
        return self.logits(self.decoder_norm(x[:, -1:]))[:, 0]

    def outputs(self, source: Source, target: Target | None = None) -> dict[str, Tensor]:
        """See `pair_outputs`."""
        return pair_outputs(self, source, target)

    def token_interface(self) -> TokenInterface:
        """The modules where tokens are embedded and scored."""
        return TokenInterface((self.source_embedding, self.target_embedding), self.projection)

    def embed(self, table: nn.Embedding, ids: Int[Tensor, "batch position"]) -> Float[Tensor, "batch position d_model"]:
        """Rows of an embedding table, scaled as the config says; positions are not added yet."""
        return self.config.scaled(table(ids))

    def _hiding(self, mask: Mask, shown: Tensor | None) -> Mask:
        """The mask, which says what becomes of rows that see nothing: hidden on purpose, they see nothing at all."""
        return replace(mask, uniform_if_masked=True) if self.config.spread_blind_rows and shown is None else mask

    def _initialise(self) -> None:
        """Xavier for matrices, zero for biases; embeddings as wide as d_model^-0.5, since they are scaled up."""
        for name, parameter in self.named_parameters():
            if "embedding" in name or (self.config.tie_projection and name.startswith("projection.weight")):
                nn.init.normal_(parameter, std=self.config.block.d_model**-0.5)
            elif parameter.dim() > 1 and "positions" not in name:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)


_PRESETS: dict[str, dict[str, Any]] = {
    "annotated": dict(
        norm="annotated",
        norm_eps=1e-6,
        norm_first=True,
        norm_after_stack=True,
        projection_bias=True,
        spread_blind_rows=True,
    ),
    "jadore": dict(
        spread_blind_rows=True,
        norm_eps=1e-6,
        norm_after_embedding=True,
        attention_bias=False,
        scale_embedding=False,
        tie_embeddings=True,
        tie_projection=True,
    ),
    "torch": dict(norm_after_stack=True, projection_bias=True),
}


def preset(name: str, **sizes: Any) -> Seq2SeqConfig:
    """The config of a known dialect; `sizes` (vocabularies, widths, depths) and single options go on top.

    `annotated` is The Annotated Transformer; `jadore` is jadore801120/attention-is-all-you-need-pytorch with its
    default `scale_emb_or_prj="prj"`, so its logits are multiplied by d_model^-0.5; `torch` is a module around
    torch.nn.Transformer.

    Raises:
        ConfigError: no such preset, or sizes that do not fit together.
    """
    if name not in _PRESETS:
        raise ConfigError("not_one_of", name="preset", value=name, choices=tuple(_PRESETS))
    options = dict(_PRESETS[name], **sizes)
    if name == "jadore" and "projection_scale" not in sizes:
        projection_is_scaled = options["tie_projection"] and not options["scale_embedding"]
        options["projection_scale"] = options.get("d_model", 512) ** -0.5 if projection_is_scaled else 1.0
    return Seq2SeqConfig.of(**options)
