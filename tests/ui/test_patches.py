"""Private parts of Streamlit stand in one folder, and the app runs without them."""

import re
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.visiting import start_server
from tests.waiting import PATIENCE
from ui.patches import session

ROOT = Path(__file__).parents[2]
PATCHES = ROOT / "ui" / "patches"
PRIVATE = re.compile(
    r"streamlit\.(runtime|web|proto|elements|commands|delta_generator_)|from streamlit import (?!delta)\w"
    r"|asyncio\.\w*\._|get_script_run_ctx|get_session_state"
)


def test_private_names_stand_in_one_folder_of_few_lines() -> None:
    files = [*(ROOT / "ui").rglob("*.py"), *(ROOT / "pages").glob("*.py"), ROOT / "app.py"]
    others = [file for file in files if PATCHES not in file.parents]
    assert [str(file) for file in others if PRIVATE.search(file.read_text("utf-8"))] == []
    code = [*PATCHES.glob("*.py"), *PATCHES.glob("*.js")]
    assert sum(len(file.read_text("utf-8").splitlines()) for file in code) <= 150


@pytest.mark.parametrize("version", ["1.66.0", "1.68.0", "2.0"])
def test_another_version_is_asked_nothing_and_the_log_says_so(
    version: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("streamlit.__version__", version)
    monkeypatch.setattr(session, "_of", lambda *_: 1 / 0)
    monkeypatch.setattr("logging.getLogger", lambda *_: __import__("logging").Logger.manager.root)
    session.apply.cache_clear()
    try:
        answers = session.session_id(), session.is_connected("x"), session.came_by_history(), session.brought()
        assert answers == ("", True, False, frozenset())
        assert "without_patch name=is_connected" in caplog.text
    finally:
        session.apply.cache_clear()


def test_a_name_that_is_gone_stops_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delattr("streamlit.runtime.runtime.Runtime")
    assert session.is_connected("x")


@pytest.mark.browser
def test_the_app_runs_with_the_patches_refused(browser: Browser, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    server, address = start_server(ROOT / "app.py", log, HEEDMAP_PATCHES="0")
    try:
        page = browser.new_page()
        page.goto(f"{address}/masks")
        expect(page.get_by_role("heading", name="Masks")).to_be_visible()
        page.get_by_test_id("stSidebar").get_by_role("link", name="Positions").click()
        expect(page.get_by_role("heading", name="Positions")).to_be_visible()
        page.get_by_role("radio", name="Rotation", exact=True).first.click()
        expect(page).to_have_url(re.compile("screen=rotation"))
        page.close()
    finally:
        server.terminate()
        server.wait(PATIENCE)
    assert "without_patch name=history" in log.read_text()
    assert isinstance(server, subprocess.Popen)
