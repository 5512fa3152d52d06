"""The encoder-decoder before the Transformer: two recurrent nets, and attention between them.

Source: Bahdanau et al. 2015 (`additive`); Luong et al. 2015 (`dot`, `general`); the PyTorch seq2seq tutorial in its
first generation (`location`) and its second (`additive`). One model; `RecurrentConfig.attention` chooses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from transformer.errors import ConfigError, InputError
from transformer.nn.common import at_least, check_ids, log_probs, one_of, probability
from transformer.nn.protocols import Abilities, TokenInterface
from transformer.nn.recurrent_attention import AdditiveAttention, LocationAttention, ProductAttention, SourceStates
from transformer.nn.run_context import changed_context
from transformer.sites import Site


@dataclass(frozen=True)
class RecurrentConfig:
    """Everything that tells one recurrent encoder-decoder from another.

    `max_length` is the number of positions that location attention covers. `d_embedding` of 0 stands for `hidden`.
    `pad_id` of -1 says that no id is padding, as in the tutorials. `bidirectional` reads the source both ways;
    `deep_output` lets the output see the last token and the context beside the state (Bahdanau et al. 2015, A.2.2).
    `tie_embeddings` and `tie_projection` let source embedding and output projection share the target embedding.

    Other people's models differ further. `cell` is `gru` or `lstm`; `n_encoder_layers` and `encoder_hidden` of 0 stand
    for `n_layers` and `hidden`. `sum_directions` adds what both ways of reading found instead of joining it. A decoder
    begins with a learned map of the last states of both directions, or, where there is one direction or
    `copy_states`, with as many of the encoder's last states as it has layers. It looks before it moves on, with the
    state of its `query_layer` (`first` or `last`); with `attend_after` it moves on by the token alone, looks with its
    new state, and scores tanh(W [state ; context]) (Luong et al. 2015, equation 5).

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
    cell: str = "gru"
    n_layers: int = 1
    n_encoder_layers: int = 0
    encoder_hidden: int = 0
    sum_directions: bool = False
    copy_states: bool = False
    query_layer: str = "last"
    attend_after: bool = False
    tie_embeddings: bool = False
    tie_projection: bool = False
    dropout: float = 0.1
    max_length: int = 512
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2

    def __post_init__(self) -> None:
        at_least(self, 1, "source_vocab", "target_vocab", "hidden", "max_length", "n_layers")
        at_least(self, 0, "d_embedding", "n_encoder_layers", "encoder_hidden")
        one_of(self, "attention", ("location", "additive", "dot", "general"))
        one_of(self, "cell", ("gru", "lstm"))
        one_of(self, "query_layer", ("first", "last"))
        probability(self, "dropout")
        if self.tie_embeddings and self.source_vocab != self.target_vocab:
            raise ConfigError("two_vocabularies", source_vocab=self.source_vocab, target_vocab=self.target_vocab)
        if self.tie_projection and self.output_size != self.embedding_size:
            raise ConfigError("projection_cannot_be_tied", hidden=self.hidden, d_embedding=self.d_embedding)
        if self.bridges and (self.cell, self.n_layers) != ("gru", 1):
            raise ConfigError("bridge_to_one_layer", cell=self.cell, n_layers=self.n_layers)
        states = self.encoder_layers * (2 if self.bidirectional else 1)
        if not self.bridges and (states < self.n_layers or self.read_size != self.hidden):
            raise ConfigError(
                "states_do_not_fit",
                states=states,
                n_layers=self.n_layers,
                encoder_hidden=self.read_size,
                hidden=self.hidden,
            )
        if self.attention == "dot" and self.source_features != self.hidden:
            raise ConfigError("product_needs_equal_sizes", features=self.source_features, hidden=self.hidden)

    @property
    def embedding_size(self) -> int:
        """Numbers that stand for one token."""
        return self.d_embedding or self.hidden

    @property
    def source_features(self) -> int:
        """Numbers that stand for one source position."""
        return 2 * self.read_size if self.bidirectional and not self.sum_directions else self.read_size

    @property
    def read_size(self) -> int:
        """Numbers of the encoder's state in one direction."""
        return self.encoder_hidden or self.hidden

    @property
    def encoder_layers(self) -> int:
        """Layers of the encoder."""
        return self.n_encoder_layers or self.n_layers

    @property
    def bridges(self) -> bool:
        """Whether a learned map makes the decoder's first state."""
        return self.bidirectional and not self.copy_states

    @property
    def output_size(self) -> int:
        """Numbers that the projection to the vocabulary reads."""
        return self.embedding_size if self.deep_output else self.hidden


@dataclass
class RecurrentCache:
    """What decoding keeps between steps: the decoder's state, the source that it reads, and how many tokens it read.

    `state` holds those of all layers, from the first to the last, then the cells of an LSTM's in the same order.
    """

    state: Float[Tensor, "batch states"]
    source: SourceStates
    length: int = 0

    def reorder(self, rows: Int[Tensor, " row"]) -> None:
        """Keep `rows` of the batch, in that order (a beam that survives may come from any parent)."""
        self.state = self.state[rows]
        self.source.reorder(rows)


class Recurrent(nn.Module):
    """Read a source token by token, then write a target token by token, looking back at the source at each step."""

    architecture: ClassVar = "recurrent"
    abilities: ClassVar = Abilities(translates=True, recurrent=True, masks=True)

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        hidden, embedding, features = config.hidden, config.embedding_size, config.source_features
        self.source_embedding = nn.Embedding(config.source_vocab, embedding)
        self.target_embedding = (
            self.source_embedding if config.tie_embeddings else nn.Embedding(config.target_vocab, embedding)
        )
        self.dropout = nn.Dropout(config.dropout)
        net, cell = (nn.GRU, nn.GRUCell) if config.cell == "gru" else (nn.LSTM, nn.LSTMCell)
        layers, both = config.encoder_layers, config.bidirectional
        self.encoder = net(embedding, config.read_size, layers, batch_first=True, bidirectional=both)
        last = 2 * config.read_size
        self.bridge = nn.Sequential(nn.Linear(last, hidden), nn.Tanh()) if config.bridges else nn.Identity()
        self.attention = _attention(config)
        self.combine = nn.Sequential()
        reads = embedding if config.attend_after else embedding + features
        if config.attention == "location" and not config.attend_after:
            self.combine = nn.Sequential(nn.Linear(reads, hidden), nn.ReLU())
            reads = hidden
        self.decoder = cell(reads, hidden)
        self.upper = nn.ModuleList(cell(hidden, hidden) for _ in range(config.n_layers - 1))
        self.deepen: nn.Module = nn.Identity()
        if config.attend_after:
            self.deepen = nn.Sequential(nn.Linear(hidden + features, hidden), nn.Tanh())
        elif config.deep_output:
            self.deepen = nn.Sequential(nn.Linear(hidden + embedding + features, embedding), nn.Tanh())
        self.projection = nn.Linear(config.output_size, config.target_vocab)
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
        config = self.config
        real = source != config.pad_id
        padding = None if bool(real.all()) else real
        embedded = self.dropout(self.source_embedding(source))
        states, last = self._encode(embedded, padding)
        if config.sum_directions:
            states = states.unflatten(-1, (2, -1)).sum(-2)
        state = torch.cat([self._first(one) for one in last], dim=1)
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

    def token_interface(self) -> TokenInterface:
        """The modules where tokens are embedded and scored."""
        return TokenInterface((self.source_embedding, self.target_embedding), self.projection)

    def _encode(
        self, embedded: Float[Tensor, "batch source d_embedding"], real: Bool[Tensor, "batch source"] | None
    ) -> tuple[Float[Tensor, "batch source features"], Sequence[Float[Tensor, "states batch hidden"]]]:
        """States at every position (zero at padding); and after the last token of each row, with an LSTM's cells."""
        if real is None:
            states, last = self.encoder(embedded)
            return states, last if isinstance(last, tuple) else (last,)
        lengths = real.sum(1).clamp(min=1).cpu()
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        states, last = self.encoder(packed)
        padded, _ = pad_packed_sequence(states, batch_first=True, total_length=embedded.shape[1])
        return padded, last if isinstance(last, tuple) else (last,)

    def _first(self, last: Float[Tensor, "states batch hidden"]) -> Float[Tensor, "batch first"]:
        """The states with which the decoder begins, out of the encoder's last ones (by layer, each direction)."""
        if self.config.bridges:
            return self.bridge(last[-2:].transpose(0, 1).flatten(1))  # both directions of the last layer
        return last[: self.config.n_layers].transpose(0, 1).flatten(1)

    def _read(self, new: Int[Tensor, "batch new"], cache: RecurrentCache) -> Float[Tensor, "batch new width"]:
        """Read `new` tokens: at each look, then move the state on. The cache moves on by them.

        Only what depends on the state before is computed token by token; the rest, for all tokens at once.
        """
        config = self.config
        embedded = self.dropout(self.target_embedding(new))
        unit, combine = self.decoder, self.combine
        first = cast(nn.Linear, combine[0]) if len(combine) else None  # what reads [embedding ; context]
        weight, bias = (unit.weight_ih, unit.bias_ih) if first is None else (first.weight, first.bias)
        of_token, of_context = weight[:, : config.embedding_size], weight[:, config.embedding_size :]
        heard = F.linear(embedded, of_token, bias)
        queries = 0 if config.query_layer == "first" else config.n_layers - 1
        states, contexts = [], []
        for token, said in zip(embedded.unbind(1), heard.unbind(1), strict=True):
            taken = said
            if not config.attend_after:
                contexts.append(self._look(token, self._layer(cache.state, queries), cache))
                taken = said + F.linear(contexts[-1], of_context)
            if first is not None:
                taken = F.linear(combine[1](taken), unit.weight_ih, unit.bias_ih)
            cache.state = self._moved(taken, cache.state)
            states.append(self._layer(cache.state, config.n_layers - 1))
            if config.attend_after:
                contexts.append(self._look(token, states[-1], cache))
            cache.length += 1
        seen = torch.stack(states, dim=1)
        if config.attend_after:
            seen = self.deepen(torch.cat([seen, torch.stack(contexts, dim=1)], dim=-1))
        elif config.deep_output:
            seen = self.deepen(torch.cat([seen, embedded, torch.stack(contexts, dim=1)], dim=-1))
        return self.dropout(seen)

    def _look(
        self, token: Float[Tensor, "batch d_embedding"], state: Float[Tensor, "batch hidden"], cache: RecurrentCache
    ) -> Float[Tensor, "batch features"]:
        """What one step of attention finds in the source."""
        with changed_context(position_offset=cache.length):
            context, _ = self.attention(token, state, cache.source)
        return context

    def _layer(self, state: Float[Tensor, "batch states"], layer: int) -> Float[Tensor, "batch hidden"]:
        """The state of one layer of the decoder."""
        return state[:, layer * self.config.hidden : (layer + 1) * self.config.hidden]

    def _moved(
        self, read: Float[Tensor, "batch gates"], state: Float[Tensor, "batch states"]
    ) -> Float[Tensor, "batch states"]:
        """The next state of every layer, given what the first layer's gates take in of what it reads."""
        count = self.config.n_layers
        states: list[Tensor] = []
        cells: list[Tensor] = []
        for i, unit in enumerate((self.decoder, *self.upper)):
            before = self._layer(state, i)
            if i:
                read = F.linear(states[-1], unit.weight_ih, unit.bias_ih)
            kept = F.linear(before, unit.weight_hh, unit.bias_hh)
            if self.config.cell == "gru":
                states.append(gated(read, kept, before))
                continue
            held, cell = remembered(read + kept, self._layer(state, count + i))
            states.append(held)
            cells.append(cell)
        return torch.cat([*states, *cells], dim=1)


def _attention(config: RecurrentConfig) -> LocationAttention | AdditiveAttention | ProductAttention:
    """The attention that the config names."""
    if config.attention == "location":
        return LocationAttention(config.embedding_size, config.hidden, config.max_length)
    if config.attention == "additive":
        return AdditiveAttention(config.hidden, config.source_features)
    return ProductAttention(config.hidden, config.source_features, config.attention == "general")


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


def remembered(
    gates: Float[Tensor, "batch gates"], cell: Float[Tensor, "batch hidden"]
) -> tuple[Float[Tensor, "batch hidden"], Float[Tensor, "batch hidden"]]:
    """The next state and cell of a long short-term memory, given what its four gates take in.

    Source: Hochreiter and Schmidhuber 1997, with forget gates, in the order of torch.nn.LSTM.
    """
    taken, kept, proposed, shown = gates.chunk(4, dim=1)
    cell = kept.sigmoid() * cell + taken.sigmoid() * proposed.tanh()
    return shown.sigmoid() * cell.tanh(), cell
