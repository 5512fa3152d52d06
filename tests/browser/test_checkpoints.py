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


def hover(page: Page, query: int, key: int) -> str:
    """What the heatmap says when it is pointed at this cell."""
    said = page.locator(".st-key-heatmap .hoverlayer")
    plot = page.locator(".st-key-heatmap .js-plotly-plot")
    for _ in range(40):
        plot.scroll_into_view_if_needed()
        x, y = plot.evaluate(
            """(plot, [query, key]) => {
              const { xaxis, yaxis } = plot._fullLayout, box = plot.getBoundingClientRect();
              return [box.left + xaxis._offset + xaxis.d2p(key), box.top + yaxis._offset + yaxis.d2p(query)];
            }""",
            [query, key],
        )
        page.mouse.move(x - 4, y - 4)
        page.mouse.move(x, y)
        page.wait_for_timeout(250)
        if text := said.text_content():
            return text
    return ""


def test_from_a_file_to_its_attention(opened, annotated: Path) -> None:
    here = opened()
    drop(here, annotated)
    expect(here.page.get_by_text("The Annotated Transformer", exact=True)).to_be_visible()
    heads = here.page.locator("[class*='st-key-ask'][class*='n_heads']")
    with here.run():
        heads.get_by_text("3", exact=True).click()
    ids = here.page.get_by_role("textbox", name=re.compile("Token ids from 0 to 22"))
    ids.fill("5 6 7")
    here.page.get_by_role("textbox", name=re.compile("Force this target")).fill("4 9")
    with here.run():
        here.page.get_by_role("button", name="Run", exact=True).click()
    with here.run():
        here.page.get_by_text("Encoder self", exact=True).click()
    expect(here.page.locator(".st-key-heatmap .gtitle").first).to_contain_text("encoder.")
    name = here.page.locator(".st-key-heatmap .gtitle").first.text_content() or ""
    found = re.search(r"(encoder\.\d\.self).*head (\d)", name)
    assert found
    expected = attention_maps(load(annotated, n_heads=3), [[5, 6, 7, 2]], [[1, 4, 9]])[found[1]][0, int(found[2])]
    assert f"{expected[1, 2]:.4f}"[:5] in hover(here.page, 1, 2)


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
