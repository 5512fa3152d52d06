"""The tour, the questions and the glossary, read from TOML files; their sentences are in `messages`."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal
from urllib.parse import parse_qsl

Kind = Literal["number", "choice", "several", "order", "row"]
"""What is predicted: a number, one option, a set of options, their order, or the weights of a row."""

Reads = Literal["translator", "classifier", "toy", "nothing"]
"""What a question is about: a checkpoint of a kind, a toy on typed words, or a formula."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """What a page shows at an address."""

    name: str
    page: str
    address: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Question(Placed):
    """A question that is answered by the function of its name; `page` and `address` show what it is about."""

    kind: Kind = "number"
    reads: Reads = "translator"
    tolerance: float = 0.0
    unit: str = ""
    """What the scores of its options are, if they have any: one of the catalogue's `questions.unit_`."""
    fixed: int = 0
    """How many options stand in the texts; 0 where they come from the run."""
    formula: str = ""
    """What the answer rests on, for paper: plain text, `_` before what is set lower, `^` before what is higher."""


@dataclass(frozen=True, kw_only=True)
class Step(Placed):
    """One step of the tour or of a branch: a page at an address, a sentence, perhaps a question, and what is lit."""

    branch: str
    label: str
    lit: str = "matrices"
    question: str = ""
    minutes: int = 2


@dataclass(frozen=True, kw_only=True)
class Term(Placed):
    """A term of the glossary: how it is written in formulas, its shape, and a page that shows it."""

    symbol: str = ""
    shape: str = ""


@cache
def questions() -> Mapping[str, Question]:
    """All questions, by name."""
    return {name: Question(name=name, **_placed(one)) for name, one in _read("questions").items()}


@cache
def steps() -> tuple[Step, ...]:
    """The steps of the tour, then those of its branches: numbers first, then a letter and a number."""
    return tuple(
        Step(name=name, branch=branch, label=f"{letter}{number}".strip(), **_placed(one))
        for letter, (branch, listed) in zip(" ABCDEFGH", _read("tour").items(), strict=False)
        for number, (name, one) in enumerate(listed.items(), 1)
    )


@cache
def terms() -> Mapping[str, Term]:
    """All terms of the glossary, by name."""
    return {name: Term(name=name, **_placed(one)) for name, one in _read("glossary").items()}


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def _placed(one: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an entry, with its query string as a table."""
    return {**one, "address": dict(parse_qsl(one.get("address", ""), keep_blank_values=True))}
