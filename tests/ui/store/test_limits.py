"""Files and connections: as many as the system lets, and never so many readers that nobody is served."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import AsyncMock

import pytest
from starlette.responses import PlainTextResponse

from heedmap.errors import CheckpointError
from tests.loops import completed
from ui import serving
from ui.guard import Guard
from ui.store import limits, log


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def allow(most: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def test_the_limit_is_raised_to_what_the_system_lets_and_readers_leave_room_for_the_server() -> None:
    for files, readers in ((64, 8), (160, 20), (1_024, 128), (4_096, 896), (512, 64)):
        allow(files)
        assert limits.readers() == readers
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    expected = limits.MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, limits.MOST_FILES)
    assert limits.raise_open_files() == expected
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (expected, hard)


def test_one_reader_too_many_gets_a_sentence_and_the_others_stay() -> None:
    """The reader who comes when all places are taken is refused; when one has gone there is a place again."""
    allow(160)
    inside, all_places = list[int](), limits.readers()

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        inside.append(guard._readers)
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
        else:
            await PlainTextResponse("page")(scope, receive, send)

    def asked(kind: str) -> list[dict[str, Any]]:
        send = AsyncMock()
        completed(guard({"type": kind, "method": "GET", "path": "/", "headers": []}, AsyncMock(), send))
        return [call.args[0] for call in send.call_args_list]

    guard = Guard(app)
    for taken in (0, all_places - 1, all_places, all_places - 1):
        guard._readers = taken
        socket, (page, body) = asked("websocket")[0]["type"], asked("http")
        if taken < all_places:
            assert (socket, page["status"], inside[-2:]) == ("websocket.accept", 200, [taken + 1, taken])
        else:
            assert (socket, page["status"]) == ("websocket.close", 503)
            assert b"too many files and connections open" in body["body"]
        assert guard._readers == taken


def test_the_process_is_measured() -> None:
    """In a process of its own: others of this one's threads take memory and give it back at any moment."""
    lines = (
        "import numpy as np",
        "from ui.store.limits import resident",
        "before = resident()",
        "grown = np.ones(50_000_000, dtype=np.uint8)",
        "print(resident() - before)",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 40_000_000


@pytest.mark.parametrize(
    ("value", "said"), [("777", "takes 200 MB: set STREAMLIT_SERVER_MAX_UPLOAD_SIZE=777"), ("7 MB", "no number")]
)
def test_a_bound_that_is_none_or_that_the_web_server_undercuts_keeps_it_from_starting(
    value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDMAP_UPLOAD_MB", value)
    monkeypatch.setattr(log, "begin", lambda: None)
    with pytest.raises(CheckpointError, match=said):
        serving.life(None).__aenter__().send(None)  # type: ignore[attr-defined]  # a coroutine


def test_a_bound_is_a_number_of_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("CACHE", 1024), ("UPLOAD", 200), ("SESSION", 400), ("SERVER", 2048)):
        assert limits.n_bytes(f"HEEDMAP_{name}_MB") == size * 2**20
        monkeypatch.setenv(f"HEEDMAP_{name}_MB", str(size + 7))
        assert limits.n_bytes(f"HEEDMAP_{name}_MB") == (size + 7) * 2**20
    for wrong in ("", "0", "-1", "1.5", "many", "٣", "1000000"):
        monkeypatch.setenv("HEEDMAP_CACHE_MB", wrong)
        with pytest.raises(CheckpointError, match="no number of megabytes"):
            limits.n_bytes("HEEDMAP_CACHE_MB")
