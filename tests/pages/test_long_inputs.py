"""Long sequences on the page: what a run costs is said, memory is the limit, the map zooms to single cells."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streamlit as st
import torch
from streamlit.testing.v1 import AppTest

from tests.checkpoint.huggingface.families import write_folder
from tests.classifiers import sequence_checkpoint
from tests.pages.opening import opened
from tests.pages.test_sequences import EXAMPLE, fine, page
from tests.toy import tokenizer
from transformer import Checkpoint, load
from transformer.attention.softmax_inputs import AttentionInputs
from transformer.checkpoint.ours.folder import save_folder
from transformer.nn.encoder import Encoder, EncoderConfig
from transformer.nn.kmer import KmerClassifier
from transformer.plots.canvas.blob import unpack
from transformer.runs.any_model import run_any
from transformer.runs.sequences.classify import classify
from ui.components.heatmap.component import NAMED
from ui.shared import zooming
from ui.store import progress, user_folder

LETTERS = "ACGTTGCAAGTGTCAGTTGACGT" * 60  # 1,380: long enough to be measured first
SHAPE = 2 * len(LETTERS) - 2 - 4  # widths 3 and 5


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    """A small checkpoint stands in for the shipped ones."""
    one = sequence_checkpoint()
    save_folder(tmp_path / "small", "kmer", one.model, task=one.task, examples=(EXAMPLE,))
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    return load(tmp_path / "small")


def sent(at: AppTest) -> dict[str, tuple[dict[str, Any], dict[str, np.ndarray], int]]:
    """Every message of the page: its header, its arrays, its bytes."""
    messages = {str(part.key): part.proto.bytes for part in at.get("bidi_component") if part.proto.bytes}
    return {key: (*unpack(one), len(one)) for key, one in messages.items()}


def test_a_step_sends_the_part_of_the_window_alone_and_its_numbers_are_the_records(small: Checkpoint) -> None:
    at = fine(page(read="one", sequence=LETTERS, view="windows", layer="1", head="2"))
    header, codes, _ = sent(at)["windows-tiles"]
    assert header["shape"] == [SHAPE, SHAPE]
    whole, part = header["layers"]
    assert part["rows"] == [0, SHAPE]
    assert max(codes["codes_0"].nbytes, codes["codes_1"].nbytes) < 64_000
    expected = classify(small, LETTERS).record["encoder.1.self"]
    weights = expected.weights(2)
    assert header["largest"] == pytest.approx(float(weights.max()), rel=1e-5)
    tall, wide = whole["tall"], whole["wide"]
    largest = np.maximum.reduceat(np.maximum.reduceat(weights, np.arange(0, SHAPE, tall)), np.arange(0, SHAPE, wide), 1)
    found = header["largest"] * (codes["codes_0"].reshape(largest.shape) / 254.0) ** 2
    assert np.abs(found - largest).max() < header["largest"] / 254

    at.query_params.update(rows="1001-1040", columns="7-70", layer="1", head="2")
    header, arrays, _ = sent(fine(at.run()))["windows-tiles"]
    near = header["layers"][1]
    assert (near["rows"], near["columns"]) == ([1000, 1040], [6, 70])
    assert near["queries"][0].startswith("1001-1003 ")
    assert len(near["keys"]) == NAMED
    exact = arrays["values_1"].reshape(40, NAMED)
    np.testing.assert_allclose(exact, weights[1000:1040, 6:70], rtol=1e-5)


def test_a_window_that_is_none_shows_the_whole() -> None:
    at = fine(page(read="one", sequence=LETTERS[:200], view="windows", layer="0", head="0", columns="5-9"))
    for rows in ("0-9", "9-3", "1-999999", "a-b", "1-2-3"):
        at.query_params.update(rows=rows, layer="0", head="0")
        part = sent(fine(at.run()))["windows-tiles"][0]["layers"][1]
        assert (part["rows"], part["columns"]) == ([0, 394], [4, 9])


def test_memory_is_the_limit_and_the_refusal_says_what_why_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDMAP_RUN_MB", "2")
    for lang, says in (("en", "at most 2 MB are given to one: choose a part"), ("zh", "而一次运行最多给 2 MB")):
        at = page(read="one", sequence=LETTERS, lang=lang)
        assert not at.exception
        assert says in at.warning[0].value
        assert "HEEDMAP" in at.warning[0].value


def test_what_takes_very_long_waits_for_its_button_and_says_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "WORTH_ASKING", 0.0)
    monkeypatch.setattr(progress, "name_of", lambda kind, key: kind)
    at = fine(page(read="one", sequence=LETTERS))
    (told,) = at.info
    assert told.value.startswith("1,380 letters: about 1 s and ")
    assert told.value.endswith(" MB of memory on this machine")
    assert not at.subheader
    assert fine(at.button(key="ask-sequence_run").click().run()).subheader


def test_a_long_run_is_stopped_and_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Someone presses Stop while the bar stands at its first share."""
    monkeypatch.setattr(progress, "WORTH_A_BAR", 0.0)
    told, names, name_of = list[str](), list[str](), progress.name_of

    def named(kind: str, key: tuple[Any, ...]) -> str:
        names.append(name_of(kind, key))
        return names[-1]

    def pressed(_bar: Any, done: float, says: progress.Told) -> None:
        told.append(says(done))
        st.session_state[progress.STOPPED].add(names[-1])
        st.rerun()

    with monkeypatch.context() as impatient:
        impatient.setattr(progress, "name_of", named)
        impatient.setattr(progress, "_move", pressed)
        at = fine(page(read="one", sequence=LETTERS, view="windows"))
    assert [one.value for one in at.info] == ["1,380 letters: stopped by you."]
    assert len(told) == 1
    assert told[0].startswith("1,380 letters: about ")
    fine(next(one for one in at.button if str(one.key).startswith("go-on-")).click().run())
    assert "windows-tiles" in sent(at)


def test_a_long_run_is_computed_where_and_as_exactly_as_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short one is not: its other numbers would be of another model."""
    ran = list[tuple[int, torch.dtype]]()
    forward = KmerClassifier.forward

    def counted(self: KmerClassifier, letters: torch.Tensor) -> torch.Tensor:
        ran.append((letters.shape[1], self.embedding.weight.dtype))
        return forward(self, letters)

    monkeypatch.setattr(KmerClassifier, "forward", counted)
    monkeypatch.setenv("HEEDMAP_DTYPE", "bfloat16")
    monkeypatch.setenv("HEEDMAP_DEVICE", "cpu")
    fine(page(read="one", sequence=LETTERS))
    assert ran[-1] == (len(LETTERS), torch.bfloat16)
    fine(page(read="one", sequence=EXAMPLE))
    assert ran[-1][1] == torch.float32
    for name, value, says in (("DEVICE", "cuda:9", "choose auto or one of cpu"), ("DTYPE", "int8", "is no precision")):
        monkeypatch.setenv(f"HEEDMAP_{name}", value)
        at = page(read="one", sequence=LETTERS)
        assert not at.exception
        assert says in at.warning[0].value


def test_the_window_is_about_its_own_sequence() -> None:
    at = fine(page(read="one", sequence=LETTERS[:400], view="windows", layer="0", head="0", rows="5-9"))
    at.text_area(key="sequence").set_value(LETTERS[3:500])
    fine(at.button(key="FormSubmitter:sequence-form-Run").click().run())
    assert sent(at)["windows-tiles"][0]["layers"][1]["rows"] == [0, 2 * 497 - 6]
    assert zooming.ROWS not in at.query_params


def test_a_long_text_of_an_encoder_is_zoomed_on_checkpoints(tmp_path: Path) -> None:
    """600 words and a mark at either end, or as the tokenizer has it; up to 512 tokens nothing is as here."""
    words = tokenizer()
    model = Encoder(EncoderConfig(vocab=len(words), d_model=12, n_heads=3, n_layers=2, d_ff=17, max_length=19)).eval()
    save_folder(tmp_path / "reader", "encoder", model, words, examples=("the dog runs.",))
    text = "the dog runs. " * 200
    at = fine(opened("your_model", model="reader", input=text, layer="1", head="2", rows="101-140", columns="3-60"))
    record = run_any(load(tmp_path / "reader"), text).record["encoder.1.self"]
    header, arrays, _ = sent(at)["tokens-tiles"]
    part = header["layers"][1]
    assert (part["rows"], part["columns"]) == ([100, 140], [2, 60])
    exact = arrays["values_1"].reshape(40, 58)
    np.testing.assert_allclose(exact, record.tile(2, slice(100, 140), slice(2, 60)), rtol=1e-4)
    assert part["queries"] == list(record.queries.labels[100:140])
    assert sent(at)["all-heads"][0]["shape"][:2] == [2, 3]


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
