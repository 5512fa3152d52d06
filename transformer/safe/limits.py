"""How much of an untrusted file is read, and how one is refused: which file, why, and what its owner can do.

Every size, name and path is checked before memory is taken. Files that are no weights are refused for their kind.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ..errors import CheckpointError, HeedmapError
from ..messages import Message

MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class ReadLimits:
    """Bounds of one read.

    Sizes are bytes where the name says so; `seconds` bounds the look at a file's structure, not the copying of
    weights, which `file_bytes` bounds. Peak memory is about the file's size, beside the file itself.

    Tensors may show the same stored numbers several times (tied weights, views). What all of them show together is at
    most `repeats` times what is stored, and `spare_numbers` more, so that looking through the tensors of a file costs
    about as much as its size says. `layers` bounds what a config may ask for, however little its layers weigh: shared
    ones weigh nothing, and each takes its time in every run. The deepest published models of text have 126.
    """

    file_bytes: int = 1024 * MEGABYTE
    tensors: int = 20_000
    dimensions: int = 8
    archive_entries: int = 25_000
    header_bytes: int = 16 * MEGABYTE
    header_brackets: int = 250_000
    vocabulary_bytes: int = 64 * MEGABYTE
    pickle_bytes: int = 64 * MEGABYTE
    pickle_steps: int = 1_000_000
    container_items: int = 100_000
    depth: int = 64
    name_characters: int = 1_000
    name_parts: int = 64
    modules: int = 50_000
    layers: int = 200
    repeats: int = 4
    spare_numbers: int = 1_000_000
    seconds: float = 30.0


DEFAULT_LIMITS = ReadLimits()
"""What `load` and `report` use unless told otherwise."""


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


def check_inside(file: Path, folder: Path) -> None:
    """Refuse a file of a folder that is a link to somewhere else.

    Raises:
        CheckpointError: it is.
    """
    if not file.resolve().is_relative_to(folder.resolve()):
        raise refused("link_leads_out", f"{folder.name}/{file.name}", Message("remedy_copy_file"))


SAVE_WEIGHTS = Message("remedy_save_weights")
SAVE_AGAIN = Message("remedy_save_again")

_SHOWN = 80
_SAID = 500


def refused(reason: str, source: str, remedy: str = SAVE_AGAIN, /, **fields: object) -> CheckpointError:
    """The error that says why `source` is not read, and the remedy. `reason` is a code, whose text has `fields`."""
    return refused_because(Message(reason, **fields), source, remedy)


def refused_because(reason: str, source: str, remedy: str = SAVE_AGAIN, /) -> CheckpointError:
    """As `refused`, for a sentence that was made elsewhere."""
    return CheckpointError("refused", source=source, reason=reason, remedy=remedy)


def said(error: BaseException) -> str:
    """What an error says, to be put into another sentence: of ours a message, so that it can be translated.

    Of others the beginning: some repeat all that they were given, or a whole signature.
    """
    return error.message if isinstance(error, HeedmapError) else str(error)[:_SAID]


def shown(text: str) -> str:
    """An untrusted text in quotation marks, cut before it is looked at: for messages."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


_MARKS = {
    (0, b"version https://git-lfs"): "lfs",
    (0, b"GGUF"): "gguf",
    (0, b"\x89HDF\r\n\x1a\n"): "hdf5",
    (0, b"\x93NUMPY"): "npy",
    (0, b"\x89PNG\r\n\x1a\n"): "picture",
    (0, b"\xff\xd8\xff"): "picture",
    (0, b"GIF8"): "picture",
    (0, b"%PDF-"): "pdf",
    (0, b"\x1f\x8b"): "packed",
    (0, b"BZh"): "packed",
    (0, b"\xfd7zXZ\x00"): "packed",
    (0, b"7z\xbc\xaf\x27\x1c"): "packed",
    (257, b"ustar"): "packed",
}
"""What stands in files of other kinds, and where; and the kind."""

_ZIP_START, _ZIP_NAME, _ZIP_NAME_LENGTH = b"PK\x03\x04", 30, slice(26, 28)
_ZIP_KINDS = ((b".npy", "npz"), (b"metadata.json", "keras"), (b"config.json", "keras"), (b"model.weights.h5", "keras"))
"""How the name of the first entry of a zip archive ends, and the kind; one of torch begins with a pickle."""

_PAGE_STARTS = (b"<!doctype html", b"<html")
_ONNX_START, _ONNX_PRODUCERS = b"\x08", (b"pytorch", b"onnx", b"tf2onnx", b"keras2onnx")
_ONNX_LOOKED_AT = 64


def refuse_by_kind(start: bytes, source: str) -> None:
    """Refuse a file that begins with `start`, if it is of a known kind; others are left to the caller.

    Raises:
        CheckpointError: names the kind, and how to make weights of it.
    """
    kind = next((kind for (place, mark), kind in _MARKS.items() if start[place:].startswith(mark)), None)
    if start.startswith(_ZIP_START):
        name = start[_ZIP_NAME:][: int.from_bytes(start[_ZIP_NAME_LENGTH], "little")]
        kind = next((kind for end, kind in _ZIP_KINDS if name.endswith(end)), None)
    if kind is None and start.lstrip().lower().startswith(_PAGE_STARTS):
        kind = "page"
    head = start[:_ONNX_LOOKED_AT].lower()
    if kind is None and start.startswith(_ONNX_START) and any(producer in head for producer in _ONNX_PRODUCERS):
        kind = "onnx"
    if kind is not None:
        raise refused(f"kind_{kind}", source, Message(f"remedy_kind_{kind}"))
