"""The models of all families, loaded once: whoever changes one copies it before."""

import pytest

from heedmap import Checkpoint, load
from tests.checkpoint.huggingface.families import CONFIGS, write_folder


@pytest.fixture(scope="package")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checkpoint]:
    place = tmp_path_factory.mktemp("families")
    return {family: load(write_folder(place / family, family)) for family in CONFIGS}
