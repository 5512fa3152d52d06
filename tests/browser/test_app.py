"""The app as a whole: a link opens its page within the frame, whoever comes first."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.visiting import PATIENCE, start_server

pytestmark = pytest.mark.browser


def test_the_first_visit_after_a_start_may_be_a_link_to_a_page(tmp_path: Path, visit) -> None:
    server, address = start_server(Path(__file__).parents[2] / "app.py", tmp_path / "app.log")
    try:
        page = visit(f"{address}/masks?lang=zh&screen=conventions").page
        expect(page.get_by_role("heading", name="掩码", exact=True)).to_be_visible()
        expect(page.get_by_test_id("stSidebar")).to_contain_text("课程")
        expect(page.get_by_test_id("stSidebar").get_by_text("简体中文")).to_be_visible()
        expect(page.locator("[data-testid=stMain] code").filter(has_text="visible.any")).to_be_visible()
    finally:
        server.terminate()
        server.wait(timeout=PATIENCE)
