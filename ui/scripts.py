"""Components' scripts are one file of the page: fetched while Streamlit's own are, and kept by the browser.

Without it each visit would bring them in messages over the websocket, packed anew for each visitor.
"""

from functools import cache
from hashlib import blake2b

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ui.components.shared import bundle
from ui.components.shared.mounting import page_brings_scripts

HEADERS = {"cache-control": "public, immutable, max-age=31536000"}
"""A name stands for one content, so a browser need not ask again."""


@cache
def name() -> str:
    """What the file is called, beside the pages: by its content."""
    return f"components-{blake2b(bundle.script(bundle.ALL).encode(), digest_size=8).hexdigest()}.js"


def tag() -> str:
    """What loads the file into a page; nothing waits for it but pictures."""
    return f'<script type="module" async src="./{name()}"></script>'


class Scripts:
    """Middleware: answers for the file, wherever the pages' addresses begin, and says that it is there."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        page_brings_scripts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is asked of others."""
        asked = scope["path"].rpartition("/")[2] if scope["type"] == "http" else ""
        known = {name(): bundle.ALL, bundle.MAP: bundle.MAP}
        if asked not in known:
            await self.app(scope, receive, send)
            return
        headers = {**HEADERS, "etag": f'"{name()}"', "accept-ranges": "none", "sourcemap": f"./{bundle.MAP}"}
        await Response(bundle.script(known[asked]), media_type="text/javascript", headers=headers)(scope, receive, send)
