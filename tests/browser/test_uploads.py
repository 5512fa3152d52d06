"""The endpoint for uploads, as a client reaches it that no page has asked for a file."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, WebSocket
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.browser.visiting import RENDERED

pytestmark = pytest.mark.browser
APP = Path(__file__).parents[2] / "app.py"
PUT = """async ([session, id, bytes]) => {
  const form = new FormData();
  form.append("file", new Blob([new Uint8Array(bytes)]), "model.pt");
  const token = document.cookie.split("; ").find((one) => one.startsWith("_streamlit_xsrf="))?.split("=")[1] ?? "";
  const headers = { "X-Xsrftoken": decodeURIComponent(token) };
  const answer = await fetch(`/_stcore/upload_file/${session}/${id}`, { method: "PUT", body: form, headers });
  return answer.status;
}"""


@pytest.fixture
def session(serve, browser: Browser):
    """`session(path)` is a page of the app and the name of its session."""
    contexts = []

    def go(path: str) -> tuple[Page, str]:
        contexts.append(browser.new_context())
        page = contexts[-1].new_page()
        names: list[str] = []

        def listen(frame: str | bytes) -> None:
            if isinstance(frame, bytes):
                message = ForwardMsg.FromString(frame)
                if message.WhichOneof("type") == "new_session":
                    names.append(message.new_session.initialize.session_id)

        def hear(socket: WebSocket) -> None:
            socket.on("framereceived", listen)

        page.on("websocket", hear)
        page.goto(f"{serve(APP)}{path}")
        page.locator("[data-testid=stHeading]").first.wait_for()
        page.locator(RENDERED).wait_for()
        return page, names[-1]

    yield go
    for context in contexts:
        context.close()


def test_only_a_page_with_an_uploader_takes_files(session) -> None:
    page, name = session("/masks")
    assert page.evaluate(PUT, [name, "one", 3000]) == 413
    page, name = session("/your_model")
    page.locator("input[type=file]").first.wait_for(state="attached")
    assert page.evaluate(PUT, [name, "one", 3000]) == 204
