"""Sequences, *Scan* and *A file*: every number is the classifier's own, and a row opens what it says."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.classifiers import sequence_checkpoint
from tests.pages.opening import opened
from transformer import Checkpoint, load
from transformer.checkpoint.ours.folder import save_folder
from transformer.plots.scan import ScanPicture, scan_track
from transformer.runs.sequences import held_out
from transformer.runs.sequences.classify import classify
from transformer.runs.sequences.held_out import HeldOut, Point
from transformer.sequences.alphabet import DNA
from ui.sequences import scan
from ui.store import session_resources

SET = "".join(f">s{i} {'EI' if i % 2 else 'N'}\n{'ACGTTGCAAGTGTCAGTTGACG'[i:]}{'ACGTTGCA'[:i]}\n" for i in range(8))
JOINED = "".join(line for line in SET.split("\n") if not line.startswith(">"))
WIDTH = 23
LIKE = "ACGTTGCANGTGTCAGTTGACGT"


@pytest.fixture(autouse=True)
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    """A small checkpoint, whose held-out rows were measured, stands in for the shipped ones."""
    small = sequence_checkpoint()
    save_folder(
        tmp_path / "small", "kmer", small.model, task=small.task, examples=(">first EI\nACGTTGCANGTGTCAGTTGACGT",)
    )
    (tmp_path / "small" / "examples.fa").write_text(SET)
    points = {
        name: (Point(0.3, 0.8, false), Point(0.9, 0.4, 0.05)) for name, false in (("EI", 0.1), ("IE", 0.0), ("N", 0.2))
    }
    held_out.write_held_out(tmp_path / "small" / held_out.FILE, HeldOut(200, points, (0.2, 0.8), 2.0, 0.03))
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    return load(tmp_path / "small")


def fine(at: AppTest) -> AppTest:
    assert not at.exception
    assert not at.error
    return at


def captions(at: AppTest) -> str:
    return " ".join(caption.value for caption in at.caption)


def finished(at: AppTest) -> AppTest:
    for _ in range(30):
        if re.search("windows? (were|was) read", captions(fine(at))):
            return at
        at.run()
    raise AssertionError(captions(at))


def test_the_track_the_hits_and_their_errors_are_those_of_the_classifier(shipped, monkeypatch) -> None:
    monkeypatch.setattr(scan, "THRESHOLDS", (0.5, 0.3))
    drawn = list[ScanPicture]()

    def seen(picture: ScanPicture, **options: Any) -> Any:
        drawn.append(picture)
        return scan_track(picture, **options)

    monkeypatch.setattr(scan, "scan_track", seen)
    at = finished(opened("sequences", read="scan", strands="other", least="0.3", **{"from": "30", "to": "60"}))
    picture = drawn[-1]
    assert picture.signs == "-"
    assert picture.classes == ("EI", "IE", "N")
    for at_letter, values in zip(picture.positions, picture.values[0].T, strict=True):
        first = at_letter - 1 - WIDTH // 2
        expected = classify(shipped, DNA.reverse_complement(JOINED[first : first + WIDTH])).probabilities
        np.testing.assert_allclose(values, expected, atol=1e-4)
    assert picture.letters == JOINED[picture.positions[0] - 1 : picture.positions[-1]]
    assert (picture.positions[0], picture.positions[-1]) == (30, 60)
    windows = len(JOINED) - WIDTH + 1
    assert f"{windows:,} windows were read" in captions(at)
    assert "EI from 0.3: of 200 held-out rows, 80.0% of this class are found and 10.00%" in captions(at)
    assert f"about {0.1 * windows:,.0f} of them would reach the threshold by mistake" in captions(at)
    assert "IE from 0.3: of 200 held-out rows, 80.0% of this class are found and none of the others" in captions(at)
    table = at.dataframe[0].value
    for _, row in table.iterrows():
        part = DNA.reverse_complement(JOINED[row["first letter"] - 1 : row["last letter"]])
        found = classify(shipped, part)
        assert row["probability"] == pytest.approx(found.probabilities[found.classes.index(row["class"])], abs=1e-4)
    fine(at.button(key="scan_whole").click().run())
    assert (drawn[-1].positions[0], drawn[-1].positions[-1]) == (WIDTH // 2 + 1, windows + WIDTH // 2)


def test_a_long_scan_says_what_it_costs_waits_and_can_be_stopped(monkeypatch) -> None:
    monkeypatch.setattr(scan, "AT_ONCE", 50)
    monkeypatch.setattr(scan, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr("transformer.runs.sequences.scan.BLOCK", 40)
    at = fine(opened("sequences", read="scan"))
    assert f"{2 * (len(JOINED) - WIDTH + 1):,} windows are to be read" in at.info[0].value
    assert not at.get("plotly_chart")
    (held,) = at.session_state[session_resources.STATE].results[scan.JOB]._values.values()
    held.work.start()
    held.work.advance(0.0, held.track.add)
    held.work.cancel()
    fine(at.run())
    assert f"Stopped by you after {2 * 40} of" in captions(at)
    assert at.get("plotly_chart")


def test_a_labelled_file_is_scored_other_lengths_are_marked(shipped) -> None:
    at = fine(opened("sequences", read="file"))
    texts = {"a": "ACGTTGCANGTGTCAGTTGACGT", "b": "TTGACGTTGCACGTGTCAGTTGA", "c": "ACGTACGT"}
    fasta = f">a EI\n{texts['a']}\n>b label=N\n{texts['b']}\n>c\n{texts['c']}\n>d IE\nAC!\n>e\n{'N' * WIDTH}\n"
    fine(at.file_uploader(key="fasta").upload("some.fa", fasta.encode()).run())
    table = at.dataframe[0].value.set_index("id")
    found = {name: classify(shipped, text) for name, text in texts.items()}
    for name, run in found.items():
        assert table.loc[name, "predicted"] == run.classes[run.predicted]
    assert list(table["label"]) == ["EI", "N", "", "IE", ""]
    assert "100% of its letters are unknown" in table.loc["e", "unlike"]
    assert table.loc["a", "unlike"] == table.loc["d", "unlike"] == ""
    assert table.loc["c", "length"] == "trained on 23 letters: means little"
    assert table.loc["a", "length"] == table.loc["b", "length"] == ""
    assert "letter 3" in table.loc["d", "problem"]
    right = sum(found[name].classes[found[name].predicted] == label for name, label in (("a", "EI"), ("b", "N")))
    assert at.metric[0].value == f"{right / 2:.3f}"
    assert "2 of 5 records name a class" in " ".join(one.value for one in at.markdown)
    called = {run.predicted for name, run in found.items() if name != "c"}
    assert (at.metric[1].value == "-") is (len(called) == 1)  # no correlation with what never varies
    one_class = f">a EI\n{texts['a']}\n>b EI\n{texts['b']}\n".encode()
    confusion = at.dataframe[1].value
    fine(at.file_uploader(key="fasta").upload("one.fa", one_class).run())
    assert at.metric[1].value == "-"
    assert confusion.loc["is EI"].iloc[:3].sum() == confusion.loc["is N"].iloc[:3].sum() == 1


def test_windows_that_are_not_judged_are_counted_and_not_expected_to_err() -> None:
    at = opened("sequences", read="scan", strands="given", least="0.9")
    some = f">some\n{LIKE * 2}{'N' * 30}\n".encode()
    at = finished(at.file_uploader(key="scan-fasta").upload("some.fa", some).run())
    text, read = LIKE * 2 + "N" * 30, 2 * WIDTH + 30 - WIDTH + 1
    unjudged = sum(text[i : i + WIDTH].count("N") > 0.1 * WIDTH for i in range(read))
    assert f"{unjudged} windows hold more than 10% unknown letters" in captions(at)
    assert f"Were none of the {read - unjudged} windows a site" in captions(at)
    none = f">none\n{'N' * WIDTH}\n".encode()
    at = finished(at.file_uploader(key="scan-fasta").upload("none.fa", none).run())
    assert "1 window holds more than 10% unknown letters, and is not judged" in captions(at)
    assert "a site" not in captions(at)


def test_what_is_unlike_the_training_data_is_said_before_the_class() -> None:
    at = opened("sequences", sequence="N" * WIDTH)
    assert not at.exception
    assert "100% of its letters are unknown" in at.warning[0].value
    at = fine(opened("sequences", sequence=LIKE))
    assert not at.warning
