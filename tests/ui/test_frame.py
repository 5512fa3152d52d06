"""The page that loads everything else: its styles, its language, its scripts, and what is left as it is."""

import re
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response
from streamlit.testing.v1 import AppTest

from tests.loops import Answer, answered
from ui.components.shared import mounting
from ui.frame import SCRIPT, STYLE, Frame, framed, language_of
from ui.guard import INDEX, POLICY, inline_scripts

PAGE = INDEX.read_text(encoding="utf-8")
DEMO = Path(__file__).parents[1] / "browser" / "pages" / "components.py"


def framing(address: str, **headers: str) -> tuple[Answer, Any]:
    """What the frame answers, and the request as the app behind it sees it."""
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope)
        told = {"content-type": "text/html; charset=utf-8", "etag": "old", "content-length": str(len(PAGE)), **headers}
        raw = [(name.encode(), value.encode()) for name, value in told.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        await send({"type": "http.response.body", "body": PAGE.encode()[:100], "more_body": True})
        await send({"type": "http.response.body", "body": PAGE.encode()[100:]})

    return answered(Frame(app), address, if_none_match="old", accept_encoding="gzip", accept="*/*"), seen


@pytest.mark.parametrize(("query", "language"), [("", "en"), ("?text=a&lang=zh", "zh"), ("?lang=%22%3E", "en")])
def test_a_page_comes_with_its_styles_and_its_language(query: str, language: str) -> None:
    answer, scope = framing(f"/align{query}")
    page = answer.body.decode()
    assert f'<html lang="{language}"' in page
    assert page.index(STYLE) < page.index("</head>")
    assert 'as="font"' not in page
    assert page.index(SCRIPT) < page.index("<script", page.index(SCRIPT) + 1)  # before any other
    assert set(inline_scripts(page)) <= set(POLICY["script-src"].split())  # by their fingerprints
    assert answer.headers["content-length"] == str(len(answer.body))
    assert "etag" not in answer.headers
    assert [name for name, _ in scope["headers"]] == [b"accept"]


def test_what_is_no_page_passes_as_it_is() -> None:
    for path, told in (
        ("/static/js/index.js", {}), ("/_stcore/health", {}),
        ("/", {"content-type": "image/png"}), ("/", {"content-encoding": "gzip"}),
    ):  # fmt: skip
        answer, _ = framing(path, **told)
        assert (answer.body, answer.headers["etag"]) == (PAGE.encode(), "old")


def test_only_known_languages_are_named() -> None:
    assert language_of(b"lang=zh&lang=en") == "en"
    assert language_of(b"lang=xx") == "en"
    assert framed('<html lang="en"></head>', "zh").startswith('<html lang="zh"><script type="module"')


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame says that it brings the components' scripts."""
    monkeypatch.setattr(mounting, "_by_page", [])


def test_every_page_loads_the_file_that_is_served() -> None:
    served = Frame(Response(b"of others", 404))
    found = re.search(r'<script type="module" async src="\./([\w.-]+)"></script>', framed("<head></head>", "en"))
    assert found is not None
    for folder in ("", "/behind/a/proxy"):
        answer = answered(served, f"{folder}/{found[1]}")
        assert (answer.status, answer.body.decode()) == (200, mounting.script(mounting.ALL))
        source_map = answered(served, f"{folder}/{answer.headers['sourcemap'].removeprefix('./')}")
        assert source_map.body.decode() == mounting.script(mounting.MAP)
        assert answer.headers["content-type"].startswith("text/javascript")
        assert "immutable" in answer.headers["cache-control"]
        assert "etag" in answer.headers, "without it the file is not packed"
    assert answered(served, "/components-0.js").status == 404


def test_a_page_that_loads_the_scripts_gets_none_by_messages() -> None:
    Frame(Response())
    page = AppTest.from_file(str(DEMO), default_timeout=60).run()
    sent = [element.proto for element in page.get("bidi_component")]
    assert sent
    assert max(len(one.js_content) for one in sent) < 2_000
