"""Your model: drop a file, answer, look; one's own code, live: switch a head off, save the record, drop it in."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from heedmap import Record, attention_maps, load
from tests.browser.parts import heatmap_cell, saved, viridis
from tests.browser.test_guard import FOREIGN, handshake
from tests.browser.visiting import ROOT, start_server
from tests.checkpoint.originals.drawn import annotated_weights
from tests.waiting import PATIENCE
from ui.your_model.bring import EXAMPLE

pytestmark = pytest.mark.browser

SEEDED = EXAMPLE.replace("def make():", "def make():\n    torch.manual_seed(17)")
SITE, COUNT = "1.layers.0.self_attn", 5
SIDES = (("x", "width"), ("y", "height"))


@pytest.fixture
def annotated(tmp_path: Path) -> Path:
    """A file of The Annotated Transformer's layout, made on the spot."""
    torch.manual_seed(3)
    path = tmp_path / "engineer.pt"
    torch.save(annotated_weights(), path)
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
    canvas.hover(position=heatmap_cell(canvas, query, key))
    return page.locator(".heatmap .reading")


def cells_of_files(page: Page, count: int) -> tuple[str, np.ndarray, np.ndarray]:
    """What the SVG and the PNG of a heatmap hold: the first's words, and the colours of so many cells in both."""
    files = [saved(page.locator(".heatmap").get_by_role("button", name=f"Save {kind}"))[1] for kind in ("SVG", "PNG")]
    drawing = ElementTree.fromstring(files[0])
    texts = " ".join(drawing.itertext())
    boxes = [one.attrib for one in drawing if one.tag.endswith("rect")][1 : count + 1]  # after the background
    in_svg = [[int(number) for number in re.findall(r"\d+", box["fill"])] for box in boxes]
    picture = Image.open(io.BytesIO(files[1])).convert("RGB")
    scale = picture.width / float(drawing.attrib["width"])
    middles = [[float(box[side]) + float(box[size]) / 2 for side, size in SIDES] for box in boxes]
    in_png = [picture.getpixel((round(x * scale), round(y * scale))) for x, y in middles]
    return texts, np.array(in_svg), np.array(in_png)


def test_from_a_file_to_its_attention(opened, annotated: Path) -> None:
    here = opened("your_model")
    page = here.page
    drop(here, annotated)
    expect(page.get_by_text("The Annotated Transformer", exact=True)).to_be_visible()
    expect(page.get_by_text("no maps before this is answered")).to_be_visible()
    with_heads(here, 3)
    expect(page.get_by_text("n_heads=3")).to_be_visible()
    expect(page.get_by_text("assumed, since the file does not say").first).to_be_visible()
    expect(page.locator("p.notes")).to_contain_text("ssumed, since the file does not say: pad_id=0, bos_id=1")
    page.get_by_role("textbox", name=re.compile("Token ids from 0 to 22")).fill("5 6 7")
    with here.run():
        page.get_by_role("button", name="Run", exact=True).click()
    maps = attention_maps(load(annotated, n_heads=3), [[5, 6, 7, 2]], [[1]])
    rest = here.at_rest()
    kinds = page.get_by_role("radiogroup", name="Attention")
    kinds.get_by_role("radio", name="Encoder self").click()
    for layer, head in ((1, 2), (0, 1)):
        page.mouse.move(0, 0)  # a tooltip that the page scrolled below the pointer would lie over the cell
        page.locator(".all-heads .cell").nth(3 * layer + head).click()
        expect(page.locator(".heatmap .title")).to_have_text(f"encoder.{layer}.self · head {head}")
        weight = maps[f"encoder.{layer}.self"][0, head][1, 2]
        expect(point(page, 1, 2)).to_contain_text(f"{weight:.3f}")
    weights = maps["encoder.0.self"][0, 1]
    expect(page.locator(".heatmap canvas")).to_have_attribute("aria-label", re.compile(r"encoder\.0\.self · head 1"))
    texts, *drawn = cells_of_files(page, weights.size)
    assert "encoder.0.self · head 1" in texts
    for colours in drawn:
        assert np.abs(colours - viridis(weights.reshape(-1))).max() <= 3
    assert here.at_rest() == rest  # the browser has the numbers
    whole = here.whole
    with here.run():
        page.get_by_role("button", name="Display").click()
        page.mouse.move(0, 0)  # what opens below the pointer shows its tooltip, which would lie over the choice
        page.get_by_text("Scores", exact=True).click()
    expect(page.locator(".heatmap .title")).to_contain_text("encoder.0.self")
    assert here.whole == whole  # what it has not is drawn without the rest of the page


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that was started with the page's own example."""
    folder = tmp_path_factory.mktemp("live")
    code, log = folder / "my_model.py", folder / "server.log"
    code.write_text(SEEDED)
    server, found = start_server(ROOT / "app.py", log, "--model", f"{code}:make")
    yield found
    server.terminate()
    server.wait(timeout=PATIENCE)
    assert "others can reach this server" not in log.read_text()


def kept(page: Page, folder: Path) -> Path:
    """The record that the page saves."""
    folder.mkdir(exist_ok=True)
    name, data = saved(page.get_by_test_id("stDownloadButton").get_by_role("button", name="Record (.heedmap)"))
    (folder / name).write_bytes(data)
    return folder / name


def test_type_look_switch_a_head_off_save_the_record_and_drop_it_in(address: str, visit, tmp_path: Path) -> None:
    here = visit(f"{address}/your_model?layer=0&head=1")
    page = here.page
    expect(page.get_by_role("combobox", name="Record or checkpoint")).to_have_value("my_model.py:make (live)")
    page.get_by_role("textbox", name="Text", exact=True).fill("some words that I typed")
    with here.run():
        page.get_by_role("button", name="Run", exact=True).click()
    with here.run():
        page.get_by_role("radio", name="Switch heads off").click()
    with here.run():
        page.locator(".all-heads .cell").nth(1).click()
    expect(page.get_by_text(f"{SITE} (head 1) off (zero)").first).to_be_visible()
    expect(page.get_by_text("The output moves by")).to_be_visible()
    path = kept(page, tmp_path)
    record = Record.open(path)
    assert (record.text, record.model) == ("some words that I typed", "my_model")
    assert [one.action for one in record.interventions] == ["zero"]
    with here.run():
        page.locator("input[type=file]").set_input_files(str(path))
    expect(page.get_by_text("Changed while it ran")).to_be_visible()
    with here.run():
        page.get_by_role("radio", name="Numbers").click()
    with here.run():
        page.get_by_role("radio", name="Downloads").click()
    again = Record.open(kept(page, tmp_path / "again"))
    assert again.sites == record.sites
    for site in record.sites:
        np.testing.assert_array_equal(again[site].all_weights(), record[site].all_weights())
    assert record[SITE].shape == (COUNT, COUNT)


def test_a_server_that_others_can_reach_says_so_at_its_start_and_refuses_other_sites(tmp_path: Path) -> None:
    code, log = tmp_path / "my_model.py", tmp_path / "server.log"
    code.write_text("1 / 0\n")
    arguments = "--model", f"{code}:make"
    server, address = start_server(ROOT / "app.py", log, *arguments, STREAMLIT_SERVER_ADDRESS="0.0.0.0")
    assert [handshake(address, Origin=origin) for origin in FOREIGN] == [403] * len(FOREIGN)
    assert handshake(address, Origin=address) == 101
    server.terminate()
    assert server.wait(timeout=PATIENCE) is not None
    said = log.read_text()
    assert 'warning live text="others can reach this server' in said
    assert "my_model.py, line 1: ZeroDivisionError" in said
