"""What a measure leaves beside a checkpoint: JSON, which is read as strictly as any stranger's file."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from ...checkpoint.checkpoint import Checkpoint
from ...messages import Message
from ...safe.limits import refused

T = TypeVar("T")


@dataclass(frozen=True)
class MeasureFile(Generic[T]):
    """The file of one kind of measure: its name beside a checkpoint, and the dataclass whose fields it holds.

    It says `besides` as well, and must say all of `must`. `checked` gives what was read, or raises a ValueError.
    Numbers are written with so many `digits`.
    """

    name: str
    kind: str
    holds: type[T]
    checked: Callable[[T], T] = lambda found: found
    must: Mapping[str, Any] = field(default_factory=dict)
    besides: Mapping[str, Any] = field(default_factory=dict)
    digits: int = 4

    def write(self, path: Path, found: T) -> None:
        """Write it; null stands where there is no number."""
        about = {**self.must, **self.besides, **_written(found, self.digits)}
        path.write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def read(self, path: Path) -> T:
        """What `write` wrote.

        Raises:
            CheckpointError: it cannot be read, or holds something else.
        """
        name, remedy = f"{path.parent.name}/{path.name}", Message("remedy_measure", kind=self.kind)
        refusal = refused("damaged_measure", name, remedy, kind=self.kind)
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            found = self.checked(_made(self.holds, about))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
            raise refusal from error
        if any(about.get(name) != value for name, value in self.must.items()):
            raise refusal
        return found

    def beside(self, checkpoint: Checkpoint) -> T | None:
        """What lies beside a checkpoint's weights; None where nothing does, or where these are of another moment."""
        path = checkpoint.beside(self.name)
        return None if path is None else self.read(path)


def _written(value: Any, digits: int) -> Any:
    if is_dataclass(value):
        return {one.metadata.get("key", one.name): _written(getattr(value, one.name), digits) for one in fields(value)}
    if isinstance(value, Mapping):
        return {name: _written(one, digits) for name, one in value.items()}
    if isinstance(value, tuple):
        return [_written(one, digits) for one in value]
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, digits)
    return value


def _made(kind: Any, value: Any) -> Any:
    """A value of this type from JSON; a named tuple is a list there, and a number that is not known is null."""
    inside = get_args(kind)
    if is_dataclass(kind):
        types = get_type_hints(kind)
        named = {one.name: value[one.metadata.get("key", one.name)] for one in fields(kind)}
        return kind(**{name: _made(types[name], one) for name, one in named.items()})  # type: ignore[operator]
    if get_origin(kind) is tuple:
        return tuple(_made(inside[0], one) for one in value)
    if inside:
        return {str(name): _made(inside[1], one) for name, one in value.items()}
    if hasattr(kind, "_fields"):
        return kind(*(_made(type_, one) for type_, one in zip(get_type_hints(kind).values(), value, strict=True)))
    if kind is float:
        return math.nan if value is None else float(value)
    if kind in (int, str, bool) and type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return kind(value)
