"""The names of a file's tensors: how many there may be, how long, and of how many parts."""

from collections.abc import Collection

from transformer.safe.limits import ReadLimits
from transformer.safe.refusal import SAVE_WEIGHTS, refused, shown


def check_names(names: Collection[str], source: str, limits: ReadLimits) -> None:
    """Refuse names whose tree of modules would take more than the tensors.

    Raises:
        CheckpointError: there are too many, one is too long or nested too deep, or is no text that can be written.
    """
    if len(names) > limits.tensors:
        raise refused("tensors_many", source, SAVE_WEIGHTS, found=len(names), most=limits.tensors)
    modules: dict[tuple[int, str], int] = {}  # the number of the module that holds it, its own name -> its number
    for name in names:
        if len(name) > limits.name_characters:
            most = limits.name_characters
            raise refused("name_long", source, SAVE_WEIGHTS, found=len(name), most=most)
        parts = name.count(".") + 1
        if parts > limits.name_parts:
            raise refused("name_parts", source, SAVE_WEIGHTS, name=shown(name), found=parts, most=limits.name_parts)
        if not is_text(name):
            raise refused("name_half_character", source, SAVE_WEIGHTS, name=shown(name))
        holder = 0
        for part in name.split(".")[:-1]:
            holder = modules.setdefault((holder, part), len(modules) + 1)
        if len(modules) > limits.modules:
            raise refused("modules_many", source, SAVE_WEIGHTS, most=limits.modules)


def is_text(text: str) -> bool:
    """Whether `text` can be written as UTF-8: halves of surrogate pairs, which pickles and JSON can hold, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
