"""Long runs: what one will take is measured on shorter ones, how far it is can be told, and it can be stopped.

How far a run is follows from the clock. Nothing of a model is changed for that: PyTorch lets a thread see its
operations. An attention, whose cost grows with the square of the length, is given to the fused kernel one head at a
time, and a long head in groups of its queries: in blocks of the size that it computes without groups, so what comes out
is the same to the bit. Whoever listens may raise: the run ends there, and nothing is kept.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from ..errors import InputError
from ..explain.attribution.deletion import Progress
from ..nn import fused

SHORT = 1_024
"""Positions up to which a run is nothing to speak of, and is not measured beforehand."""

MOST_BYTES = 4 * 2**30
"""How much memory a run may take at its peak, unless the caller says otherwise."""

CELLS_AT_ONCE = 2**27
"""Weights of an attention that are computed between two signs of life: about 0.2 s of one core."""

ROWS_AT_ONCE = 2_048
"""Queries in a group are a multiple of this, so that the kernel parts them as it would without groups."""

FEWEST_ROWS = 768
"""Queries of an attention from which the kernel parts them in its largest blocks: no group has fewer."""

LISTENING = 0.1
"""Seconds between two signs of life, at least."""

FIRST, LAST, ENOUGH = 128, 1_024, 0.03
"""Runs that are measured: from this length, doubled up to that one while they take less than so many seconds."""

IN_HAND = 4
"""How many times what its largest operation reads and writes a run needs at its peak: what is not yet let go."""

LABELS = 250
"""Bytes of a position's names."""

MEGABYTE = 1_000_000


class Cost(NamedTuple):
    """What a run takes, about: seconds on this machine as it is, bytes at its peak, bytes that its record holds."""

    seconds: float
    n_bytes: int
    kept_bytes: int


class _Growth(NamedTuple):
    """a n + b n^2, through what was found at n and at n / 2."""

    linear: float
    square: float

    @classmethod
    def through(cls, n: int, half: float, whole: float) -> "_Growth":
        square = max(0.0, (whole - 2 * half) * 2 / n**2)
        return cls((whole - square * n**2) / n, square)

    def at(self, n: int) -> float:
        return self.linear * n + self.square * n**2


@dataclass(frozen=True)
class Pace:
    """How the runs of a model grow with the length of what it reads (letters, tokens), from two that were measured."""

    seconds: _Growth
    in_hand: _Growth
    kept: _Growth

    def cost(self, length: int) -> Cost:
        """What a run over so many letters or tokens takes."""
        kept = self.kept.at(length) + LABELS * length
        return Cost(self.seconds.at(length), int(kept + IN_HAND * self.in_hand.at(length)), int(kept))

    def longest(self, most_bytes: int) -> int:
        """The longest input whose run needs no more than this, to two digits."""
        low, high = 0, 10**8
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.cost(middle).n_bytes <= most_bytes else (low, middle - 1)
        unit = 10 ** max(0, len(str(low)) - 2)
        return low // unit * unit

    @contextmanager
    def reported(self, length: int, heard: Progress) -> Iterator[None]:
        """Tell of the run inside how far it is by the clock, at its operations and within its attentions."""
        expected, start, reported_at = self.seconds.at(length), time.monotonic(), 0.0

        def step() -> None:
            nonlocal reported_at
            now = time.monotonic()
            if now - reported_at >= LISTENING:
                heard(min(0.99, (now - start) / (expected or 1.0)))
                reported_at = time.monotonic()

        with _Operations(step):
            yield


_PACES: WeakKeyDictionary[nn.Module, Pace] = WeakKeyDictionary()
_measuring = Lock()


def pace_of(model: nn.Module, length: int, run: Callable[[int], int]) -> Pace:
    """The pace of a model, measured once: `run` reads so many letters or tokens and says how many bytes it kept.

    `length` is what is to be run: nothing longer is tried.
    """
    with _measuring:
        found = _PACES.get(model)
    if found is None:
        found = _measured(length, run)
        with _measuring:
            _PACES[model] = found
    return found


def refuse_large(pace: Pace, length: int, most_bytes: int) -> None:
    """Refuse what would not fit into memory.

    Raises:
        InputError: the run would take more at its peak.
    """
    needed = pace.cost(length).n_bytes
    if needed > most_bytes:
        raise InputError(
            "run_large",
            found=length,
            needed=max(1, needed // MEGABYTE),
            most=max(1, most_bytes // MEGABYTE),
            longest=pace.longest(most_bytes),
        )


def _measured(length: int, run: Callable[[int], int]) -> Pace:
    size = min(FIRST, length)
    while True:
        half, whole = _watched(run, max(1, size // 2)), _watched(run, size)
        if size * 2 > min(LAST, length) or whole[0] > ENOUGH:
            rest, in_hand, kept = (_Growth.through(size, *both) for both in zip(half[1:], whole[1:], strict=True))
            attending = whole[0] - whole[1]
            return Pace(_Growth(rest.linear, rest.square + attending / size**2), in_hand, kept)
        size *= 2


def _watched(run: Callable[[int], int], length: int) -> tuple[float, float, float, float]:
    """Of the quicker of two runs, since the first one makes things ready.

    Seconds, seconds outside of fused attention, bytes in hand, and bytes kept.
    """
    found = []
    for _ in range(2):
        start = time.perf_counter()
        with _Operations() as seen:
            kept = run(length)
        seconds = time.perf_counter() - start
        found.append((seconds, seconds - seen.attending, float(seen.in_hand), float(kept)))
    return min(found)


class _Operations(TorchFunctionMode):
    """See this thread's operations: `step` is called at each and within large attentions.

    `in_hand` is the most that one of them read and wrote, in bytes, parameters aside; `attending` the seconds that
    fused attentions took.
    """

    def __init__(self, step: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._step, self.in_hand, self.attending = step, 0, 0.0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation; what only looks at a tensor (its shape, its device) is none."""
        given = kwargs or {}
        if getattr(func, "__name__", "") in {"__get__", "__set__"}:
            return func(*args, **given)
        attends, start = func in _attentions(), time.perf_counter()
        is_split = attends and _splits(*args[:3])
        found = _in_pieces(func, args, given, self._step) if is_split else func(*args, **given)
        if isinstance(found, Tensor) and found.is_cuda:  # what a GPU was given is not done when the call returns
            torch.cuda.synchronize(found.device)
        self.attending += (time.perf_counter() - start) * attends
        there = (*args, *(found if isinstance(found, tuple) else (found,)))
        tensors = [one for one in there if isinstance(one, Tensor) and not isinstance(one, nn.Parameter)]
        self.in_hand = max(self.in_hand, sum(one.nbytes for one in tensors))
        self._step()
        return found


def _attentions() -> tuple[Any, Any]:
    return F.scaled_dot_product_attention, getattr(torch.ops.aten, fused.OPERATOR, None)


def _splits(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether an attention is so large that it is done in pieces; slopes pass through it as a whole."""
    alike = q.ndim == k.ndim == v.ndim == 4 and q.shape[1] % k.shape[1] == 0 and k.shape[1] == v.shape[1]
    large = q.shape[0] * q.shape[-3] * q.shape[-2] * k.shape[-2] > CELLS_AT_ONCE
    return alike and large and not torch.is_grad_enabled()


def _in_pieces(func: Any, args: tuple[Any, ...], given: dict[str, Any], step: Callable[[], None]) -> Any:
    """An attention head by head; what its parts are alone is what they are together."""
    q, k, v, *rest = args
    batch, n_heads, n_queries, n_keys = q.shape[0], q.shape[1], q.shape[2], k.shape[2]
    mask, shared = given.get("attn_mask"), n_heads // k.shape[1]
    mixed = q.new_empty(batch, n_queries, n_heads, v.shape[-1]).transpose(1, 2)
    sums = q.new_empty(batch, n_queries, n_heads).transpose(1, 2)
    pairs = False
    is_causal = bool(given.get("is_causal")) or True in rest  # rows of a causal part would be told from its own start
    groups = [slice(0, n_queries)] if is_causal else _groups(n_queries, n_keys * batch)
    for head in range(n_heads):
        heads, key_heads = slice(head, head + 1), slice(head // shared, head // shared + 1)
        for rows in groups:
            step()
            part = {**given, "attn_mask": _mask_of(mask, heads, rows)} if mask is not None else given
            found = func(q[:, heads, rows], k[:, key_heads], v[:, key_heads], *rest, **part)
            pairs = isinstance(found, tuple)
            mixed[:, heads, rows] = found[0] if pairs else found
            if pairs:
                sums[:, heads, rows] = found[1]
    return (mixed, sums) if pairs else mixed


def _groups(n_queries: int, n_keys: int) -> list[slice]:
    rows = max(1, CELLS_AT_ONCE // n_keys // ROWS_AT_ONCE) * ROWS_AT_ONCE
    starts = [start for start in range(0, n_queries, rows) if start == 0 or n_queries - start >= FEWEST_ROWS]
    return [slice(*bounds) for bounds in pairwise([*starts, n_queries])]


def _mask_of(mask: Tensor, heads: slice, rows: slice) -> Tensor:
    """The part of a mask that broadcasts to (batch, head, query, key)."""
    part = mask[(None,) * (4 - mask.ndim)]
    return part[:, heads if part.shape[1] > 1 else slice(None), rows if part.shape[2] > 1 else slice(None)]
