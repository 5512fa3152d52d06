"""`python -m docs.make_pictures`: every picture of the README and of the documentation, taken from the running app.

It starts the dashboard, opens it in Chromium as a reader does, and writes WebP files into docs/pictures.
"""

import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, FloatRect

from tests.browser.visiting import RENDERED, Visit, chromium_opened, start_server, until

HERE = Path(__file__).resolve().parent / "pictures"
SENTENCE = "Someone is cooking dinner in a small kitchen."
WITHOUT_SIDEBAR = 318
"""The x of the first pixel right of the sidebar."""
WIDE = 1280
LOOK_MS = 2500
"""How long a still page may go on moving: bars rise, fonts arrive."""


def image(page_bytes: bytes) -> Image.Image:
    """A screenshot as an image."""
    return Image.open(io.BytesIO(page_bytes)).convert("RGB")


def save(name: str, picture: Image.Image) -> None:
    """Write a still picture; text stays sharp."""
    picture.save(HERE / f"{name}.webp", quality=80, method=6)


def opened(browser: Browser, address: str, height: int) -> Visit:
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
    return image(visit.page.screenshot(clip=clip))


def map_playing(browser: Browser, address: str, top: int, height: int) -> list[Image.Image]:
    """One frame for each word that the model writes."""
    visit = opened(browser, f"{address}/?{urlencode({'text': SENTENCE, 'at_word': 0})}", 800)
    page = visit.page
    slider = page.locator(".map .player input")
    words = int(slider.get_attribute("max") or 0)
    slider.press("Home")
    slider.blur()
    page.wait_for_timeout(LOOK_MS)
    frames = [taken(visit, top, height)]
    for word in range(1, words + 1):
        slider.press("ArrowRight")
        slider.blur()
        until(page, lambda word=word: slider.input_value() == str(word))
        page.wait_for_timeout(900)
        frames.append(taken(visit, top, height))
    page.close()
    return frames


def head_switched_off(browser: Browser, address: str, top: int, height: int) -> list[Image.Image]:
    """The page What if: as the model is, then without one head of its cross-attention."""
    query = {"text": SENTENCE, "kind": "decoder.cross", "layer": 2, "head": 3, "do": "none"}
    visit = opened(browser, f"{address}/what_if?{urlencode(query)}", 800)
    page = visit.page
    before = taken(visit, top, height)
    with visit.run():
        page.locator(".all-heads .cell").nth(2 * 4 + 3).click()
    page.mouse.move(5, 5)
    until(page, lambda: page.locator(".all-heads .cell.off").count() == 1)
    page.wait_for_timeout(LOOK_MS)
    frames = [before, taken(visit, top, height)]
    page.close()
    return frames


def still(name: str, path: str, top: int, height: int) -> Callable[[Browser, str], None]:
    """How a still picture is taken."""

    def take(browser: Browser, address: str) -> None:
        visit = opened(browser, f"{address}/{path}", max(800, top + height))
        save(name, taken(visit, top, height))
        visit.page.close()

    return take


def tour(browser: Browser, address: str) -> None:
    """The moving picture: the map word by word, then a head being switched off."""
    top, height = 200, 560
    playing = map_playing(browser, address, top, height)
    off = head_switched_off(browser, address, top, height)
    frames = [*playing, *off]
    times = [*[700] * (len(playing) - 1), 1500, 2200, 3500]
    frames[0].save(
        HERE / "tour.webp", save_all=True, append_images=frames[1:], duration=times, loop=0, quality=70, method=6
    )


PICTURES: tuple[Callable[[Browser, str], None], ...] = (
    tour,
    still("translate", f"translate?{urlencode({'text': SENTENCE})}", 140, 700),
    still("what-if", "what_if", 140, 700),
    still("atlas", "atlas", 50, 700),
    still("sequences", "sequences", 140, 860),
    still("lesson", "attention_steps", 50, 800),
)


def main() -> None:
    """Take all of them."""
    HERE.mkdir(exist_ok=True)
    root = HERE.parent.parent
    with tempfile.TemporaryDirectory() as folder:
        server, address = start_server(root / "app.py", Path(folder) / "log")
        try:
            with chromium_opened() as browser:
                for take in PICTURES:
                    take(browser, address)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
