"""The structure of a pickle, worked out symbolically: what it would build, without building it.

A pickle is a program for a small stack machine. This one moves labels instead of objects: it imports nothing, calls
nothing and allocates no tensor. So everything that a file claims or asks for is known, and can be refused, before any
tensor is made; and `torch.load` is never asked. Source: the standard library's `pickletools`, which documents every
opcode.

What stands on the stack is untrusted: a tuple of twice the same tuple of twice the same tuple ... is a few bytes to
write, and more than a lifetime to print, hash, sort or compare. So nothing is, before its type is known to be a text
or a small number. The marks of this machine itself (`Global`, `TensorInfo` ...) are no tuples.
"""

import io
import pickletools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..messages import Message
from .limits import SAVE_WEIGHTS, ReadLimits, refused, shown
from .tensors import (
    ITEM_BYTES,
    STORAGES,
    Dropped,
    Global,
    Options,
    Plain,
    StorageInfo,
    TensorInfo,
    declared_storage,
    declared_tensor,
    is_count,
)

PICKLE_START = b"\x80"
"""How every pickle of protocol 2 and later starts."""

PROTOCOL = 2
"""The only pickle protocol that torch writes, unless told otherwise, and that its safe reader knows."""

_LARGEST_KEY = 2**31
"""Numbers that are keys (the optimiser's state has some) are small: a large one takes long to hash and to print."""

_IN_KEY = (str, int, float, bool, type(None))
_KEY_ITEMS = 16
"""What a tuple that is a key may hold, and how much: people keep counts of pairs, say."""

_OF_PAIRS = "dict[tuple]"

ORDERED_DICT = Global("collections", "OrderedDict")
NAMESPACE = Global("argparse", "Namespace")
TENSOR = Global("torch._utils", "_rebuild_tensor_v2")
PARAMETER = Global("torch._utils", "_rebuild_parameter")
SIZE = Global("torch", "Size")
DEVICE = Global("torch", "device")

_BUILTINS = ("__builtin__", "builtins")
DEFAULT_DICT = Global("collections", "defaultdict")
KINDS = frozenset(Global(module, name) for module in _BUILTINS for name in ("list", "dict", "int", "float", "str"))
"""What a defaultdict makes where nothing is: named, and of no interest."""

_PLAIN = {
    "numpy.core.multiarray": "scalar _reconstruct",
    "numpy._core.multiarray": "scalar _reconstruct",
    "numpy": "dtype ndarray",
    "_codecs": "encode",
    "datetime": "datetime date time timedelta timezone",
    "pathlib": "PosixPath WindowsPath PurePosixPath PureWindowsPath",
    "pathlib._local": "PosixPath WindowsPath",
    "collections": "deque Counter",
    "decimal": "Decimal",
    "uuid": "UUID",
} | dict.fromkeys(_BUILTINS, "set frozenset complex slice range")
DROPPED = frozenset(Global(module, name) for module, names in _PLAIN.items() for name in names.split())
"""Plain values that trainers keep beside the weights: nothing is made of them, and nothing of theirs is read."""

_DTYPES = frozenset(Global("torch", name) for name in ITEM_BYTES)
ALLOWED = frozenset(
    {ORDERED_DICT, NAMESPACE, TENSOR, PARAMETER, SIZE, DEVICE, *STORAGES, DEFAULT_DICT, *KINDS, *DROPPED, *_DTYPES}
)
"""Every name that reading may resolve."""


@dataclass
class Structure:
    """What the pickles of one file would build, and the stack machine that works it out.

    `storages` collects the blocks of numbers by key, `dropped` the kinds of values that were passed over.
    """

    source: str
    limits: ReadLimits
    storages: dict[str, StorageInfo] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    items: int = 0

    def read(self, program: io.BytesIO) -> Any:
        """What the pickle at `program` would build; the stream is left behind its end.

        Raises:
            CheckpointError: the pickle is damaged, too large, asks for a name that is not allowed, or claims more
                than it holds.
        """
        self.stack: list[Any] = []
        self.outer: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.protocol = PROTOCOL
        deadline = time.monotonic() + self.limits.seconds
        try:
            for step in range(self.limits.pickle_steps):
                if step % 1024 == 0:
                    self._check_pace(deadline)
                opcode = _OPCODES[program.read(1)]
                if opcode.name == "STOP":
                    return self._finish()
                if opcode.name not in _STEPS:
                    raise refused("pickle_step", self.source, SAVE_WEIGHTS, step=opcode.name)
                _STEPS[opcode.name](self, _argument(opcode, program))
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
            what = f"{type(error).__name__}: {error!s:.200}"
            raise refused("pickle_damaged", self.source, error=what) from error
        raise refused("pickle_steps", self.source, SAVE_WEIGHTS, most=self.limits.pickle_steps)

    def _count(self, items: int) -> None:
        """Count what containers hold, up to the limit."""
        self.items += items
        if self.items > self.limits.container_items:
            raise refused("items_many", self.source, SAVE_WEIGHTS, most=self.limits.container_items)

    def _check_pace(self, deadline: float) -> None:
        """Refuse what takes too long, or piles up more than a container may hold."""
        if time.monotonic() > deadline:
            raise refused("structure_slow", self.source, SAVE_WEIGHTS, seconds=self.limits.seconds)
        if len(self.stack) > 2 * self.limits.container_items:
            self._count(len(self.stack))

    def _push(self, value: Any) -> None:
        self.stack.append(value)

    def _mark(self, _: None) -> None:
        self.outer.append(self.stack)
        self.stack = []

    def _group(self) -> list[Any]:
        """Take the operands since the last mark."""
        operands, self.stack = self.stack, self.outer.pop()
        return operands

    def _finish(self) -> Any:
        """What stands on the stack at the end. Newer protocols come this far, so that what they ask for is named."""
        if self.protocol != PROTOCOL:
            remedy = Message("remedy_no_protocol")
            raise refused("pickle_protocol", self.source, remedy, found=self.protocol, known=PROTOCOL)
        return self.stack.pop()

    def _ask(self, wanted: Global) -> None:
        """A name to import: allowed, or the end."""
        if wanted not in ALLOWED:
            raise refused("asks_to_import", self.source, SAVE_WEIGHTS, name=shown(str(wanted)))
        self._push(wanted)

    def _ask_from_stack(self, _: None) -> None:
        """A name to import, put together from two texts."""
        name, module = self.stack.pop(), self.stack.pop()
        if not isinstance(module, str) or not isinstance(name, str):
            raise TypeError("a name to import is no text")
        self._ask(Global(module, name))

    def _keep(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def _tuple_of(self, size: int) -> None:
        operands = self.stack[-size:]
        if len(operands) < size:
            raise IndexError("too few operands")
        self.stack[-size:] = [tuple(operands)]

    def _append(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, Dropped):
            return
        if not isinstance(target, list):
            raise TypeError(f"appends to a {type(target).__name__}")
        self._count(len(values))
        target.extend(values)

    def _set_items(self, values: list[Any]) -> None:
        """Put keys and values into a dictionary; only keys that cannot be made to take forever to hash.

        Whatever lies under a tuple is passed over.
        """
        target = self.stack[-1]
        if isinstance(target, Dropped):
            return
        if not isinstance(target, dict) or len(values) % 2:
            raise TypeError(f"sets {len(values)} keys and values of a {type(target).__name__}")
        self._count(len(values) // 2)
        longest = self.limits.name_characters
        for key, value in zip(values[::2], values[1::2], strict=True):
            if type(key) is tuple and len(key) <= _KEY_ITEMS and all(type(one) in _IN_KEY for one in key):
                self.dropped.add(_OF_PAIRS)
                continue
            if not (isinstance(key, str) or (type(key) is int and abs(key) < _LARGEST_KEY)):
                raise TypeError(f"a key is a {type(key).__name__}, not a text or a small number")
            if isinstance(key, str) and len(key) > longest:
                raise refused("key_long", self.source, SAVE_WEIGHTS, found=len(key), most=longest)
            target[key] = value

    def _create(self, _: None) -> None:
        """An empty object of an allowed class."""
        arguments, kind = self.stack.pop(), self.stack.pop()
        if not isinstance(kind, Global) or kind != NAMESPACE or not _is_empty(arguments, tuple):
            raise TypeError("creates an object that torch.save does not write")
        self._push(Options())

    def _build(self, _: None) -> None:
        """Fill an object with its state."""
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, Dropped):
            return
        if not isinstance(state, dict):
            raise TypeError(f"fills a {type(target).__name__} from a {type(state).__name__}")
        self._count(len(state))  # each time: one table can fill many objects
        if not all(isinstance(key, str) for key in state):
            raise TypeError(f"fills a {type(target).__name__} under names that are no texts")
        if isinstance(target, Options):
            target.values.update(state)
        elif not isinstance(target, dict):  # an OrderedDict carries `_metadata`, which says nothing of the weights
            raise TypeError(f"fills a {type(target).__name__}")

    def _call(self, _: None) -> None:
        """A call of an allowed name, which is noted and not made."""
        arguments, function = self.stack.pop(), self.stack.pop()
        if type(arguments) is not tuple or not isinstance(function, Global):
            raise TypeError(f"calls a {type(function).__name__}")
        if function in DROPPED:
            self.dropped.add(str(function))
            self._push(Dropped(function))
        elif function == DEFAULT_DICT and len(arguments) < 2 and all(map(_is_kind, arguments)):
            self._push({})
        else:
            self._push(self._result(function, arguments))

    def _result(self, function: Global, arguments: tuple[Any, ...]) -> Any:
        if function == TENSOR and len(arguments) == 6 and _no_hooks(arguments[5]):
            return declared_tensor(*arguments[:4], source=self.source, limits=self.limits)
        if function == PARAMETER and len(arguments) == 3 and isinstance(arguments[0], TensorInfo):
            return arguments[0]
        if function == ORDERED_DICT and not arguments:
            return {}
        if function == SIZE and len(arguments) == 1 and self._are_sizes(arguments[0]):
            return Plain(function)
        if function == DEVICE and len(arguments) <= 2 and all(isinstance(one, str | int) for one in arguments):
            return Plain(function)
        raise TypeError(f"calls {function} in a way that torch.save does not")

    def _are_sizes(self, value: Any) -> bool:
        return type(value) is tuple and len(value) <= self.limits.dimensions and all(map(is_count, value))

    def _storage(self, _: None) -> None:
        """A reference to a block of numbers, which stands elsewhere in the file."""
        info = declared_storage(self.stack.pop())
        if self.storages.setdefault(info.key, info) != info:
            raise ValueError(f"block {shown(info.key)} is described twice, differently")
        self._push(info)


def _is_kind(value: Any) -> bool:
    """Whether `value` is a name that a defaultdict makes its values of, or none."""
    return value is None or (isinstance(value, Global) and value in KINDS)


def _is_empty(value: Any, kind: type) -> bool:
    """Whether `value` is of this kind and holds nothing; asked so, its insides are never compared."""
    return type(value) is kind and not value


def _no_hooks(value: Any) -> bool:
    """Whether a tensor has no hooks: an empty dictionary, or the None of torch before 1.1."""
    return value is None or _is_empty(value, dict)


_OPCODES = {opcode.code.encode("latin-1"): opcode for opcode in pickletools.opcodes}
"""Every step that a pickle can take, by the byte that stands for it; each knows how to read its argument."""


def _argument(opcode: pickletools.OpcodeInfo, program: io.BytesIO) -> Any:
    """What stands behind a step. Names to import are read as torch reads them: two lines as they are."""
    if opcode.name == "GLOBAL":
        module, name = (program.readline().removesuffix(b"\n").decode() for _ in range(2))
        return Global(module, name)
    return opcode.arg.reader(program) if opcode.arg else None


_STEPS: dict[str, Callable[[Structure, Any], None]] = {
    "PROTO": lambda m, version: setattr(m, "protocol", version),
    "GLOBAL": Structure._ask,
    "BINPERSID": Structure._storage,
    "REDUCE": Structure._call,
    "NEWOBJ": Structure._create,
    "BUILD": Structure._build,
    "MARK": Structure._mark,
    "TUPLE": lambda m, _: m._push(tuple(m._group())),
    "TUPLE1": lambda m, _: m._tuple_of(1),
    "TUPLE2": lambda m, _: m._tuple_of(2),
    "TUPLE3": lambda m, _: m._tuple_of(3),
    "EMPTY_TUPLE": lambda m, _: m._push(()),
    "EMPTY_LIST": lambda m, _: m._push([]),
    "EMPTY_DICT": lambda m, _: m._push({}),
    "APPEND": lambda m, _: m._append([m.stack.pop()]),
    "APPENDS": lambda m, _: m._append(m._group()),
    "SETITEM": lambda m, _: m._set_items([m.stack.pop(), m.stack.pop()][::-1]),
    "SETITEMS": lambda m, _: m._set_items(m._group()),
    "NONE": lambda m, _: m._push(None),
    "NEWTRUE": lambda m, _: m._push(True),
    "NEWFALSE": lambda m, _: m._push(False),
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"), Structure._push),
    **dict.fromkeys(("BINUNICODE", "SHORT_BINUNICODE", "SHORT_BINSTRING"), Structure._push),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), Structure._keep),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda m, index: m._push(m.memo[index])),
    "FRAME": lambda _m, _: None,
    "MEMOIZE": lambda m, _: m._keep(len(m.memo)),
    "STACK_GLOBAL": Structure._ask_from_stack,
}
"""What torch's safe reader understands, and what newer protocols need to say what they ask for."""
