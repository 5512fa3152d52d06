"""Long texts on Your model: what a run costs is said, memory is the limit, the map zooms to single cells."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from heedmap import Checkpoint, load
from heedmap.attention.softmax_inputs import AttentionInputs
from heedmap.checkpoint.ours.folder import save_folder
from heedmap.nn.stacks import Encoder, EncoderConfig
from heedmap.plots.canvas.blob import unpack
from heedmap.runs.any_model import run_any
from heedmap.runs.pace import Cost, Pace
from heedmap.safe.limits import MEGABYTE
from tests.checkpoint.huggingface.families import write_folder
from tests.pages.opening import fine, opened, ran, stopped_at_once
from tests.toy import tokenizer
from ui.store import runs, user_folder
from ui.your_model import attention, inspection

TEXT = "the dog runs. " * 200
"""More than 512 tokens: a run of it is measured first, and its maps are seen through a window."""


@pytest.fixture(autouse=True)
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    """A small encoder beside the shipped checkpoints' place."""
    words = tokenizer()
    model = Encoder(
        EncoderConfig.of(vocab=len(words), d_model=12, n_heads=3, n_layers=2, d_ff=17, max_length=19)
    ).eval()
    save_folder(tmp_path / "reader", "encoder", model, words, examples=("the dog runs.",))
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", tmp_path)
    return load(tmp_path / "reader")


def page(**address: str) -> AppTest:
    return opened("your_model", **{"model": "reader", "input": TEXT, "layer": "1", "head": "2", **address})


def sent(at: AppTest) -> dict[str, tuple[dict[str, Any], dict[str, np.ndarray], int]]:
    """Every message of the page: its header, its arrays, its bytes."""
    messages = {str(part.key): part.proto.bytes for part in at.get("bidi_component") if part.proto.bytes}
    return {key: (*unpack(one), len(one)) for key, one in messages.items()}


def test_a_step_sends_the_part_of_the_window_alone_and_its_numbers_are_the_records(reader: Checkpoint) -> None:
    at = fine(page(rows="101-140", columns="3-60"))
    record = run_any(reader, TEXT).record["encoder.1.self"]
    weights = record.weights(2)
    header, arrays, _ = sent(at)["tokens-tiles"]
    whole, part = header["layers"]
    assert header["shape"] == list(weights.shape)
    assert (part["rows"], part["columns"]) == ([100, 140], [2, 60])
    np.testing.assert_allclose(arrays["values_1"].reshape(40, 58), weights[100:140, 2:60], rtol=1e-4)
    assert part["queries"] == list(record.queries.labels[100:140])
    assert sent(at)["all-heads"][0]["shape"][:2] == [2, 3]
    assert header["largest"] == pytest.approx(float(weights.max()), rel=1e-5)
    rows, columns = (np.arange(0, len(weights), whole[name]) for name in ("tall", "wide"))
    largest = np.maximum.reduceat(np.maximum.reduceat(weights, rows), columns, 1)
    found = header["largest"] * (arrays["codes_0"].reshape(largest.shape) / 254.0) ** 2
    assert np.abs(found - largest).max() < header["largest"] / 254


def test_a_window_that_is_none_shows_the_whole_and_one_is_about_its_own_text_alone(reader: Checkpoint) -> None:
    count = len(run_any(reader, TEXT).record["encoder.1.self"].queries)
    at = fine(page(columns="5-9"))
    for rows in ("0-9", "9-3", "1-999999", "a-b", "1-2-3"):
        at.query_params.update(rows=rows, layer="1", head="2")
        part = sent(fine(at.run()))["tokens-tiles"][0]["layers"][1]
        assert (part["rows"], part["columns"]) == ([0, count], [4, 9])
    at.query_params.update(rows="5-9", layer="1", head="2")
    other = ran(fine(at.run()), input="the dog runs. the " * 150)
    part = sent(fine(other))["tokens-tiles"][0]["layers"][1]
    assert part["rows"][0] == 0
    assert part["rows"][1] > 512
    assert attention.ROWS not in other.query_params


def test_memory_is_the_limit_and_the_refusal_says_what_why_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDMAP_RUN_MB", "1")
    for lang, says in (("en", "at most 1 MB are given to one: choose a part"), ("zh", "而一次运行最多给 1 MB")):
        at = page(lang=lang)
        assert not at.exception
        (told,) = [one.value for one in (*at.warning, *at.error) if says in one.value]
        assert "HEEDMAP" in told


def test_what_takes_very_long_waits_for_its_button_and_says_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pace, "cost", lambda pace, length: Cost(41.2, 3 * MEGABYTE, MEGABYTE))
    monkeypatch.setattr(runs, "name_of", lambda kind, key: kind)
    at = fine(page())
    (told,) = [one.value for one in at.info if "of memory" in one.value]
    assert told == "1,800 tokens: about 41 s and 3 MB of memory on this machine"
    assert "tokens-tiles" not in sent(at)
    assert "tokens-tiles" in sent(fine(at.button(key="ask-long_any_run").click().run()))


@pytest.mark.parametrize(
    ("show", "what", "begins"),
    [
        ("attention", "1,800 tokens: stopped by you.", "1,800 tokens: about "),
        ("tensors", "Looking through the numbers …: stopped by you.", "Looking through the numbers"),
    ],
)
def test_what_takes_long_is_stopped_and_asked_for_again(
    show: str, what: str, begins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone presses Stop while the bar stands at its first share."""
    monkeypatch.setattr(inspection, "QUICK", 0)
    with stopped_at_once(monkeypatch) as told:
        at = fine(page(show=show))
    assert [one.value for one in at.info if "stopped" in one.value] == [what]
    assert len(told) == 1
    assert told[0].startswith(begins)
    fine(next(one for one in at.button if str(one.key).startswith("go-on-")).click().run())
    assert at.dataframe if show == "tensors" else "tokens-tiles" in sent(at)


def test_a_long_run_is_computed_where_and_as_exactly_as_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short one is not: its other numbers would be of another model."""
    ran = list[tuple[int, torch.dtype]]()
    forward = Encoder.forward

    def counted(self: Encoder, ids: torch.Tensor, *more: Any, **named: Any) -> Any:
        ran.append((ids.shape[1], self.embedding.weight.dtype))
        return forward(self, ids, *more, **named)

    monkeypatch.setattr(Encoder, "forward", counted)
    monkeypatch.setenv("HEEDMAP_DTYPE", "bfloat16")
    monkeypatch.setenv("HEEDMAP_DEVICE", "cpu")
    fine(page())
    assert (1_800, torch.bfloat16) in ran
    ran.clear()
    fine(page(input="the dog runs."))
    assert {dtype for _, dtype in ran} == {torch.float32}
    for name, value, says in (("DEVICE", "cuda:9", "choose auto or one of cpu"), ("DTYPE", "int8", "is no precision")):
        monkeypatch.setenv(f"HEEDMAP_{name}", value)
        at = page()
        assert not at.exception
        assert any(says in one.value for one in (*at.warning, *at.error))


def test_a_long_text_of_a_hugging_face_decoder_is_zoomed_on_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,100 ids: it is read and looked at, not written on, and no look at a part computes its rows again."""
    monkeypatch.setattr(user_folder, "own_folder", lambda: tmp_path / "mine")
    write_folder(tmp_path / "mine" / "llama", "llama", tokenizer=False, max_position_embeddings=1100)
    text = " ".join(str(5 + 7 * i % 290) for i in range(1100))
    at = fine(opened("your_model", model="mine/llama", input=text, layer="1", head="4", rows="901-940", columns="3-60"))
    assert "more than 512 tokens" in " ".join(one.value for one in at.caption)
    attention = run_any(load(tmp_path / "mine" / "llama"), text).record["decoder.1.self"]
    assert isinstance(attention.source, AttentionInputs)
    assert attention.source.kept_bytes < 2_000_000
    header, arrays, _ = sent(at)["tokens-tiles"]
    part = header["layers"][1]
    assert (part["rows"], part["columns"]) == ([900, 940], [2, 60])
    q, k = attention.source.q[0, 4].double(), attention.source.k[0, 1].double()  # three heads share their keys
    scores = (q @ k.T / 2).masked_fill(torch.ones(1100, 1100, dtype=torch.bool).triu(1), -torch.inf)
    expected = scores.softmax(-1)[900:940, 2:60]
    np.testing.assert_allclose(arrays["values_1"].reshape(40, 58), expected, rtol=1e-3, atol=1e-7)
    monkeypatch.setattr(AttentionInputs, "_whole_rows", lambda *_: pytest.fail("whole rows were computed"))
    np.testing.assert_allclose(attention.tile(4, slice(900, 940), slice(2, 60)), expected, rtol=1e-3, atol=1e-7)
    assert sent(at)["all-heads"][0]["shape"][:2] == [2, 6]
