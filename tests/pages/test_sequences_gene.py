"""Sequences longer than those trained on: the track, its sites, changes, one window and the way back."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.classifiers import sequence_checkpoint
from tests.pages.opening import figure, opened
from transformer import Checkpoint, load
from transformer.checkpoint.ours.folder import save_folder
from transformer.plots.scan import ScanPicture, scan_track
from transformer.runs.sequences import held_out
from transformer.runs.sequences.classify import classify
from transformer.runs.sequences.held_out import HeldOut, Point
from transformer.sequences.alphabet import DNA
from ui.sequences import gene, source
from ui.store import session_resources

WIDTH, MARK = 23, 11
"""Letters of a window, and those of them before the GT of its donor."""

GENE = "".join(np.random.default_rng(3).choice(list("ACGT"), 157))
EXONS = "##gff-version 3\ng\tme\texon\t21\t40\t.\t+\t.\tParent=a\ng\tme\texon\t91\t120\t.\t+\t.\tParent=a\n"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    """A checkpoint with random weights, of which only the donor has a landmark, stands in for the shipped ones."""
    one = sequence_checkpoint()
    save_folder(tmp_path / "small", "kmer", one.model, task=one.task)
    points = {"EI": (Point(0.9, 0.8, 0.1),), "IE": (Point(0.9, 0.8, 0.0),), "N": (Point(0.9, 0.8, 0.2),)}
    held_out.write_held_out(tmp_path / "small" / held_out.FILE, HeldOut(200, points))
    (tmp_path / "small" / source.GENES).write_text(f"{EXONS}##FASTA\n>g\n{GENE}\n")
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    return load(tmp_path / "small")


def fine(at: AppTest) -> AppTest:
    assert not at.exception
    assert not at.error
    assert not at.warning
    return at


def said(at: AppTest) -> str:
    return " ".join(one.value for one in (*at.caption, *at.markdown))


def test_the_track_and_the_sites_are_those_of_the_classifier(small, monkeypatch) -> None:
    drawn = list[ScanPicture]()

    def seen(picture: ScanPicture, **options: Any) -> Any:
        drawn.append(picture)
        return scan_track(picture, **options)

    monkeypatch.setattr(gene, "scan_track", seen)
    monkeypatch.setattr(gene, "THRESHOLDS", (0.9, 0.3))
    at = fine(opened("sequences", strands="other", least="0.3", letters="40-80"))
    picture = drawn[-1]
    assert (picture.signs, picture.classes, picture.shown) == ("-", ["EI, donor GT", "IE", "N"], (40, 80))
    assert picture.letters == GENE[39:80]
    assert [(one.name, list(one.exons)) for one in picture.genes] == [("a", [(21, 40), (91, 120)])]
    for column, offset in ((0, WIDTH - MARK), (1, WIDTH // 2 + 1)):  # from a window's start to the place of its class
        for place, value in zip(picture.places[0, column], picture.values[0, column], strict=True):
            part = GENE[place - offset : place - offset + WIDTH]
            assert value == pytest.approx(classify(small, DNA.reverse_complement(part)).probabilities[column], abs=1e-4)
    table = at.dataframe[0].value
    assert list(table["probability"]) == sorted(table["probability"], reverse=True)
    for _, row in table.iterrows():
        first, last = map(int, re.findall(r"\d+", row["window"]))
        run = classify(small, DNA.reverse_complement(GENE[first - 1 : last]))
        label = row["site"].partition(":")[0]
        assert row["probability"] == pytest.approx(run.probabilities[run.classes.index(label)], abs=1e-4)
        assert (row["letters"] == "GT") is (label == "EI")
    assert "about 100.0 false calls" in said(fine(opened("sequences", least="0.9")))


def test_a_shipped_gene_is_judged_by_its_exons_a_site_is_read_and_left_again() -> None:
    at = fine(opened("sequences"))
    assert "4 of 4 known sites** are found, as number 1, 2, 7, 14 of 15 hits" in said(at)
    assert len(figure(at)["layout"]["shapes"]) == 1 + 1 + 3  # the threshold, the introns' line, three exons
    titles = [figure(at, number)["layout"]["title"]["text"] for number in (1, 2)]
    assert titles == ["60 examples of EI", "8 new hits of EI here"]
    table = at.dataframe[0].value
    assert sum(table["site"].str.contains("begins") & (table["exons say"] == "new")) == 8
    assert table["site"][0] == "intron ends at 1,770 (+)"
    assert list(table["exons say"]).count("known") == 4
    at = fine(opened("sequences", site="538-597(+)"))
    fine(at.button(key="open-window").click().run())
    assert at.query_params["window"] == "538-597(+)"
    assert at.subheader[0].value == "EI, probability 0.924"
    axis = figure(at)["layout"]["xaxis"]
    assert [text for text in axis["ticktext"] if "570" in text] == ["T<br>570"]
    assert axis["ticktext"].index("T<br>570") == 570 - 538
    back = next(one for one in at.button if one.label == "Back to HBB")
    fine(back.click().run())
    assert "window" not in at.query_params
    assert at.query_params["site"] == "538-597(+)"


def test_a_window_of_the_other_strand_keeps_its_letters_numbers() -> None:
    at = fine(opened("sequences", window="300-359(-)"))
    ticks = figure(at)["layout"]["xaxis"]["ticktext"]
    assert ticks[0].endswith("<br>359")
    assert ticks.index(next(text for text in ticks if text.endswith("310"))) == 359 - 310
    assert "no window of this sequence" in opened("sequences", window="300-3590(-)").warning[0].value


def test_a_change_is_answered_with_both_probabilities_and_a_wrong_one_with_a_sentence() -> None:
    at = fine(opened("sequences", variant="568 G>A, 677 G>A"))
    table = at.dataframe[0].value
    assert list(table["site"]) == ["intron begins at 568 (+)", "intron ends at 678 (+)"]
    assert list(table["before"].round(2)) == [0.92, 0.06]
    assert list(table["after"].round(2)) == [0.09, 0.94] or list(table["after"].round(2)) == [0.09, 0.95]
    assert list(table["letters"]) == ["GT → AT", "GG → AG"]
    assert len([one for one in figure(at)["layout"]["annotations"] if one.get("arrowhead")]) == 2
    at = opened("sequences", variant="1769 A>G")
    assert "cells need AG" in at.warning[0].value
    at = opened("sequences", variant="568 C>A")
    assert "the sequence has G there" in at.error[0].value
    assert at.get("plotly_chart")


def test_dropped_files_bring_a_sequence_its_exons_and_changes(small) -> None:
    at = fine(opened("sequences"))
    exons = EXONS.replace("g\tme", "other\tme")
    after = "A" if GENE[41] != "A" else "C"
    changes = f"##fileformat=VCFv4.3\n#CHROM\tPOS\tID\tREF\tALT\nother\t43\t.\t{GENE[41]}\t{after}\n"
    files = [("o.fa", f">other\nA{GENE}\n"), ("o.gff", exons), ("o.vcf", changes)]
    uploader = at.file_uploader(key=source.UPLOADED)
    fine(uploader.set_value([(name, text.encode(), "text/plain") for name, text in files]).run())
    assert figure(at)["layout"]["xaxis"]["title"]["text"] == "letter of other"
    assert [shape["x0"] for shape in figure(at)["layout"]["shapes"] if shape["type"] == "rect"] == [20.5, 90.5]
    assert at.dataframe[0].value["change"][0].startswith("43 ")
    assert at.query_params[source.DROPPED] == "1"
    assert "drop it again" in opened("sequences", dropped="1").warning[0].value


def test_a_long_scan_says_what_it_costs_waits_shows_what_is_read_and_can_be_stopped(small, monkeypatch) -> None:
    monkeypatch.setattr(gene, "AT_ONCE", 50)
    monkeypatch.setattr("transformer.runs.sequences.scan.BLOCK", 40)
    at = fine(opened("sequences", sequence=f">x\n{GENE}"))
    assert f"{len(GENE) - WIDTH + 1:,} windows are to be read" in at.info[0].value
    assert not at.get("plotly_chart")
    (held,) = at.session_state[session_resources.STATE].results[gene.JOB]._values.values()
    held.start()
    held.advance(0.0)
    held.cancel()
    fine(at.run())
    assert f"Stopped by you after {held.done / held.total:.0%} of the letters" in said(at)
    assert at.get("plotly_chart")


def test_what_is_unlike_the_training_data_is_said_before_the_class(small) -> None:
    at = opened("sequences", sequence="N" * WIDTH)
    assert not at.exception
    assert "100% of the letters are unknown" in at.warning[0].value
