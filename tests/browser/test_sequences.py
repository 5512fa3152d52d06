"""What a person does on the Sequences page: paste, click a site, pick a head, reload, take tracks away."""

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Page, expect

from heedmap import load
from heedmap.runs.sequences.classify import Classification, classify
from heedmap.sequences.fasta import parse_fasta
from tests.browser.parts import box, heatmap_colours, radio, saved, viridis
from tests.browser.visiting import until

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
SPLICE = ROOT / "checkpoints" / "splice-junctions"
ADDRESS = "sequences?model=splice-junctions"
GENES = (SPLICE / "genes.gff3").read_text().partition("##FASTA\n")[2]
DONOR = f"{ADDRESS}&window=538-597(%2B)"


def run_text(here, text: str) -> None:
    here.page.locator(".st-key-bring-sequence button").first.click()
    here.page.mouse.move(0, 0)  # what opens below the pointer shows its tooltip, which would lie over the field
    here.page.get_by_role("textbox", name="Sequence").fill(text)
    with here.run():
        here.page.get_by_role("button", name="Run", exact=True).click()
    here.page.keyboard.press("Escape")


def verdict(run: Classification) -> str:
    return f"{run.classes[run.predicted]}, probability {run.probabilities[run.predicted]:.3f}"


def table_of(page: Page, name: str, **form: Any) -> pd.DataFrame:
    """The table that a button of this name saves."""
    return pd.read_csv(io.BytesIO(saved(page.get_by_role("button", name=name))[1]), **form)


def test_from_letters_to_the_tracks_on_disk(opened) -> None:
    """Of the second example: another class than that of first paint."""
    example = load(SPLICE).examples[1]
    expected = classify(load(SPLICE), next(parse_fasta(example.split("\n"))).sequence)
    here = opened(ADDRESS)
    page = here.page
    run_text(here, example)
    expect(page.get_by_role("heading", name=verdict(expected))).to_be_visible()
    here.drawn(page.locator(".all-heads"))
    with here.run():
        page.locator(".all-heads .cell").nth(1 * 4 + 2).click()
    expect(page).to_have_url(re.compile("layer=1&head=2"))
    expect(page.get_by_text("encoder.1.self, head 2")).to_be_visible()

    again = opened(page.url).page
    expect(again.get_by_role("heading", name=verdict(expected))).to_be_visible()
    expect(again.get_by_text("encoder.1.self, head 2")).to_be_visible()
    expect(again.locator(".st-key-tracks .tracks canvas")).to_be_visible()

    table = table_of(again, "Tracks (CSV)")
    assert "".join(table["letter"]) == expected.letters.text
    shares = [column for column in table if column.startswith("attention share")]
    assert table[shares].to_numpy().sum() == pytest.approx(1, abs=1e-4)
    assert b"track type=bedGraph" in saved(again.get_by_role("button", name="Tracks (bedGraph)"))[1]
    expect(again.get_by_test_id("stImage").locator("img")).to_be_visible()


def shown(page: Page, run: Classification, site: str, head: int | str) -> None:
    """The map and the grid show this head, to the last cell that no line between widths lies over."""
    name = "mean of 4 heads" if head == "mean" else f"head {head}"
    expect(page.locator(".heatmap .title")).to_have_text(f"{site} · {name}")
    values = run.record[site].picture(head).values
    widths = [span.width for span in run.spans]
    far = np.array([len({*widths[max(0, i - 1) : i + 2]}) == 1 for i in range(len(widths))])
    rows = far if len(values) == len(far) else np.ones(len(values), dtype=bool)
    canvas, stops = page.locator(".heatmap canvas"), viridis(values)
    until(page, lambda: np.abs(heatmap_colours(canvas, *values.shape) - stops)[rows][:, far].max() <= 3)
    chosen = page.locator('.all-heads .cell[aria-selected="true"]')
    row = {"encoder.0.self": 0, "encoder.1.self": 1, "pooling": 2}[site]
    expect(chosen).to_have_count(0 if head == "mean" else 1)
    if head != "mean":
        expect(page.locator(".all-heads .cell").nth(row * 4 + int(head))).to_have_attribute("aria-selected", "true")


def test_another_head_over_windows_asks_nothing_of_the_server(opened) -> None:
    here = opened(f"{DONOR}&view=windows", ".heatmap")
    page = here.page
    letters = next(parse_fasta(GENES.split("\n"))).sequence[537:597]
    run = classify(load(SPLICE), letters, places=range(538, 598))
    shown(page, run, "pooling", "mean")
    rest, entries = here.at_rest(), page.evaluate("history.length")
    page.locator(".all-heads .cell").nth(1 * 4 + 2).click()
    shown(page, run, "encoder.1.self", 2)
    expect(page).to_have_url(re.compile("layer=1&head=2$"))
    radio(page, "Layer", "0")
    radio(page, "Head", "3")
    shown(page, run, "encoder.0.self", 3)
    expect(page).to_have_url(re.compile("layer=0&head=3$"))
    page.get_by_text("More on this head").click()
    link = page.get_by_role("link", name="What if this were changed?")
    expect(link).to_have_attribute(
        "href", re.compile(r"/what_if\?model=splice-junctions&sequence=%3EHBB.*&layer=0&head=3$")
    )
    table = table_of(page, "This matrix (CSV)", index_col=0)
    picture = run.record["encoder.0.self"].picture(3)
    assert [list(table.index), list(table.columns)] == [list(picture.queries.labels), list(picture.keys.labels)]
    np.testing.assert_allclose(table.to_numpy(), picture.values, rtol=1e-6)
    radio(page, "Layer", "pooling")
    shown(page, run, "pooling", 3)
    until(page, lambda: page.evaluate("history.length") == entries + 4)
    for site, head in (("encoder.0.self", 3), ("encoder.0.self", 2), ("encoder.1.self", 2), ("pooling", "mean")):
        page.evaluate("history.back()")
        shown(page, run, site, head)
    assert here.at_rest() == rest
    page.evaluate("history.go(3)")
    shown(page, run, "encoder.0.self", 3)
    with here.run():  # what the server draws follows what the browser chose
        page.get_by_role("radio", name="Letters", exact=True).click()
    expect(page.get_by_text("encoder.0.self, head 3")).to_be_visible()
    expect(page).to_have_url(re.compile("layer=0&head=3"))


def test_a_gene_is_pasted_its_donor_is_clicked_and_read_and_left_again(opened) -> None:
    """The true donor of intron 1 of HBB lies 16 letters behind a likelier call."""
    text = GENES.partition(">HBD")[0]
    here = opened(f"{ADDRESS}&sequence=ACGTACGTACGT")
    page = here.page
    run_text(here, text.replace(">HBB", ">mine"))
    track = page.locator(".st-key-scan-track .tracks canvas")
    expect(track).to_be_visible()
    expect(page.get_by_text("4 of 4 known sites")).to_be_visible()
    row = json.loads(track.get_attribute("data-rows") or "")[-1]
    left, each = (float(track.get_attribute(f"data-{name}") or "") for name in ("left", "each"))
    place = {"x": left + (568 - 0.5) * each, "y": row["low"] + 0.924 * (row["high"] - row["low"])}
    track.hover(position=place)
    reading = page.locator(".st-key-scan-track .reading")
    expect(reading).to_have_text("intron begins at 568 (+): 0.924")
    with here.run():
        track.click(position=place)
    expect(page).to_have_url(re.compile(r"site=538-597"))
    with here.run():
        page.get_by_role("button", name="intron begins at 568").click()
    expect(page.get_by_role("heading", name="EI, probability 0.924")).to_be_visible()
    assert [*table_of(page, "Tracks (CSV)")["place"]] == list(range(538, 598))
    with here.run():
        page.get_by_role("button", name="Back to mine").click()
    expect(track).to_be_visible()
    assert not here.errors


def test_the_track_is_zoomed_by_dragging_walked_by_keys_and_saved(opened) -> None:
    here = opened(ADDRESS)
    page = here.page
    track = page.locator(".st-key-scan-track .tracks canvas")
    until(page, lambda: track.get_attribute("data-each") is not None)
    left, each = (float(track.get_attribute(f"data-{name}") or "") for name in ("left", "each"))
    at = box(track)
    ends = [at["x"] + left + (place - 0.5) * each for place in (540, 620)]
    page.mouse.move(ends[0], at["y"] + 150)
    page.mouse.down()
    page.mouse.move(ends[1], at["y"] + 150, steps=4)
    expect(page.locator(".st-key-scan-track .focus.band")).to_be_visible()
    with here.run():
        page.mouse.up()
    dragged = re.compile(r"letters=(\d+)-(\d+)")
    expect(page).to_have_url(dragged)
    found = dragged.search(page.url)
    assert found is not None
    assert [int(one) for one in found.groups()] == pytest.approx([540, 620], abs=2)
    assert "site=" not in page.url, "a drag is no click"
    reading = page.locator(".st-key-scan-track .reading")
    track.focus()
    for key, says in (
        ("ArrowRight", "intron begins at 552 (+): 0.995"),
        ("ArrowRight", "intron begins at 568 (+): 0.924"),
    ):
        page.keyboard.press(key)
        expect(reading).to_have_text(says)
        expect(track.locator("[role=option]")).to_have_text(says)
    with here.run():
        page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"site=538-597"))
    name, data = saved(page.locator(".st-key-scan-track").get_by_role("button", name="Save SVG"))
    assert name == "HBB-scan.svg"
    picture = data.decode()
    for text in ("letter of HBB", "probability", "EI, donor GT +", "560", "Checkpoint: splice-junctions"):
        assert f">{text}<" in picture
    assert picture.count("<circle") == 2
    assert not here.errors
