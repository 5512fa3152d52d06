"""The tour, the questions, the cards and the glossary, read from TOML files; their sentences are in `messages`."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args
from urllib.parse import parse_qsl

from transformer.errors import InputError

Kind = Literal["number", "choice", "several", "order", "row"]
"""What is predicted: a number, one option, a set of options, their order, or the weights of a row."""

Reads = Literal["translator", "classifier", "toy", "nothing"]
"""What a question is about: a checkpoint of a kind, a toy on typed words, or a formula."""

TOUR = "tour"
"""The way through all pages; the other branches begin where it ends."""


@dataclass(frozen=True)
class Question:
    """A question that is answered by the function of its name; `page` and `address` show what it is about."""

    name: str
    page: str
    address: Mapping[str, str]
    kind: Kind = "number"
    reads: Reads = "translator"
    tolerance: float = 0.0
    fixed: int = 0
    """How many options stand in the texts; 0 where they come from the run."""
    formula: str = ""
    """What the answer rests on, for paper: plain text, `_` before what is set lower, `^` before what is higher."""


@dataclass(frozen=True)
class Step:
    """One step of the tour or of a branch: a page at an address, a sentence, perhaps a question, and what is lit."""

    name: str
    branch: str
    label: str
    page: str
    address: Mapping[str, str]
    lit: str = "matrices"
    question: str = ""
    minutes: int = 2


@dataclass(frozen=True)
class Card:
    """A misconception, and the function whose run contradicts it."""

    name: str
    truth: str
    page: str
    address: Mapping[str, str]
    reads: Reads = "translator"


@dataclass(frozen=True)
class Term:
    """A term of the glossary: how it is written in formulas, its shape, and a page that shows it."""

    name: str
    page: str
    address: Mapping[str, str]
    symbol: str = ""
    shape: str = ""


@cache
def questions() -> Mapping[str, Question]:
    """All questions, by name.

    Raises:
        InputError: one is of no known kind.
    """
    found = {name: Question(name=name, **_placed(one)) for name, one in _read("questions").items()}
    for one in found.values():
        if one.kind not in get_args(Kind) or one.reads not in get_args(Reads):
            raise InputError("teaching_no_such_kind", name=one.name)
    return found


@cache
def steps() -> tuple[Step, ...]:
    """The steps of the tour, then those of its branches: numbers first, then a letter and a number."""
    made = []
    for letter, (branch, listed) in zip(" ABCDEFGH", _read("tour").items(), strict=False):
        for number, (name, one) in enumerate(listed.items(), 1):
            made.append(Step(name=name, branch=branch, label=f"{letter}{number}".strip(), **_placed(one)))
    return tuple(made)


@cache
def cards() -> tuple[Card, ...]:
    """All misconceptions."""
    return tuple(Card(name=name, **_placed(one)) for name, one in _read("cards").items())


@cache
def terms() -> Mapping[str, Term]:
    """All terms of the glossary, by name."""
    return {name: Term(name=name, **_placed(one)) for name, one in _read("glossary").items()}


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def _placed(one: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an entry, with its query string as a table."""
    return {**one, "address": dict(parse_qsl(one.get("address", ""), keep_blank_values=True))}
