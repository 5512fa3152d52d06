"""A fixture of the tests of recording any module."""

from collections.abc import Iterator

import pytest

from tests.attention.recording.case import doubles


@pytest.fixture
def in_doubles() -> Iterator[None]:
    """Compute in float64."""
    with doubles():
        yield
