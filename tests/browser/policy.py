"""A page that notes what its Content-Security-Policy stopped."""

from playwright.sync_api import Page

from tests.browser.visiting import Visit
from tests.waiting import PATIENCE

RECORD = """window.stopped = [];
document.addEventListener("securitypolicyviolation", event => window.stopped.push(
  `${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile ?? ""} ${event.sample ?? ""}`));"""
FALLS_BACK = "script-src wasm-eval {address}/static/js/protobuf."
"""What may be stopped: a library of Streamlit's counts in WebAssembly if it may, and in JavaScript if it may not."""

STOPPED = ("Content Security Policy", "Content-Security-Policy")


class Watched:
    """A page that notes what its policy stopped."""

    def __init__(self, page: Page) -> None:
        self.page, self.visit = page, Visit(page)
        self.told: list[str] = []
        page.set_default_timeout(PATIENCE * 1000)
        page.add_init_script(RECORD)
        page.on("console", lambda message: self.hear(message.text))

    def hear(self, text: str) -> None:
        """Note a message of the console about the policy."""
        if any(name in text for name in STOPPED):
            self.told.append(text)

    def go(self, url: str) -> None:
        """Visit an address, once its first run is done; the app is loaded once."""
        if self.page.url == "about:blank":
            with self.visit.run():
                self.page.goto(url)
        else:
            self.visit.move(url)

    def stopped(self, patience: int = 300) -> list[str]:
        """What was stopped since this was asked last, and is not known to do without; a page may do more for a while.

        It is waited for `patience` milliseconds.
        """
        self.page.wait_for_timeout(patience)
        known = FALLS_BACK.format(address=self.page.evaluate("location.origin"))
        found = [one for one in self.page.evaluate("window.stopped.splice(0)") if not one.startswith(known)]
        return [*found, *self.told, *self.visit.errors]
