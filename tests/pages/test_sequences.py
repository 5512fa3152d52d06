"""The page Sequences: one sequence and its heads, a gene and its sites; hostile input; looking never runs the model."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.classifiers import sequence_checkpoint
from tests.pages.opening import (
    ROOT,
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
    words_of,
)
from transformer import Checkpoint, load
from transformer.checkpoint.ours.folder import save_folder
from transformer.runs.measures import held_out
from transformer.runs.measures.held_out import HeldOut, Point
from transformer.runs.sequences.classify import classify, mutations
from transformer.sequences.alphabet import DNA
from transformer.sequences.tracks import folded
from ui.components.shared.mounting import REPORTED
from ui.sequences import gene, source
from ui.shared import record_views
from ui.store import session_resources

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


WIDTH, MARK = 23, 11
"""Letters of a window, and those of them before the GT of its donor."""

GENE = "".join(np.random.default_rng(3).choice(list("ACGT"), 157))
EXONS = "##gff-version 3\ng\tme\texon\t21\t40\t.\t+\t.\tParent=a\ng\tme\texon\t91\t120\t.\t+\t.\tParent=a\n"


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped classifiers, with a real gene."""
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", ROOT / "checkpoints")


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    """A checkpoint with random weights, of which only the donor has a landmark, stands in for the shipped ones."""
    one = sequence_checkpoint()
    save_folder(tmp_path / "small", "kmer", one.model, task=one.task)
    points = {"EI": (Point(0.9, 0.8, 0.1),), "IE": (Point(0.9, 0.8, 0.0),), "N": (Point(0.9, 0.8, 0.2),)}
    held_out.FILE.write(tmp_path / "small" / held_out.FILE.name, HeldOut(200, points))
    (tmp_path / "small" / source.GENES).write_text(f"{EXONS}##FASTA\n>g\n{GENE}\n")
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", tmp_path)
    return load(tmp_path / "small")


def test_the_track_and_the_sites_are_those_of_the_classifier(small, monkeypatch) -> None:
    monkeypatch.setattr(gene, "THRESHOLDS", (0.9, 0.3))
    exons, track = sent(silent(opened("sequences", least="0.3", letters="40-80")), gene.TRACK)[0]["tracks"]
    named = [[("exon a: 21-40", 21, 40), ("exon a: 91-120", 91, 120)]]
    assert [[(one["name"], one["first"], one["last"]) for one in group] for group in exons["boxes"]] == named
    assert track["ends"] == [0, 1]  # all exons lie on the strand that is given
    other = GENE[::-1]  # a sequence without exons
    at = silent(opened("sequences", sequence=f">h\n{other}", least="0.3", letters="40-80"))
    header, arrays = sent(at, gene.TRACK)
    assert header["axis"] == {"first": 40, "last": 80, "title": "letter of h", "letters": other[39:80]}
    (track,) = header["tracks"]
    assert (track["ends"], track["lines"]) == ([-1, 1], [0.3, -0.3])
    names = ["EI, donor GT", "IE", "N"]
    assert [one["name"] for one in track["series"]] == [f"{name} {sign}" for sign in "+-" for name in names]
    assert track["series"][3]["said"] == "EI, donor GT, other strand, one window"
    for column, offset in ((3, WIDTH - MARK), (4, WIDTH // 2 + 1)):  # from a window's start to the place of its class
        for place, value in zip(arrays[f"0.{column}.places"], arrays[f"0.{column}.values"], strict=True):
            part = other[place - offset : place - offset + WIDTH]
            found = classify(small, DNA.reverse_complement(part)).probabilities[column - 3]
            assert -value == pytest.approx(found, abs=1e-4)
    table = at.dataframe[0].value
    assert list(table["probability"]) == sorted(table["probability"], reverse=True)
    for _, row in table.iterrows():
        first, last = map(int, re.findall(r"\d+", row["window"].partition("(")[0]))
        part = other[first - 1 : last]
        run = classify(small, DNA.reverse_complement(part) if row["window"].endswith("(-)") else part)
        label = row["site"].partition(":")[0]
        assert row["probability"] == pytest.approx(run.probabilities[run.classes.index(label)], abs=1e-4)
        assert (row["letters"] == "GT") is (label == "EI")
    assert "about 100.0 false calls" in words_of(silent(opened("sequences", least="0.9")))


def test_a_shipped_gene_is_judged_by_its_exons_a_site_is_read_and_left_again(real: None) -> None:
    at = silent(opened("sequences"))
    assert "4 of 4 known sites** are found, as number 1, 2, 7, 14 of 15 hits" in said(at)
    exons, track = sent(at, gene.TRACK)[0]["tracks"]
    assert [len(group) for group in exons["boxes"]] == [3]
    assert (track["lines"], track["ends"]) == ([0.9], [0, 1])
    known = sorted(mark["place"] for mark in track["marks"] if mark["full"])
    assert known == [568, 697, 921, 1770]
    assert not any(mark["chosen"] for mark in track["marks"])
    table = at.dataframe[0].value
    assert sum(table["site"].str.contains("begins") & (table["exons say"] == "new")) == 8
    assert table["site"][0] == "intron ends at 1,770 (+)"
    assert list(table["exons say"]).count("known") == 4
    at = silent(opened("sequences", site="538-597(+)"))
    chosen = [mark["said"] for mark in sent(at, gene.TRACK)[0]["tracks"][1]["marks"] if mark["chosen"]]
    assert chosen == ["intron begins at 568 (+): 0.924"]
    silent(pressed(at, "open-window"))
    assert at.query_params["window"] == "538-597(+)"
    assert at.subheader[0].value == "EI, probability 0.924"
    axis = sent(at, "tracks")[0]["axis"]
    assert (axis["first"], axis["last"], axis["letters"][570 - 538]) == (538, 597, "T")
    back = next(one for one in at.button if one.label == "Back to HBB")
    silent(back.click().run())
    assert "window" not in at.query_params
    assert at.query_params["site"] == "538-597(+)"


def test_a_window_of_the_other_strand_keeps_its_letters_numbers(real: None) -> None:
    at = silent(opened("sequences", window="300-359(-)"))
    header, arrays = sent(at, "tracks")
    assert (header["axis"]["first"], header["axis"]["last"]) == (359, 300)
    assert list(arrays["0.0.places"]) == list(range(359, 299, -1))
    assert "no window of this sequence" in opened("sequences", window="300-3590(-)").warning[0].value


def test_a_change_is_answered_with_both_probabilities_and_a_wrong_one_with_a_sentence(real: None) -> None:
    at = silent(opened("sequences", variant="568 G>A, 677 G>A"))
    table = at.dataframe[0].value
    assert list(table["site"]) == ["intron begins at 568 (+)", "intron ends at 678 (+)"]
    assert list(table["before"].round(2)) == [0.92, 0.06]
    assert list(table["after"].round(2)) == [0.09, 0.94] or list(table["after"].round(2)) == [0.09, 0.95]
    assert list(table["letters"]) == ["GT → AT", "GG → AG"]
    arrows = sent(at, gene.TRACK)[0]["tracks"][1]["arrows"]
    assert [(one["place"], one["said"][:6]) for one in arrows] == [(568, "568 G>"), (678, "677 G>")]
    assert [round(arrows[0][when], 2) for when in ("before", "after")] == [0.92, 0.09]
    at = opened("sequences", variant="1769 A>G")
    assert "cells need AG" in at.warning[0].value
    at = opened("sequences", variant="568 C>A")
    assert "the sequence has G there" in at.error[0].value
    assert sent(at, gene.TRACK)


def test_dropped_files_bring_a_sequence_its_exons_and_changes(small) -> None:
    at = silent(opened("sequences"))
    exons = EXONS.replace("g\tme", "other\tme")
    after = "A" if GENE[41] != "A" else "C"
    changes = f"##fileformat=VCFv4.3\n#CHROM\tPOS\tID\tREF\tALT\nother\t43\t.\t{GENE[41]}\t{after}\n"
    files = [("o.fa", f">other\nA{GENE}\n"), ("o.gff", exons), ("o.vcf", changes)]
    uploader = at.file_uploader(key=source.UPLOADED)
    silent(uploader.set_value([(name, text.encode(), "text/plain") for name, text in files]).run())
    header, _ = sent(at, gene.TRACK)
    assert header["axis"]["title"] == "letter of other"
    assert [one["first"] for one in header["tracks"][0]["boxes"][0]] == [21, 91]
    assert at.dataframe[0].value["change"][0].startswith("43 ")
    assert at.query_params[source.DROPPED] == "1"
    assert "drop it again" in opened("sequences", dropped="1").warning[0].value


def test_a_long_scan_says_what_it_costs_waits_shows_what_is_read_and_can_be_stopped(small, monkeypatch) -> None:
    monkeypatch.setattr(gene, "AT_ONCE", 50)
    monkeypatch.setattr("transformer.runs.sequences.scan.BLOCK", 40)
    at = silent(opened("sequences", sequence=f">x\n{GENE}"))
    assert f"{len(GENE) - WIDTH + 1:,} windows are to be read" in at.info[0].value
    assert not [part for part in at.get("bidi_component") if part.key == gene.TRACK]
    (held,) = at.session_state[session_resources.STATE].results[gene.JOB].values.values()
    held.start()
    held.advance(0.0)
    held.cancel()
    silent(at.run())
    assert f"Stopped by you after {held.done / held.total:.0%} of the letters" in said(at)
    assert sent(at, gene.TRACK)


def test_what_is_unlike_the_training_data_is_said_before_the_class(small) -> None:
    at = opened("sequences", sequence="N" * WIDTH)
    assert not at.exception
    assert "100% of the letters are unknown" in at.warning[0].value
