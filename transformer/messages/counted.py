"""Numbers in texts: the word beside a whole one (one of them for 1, another for any other), and no minus before 0."""

import re
from numbers import Integral, Real

_BEFORE_Z = re.compile(r"(?:.?[<>=^])?[-+ ]?")
"""What stands in a format before the `z` that leaves out the minus of a number that rounds to zero (PEP 682)."""


class Counted(int):
    """A whole number that a text may ask for the word that fits it: `{count} {count:token|tokens}`.

    Any other format is that of a whole number.
    """

    def __format__(self, form: str) -> str:
        one, divided, many = form.partition("|")
        if not divided:
            return super().__format__(form)
        return one if self == 1 else many


class Measured(float):
    """A number of a text that is never written as -0.00: one that rounds to zero there has no minus."""

    def __format__(self, form: str) -> str:
        return super().__format__(_BEFORE_Z.sub(lambda found: f"{found[0]}z", form, count=1))


def numbered(value: object) -> object:
    """A whole number as `Counted`, another one as `Measured`; anything else, and a truth, as it is."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return Counted(value) if isinstance(value, Integral) else Measured(value)
