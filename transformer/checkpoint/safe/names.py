"""The names of a file's tensors: how many there may be, how long, and of how many parts."""

from collections.abc import Collection

from transformer.checkpoint.safe.limits import ReadLimits
from transformer.checkpoint.safe.refusal import SAVE_WEIGHTS, refusal, shown


def check_names(names: Collection[str], source: str, limits: ReadLimits) -> None:
    """Refuse names whose tree of modules would take more than the tensors.

    Raises:
        CheckpointError: there are too many, one is too long or nested too deep, or is no text that can be written.
    """
    if len(names) > limits.tensors:
        raise refusal(source, f"it holds {len(names):,} tensors, at most {limits.tensors:,} are read", SAVE_WEIGHTS)
    modules: dict[tuple[int, str], int] = {}  # the number of the module that holds it, its own name -> its number
    for name in names:
        if len(name) > limits.name_characters:
            reason = f"it names a tensor with {len(name):,} characters, at most {limits.name_characters:,} are read"
            raise refusal(source, reason, SAVE_WEIGHTS)
        parts = name.count(".") + 1
        if parts > limits.name_parts:
            reason = f"the name {shown(name)} has {parts:,} parts, at most {limits.name_parts} are read"
            raise refusal(source, reason, SAVE_WEIGHTS)
        if not is_text(name):
            raise refusal(source, f"the name {shown(name)} holds half a character", SAVE_WEIGHTS)
        holder = 0
        for part in name.split(".")[:-1]:
            holder = modules.setdefault((holder, part), len(modules) + 1)
        if len(modules) > limits.modules:
            raise refusal(source, f"its names are those of more than {limits.modules:,} modules", SAVE_WEIGHTS)


def is_text(text: str) -> bool:
    """Whether `text` can be written as UTF-8: halves of surrogate pairs, which pickles and JSON can hold, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
