"""Options: which make no run, which rate they give, which of them decide the result."""

from pathlib import Path
from typing import Any

import pytest

from tests.tools.train.runs import training_options
from tools import ToolError
from tools.train.options import ScheduleOptions, TranslationOptions

HERE = Path()


@pytest.mark.parametrize(
    "option",
    [
        *({name: 0} for name in ("vocab_size", "d_model", "updates", "warmup", "batch_tokens", "average", "threads")),
        *({name: 0} for name in ("save_every", "validate_every", "stop_after")), dict(clip=-1.0), dict(d_embedding=-1),
        dict(max_tokens=2), dict(dropout=1.0), dict(dropout=float("nan")), dict(label_smoothing=-0.1),
        dict(cooldown=1.1), dict(peak_rate=0.0), dict(peak_rate=float("inf")), dict(architecture="rnn"),
        dict(positions="rotary"),
    ],
)  # fmt: skip
def test_options_that_make_no_run_are_refused(option: dict[str, Any]) -> None:
    name, value = next(iter(option.items()))
    with pytest.raises(ToolError, match=f"{name}={value} makes no run: choose"):
        TranslationOptions.of(data=HERE, work=HERE, **option)


def test_the_rate_rises_then_falls_with_the_root_and_at_last_to_zero() -> None:
    options = ScheduleOptions(updates=1000, warmup=100, peak_rate=0.01, cooldown=0.25)
    assert options.rate(50) == pytest.approx(0.005)
    assert options.rate(100) == 0.01
    assert options.rate(400) == pytest.approx(0.005)
    assert options.rate(751) == pytest.approx(0.01 * (100 / 751) ** 0.5)
    assert options.rate(876) == pytest.approx(0.01 * (100 / 876) ** 0.5 / 2)
    assert 0 < options.rate(1000) < 0.0001
    rates = [options.rate(update) for update in range(1, 1001)]
    assert max(rates) == rates[99]


def test_what_decides_the_result_leaves_out_places_and_pace() -> None:
    options = training_options(HERE / "a", HERE / "b", threads=3, stop_after=5, seed=7)
    assert "data" not in options.deciding()
    assert options.deciding() == training_options(HERE, HERE, seed=7).deciding()
    assert options.unusual()["seed"] == 7
    assert "dropout" not in options.unusual()
    assert options.languages == ("en", "de")
