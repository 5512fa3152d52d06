"""The page "Sequences": first paint, every control, hostile input; looking never runs the model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.classifiers import sequence_checkpoint
from tests.pages.opening import gone, opened, options, ran, sent
from transformer import Checkpoint, load
from transformer.checkpoint.ours.folder import save_folder
from transformer.nn.kmer import KmerClassifier
from transformer.runs.sequences.attribution import mutations
from transformer.runs.sequences.classify import classify
from transformer.sequences.folding import folded

EXAMPLE = ">first EI\nACGTTGCANGTGTCAGTTGACGT"
SET = "".join(f">s{i} {'EI' if i % 2 else 'N'}\n{'ACGTTGCAAGTGTCAGTTGACG'[i:]}{'ACGTTGCA'[:i]}\n" for i in range(8))


@pytest.fixture(autouse=True)
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    """A small checkpoint stands in for the shipped ones."""
    small = sequence_checkpoint()
    save_folder(tmp_path / "small", "kmer", small.model, task=small.task, examples=(EXAMPLE, ">second N\nACGTACGTACGT"))
    (tmp_path / "small" / "examples.fa").write_text(SET)
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    return load(tmp_path / "small")


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sequences each forward pass read."""
    seen: list[int] = []
    forward = KmerClassifier.forward

    def counted(self: KmerClassifier, letters: Any) -> Any:
        seen.append(len(letters))
        return forward(self, letters)

    monkeypatch.setattr(KmerClassifier, "forward", counted)
    return seen


def page(**address: str) -> AppTest:
    return opened("sequences", **address)


def fine(at: AppTest) -> AppTest:
    assert not at.exception
    assert not at.warning
    return at


def test_first_paint_is_an_example_with_its_class_and_tracks(shipped: Checkpoint) -> None:
    at = fine(page())
    run = classify(shipped, "ACGTTGCANGTGTCAGTTGACGT")
    best = run.classes[run.predicted]
    assert at.subheader[0].value == f"{best}, probability {run.probabilities[run.predicted]:.3f}"
    table = at.dataframe[0].value
    np.testing.assert_allclose(table["as given"], run.probabilities)
    other = classify(shipped, shipped.task.alphabet.reverse_complement(run.letters.text))
    np.testing.assert_allclose(table["other strand"], other.probabilities)
    header, arrays = sent(at, "tracks")
    attention, changes = header["tracks"]
    assert [attention["form"], changes["form"]] == ["bars", "cells"]
    pooling = run.record["pooling"]
    received = np.mean([pooling.received(head) for head in range(pooling.n_heads)], axis=0)
    track = folded(received, run.spans, len(run.letters))
    bars = [arrays[f"0.{i}.values"] for i in range(len(track.widths))]
    np.testing.assert_allclose(bars, track.share / track.even.sum(axis=0), rtol=1e-5)
    assert [one["name"] for one in attention["series"]] == [f"windows of {width}" for width in track.widths]
    assert (attention["lines"], attention["ends"][1]) == ([1], pytest.approx(np.sum(bars, axis=0).max()))
    expected = mutations(shipped, run.letters, run.predicted)
    assert [one["name"] for one in changes["series"]] == list(expected.letters)
    limit = np.abs(expected.change).max()
    assert changes["ends"] == pytest.approx([-limit, limit])
    for i, new in enumerate(expected.letters):
        given = np.array([letter == new for letter in run.letters.text])
        assert list(arrays[f"1.{i}.places"]) == list(range(1, 24))
        np.testing.assert_allclose(arrays[f"1.{i}.values"][~given], expected.change[i][~given], rtol=1e-5)
        assert np.isnan(arrays[f"1.{i}.values"][given]).all()
    assert header["axis"] == {"first": 1, "last": 23, "title": "letter", "letters": run.letters.text}
    text = " ".join(caption.value for caption in at.caption)
    assert "the header says EI" in text
    assert "N (1; any of A, C, G, T)" in text
    assert "Spearman" in " ".join(part.value for part in at.markdown)


def test_all_heads_are_thumbnails_of_the_record(shipped: Checkpoint) -> None:
    _, arrays = sent(fine(page()), "sequence-heads")
    run = classify(shipped, "ACGTTGCANGTGTCAGTTGACGT")
    expected = run.record["encoder.1.self"].overview(2, 64)
    codes = arrays["codes"].reshape(3, 3, 40, 40)
    np.testing.assert_allclose(codes[1, 2] / 254, expected, atol=0.01)
    pooled = np.repeat(run.record["pooling"].overview(2, 64), 40, axis=0)  # the decision, over the whole height
    np.testing.assert_allclose(codes[2, 2] / 254, pooled, atol=0.01)


def test_looking_around_never_runs_the_model(passes: list[int]) -> None:
    at = fine(page())
    ran = len(passes)
    for key, value in (("layer", "0"), ("head", "2"), ("layer", None), ("head", None)):
        at = gone(at, **{key: value})
    fine(at.toggle(key="consensus").set_value(False).run())
    assert len(passes) == ran


def test_the_address_holds_the_choice() -> None:
    at = fine(page(layer="1", head="2", sequence="ACGTACGTACGTTT"))
    assert at.text_area(key="sequence").value == "ACGTACGTACGTTT"
    assert options(at, "sequence-head-choice")["drawn"] == ["encoder.self", 1, 2]
    assert "encoder.1.self, head 2" in " ".join(part.value for part in at.markdown)


def test_another_checkpoint_brings_its_own_example_but_keeps_what_was_typed(tmp_path: Path) -> None:
    other = sequence_checkpoint(seed=1)
    save_folder(tmp_path / "wide", "kmer", other.model, task=other.task, examples=(">other N\nGGGGGCCCCC",))
    at = fine(page())
    fine(at.selectbox(key="model").set_value("wide").run())
    assert at.text_area(key="sequence").value == ">other N\nGGGGGCCCCC"
    at.text_area(key="sequence").set_value("ACGTACGTTT")
    fine(at.button(key="FormSubmitter:sequence-form-Run").click().run())
    fine(at.selectbox(key="model").set_value("small").run())
    assert at.text_area(key="sequence").value == "ACGTACGTTT"


def test_the_address_holds_what_can_be_run_and_nothing_longer() -> None:
    at = page()
    for text, held in ((f">{'x' * 8_000}\n{'ACGT' * 20}", True), (f">{'x' * 8_200}\n{'ACGT' * 20}", False)):
        at.text_area(key="sequence").set_value(text)
        at.button(key="FormSubmitter:sequence-form-Run").click().run()
        assert ("sequence" in at.query_params) is held


def test_every_text_has_its_chinese() -> None:
    at = fine(page(lang="zh"))
    assert at.title[0].value == "序列"
    assert "概率" in at.subheader[0].value
    header, _ = sent(at, "tracks")
    assert [one["title"] for one in header["tracks"]] == ["得到的注意力（以均分为 1）", "突变：N 对数几率的变化，nat"]  # noqa: RUF001
    assert header["tracks"][0]["series"][0]["name"].startswith("宽 ")
    assert header["axis"]["title"] == "字母"
    assert any("池化，各头平均" in part.value for part in at.markdown)  # noqa: RUF001


def test_a_class_is_explained_in_the_readers_language_where_the_checkpoint_says_it_so(
    tmp_path: Path, shipped: Checkpoint
) -> None:
    assert shipped.task is not None
    best = classify(shipped, "ACGTTGCANGTGTCAGTTGACGT").predicted
    meaning = "the middle of it"
    for translations, chinese in (({"zh": {meaning: "正中"}}, "正中。"), ({}, "The middle of it。")):
        task = replace(
            shipped.task,
            meanings={shipped.task.classes[best]: meaning},
            landmarks=(),
            translations=translations,
        )
        save_folder(tmp_path / "small", "kmer", shipped.model, task=task, examples=(EXAMPLE,))
        assert fine(page(lang="zh")).text[0].value == chinese
        assert fine(page()).text[0].value == "The middle of it."


def test_an_example_is_one_click_away() -> None:
    at = fine(page())
    assert at.button(key="sequence-1").label == "second N"
    fine(at.button(key="sequence-1").click().run())
    assert at.text_area(key="sequence").value == ">second N\nACGTACGTACGT"


REFUSED = {
    "en": {
        ">only a header": "empty", "ACG": "widest window needs 5", "MKVLAAGEFPW": "looks like protein",
        "ACGT<script>alert(1)</script>": "letter 5", "ACGTACGT\x00": "letter 9", "مرحبا": "letter 1",
    },
    "zh": {">only a header": "序列是空的", "ACG": "最宽的窗口需要 5 个", "MKVLAAGEFPW": "这看起来是蛋白质"},
}  # fmt: skip


@pytest.mark.parametrize("lang", REFUSED)
def test_what_cannot_be_read_gets_a_sentence(lang: str) -> None:
    at = page(lang=lang)
    for text, says in REFUSED[lang].items():
        ran(at, sequence=text)
        assert says in at.warning[0].value.lower()
        assert not [part for part in at.get("bidi_component") if part.key == "tracks"]


def test_a_classifier_that_averages_its_windows_has_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shipped: Checkpoint
) -> None:
    mean = sequence_checkpoint(pooling="mean")
    save_folder(tmp_path / "shelf" / "mean", "kmer", mean.model, task=shipped.task, examples=(EXAMPLE,))
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path / "shelf")
    at = fine(page())
    assert [kind["layers"] for kind in sent(at, "record")[0]["kinds"]] == [["0", "1"]]
    assert not at.error
