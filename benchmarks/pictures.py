"""What the pictures cost in a browser: all heads of a large model beside BertViz, and a change of head on the page.

BertViz's `model_view` draws the same weights when BERTVIZ names a folder that `python -m benchmarks.bertviz FOLDER`
has filled. It needs about 10 GB of memory for 128 tokens.
"""

import os
import statistics
import tempfile
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, Page, expect

from benchmarks import bertviz
from benchmarks.browsing import chromium_seconds, seconds_until_calm, served
from benchmarks.heads import N_HEADS, N_LAYERS, N_TOKENS, attention_of_heads
from benchmarks.measuring import Result
from tests.browser.visiting import Visit, chromium_opened
from transformer.attention.record import Record

SECTION = "Pictures in the browser"
GRID = f"{N_LAYERS} x {N_HEADS} heads at {N_TOKENS} tokens"
SENTENCE = "A man and a woman in red coats walk with two small brown dogs through a park. " * 3 + (
    "A man and a woman in red coats."
)
"""64 tokens with the end token, to the shipped tokenizer."""

TITLE = ".st-key-heatmap .js-plotly-plot .gtitle"
CHANGE_HEAD = """([head, selector]) => new Promise((done) => {
  const title = () => document.querySelector(selector)?.textContent ?? '';
  const buttons = [...document.querySelectorAll('.st-key-head button')];
  const wanted = buttons.find((button) => button.textContent.trim() === head);
  const started = performance.now();
  const look = () => {
    if (!new RegExp(`\\D${head}$`).test(title())) return requestAnimationFrame(look);
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - started)));
  };
  wanted.click();
  look();
})"""
"""Press a head's button; milliseconds until the frame after the heatmap that shows it was painted."""


def measure() -> list[Result]:
    """The grid, its bytes and its CPU time, BertViz's for the same weights, and the time of a change of head."""
    with chromium_opened() as browser:
        received, ours = _our_grid(browser)
        sent = f"{received / 1e6:.2f} MB"
        results = [Result(SECTION, f"{GRID}: sent to the browser", sent, "at most 0.7 MB", received <= 700_000)]
        folder = os.environ.get("BERTVIZ")
        if folder:
            size, theirs = bertviz.drawn(browser, Path(folder))
            measured = f"{ours:.2f} s (BertViz model_view: {theirs:.1f} s, {size / 1e6:.0f} MB; 1/{theirs / ours:.0f})"
            results.append(Result(SECTION, f"{GRID}: browser CPU", measured, "at most 1/50", ours <= theirs / 50))
        else:
            results.append(Result(SECTION, f"{GRID}: browser CPU", f"{ours:.2f} s"))
        return [*results, _cell(browser, folder), _head_change(browser)]


def _our_grid(browser: Browser, times: int = 3) -> tuple[int, float]:
    """Bytes over the socket and CPU seconds from the press of a button to a calm browser; medians."""
    outcomes = []
    with served("all_heads_page.py") as address:
        for _ in range(times):
            page, here = _visit(browser, address)
            seconds_until_calm(page, 30)
            before, received = chromium_seconds(), here.received
            page.get_by_role("button", name="Draw").click()
            here.drawn(page.locator(".all-heads"))
            seconds_until_calm(page, 60)
            outcomes.append((here.received - received, chromium_seconds() - before))
            page.close()
    received_bytes, seconds = zip(*outcomes, strict=True)
    return int(statistics.median(received_bytes)), statistics.median(seconds)


def _cell(browser: Browser, folder: str | None) -> Result:
    """The same heads in a notebook's cell: its bytes, and the browser's CPU until it is calm; BertViz's two views."""
    html = Record({one.site: one for one in attention_of_heads()})._repr_html_()
    seconds = statistics.median(_opened(browser, html) for _ in range(3))
    size = len(html.encode())
    ours = f"{size / 1e6:.1f} MB, {seconds:.2f} s"
    what = f"{GRID}: all of them in a notebook's cell, browser CPU"
    if not folder:
        return Result(SECTION, what, ours)
    views: tuple[bertviz.View, ...] = ("head_view", "model_view")
    others = {view: bertviz.drawn(browser, Path(folder), view) for view in views}
    said = ", ".join(f"{view}: {bytes_ / 1e6:.0f} MB, {theirs:.1f} s" for view, (bytes_, theirs) in others.items())
    least = min(theirs for _, theirs in others.values())
    return Result(SECTION, what, f"{ours} (BertViz {said})", "less than each view of BertViz", seconds < least)


def _opened(browser: Browser, html: str) -> float:
    """CPU seconds from opening a page with a cell until the browser is calm."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "cell.html"
        path.write_text(f'<!DOCTYPE html><meta charset="utf-8">{html}', encoding="utf-8")
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        before = chromium_seconds()
        page.goto(path.as_uri())
        page.frame_locator("iframe").locator(".heatmap[data-draws]").wait_for()
        seconds_until_calm(page, 60)
        seconds = chromium_seconds() - before
        page.close()
    return seconds


def _head_change(browser: Browser) -> Result:
    """Median over 20 changes of head on the Translate page, after four to warm up."""
    with served("app.py") as address:
        page, _ = _visit(browser, f"{address}/translate?text={quote(SENTENCE)}&words=false")
        page.locator(".st-key-kind").get_by_text("Encoder self").click()
        expect(page.locator(TITLE)).to_contain_text("encoder", timeout=60_000)
        times = [float(page.evaluate(CHANGE_HEAD, [str(turn % 4), TITLE])) for turn in range(1, 25)][4:]
        tokens = page.evaluate("document.querySelector('.st-key-heatmap .js-plotly-plot')._fullData[0].z.length")
        page.close()
    median = statistics.median(times)
    what = f"change of head to new picture drawn, {tokens} x {tokens} heatmap, through the server"
    return Result(SECTION, what, f"{median:.0f} ms (median)", "under 300 ms", median < 300)


def _visit(browser: Browser, address: str) -> tuple[Page, Visit]:
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    visit = Visit(page)
    with visit.run():
        page.goto(address)
    return page, visit
