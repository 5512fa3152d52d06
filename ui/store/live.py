"""The user's own model, live: code that the server was started with.

`streamlit run app.py -- --model my_model.py:make` names a file and a function, which gives a `torch.nn.Module` and a
function from a text to labels and the module's inputs. Nothing else names it: no address, no
upload, no variable of the environment.
"""

import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import heedmap
from heedmap import Axis, intervening, recording
from heedmap.attention.interventions.value import from_text
from heedmap.attention.record_files.fields import MOST_POSITIONS
from heedmap.checkpoint.worker.pool import PATIENCE_SECONDS, Queue
from heedmap.errors import HeedmapError, InputError
from heedmap.runs.any_model import ModelRun
from ui.store import limits, render_slots
from ui.store.cache import in_session

NAME = "live"
"""What the live model is called in addresses."""

MAKE = "make"
"""The function that is called where the command line names none."""

MOST_NUMBERS = 10_000_000
"""Numbers of an output that are kept, to compare them with those of a changed run."""

LONGEST_ERROR = 600
"""Characters of an error of the user's code that are shown."""

_QUEUE, _HOST = Queue(1), render_slots.Readers("store.live_queue")
"""One thread at a time loads the user's code, or runs it: nothing says that it is made for more. It may take as long as
it likes, so who does holds no turn and no forward slot, and others are told that they wait."""

Made = tuple[nn.Module, Callable[[str], Any]]
"""What `make()` gave: a module, and what turns a text into labels and the module's inputs."""


@dataclass(frozen=True, eq=False)
class LiveRun:
    """A run of the live model; `notes` say what was not seen, `output` are the numbers that the module gave."""

    run: ModelRun
    notes: tuple[str, ...]
    output: Tensor | None


@cache
def named() -> str:
    """The file and function that the server was started with; empty without."""
    return limits.argument("model")


def run(text: str, changes: str = "") -> LiveRun:
    """The live model on a text, under interventions in their short form; kept for this session.

    Raises:
        InputError: the user's code fails (with file and line), or gives what the page cannot use.
        RecordError: no attention was seen, or the labels fit none.
    """
    stamp, made = loaded()
    return in_session(NAME, (named(), stamp, text, changes), lambda: _run(made, text, changes))


def key(text: str) -> tuple[str, int, str]:
    """What names a run of the live model on a text in keys of what is computed from it.

    Raises:
        InputError: there is none.
    """
    return named(), loaded()[0], text


def _run(made: Made, text: str, changes: str) -> LiveRun:
    model, (module, read) = _file()[0].stem, made
    with _alone(), torch.inference_mode():
        labels, inputs = _of_user(lambda: _read(read(text)))
        with intervening(from_text(changes)), recording(module) as seen:
            output = _of_user(lambda: _called(module, inputs))
        record = seen.record(queries=labels.get("queries"), keys=labels.get("keys"), model=model, text=text)
    return LiveRun(ModelRun(model, text, record), seen.notes, _numbers(output))


def _called(module: nn.Module, inputs: Any) -> Any:
    """The module called with one input, with a tuple of them, or with a mapping of them by name."""
    if isinstance(inputs, Mapping):
        return module(**inputs)
    return module(*inputs) if isinstance(inputs, tuple) else module(inputs)


def _read(given: Any) -> tuple[dict[str, Any], Any]:
    """Labels by side, and inputs, of what the user's function gives for a text, or a refusal of anything else."""
    if not isinstance(given, tuple) or len(given) != 2:
        raise InputError("live_reads", found=type(given).__name__)
    labels, inputs = given
    sides = labels if isinstance(labels, Mapping) else dict.fromkeys(("queries", "keys"), labels)
    if not sides or sides.keys() - {"queries", "keys"}:
        raise InputError("live_labels", found=", ".join(map(str, sides)))
    return {side: _labels(one) for side, one in sides.items()}, inputs


def _labels(given: Any) -> Any:
    if isinstance(given, Mapping):
        return {str(site): _labels(one) for site, one in given.items()}
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError("live_labels", found=type(given).__name__)
    found = given if isinstance(given, Axis) else [str(one) for one in islice(given, MOST_POSITIONS + 1)]
    if len(found) > MOST_POSITIONS:
        raise InputError("live_labels_many", most=MOST_POSITIONS)
    return found


def _numbers(output: Any) -> Tensor | None:
    """The numbers of all tensors that an output holds, in a row; None where there are none, or too many."""
    found = [one.detach().flatten() for one in _tensors(output, 3)]
    if not found or sum(map(len, found)) > MOST_NUMBERS or any(one.is_complex() for one in found):
        return None
    return torch.cat([one.to("cpu", torch.float64) for one in found])


def _tensors(output: Any, depth: int) -> list[Tensor]:
    if isinstance(output, Tensor):
        return [output]
    parts = output.values() if isinstance(output, Mapping) else output if isinstance(output, tuple | list) else ()
    return [one for part in parts for one in _tensors(part, depth - 1)] if depth else []


def loaded() -> tuple[int, Made]:
    """The live model and the moment of its file: code that was saved again is loaded again.

    Raises:
        InputError: its code fails, or gives no module and function.
    """
    file, name = _file()
    if not file.is_file():
        raise InputError("live_no_file", file=file.name)
    stamp = file.stat().st_mtime_ns
    key = file, name, stamp
    found = _MADE.get(key)
    if found is None:
        with _alone():
            found = _MADE.get(key) or _load(file, name)
            _MADE.clear()
            _MADE[key] = found
    if isinstance(found, HeedmapError):
        raise found.with_traceback(None)
    return stamp, found


_MADE: dict[tuple[Path, str, int], Made | HeedmapError] = {}
"""What the user's code made last, or why nothing; it is run once for each moment of its file."""


@contextmanager
def _alone() -> Iterator[None]:
    """Wait until nobody else loads or runs the user's code.

    Raises:
        InputError: another one does so for too long.
    """
    render_slots.give_back()
    with _QUEUE.told(_HOST, PATIENCE_SECONDS, InputError("live_busy")):
        yield


def _file() -> tuple[Path, str]:
    """The file and the function that the command line names."""
    path, _, name = named().rpartition(":") if ".py:" in named() else (named(), "", MAKE)
    return Path(path).expanduser().resolve(), name


def _load(file: Path, name: str) -> Made | HeedmapError:
    """What the user's code makes, or why it makes nothing."""
    spec = spec_from_file_location(f"heedmap_live_{file.stem}", file)
    if spec is None or spec.loader is None:
        return InputError("live_no_file", file=file.name)
    module, load = module_from_spec(spec), spec.loader.exec_module
    sys.modules[spec.name] = module
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # last, so that no file beside it stands for one of a library
    try:
        _of_user(lambda: load(module))
        make = getattr(module, name, None)
        if not callable(make):
            return InputError("live_no_function", file=file.name, name=name)
        given = _of_user(make)
    except HeedmapError as error:
        return error
    if not isinstance(given, tuple) or len(given) != 2 or not isinstance(given[0], nn.Module) or not callable(given[1]):
        return InputError("live_makes", name=name, found=type(given).__name__)
    return given[0], given[1]


def _of_user(call: Callable[[], Any]) -> Any:
    """What the user's code gives, or an InputError that says where it fails, and how, whatever it raises."""
    try:
        return call()
    except BaseException as error:
        if isinstance(error, HeedmapError) or type(error).__module__.startswith("streamlit."):  # an end of this run
            raise
        kind, text = type(error).__name__, " ".join(traceback.format_exception_only(error)[-1:]).strip()
        file, line = _place(error)
        text = text.removeprefix(f"{type(error).__module__}.").removeprefix(f"{kind}: ")[:LONGEST_ERROR]
        raise InputError("live_raised", file=file, line=line, kind=kind, text=text) from error


def _place(error: BaseException) -> tuple[str, int]:
    """File and line of the last step that is the user's own: no library's, and none of this project."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return Path(error.filename).name, error.lineno
    steps = traceback.extract_tb(error.__traceback__)
    own = [step for step in steps if not step.filename.startswith(("<", *_LIBRARIES))]
    last = (own or steps)[-1]
    return Path(last.filename).name, last.lineno or 0


_LIBRARIES = tuple(
    f"{folder}{os.sep}"
    for folder in (
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        Path(__file__).parents[1],
        *heedmap.__path__,
    )
)
"""Where code lies that is not the user's."""
