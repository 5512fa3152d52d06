"""`python -m docs.make_pictures`: every picture of the README and of the documentation, taken from the running app.

It starts the dashboard, opens it in Chromium as a reader does, and writes WebP files into docs/pictures.
"""

import io
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, FloatRect

from tests.browser.visiting import RENDERED, ROOT, Visit, chromium_opened, start_server, until

HERE = Path(__file__).resolve().parent / "pictures"
SENTENCE = "Someone is cooking dinner in a small kitchen."
WITHOUT_SIDEBAR = 318
"""The x of the first pixel right of the sidebar."""
WIDE = 1280
LOOK_MS = 2500
"""How long a still page may go on moving: bars rise, fonts arrive."""

STILL = {
    "translate": (f"translate?{urlencode({'text': SENTENCE})}", 140, 700),
    "what-if": ("what_if", 140, 700),
    "atlas": ("atlas", 50, 700),
    "sequences": ("sequences", 140, 860),
    "lesson": ("attention_steps", 50, 800),
}
"""The address of each still picture, the y of its first pixel, and its height."""


def opened(browser: Browser, address: str, height: int = 800) -> Visit:
    """The page at an address, once it stands still."""
    page = browser.new_page(viewport={"width": WIDE, "height": height})
    visit = Visit(page)
    page.goto(address)
    page.locator(RENDERED).wait_for(timeout=60_000)
    until(page, lambda: page.locator("[data-testid=stSkeleton]").count() == 0)
    page.wait_for_timeout(LOOK_MS)
    return visit


def taken(visit: Visit, top: int, height: int) -> Image.Image:
    """A part of the window, without the sidebar."""
    clip: FloatRect = {"x": WITHOUT_SIDEBAR, "y": top, "width": WIDE - WITHOUT_SIDEBAR, "height": height}
    return Image.open(io.BytesIO(visit.page.screenshot(clip=clip))).convert("RGB")


def tour(browser: Browser, address: str, top: int = 200, height: int = 560) -> None:
    """The moving picture: the map, a frame for each word that the model writes, then a head being switched off."""
    visit = opened(browser, f"{address}/?{urlencode({'text': SENTENCE, 'at_word': 0})}")
    slider, frames = visit.page.locator(".map .player input"), []
    words = int(slider.get_attribute("max") or 0)
    for word in range(words + 1):
        slider.press("ArrowRight" if word else "Home")
        slider.blur()
        until(visit.page, lambda word=word: slider.input_value() == str(word))
        visit.page.wait_for_timeout(900 if word else LOOK_MS)
        frames.append(taken(visit, top, height))
    visit.page.close()
    query = {"text": SENTENCE, "kind": "decoder.cross", "layer": 2, "head": 3, "do": "none"}
    visit = opened(browser, f"{address}/what_if?{urlencode(query)}")
    frames.append(taken(visit, top, height))
    with visit.run():
        visit.page.locator(".all-heads .cell").nth(2 * 4 + 3).click()
    visit.page.mouse.move(5, 5)
    until(visit.page, lambda: visit.page.locator(".all-heads .cell.off").count() == 1)
    visit.page.wait_for_timeout(LOOK_MS)
    first, *rest = [*frames, taken(visit, top, height)]
    visit.page.close()
    times = [*[700] * words, 1500, 2200, 3500]
    first.save(HERE / "tour.webp", save_all=True, append_images=rest, duration=times, loop=0, quality=70, method=6)


def main() -> None:
    """Take all of them."""
    HERE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        server, address = start_server(ROOT / "app.py", Path(folder) / "log")
        try:
            with chromium_opened() as browser:
                tour(browser, address)
                for name, (path, top, height) in STILL.items():
                    visit = opened(browser, f"{address}/{path}", max(800, top + height))
                    taken(visit, top, height).save(HERE / f"{name}.webp", quality=80, method=6)  # text stays sharp
                    visit.page.close()
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
