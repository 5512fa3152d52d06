"""What a picture that is saved says of itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class About:
    """A title (the site, the head), lines below it: what is shown, of what sentence, by what checkpoint; formulas.

    The page says this around a component; in a file, nobody else does.
    """

    title: str = ""
    lines: Sequence[str] = ()
    formulas: Sequence[str] = ()

    def message(self) -> dict[str, Any]:
        """What the browser is sent: each text on one line."""
        lines, formulas = ([" ".join(line.split()) for line in told] for told in (self.lines, self.formulas))
        return {"title": " ".join(self.title.split()), "lines": lines, "formulas": formulas}
