"""What a sequence classifier decides: the letters that it reads, its classes, and how sure it may say it is."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ..errors import ConfigError
from ..messages import Message
from .alphabet import Alphabet

MOST_LETTERS = 10_000_000
"""The longest training sequence that a task may name, and the last place of a landmark."""

HOTTEST = 1_000
"""Temperatures lie below."""

MOST_ENTRIES, LONGEST_TEXT = 1_000, 1_000
"""Entries of a list or a table in a task, and characters of a text in it."""


@dataclass(frozen=True)
class Landmark:
    """Letters that biology expects at a position in one class: `start` counts from 0.

    `term` is what the Sequence Ontology calls these letters (`SO:0000163`), empty where it is not said.
    """

    label: str
    start: int
    letters: str
    name: str
    term: str = ""


@dataclass(frozen=True)
class SequenceTask:
    """The part of a checkpoint's config that its model does not need, and whoever reads its answers does.

    `length` is that of the training sequences. Logits are divided by `temperature` before they become probabilities,
    which calibrates them. `meanings` says in words what a class is. `background` is the class that says that there is
    nothing to be found, empty where no class does. `translations` holds, by the code of a language (`zh`) and by the
    text as it is written here, what a meaning or the name of a landmark is in that language.

    Raises:
        ConfigError: under two classes, one twice, a background that is none, or a temperature that is not positive.
    """

    alphabet: Alphabet
    classes: tuple[str, ...]
    length: int
    temperature: float = 1.0
    meanings: Mapping[str, str] = field(default_factory=dict)
    landmarks: tuple[Landmark, ...] = ()
    background: str = ""
    translations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(set(self.classes)) < max(2, len(self.classes)):
            raise ConfigError("classes_of_task", classes=str(self.classes))
        if not 0 < self.temperature < HOTTEST:
            raise ConfigError("temperature_of_task", temperature=self.temperature)
        if self.background and self.background not in self.classes:
            raise ConfigError("background_of_task", background=self.background, classes=self.classes)

    @classmethod
    def of(cls, described: Any) -> "SequenceTask":
        """The task as config.json describes it, which may be anything that JSON can say.

        Raises:
            ConfigError: a field is missing or wrong; the message names it.
        """
        rest = _table(described, "task")
        _known(rest, "task", {one.name for one in fields(cls)}, {"alphabet", "classes", "length"})
        temperature = rest.get("temperature", 1.0)
        if type(temperature) not in {int, float} or not 0 < temperature < HOTTEST:
            raise _wrong("task.temperature", temperature, Message("need_temperature", most=HOTTEST))
        return cls(
            alphabet=_alphabet(rest["alphabet"]),
            classes=tuple(_text(name, "task.classes") for name in _list(rest["classes"], "task.classes")),
            length=_whole(rest["length"], "task.length", least=1),
            temperature=float(temperature),
            meanings=_texts(rest.get("meanings", {}), "task.meanings"),
            landmarks=tuple(_landmark(one) for one in _list(rest.get("landmarks", []), "task.landmarks")),
            background=_text(rest["background"], "task.background") if rest.get("background", "") != "" else "",
            translations={
                language: _texts(texts, f"task.translations.{language:.80}")
                for language, texts in _table(rest.get("translations", {}), "task.translations").items()
            },
        )

    @property
    def findable(self) -> tuple[str, ...]:
        """The classes that a scan looks for: all but the background."""
        return tuple(name for name in self.classes if name != self.background)

    def landmark(self, label: str) -> Landmark | None:
        """The landmark of a class; None where the task names none, or none that lies within its windows."""
        fit = (one for one in self.landmarks if one.start + len(one.letters) <= self.length)
        return next((one for one in fit if one.label == label), None)

    def in_language(self, text: str, language: str) -> str:
        """A meaning or a landmark's name in a language; as it is written where the task does not say it in that one."""
        return self.translations.get(language, {}).get(text, text)

    def described(self) -> dict[str, Any]:
        """What config.json holds; `of` reads it."""
        return asdict(self)


def _alphabet(described: Any) -> Alphabet:
    """An alphabet by name, or spelt out: one character a code, and every code means letters."""
    where = "task.alphabet"
    if isinstance(described, str):
        return Alphabet.of(described[:LONGEST_TEXT])
    rest = _table(described, where)
    names = {one.name for one in fields(Alphabet)}
    _known(rest, where, names, names)
    texts = {key: _text(rest[key], f"{where}.{key}") for key in ("name", "letters", "unknown")}
    tables = {key: _texts(rest[key], f"{where}.{key}") for key in ("ambiguous", "aliases", "complement")}
    for key, table in tables.items():
        for code, meant in table.items():
            if len(code) != 1 or not meant or (key != "ambiguous" and len(meant) != 1):
                raise _wrong(f"{where}.{key}", {code: meant}, Message("need_code"))
    readable = set(texts["letters"]) | tables["ambiguous"].keys()
    for key in ("aliases", "complement"):
        if not readable.issuperset(tables[key].values()):
            raise _wrong(f"{where}.{key}", tables[key], Message("need_letters"))
    return Alphabet(
        texts["name"], texts["letters"], texts["unknown"],
        tables["ambiguous"], tables["aliases"], tables["complement"],
    )  # fmt: skip


def _landmark(described: Any) -> Landmark:
    where = "task.landmarks"
    rest = _table(described, where)
    names = {one.name for one in fields(Landmark)}
    _known(rest, where, names, names - {"term"})
    texts = {key: _text(rest[key], f"{where}.{key}") for key in ("label", "letters", "name")}
    if rest.get("term", "") != "":
        texts["term"] = _text(rest["term"], f"{where}.term")
    return Landmark(start=_whole(rest["start"], f"{where}.start", least=0), **texts)


def _wrong(where: str, value: Any, needed: Message) -> ConfigError:
    """The error that a field is of the wrong kind; a long value is cut."""
    return ConfigError("task_field_wrong", where=where, value=_shown(value), needed=needed)


def _shown(value: Any) -> str:
    """A value for a message: numbers and texts are cut, of anything nested only the kind is said."""
    if isinstance(value, list | dict):
        return Message("shown_list" if isinstance(value, list) else "shown_table", count=len(value))
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        return Message("shown_long_number")
    return f"{value!r:.80}"


def _known(found: Mapping[str, Any], where: str, names: set[str], needed: set[str]) -> None:
    if unknown := sorted(found.keys() - names):
        raise ConfigError("task_field_unknown", where=where, found=f"{unknown[0]!r:.80}", known=tuple(sorted(names)))
    if missing := sorted(needed - found.keys()):
        raise ConfigError("task_field_missing", where=where, missing=tuple(f"`{name}`" for name in missing))


def _table(found: Any, where: str) -> dict[str, Any]:
    if not isinstance(found, Mapping) or len(found) > MOST_ENTRIES:
        raise _wrong(where, found, Message("need_table", most=MOST_ENTRIES))
    return dict(found)


def _list(found: Any, where: str) -> list[Any]:
    if not isinstance(found, list | tuple) or len(found) > MOST_ENTRIES:
        raise _wrong(where, found, Message("need_list", most=MOST_ENTRIES))
    return list(found)


def _text(found: Any, where: str) -> str:
    if not isinstance(found, str) or not 0 < len(found) <= LONGEST_TEXT:
        raise _wrong(where, found, Message("need_text", most=LONGEST_TEXT))
    return found


def _texts(found: Any, where: str) -> dict[str, str]:
    return {key: _text(value, f"{where}.{key:.80}") for key, value in _table(found, where).items()}


def _whole(found: Any, where: str, least: int) -> int:
    if type(found) is not int or not least <= found <= MOST_LETTERS:
        raise _wrong(where, found, Message("need_whole", least=least, most=MOST_LETTERS))
    return found
