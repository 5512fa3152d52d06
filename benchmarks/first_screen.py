"""What a first visit is like: where the first picture stands, what moves while the page loads, how long it takes.

Every page is visited at 1280 x 800 by a new browser; the picture is the first element that holds attention, whichever
page and component it is.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page

from benchmarks.measuring import Result
from tests.browser.visiting import ROOT, Visit, chromium_opened, start_server, until
from tests.views import VIEWS
from tests.waiting import PATIENCE

PAGES = (
    *("", "translate", "align", "what_if", "sequences", "atlas", "your_model"),
    *("attention_steps", "inside_layer", "masks", "positions"),
)
"""The pages by their addresses; the first is the map."""

SIZE = {"width": 1280, "height": 800}
NARROW = {"width": 390, "height": 844}
SECTION = "The first screen, 1280 x 800"

PICTURES = (
    ".map svg .box, .bitext path, .all-heads .cell canvas, .head-view path, .alignments canvas, .matrices canvas, "
    ".heatmap canvas, .tracks canvas, .js-plotly-plot .heatmaplayer image, .js-plotly-plot .scatterlayer path, "
    ".atlas .profile i"
)
"""What holds the numbers of a picture, in every component and in Plotly's charts."""

WATCH = f"""() => {{
  const pictures = {PICTURES!r};
  window.shift = 0;
  window.firstPicture = null;
  let [total, first, last] = [0, 0, 0];
  new PerformanceObserver((list) => {{
    for (const entry of list.getEntries()) {{
      if (entry.hadRecentInput) continue;
      if (entry.startTime - last > 1000 || entry.startTime - first > 5000) [total, first] = [0, entry.startTime];
      last = entry.startTime;
      total += entry.value;
      window.shift = Math.max(window.shift, total);
    }}
  }}).observe({{ type: "layout-shift", buffered: true }});
  const find = (root) => {{
    const found = [...root.querySelectorAll(pictures)];
    for (const one of root.querySelectorAll("*")) if (one.shadowRoot) found.push(...find(one.shadowRoot));
    return found;
  }};
  window.pictureTop = () => {{
    const all = find(document).map((one) => one.getBoundingClientRect());
    const boxes = all.filter((box) => box.width > 0 && box.height > 0);
    return boxes.length ? Math.round(Math.min(...boxes.map((box) => box.top))) : null;
  }};
  const look = () => {{
    if (window.pictureTop() === null) requestAnimationFrame(look);
    else window.firstPicture = performance.now();
  }};
  requestAnimationFrame(look);
}}"""


Seen = tuple[float, float, int | None]
"""Layout shift (as Web Vitals counts it), seconds to the first picture, and its height."""


def visits(browser: Browser, address: str) -> list[Seen]:
    """Open a page in a new browser context, whose cache is empty, and once more in the same."""
    context = browser.new_context(viewport=SIZE)  # type: ignore[arg-type]
    found = [_visit(context, address) for _ in range(2)]
    context.close()
    return found


def shifts(browser: Browser, address: str, views: Sequence[str]) -> dict[str, float]:
    """How far each view of a page moves while it loads, and the first one in a narrow window too."""
    found = {}
    for size, looked_at in ((SIZE, views), (NARROW, views[:1])):
        context = browser.new_context(viewport=size)  # type: ignore[arg-type]
        for view in looked_at:
            shift, *_ = _visit(context, f"{address}?{view}", has_picture=False)
            found[f"{view or 'as it opens'}, {size['width']}"] = shift
        context.close()
    return found


def _visit(context: BrowserContext, address: str, has_picture: bool = True) -> Seen:
    page = context.new_page()
    page.set_default_timeout(PATIENCE * 1_000)
    page.add_init_script(f"({WATCH})()")
    page.goto(address)
    page.locator("h1").wait_for()
    if has_picture:
        until(page, page.evaluate, "window.firstPicture !== null")
    _until_still(page)
    shift, milliseconds, top = page.evaluate("[window.shift, window.firstPicture, window.pictureTop()]")
    page.close()
    return float(shift), (milliseconds or 0.0) / 1_000, top


def grid_milliseconds(browser: Browser, folder: Path) -> float:
    """What drawing the small maps of 12 layers by 12 heads over 64 tokens takes, in the best of some times."""
    server, address = start_server(ROOT / "tests/browser/pages/components.py", folder / "grid.log")
    try:
        page = browser.new_page()
        page.goto(f"{address}/?shape=12,12,64,64&show=grid")
        (grid, found), here = (page.locator(".all-heads"), list[float]()), Visit(page)
        for scheme in ("dark", "light") * 5:
            draws = here.drawn(grid)
            page.emulate_media(color_scheme=scheme)
            here.drawn(grid, draws + 1)
            found.append(float(grid.get_attribute("data-draw-milliseconds") or "inf"))
        page.close()
    finally:
        server.terminate()
        server.wait(timeout=PATIENCE)
    return min(found)


def measure() -> list[Result]:
    """One cold visit, and each page in a new browser and once more."""
    with tempfile.TemporaryDirectory() as folder, chromium_opened() as browser:
        server, address = start_server(ROOT / "app.py", Path(folder) / "log")
        try:
            (_, cold, _), _ = visits(browser, address)
            pages = {name or "map": visits(browser, f"{address}/{name}") for name in PAGES}
            moved = {name or "map": shifts(browser, f"{address}/{name}", views) for name, views in VIEWS.items()}
            drawn = grid_milliseconds(browser, Path(folder))
        finally:
            server.terminate()
            server.wait(timeout=PATIENCE)
    what = "a new server's first visit: first picture of the map"
    results = [Result(SECTION, what, f"{cold:.1f} s", "4 s", cold <= 4)]
    what = "144 small maps of 64 x 64 tokens are drawn in"
    results.append(Result(SECTION, what, f"{drawn:.0f} ms", "200 ms", drawn < 200))
    for name, ((shift, new, top), (_, again, _)) in pages.items():
        lines = [("layout shift while loading", shift, 0.05, f"{shift:.2f}", "at most 0.05")]
        if top is not None:
            lines = [
                ("first picture, a new browser", new, 3.0, f"{new:.1f} s", "3.0 s"),
                ("first picture, again in that browser", again, 1.2, f"{again:.1f} s", "1.2 s"),
                ("top of the first picture", top, SIZE["height"] - 1, f"{top} px", "under 800 px"),
                *lines,
            ]
        for what, found, most, said, goal in lines:
            results.append(Result(SECTION, f"{name}: {what}", said, goal, found <= most))
    for name, shift_of in moved.items():
        view, most = max(shift_of.items(), key=lambda one: one[1])
        what = f"{name}: layout shift of the one of {len(shift_of)} views that moves most ({view})"
        results.append(Result(SECTION, what, f"{most:.2f}", "at most 0.05", most <= 0.05))
    return results


def _until_still(page: Page) -> None:
    """Wait until nothing has moved or been drawn anew for a second."""
    state = ""
    for _ in range(int(PATIENCE)):
        page.wait_for_timeout(1_000)
        now = str(page.evaluate("[window.shift, window.pictureTop?.(), document.querySelectorAll('*').length].join()"))
        if now == state:
            return
        state = now
