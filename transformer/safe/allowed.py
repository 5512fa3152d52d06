"""The names that a checkpoint may ask for, and nothing else: what the known layouts need."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Global:
    """A name that a pickle asks Python to import. No tuple, so that it cannot be taken for one of the file's."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


ITEM_BYTES: dict[str, int] = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
"""The kinds of numbers that are read, with the bytes that one takes; others are refused by name."""

_STORAGE_KINDS = {
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
}
STORAGES: dict[Global, str] = {Global("torch", f"{kind}Storage"): dtype for kind, dtype in _STORAGE_KINDS.items()}
"""torch's names for a block of numbers of one kind."""

ORDERED_DICT = Global("collections", "OrderedDict")
NAMESPACE = Global("argparse", "Namespace")
TENSOR = Global("torch._utils", "_rebuild_tensor_v2")
PARAMETER = Global("torch._utils", "_rebuild_parameter")
SIZE = Global("torch", "Size")
DEVICE = Global("torch", "device")
DTYPES = frozenset(Global("torch", name) for name in ITEM_BYTES)

_BUILTINS = ("__builtin__", "builtins")
DEFAULT_DICT = Global("collections", "defaultdict")
KINDS = frozenset(Global(module, name) for module in _BUILTINS for name in ("list", "dict", "int", "float", "str"))
"""What a defaultdict makes where nothing is: named, and of no interest."""

DROPPED = frozenset(
    {
        *(
            Global(f"numpy.{core}.multiarray", name)
            for core in ("core", "_core")
            for name in ("scalar", "_reconstruct")
        ),
        *(Global("numpy", name) for name in ("dtype", "ndarray")),
        Global("_codecs", "encode"),
        *(Global("datetime", name) for name in ("datetime", "date", "time", "timedelta", "timezone")),
        *(Global("pathlib", name) for name in ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")),
        *(Global("pathlib._local", name) for name in ("PosixPath", "WindowsPath")),
        *(Global(module, name) for module in _BUILTINS for name in ("set", "frozenset", "complex", "slice", "range")),
        *(Global("collections", name) for name in ("deque", "Counter")),
        Global("decimal", "Decimal"),
        Global("uuid", "UUID"),
    }
)
"""Plain values that trainers keep beside the weights: nothing is made of them, and nothing of theirs is read."""

ALLOWED = frozenset(
    {ORDERED_DICT, NAMESPACE, TENSOR, PARAMETER, SIZE, DEVICE, *STORAGES, *DTYPES, DEFAULT_DICT, *KINDS, *DROPPED}
)
"""Every name that reading may resolve."""
