"""Addresses from before the map was the first page: they lead to Translate, and nothing else does."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ui.map import choices
from ui.old_links import OF_TRANSLATE, OldLinks
from ui.shared.last_checkpoint import ON_MAP
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
        "lang=zh&model=multi30k-en-de-rnn",
        "step=2-3",
        "force=%E4%BD%A0&beam=2",
        "head=",
    ],
)
def test_an_old_address_leads_to_translate_with_all_that_it_says(query: str) -> None:
    assert answered("/", query) == (307, f"translate?{query}")


@pytest.mark.parametrize(
    ("path", "query"),
    [("/", ""), ("/", "lang=zh"), ("/", "sentence=a&checkpoint=b"), ("/align", "text=a"), ("/align/", "text=a"),
     ("/translate", "text=a"), ("/_stcore/health", "text=a")],
)  # fmt: skip
def test_everything_else_stays_where_it_is(path: str, query: str) -> None:
    assert answered(path, query) == (200, "")


def test_only_what_is_read_is_led_elsewhere() -> None:
    assert answered("/", "text=a", "POST") == (200, "")


def test_below_a_path_of_its_own_the_server_leads_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.old_links.st.get_option", lambda name: "/heed/" if name == "server.baseUrlPath" else None)
    assert answered("/heed/", "text=a") == (307, "translate?text=a")
    assert answered("/", "text=a") == (200, "")


def test_the_map_has_no_parameter_of_translate() -> None:
    assert OF_TRANSLATE.isdisjoint(
        {ON_MAP, choices.TEXT, choices.STEP, choices.PART, choices.HEAD, choices.LAYERS, TEMPERATURE}
    )
