"""The page Sequences: one sequence and its heads; hostile input; looking never runs the model."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from heedmap import Checkpoint, load
from heedmap.checkpoint.ours.folder import save_folder
from heedmap.runs.sequences.classify import classify, mutations
from heedmap.sequences.tracks import folded
from tests.classifiers import sequence_checkpoint
from tests.pages.opening import (
    gone,
    is_whole,
    moved,
    opened,
    options,
    pressed,
    put,
    ran,
    record_sent,
    said,
    sent,
    silent,
    told,
)
from ui.components.shared.mounting import REPORTED
from ui.shared import record_views

SEQUENCE = "ACGTTGCANGTGTCAGTTGACGT"
EXAMPLE = f">first EI\n{SEQUENCE}"
SET = "".join(f">s{i} {'EI' if i % 2 else 'N'}\n{'ACGTTGCAAGTGTCAGTTGACG'[i:]}{'ACGTTGCA'[:i]}\n" for i in range(8))


@pytest.fixture(autouse=True)
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    """A small checkpoint stands in for the shipped ones."""
    small = sequence_checkpoint()
    save_folder(tmp_path / "small", "kmer", small.model, task=small.task, examples=(EXAMPLE, ">second N\nACGTACGTACGT"))
    (tmp_path / "small" / "examples.fa").write_text(SET)
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", tmp_path)
    return load(tmp_path / "small")


def page(**address: str) -> AppTest:
    return opened("sequences", **address)


def test_first_paint_is_an_example_with_its_class_and_tracks(shipped: Checkpoint) -> None:
    at = silent(page())
    run = classify(shipped, SEQUENCE)
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
    for part in ("the header says EI", "N (1; any of A, C, G, T)", "Spearman"):
        assert part in said(at)


def test_all_heads_are_thumbnails_of_the_record(shipped: Checkpoint) -> None:
    _, arrays = sent(silent(page()), "sequence-heads")
    run = classify(shipped, SEQUENCE)
    expected = run.record["encoder.1.self"].overview(2, 64)
    codes = arrays["codes"].reshape(3, 3, 40, 40)
    np.testing.assert_allclose(codes[1, 2] / 254, expected, atol=0.01)
    pooled = np.repeat(run.record["pooling"].overview(2, 64), 40, axis=0)  # the decision, over the whole height
    np.testing.assert_allclose(codes[2, 2] / 254, pooled, atol=0.01)


def test_looking_around_never_runs_the_model(passes: list[str]) -> None:
    at = silent(page())
    ran = len(passes)
    for key, value in (("layer", "0"), ("head", "2"), ("layer", None), ("head", None)):
        at = gone(at, **{key: value})
    assert len(passes) == ran


def test_another_checkpoint_brings_its_own_example_but_keeps_what_was_typed(tmp_path: Path) -> None:
    other = sequence_checkpoint(seed=1)
    save_folder(tmp_path / "wide", "kmer", other.model, task=other.task, examples=(">other N\nGGGGGCCCCC",))
    at = silent(page())
    assert put(at, model="wide").text_area(key="sequence").value == ">other N\nGGGGGCCCCC"
    ran(at, sequence="ACGTACGTTT")
    assert silent(put(at, model="small")).text_area(key="sequence").value == "ACGTACGTTT"


def test_the_address_holds_what_can_be_run_and_nothing_longer() -> None:
    at = page()
    for text, held in ((f">{'x' * 8_000}\n{'ACGT' * 20}", True), (f">{'x' * 8_200}\n{'ACGT' * 20}", False)):
        assert ("sequence" in ran(at, sequence=text).query_params) is held


def test_a_class_is_explained_in_the_readers_language_where_the_checkpoint_says_it_so(
    tmp_path: Path, shipped: Checkpoint
) -> None:
    assert shipped.task is not None
    best = classify(shipped, SEQUENCE).predicted
    meaning = "the middle of it"
    for translations, chinese in (({"zh": {meaning: "正中"}}, "正中。"), ({}, "The middle of it。")):
        meanings = {shipped.task.classes[best]: meaning}
        task = replace(shipped.task, meanings=meanings, landmarks=(), translations=translations)
        save_folder(tmp_path / "small", "kmer", shipped.model, task=task, examples=(EXAMPLE,))
        assert silent(page(lang="zh")).text[0].value == chinese
        assert silent(page()).text[0].value == "The middle of it."


def test_an_example_is_one_click_away() -> None:
    at = silent(page())
    assert at.button(key="sequence-1").label == "second N"
    assert pressed(at, "sequence-1").text_area(key="sequence").value == ">second N\nACGTACGTACGT"


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
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", tmp_path / "shelf")
    at = silent(page())
    assert [kind["layers"] for kind in sent(at, "record")[0]["kinds"]] == [["0", "1"]]
    assert not at.error


def test_known_letters_are_boxed_only_where_they_stand() -> None:
    at = silent(page())
    assert sent(at, "tracks")[0]["spans"] == [{"first": 12, "last": 13, "name": "donor GT"}]
    assert not sent(silent(ran(at, sequence="ACGTTGCANGTACCAGTTGACGT")), "tracks")[0]["spans"]
    assert "Not as known: donor GT (from letter 12, AC stands there)." in said(at)


def test_one_of_several_pasted_records_is_chosen_and_stands_in_the_address(shipped: Checkpoint) -> None:
    text = ">a\nACGTACGTTT\n>b EI\nGGGTTTACGACG\n>c\nTTTACGCCC\n"
    at = silent(page(sequence=text, pasted="2"))
    run = classify(shipped, "GGGTTTACGACG")
    assert at.subheader[0].value == f"{run.classes[run.predicted]}, probability {run.probabilities.max():.3f}"
    assert at.selectbox(key="pasted").options == ["1: a (10)", "2: b (12)", "3: c (9)"]
    assert "9 letters" in said(put(at, pasted="3"))
    assert at.query_params["pasted"] == "3"
    silent(ran(at, sequence=">d\nACGTACGTA\n>e\nGGGTTTACGACG"))
    assert at.selectbox(key="pasted").value == "1"
    assert "pasted" not in at.query_params


def test_probabilities_are_called_calibrated_only_where_they_are(tmp_path: Path) -> None:
    """One temperature was fitted, for sequences of the length that was trained on, which is 23."""
    plain = sequence_checkpoint()
    assert plain.task is not None
    save_folder(tmp_path / "plain", "kmer", plain.model, task=replace(plain.task, temperature=1.0))

    for model, sequence, part in (
        ("small", SEQUENCE, "calibrated by one temperature"),
        ("small", SEQUENCE[:12], "Nothing says that these probabilities are calibrated"),
        ("plain", SEQUENCE, "Nothing says that these probabilities are calibrated"),
    ):
        at = silent(page(model=model, sequence=sequence))
        assert part in f"{at.subheader[0].help} {said(at)}"


def test_all_heads_over_windows_are_sent_once_with_what_the_address_calls_them(shipped: Checkpoint) -> None:
    at = silent(page(view="windows"))
    run = classify(shipped, SEQUENCE)
    found = record_sent(at)
    assert {name: kind["layers"] for name, (kind, _) in found.items()} == {
        "encoder.self": ["0", "1"],
        "pooling": ["pooling"],
    }
    for kind, weights in found.values():
        for layer, site in enumerate(kind["sites"]):
            expected = [run.record[site].weights(head) for head in range(run.record[site].n_heads)]
            np.testing.assert_array_equal(weights[layer], np.float32(expected))
    assert sent(at, "record")[0]["usual"] == {"kind": 1, "layer": 0, "head": None}
    axes = sent(at, "windows")[0]["axes"]
    first = next(i for i, span in enumerate(run.spans) if span.width != run.spans[0].width)
    assert (axes["encoder.self"]["edges"], axes["pooling"]["edges"]) == ([[first], [first]], [[], [first]])
    assert not options(at, "sequence-head-choice")["asks"]  # nothing here follows a choice but what the browser draws
    assert options(silent(page()), "sequence-head-choice")["asks"]  # letters do, and the server draws them


@pytest.mark.parametrize(
    ("asked", "drawn"),
    [
        ({}, ["pooling", 0, None]),
        ({"layer": "pooling", "head": "mean"}, ["pooling", 0, None]),
        ({"layer": "0", "head": "2"}, ["encoder.self", 0, 2]),
        ({"layer": "7", "head": "x"}, ["pooling", 0, None]),
    ],
)
def test_addresses_mean_what_they_say_and_wrong_ones_the_default(asked: dict[str, str], drawn: list[object]) -> None:
    at = silent(page(view="windows", sequence="ACGTACGTACGTTT", **asked))
    assert options(at, "sequence-head-choice")["drawn"] == drawn
    assert at.text_area(key="sequence").value == "ACGTACGTACGTTT"


def test_a_choice_that_the_server_draws_runs_its_part_alone_once_its_work_is_done(passes: list[str]) -> None:
    at = page()  # the run that computes effects, which a button stops, is the page's own
    assert is_whole(at)
    assert passes
    at = silent(at.run())
    ran = len(passes)
    at.session_state[REPORTED] = {"layer": "1"}
    at = moved(at, "view")
    assert not is_whole(at)
    assert not at.text_area
    assert options(at, "sequence-head-choice")["drawn"] == ["encoder.self", 1, None]
    assert "encoder.1.self, mean" in said(at)
    assert len(passes) == ran
    at = silent(at.run())
    target = next(one for one in at.button_group if (one.key or "").startswith("target-"))
    target.set_value(next(name for name in target.options if name != target.value))
    assert is_whole(moved(at, target.key))  # the effects on another class are work that a button stops
    assert len(passes) > ran


def test_of_records_that_are_too_large_the_chosen_site_is_sent(
    shipped: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = classify(shipped, SEQUENCE).record
    size = 4 * sum(one.n_heads * one.shape[0] * one.shape[1] for one in record.values())
    monkeypatch.setattr(record_views, "MOST_BYTES", size - 1)
    at = silent(page(view="windows", layer="0", head="2", relative="true"))
    found = record_sent(at)
    assert (found["encoder.self"][0]["there"], found["pooling"][0]["there"]) == ([0], [])
    np.testing.assert_array_equal(found["encoder.self"][1][0, 2], np.float32(record["encoder.0.self"].weights(2)))
    assert options(at, "sequence-head-choice")["asks"]
    assert record_sent(told(at, layer="pooling"))["pooling"][1].shape[0] == 1
