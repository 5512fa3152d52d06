"""Files that are no weights, named for what they are, whatever they are called: each with what makes weights of it."""

from transformer.messages import Message
from transformer.safe.refusal import refused

_STARTS = (
    (b"version https://git-lfs", "lfs"),
    (b"GGUF", "gguf"),
    (b"\x89HDF\r\n\x1a\n", "hdf5"),
    (b"\x93NUMPY", "npy"),
    (b"\x89PNG\r\n\x1a\n", "picture"),
    (b"\xff\xd8\xff", "picture"),
    (b"GIF8", "picture"),
    (b"%PDF-", "pdf"),
    (b"\x1f\x8b", "packed"),
    (b"BZh", "packed"),
    (b"\xfd7zXZ\x00", "packed"),
    (b"7z\xbc\xaf\x27\x1c", "packed"),
)
"""How files of other kinds begin, and the kind."""

_ZIP_START, _ZIP_NAME, _ZIP_NAME_LENGTH = b"PK\x03\x04", 30, slice(26, 28)
_ZIP_KINDS = ((b".npy", "npz"), (b"metadata.json", "keras"), (b"config.json", "keras"), (b"model.weights.h5", "keras"))
"""How the name of the first entry of a zip archive ends, and the kind; one of torch begins with a pickle."""

_TAR_MARK, _TAR_PLACE = b"ustar", 257
_PAGE_STARTS = (b"<!doctype html", b"<html")
_ONNX_START, _ONNX_PRODUCERS = b"\x08", (b"pytorch", b"onnx", b"tf2onnx", b"keras2onnx")
_ONNX_LOOKED_AT = 64


def refuse_by_kind(start: bytes, source: str) -> None:
    """Refuse a file that begins with `start`, if it is of a known kind; others are left to the caller.

    Raises:
        CheckpointError: names the kind, and how to make weights of it.
    """
    kind = next((kind for mark, kind in _STARTS if start.startswith(mark)), None)
    if start.startswith(_ZIP_START):
        name = start[_ZIP_NAME:][: int.from_bytes(start[_ZIP_NAME_LENGTH], "little")]
        kind = next((kind for end, kind in _ZIP_KINDS if name.endswith(end)), None)
    if kind is None and start[_TAR_PLACE:].startswith(_TAR_MARK):
        kind = "packed"
    if kind is None and start.lstrip().lower().startswith(_PAGE_STARTS):
        kind = "page"
    head = start[:_ONNX_LOOKED_AT].lower()
    if kind is None and start.startswith(_ONNX_START) and any(producer in head for producer in _ONNX_PRODUCERS):
        kind = "onnx"
    if kind is not None:
        raise refused(f"kind_{kind}", source, Message(f"remedy_kind_{kind}"))
