"""What every test has in common: shapes in signatures are executed, randomness is fixed."""

import hypothesis
import pytest
from jaxtyping import install_import_hook

install_import_hook("transformer", "beartype.beartype")  # before the first import of the library

import torch  # noqa: E402

hypothesis.settings.register_profile("atlas", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("atlas")

torch.set_num_threads(1)
"""The tests' tensors are tiny: a second thread costs more than it brings."""


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Each test starts from the same random state, alone or among others."""
    torch.manual_seed(0)
