"""The log: one line an event, nothing that a user typed unless it is asked for, and errors that are found again."""

import logging
import re
from collections.abc import Iterator

import pytest
from streamlit.error_util import handle_user_script_exception

from transformer.errors import CheckpointError, InputError
from ui import serving
from ui.store import cache, log
from ui.store.refs import CheckpointRef, Revision
from ui.store.shipped import Shipped

TYPED = "a secret\nsentence"


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(logging, "raiseExceptions", False)  # Streamlit's handler keeps a stream of an earlier test
    for name in (log.LEVEL, log.TEXTS):
        monkeypatch.delenv(name, raising=False)
    logger, errors = logging.getLogger("heedmap"), logging.getLogger("streamlit.error_util")
    handlers, propagate, level, filters = logger.handlers, logger.propagate, logger.level, errors.filters[:]
    yield
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
    text = capsys.readouterr().err
    assert "Traceback" not in text
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
    Shipped().load(Revision(ref, 7), ())
    Shipped().load(Revision(ref, 7), ())
    (line,) = written(capsys)
    assert re.fullmatch(r"info checkpoint_loaded name=splice-junctions seconds=[\d.e-]+", line)
