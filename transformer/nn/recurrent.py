"""The encoder-decoder before the Transformer: two recurrent nets, and attention between them.

Source: Bahdanau et al. 2015 (`additive`); Luong et al. 2015 (`dot`, `general`); the PyTorch seq2seq tutorial in its
first generation (`location`: the decoder alone decides where to look) and its second (`additive`). One model;
`RnnAttentionConfig.kind` chooses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..errors import ConfigError
from ..sites import Site
from .common import Config, changed_context, option, pair_outputs
from .protocols import Abilities, TokenInterface
from .recurrent_attention import Embedded, LocationAttention, Real, SourceStates, State, StateAttention, States

Gates = Float[Tensor, "batch gates"]
Source = Int[Tensor, "batch source"]
Target = Int[Tensor, "batch target"]


@dataclass(frozen=True, kw_only=True)
class RnnEncoderConfig(Config):
    """The net that reads: `n_layers` and `hidden` of 0 stand for those of the decoder.

    `bidirectional` reads the source both ways; `sum_directions` adds what both found instead of joining it.
    """

    n_layers: int = option("n_encoder_layers", 0)
    hidden: int = option("encoder_hidden", 0)
    bidirectional: bool = False
    sum_directions: bool = False

    def __post_init__(self) -> None:
        self.at_least(0, "n_layers", "hidden")


@dataclass(frozen=True, kw_only=True)
class RnnDecoderConfig(Config):
    """The net that writes.

    It begins with a learned map of the encoder's last states of both directions, or, where there is one direction or
    `copy_states`, with as many of them as it has layers. `deep_output` lets the output see the last token and the
    context beside the state (Bahdanau et al. 2015, A.2.2).
    """

    hidden: int = 256
    n_layers: int = 1
    copy_states: bool = False
    deep_output: bool = False

    def __post_init__(self) -> None:
        self.at_least(1, "hidden", "n_layers")


@dataclass(frozen=True, kw_only=True)
class RnnAttentionConfig(Config):
    """How a step looks at the source: with the state of `query_layer` (`first` or `last`), before it moves on.

    With `after` it moves on by the token alone, looks with its new state, and scores tanh(W [state ; context]) (Luong
    et al. 2015, equation 5).
    """

    kind: str = option("attention", "additive")
    query_layer: str = "last"
    after: bool = option("attend_after", False)

    def __post_init__(self) -> None:
        self.one_of("kind", ("location", "additive", "dot", "general"))
        self.one_of("query_layer", ("first", "last"))


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(Config):
    """Everything that tells one recurrent encoder-decoder from another.

    `max_length` is the number of positions that location attention covers. `d_embedding` of 0 stands for the decoder's
    `hidden`. `cell` is `gru` or `lstm`. `pad_id` of -1 says that no id is padding, as in the tutorials.
    `tie_embeddings` and `tie_projection` let source embedding and output projection share the target embedding.

    Raises:
        ConfigError: sizes that do not fit together, or an option that is not known.
    """

    source_vocab: int
    target_vocab: int
    d_embedding: int = 0
    cell: str = "gru"
    encoder: RnnEncoderConfig = RnnEncoderConfig()
    decoder: RnnDecoderConfig = RnnDecoderConfig()
    attention: RnnAttentionConfig = RnnAttentionConfig()
    tie_embeddings: bool = False
    tie_projection: bool = False
    dropout: float = 0.1
    max_length: int = 512
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2

    def __post_init__(self) -> None:
        hidden, n_layers = self.decoder.hidden, self.decoder.n_layers
        self.at_least(1, "source_vocab", "target_vocab", "max_length")
        self.at_least(0, "d_embedding")
        self.one_of("cell", ("gru", "lstm"))
        self.probability("dropout")
        if self.tie_embeddings and self.source_vocab != self.target_vocab:
            raise ConfigError("two_vocabularies", source_vocab=self.source_vocab, target_vocab=self.target_vocab)
        if self.tie_projection and self.output_size != self.embedding_size:
            raise ConfigError("projection_cannot_be_tied", hidden=hidden, d_embedding=self.d_embedding)
        if self.bridges and (self.cell, n_layers) != ("gru", 1):
            raise ConfigError("bridge_to_one_layer", cell=self.cell, n_layers=n_layers)
        states, read = self.encoder_layers * (2 if self.encoder.bidirectional else 1), self.read_size
        if not self.bridges and (states < n_layers or read != hidden):
            sizes = {"states": states, "n_layers": n_layers, "encoder_hidden": read, "hidden": hidden}
            raise ConfigError("states_do_not_fit", **sizes)
        if self.attention.kind == "dot" and self.source_features != hidden:
            raise ConfigError("product_needs_equal_sizes", features=self.source_features, hidden=hidden)

    @property
    def embedding_size(self) -> int:
        """Numbers that stand for one token."""
        return self.d_embedding or self.decoder.hidden

    @property
    def source_features(self) -> int:
        """Numbers that stand for one source position."""
        joined = self.encoder.bidirectional and not self.encoder.sum_directions
        return 2 * self.read_size if joined else self.read_size

    @property
    def read_size(self) -> int:
        """Numbers of the encoder's state in one direction."""
        return self.encoder.hidden or self.decoder.hidden

    @property
    def encoder_layers(self) -> int:
        """Layers of the encoder."""
        return self.encoder.n_layers or self.decoder.n_layers

    @property
    def bridges(self) -> bool:
        """Whether a learned map makes the decoder's first state."""
        return self.encoder.bidirectional and not self.decoder.copy_states

    @property
    def output_size(self) -> int:
        """Numbers that the projection to the vocabulary reads."""
        return self.embedding_size if self.decoder.deep_output else self.decoder.hidden


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
        hidden, embedding, features = config.decoder.hidden, config.embedding_size, config.source_features
        self.source_embedding = nn.Embedding(config.source_vocab, embedding)
        self.target_embedding = (
            self.source_embedding if config.tie_embeddings else nn.Embedding(config.target_vocab, embedding)
        )
        self.dropout = nn.Dropout(config.dropout)
        net, cell = (nn.GRU, nn.GRUCell) if config.cell == "gru" else (nn.LSTM, nn.LSTMCell)
        layers, both = config.encoder_layers, config.encoder.bidirectional
        self.encoder = net(embedding, config.read_size, layers, batch_first=True, bidirectional=both)
        last = 2 * config.read_size
        self.bridge = nn.Sequential(nn.Linear(last, hidden), nn.Tanh()) if config.bridges else nn.Identity()
        self.attention: LocationAttention | StateAttention
        if config.attention.kind == "location":
            self.attention = LocationAttention(embedding, hidden, config.max_length)
        else:
            self.attention = StateAttention(hidden, features, config.attention.kind)
        self.combine = nn.Sequential()
        reads = embedding if config.attention.after else embedding + features
        if config.attention.kind == "location" and not config.attention.after:
            self.combine = nn.Sequential(nn.Linear(reads, hidden), nn.ReLU())
            reads = hidden
        self.decoder = cell(reads, hidden)
        self.upper = nn.ModuleList(cell(hidden, hidden) for _ in range(config.decoder.n_layers - 1))
        self.deepen: nn.Module = nn.Identity()
        if config.attention.after:
            self.deepen = nn.Sequential(nn.Linear(hidden + features, hidden), nn.Tanh())
        elif config.decoder.deep_output:
            self.deepen = nn.Sequential(nn.Linear(hidden + embedding + features, embedding), nn.Tanh())
        self.projection = nn.Linear(config.output_size, config.target_vocab)
        if config.tie_projection:
            self.projection.weight = self.target_embedding.weight
            nn.init.normal_(self.projection.weight, std=embedding**-0.5)  # logits of about 1, as a projection has

    def forward(self, source: Source, target: Target) -> Float[Tensor, "batch target vocab"]:
        """Logits of the token after each target position, given the target up to there (teacher forcing)."""
        return self.logits(self.hidden(source, target))

    def hidden(self, source: Source, target: Target) -> Float[Tensor, "batch target width"]:
        """What the projection to the vocabulary reads at each target position (teacher forcing)."""
        return self._read(target, self.start(source))

    def logits(self, hidden: Float[Tensor, "batch target width"]) -> Float[Tensor, "batch target vocab"]:
        """Scores of every token of the vocabulary."""
        return self.projection(hidden)

    def start(self, source: Source) -> RecurrentCache:
        """Read the source and stand before the first target token; the encoder's last state is the decoder's first.

        Raises:
            InputError: location attention covers fewer positions than the source has.
        """
        config = self.config
        real = source != config.pad_id
        padding = None if bool(real.all()) else real
        embedded = self.dropout(self.source_embedding(source))
        states, last = self._encode(embedded, padding)
        if config.encoder.sum_directions:
            states = states.unflatten(-1, (2, -1)).sum(-2)
        if config.bridges:
            first = [self.bridge(one[-2:].transpose(0, 1).flatten(1)) for one in last]  # both ways of the last layer
        else:
            first = [one[: config.decoder.n_layers].transpose(0, 1).flatten(1) for one in last]
        state = torch.cat(first, dim=1)
        return RecurrentCache(state, self.attention.prepare(self.dropout(states), padding))

    def step(self, new: Int[Tensor, "batch new"], cache: RecurrentCache) -> Float[Tensor, "batch vocab"]:
        """Logits of the token after `new`, which continue what `cache` holds; the cache moves on by them."""
        return self.logits(self._read(new, cache)[:, -1:])[:, 0]

    def outputs(self, source: Source, target: Target | None = None) -> dict[str, Tensor]:
        """See `pair_outputs`."""
        return pair_outputs(self, source, target)

    def attention_sites(self) -> dict[Site, nn.Module]:
        """The one attention of the model, by its site; its forward returns (mixed, weights)."""
        return {Site("decoder.cross"): self.attention}

    def token_interface(self) -> TokenInterface:
        """The modules where tokens are embedded and scored."""
        return TokenInterface((self.source_embedding, self.target_embedding), self.projection)

    def _encode(
        self, embedded: Float[Tensor, "batch source d_embedding"], real: Real
    ) -> tuple[States, Sequence[Float[Tensor, "states batch hidden"]]]:
        """States at every position (zero at padding); and after the last token of each row, with an LSTM's cells."""
        if real is None:
            states, last = self.encoder(embedded)
        else:
            lengths = real.sum(1).clamp(min=1).cpu()
            packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
            states, last = self.encoder(packed)
            states, _ = pad_packed_sequence(states, batch_first=True, total_length=embedded.shape[1])
        return states, last if isinstance(last, tuple) else (last,)

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
        top = config.decoder.n_layers - 1
        queries = 0 if config.attention.query_layer == "first" else top
        states, contexts = [], []
        for token, said in zip(embedded.unbind(1), heard.unbind(1), strict=True):
            taken = said
            if not config.attention.after:
                contexts.append(self._look(token, self._layer(cache.state, queries), cache))
                taken = said + F.linear(contexts[-1], of_context)
            if first is not None:
                taken = F.linear(combine[1](taken), unit.weight_ih, unit.bias_ih)
            cache.state = self._moved(taken, cache.state)
            states.append(self._layer(cache.state, top))
            if config.attention.after:
                contexts.append(self._look(token, states[-1], cache))
            cache.length += 1
        seen = torch.stack(states, dim=1)
        if config.attention.after:
            seen = self.deepen(torch.cat([seen, torch.stack(contexts, dim=1)], dim=-1))
        elif config.decoder.deep_output:
            seen = self.deepen(torch.cat([seen, embedded, torch.stack(contexts, dim=1)], dim=-1))
        return self.dropout(seen)

    def _look(self, token: Embedded, state: State, cache: RecurrentCache) -> Float[Tensor, "batch features"]:
        """What one step of attention finds in the source."""
        with changed_context(position_offset=cache.length):
            context, _ = self.attention(token, state, cache.source)
        return context

    def _layer(self, state: Float[Tensor, "batch states"], layer: int) -> State:
        """The state of one layer of the decoder."""
        hidden = self.config.decoder.hidden
        return state[:, layer * hidden : (layer + 1) * hidden]

    def _moved(self, read: Gates, state: Float[Tensor, "batch states"]) -> Float[Tensor, "batch states"]:
        """The next state of every layer, given what the first layer's gates take in of what it reads."""
        count = self.config.decoder.n_layers
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
            hidden, cell = remembered(read + kept, self._layer(state, count + i))
            states.append(hidden)
            cells.append(cell)
        return torch.cat([*states, *cells], dim=1)


def gated(read: Gates, kept: Gates, state: State) -> State:
    """The next state of a gated recurrent unit, given what its reset, update and new gates take in.

    `read` is of the input, `kept` of the state before. Source: Cho et al. 2014, section 2.3, in the form of
    torch.nn.GRU.
    """
    gates = 2 * state.shape[1]
    reset, update = (read[:, :gates] + kept[:, :gates]).sigmoid().chunk(2, dim=1)
    proposed = torch.tanh(read[:, gates:] + reset * kept[:, gates:])
    return torch.lerp(proposed, state, update)


def remembered(gates: Gates, cell: State) -> tuple[State, State]:
    """The next state and cell of a long short-term memory, given what its four gates take in.

    Source: Hochreiter and Schmidhuber 1997, with forget gates, in the order of torch.nn.LSTM.
    """
    taken, kept, proposed, shown = gates.chunk(4, dim=1)
    cell = kept.sigmoid() * cell + taken.sigmoid() * proposed.tanh()
    return shown.sigmoid() * cell.tanh(), cell
