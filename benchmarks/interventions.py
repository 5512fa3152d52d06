"""What interventions cost: nothing while nobody asks for one; and how long a change takes to be read through."""

from functools import partial
from pathlib import Path
from statistics import median

import torch

from benchmarks.browsing import served
from benchmarks.forward import BERT_BASE, sharing_weights
from benchmarks.measuring import Result, interleaved, median_seconds, ratio_interval
from tests.browser.visiting import chromium_opened
from transformer import DecodingOptions, Intervention, load, translate, watch
from transformer.layers.attention import DotProductAttention
from transformer.layers.masks import Mask
from transformer.models.encoder import Encoder
from transformer.runs.what_if import decoded_again, head_sweep, same_target

SECTION = "Interventions"
ROUNDS = {16: 300, 128: 100, 512: 25}
"""Tokens -> how often each variant runs."""

CALLS = 2_000
"""Calls of one attention that are timed together."""

REDRAWN = """(number) => new Promise((done) => {
  const bars = () => document.querySelector(".st-key-effects .js-plotly-plot")?.textContent;
  const inside = [...document.querySelectorAll("*")].flatMap((one) => one.shadowRoot ?? []);
  const cells = [document, ...inside].flatMap((root) => [...root.querySelectorAll(".all-heads .cell")]);
  const [before, start] = [bars(), performance.now()];
  const look = () => {
    const now = bars();
    if (now && now !== before) done(performance.now() - start);
    else requestAnimationFrame(look);
  };
  cells[number].click();
  look();
})"""
"""Clicks on a head and waits until the bars of the same target say something else: milliseconds."""

SENTENCE = "A man in a blue shirt is standing on a ladder cleaning a window."
CHECKPOINT = Path(__file__).parent.parent / "checkpoints" / "multi30k-en-de"


def measure(rounds: dict[int, int] | None = None) -> list[Result]:
    """A forward pass that could be changed and is not; changed runs of the shipped translator; a click on the page."""
    torch.manual_seed(0)
    plain = Encoder(BERT_BASE).eval()
    watched = watch(sharing_weights(plain))
    results = []
    for n, times in (rounds or ROUNDS).items():
        ids = torch.randint(BERT_BASE.vocab, (1, n))
        with torch.inference_mode():
            if not torch.equal(plain(ids), watched(ids)):
                raise AssertionError(f"hooks changed the output at {n} tokens")
            seconds = interleaved({"plain": partial(plain, ids), "watched": partial(watched, ids)}, times)
        cost, low, high = ratio_interval(seconds, "watched", "plain")
        what = f"{n} tokens, a pass without interventions against one without hooks, {times} pairs"
        measured = f"{cost:.3f} x (95 % interval {low:.3f} to {high:.3f})"
        results.append(Result(SECTION, what, measured, "at most 1.01 x", cost <= 1.01))
        if n == min(rounds or ROUNDS):
            results.append(_hooks(plain, watched, median(seconds["plain"])))
    return [*results, *_translator(), _redrawn()]


def _hooks(plain: Encoder, watched: Encoder, seconds: float) -> Result:
    """What the hooks of all sites add to a pass of so many seconds, from calls of a core that has next to no work."""
    nothing = torch.zeros(1, 1, 1, 1)
    cores = {
        name: next(iter(model.attention_sites().values())) for name, model in (("plain", plain), ("watched", watched))
    }

    def calls(core: DotProductAttention) -> None:
        for _ in range(CALLS):
            core(nothing, nothing, nothing, Mask())

    with torch.inference_mode():
        times = interleaved({name: partial(calls, core) for name, core in cores.items()}, 41)
    added = median(b - a for a, b in zip(times["plain"], times["watched"], strict=True)) / CALLS
    share = len(watched.attention_sites()) * added / seconds
    what = f"{min(ROUNDS)} tokens, what the hooks of 12 sites add, from {CALLS:,} calls of one"
    measured = f"{added * 1e6:.1f} µs a site, {share:.2%} of the pass"
    return Result(SECTION, what, measured, "at most 1 %", share <= 0.01)


def _redrawn(clicks: int = 16) -> Result:
    """From a click on a head of the page What if to the redrawn bars, in a Chromium, wall time."""
    with served("app.py") as address, chromium_opened() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{address}/what_if?text={SENTENCE.replace(' ', '+')}")
        settled = page.locator("[data-testid=stApp][data-test-script-state=notRunning]")
        page.locator(".all-heads .cell").nth(clicks - 1).wait_for(timeout=60_000)
        times = []
        for number in range(clicks):
            settled.wait_for(timeout=60_000)
            page.wait_for_timeout(500)
            times.append(page.evaluate(REDRAWN, number))
    wall = median(times[1:])
    what = f"a click on a head to redrawn bars, 16 tokens, same target, {clicks} clicks"
    return Result(SECTION, what, f"{wall:.0f} ms", "under 300 ms", wall < 300)


def _translator() -> list[Result]:
    """The shipped translator on one sentence: same target, decode again, every head off."""
    checkpoint = load(CHECKPOINT)
    before = translate(checkpoint, SENTENCE, DecodingOptions())
    off = [Intervention("decoder.3.cross", "mean", heads=(1,))]
    tokens = len(before.target_ids)
    target = median_seconds(lambda: same_target(checkpoint, before, off), 15)
    again = median_seconds(lambda: decoded_again(checkpoint, SENTENCE, DecodingOptions(), off), 9)
    sweep = median_seconds(lambda: list(head_sweep(checkpoint, before, "mean")), 3)
    return [
        Result(SECTION, f"same target, {tokens} tokens", f"{target * 1e3:.0f} ms", "under 300 ms", target < 0.3),
        Result(SECTION, f"decode again, beam 5, {tokens} tokens", f"{again * 1e3:.0f} ms"),
        Result(SECTION, f"every one of 48 heads off, {tokens} tokens", f"{sweep:.2f} s", "under 2 s", sweep < 2),
    ]
