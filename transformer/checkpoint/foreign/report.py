"""A report instead of a stack trace: what a file is taken for, what does not fit, and what would have to change."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transformer.checkpoint.checkpoint import guesses
from transformer.checkpoint.foreign.found import RECORD_FILE, record_lines
from transformer.checkpoint.foreign.questions import Question
from transformer.messages import Message
from transformer.safe.contents import Shape, shape_text

SHOWN = 8
"""Names of one kind that the text lists; the report itself holds all."""

OPENING = (
    *("others_after", "norm_after_stack"),
    *("one_position_table", "source_positions", "embedding", "position_table"),
)
"""Questions whose answers can give unexpected tensors a part."""


@dataclass(frozen=True, eq=False)
class Report:
    """Comparison of a file's tensors with the nearest known layout.

    `confidence` is the share of names (theirs and the layout's together) that match in name and shape: 1 means that
    the file is this layout, all of it and nothing else. `wrong_shape` gives the shape that the layout needs, then
    the one found. `ignored` names tensors that play no part, with the reason; `doubts` unexpected ones that might act
    before the last attention, with what is known of them. `left_out` are those of the ignored that somebody asked to
    leave out; they count against the share. `tables` are the missing ones that would hold positions. The `config` of a
    report with questions that are `open` has numbers in their place that nobody gave. Without `attends` its model has
    nothing to record.
    """

    source: str
    layout: str | None
    title: str
    confidence: float
    reasons: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()
    missing: Mapping[str, Shape] = field(default_factory=dict)
    unexpected: Mapping[str, Shape] = field(default_factory=dict)
    wrong_shape: Mapping[str, tuple[Shape, Shape]] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()
    open: tuple[Question, ...] = ()
    assumptions: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    config: Any = None
    format: str = ""
    remedy: str = ""
    attends: bool = True

    @property
    def fits(self) -> bool:
        """Whether names and shapes are those of this layout."""
        return self.layout is not None and not (self.missing or self.unexpected or self.wrong_shape)

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
        return tuple(map(_needed, self.open))

    @property
    def record(self) -> tuple[str, ...]:
        """Lines of Python that record the model where its code runs, of a file that is not read; else none."""
        return () if self.fits or not self.attends else record_lines(self.source)

    @property
    def changes(self) -> tuple[str, ...]:
        """What would have to change in the file for it to fit."""
        if self.layout is None:
            return (self.remedy or Message("change_layout"),)
        steps: list[str] = []
        weights = tuple(name for name in self.missing if name not in self.tables)
        if self.tables:
            steps.append(Message("change_positions", names=self.tables))
        if weights:
            steps.append(Message("change_missing", count=len(weights)))
        if self.wrong_shape:
            steps.append(Message("change_shapes", count=len(self.wrong_shape)))
        if self.unexpected:
            steps.append(Message("change_unexpected", count=len(self.unexpected)))
            opening = [question for question in self.questions if question.name in OPENING]
            steps += [Message("change_answer", name=question.name, question=question.text) for question in opening]
        return tuple(steps)

    @property
    def text(self) -> str:
        """The report as a message, a fact a line."""
        said = {"source": self.source, "title": self.title, "share": self.confidence}
        if self.fits:
            lines = [Message("report_fits", **said), *(Message("report_needed", needed=one) for one in self.needed)]
        elif self.layout:
            lines = [Message("report_nearest", **said)]
        else:
            lines = [Message("report_unknown", source=self.source, title=self.title)]
        lines += [Message("report_because", reason=reason) for reason in self.reasons]
        missing = [Message("report_missing", name=n, shape=shape_text(shape)) for n, shape in self.missing.items()]
        lines += _listed(missing, Message("report_kind_missing"))
        unexpected = [self._unexpected(name, shape_text(shape)) for name, shape in self.unexpected.items()]
        lines += _listed(unexpected, Message("report_kind_unexpected"))
        wrong = [
            Message("report_wrong", name=name, needed=shape_text(needed), found=shape_text(found))
            for name, (needed, found) in self.wrong_shape.items()
        ]
        lines += _listed(wrong, Message("report_kind_wrong"))
        ignored = [Message("report_ignored", name=name, reason=reason) for name, reason in self.ignored.items()]
        lines += _listed(ignored, Message("report_kind_ignored"))
        lines += [Message("report_assumption", assumption=assumption) for assumption in self.assumptions]
        if not self.fits:
            steps = _together(self.changes, lambda first, then: Message("steps", first=first, then=then))
            lines.append(Message("report_to_load", steps=steps))
        if self.record:
            first, second, third = self.record
            lines.append(Message("report_record", first=first, second=second, third=third, file=RECORD_FILE))
        return _together(lines, lambda above, line: Message("lines", above=above, line=line))

    def _unexpected(self, name: str, shape: str) -> Message:
        if name in self.doubts:
            return Message("report_doubted", name=name, shape=shape, reason=self.doubts[name])
        return Message("report_unexpected", name=name, shape=shape)


def _needed(question: Question) -> Message:
    """A question with its possible answers, and why nothing is assumed."""
    options = question.options or Message("any_count", least=question.least)
    said = {"name": question.name, "question": question.text, "options": options}
    if question.why:
        return Message("answer_needed_because", **said, why=question.why)
    return Message("answer_needed", **said)


def _together(parts: Sequence[Any], join: Callable[[Any, Any], Message]) -> Any:
    """The parts in one, joined half to half: sentences inside one another stay few deep."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return join(_together(parts[:middle], join), _together(parts[middle:], join))


def _listed(entries: Sequence[Message], kind: Message) -> list[Message]:
    """The first few, and how many more there are."""
    more = len(entries) - SHOWN
    return [*entries[:SHOWN], Message("report_more", kind=kind, count=more)] if more > 0 else list(entries)
