"""What every test has in common: shapes in signatures are executed, randomness is fixed."""

import gc
import os
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from playwright.sync_api import Browser, expect
from streamlit.components.v2.manifest_scanner import scan_component_manifests
from streamlit.runtime.pages_manager import PagesManager

from tests.shapes import begin_test, execute_signatures

gc.disable()  # until all is collected: a third of the time of importing it
execute_signatures()  # before the first import of the library
if "ATEN_CPU_CAPABILITY" in os.environ:  # oneDNN asks the processor itself, and PyTorch fails where it may do more
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")

import torch  # noqa: E402

from tests.browser.visiting import chromium_opened  # noqa: E402
from tests.waiting import PATIENCE  # noqa: E402

hypothesis.settings.register_profile("heedmap", deadline=None, derandomize=True, max_examples=20)
hypothesis.settings.load_profile("heedmap")

ROOT = Path(__file__).parents[1]

LONGEST = ("browser", "test_packaging.py", "test_kernels.py", "teaching", "pages", "atlas", "checkpoint", "lessons")
"""Places of the files that take longest, which begin first: one that began last would leave other processes waiting."""

torch.set_num_threads(1)
"""The tests' tensors are tiny: a second thread costs more than it brings."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first; the others as they are collected."""
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.relative_to(ROOT / "tests").parts[0], len(order)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What this machine cannot run is said, where nobody overlooks it."""
    for report in terminalreporter.getreports("passed"):
        for said in (value for name, value in report.user_properties if name == "could not run"):
            terminalreporter.write_line(f"COULD NOT RUN: {said} ({report.nodeid})")


def pytest_collection_finish() -> None:
    """From now on what is imported is looked through no more: it stays, and is most of all objects."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 10, 10)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Each test starts from the same random state, alone or among others."""
    torch.manual_seed(0)
    begin_test()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Generator[None, Any, Any]:
    """So does what tests share, whichever of them asks for it first."""
    if fixturedef.scope != "function":
        torch.manual_seed(0)
    return (yield)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left_open() -> Iterator[None]:
    """What a file left open is collected at its end: the warning, which is an error, names that file and no other."""
    yield
    gc.collect()


@pytest.fixture(scope="session", autouse=True)
def _packages_are_read_once() -> Iterator[None]:
    """Each new AppTest looks for components in every installed package: half of the time of most tests of pages."""
    with pytest.MonkeyPatch.context() as patch:
        once = cache(scan_component_manifests)
        patch.setattr("streamlit.components.v2.manifest_scanner.scan_component_manifests", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def _app_is_around_every_page() -> Iterator[None]:
    """As on a server, which calls `st.navigation` when it starts (`ui.serving`)."""
    begin = PagesManager.__init__

    def begun(manager: PagesManager, *args: Any, **options: Any) -> None:
        begin(manager, *args, **options)
        PagesManager.uses_pages_directory = False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PagesManager, "__init__", begun)
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests: a thread can drive no second one. All pages of a window are drawn by one process."""
    expect.set_options(timeout=PATIENCE * 1000)
    with chromium_opened("--process-per-site") as opened:
        yield opened
