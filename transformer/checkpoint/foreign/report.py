"""What is asked of a file, and a report instead of a stack trace.

What shapes cannot tell is asked, without a default where none is likely; what was assumed is said. The report says what
a file is taken for, what does not fit, and what would have to change.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...errors import CheckpointError
from ...messages import Message
from ...nn.common import Config
from ...safe.contents import Shape, shape_text
from ..checkpoint import guesses
from .layouts.base import Fit

SETTINGS = {
    "n_heads": ("n_heads", "nhead", "n_head", "num_heads", "heads", "num_attention_heads", "attention_heads"),
    "activation": ("activation", "activation_function", "hidden_act"),
    "norm_first": ("norm_first", "pre_norm", "normalize_before"),
    "norm_eps": ("norm_eps", "layer_norm_eps"),
    "target_pad_id": ("target_pad_id", "trg_pad_idx", "tgt_pad_idx"),
    "pad_id": ("pad_id", "pad_idx", "padding_idx", "pad_token_id", "src_pad_idx"),
    "bos_id": ("bos_id", "bos_idx", "sos_id", "sos_idx", "bos_token_id"),
    "eos_id": ("eos_id", "eos_idx", "eos_token_id"),
    "causal": ("causal", "is_causal"),
    "scale_embedding": ("scale_embedding", "scale_embeddings"),
    "positions": ("positions", "positional_encoding", "position_encoding"),
}
"""What trainers call the same things in the options beside the weights."""

BESIDE = "config.json"
"""Where an option stands whose name says no place."""


@dataclass(frozen=True)
class Question:
    """Something about a checkpoint that its names and shapes do not say.

    `text` asks it. `options` lists every possible answer, or is empty where any whole number of at least `least` will
    do, or any number between 0 and 1 where `is_number`; `default` is what is assumed when nobody answers, and `why`
    says so. The default of a `rare` one is what the layout's own code has, so it is no assumption; nor is one that an
    option beside the weights says, at a `place` in the file. An `is_open` one must be answered: its default
    is only what shapes are compared with. One that comes `after_attention` changes no map, whatever its answer.
    """

    name: str
    text: str
    default: Any
    options: tuple[Any, ...] = ()
    why: str = ""
    least: int = 0
    is_number: bool = False
    rare: bool = False
    place: str = ""
    is_open: bool = False
    after_attention: bool = False
    is_answered: bool = False

    @property
    def assumption(self) -> Message | None:
        """That the default is assumed, and whether attention depends on it; None where it is not."""
        if self.is_answered or self.rare or self.place or self.is_open:
            return None
        said: dict[str, Any] = {"name": self.name, "default": repr(self.default)}
        if self.after_attention:
            return Message("assumed_after", **said)
        return Message("assumed_because", **said, why=self.why) if self.why else Message("assumed", **said)

    def check(self, answer: Any) -> Any:
        """The answer, if it is a possible one.

        Raises:
            CheckpointError: it is not; the message lists those that are.
        """
        if self.options:
            for option in self.options:
                if answer == option and isinstance(answer, bool) == isinstance(option, bool):
                    return option
            options = tuple(map(repr, self.options))
            raise CheckpointError("answer_is_no_option", name=self.name, answer=repr(answer), options=options)
        if self.is_number:
            if type(answer) in {int, float} and 0 < answer < 1:
                return float(answer)
            raise CheckpointError("answer_is_no_number", name=self.name, answer=repr(answer))
        if type(answer) is not int or not self.least <= answer < 2**31:
            raise CheckpointError("answer_is_no_count", name=self.name, answer=repr(answer), least=self.least)
        return answer


@dataclass
class Questionnaire:
    """The answers that were given, and the questions that came up. Asking again gives the same answer.

    Each way to ask gives the answer, or the default, and raises a CheckpointError for one that is not possible.
    `settings` are options that lay beside the weights, by place and name (`model_args.n_head`): what they say holds
    where nobody answers, unless two of them differ.
    """

    given: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    asked: dict[str, Question] = field(default_factory=dict)

    def ask(self, name: str, default: Any, why: str, **about: Any) -> Any:
        """Ask a question, `about` which `Question` says more."""
        question = self._with_settings(Question(name, Message(f"question_{name}"), default, why=why, **about))
        self.asked[name] = replace(question, is_answered=name in self.given)
        return question.check(self.given[name]) if name in self.given else question.default

    def choice(self, name: str, options: Sequence[Any], why: str, **about: bool) -> Any:
        """Ask for one of `options`; the first is the default."""
        return self.ask(name, options[0], why, options=tuple(options), **about)

    def heads(self, width: int) -> int:
        """How many heads share the width: every divisor is possible, and none is likely enough to be assumed."""
        divisors = tuple(n for n in range(1, width + 1) if width % n == 0)
        default = width // 64 if width % 64 == 0 and width >= 128 else max(n for n in divisors if n <= 8)
        return int(self.ask("n_heads", default, "", options=divisors, is_open=len(divisors) > 1))

    def scaled_embedding(self) -> bool:
        """Whether embeddings are multiplied by the root of d_model, which nothing in a file tells."""
        return bool(self.choice("scale_embedding", (True, False), Message("why_nothing_tells"), is_open=True))

    def norm_eps(self, default: float) -> float:
        """What LayerNorm adds to the variance (or the deviation) before it divides."""
        return float(self.ask("norm_eps", default, Message("why_original"), is_number=True, rare=True))

    def special_id(self, name: str, default: int) -> int:
        """One id; -1 says that there is none."""
        return int(self.ask(name, default, Message("why_common"), least=-1, after_attention=name == "eos_id"))

    def special_ids(self, pad_id: int = 0, bos_id: int = 1, eos_id: int = 2) -> dict[str, int]:
        """The ids of padding, start and end."""
        defaults = {"pad_id": pad_id, "bos_id": bos_id, "eos_id": eos_id}
        return {name: self.special_id(name, default) for name, default in defaults.items()}

    def seq2seq_ids(self) -> dict[str, Any]:
        """The special ids of an encoder-decoder, whose target may be padded with an id of its own."""
        ids = self.special_ids()
        usual = -1 if ids["bos_id"] == ids["pad_id"] else ids["pad_id"]  # what starts a target is read, not hidden
        found = self.ask("target_pad_id", usual, Message("why_one_padding"), least=-1, rare=True)
        return {**ids, "target_pad_id": None if found == usual != -1 else found}

    def _with_settings(self, question: Question) -> Question:
        """The question, whose default is what the settings say, if that is a possible answer.

        Where two places say different things of what attention depends on, neither is believed.
        """
        found: dict[str, Any] = {}
        for key, value in self.settings.items():
            place, _, name = key.rpartition(".")
            if name in {question.name, *SETTINGS.get(question.name, ())}:
                with suppress(CheckpointError):
                    found.setdefault(place or BESIDE, question.check(value))
        if not found:
            return question
        place, first = next(iter(found.items()))
        if question.after_attention or all(value == first for value in found.values()):
            why = Message("why_settings", place=place)
            return replace(question, default=first, place=place, is_open=False, why=why)
        differ = tuple(Message("setting_at", place=place, value=repr(value)) for place, value in found.items())
        return replace(question, is_open=True, rare=False, why=Message("why_settings_differ", said=differ))

    def check_all_used(self, config: Config) -> None:
        """Refuse answers that nothing asked for, unless they repeat what the file says anyway.

        Raises:
            CheckpointError: names the answer and the questions there are.
        """
        options = config.options
        for name, answer in self.given.items():
            if name in self.asked or options.get(name) == answer:
                continue
            if name in options:
                found = repr(options[name])
                raise CheckpointError("answer_against_file", name=name, answer=repr(answer), found=found)
            usual_first = sorted(self.asked, key=lambda name: self.asked[name].rare)
            choices = tuple(usual_first) or Message("no_questions")
            raise CheckpointError("answer_to_nothing", name=name, answer=repr(answer), questions=choices)


SHOWN = 8
"""Names of one kind that the text lists; the report itself holds all."""

RECORD_FILE = "run.heedmap"
"""What the lines to copy call the file that they write."""


def record_lines(source: str, inputs: str = "inputs", grid: tuple[int, int] | None = None) -> tuple[str, ...]:
    """Python that records the model of the file `source` and writes a file to bring instead."""
    axes = f", grid={grid}" if grid else ""
    return (
        "from heedmap import recording",
        f"with recording(model) as seen: model({inputs})",
        f'seen.record(model={Path(source).stem[:80]!r}{axes}).save("{RECORD_FILE}")',
    )


@dataclass(frozen=True, eq=False)
class Report:
    """Comparison of a file's tensors with the nearest known layout.

    `confidence` is the share of names (theirs and the layout's together) that match in name and shape: 1 means that
    the file is this layout, all of it and nothing else. `wrong_shape` gives the shape that the layout needs, then
    the one found. `ignored` names tensors that play no part, with the reason; `doubt` says of unexpected
    ones why they cannot be passed over. `tables` are the missing ones that would hold positions. The
    `config` of a report with questions that are `open` has numbers in their place that nobody gave. `fit` says how the
    file becomes a model of ours. Without `attends` its model has nothing to record.
    """

    source: str
    layout: str | None
    title: str
    confidence: float = 0.0
    reasons: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()
    missing: Mapping[str, Shape] = field(default_factory=dict)
    unexpected: Mapping[str, Shape] = field(default_factory=dict)
    wrong_shape: Mapping[str, tuple[Shape, Shape]] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    doubt: str = ""
    questions: tuple[Question, ...] = ()
    tables: tuple[str, ...] = ()
    config: Any = None
    fit: Fit | None = None
    format: str = ""
    remedy: str = ""
    attends: bool = True

    @property
    def fits(self) -> bool:
        """Whether names and shapes are those of this layout."""
        return self.layout is not None and not (self.missing or self.unexpected or self.wrong_shape)

    @property
    def open(self) -> tuple[Question, ...]:
        """The questions that nobody has answered and that have no default."""
        return tuple(one for one in self.questions if one.is_open and not one.is_answered)

    @property
    def assumptions(self) -> tuple[Message, ...]:
        """What was assumed for want of an answer, a sentence each."""
        return tuple(one.assumption for one in self.questions if one.assumption)

    @property
    def is_ready(self) -> bool:
        """Whether the file can be loaded: it fits, and what must be answered is."""
        return self.fits and not self.open

    @property
    def guesses(self) -> tuple[Message, ...]:
        """What its attention rests on that the file does not say; nothing of a file that is known."""
        return guesses(self.assumptions)

    @property
    def needed(self) -> tuple[Message, ...]:
        """What must be answered, a sentence each."""
        return tuple(
            Message(
                "answer_needed_because" if one.why else "answer_needed",
                name=one.name,
                question=one.text,
                options=one.options or Message("any_count", least=one.least),
                **({"why": one.why} if one.why else {}),
            )
            for one in self.open
        )

    @property
    def record(self) -> tuple[str, ...]:
        """Lines of Python that record the model where its code runs, of a file that is not read; else none."""
        return () if self.fits or not self.attends else record_lines(self.source)

    @property
    def changes(self) -> tuple[str, ...]:
        """What would have to change in the file for it to fit."""
        if self.layout is None:
            return (self.remedy,)
        steps: list[str] = [Message("change_positions", names=self.tables)] if self.tables else []
        if missing := len(self.missing) - len(self.tables):
            steps.append(Message("change_missing", count=missing))
        if self.wrong_shape:
            steps.append(Message("change_shapes", count=len(self.wrong_shape)))
        if self.unexpected:
            steps.append(Message("change_unexpected", count=len(self.unexpected)))
        return tuple(steps)

    @property
    def text(self) -> str:
        """The report as a message, a fact a line."""
        said = {"source": self.source, "title": self.title}
        if self.fits:
            lines = [Message("report_fits", **said, share=self.confidence)]
            lines += [Message("report_needed", needed=one) for one in self.needed]
        elif self.layout:
            lines = [Message("report_nearest", **said, share=self.confidence)]
        else:
            lines = [Message("report_unknown", **said)]
        lines += [Message("report_because", reason=reason) for reason in self.reasons]
        doubt = {"reason": self.doubt} if self.doubt else {}
        listed: dict[str, list[dict[str, Any]]] = {
            "missing": [{"name": name, "shape": shape_text(shape)} for name, shape in self.missing.items()],
            "unexpected": [{"name": name, "shape": shape_text(one), **doubt} for name, one in self.unexpected.items()],
            "wrong": [
                {"name": name, "needed": shape_text(needed), "found": shape_text(found)}
                for name, (needed, found) in self.wrong_shape.items()
            ],
            "ignored": [{"name": name, "reason": reason} for name, reason in self.ignored.items()],
        }
        for kind, entries in listed.items():
            is_doubted = bool(doubt) and kind == "unexpected"
            lines += [Message("report_doubted" if is_doubted else f"report_{kind}", **one) for one in entries[:SHOWN]]
            if (more := len(entries) - SHOWN) > 0:
                lines.append(Message("report_more", kind=Message(f"report_kind_{kind}"), count=more))
        lines += [Message("report_assumption", assumption=assumption) for assumption in self.assumptions]
        if not self.fits:
            steps = _together(self.changes, lambda first, then: Message("steps", first=first, then=then))
            lines.append(Message("report_to_load", steps=steps))
        if self.record:
            first, second, third = self.record
            lines.append(Message("report_record", first=first, second=second, third=third, file=RECORD_FILE))
        return _together(lines, lambda above, line: Message("lines", above=above, line=line))


def _together(parts: Sequence[Any], join: Callable[[Any, Any], Message]) -> Any:
    """The parts in one, joined half to half: sentences inside one another stay few deep."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return join(_together(parts[:middle], join), _together(parts[middle:], join))
