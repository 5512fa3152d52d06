"""What a first visit is like: where the first picture stands, what moves while the page loads, how long it takes.

`python -m benchmarks.first_screen` prints it for the pages as they are here. Every page is visited at 1280 x 800 by a
new browser; the picture is the first element that holds attention, whichever page and component it is.
"""

import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, CDPSession, Page

from benchmarks.measuring import Result
from tests.browser.visiting import PATIENCE, ROOT, chromium_opened, start_server

PAGES = (
    *("", "translate", "align", "what_if", "sequences", "atlas", "your_model"),
    *("attention_steps", "inside_layer", "masks", "positions"),
)
"""The pages by their addresses; the first is the map."""

SIZE = {"width": 1280, "height": 800}
SECTION = "The first screen, 1280 x 800"

PICTURES = (
    ".map svg .box, .bitext path, .all-heads .cell canvas, .head-view canvas, .alignments canvas, .matrices canvas, "
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
  window.allPictures = find;
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

HEAT = """() => {
  const around = window.allPictures(document).find((one) => one.matches(".heatmap canvas"))?.closest(".heatmap");
  return around?.dataset.draws && `${around.querySelector(".title").textContent} ${around.dataset.draws}`;
}"""
"""The title of the large picture, which a click on a head changes, and how often it has been drawn."""


@dataclass(frozen=True)
class Visited:
    """One visit: layout shift (as Web Vitals counts it), seconds to the first picture, its height, bytes by owner."""

    shift: float
    seconds: float
    top: int | None
    framework: int
    ours: int


def visits(browser: Browser, address: str) -> tuple[Visited, Visited]:
    """Open a page in a new browser context, whose cache is empty, and once more in the same."""
    context = browser.new_context(viewport=SIZE)  # type: ignore[arg-type]
    found = _visit(context, address), _visit(context, address)
    context.close()
    return found


def _visit(context: BrowserContext, address: str) -> Visited:
    page = context.new_page()
    page.set_default_timeout(PATIENCE * 1_000)
    network = context.new_cdp_session(page)
    counted = _counted(network)
    page.add_init_script(f"({WATCH})()")
    page.goto(address)
    page.locator("h1").wait_for()
    _until(page, "window.firstPicture !== null")
    _until_still(page)
    found = Visited(
        shift=float(page.evaluate("window.shift")),
        seconds=float(page.evaluate("window.firstPicture ?? NaN")) / 1_000,
        top=page.evaluate("window.pictureTop()"),
        framework=counted["framework"],
        ours=counted["ours"],
    )
    page.close()
    return found


def click_on_a_head(browser: Browser, address: str) -> float:
    """Median seconds from a click on a thumbnail to the large picture of that head."""
    page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
    page.set_default_timeout(PATIENCE * 1_000)
    page.add_init_script(f"({WATCH})()")
    page.goto(address)
    page.locator(".all-heads .cell").nth(15).wait_for()
    _until(page, f"Boolean(({HEAT})())")
    _until_still(page)
    times = []
    for cell in (12, 3, 9, 14, 0):
        page.locator(".all-heads .cell").nth(cell).scroll_into_view_if_needed()
        times.append(
            page.evaluate(
                f"""async ([index]) => {{
                  const heat = {HEAT};
                  const before = heat();
                  const start = performance.now();
                  window.allPictures(document).filter((one) => one.matches(".cell canvas"))[index].click();
                  while (heat() === before || !heat()) await new Promise(requestAnimationFrame);
                  return (performance.now() - start) / 1000;
                }}""",
                [cell],
            )
        )
        _until_still(page)
    page.close()
    return statistics.median(times)


@contextmanager
def served() -> Iterator[str]:
    """The address of the dashboard while the block runs."""
    with tempfile.TemporaryDirectory() as folder:
        server, address = start_server(ROOT / "app.py", Path(folder) / "log")
        try:
            yield address
        finally:
            server.terminate()
            server.wait(timeout=PATIENCE)


def measure() -> list[Result]:
    """One cold visit, some warm ones, each page once more, and clicks on heads."""
    with chromium_opened() as browser, served() as address:
        cold, _ = visits(browser, address)
        pages = {name or "map": visits(browser, f"{address}/{name}") for name in PAGES}
        click = click_on_a_head(browser, f"{address}/translate")
    first = pages["map"][0]
    results = [
        Result(SECTION, "a new server's first visit: first picture of the map", f"{cold.seconds:.1f} s", "4 s",
               cold.seconds <= 4),
        Result(SECTION, "a click on a head to its picture", f"{click:.2f} s"),
        Result(SECTION, "bytes that a new browser fetches: Streamlit's own", f"{first.framework / 1e6:.1f} MB"),
        Result(SECTION, "bytes that a new browser fetches: this project's", f"{first.ours / 1e3:.0f} kB"),
    ]  # fmt: skip
    for name, (seen, again) in pages.items():
        if seen.top is not None:
            for said, one, most in (("a new browser", seen, 3.0), ("again in that browser", again, 1.2)):
                results.append(Result(SECTION, f"{name}: first picture, {said}", f"{one.seconds:.1f} s", f"{most} s",
                                      one.seconds <= most))  # fmt: skip
        if seen.top is not None:
            results.append(Result(SECTION, f"{name}: top of the first picture", f"{seen.top} px", "under 800 px",
                                  seen.top < SIZE["height"]))  # fmt: skip
        results.append(Result(SECTION, f"{name}: layout shift while loading", f"{seen.shift:.2f}", "at most 0.05",
                              seen.shift <= 0.05))  # fmt: skip
    return results


def _counted(network: CDPSession) -> dict[str, int]:
    """Bytes as they travel, from now on: files of Streamlit's own page, and what the app sends."""
    counted = {"framework": 0, "ours": 0}
    owners: dict[str, str] = {}

    def asked(event: dict[str, object]) -> None:
        request = event["request"]
        path = urlsplit(str(request["url"])).path  # type: ignore[index]
        own = "/media/" in path or "/component" in path
        owners[str(event["requestId"])] = "ours" if own else "framework"

    def finished(event: dict[str, object]) -> None:
        counted[owners.get(str(event["requestId"]), "framework")] += int(float(str(event["encodedDataLength"])))

    def heard(event: dict[str, object]) -> None:
        payload = event["response"]["payloadData"]  # type: ignore[index]
        counted["ours"] += len(str(payload)) * 3 // 4  # binary frames come in base 64

    network.on("Network.requestWillBeSent", asked)
    network.on("Network.loadingFinished", finished)
    network.on("Network.webSocketFrameReceived", heard)
    network.send("Network.enable")
    return counted


def _until(page: Page, truth: str) -> None:
    """Wait until an expression is true; Playwright's own way would be a script that the pages' policy refuses."""
    for _ in range(int(PATIENCE * 20)):
        if page.evaluate(truth):
            return
        page.wait_for_timeout(50)
    raise TimeoutError(f"{truth} did not come true within {PATIENCE:.0f} s")


def _until_still(page: Page) -> None:
    """Wait until nothing has moved or been drawn anew for a second."""
    state = ""
    for _ in range(int(PATIENCE)):
        page.wait_for_timeout(1_000)
        now = str(page.evaluate("[window.shift, window.pictureTop?.(), document.querySelectorAll('*').length].join()"))
        if now == state:
            return
        state = now


if __name__ == "__main__":
    for result in measure():
        print(f"{result.what}: {result.measured}" + (f" (goal: {result.goal})" if result.goal else ""))
