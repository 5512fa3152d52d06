"""The log: one line an event, nothing that a user typed unless it is asked for, and errors that are found again."""

import asyncio
import errno
import logging
import re
from collections.abc import Iterator

import pytest
from streamlit.error_util import handle_user_script_exception

from heedmap.errors import CheckpointError, InputError
from tests.loops import completed
from ui import serving
from ui.store import cache, log, store
from ui.store.refs import CheckpointRef, Revision

TYPED = "a secret\nsentence"


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(logging, "raiseExceptions", False)  # Streamlit's handler keeps a stream of an earlier test
    for name in (log.LEVEL, log.TEXTS):
        monkeypatch.delenv(name, raising=False)
    logger, errors = logging.getLogger("heedmap"), logging.getLogger("streamlit.error_util")
    handlers, propagate, level, filters = logger.handlers, logger.propagate, logger.level, errors.filters[:]
    yield
    for handler in log.handlers():
        handler.removeFilter(log.BOUND)
    logger.handlers, logger.propagate, errors.filters = handlers, propagate, filters
    logger.setLevel(level)


def fail() -> None:
    raise KeyError(TYPED)


def error() -> KeyError:
    with pytest.raises(KeyError) as caught:
        fail()
    return caught.value


def written(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Our lines without their times; what Streamlit says of a script without a server is no line of a log of ours."""
    printed, text = capsys.readouterr()
    assert "Traceback" not in printed + text
    lines = [line for line in text.splitlines() if "ScriptRunContext" not in line and "streamlit run" not in line]
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (debug|info|warning|error) \w+ ", line) for line in lines), (
        lines
    )
    return [line.partition(" ")[2] for line in lines]


def test_an_event_is_one_line_whatever_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    log.begin()
    log.event("loaded", name="mine/a.pt", seconds=0.25, why='two\nlines = "one"', nothing=None)
    assert written(capsys) == [r'info loaded name=mine/a.pt seconds=0.25 why="two\nlines = \"one\""']


def test_what_a_user_typed_stays_out_unless_it_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log.begin()
    refusal = InputError("too_many_tokens", what=TYPED, found=300, most=256)
    log.refused(refusal)
    log.failed(error())
    lines = written(capsys)
    assert lines[0] == "info refused code=too_many_tokens of_found=300 of_most=256"
    assert re.fullmatch(r"error error id=[0-9a-f]{8} type=KeyError at=tests/ui/store/test_log\.py:\d+<\S+", lines[1])
    monkeypatch.setenv(log.TEXTS, "1")
    log.refused(refusal)
    log.failed(error())
    assert all(r"a secret\nsentence" in line or r"a secret\\nsentence" in line for line in written(capsys))


def test_a_level_leaves_out_what_is_below_it_and_must_be_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(log.LEVEL, "error")
    log.begin()
    log.event("start")
    log.failed(error())
    assert [line.split()[:2] for line in written(capsys)] == [["error", "error"]]
    monkeypatch.setenv(log.LEVEL, "loud")
    with pytest.raises(CheckpointError, match="HEEDMAP_LOG='loud' is no level"):
        log.begin()


def test_an_error_on_a_page_names_its_line_and_streamlit_adds_none(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = list[str]()
    monkeypatch.setattr("streamlit.error", lambda text, icon: shown.append(text))
    log.begin()
    handle_user_script_exception(error(), serving.on_error)
    (line,) = written(capsys)
    (name,) = re.findall(r"id=([0-9a-f]{8})", line)
    assert name in shown[0]
    assert TYPED not in shown[0] + line + caplog.text


def test_a_checkpoint_that_is_loaded_is_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    cache.clear()
    log.begin()
    ref = CheckpointRef.parse("splice-junctions")
    store.load(Revision(ref, 7))
    store.load(Revision(ref, 7))
    (line,) = written(capsys)
    assert re.fullmatch(r"info checkpoint_loaded name=splice-junctions seconds=[\d.e-]+", line)


def test_a_minute_holds_so_much_and_says_what_it_did_not(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    """Of all that write, together: a library's handler with tracebacks, and ours; then there is room again."""
    now = [0.0]
    monkeypatch.setattr(log, "BOUND", log.Bound(lambda: now[0]))
    library = logging.getLogger("a library")
    monkeypatch.setattr(library, "handlers", [logging.StreamHandler()])
    monkeypatch.setattr(library, "propagate", False)
    log.begin()
    for _ in range(log.BYTES_A_MINUTE // log.TRACEBACK_BYTES - 1):
        library.error("it failed", exc_info=error())
    assert capsys.readouterr().err.count("Traceback") == log.BYTES_A_MINUTE // log.TRACEBACK_BYTES - 1
    for _ in range(1_000):
        log.event("small", number=7)
    first = len(written(capsys))
    assert 0 < first < log.TRACEBACK_BYTES / len("info small number=7")
    library.error("it failed", exc_info=error())
    now[0] += log.MINUTE
    log.event("small", number=8)
    left_out, small = written(capsys)
    assert left_out == f"warning left_out lines={1_000 - first + 1}"
    assert small == "info small number=8"


def test_what_the_machine_has_run_out_of_is_a_sentence(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("streamlit.error", lambda text, **_: shown.append(text))
    log.begin()
    numbers = (errno.ENOSPC, errno.EMFILE, errno.EPERM)
    assert all(serving.on_error(OSError(number, "refused")) for number in numbers)
    says = ("no space left for files", "too many files and connections", "part of the page failed")
    assert all(one in text for one, text in zip(says, shown, strict=True))
    assert all(f" errno={number} " in line for number, line in zip(numbers, written(capsys), strict=True))


def test_what_fails_between_requests_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    log.begin()

    async def fails() -> None:
        loop, called = asyncio.get_running_loop(), asyncio.Event()
        loop.set_exception_handler(serving.outside_of_runs)
        loop.call_soon(fail)
        loop.call_soon(called.set)
        await called.wait()
        loop.call_exception_handler({"message": "two\nlines"})

    completed(fails())
    assert [re.sub("id=[0-9a-f]+", "id", line) for line in written(capsys)] == [
        f"error error id type=KeyError at=tests/ui/store/test_log.py:{fail.__code__.co_firstlineno + 1}",
        r'warning loop text="two\nlines"',
    ]
