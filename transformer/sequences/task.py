"""What a sequence classifier decides: the letters that it reads, its classes, and how sure it may say it is."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from transformer.errors import ConfigError
from transformer.sequences.alphabet import Alphabet


@dataclass(frozen=True)
class Landmark:
    """Letters that biology expects at a position in one class: `start` counts from 0."""

    label: str
    start: int
    letters: str
    name: str


@dataclass(frozen=True)
class SequenceTask:
    """The part of a checkpoint's config that its model does not need, and whoever reads its answers does.

    `length` is that of the training sequences. Logits are divided by `temperature` before they become probabilities,
    which calibrates them. `meanings` says in words what a class is.

    Raises:
        ConfigError: fewer than two classes, one twice, or a temperature that is not positive.
    """

    alphabet: Alphabet
    classes: tuple[str, ...]
    length: int
    temperature: float = 1.0
    meanings: Mapping[str, str] = field(default_factory=dict)
    landmarks: tuple[Landmark, ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.classes)) < max(2, len(self.classes)):
            raise ConfigError("classes_of_task", classes=str(self.classes))
        if not 0 < self.temperature < 1e3:
            raise ConfigError("temperature_of_task", temperature=self.temperature)

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> "SequenceTask":
        """The task as config.json describes it.

        Raises:
            ConfigError: a field is missing or wrong.
        """
        try:
            rest = dict(described)
            alphabet = Alphabet.of(rest.pop("alphabet"))
            classes: Sequence[str] = rest.pop("classes")
            landmarks = tuple(Landmark(**landmark) for landmark in rest.pop("landmarks", ()))
            return cls(alphabet, tuple(classes), landmarks=landmarks, **rest)
        except (KeyError, TypeError) as error:
            raise ConfigError("task_not_complete", reason=str(error)) from error

    def described(self) -> dict[str, Any]:
        """What config.json holds; `of` reads it."""
        return asdict(self)
