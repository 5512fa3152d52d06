"""The work folder: what is kept, what is thrown away, and the mean of the newest weights."""

from pathlib import Path

import pytest
import torch
from torch import nn

from tests import toy
from transformer.training.store import Progress, Store, is_snapshot


def store(folder: Path, **changes: int) -> Store:
    folder.mkdir()
    return Store(toy.training_options(folder, folder, **changes))


def save(kept: Store, *updates: int) -> None:
    """Weights that tell their update."""
    model = nn.Linear(1, 1, bias=False)
    for update in updates:
        nn.init.constant_(model.weight, update)
        kept.save_weights(model, update)


def test_snapshots_double() -> None:
    assert [update for update in range(7000) if is_snapshot(update)] == [50, 100, 200, 400, 800, 1600, 3200, 6400]


def test_the_newest_weights_and_the_snapshots_are_kept(tmp_path: Path) -> None:
    kept = store(tmp_path / "run", average=3, save_every=40)
    save(kept, *range(40, 441, 40), 50, 100)
    assert kept.saved() == [50, 100, 200, 320, 360, 400, 440]
    assert kept.weights(360)["weight"].item() == 360


@pytest.mark.parametrize(
    ("last", "chosen"),
    [(440, [360, 400, 440]), (400, [320, 360, 400]), (450, [400, 440, 450])],
)
def test_the_mean_is_that_of_the_newest_regular_weights(tmp_path: Path, last: int, chosen: list[int]) -> None:
    """Neither old snapshots nor weights from after the state belong to it; 200, a regular update, is too old."""
    kept = store(tmp_path / "run", average=3, save_every=40)
    save(kept, *range(40, 441, 40), 50, last)
    mean, updates = kept.averaged(last)
    assert updates == chosen
    assert mean["weight"].item() == pytest.approx(sum(chosen) / len(chosen))
    assert mean["weight"].dtype == torch.float32


def test_the_curve_forgets_what_will_be_logged_again(tmp_path: Path) -> None:
    kept = store(tmp_path / "run")
    assert kept.curve() == []
    for update in (10, 20, 30):
        kept.log({"update": update, "loss": update / 7})
    kept.forget_after(20)
    assert kept.curve() == [{"update": 10, "loss": 10 / 7}, {"update": 20, "loss": 20 / 7}]


def test_a_new_run_starts_at_the_beginning_and_a_saved_one_goes_on(tmp_path: Path) -> None:
    kept = store(tmp_path / "run")
    model = nn.Linear(2, 3)
    optimizer = torch.optim.Adam(model.parameters())
    assert kept.load_state(model, optimizer) == Progress()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    kept.save_state(model, optimizer, Progress(7, 2, 1, 3.5, 0.25, 9.0))
    other = nn.Linear(2, 3)
    assert kept.load_state(other, torch.optim.Adam(other.parameters())) == Progress(7, 2, 1, 3.5, 0.25, 9.0)
    assert torch.equal(other.weight, model.weight)
    assert not (tmp_path / "run" / "state.new").exists()
