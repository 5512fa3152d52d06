"""What an engineer does on the page Your model: drop a file, answer, look; drop harm, read why it is refused."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from tests.browser.parts import box, viridis
from tests.browser.visiting import until
from tests.checkpoint.originals.annotated import EncoderDecoder
from tests.checkpoint.originals.common import scramble
from transformer import attention_maps, load

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
SIDES = (("x", "width"), ("y", "height"))


@pytest.fixture
def opened(serve, visit):
    """`opened(query)` opens the page Your model."""
    return lambda query="", **window: visit(f"{serve(ROOT / 'app.py')}/your_model{query}", **window)


@pytest.fixture
def annotated(tmp_path: Path) -> Path:
    """A file of The Annotated Transformer's layout, made on the spot."""
    torch.manual_seed(3)
    path = tmp_path / "engineer.pt"
    torch.save(scramble(EncoderDecoder(23, 19, 2, 12, 3, 10)).state_dict(), path)
    return path


def drop(here, *files: Path) -> None:
    """Choose files; the uploader of the last ones stays until the run that read them has ended."""
    uploader = here.page.locator("input[type=file]")
    expect(uploader).to_have_count(1)
    with here.run():
        uploader.set_input_files([str(file) for file in files])


def with_heads(here, count: int) -> None:
    """Answer how many heads there are: nothing is shown before."""
    with here.run():
        here.page.locator("[class*='st-key-ask'][class*='n_heads']").get_by_text(f"{count}", exact=True).click()


def point(page: Page, query: int, key: int) -> Locator:
    """Point at a cell of the heatmap; where it says the number then."""
    canvas = page.locator(".heatmap canvas")
    box(canvas)  # which rests
    left, top, wide, tall = (float(number) for number in (canvas.get_attribute("data-cells") or "").split())
    canvas.hover(position={"x": left + (key + 0.5) * wide, "y": top + (query + 0.5) * tall})
    return page.locator(".heatmap .reading")


def saved(page: Page, kind: str, folder: Path) -> Path:
    """The heatmap as a file of this kind."""
    with page.expect_download() as download:
        page.locator(".heatmap").get_by_role("button", name=f"Save {kind}").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def cells_of_files(page: Page, folder: Path, count: int) -> tuple[str, np.ndarray, np.ndarray]:
    """What the SVG and the PNG of a heatmap hold: the first's words, and the colours of so many cells in both."""
    drawing = ElementTree.parse(saved(page, "SVG", folder)).getroot()
    texts = " ".join(drawing.itertext())
    boxes = [one.attrib for one in drawing if one.tag.endswith("rect")][1 : count + 1]  # after the background
    in_svg = [[int(number) for number in re.findall(r"\d+", box["fill"])] for box in boxes]
    picture = Image.open(saved(page, "PNG", folder)).convert("RGB")
    scale = picture.width / float(drawing.attrib["width"])
    middles = [[float(box[side]) + float(box[size]) / 2 for side, size in SIDES] for box in boxes]
    in_png = [picture.getpixel((round(x * scale), round(y * scale))) for x, y in middles]
    return texts, np.array(in_svg), np.array(in_png)


def test_from_a_file_to_its_attention(opened, annotated: Path, tmp_path: Path) -> None:
    here = opened()
    page = here.page
    drop(here, annotated)
    expect(page.get_by_text("The Annotated Transformer", exact=True)).to_be_visible()
    expect(page.get_by_text("no maps before this is answered")).to_be_visible()
    with_heads(here, 3)
    expect(page.get_by_text("n_heads=3")).to_be_visible()
    expect(page.get_by_text("assumed, since the file does not say").first).to_be_visible()
    expect(page.locator("p.notes")).to_contain_text("ssumed, since the file does not say: pad_id=0, bos_id=1")
    page.get_by_role("textbox", name=re.compile("Token ids from 0 to 22")).fill("5 6 7")
    page.get_by_role("textbox", name=re.compile("Force this target")).fill("4 9")
    with here.run():
        page.get_by_role("button", name="Run", exact=True).click()
    maps = attention_maps(load(annotated, n_heads=3), [[5, 6, 7, 2]], [[1, 4, 9]])
    rest = here.at_rest()
    kinds = page.get_by_role("radiogroup", name="Attention")
    kinds.get_by_role("radio", name="Encoder self").click()
    for layer, head in ((1, 2), (0, 1)):
        page.locator(".all-heads .cell").nth(3 * layer + head).click()
        expect(page.locator(".heatmap .title")).to_have_text(f"encoder.{layer}.self · head {head}")
        weight = maps[f"encoder.{layer}.self"][0, head][1, 2]
        expect(point(page, 1, 2)).to_contain_text(f"{weight:.3f}")
    weights, ids = maps["encoder.0.self"][0, 1], (5, 6, 7, 2)
    canvas = page.locator(".heatmap canvas")
    expect(canvas).to_have_attribute("aria-label", re.compile(r"encoder\.0\.self · head 1"))
    canvas.focus()
    cell = canvas.locator("[role=gridcell]")  # what a screen reader says where the keyboard stands
    for key, query, other in (("Home", 0, 0), ("ArrowDown", 1, 0), ("End", 1, 3), ("ArrowLeft", 1, 2)):
        page.keyboard.press(key)
        told = f"Query {ids[query]}, key {ids[other]}: {weights[query, other]:.3f}."
        expect(cell).to_have_text(told)
        until(page, lambda: canvas.get_attribute("aria-activedescendant") == cell.get_attribute("id"))
    texts, *drawn = cells_of_files(page, tmp_path, weights.size)
    assert "encoder.0.self · head 1" in texts
    for colours in drawn:
        assert np.abs(colours - viridis(weights.reshape(-1))).max() <= 3
    assert here.at_rest() == rest  # the browser has the numbers
    whole = here.whole
    with here.run():
        page.get_by_role("button", name="Display").click()
        page.get_by_text("Scores", exact=True).click()
    expect(page.locator(".heatmap .title")).to_contain_text("encoder.0.self")
    assert here.whole == whole  # what it has not is drawn without the rest of the page
