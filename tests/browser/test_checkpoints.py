"""What an engineer does on the page Checkpoints: drop a file, answer, look; drop harm, read why it is refused."""

import re
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, expect

from tests.checkpoint.originals.annotated import EncoderDecoder
from tests.checkpoint.originals.common import scramble
from tests.checkpoint.safe.hostile import corpus
from transformer import attention_maps, load

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
TRICKS = ("plain pickle, protocol 2", "bomb", "a million keys", "empty")


@pytest.fixture
def opened(serve, visit):
    """`opened(query)` opens the page Checkpoints."""
    return lambda query="", **window: visit(f"{serve(ROOT / 'app.py')}/checkpoints{query}", **window)


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


def reading(page: Page, query: int, key: int) -> str:
    """What the heatmap says when it is pointed at this cell."""
    canvas = page.locator(".heatmap canvas")
    left, top, side = (float(number) for number in (canvas.get_attribute("data-cells") or "").split())
    canvas.hover(position={"x": left + (key + 0.5) * side, "y": top + (query + 0.5) * side})
    return page.locator(".heatmap .reading").text_content() or ""


def test_from_a_file_to_its_attention(opened, annotated: Path) -> None:
    here = opened()
    page = here.page
    drop(here, annotated)
    expect(page.get_by_text("The Annotated Transformer", exact=True)).to_be_visible()
    with here.run():
        page.locator("[class*='st-key-ask'][class*='n_heads']").get_by_text("3", exact=True).click()
    page.get_by_role("textbox", name=re.compile("Token ids from 0 to 22")).fill("5 6 7")
    page.get_by_role("textbox", name=re.compile("Force this target")).fill("4 9")
    with here.run():
        page.get_by_role("button", name="Run", exact=True).click()
    maps = attention_maps(load(annotated, n_heads=3), [[5, 6, 7, 2]], [[1, 4, 9]])
    sent = here.sent
    kinds = page.get_by_role("radiogroup", name="Attention")
    kinds.get_by_role("radio", name="Encoder self").click()
    for layer, head in ((1, 2), (0, 1)):
        page.locator(".all-heads .cell").nth(3 * layer + head).click()
        expect(page.locator(".heatmap .title")).to_have_text(f"encoder.{layer}.self · head {head}")
        assert f"{maps[f'encoder.{layer}.self'][0, head][1, 2]:.3f}" in reading(page, 1, 2)
    assert here.sent == sent  # the browser has the numbers
    whole = here.whole
    with here.run():
        page.get_by_text("Scores", exact=True).click()
    expect(page.locator(".st-key-heatmap .gtitle").first).to_contain_text("encoder.0.self")
    assert here.whole == whole  # what it has not is drawn without the rest of the page


def test_harm_is_refused_in_a_sentence_and_the_server_stays_up(opened, annotated: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    here = opened()
    for trick, data, reason in corpus(str(marker)):
        if trick in TRICKS:
            path = tmp_path / "harm.pt"
            path.write_bytes(data)
            drop(here, path)
            expect(here.page.get_by_text(reason)).to_be_visible()
    assert not marker.exists()
    drop(here, annotated)
    expect(here.page.get_by_text("The Annotated Transformer", exact=True)).to_be_visible()


def test_another_session_has_no_way_to_an_upload(opened, annotated: Path) -> None:
    here = opened()
    drop(here, annotated)
    expect(here.page.get_by_text("The Annotated Transformer", exact=True)).to_be_visible()
    other = opened("?model=upload/engineer")
    expect(other.page.get_by_role("heading", name="Checkpoints")).to_be_visible()
    expect(other.page.get_by_role("button", name="Run", exact=True)).to_be_visible()
    expect(here.page.locator(".st-key-remove")).to_be_visible()
    expect(other.page.locator(".st-key-remove")).to_have_count(0)
    assert "engineer" not in other.page.content()


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_cut_off_on_a_narrow_screen(opened, annotated: Path, dark: bool) -> None:
    here = opened(width=400, dark=dark)
    drop(here, annotated)
    expect(here.page.get_by_text("The Annotated Transformer", exact=True)).to_be_visible()
    assert here.page.evaluate("document.documentElement.scrollWidth") <= 400
