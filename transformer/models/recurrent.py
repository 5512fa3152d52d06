"""The encoder-decoder before the Transformer: two recurrent nets, and attention between them.

Source: Bahdanau et al. 2015 (`additive`); the PyTorch seq2seq tutorial in its first generation (`location`) and its
second (`additive`). One model; `RecurrentConfig.attention` chooses.
"""

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from transformer.errors import ConfigError, InputError
from transformer.layers.recurrent_attention import AdditiveAttention, LocationAttention, SourceStates
from transformer.layers.rows import rows_from
from transformer.models.common import at_least, check_ids, log_probs, one_of, probability
from transformer.models.protocols import Abilities, Ends
from transformer.sites import Site


@dataclass(frozen=True)
class RecurrentConfig:
    """Everything that tells one recurrent encoder-decoder from another.

    `max_length` is the number of positions that location attention covers. `d_embedding` of 0 stands for `hidden`.
    `pad_id` of -1 says that no id is padding, as in the tutorials. `bidirectional` reads the source both ways;
    `deep_output` lets the output see the last token and the context beside the state (Bahdanau et al. 2015, A.2.2).
    `tie_embeddings` and `tie_projection` let source embedding and output projection share the target embedding.

    Raises:
        ConfigError: sizes that do not fit together, or an option that is not known.
    """

    source_vocab: int
    target_vocab: int
    hidden: int = 256
    d_embedding: int = 0
    attention: str = "additive"
    bidirectional: bool = False
    deep_output: bool = False
    tie_embeddings: bool = False
    tie_projection: bool = False
    dropout: float = 0.1
    max_length: int = 512
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2

    def __post_init__(self) -> None:
        at_least(self, 1, "source_vocab", "target_vocab", "hidden", "max_length")
        at_least(self, 0, "d_embedding")
        one_of(self, "attention", ("location", "additive"))
        probability(self, "dropout")
        if self.tie_embeddings and self.source_vocab != self.target_vocab:
            raise ConfigError("two_vocabularies", source_vocab=self.source_vocab, target_vocab=self.target_vocab)
        if self.tie_projection and not self.deep_output and self.hidden != self.embedding_size:
            raise ConfigError("projection_cannot_be_tied", hidden=self.hidden, d_embedding=self.d_embedding)

    @property
    def embedding_size(self) -> int:
        """Numbers that stand for one token."""
        return self.d_embedding or self.hidden

    @property
    def source_features(self) -> int:
        """Numbers that stand for one source position."""
        return 2 * self.hidden if self.bidirectional else self.hidden


@dataclass
class RecurrentCache:
    """What decoding keeps between steps: the decoder's state, the source that it reads, and how many tokens it read."""

    state: Float[Tensor, "batch hidden"]
    source: SourceStates
    length: int = 0

    def reorder(self, rows: Int[Tensor, " row"]) -> None:
        """Keep `rows` of the batch, in that order (a beam that survives may come from any parent)."""
        self.state = self.state[rows]
        self.source.reorder(rows)


class Recurrent(nn.Module):
    """Read a source token by token, then write a target token by token, looking back at the source at each step."""

    architecture: ClassVar = "recurrent"
    abilities: ClassVar = Abilities(translates=True, masks=True)

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        hidden, embedding, features = config.hidden, config.embedding_size, config.source_features
        self.source_embedding = nn.Embedding(config.source_vocab, embedding)
        self.target_embedding = (
            self.source_embedding if config.tie_embeddings else nn.Embedding(config.target_vocab, embedding)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.GRU(embedding, hidden, batch_first=True, bidirectional=config.bidirectional)
        self.bridge = nn.Sequential(nn.Linear(features, hidden), nn.Tanh()) if config.bidirectional else nn.Identity()
        self.attention: LocationAttention | AdditiveAttention
        if config.attention == "location":
            self.attention = LocationAttention(embedding, hidden, config.max_length)
            self.combine = nn.Sequential(nn.Linear(embedding + features, hidden), nn.ReLU())
            self.decoder = nn.GRUCell(hidden, hidden)
        else:
            self.attention = AdditiveAttention(hidden, features)
            self.combine = nn.Sequential()
            self.decoder = nn.GRUCell(embedding + features, hidden)
        seen = hidden + embedding + features if config.deep_output else hidden
        self.deepen = nn.Sequential(nn.Linear(seen, embedding), nn.Tanh()) if config.deep_output else nn.Identity()
        self.projection = nn.Linear(embedding if config.deep_output else hidden, config.target_vocab)
        if config.tie_projection:
            self.projection.weight = self.target_embedding.weight
            nn.init.normal_(self.projection.weight, std=embedding**-0.5)  # logits of about 1, as a projection has

    def forward(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target vocab"]:
        """Logits of the token after each target position, given the target up to there (teacher forcing)."""
        return self.logits(self.hidden(source, target))

    def hidden(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target width"]:
        """What the projection to the vocabulary reads at each target position (teacher forcing)."""
        return self._read(target, self.start(source))

    def logits(self, hidden: Float[Tensor, "batch target width"]) -> Float[Tensor, "batch target vocab"]:
        """Scores of every token of the vocabulary."""
        return self.projection(hidden)

    def start(self, source: Int[Tensor, "batch source"]) -> RecurrentCache:
        """Read the source and stand before the first target token; the encoder's last state is the decoder's first.

        Raises:
            InputError: location attention covers fewer positions than the source has.
        """
        real = source != self.config.pad_id
        padding = None if bool(real.all()) else real
        embedded = self.dropout(self.source_embedding(source))
        states, last = self._encode(embedded, padding)
        state = self.bridge(last.transpose(0, 1).flatten(1))  # (batch, directions x hidden)
        return RecurrentCache(state, self.attention.prepare(self.dropout(states), padding))

    def step(self, new: Int[Tensor, "batch new"], cache: RecurrentCache) -> Float[Tensor, "batch vocab"]:
        """Logits of the token after `new`, which continue what `cache` holds; the cache moves on by them."""
        return self.logits(self._read(new, cache)[:, -1:])[:, 0]

    def outputs(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"] | None = None
    ) -> dict[str, Tensor]:
        """`log_probs` (batch, target, vocab) of the token after each target position, in nats.

        Raises:
            InputError: there is no target, an id that a vocabulary lacks, or a source that is too long.
        """
        if target is None:
            raise InputError("no_target_ids")
        check_ids("inputs", source, self.config.source_vocab)
        check_ids("targets", target, self.config.target_vocab)
        return {"log_probs": log_probs(self(source, target))}

    def attention_sites(self) -> dict[Site, nn.Module]:
        """The one attention of the model, by its site; its forward returns (mixed, weights)."""
        return {Site("decoder.cross"): self.attention}

    def ends(self) -> Ends:
        """The modules where tokens are embedded and scored."""
        return Ends((self.source_embedding, self.target_embedding), self.projection)

    def _encode(
        self, embedded: Float[Tensor, "batch source d_embedding"], real: Bool[Tensor, "batch source"] | None
    ) -> tuple[Float[Tensor, "batch source features"], Float[Tensor, "directions batch hidden"]]:
        """States at every position (zero at padding) and after the last token of each row."""
        if real is None:
            states, last = self.encoder(embedded)
            return states, last
        lengths = real.sum(1).clamp(min=1).cpu()
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        states, last = self.encoder(packed)
        padded, _ = pad_packed_sequence(states, batch_first=True, total_length=embedded.shape[1])
        return padded, last

    def _read(self, new: Int[Tensor, "batch new"], cache: RecurrentCache) -> Float[Tensor, "batch new width"]:
        """Read `new` tokens: at each look, then move the state on. The cache moves on by them.

        Only what depends on the state before is computed token by token; the rest, for all tokens at once.
        """
        embedded = self.dropout(self.target_embedding(new))
        unit, combine = self.decoder, self.combine
        first = cast(nn.Linear, combine[0]) if len(combine) else None  # what reads [embedding ; context]
        weight, bias = (unit.weight_ih, unit.bias_ih) if first is None else (first.weight, first.bias)
        of_token, of_context = weight.split([self.config.embedding_size, self.config.source_features], dim=1)
        heard = F.linear(embedded, of_token, bias)
        states, contexts = [], []
        for token, said in zip(embedded.unbind(1), heard.unbind(1), strict=True):
            with rows_from(cache.length):
                context, _ = self.attention(token, cache.state, cache.source)
            cache.length += 1
            read = said + F.linear(context, of_context)
            if first is not None:
                read = F.linear(combine[1](read), unit.weight_ih, unit.bias_ih)
            cache.state = gated(read, F.linear(cache.state, unit.weight_hh, unit.bias_hh), cache.state)
            states.append(cache.state)
            contexts.append(context)
        seen = torch.stack(states, dim=1)
        if self.config.deep_output:
            seen = self.deepen(torch.cat([seen, embedded, torch.stack(contexts, dim=1)], dim=-1))
        return self.dropout(seen)


def gated(
    read: Float[Tensor, "batch gates"], kept: Float[Tensor, "batch gates"], state: Float[Tensor, "batch hidden"]
) -> Float[Tensor, "batch hidden"]:
    """The next state of a gated recurrent unit, given what its reset, update and new gates take in.

    `read` is of the input, `kept` of the state before. Source: Cho et al. 2014, section 2.3, in the form of
    torch.nn.GRU.
    """
    gates = 2 * state.shape[1]
    reset, update = (read[:, :gates] + kept[:, :gates]).sigmoid().chunk(2, dim=1)
    proposed = torch.tanh(read[:, gates:] + reset * kept[:, gates:])
    return torch.lerp(proposed, state, update)
