"""The user's own code, live, in a browser: type, look, switch a head off, save the record, and drop that record in."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_guard import FOREIGN, handshake
from tests.browser.visiting import PATIENCE, ROOT, start_server
from transformer import Record
from ui.checkpoints.ways import EXAMPLE

pytestmark = pytest.mark.browser
SEEDED = EXAMPLE.replace("def make():", "def make():\n    torch.manual_seed(17)")
SITE, COUNT = "1.layers.0.self_attn", 5


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


def saved(page: Page, folder: Path) -> Path:
    """The record that the page saves."""
    with page.expect_download() as download:
        page.get_by_test_id("stDownloadButton").get_by_role("button", name="Record (.heedmap)").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


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
    path = saved(page, tmp_path)
    record = Record.open(path)
    assert (record.text, record.model) == ("some words that I typed", "my_model")
    assert [one.action for one in record.interventions] == ["zero"]
    with here.run():
        page.locator("input[type=file]").set_input_files(str(path))
    expect(page.get_by_text("Changed while it ran")).to_be_visible()
    with here.run():
        page.get_by_role("tab", name="Numbers").click()
    with here.run():
        page.get_by_role("tab", name="Downloads").click()
    again = Record.open(saved(page, tmp_path / "again"))
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
