"""Layers without what stands around them: vectors in, vectors out.

What people save of `torch.nn.Transformer`, of its decoder or of one attention has no embedding: what it reads was made
elsewhere. Here it reads rows of a table, by their numbers; or vectors that are given as they are.

Source: Vaswani et al. 2017, figures 1 and 2; torch.nn.Transformer, TransformerDecoder, MultiheadAttention.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.errors import ConfigError, InputError
from transformer.layers.attention import DotProductAttention, MultiHeadAttention
from transformer.layers.blocks import ACTIVATIONS, DecoderBlock, EncoderBlock
from transformer.layers.masks import Mask
from transformer.layers.norms import layer_norm
from transformer.layers.positions import POSITION_KINDS, positions
from transformer.models.common import at_least, check_ids, heads_fit, log_probs, one_of, probability
from transformer.models.protocols import Abilities
from transformer.models.stacks import StackConfig
from transformer.sites import Site

KINDS = ("pair", "decoder", "attention", "cross")
MEMORIES = ("vectors", "inputs", "zeros")


@dataclass(frozen=True)
class VectorConfig(StackConfig):
    """What was saved, and what it reads.

    `kind`: `pair` is an encoder and a decoder, `decoder` a decoder alone, `attention` one attention of vectors to one
    another, `cross` one attention of the target's vectors to the source's. `source_vocab` and `target_vocab` are the
    rows that texts name by number; of a decoder alone, `source_vocab` are those that it reads itself. What its
    cross-attention reads is `memory`: `memory_vectors` rows of a table of its own, the vectors that its first layer
    reads (`inputs`), or as many `zeros`. `causal` hides the future of what the decoder (or the one attention) reads.

    `d_k` and `d_v` of 0 stand for d_model / n_heads. `d_memory` is how wide the vectors are that cross-attention reads,
    where they are not as wide as the model (0): a decoder's memory, or the source of one attention. A decoder may have
    a table of tokens for its rows, with `positions` and `scale_embedding`, and a projection to scores of `writes`
    tokens (0 where there is none).

    Raises:
        ConfigError: sizes that do not fit together, or an option that is not known.
    """

    kind: str
    source_vocab: int
    target_vocab: int
    d_model: int = 512
    n_heads: int = 8
    d_k: int = 0
    d_v: int = 0
    d_ff: int = 2048
    n_encoder_layers: int = 0
    n_decoder_layers: int = 0
    dropout: float = 0.0
    attention_dropout: float = 0.0
    norm_eps: float = 1e-5
    norm_first: bool = False
    encoder_norm: bool = False
    decoder_norm: bool = False
    attention_bias: bool = True
    activation: str = "relu"
    causal: bool = True
    memory: str = "vectors"
    memory_vectors: int = 1
    positions: str = "none"
    max_length: int = 512
    scale_embedding: bool = False
    writes: int = 0
    d_memory: int = 0

    def __post_init__(self) -> None:
        one_of(self, "kind", KINDS)
        one_of(self, "memory", MEMORIES)
        one_of(self, "activation", tuple(ACTIVATIONS))
        one_of(self, "positions", POSITION_KINDS)
        at_least(self, 1, "source_vocab", "target_vocab", "d_model", "n_heads", "d_ff", "memory_vectors", "max_length")
        at_least(self, 0, "n_encoder_layers", "n_decoder_layers", "writes", "d_memory")
        probability(self, "dropout", "attention_dropout")
        if not (self.d_k and self.d_v):
            heads_fit(self.d_model, self.n_heads)
        layered = self.kind in {"pair", "decoder"}
        if layered != bool(self.n_decoder_layers) or (self.kind == "pair") != bool(self.n_encoder_layers):
            raise ConfigError(
                "vector_layers", kind=self.kind, encoder=self.n_encoder_layers, decoder=self.n_decoder_layers
            )

        if self.d_memory and (self.kind not in {"decoder", "cross"} or self.memory == "inputs"):
            raise ConfigError("memory_of_no_use", kind=self.kind, memory=self.memory, d_memory=self.d_memory)

    @property
    def memory_size(self) -> int:
        """How wide the vectors are that cross-attention reads."""
        return self.d_memory or self.d_model

    @property
    def reads_pairs(self) -> bool:
        """Whether there are two things to read."""
        return self.kind in {"pair", "cross"}


class VectorModel(nn.Module):
    """Layers that read vectors: rows of a table, by number, or given as they are."""

    architecture: ClassVar = "vectors"
    abilities: ClassVar = Abilities()

    def __init__(self, config: VectorConfig) -> None:
        super().__init__()
        self.config = config
        self.source = _table(config.source_vocab, config.memory_size if config.kind == "cross" else config.d_model)
        self.target = _table(config.target_vocab, config.d_model) if config.reads_pairs else None
        own_memory = config.kind == "decoder" and config.memory == "vectors"
        self.memory = _table(config.memory_vectors, config.memory_size) if own_memory else None
        self.positions = positions(config.positions, config.d_model, config.max_length)
        encoder = nn.ModuleList(EncoderBlock(config.block) for _ in range(config.n_encoder_layers))
        self.encoder = cast(Sequence[EncoderBlock], encoder)
        self.encoder_norm = _norm(config, config.encoder_norm)
        decoder = nn.ModuleList(DecoderBlock(config.block) for _ in range(config.n_decoder_layers))
        self.decoder = cast(Sequence[DecoderBlock], decoder)
        self.decoder_norm = _norm(config, config.decoder_norm)
        self.attention = _attention(config) if config.kind in {"attention", "cross"} else None
        self.projection = nn.Linear(config.d_model, config.writes) if config.writes else None

    def forward(self, source: Tensor, target: Tensor | None = None) -> Float[Tensor, "batch position d_model"]:
        """What the last layer gives. Both are numbers of rows (batch, position), or vectors (batch, position, d_model).

        Without a target, a model of two sides reads the rows of the same numbers there, counted round if it has fewer;
        or the same vectors.
        """
        config = self.config
        if self.target is None:
            read = self._read(self.source, source, "inputs")
            x = self.positions(read * config.d_model**0.5 if config.scale_embedding else read)
            return self._decoded(x, self._memory(x)) if self.attention is None else self._attended(x, x)
        keys = self._read(self.source, source, "inputs")
        queries = self._read(self.target, self.same_of_target(source) if target is None else target, "targets")
        if self.attention is not None:
            return self._attended(queries, keys)
        for block in self.encoder:
            keys = block(keys, Mask())
        return self._decoded(queries, self.encoder_norm(keys))

    def outputs(self, source: Tensor, target: Tensor | None = None) -> dict[str, Tensor]:
        """`hidden` (batch, position, d_model); with a projection, `log_probs` of it as well, in nats.

        Raises:
            InputError: a number that a table lacks, or vectors of another width.
        """
        hidden = self(source, target)
        if self.projection is None:
            return {"hidden": hidden}
        return {"hidden": hidden, "log_probs": log_probs(self.projection(hidden))}

    def attention_sites(self) -> dict[Site, DotProductAttention]:
        """Every attention core by its site, in the order they run."""
        if self.attention is not None:
            own = self.config.kind == "attention"
            return {Site.of("encoder" if own else "decoder", 0, "self" if own else "cross"): self.attention.core}
        sites = {Site.of("encoder", i, "self"): block.self_attention.core for i, block in enumerate(self.encoder)}
        for i, block in enumerate(self.decoder):
            sites[Site.of("decoder", i, "self")] = block.self_attention.core
            sites[Site.of("decoder", i, "cross")] = block.cross_attention.core
        return sites

    def same_of_target(self, source: Tensor) -> Tensor:
        """The same numbers in the target's table, counted round where it has fewer rows; vectors are the same."""
        return source if source.is_floating_point() else source % self.config.target_vocab

    def _read(self, table: Tensor, given: Tensor, what: str) -> Float[Tensor, "batch position width"]:
        """Rows of the table, or the vectors themselves, which are as wide."""
        if given.is_floating_point():
            if given.dim() != 3 or given.shape[-1] != table.shape[1]:
                raise InputError("width_of_vectors", found=tuple(given.shape), d_model=table.shape[1])
            return given.to(table.dtype)
        check_ids(what, given, len(table))
        return table[given]

    def _memory(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch key d_memory"]:
        """What the cross-attention of a decoder alone reads."""
        if self.memory is not None:
            return self.memory.expand(len(x), -1, -1)
        return x if self.config.memory == "inputs" else x.new_zeros(*x.shape[:2], self.config.memory_size)

    def _decoded(
        self, x: Float[Tensor, "batch position d_model"], memory: Float[Tensor, "batch key d_memory"]
    ) -> Float[Tensor, "batch position d_model"]:
        for block in self.decoder:
            x = block(x, block.cross_attention.keys_values(memory), Mask(causal=self.config.causal), Mask())
        return self.decoder_norm(x)

    def _attended(
        self, x: Float[Tensor, "batch query d_model"], keys: Float[Tensor, "batch key d_memory"]
    ) -> Float[Tensor, "batch query d_model"]:
        attention = cast(MultiHeadAttention, self.attention)
        return attention(x, attention.keys_values(keys), Mask(causal=self.config.causal and x is keys))


def _table(rows: int, d_model: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(rows, d_model), requires_grad=False)


def _norm(config: VectorConfig, wanted: bool) -> nn.Module:
    return layer_norm(config.norm, config.d_model, config.norm_eps) if wanted else nn.Identity()


def _attention(config: VectorConfig) -> MultiHeadAttention:
    block = config.block
    return MultiHeadAttention(
        block.d_model, block.n_heads, block.d_k, block.d_v, block.attention_bias, d_read=config.memory_size
    )
