"""A report instead of a stack trace: what a file is taken for, what does not fit, and what would have to change."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from transformer.checkpoint.foreign.questions import Question
from transformer.checkpoint.safe.contents import Shape, shape_text

SHOWN = 8
"""Names of one kind that the text lists; the report itself holds all."""

OPENING = ("others_after", "norm_after_stack", "one_position_table", "source_positions", "embedding", "position_table")
"""Questions whose answers can give unexpected tensors a part."""


@dataclass(frozen=True, eq=False)
class Report:
    """How a file compares with the layout that is nearest to it.

    `confidence` is the share of names (theirs and the layout's together) that match in name and shape: 1 means that
    the file is this layout, all of it and nothing else. `wrong_shape` gives the shape that the layout needs, then
    the one found. `ignored` names tensors that play no part, with the reason; `doubts` unexpected ones that might act
    before the last attention, with what is known of them.
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
    assumptions: tuple[str, ...] = ()
    config: Any = None
    format: str = ""

    @property
    def fits(self) -> bool:
        """Whether the file can be loaded as this layout."""
        return self.layout is not None and not (self.missing or self.unexpected or self.wrong_shape)

    @property
    def changes(self) -> tuple[str, ...]:
        """What would have to change in the file for it to fit."""
        if self.layout is None:
            return ("bring a checkpoint of a known layout, or save the weights under the names of one",)
        steps = []
        if self.missing:
            steps.append(f"add the {len(self.missing)} missing")
        if self.wrong_shape:
            steps.append(f"give {len(self.wrong_shape)} another shape, or answer the questions otherwise")
        if self.unexpected:
            steps.append(
                f"take out the {len(self.unexpected)} unexpected; where they change nothing that the model computes, "
                'name them: ignore="PATTERN"'
            )
            opening = [question for question in self.questions if question.name in OPENING]
            steps += [f"or answer {question.name}: {question.text}" for question in opening]
        return tuple(steps)

    @property
    def text(self) -> str:
        """The report for a reader."""
        verdict = "is" if self.fits else "does not fit; the nearest layout is" if self.layout else "is of"
        lines = [f"{self.source} {verdict} {self.title} ({self.confidence:.0%} of the names and shapes match)."]
        lines += [f"  because {reason}" for reason in self.reasons]
        lines += _listed("missing", {name: f"{name} {shape_text(shape)}" for name, shape in self.missing.items()})
        doubted = {name: f"; {reason}" for name, reason in self.doubts.items()}
        unknown = {n: f"{n} {shape_text(shape)}{doubted.get(n, '')}" for n, shape in self.unexpected.items()}
        lines += _listed("unexpected", unknown)
        wrong = {n: f"{n} should be {shape_text(a)}, is {shape_text(b)}" for n, (a, b) in self.wrong_shape.items()}
        lines += _listed("wrong shape", wrong)
        lines += _listed("not used", {name: f"{name}: {reason}" for name, reason in self.ignored.items()})
        lines += [f"  {assumption}" for assumption in self.assumptions]
        if not self.fits:
            lines.append(f"To load it: {'; '.join(self.changes)}.")
        return "\n".join(lines)


def _listed(kind: str, entries: Mapping[str, str]) -> list[str]:
    lines = [f"  {kind}: {entry}" for entry in list(entries.values())[:SHOWN]]
    more = len(entries) - SHOWN
    return [*lines, f"  {kind}: and {more} more"] if more > 0 else lines
