"""The way from a page that shows a run to What if, for the same run."""

from typing import Final

from ui.shared.address import parameter
from ui.shared.controls import DECODING
from ui.shared.subject import MODEL, TEXT, WORD
from ui.texts import KEY

SAME: Final = (
    MODEL, TEXT, WORD, *DECODING, "kind", "layer", "head", "words", "special", "sequence", "pasted", KEY,
)  # fmt: skip
"""What both pages call by one name: it goes along as it stands in the address."""


def what_if_query(**known: str) -> dict[str, str]:
    """What leads to What if with what is shown here; `known` is what the address does not say."""
    return {**known, **{key: value for key in SAME if (value := parameter(key)) is not None}}
