"""What shapes cannot tell is asked, with a default that is usually right; what was assumed is said."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transformer.errors import CheckpointError

ALIASES = {"heads": "n_heads", "nhead": "n_heads", "n_head": "n_heads", "sos_id": "bos_id"}
"""Other words in use for the same answers."""


@dataclass(frozen=True)
class Question:
    """Something about a checkpoint that its names and shapes do not say.

    `options` lists every possible answer, or is empty where any whole number of at least `least` will do, or any
    number between 0 and 1 where `is_number`; `default` is what is assumed when nobody answers, and `why` says so in a
    sentence. The default of a `rare` one is what the layout's own code has, so it is no assumption.
    """

    name: str
    text: str
    default: Any
    options: tuple[Any, ...] = ()
    why: str = ""
    least: int = 0
    is_number: bool = False
    rare: bool = False

    def check(self, answer: Any) -> Any:
        """The answer, if it is a possible one.

        Raises:
            CheckpointError: it is not; the message lists those that are.
        """
        if self.options:
            for option in self.options:
                if answer == option and isinstance(answer, bool) == isinstance(option, bool):
                    return option
            raise CheckpointError(
                f"{self.name}={answer!r} does not fit: choose one of {', '.join(map(repr, self.options))}"
            )
        if self.is_number:
            if type(answer) in {int, float} and 0 < answer < 1:
                return float(answer)
            raise CheckpointError(f"{self.name}={answer!r} does not fit: give a number between 0 and 1")
        if type(answer) is not int or not self.least <= answer < 2**31:
            raise CheckpointError(f"{self.name}={answer!r} does not fit: give a whole number of at least {self.least}")
        return answer


@dataclass
class Answers:
    """The answers that were given, and the questions that came up. Asking again gives the same answer."""

    given: Mapping[str, Any]
    asked: dict[str, Question] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Answers":
        """Answers under their usual names.

        Raises:
            CheckpointError: one thing is answered twice, under two names.
        """
        named: dict[str, Any] = {}
        for name, answer in given.items():
            usual = ALIASES.get(name, name)
            if named.setdefault(usual, answer) != answer:
                raise CheckpointError(f"{usual} is answered twice, {named[usual]!r} and {answer!r}: keep one")
        return cls(named)

    def ask(self, question: Question) -> Any:
        """The given answer, or the default.

        Raises:
            CheckpointError: the given answer is not a possible one.
        """
        self.asked[question.name] = question
        return question.check(self.given[question.name]) if question.name in self.given else question.default

    def know(self, name: str, value: Any, how: str) -> Any:
        """What the file itself says, so that it need not be asked. An answer that differs is refused.

        Raises:
            CheckpointError: an answer was given that contradicts the file.
        """
        if name in self.given and self.given[name] != value:
            raise CheckpointError(f"{name}={self.given[name]!r} contradicts the file, {how} {value!r}: leave it out")
        self.known[name] = value
        return value

    def check_all_used(self, config: Any) -> None:
        """Refuse answers that nothing asked for, unless they repeat what the file says anyway.

        Raises:
            CheckpointError: names the answer and the questions there are.
        """
        for name, answer in self.given.items():
            if name in self.asked or name in self.known or getattr(config, name, None) == answer:
                continue
            if hasattr(config, name):
                raise CheckpointError(
                    f"{name}={answer!r} contradicts the file, which says {getattr(config, name)!r}: leave it out"
                )
            usual_first = sorted(self.asked, key=lambda name: self.asked[name].rare)
            choices = ", ".join(usual_first) or "(none)"
            raise CheckpointError(
                f"{name}={answer!r} answers nothing that is asked of this file: the questions are {choices}"
            )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was assumed for want of an answer, a sentence each."""
        return tuple(
            f"{q.name}={q.default!r} is assumed{f' ({q.why})' if q.why else ''}"
            for q in self.asked.values()
            if q.name not in self.given and not q.rare
        )


def heads_question(d_model: int, usual: int = 8) -> Question:
    """How many heads share the width; every divisor is possible."""
    divisors = tuple(n for n in range(1, d_model + 1) if d_model % n == 0)
    if d_model % 64 == 0 and d_model >= 128:
        default, why = d_model // 64, "64 numbers a head, as in the paper"
    else:
        default = max(n for n in divisors if n <= usual)
        why = f"the largest divisor of d_model={d_model} up to the usual {usual}"
    return Question("n_heads", "How many attention heads does each layer have?", default, divisors, why)


def special_id_questions(answers: Answers, pad_id: int = 0, bos_id: int = 1, eos_id: int = 2) -> dict[str, int]:
    """Ask for the three ids that mean no word."""
    texts = {
        "pad_id": "Which id is padding (-1: none)?",
        "bos_id": "Which id starts a target?",
        "eos_id": "Which id ends a target?",
    }
    defaults = {"pad_id": pad_id, "bos_id": bos_id, "eos_id": eos_id}
    return {name: mark(answers, name, text, defaults[name]) for name, text in texts.items()}


def norm_eps(answers: Answers, default: float) -> float:
    """Ask for what LayerNorm adds to the variance (or the deviation) before it divides."""
    text = "What does LayerNorm add before it divides?"
    return answers.ask(Question("norm_eps", text, default, why="as in the original", is_number=True, rare=True))


def target_pad(answers: Answers, pad_id: int) -> int | None:
    """Ask for the target's own padding id; None where it is the source's."""
    text = "Which id is padding in the target, if another than in the source (-1: none)?"
    found = answers.ask(Question("target_pad_id", text, pad_id, why="one padding id", least=-1, rare=True))
    return None if found == pad_id else found


def seq2seq_marks(answers: Answers, pad_id: int = 0, bos_id: int = 1, eos_id: int = 2) -> dict[str, Any]:
    """The marks of an encoder-decoder, whose target may be padded with an id of its own."""
    marks = special_id_questions(answers, pad_id, bos_id, eos_id)
    return {**marks, "target_pad_id": target_pad(answers, marks["pad_id"])}


def mark(answers: Answers, name: str, text: str, default: int) -> int:
    """Ask for one id; -1 says that there is none."""
    return answers.ask(Question(name, text, default, why="a common choice", least=-1))


def choice(answers: Answers, name: str, text: str, options: Sequence[Any], why: str = "") -> Any:
    """Ask for one of `options`; the first is the default."""
    return answers.ask(Question(name, text, options[0], tuple(options), why))
