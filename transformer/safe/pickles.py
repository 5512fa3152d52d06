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

from transformer.messages import Message
from transformer.safe import allowed
from transformer.safe.allowed import Global
from transformer.safe.declared import (
    Dropped,
    Options,
    Plain,
    StorageInfo,
    TensorInfo,
    declared_storage,
    declared_tensor,
    is_count,
)
from transformer.safe.limits import ReadLimits
from transformer.safe.refusal import SAVE_WEIGHTS, refused, shown

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


def _is_large(one: Any) -> bool:
    """Whether a number takes long to print."""
    return type(one) is int and abs(one) >= _LARGEST_KEY


@dataclass
class Structure:
    """What the pickles of one file would build. `storages` collects the blocks of numbers by key.

    `dropped` collects the kinds of values that were passed over.
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
        return _Machine(self).run(program)

    def count(self, items: int) -> None:
        """Count what containers hold.

        Raises:
            CheckpointError: more than the limit.
        """
        self.items += items
        if self.items > self.limits.container_items:
            raise refused("items_many", self.source, SAVE_WEIGHTS, most=self.limits.container_items)


@dataclass
class _Machine:
    """The stack and the memory of one pickle while it runs symbolically."""

    file: Structure
    stack: list[Any] = field(default_factory=list)
    outer: list[list[Any]] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)
    protocol: int = PROTOCOL

    def run(self, program: io.BytesIO) -> Any:
        """Step by step until STOP."""
        source, limits = self.file.source, self.file.limits
        deadline = time.monotonic() + limits.seconds
        try:
            for step in range(limits.pickle_steps):
                if step % 1024 == 0:
                    self._check_pace(deadline)
                opcode = _OPCODES[program.read(1)]
                if opcode.name == "STOP":
                    return self.finish()
                if opcode.name not in _STEPS:
                    raise refused("pickle_step", source, SAVE_WEIGHTS, step=opcode.name)
                _STEPS[opcode.name](self, _argument(opcode, program))
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
            what = f"{type(error).__name__}: {error!s:.200}"
            raise refused("pickle_damaged", source, error=what) from error
        raise refused("pickle_steps", source, SAVE_WEIGHTS, most=limits.pickle_steps)

    def _check_pace(self, deadline: float) -> None:
        """Refuse what takes too long, or piles up more than a container may hold."""
        if time.monotonic() > deadline:
            raise refused("structure_slow", self.file.source, SAVE_WEIGHTS, seconds=self.file.limits.seconds)
        if len(self.stack) > 2 * self.file.limits.container_items:
            self.file.count(len(self.stack))

    def push(self, value: Any) -> None:
        """Put an operand on the stack."""
        self.stack.append(value)

    def mark(self, _: None) -> None:
        """Start a group of operands."""
        self.outer.append(self.stack)
        self.stack = []

    def group(self) -> list[Any]:
        """Take the operands since the last mark."""
        operands, self.stack = self.stack, self.outer.pop()
        return operands

    def finish(self) -> Any:
        """What stands on the stack at the end. Newer protocols come this far, so that what they ask for is named."""
        if self.protocol != PROTOCOL:
            remedy = Message("remedy_no_protocol")
            raise refused("pickle_protocol", self.file.source, remedy, found=self.protocol, known=PROTOCOL)
        return self.stack.pop()

    def declare(self, version: int) -> None:
        """The first step says which protocol the rest is in."""
        self.protocol = version

    def ask(self, wanted: Global) -> None:
        """A name to import: allowed, or the end."""
        if wanted not in allowed.ALLOWED:
            raise refused("asks_to_import", self.file.source, SAVE_WEIGHTS, name=shown(str(wanted)))
        self.push(wanted)

    def ask_from_stack(self, _: None) -> None:
        """A name to import, put together from two texts."""
        name, module = self.stack.pop(), self.stack.pop()
        if not isinstance(module, str) or not isinstance(name, str):
            raise TypeError("a name to import is no text")
        self.ask(Global(module, name))

    def keep(self, index: int) -> None:
        """Remember the top of the stack."""
        self.memo[index] = self.stack[-1]

    def recall(self, index: int) -> None:
        """Use again what was remembered."""
        self.push(self.memo[index])

    def tuple_of(self, size: int) -> None:
        """Take `size` operands as one tuple."""
        operands = self.stack[-size:]
        if len(operands) < size:
            raise IndexError("too few operands")
        self.stack[-size:] = [tuple(operands)]

    def append(self, values: list[Any]) -> None:
        """Put values at the end of a list."""
        target = self.stack[-1]
        if isinstance(target, Dropped):
            return
        if not isinstance(target, list):
            raise TypeError(f"appends to a {type(target).__name__}")
        self.file.count(len(values))
        target.extend(values)

    def set_items(self, values: list[Any]) -> None:
        """Put keys and values into a dictionary; only keys that cannot be made to take forever to hash.

        A tensor under a tuple of words is called after them, with dots between; whatever else lies under a tuple is
        passed over.
        """
        target = self.stack[-1]
        if isinstance(target, Dropped):
            return
        if not isinstance(target, dict) or len(values) % 2:
            raise TypeError(f"sets {len(values)} keys and values of a {type(target).__name__}")
        self.file.count(len(values) // 2)
        longest = self.file.limits.name_characters
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not (isinstance(key, str) or (type(key) is int and abs(key) < _LARGEST_KEY)):
                name = self._dotted(key, value)
                if name is None:
                    continue
                if name in target:
                    raise refused("key_twice", self.file.source, SAVE_WEIGHTS, name=shown(name))
                key = name  # noqa: PLW2901  (the name that a tuple stands for)
            if isinstance(key, str) and len(key) > longest:
                raise refused("key_long", self.file.source, SAVE_WEIGHTS, found=len(key), most=longest)
            target[key] = value

    def _dotted(self, key: Any, value: Any) -> str | None:
        """The name of a tensor whose key is a tuple; None for another value, and it is noted that it was left out."""
        if type(key) is not tuple or len(key) > _KEY_ITEMS or not all(type(one) in _IN_KEY for one in key):
            raise TypeError(f"a key is a {type(key).__name__}, not a text or a small number")
        if not isinstance(value, TensorInfo):
            self.file.dropped.add(_OF_PAIRS)
            return None
        if not key or not all(type(one) in {str, int} for one in key) or any(map(_is_large, key)):
            raise refused("key_no_name", self.file.source, SAVE_WEIGHTS)
        return ".".join(map(str, key))

    def set_item(self, _: None) -> None:
        """Put one key and its value into a dictionary."""
        values = self.stack[-2:]
        del self.stack[-2:]
        self.set_items(values)

    def create(self, _: None) -> None:
        """An empty object of an allowed class."""
        arguments, kind = self.stack.pop(), self.stack.pop()
        if not isinstance(kind, Global) or kind != allowed.NAMESPACE or not _is_empty(arguments, tuple):
            raise TypeError("creates an object that torch.save does not write")
        self.push(Options())

    def build(self, _: None) -> None:
        """Fill an object with its state."""
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, Dropped):
            return
        if not isinstance(state, dict):
            raise TypeError(f"fills a {type(target).__name__} from a {type(state).__name__}")
        self.file.count(len(state))  # each time: one table can fill many objects
        if not all(isinstance(key, str) for key in state):
            raise TypeError(f"fills a {type(target).__name__} under names that are no texts")
        if isinstance(target, Options):
            target.values.update(state)
        elif not isinstance(target, dict):  # an OrderedDict carries `_metadata`, which says nothing of the weights
            raise TypeError(f"fills a {type(target).__name__}")

    def call(self, _: None) -> None:
        """A call of an allowed name, which is noted and not made."""
        arguments, function = self.stack.pop(), self.stack.pop()
        if type(arguments) is not tuple or not isinstance(function, Global):
            raise TypeError(f"calls a {type(function).__name__}")
        if function in allowed.DROPPED:
            self.file.dropped.add(str(function))
            self.push(Dropped(function))
        elif function == allowed.DEFAULT_DICT and len(arguments) < 2 and all(map(_is_kind, arguments)):
            self.push({})
        else:
            self.push(self._result(function, arguments))

    def _result(self, function: Global, arguments: tuple[Any, ...]) -> Any:
        if function == allowed.TENSOR and len(arguments) == 6 and _no_hooks(arguments[5]):
            return declared_tensor(*arguments[:4], source=self.file.source, limits=self.file.limits)
        if function == allowed.PARAMETER and len(arguments) == 3 and isinstance(arguments[0], TensorInfo):
            return arguments[0]
        if function == allowed.ORDERED_DICT and not arguments:
            return {}
        if function == allowed.SIZE and len(arguments) == 1 and self._are_sizes(arguments[0]):
            return Plain(function)
        if function == allowed.DEVICE and len(arguments) <= 2 and all(isinstance(one, str | int) for one in arguments):
            return Plain(function)
        raise TypeError(f"calls {function} in a way that torch.save does not")

    def _are_sizes(self, value: Any) -> bool:
        return type(value) is tuple and len(value) <= self.file.limits.dimensions and all(map(is_count, value))

    def storage(self, _: None) -> None:
        """A reference to a block of numbers, which stands elsewhere in the file."""
        info = declared_storage(self.stack.pop())
        if self.file.storages.setdefault(info.key, info) != info:
            raise ValueError(f"block {shown(info.key)} is described twice, differently")
        self.push(info)


def _is_kind(value: Any) -> bool:
    """Whether `value` is a name that a defaultdict makes its values of, or none."""
    return value is None or (isinstance(value, Global) and value in allowed.KINDS)


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


_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": _Machine.declare,
    "GLOBAL": _Machine.ask,
    "BINPERSID": _Machine.storage,
    "REDUCE": _Machine.call,
    "NEWOBJ": _Machine.create,
    "BUILD": _Machine.build,
    "MARK": _Machine.mark,
    "TUPLE": lambda m, _: m.push(tuple(m.group())),
    "TUPLE1": lambda m, _: m.tuple_of(1),
    "TUPLE2": lambda m, _: m.tuple_of(2),
    "TUPLE3": lambda m, _: m.tuple_of(3),
    "EMPTY_TUPLE": lambda m, _: m.push(()),
    "EMPTY_LIST": lambda m, _: m.push([]),
    "EMPTY_DICT": lambda m, _: m.push({}),
    "APPEND": lambda m, _: m.append([m.stack.pop()]),
    "APPENDS": lambda m, _: m.append(m.group()),
    "SETITEM": _Machine.set_item,
    "SETITEMS": lambda m, _: m.set_items(m.group()),
    "NONE": lambda m, _: m.push(None),
    "NEWTRUE": lambda m, _: m.push(True),
    "NEWFALSE": lambda m, _: m.push(False),
    "BININT": _Machine.push,
    "BININT1": _Machine.push,
    "BININT2": _Machine.push,
    "LONG1": _Machine.push,
    "BINFLOAT": _Machine.push,
    "BINUNICODE": _Machine.push,
    "SHORT_BINSTRING": _Machine.push,
    "BINPUT": _Machine.keep,
    "LONG_BINPUT": _Machine.keep,
    "BINGET": _Machine.recall,
    "LONG_BINGET": _Machine.recall,
    "FRAME": lambda _m, _: None,
    "MEMOIZE": lambda m, _: m.keep(len(m.memo)),
    "SHORT_BINUNICODE": _Machine.push,
    "STACK_GLOBAL": _Machine.ask_from_stack,
}
"""What torch's safe reader understands; and, at the end, what newer protocols need to say what they ask for."""
