"""A model of one text at what it exists for, on the map: a decoder writes on, an encoder fills hidden words in."""

from transformer import Checkpoint
from transformer.plots.axes import Axis
from transformer.runs.continuing import continues
from transformer.runs.filling import mask_of
from ui.map import choices, runs
from ui.map.runs import Shown
from ui.shared import address, writing
from ui.shared.subject import WORD
from ui.shared.token_strip import token_strip


def shown(name: str, checkpoint: Checkpoint, text: str) -> Shown:
    """The run of a text: with all that was written after it, where that is asked for.

    Raises:
        InputError: the text cannot be read, or leaves no room.
        CheckpointError: the checkpoint has no way to read a text.
    """
    if not continues(checkpoint):
        if mask_of(checkpoint):
            writing.words_to_hide(checkpoint, text, choices.take)
        return runs.shown(name, text)
    options = writing.options_form()
    address.belong_to((name, text, options), choices.STEP, WORD, choices.PIECE)
    return runs.continued(name, text, options)


def written_panel(found: Shown, step: int) -> None:
    """The tokens that were written, above the map; that of the step is outlined."""
    if found.continued is not None and found.continued.written:
        token_strip(found.continued.tokens, found.written_at(step))


def gaps_panel(name: str, checkpoint: Checkpoint, axis: Axis, text: str) -> None:
    """The likeliest words of each gap, below the map."""
    if mask_of(checkpoint):
        writing.words_for_gaps(name, checkpoint, text, choices.take, lambda at: choices.to_step(axis, at))


def text_of(found: Shown, text: str) -> str:
    """All that was read: the text, and what was written after it."""
    return text if found.continued is None else found.continued.texts[-1]
