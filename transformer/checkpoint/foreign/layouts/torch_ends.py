"""What people put around torch's layers, under any name: embeddings, positions, a projection.

Roles are told from shapes first (a matrix with a bias beside it is no embedding) and from words in the name second;
what stays open is asked.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformer.checkpoint.foreign.layouts.base import Source
from transformer.checkpoint.foreign.layouts.roles import (
    is_embedding,
    is_position,
    is_second_embedding,
    mentions_embedding,
    module_of,
    name_words,
    names_tokens,
    says_after,
    says_linear,
    shared_prefix,
)
from transformer.checkpoint.foreign.questions import Answers, Question, choice
from transformer.checkpoint.safe.contents import Shape
from transformer.messages import Message

_PROJECTION = re.compile(
    r"gener|proj|head|logit|vocab|(?:^|[._])(?:fc|out|output|linear|classifier)\d*[._]", re.IGNORECASE
)
_TARGET = re.compile(r"tgt\w*|trg\w*|target\w*|dec(?!od(?:ing|ed))\w*|outs?|outputs?")
_SOURCE = re.compile(r"src\w*|source\w*|enc(?!od(?:ing|ed))\w*|in|inp|inputs?")

FORMULAS = ("sinusoidal", "doubled", "halved", "tensor2tensor", "none")
"""How positions are told where the file holds no table: the paper's formula first, then as others programmed it."""

NONE = "none"
"""The answer that no tensor of the file plays a part."""

TIED = "tied"
"""The answer that the projection is the target's embedding itself."""


@dataclass(frozen=True)
class Table:
    """Rows that are added to positions: a parameter (`learned`) or a buffer (`stored`)."""

    source: Source
    length: int
    kind: str

    @property
    def name(self) -> str:
        """What it is called in the file."""
        return str(self.source.name)


@dataclass(frozen=True)
class Ends:
    """The tensors around the layers by role. `matrices` are as wide as the model, and have no bias beside them.

    `prefix` is what all names of the file begin with.
    """

    matrices: tuple[str, ...]
    biased: tuple[str, ...]
    tables: tuple[Table, ...]
    prefix: str = ""

    def embeds(self, name: str) -> bool:
        """Whether a matrix's own name says that it embeds what is read."""
        return is_embedding(name.removeprefix(self.prefix))

    def scores(self, name: str) -> bool:
        """Whether a matrix's own name is one that projections have."""
        return bool(_PROJECTION.search(name.removeprefix(self.prefix)))


def find_ends(shapes: Mapping[str, Shape], used: Iterable[str], d_model: int) -> Ends:
    """The tensors that are not part of a layer and are as wide as the model, by what their shapes tell."""
    taken = set(used)
    free = {name: shape for name, shape in shapes.items() if name not in taken}
    tables = {name: table for name, shape in free.items() if (table := _table(name, shape, d_model))}
    wide = [name for name, shape in free.items() if len(shape) == 2 and shape[1] == d_model and name not in tables]
    biased = tuple(name for name in wide if free.get(bias_of(name)) == (free[name][0],))
    unbiased = tuple(name for name in wide if name not in biased)
    return Ends(unbiased, biased, tuple(tables.values()), shared_prefix(shapes))


def projection(ends: Ends, rows: Mapping[str, int], answers: Answers) -> str | None:
    """The tensor that scores the target's vocabulary; None if its embedding does. Asked where it is not clear.

    `rows` gives the rows of each. A map with a bias is it if it has as many as an embedding; of several, names tell. Of
    matrices without, a name decides where just one is called like a projection and none of it like an embedding;
    otherwise the one that is not called an embedding is proposed, or the last.
    """
    vocabularies = {rows[name] for name in ends.matrices}
    fitting = [name for name in ends.biased if rows[name] in vocabularies]
    likely = [name for name in fitting if ends.scores(name)]
    if len(likely) == 1 or len(fitting) == 1:
        return (likely if len(likely) == 1 else fitting)[0]
    if fitting:
        return choice(answers, "projection", _usual(fitting, fitting[-1]), Message("why_order"))
    named = [name for name in ends.matrices if ends.scores(name) and not ends.embeds(name)]
    clear = [name for name in named if not mentions_embedding(name.removeprefix(ends.prefix))]
    if len(named) == len(clear) == 1 and len(ends.matrices) > 1:
        return named[0]
    plain = [name for name in ends.matrices if not ends.embeds(name) and not is_second_embedding(name)]
    plain = [name for name in plain if name not in named or name in clear] or plain  # `emb_out` may embed the target
    usual = plain[0] if len(plain) == 1 and len(ends.matrices) > 1 else TIED
    if usual == TIED and len(ends.matrices) > 2:
        usual = ends.matrices[-1]
    options = dict.fromkeys([usual, TIED, *ends.matrices])
    found = choice(answers, "projection", tuple(options), Message("why_names_and_order"))
    return None if found == TIED else found


def sides(names: Sequence[str]) -> dict[str, str]:
    """Which of `names` say that they belong to the `source` and which to the `target`; others are left out.

    Words that all of several names share (a wrapper called `encoder_decoder`) say nothing.
    """
    said = {name: set(name_words(name)) for name in names}
    shared = set.intersection(*said.values()) if len(said) > 1 else set()
    found = {}
    for name, own in said.items():
        source, target = (any(map(kind.fullmatch, own - shared)) for kind in (_SOURCE, _TARGET))
        if source != target:
            found[name] = "source" if source else "target"
    return found


def source_and_target(
    embeddings: Mapping[str, int], answers: Answers, target_vocab: int | None, scores: str | None = None
) -> tuple[str, str]:
    """Which embedding reads the source and which the target; one alone reads both.

    `embeddings` gives the rows of each, `target_vocab` those of the projection, `scores` names a projection that may
    be the target's embedding too. Asked where nothing tells.
    """
    names = tuple(name for name in embeddings if not is_second_embedding(name)) or tuple(embeddings)
    side = sides(names)
    if len(names) == 1:
        if side and scores is not None:  # one side's alone, by its name
            other = (names[0], scores) if side[names[0]] == "target" else (scores, names[0])
            return names[0], choice(answers, "target_embedding", other, Message("why_no_other"))
        return names[0], names[0]
    fitting = [name for name in names if embeddings[name] == target_vocab]
    called = {kind: [name for name in names if side.get(name) == kind] for kind in ("source", "target")}
    target = called["target"][0] if len(called["target"]) == 1 else None
    source = called["source"][0] if len(called["source"]) == 1 else None
    if target is None and len(fitting) == 1 and fitting[0] != source:
        target = fitting[0]
    why = Message("why_order")
    if len(names) == 2 and (source or target):
        source = source or next(name for name in names if name != target)
        target = target or next(name for name in names if name != source)
        if side:
            return source, target
        if is_embedding(source) == is_embedding(target):  # the rows of the projection tell them apart
            return answers.ask(
                Question("source_embedding", Message("question_source_embedding"), source, (source, target), rare=True)
            ), target
        why = Message("why_not_called_embedding")
        return choice(answers, "source_embedding", _usual(names, max(names, key=is_embedding)), why), target
    if source is None:
        usual = _usual(names, next(name for name in names if name != target))
        source = choice(answers, "source_embedding", usual, why)
    if target is None or target == source:
        target = choice(answers, "target_embedding", tuple(n for n in names if n != source), why)
    return source, target


def token_embedding(ends: Ends, answers: Answers) -> str | None:
    """The tensor that embeds the tokens, by its name; asked where names leave it open. None where there is none.

    A name that is the only one to speak of an embedding is believed, but may be answered away: positions too are called
    so, and the tokens' table by a letter.
    """
    likely = [name for name in ends.matrices if ends.embeds(name)]
    if len(likely) > 1:
        likely = [name for name in likely if names_tokens(name.removeprefix(ends.prefix))] or likely
    if len(likely) == 1:
        options = tuple(likely + _open(ends, likely[0]))
        return answers.ask(Question("embedding", Message("question_embedding"), likely[0], options, rare=True))
    possible = [name for name in ends.matrices if not says_after(name_words(module_of(name.removeprefix(ends.prefix))))]
    if not possible:
        return None
    names = tuple(dict.fromkeys([*likely, *possible, NONE]))
    found = choice(answers, "embedding", names, Message("why_names_open"))
    return None if found == NONE else found


def _open(ends: Ends, embedding: str | None) -> list[str]:
    """The matrices beside the tokens' whose names say nothing of what they are."""
    said = {name: set(name_words(module_of(name.removeprefix(ends.prefix)) or name)) for name in ends.matrices}
    return [
        name
        for name, words in said.items()
        if name != embedding and not says_after(words) and not says_linear(words) and not is_second_embedding(name)
    ]


def position_table(
    ends: Ends, shapes: Mapping[str, Shape], path: str, answers: Answers, embedding: str | None
) -> Table | None:
    """The table that is added before the layers at `path`; asked where there are several, or it might act later.

    Where none is called so, it may be answered that a matrix whose name says nothing is it.
    """
    tables = {table.name: table for table in ends.tables}
    if not tables:
        unnamed = _open(ends, embedding) if embedding is not None else []
        if not unnamed:
            return None
        found = choice(answers, "position_table", (NONE, *unnamed), Message("why_cannot_be_proved"))
        return None if found == NONE else Table(Source(found), shapes[found][0], "learned")
    names, order = tuple(tables), tuple(shapes)
    last = max(i for i, name in enumerate(order) if name.startswith(path))
    clear = len(names) == 1 and order.index(names[0]) < last and not says_after(name_words(names[0]))
    why = Message("why_names_and_order_open")
    chosen = names[0] if clear else choice(answers, "position_table", (*names, NONE), why)
    return tables.get(chosen)


def position_tables(tables: Sequence[Table], answers: Answers) -> tuple[Table, Table] | None:
    """The tables whose rows are added to the source and to the target; None where none is.

    One serves both sides, unless its name gives it to one: then it is asked whether it serves the other as well. Of
    several, names tell; where they do not, it is asked, since their order may be either.
    """
    by_name = {table.name: table for table in tables}
    names = tuple(by_name)
    side = sides(names)
    if not names:
        return None
    if len(names) == 1:
        if side:
            text, why = Message("question_one_position_table", table=names[0]), Message("why_one_side")
            if not choice(answers, "one_position_table", (False, True), why, text):
                return None
        return tables[0], tables[0]
    chosen = []
    for i, kind in enumerate(("source", "target")):
        called = [name for name in names if side.get(name) == kind]
        if len(called) == 1:
            chosen.append(called[0])
            continue
        rest = [name for name in names if name not in chosen and name not in side]
        if len(names) == 2 and len(side) == 1 and len(rest) == 1:  # the other one is named
            chosen.append(rest[0])
            continue
        usual = _usual(names, names[0] if i == 0 else next(n for n in reversed(names) if n not in chosen))
        chosen.append(choice(answers, f"{kind}_positions", usual, Message("why_order")))
    return by_name[chosen[0]], by_name[chosen[1]]


def _usual(names: Sequence[str], first: str) -> tuple[str, ...]:
    """The options with the proposed one in front."""
    return tuple(dict.fromkeys([first, *names]))


def head_maps(after: Mapping[str, Shape], d_model: int) -> list[str]:
    """The linear maps after the layers that follow one another: the first is as wide as the model."""
    free = {name: shape for name, shape in after.items() if name.endswith("weight") and len(shape) == 2}
    names: list[str] = []
    width = d_model
    while (name := next((name for name, shape in free.items() if shape[1] == width), None)) is not None:
        names.append(name)
        width = free.pop(name)[0]
    return names


def head_options(
    after: Mapping[str, Shape], d_model: int, vocab: int, answers: Answers, has_class_token: bool = False
) -> dict[str, Any]:
    """The part of an encoder's config that says what comes after its layers; empty where nothing of it is run."""
    names = head_maps(after, d_model)
    if not names:
        return {}
    widths = tuple(after[name][0] for name in names)
    others = set(after) - {tensor for name in names for tensor in (name, bias_of(name))}
    whole = "first" if has_class_token else "mean"
    usual = "none" if others else "each" if widths[-1] == vocab else whole
    why = Message("why_score_a_token") if usual == "each" else Message("why_one_for_all")
    why = Message("why_others_there") if others else why
    options = tuple(dict.fromkeys([usual, "each", "mean", "first", "last", "none"]))
    reads = choice(answers, "head", options, why, is_open=usual == whole, after_attention=True)
    if reads == "none":
        return {}
    between = "relu"
    if len(names) > 1:
        acts = ("relu", "gelu", "tanh")
        between = choice(answers, "head_activation", acts, Message("why_most_common"), after_attention=True)
    return {"head": widths, "head_reads": reads, "head_activation": between}


def bias_of(name: str) -> str:
    """What the bias beside a weight is called."""
    return f"{name.removesuffix('weight')}bias"


def _table(name: str, shape: Shape, d_model: int) -> Table | None:
    """A positional table: named like one, d_model wide; perhaps with an axis for the batch."""
    if not is_position(name) or not shape or shape[-1] != d_model:
        return None
    kind = "learned" if name.endswith("weight") else "stored"
    if len(shape) == 2:
        return Table(Source(name), shape[0], kind)
    if len(shape) == 3 and 1 in shape[:2]:
        axis = 0 if shape[0] == 1 else 1
        return Table(Source(name, extra_axis=axis), shape[1 - axis], kind)
    return None
