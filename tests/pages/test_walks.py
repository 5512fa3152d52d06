"""The address is the state: a fresh visit to where a random walk ended shows what the walk ended with."""

from pathlib import Path

import pytest

from tests.classifiers import sequence_checkpoint
from tests.pages.opening import address_of, opened
from tests.pages.tiny import save_tiny, save_tiny_recurrent
from tests.pages.walks import PAGES, seen, walked
from transformer.checkpoint.ours.folder import save_folder

STEPS = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny random models in the place of the shipped ones, with examples."""
    made = tmp_path_factory.mktemp("checkpoints")
    save_tiny(made)
    save_tiny_recurrent(made, "additive")
    small = sequence_checkpoint()
    examples = ("ACGTTGCAAGTGTCAGTTGACGTACC", "ACGTACGTACGT")
    save_folder(made / "letters", "kmer", small.model, task=small.task, examples=examples)
    return made


@pytest.fixture(autouse=True)
def _shipped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", folder)


@pytest.mark.parametrize("page", PAGES)
def test_a_fresh_visit_shows_what_a_walk_ended_with(page: str) -> None:
    text = {"text": "two dogs", "longest": "10"} if page in {"translate", "align"} else {}
    end = walked(page, 0, STEPS, **text)
    fresh = opened(page, **address_of(end))
    assert not fresh.exception
    assert seen(fresh) == seen(end), address_of(end)
    assert address_of(fresh) == address_of(end)
