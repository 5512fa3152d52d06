"""Tensors around torch's layers: embeddings, tables of positions, scores, and what acts after the layers.

Shapes say which tensors a role is open to. Where they leave several, it is asked; the usual names (`USUAL`) only say
which answer is proposed. What no role takes, and what the layers could read, is asked for as a whole (`others_after`).
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformer.checkpoint.foreign.layouts.base import Source
from transformer.checkpoint.foreign.questions import Answers, choice
from transformer.messages import Message
from transformer.safe.contents import Contents, Shape

NONE, TIED = "none", "tied"
"""The answers that no tensor of the file plays a part, and that the target's embedding scores too."""

UNTOLD = Message("doubt_untold")

_SOURCE, _TARGET = r"src\w*|source\w*|enc\w*|in|inp\w*", r"tgt\w*|trg\w*|target\w*|dec\w*|outs?|outputs?"
USUAL: Mapping[str, re.Pattern[str]] = {
    name: re.compile(words)
    for name, words in {
        "embedding": r"emb\w*|tok\w*|words?|wte|lut",
        "projection": r"gener\w*|proj\w*|\w*head|logits?|vocab|fc|outs?|output|linear|classifier",
        "source_embedding": _SOURCE,
        "target_embedding": _TARGET,
        "source_positions": _SOURCE,
        "target_positions": _TARGET,
    }.items()
}
"""Words that tensors of each role are usually called by."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_POSITION = re.compile(r"pos|pos(?:i|e[mn]|tab)\w*|w?pe")
_NO_TOKENS = re.compile(r"seg\w*|types?|lang\w*|speaker\w*|tags?|rel|relative")


@dataclass(frozen=True)
class Table:
    """Rows that are added to positions: a parameter (`learned`) or a buffer (`stored`)."""

    source: Source
    length: int
    kind: str


@dataclass(frozen=True)
class OuterTensors:
    """What shapes allow outside of torch's layers, in the file's order.

    `matrices` (rows, d_model) stand without a bias: embeddings, or what scores. `biased` ones are linear maps that read
    states. `tables` are called positions.
    """

    rows: Mapping[str, int]
    matrices: tuple[str, ...]
    biased: tuple[str, ...]
    tables: Mapping[str, Table]

    @classmethod
    def of(cls, shapes: Mapping[str, Shape], taken: Collection[str], d_model: int) -> "OuterTensors":
        """Those of a file, but for the tensors that are `taken`."""
        free = {name: shape for name, shape in shapes.items() if name not in taken}
        tables = {name: table for name, shape in free.items() if (table := _table(name, shape, d_model))}
        wide = [name for name, shape in free.items() if len(shape) == 2 and shape[1] == d_model and name not in tables]
        biased = tuple(name for name in wide if free.get(bias_of(name)) == (free[name][0],))
        matrices = tuple(name for name in wide if name not in biased)
        return cls({name: free[name][0] for name in wide}, matrices, biased, tables)

    def token_embedding(self, answers: Answers) -> str | None:
        """The tensor that embeds the tokens of an encoder; None where there is none."""
        if not self.matrices:
            return None
        named = [name for name in self.matrices if _is_called("embedding", name) and not _is_any(_NO_TOKENS, name)]
        if len(self.matrices) == len(named) == 1:
            return named[0]
        largest = max(self.matrices, key=lambda name: self.rows[name])
        names = dict.fromkeys([*(named if len(named) == 1 else [largest]), *self.matrices, NONE])
        found: str = choice(answers, "embedding", tuple(names), Message("why_names_open"))
        return None if found == NONE else found

    def position_table(self, embedding: str, answers: Answers) -> Table | None:
        """The table that is added to an encoder's tokens; it may be a matrix whose name does not say so."""
        names = tuple(self.tables)
        if len(names) == 1:
            return self.tables[names[0]]
        others = tuple(name for name in self.matrices if name != embedding)
        if not names and not others:
            return None
        options = (*names, NONE) if names else (NONE, *others)
        why = Message("why_names_and_order_open" if names else "why_cannot_be_proved")
        found = choice(answers, "position_table", options, why)
        return self.tables.get(found) or (None if found == NONE else Table(Source(found), self.rows[found], "learned"))

    def projection(self, answers: Answers) -> str | None:
        """The tensor that scores the target's vocabulary; None if its embedding does.

        A map with a bias is it, if it alone has as many rows as an embedding.
        """
        vocabularies = {self.rows[name] for name in self.matrices}
        fitting = [name for name in self.biased if self.rows[name] in vocabularies]
        if len(fitting) == 1:
            return fitting[0]
        plain = fitting or [name for name in self.matrices if not _is_called("embedding", name)]
        called = [name for name in plain if _is_called("projection", name)]
        usual = called if len(called) == 1 else plain if len(plain) == 1 else self.matrices[2:]
        options = dict.fromkeys([*usual[-1:], *(fitting or [TIED, *self.matrices])])
        found: str = choice(answers, "projection", tuple(options), Message("why_names_and_order"))
        return None if found == TIED else found

    def source_and_target(self, scores: str | None, answers: Answers) -> tuple[str, str]:
        """Which embedding reads the source and which the target; one alone reads both.

        Of two, the rows of what scores tell them apart if only one has as many.
        """
        names = [name for name in self.matrices if name != scores] or ["an embedding"]
        if len(names) == 1:
            own = [scores] if scores in self.matrices and self.rows[scores] == self.rows.get(names[0]) else []
            return names[0], _chosen("target_embedding", [names[0], *own], answers)
        fitting = [name for name in names if scores is not None and self.rows[name] == self.rows[scores]]
        if len(names) == 2 and len(fitting) == 1:
            return next(name for name in names if name != fitting[0]), fitting[0]
        source = _chosen("source_embedding", names, answers)
        return source, _chosen("target_embedding", [name for name in names if name != source], answers)

    def position_tables(self, answers: Answers) -> tuple[Table, Table] | None:
        """The tables whose rows are added to the source and to the target; None where none is.

        One serves both sides, unless its name gives it to one: then it is asked.
        """
        names = list(self.tables)
        if not names:
            return None
        if len(names) == 1:
            if any(_is_called(role, names[0]) for role in ("source_positions", "target_positions")):
                text, why = Message("question_one_position_table", table=names[0]), Message("why_one_side")
                if not choice(answers, "one_position_table", (False, True), why, text):
                    return None
            return self.tables[names[0]], self.tables[names[0]]
        source = _chosen("source_positions", names, answers)
        others = [name for name in names if name != source]
        return self.tables[source], self.tables[_chosen("target_positions", [*others, source], answers)]


def _chosen(role: str, names: Sequence[str], answers: Answers) -> str:
    """The one of `names` that plays a role: the only one, or what is answered; the only one called so is proposed.

    Words that all names share (a wrapper called `encoder_decoder`) say nothing.
    """
    if len(names) == 1:
        return names[0]
    shared = set.intersection(*(set(_words(name)) for name in names))
    called = [name for name in names if any(map(USUAL[role].fullmatch, set(_words(name)) - shared))]
    first = called[0] if len(called) == 1 else names[0]
    found: str = choice(answers, role, tuple(dict.fromkeys([first, *names])), Message("why_names_and_order"))
    return found


def after_layers(
    contents: Contents, free: Mapping[str, Shape], d_model: int, answers: Answers
) -> tuple[dict[str, Shape], dict[str, str]]:
    """What of the `free` tensors acts after the layers, and what might not, each with the reason.

    A chain of linear maps with biases out of the model's width does, if nothing leads back to it: no layer can read
    what it makes (but a single number may weigh states). Of everything else it is asked.
    """
    free = {name: shape for name, shape in free.items() if contents.tensors[name].is_floating_point()}
    after: dict[str, Shape] = {}
    widths = [d_model]
    for name, shape in free.items():
        is_map = len(shape) == 2 and free.get(bias_of(name)) == shape[:1]
        if is_map and shape[1] == widths[-1] and (shape[0] not in {1, d_model} or len(widths) > 1):
            after |= {name: shape, bias_of(name): shape[:1]}
            widths.append(shape[0])
    if any(shape[:1] == (d_model,) and shape[1:2] and shape[1] in widths[1:] for shape in free.values()):
        after = {}
    others = {name: shape for name, shape in free.items() if name not in after}
    if others:
        text = Message("question_others_after", some=some(others))
        if choice(answers, "others_after", (False, True), Message("why_nothing_tells"), text):
            return free, {}
    return after, dict.fromkeys(others, UNTOLD)


def head_maps(after: Mapping[str, Shape], d_model: int) -> list[str]:
    """The linear maps after the layers that follow one another: the first is as wide as the model."""
    free = {name: shape for name, shape in after.items() if name.endswith("weight") and len(shape) == 2}
    names: list[str] = []
    width = d_model
    while (name := next((name for name, shape in free.items() if shape[1] == width), None)) is not None:
        names.append(name)
        width = free.pop(name)[0]
    return names


def head_options(after: Mapping[str, Shape], d_model: int, vocab: int, answers: Answers) -> dict[str, Any]:
    """The part of an encoder's config that says what comes after its layers; empty where nothing of it is run."""
    names = head_maps(after, d_model)
    if not names:
        return {}
    widths = tuple(after[name][0] for name in names)
    others = set(after) - with_biases(names)
    usual = "none" if others else "each" if widths[-1] == vocab else "mean"
    why = Message("why_others_there" if others else "why_score_a_token" if usual == "each" else "why_one_for_all")
    options = tuple(dict.fromkeys([usual, "each", "mean", "first", "last", "none"]))
    reads = choice(answers, "head", options, why, is_open=usual == "mean", after_attention=True)
    if reads == "none":
        return {}
    between = "relu"
    if len(names) > 1:
        acts = ("relu", "gelu", "tanh")
        between = choice(answers, "head_activation", acts, Message("why_most_common"), after_attention=True)
    return {"head": widths, "head_reads": reads, "head_activation": between}


def with_biases(names: Iterable[str]) -> set[str]:
    """The names, and those of the biases beside them."""
    return {tensor for name in names for tensor in (name, bias_of(name))}


def bias_of(name: str) -> str:
    """The name of the bias that belongs to a weight."""
    return f"{name.removesuffix('weight')}bias"


def shared_prefix(names: Iterable[str]) -> str:
    """The modules that all `names` lie in, with their dots."""
    paths = [name.split(".")[:-1] for name in names]
    shared: list[str] = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return "".join(f"{part}." for part in shared)


def some(names: Iterable[str]) -> tuple[str, ...]:
    """The first few names, and that there are more."""
    listed = tuple(names)
    return listed if len(listed) <= 3 else (*listed[:3], Message("and_others"))


def _words(name: str) -> tuple[str, ...]:
    """The words of a dotted name in small letters: `src_tok_emb.weight` is `src`, `tok`, `emb`, `weight`."""
    return tuple(word.lower() for word in _WORD.findall(name))


def _is_any(words: re.Pattern[str], name: str) -> bool:
    return any(map(words.fullmatch, _words(name)))


def _is_called(role: str, name: str) -> bool:
    return _is_any(USUAL[role], name)


def _table(name: str, shape: Shape, d_model: int) -> Table | None:
    """A table called positions (no relative ones, no tags), d_model wide; perhaps with an axis for the batch."""
    if not _is_any(_POSITION, name) or _is_any(_NO_TOKENS, name) or not shape or shape[-1] != d_model:
        return None
    kind = "learned" if name.endswith("weight") else "stored"
    if len(shape) == 2:
        return Table(Source(name), shape[0], kind)
    if len(shape) == 3 and 1 in shape[:2]:
        axis = 0 if shape[0] == 1 else 1
        return Table(Source(name, extra_axis=axis), shape[1 - axis], kind)
    return None
