"""The words of a sentence: what people align, count and point at, whatever pieces a vocabulary cuts it into."""

import re

WORD = re.compile(r"\w+(?:[-'\u2019]\w+)*|[^\w\s]")


def words_of(text: str) -> tuple[str, ...]:
    """The words of `text`: runs of letters and digits, and every other visible character by itself.

    A run may hold single hyphens and apostrophes (' or U+2019). So "T-shirt" and "dad's" are one word, "street." is
    two, and so is "Garten-" before a space.
    """
    return tuple(WORD.findall(text))
