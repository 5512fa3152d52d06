"""Training options: refused where they make no run, and the learning rate they stand for."""

from pathlib import Path
from typing import Any

import pytest

from tests import toy
from transformer.errors import TrainingError
from transformer.messages import Message
from transformer.training.translation.options import TrainingOptions

HERE = Path()


@pytest.mark.parametrize(
    "option",
    [
        dict(vocab_size=0), dict(d_model=0), dict(updates=0), dict(warmup=0), dict(batch_tokens=0), dict(average=0),
        dict(save_every=0), dict(validate_every=0), dict(threads=0), dict(stop_after=0), dict(max_tokens=2),
        dict(dropout=1.0), dict(label_smoothing=-0.1), dict(subword_dropout=1.5), dict(dropout=float("nan")),
        dict(clip=-1.0), dict(d_embedding=-1), dict(architecture="rnn"), dict(cooldown=1.1), dict(peak_rate=0.0),
        dict(peak_rate=float("inf")), dict(subword_epochs=-1), dict(positions="rotary"),
    ],
)  # fmt: skip
def test_options_that_make_no_run_are_refused(option: dict[str, Any]) -> None:
    name, value = next(iter(option.items()))
    with pytest.raises(TrainingError, match=f"{name}={value} makes no run: choose") as caught:
        TrainingOptions(HERE, HERE, **option)
    assert isinstance(caught.value.message, Message)
    assert f"{name}={value} 不能训练" in caught.value.message.in_language("zh")


def test_the_rate_rises_then_falls_with_the_root_and_at_last_to_zero() -> None:
    options = TrainingOptions(HERE, HERE, updates=1000, warmup=100, peak_rate=0.01, cooldown=0.25)
    assert options.rate(50) == pytest.approx(0.005)
    assert options.rate(100) == 0.01
    assert options.rate(400) == pytest.approx(0.005)
    assert options.rate(751) == pytest.approx(0.01 * (100 / 751) ** 0.5)
    assert options.rate(876) == pytest.approx(0.01 * (100 / 876) ** 0.5 / 2)
    assert 0 < options.rate(1000) < 0.0001
    rates = [options.rate(update) for update in range(1, 1001)]
    assert max(rates) == rates[99]


def test_what_decides_the_result_leaves_out_places_and_pace() -> None:
    options = toy.training_options(HERE / "a", HERE / "b", threads=3, stop_after=5, seed=7)
    assert "data" not in options.deciding()
    assert options.deciding() == toy.training_options(HERE, HERE, seed=7).deciding()
    assert options.changed()["seed"] == 7
    assert "dropout" not in options.changed()
    assert options.languages == ("en", "de")
