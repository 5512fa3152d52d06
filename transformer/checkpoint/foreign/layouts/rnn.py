"""Recurrent encoder-decoders with attention as tutorials write them: an encoder's file and a decoder's, or one of both.

- The PyTorch seq2seq tutorial, first generation: `attn` looks by location and `attn_combine` mixes. Second: `attention`
  with Wa, Ua, Va (Bahdanau).
- "Dive into Deep Learning", section 11.4: `attention` with W_q, W_k, w_v and without biases; `dense`.
- The PyTorch chatbot tutorial (Luong et al. 2015): `concat`, and `attn.attn` where the score is no plain product. The
  encoder reads both ways and adds the two; the decoder begins with the encoder's first states.

Nets may be called `gru`, `rnn` or `lstm`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from transformer.checkpoint.foreign.layouts.base import Fit, Layout, Source, linear, root_of, size
from transformer.checkpoint.foreign.questions import Answers, choice, special_id_questions
from transformer.errors import ConfigError
from transformer.messages import Message
from transformer.nn.recurrent import RecurrentConfig
from transformer.safe.contents import Contents, Shape

Kind = Literal["location", "separate", "product"]
_GATES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
_NET = re.compile(r"(?P<net>(?:.*\.)?(?:gru|rnn|lstm))\.weight_ih_l0")


@dataclass(frozen=True)
class _Names:
    """What one tutorial calls the decoder's parts, and how they are used.

    `query`, `key` and `score` compare; `projection` is the last map. `context_first` says in which order the cell reads
    context and token. A decoder of several layers looks with the state of one of them: `looks_with` is asked where the
    original has one layer.
    """

    kind: Kind
    query: str = ""
    key: str = ""
    score: str = ""
    biased: bool = True
    projection: str = "out"
    context_first: bool = False
    looks_with: tuple[str, ...] = ()
    ids: tuple[int, int, int] = (-1, 0, 1)


def rnn_tutorial(sign: str, reason: str, names: _Names, contents: Contents, answers: Answers) -> Fit | None:
    """The encoder and the decoder of one tutorial; `sign` is a name in the decoder that no other one has.

    Every size stands in the shapes; special ids are asked, and what the state of several layers does.
    """
    shapes = contents.shapes
    root = root_of(shapes, rf"decoder\.{sign}")
    if root is None:
        return None
    if not any(name.startswith(f"{root}encoder.") for name in shapes):
        return None  # a decoder alone
    pair = _Pair(shapes, root)
    options = pair.sizes(names.kind == "location") | _decoder_options(names, pair, answers)
    config = RecurrentConfig(**options | special_id_questions(answers, *names.ids))
    return Fit("recurrent", config, _sources(pair, names, config), (reason,))


@dataclass(frozen=True)
class _Pair:
    """An encoder and a decoder under `root`, and what shapes say of their nets."""

    shapes: Mapping[str, Shape]
    root: str

    @property
    def encoder(self) -> str:
        """The encoder's net."""
        return self._net("encoder")

    @property
    def decoder(self) -> str:
        """The decoder's net."""
        return self._net("decoder")

    def sizes(self, location: bool) -> dict[str, Any]:
        """Widths, depths and directions."""
        shapes, root = self.shapes, self.root
        hidden = size(shapes, (f"{self.decoder}.weight_hh_l0", 1), (f"{self.encoder}.weight_hh_l0", 1))
        read = size(shapes, (f"{self.encoder}.weight_hh_l0", 1), (f"{self.decoder}.weight_hh_l0", 1))
        embedding = size(shapes, (f"{root}decoder.embedding.weight", 1))
        layers, of_encoder = self.layers(self.decoder), self.layers(self.encoder)
        return {
            "source_vocab": size(shapes, (f"{root}encoder.embedding.weight", 0)),
            "target_vocab": size(shapes, (f"{root}decoder.embedding.weight", 0)),
            "hidden": hidden,
            "d_embedding": 0 if embedding == hidden else embedding,
            "encoder_hidden": 0 if read == hidden else read,
            "cell": "lstm" if size(shapes, (f"{self.decoder}.weight_hh_l0", 0)) == 4 * hidden else "gru",
            "n_layers": layers,
            "n_encoder_layers": 0 if of_encoder == layers else of_encoder,
            "bidirectional": f"{self.encoder}.weight_ih_l0_reverse" in shapes,
            "max_length": size(shapes, (f"{root}decoder.attn.weight", 0)) if location else 512,
        }

    def layers(self, net: str) -> int:
        """How many layers a net has."""
        found = re.compile(rf"{re.escape(net)}\.weight_ih_l(\d+)")
        return max(1, sum(bool(found.fullmatch(name)) for name in self.shapes))

    def _net(self, half: str) -> str:
        start = f"{self.root}{half}."
        found = (_NET.fullmatch(name) for name in self.shapes if name.startswith(start))
        return next((net["net"] for net in found if net), f"{start}gru")


def _attention(names: _Names, pair: _Pair) -> str:
    """Our name for the way in which the decoder looks."""
    if names.kind == "location":
        return "location"
    if names.kind == "product":
        with_map = f"{pair.root}decoder.attn.attn.weight" in pair.shapes
        with_score = f"{pair.root}decoder.attn.v" in pair.shapes
        return "additive" if with_score else "general" if with_map else "dot"
    return "additive"


def _decoder_options(names: _Names, pair: _Pair, answers: Answers) -> dict[str, Any]:
    """What the layout's own code does, beside what shapes tell.

    Raises:
        ConfigError: the two halves have other depths, and nothing tells which states the decoder begins with.
    """
    layers, of_encoder = pair.layers(pair.decoder), pair.layers(pair.encoder)
    if names.kind == "product":
        both = f"{pair.encoder}.weight_ih_l0_reverse" in pair.shapes
        found = {"attend_after": True, "sum_directions": both, "copy_states": both}
    elif layers != of_encoder:
        raise ConfigError("halves_of_other_depth", encoder=of_encoder, decoder=layers)
    elif layers > 1 and names.looks_with:
        found = {"query_layer": choice(answers, "query_layer", names.looks_with, Message("why_most_common"))}
    else:
        found = {}
    return {"attention": _attention(names, pair), **found}


def _sources(pair: _Pair, names: _Names, config: RecurrentConfig) -> dict[str, Source]:
    """Where each of our tensors stands."""
    root, ways = pair.root, ("", "_reverse") if config.bidirectional else ("",)
    sources = {
        "source_embedding.weight": Source(f"{root}encoder.embedding.weight"),
        "target_embedding.weight": Source(f"{root}decoder.embedding.weight"),
    }
    for layer in range(config.encoder_layers):
        for gate in (f"{gate}_l{layer}{way}" for gate in _GATES for way in ways):
            sources[f"encoder.{gate}"] = Source(f"{pair.encoder}.{gate}")
    for layer in range(config.n_layers):
        ours = f"upper.{layer - 1}" if layer else "decoder"
        sources |= {f"{ours}.{gate}": Source(f"{pair.decoder}.{gate}_l{layer}") for gate in _GATES}
    embedding, features = config.embedding_size, config.source_features
    if names.context_first:
        turned, width = ((features, features + embedding), (0, features)), embedding + features
        sources["decoder.weight_ih"] = Source(f"{pair.decoder}.weight_ih_l0", runs=turned, width=width)
    if config.bridges:
        sources |= linear("bridge.0", f"{root}encoder.fc")
    sources |= linear("projection", f"{root}decoder.{names.projection}")
    if config.attend_after:
        sources |= linear("deepen.0", f"{root}decoder.concat")
    return sources | _attention_sources(pair, names, config)


def _attention_sources(pair: _Pair, names: _Names, config: RecurrentConfig) -> dict[str, Source]:
    """Where the tensors of the attention stand; a score's own bias changes no weight."""
    start = f"{pair.root}decoder"
    if config.attention == "location":
        return linear("attention.where", f"{start}.attn") | linear("combine.0", f"{start}.attn_combine")
    if config.attention == "general":
        return linear("attention.key", f"{start}.attn.attn")
    if config.attention == "dot":
        return {}
    if names.kind == "separate":
        return (
            linear("attention.query", f"{start}.{names.query}", has_bias=names.biased)
            | linear("attention.key", f"{start}.{names.key}", has_bias=names.biased)
            | linear("attention.score", f"{start}.{names.score}", has_bias=names.biased)
        )
    joint = f"{start}.{names.query}"
    hidden, width = config.hidden, config.hidden + config.source_features
    score = f"{start}.{names.score}"
    called = f"{score}.weight" in pair.shapes
    return {
        "attention.query.weight": Source(f"{joint}.weight", runs=((0, hidden),), width=width),
        "attention.query.bias": Source(f"{joint}.bias"),
        "attention.key.weight": Source(f"{joint}.weight", runs=((hidden, width),), width=width),
        "attention.key.bias": Source(None),
        "attention.score.weight": Source(f"{score}.weight") if called else Source(score, vector=True),
        "attention.score.bias": Source(None),
    }


def _tutorial(name: str, code: str, sign: str, names: _Names) -> Layout:
    fit = partial(rnn_tutorial, sign, Message(f"reason_{code}"), names)
    return Layout(name, Message(f"title_{code}"), fit)


TUTORIALS = (
    _tutorial(
        "rnn-tutorial-1", "tutorial_1", r"attn_combine\.weight", _Names("location", looks_with=("first", "last"))
    ),
    _tutorial(
        "rnn-tutorial-2", "tutorial_2", r"attention\.Wa\.weight",
        _Names("separate", "attention.Wa", "attention.Ua", "attention.Va", looks_with=("last", "first")),
    ),
    _tutorial(
        "rnn-d2l", "tutorial_d2l", r"attention\.W_q\.weight",
        _Names(
            "separate", "attention.W_q", "attention.W_k", "attention.w_v", False, "dense", context_first=True,
            ids=(-1, 2, 3),
        ),
    ),
    _tutorial(
        "rnn-chatbot", "tutorial_chatbot", r"concat\.weight",
        _Names("product", "attn.attn", score="attn.v", ids=(0, 1, 2)),
    ),
)  # fmt: skip
