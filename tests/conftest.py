"""What every test has in common: shapes in signatures are executed, randomness is fixed."""

from collections.abc import Iterator

import hypothesis
import pytest
from jaxtyping import install_import_hook
from playwright.sync_api import Browser, expect

install_import_hook("transformer", "beartype.beartype")  # before the first import of the library

import torch  # noqa: E402

from tests.browser.visiting import PATIENCE, chromium_opened  # noqa: E402

hypothesis.settings.register_profile("heedmap", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("heedmap")

torch.set_num_threads(1)
"""The tests' tensors are tiny: a second thread costs more than it brings."""


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Each test starts from the same random state, alone or among others."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests: a thread can drive no second one."""
    expect.set_options(timeout=PATIENCE * 1000)
    with chromium_opened() as opened:
        yield opened
