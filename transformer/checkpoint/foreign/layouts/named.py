"""Encoder-decoders that differ from one another by the names of their parts and by their dialect: one reader for all.

A `Family` is a table of names. Which maps have biases, which norms are there and which tables are shared stands in the
file; what it cannot tell (heads, activation, scaling, formulas) is asked, with the original's own as default.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from transformer.checkpoint.foreign.layouts.base import Fit, Source, layer_count, lengths, root_of, size, two_tables
from transformer.checkpoint.foreign.questions import Answers, choice, heads_question, norm_eps, seq2seq_special_ids
from transformer.checkpoint.safe.contents import Contents, Shape
from transformer.errors import ConfigError
from transformer.messages import Message
from transformer.models.seq2seq import Seq2SeqConfig

ATTENTION = ("query", "key", "value", "output")
NORMS = ("self_residual.norm", "cross_residual.norm", "feed_forward_residual.norm")


@dataclass(frozen=True)
class Dialect:
    """What a family's own code does and its shapes do not tell; the first of several is the usual one.

    `formulas` are asked where no table of positions is there, `first_rows` (the row that position 0 gets) where one is
    and there are several. `norm_needs_row` is the only such row with which embeddings have a norm as ours have. With
    `tied_is_scaled`, logits of a projection that is the embedding are multiplied by d_model^-0.5. `spreads` says that
    what is hidden has a large number for a score, not -inf: rows that see nothing are even.
    """

    activations: tuple[str, ...] = ("relu", "gelu", "silu")
    norm_first: tuple[bool, ...] = (False, True)
    scaled: tuple[bool, ...] = (True, False)
    formulas: tuple[str, ...] = ("sinusoidal", "doubled", "none")
    eps: float = 1e-5
    first_rows: tuple[int, ...] = (0,)
    norm_needs_row: int | None = None
    ids: tuple[int, int, int] = (0, 1, 2)
    norm: str = "torch"
    tied_is_scaled: bool = False
    spreads: bool = False


@dataclass(frozen=True, eq=False)
class Family:
    """One way to name the parts.

    Names of layers are below the layer's number, all others below the root; after `^`, below what holds the root.
    `encoder` and `decoder` give, by our name, the module of each part of a layer. `source`, `target`, `scores` and the
    tables of positions are whole names of tensors, of which the first that is there counts. `ends` are the modules of
    the norms after the stacks, `starts` of those after the embeddings. `gain` and `shift` are what norms call theirs.
    `unused` are names of tensors that play no part. `dialect` is told the contents and the root.
    """

    name: str
    title: str
    reason: str
    sign: str
    stacks: tuple[str, str]
    encoder: Mapping[str, str]
    decoder: Mapping[str, str]
    source: tuple[str, ...]
    target: tuple[str, ...]
    scores: tuple[str, ...]
    source_positions: tuple[str, ...] = ()
    target_positions: tuple[str, ...] = ()
    ends: tuple[str, str] = ("", "")
    starts: tuple[str, str] = ("", "")
    gain: str = "weight"
    shift: str = "bias"
    score_bias: tuple[str, ...] = ()
    unused: Mapping[str, str] = field(default_factory=dict)
    dialect: Callable[[Contents, str], Dialect] = lambda contents, root: Dialect()  # noqa: ARG005

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Sizes, biases, norms and ties from the file; what it cannot tell is asked."""
        root = root_of(contents.shapes, self.sign)
        return None if root is None else _Reading(self, contents, root, answers).fit()

    def typical_names(self) -> Iterable[str]:
        """The names of a model with one layer."""
        names = [self.source[0], self.target[0], self.scores[0]]
        for stack, parts in zip(self.stacks, (self.encoder, self.decoder), strict=True):
            names += [
                f"{stack}0.{part}.{self.gain if '_residual.' in ours else 'weight'}" for ours, part in parts.items()
            ]
        return names


@dataclass
class _Reading:
    """One file read as one family."""

    family: Family
    contents: Contents
    root: str
    answers: Answers

    def __post_init__(self) -> None:
        self.shapes = self.contents.shapes
        self.dialect = self.family.dialect(self.contents, self.root)
        self.sources: dict[str, Source] = {}
        self.copies: list[str] = []

    def fit(self) -> Fit:
        """The config, and where each of our tensors stands."""
        family, dialect, answers, shapes = self.family, self.dialect, self.answers, self.shapes
        source, target = self._there(family.source), self._there(family.target)
        layers = f"{self.root}{family.stacks[0]}0."
        d_model = size(shapes, (source, 1), (target, 1))
        counts = [max(1, layer_count(shapes, f"{self.root}{stack}")) for stack in family.stacks]
        rows = size(shapes, (f"{layers}{family.encoder['self_attention.query']}.weight", 0))
        n_heads = answers.ask(heads_question(rows))
        ends = [bool(end) and f"{self.root}{end}.{family.gain}" in shapes for end in family.ends]
        config = Seq2SeqConfig(
            source_vocab=size(shapes, (source, 0)),
            target_vocab=size(shapes, (target, 0)),
            d_model=d_model,
            n_heads=n_heads,
            d_k=0 if rows == d_model else rows // n_heads,
            d_v=0 if rows == d_model else rows // n_heads,
            d_ff=size(shapes, (f"{layers}{family.encoder['feed_forward.widen']}.weight", 0)),
            n_encoder_layers=counts[0],
            n_decoder_layers=counts[1],
            norm=dialect.norm,
            norm_eps=norm_eps(answers, dialect.eps),
            norm_first=choice(answers, "norm_first", dialect.norm_first, Message("why_original")),
            norm_after_embedding=bool(family.starts[0]) and f"{self.root}{family.starts[0]}.{family.gain}" in shapes,
            norm_after_stack=any(ends),
            without_norm="" if ends[0] == ends[1] else "decoder" if ends[0] else "encoder",
            attention_bias=any(
                f"{layers}{family.encoder[f'self_attention.{part}']}.bias" in shapes for part in ATTENTION
            ),
            activation=choice(answers, "activation", dialect.activations, Message("why_original")),
            scale_embedding=choice(answers, "scale_embedding", dialect.scaled, Message("why_original")),
            spread_blind_rows=dialect.spreads,
            **self._positions(d_model),
            **self._ends(source, target),
            **seq2seq_special_ids(answers, *dialect.ids),
        )
        self._layers(config)
        return Fit(
            architecture="seq2seq",
            config=config,
            sources=self.sources,
            reasons=(family.reason, *two_tables(config)),
            copies=tuple(self.copies),
            ignored={path: why for name, why in family.unused.items() if (path := self._path(name)) in shapes},
        )

    def _there(self, names: tuple[str, ...]) -> str:
        """The first of these tensors that is there; the first of all where none is."""
        return next(iter(self._all_there(names)), self._path(names[0]))

    def _all_there(self, names: tuple[str, ...]) -> list[str]:
        return [path for path in map(self._path, names) if path in self.shapes]

    def _path(self, name: str) -> str:
        """A name of the family's table as the file has it."""
        if not name.startswith("^"):
            return f"{self.root}{name}"
        above = self.root.rstrip(".").rpartition(".")
        return f"{above[0]}{above[1]}{name[1:]}"

    def _positions(self, d_model: int) -> dict[str, Any]:
        """Tables that lie in the file, of which either may be longer; else the formula that is asked for."""
        family = self.family
        tables = [self._all_there(names)[:1] for names in (family.source_positions, family.target_positions)]
        if not any(tables):
            return {"positions": choice(self.answers, "positions", self.dialect.formulas, Message("why_original"))}
        named = [found[0] if found else self.root + names[0] for found, names in zip(
            tables, (family.source_positions, family.target_positions), strict=True)]  # fmt: skip
        wide = next((self.shapes[name] for name in named if len(self.shapes.get(name, ())) == 3), ())
        axis = None if not wide else 0 if wide[0] == 1 else 1
        first = self._first_row()
        rows = [size(self.shapes, (name, 1 if axis == 0 else 0)) for name in named]
        for side, name, count in zip(("source", "target"), named, rows, strict=True):
            table = Source(name, extra_axis=axis, first_row=first, rows_of=count)
            self.sources[f"{side}_positions.table"] = table
        learned = not any(_is_fixed(self.contents, name) for name in named)
        return {"positions": "learned" if learned else "stored", **lengths(rows[0] - first, rows[1] - first)}

    def _first_row(self) -> int:
        """Which row of the table position 0 gets.

        Raises:
            ConfigError: with this row the original has its norm elsewhere.
        """
        rows, only = self.dialect.first_rows, self.dialect.norm_needs_row
        first = choice(self.answers, "first_position", rows, Message("why_rows_of_table")) if len(rows) > 1 else rows[0]
        if only is not None and first != only:
            raise ConfigError("norm_before_positions", first=first)
        return first

    def _ends(self, source: str, target: str) -> dict[str, Any]:
        """Embeddings and projection; what holds the same numbers is one matrix."""
        family, contents = self.family, self.contents
        self.sources["source_embedding.weight"] = Source(source)
        shared = source == target or contents.same(source, target)
        scores = self._all_there(family.scores)
        tied = not scores or scores[0] in {source, target} or contents.same(scores[0], target)
        if not shared:
            self.sources["target_embedding.weight"] = Source(target)
        if not tied:
            self.sources["projection.weight"] = Source(scores[0])
        same = dict.fromkeys([*self._all_there(family.source), *self._all_there(family.target), *scores])
        used = {place.name for place in self.sources.values()}
        kept = [source, target, *scores[:1]]
        self.copies += [name for name in same if name not in used and any(contents.same(name, one) for one in kept)]
        biases = self._all_there(family.score_bias)
        if biases:
            axis = 0 if len(self.shapes[biases[0]]) == 2 else None
            self.sources["projection.bias"] = Source(biases[0], extra_axis=axis)
        scale = size(self.shapes, (source, 1)) ** -0.5 if tied and self.dialect.tied_is_scaled else 1.0
        ties = {"tie_embeddings": shared, "tie_projection": tied}
        return ties | {"projection_bias": bool(biases), "projection_scale": scale}

    def _layers(self, config: Seq2SeqConfig) -> None:
        """Every layer, and the norms around the stacks."""
        family = self.family
        for ours, stack, parts, count in (
            ("encoder", family.stacks[0], family.encoder, config.n_encoder_layers),
            ("decoder", family.stacks[1], family.decoder, config.n_decoder_layers),
        ):
            for i in range(count):
                for part, theirs in parts.items():
                    first, module = f"{self.root}{stack}0.{theirs}", f"{self.root}{stack}{i}.{theirs}"
                    self._module(f"{ours}.{i}.{part}", module, first, config.attention_bias)
        norms = zip(
            ("source_norm", "target_norm", "encoder_norm", "decoder_norm"), (*family.starts, *family.ends), strict=True
        )
        wanted = (config.norm_after_embedding,) * 2 + (config.norms_after("encoder"), config.norms_after("decoder"))
        for (ours, theirs), there in zip(norms, wanted, strict=True):
            if there:
                self._module(ours, f"{self.root}{theirs}", f"{self.root}{theirs}", attention_bias=True)

    def _module(self, ours: str, theirs: str, first: str, attention_bias: bool) -> None:
        """A linear map or a norm; whether it has a bias, the first layer's says."""
        is_norm = ours.endswith("norm")
        gain, shift = (self.family.gain, self.family.shift) if is_norm else ("weight", "bias")
        shape: Shape = self.shapes.get(f"{first}.{gain}", ())
        axis = 2 if len(shape) == 3 and shape[2] == 1 else None  # a convolution of width 1
        self.sources[f"{ours}.weight"] = Source(f"{theirs}.{gain}", extra_axis=axis)
        if "_attention." in ours and not attention_bias:
            return
        has_bias = f"{first}.{shift}" in self.shapes
        self.sources[f"{ours}.bias"] = Source(f"{theirs}.{shift}" if has_bias else None)


def _is_fixed(contents: Contents, name: str) -> bool:
    """Whether a table is a buffer by its name, or holds waves: no number leaves -1 to 1, and some row starts with 0."""
    if not name.endswith("weight"):
        return True
    table = contents.tensors.get(name)
    return table is not None and bool(table.abs().max() <= 1.0) and bool((table == 0).any())
