"""Values of an untrusted JSON table: each is checked where it is read, and a refusal names its place in the table."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from torch import Tensor

from transformer.attention.record_files.contents import MOST_MESSAGE_PARTS
from transformer.messages import Message, parts
from transformer.safe.names import is_text
from transformer.safe.refusal import refused

MOST_COUNT = 2**40
MOST_NUMBER = 1e300


@dataclass(frozen=True, eq=False)
class Opened:
    """A file that is read: its name in messages, its tensors, which of them the table named, and which were checked."""

    name: str
    tensors: Mapping[str, Tensor]
    used: set[str] = field(default_factory=set)
    checked: set[Any] = field(default_factory=set)
    parts_left: list[int] = field(default_factory=lambda: [MOST_MESSAGE_PARTS])

    def refuse(self, code: str, /, **fields: object) -> NoReturn:
        """Refuse the file.

        Raises:
            CheckpointError: always.
        """
        raise refused(code, self.name, Message("remedy_save_record"), **fields)


@dataclass(frozen=True, eq=False)
class Entry:
    """A value of the table, and the place where it stands (`sites[3].source.scale`)."""

    value: Any
    place: str
    file: Opened

    @property
    def is_missing(self) -> bool:
        """Whether nothing, or null, stands there."""
        return self.value is None

    def wrong(self, expected: str) -> NoReturn:
        """Refuse the file because this is not what it has to be.

        Raises:
            CheckpointError: always.
        """
        self.file.refuse("record_entry", place=self.place, expected=expected)

    def table(self, *known: str) -> "Entry":
        """This, which has to be a table of some of the `known` names."""
        if not isinstance(self.value, dict) or not self.value.keys() <= set(known):
            self.wrong(Message("expected_table", names=known))
        return self

    def at(self, name: str) -> "Entry":
        """The value of a name of a table."""
        return Entry(self.value.get(name), f"{self.place}.{name}", self.file)

    def items(self, most: int, least: int = 0) -> list["Entry"]:
        """The items of a list."""
        if not isinstance(self.value, list) or not least <= len(self.value) <= most:
            self.wrong(Message("expected_list", least=least, most=most))
        return [Entry(item, f"{self.place}[{i}]", self.file) for i, item in enumerate(self.value)]

    def text(self) -> str:
        """A text that can be written."""
        if not isinstance(self.value, str) or not is_text(self.value):
            self.wrong(Message("expected_text"))
        return self.value

    def said(self) -> str:
        """A text, or a message of the catalogue; one that the catalogue does not know becomes its English text."""
        if not isinstance(self.value, dict):
            return self.text()
        self.table("code", "fields", "text")
        try:
            message = parts.unpacked(self.value, self.file.parts_left)
        except parts.NoMessageError:
            return self.at("text").text()
        return message if is_text(message) else self.at("text").text()

    def choice(self, choices: Collection[str]) -> str:
        """One of some names."""
        if not isinstance(self.value, str) or self.value not in choices:
            self.wrong(Message("expected_choice", choices=tuple(choices)))
        return self.value

    def yes(self) -> bool:
        """True or false; false where it is missing."""
        if self.value is not None and type(self.value) is not bool:
            self.wrong(Message("expected_yes_or_no"))
        return bool(self.value)

    def count(self, most: int = MOST_COUNT, least: int = 0) -> int:
        """A whole number."""
        if type(self.value) is not int or not least <= self.value <= most:
            self.wrong(Message("expected_count", least=least, most=most))
        return self.value

    def counts(self, most: int, most_items: int) -> tuple[int, ...]:
        """A list of whole numbers, none above `most`."""
        values = self.value
        if not isinstance(values, list) or len(values) > most_items:
            self.wrong(Message("expected_list", least=0, most=most_items))
        if not all(type(value) is int and 0 <= value <= most for value in values):
            self.wrong(Message("expected_counts", most=most))
        return tuple(values)

    def number(self) -> float:
        """A finite number."""
        if type(self.value) not in {int, float} or not abs(self.value) < MOST_NUMBER:
            self.wrong(Message("expected_number"))
        return float(self.value)
