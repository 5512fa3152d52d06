"""Addresses from before the map was the first page: they lead to Translate, and nothing else does."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ui.map import choices
from ui.old_links import OF_TRANSLATE, OldLinks
from ui.shared.subject import MODEL, TEXT, WORD
from ui.shared.writing import TEMPERATURE


def answered(path: str, query: str = "", method: str = "GET") -> tuple[int, str]:
    """The status and where it leads; 200 from the app behind."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": []}
    with ThreadPoolExecutor(1) as pool:  # in this thread a browser's loop may be running
        pool.submit(asyncio.run, OldLinks(app)(scope, None, send)).result()  # type: ignore[arg-type]
    return sent[0]["status"], dict(sent[0]["headers"]).get(b"location", b"").decode()


@pytest.mark.parametrize(
    "query",
    [
        "text=Two%20dogs&view=Head+view",
        "step=2-3",
        "force=%E4%BD%A0&beam=2",
        "head=",
    ],
)
def test_an_old_address_leads_to_translate_with_all_that_it_says(query: str) -> None:
    assert answered("/", query) == (307, f"translate?{query}")


@pytest.mark.parametrize(
    ("path", "query"),
    [("/", ""), ("/", "text=a&word=b"), ("/", "lang=zh"), ("/", "sentence=a&checkpoint=b"), ("/", "text=a&model=b"),
     ("/align", "beam=2"), ("/align/", "beam=2"), ("/translate", "beam=2"), ("/_stcore/health", "beam=2")],
)  # fmt: skip
def test_everything_else_stays_where_it_is(path: str, query: str) -> None:
    assert answered(path, query) == (200, "")


@pytest.mark.parametrize("query", ["screen=training&moment=6", "text=a&screen=lesson&learner=x"])
def test_two_screens_of_align_are_screens_of_learning(query: str) -> None:
    assert answered("/align", query) == (307, f"learning?{query}")
    assert answered("/align", "screen=agreement&text=lesson") == (200, "")


def test_only_what_is_read_is_led_elsewhere() -> None:
    assert answered("/", "beam=2", "POST") == (200, "")


def test_below_a_path_of_its_own_the_server_leads_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.old_links.st.get_option", lambda name: "/heed/" if name == "server.baseUrlPath" else None)
    assert answered("/heed/", "beam=2") == (307, "translate?beam=2")
    assert answered("/", "beam=2") == (200, "")


def test_the_map_has_no_parameter_of_translate() -> None:
    assert OF_TRANSLATE.isdisjoint(
        {MODEL, TEXT, WORD, choices.PIECE, choices.STEP, choices.PART, choices.HEAD, choices.LAYERS, TEMPERATURE}
    )
