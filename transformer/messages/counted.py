"""Whole numbers in texts, and the words beside them: one of them for 1, another for any other number."""

from numbers import Integral


class Counted(int):
    """A whole number that a text may ask for the word that fits it: `{count} {count:token|tokens}`.

    Any other format is that of a whole number.
    """

    def __format__(self, form: str) -> str:
        one, divided, many = form.partition("|")
        if not divided:
            return super().__format__(form)
        return one if self == 1 else many


def counted(value: object) -> object:
    """A whole number as `Counted`; anything else, and a truth, as it is."""
    return Counted(value) if isinstance(value, Integral) and not isinstance(value, bool) else value
