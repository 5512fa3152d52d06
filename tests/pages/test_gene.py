"""The page Sequences with a gene: its track and sites, a window that is read, changes, dropped files, a long scan."""

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from heedmap import Checkpoint, load
from heedmap.checkpoint.ours.folder import save_folder
from heedmap.runs.measures import held_out
from heedmap.runs.measures.held_out import HeldOut, Point
from heedmap.runs.sequences.classify import classify
from heedmap.sequences.alphabet import DNA
from tests.classifiers import sequence_checkpoint
from tests.pages.opening import ROOT, opened, pressed, said, sent, silent, words_of
from ui.sequences import gene, source
from ui.store import session_resources

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
    held_out.FILE.write(
        tmp_path / "small" / held_out.FILE.name, HeldOut("some rows", 600, {"EI": 200, "IE": 235, "N": 165}, points)
    )
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
    silent(dropped(at, o_fa=f">other\nA{GENE}\n", o_gff=exons, o_vcf=changes))
    header, _ = sent(at, gene.TRACK)
    assert header["axis"]["title"] == "letter of other"
    assert [one["first"] for one in header["tracks"][0]["boxes"][0]] == [21, 91]
    assert at.dataframe[0].value["change"][0].startswith("43 ")
    assert at.query_params[source.DROPPED] == "1"
    assert "drop it again" in opened("sequences", dropped="1").warning[0].value


def dropped(at, **files: str | bytes):
    """The page once these files were dropped: `_` in their names stands for a dot; bytes are packed."""
    data = {name: text if isinstance(text, bytes) else text.encode() for name, text in files.items()}
    at.file_uploader(key=source.UPLOADED).set_value([(name.replace("_", "."), data[name], "") for name in data]).run()
    assert not at.exception
    return at


def test_exons_of_a_genome_beside_a_piece_of_it_ask_where_it_lies_and_are_then_drawn_there(small) -> None:
    """Nothing breaks where all exons lie beyond the letters; the header, or the reader, says where they are."""
    far = EXONS.replace("g\tme", "chr5\tme").replace("\t21\t40", "\t5021\t5040").replace("\t91\t120", "\t5091\t5120")
    at = dropped(opened("sequences"), p_fa=f">chr5\n{GENE[::-1]}\n", p_gff3=far)
    assert "2 of 2 exons lie beyond the 157 letters of the sequence, at 5,021 to 5,120" in at.warning[0].value
    assert len(sent(at, gene.TRACK)[0]["tracks"]) == 1
    silent(at.text_input(key=source.LIES).set_value("5,001").run())
    boxes = sent(at, gene.TRACK)[0]["tracks"][0]["boxes"]
    assert [(one["first"], one["last"]) for one in boxes[0]] == [(21, 40), (91, 120)]
    assert "is no place of 157 letters" in at.text_input(key=source.LIES).set_value("x").run().warning[0].value
    at = dropped(opened("sequences"), p_fa=f">chr5:c5187-5031 x\n{GENE[::-1]}\n", p_gff3=far)
    assert at.warning[0].value.startswith("1 of 2 exons lie outside of chr5")
    boxes = sent(at, gene.TRACK)[0]["tracks"][0]["boxes"]
    assert [(one["first"], one["last"]) for one in boxes[0]] == [(68, 97), (148, 157)]  # the last one is cut short
    assert at.text_input(key=source.LIES).value == "chr5:5031-5187(-)"


def test_what_of_dropped_files_is_not_used_is_said_and_all_else_is(small, monkeypatch) -> None:
    """Names that do not match, packed and marked files, records of a VCF that cannot be computed, and too many."""
    after = "A" if GENE[41] != "A" else "C"
    head = "\ufeff##fileformat=VCFv4.2\n"
    good, bad = f"chr5\t42\t.\t{GENE[41]}\t{after}\n", "".join(f"chr5\t{i}\t.\tA\t<DEL>\n" for i in range(13))
    files = dict(p_fa=f">chr5\n{GENE}A\n", p_gff3=EXONS.replace("g\tme", "5\tme"))
    at = dropped(opened("sequences"), **files, p_vcf=f"{head}{bad}{good}9{good[4:]}")
    exons_said, changes_said = (one.value for one in at.warning)
    assert re.search("0 of 1 names match the sequence.*2 lines; if it is chr5", exons_said)
    assert changes_said.count("names no letters") == 10
    assert re.search("(?s)and 3 more.*1 of 2 names match", changes_said)
    assert at.dataframe[0].value["change"][0] == f"42 {GENE[41]}>{after}"
    monkeypatch.setattr(gene, "MOST_ASKED", 2)
    packed, exons = (gzip.compress(text.encode()) for text in (head + 5 * good, EXONS))
    at = dropped(at, a_fa=f">chr5\n{GENE}A", a_vcf_gz=packed, a_gff_gz=exons)
    assert "he first 2 of 5 changes are computed" in said(at)
    assert "0 of 1 names match" in at.warning[0].value
    at = dropped(at, p_fa=f">chr5\n{GENE[:WIDTH]}", p_vcf=head + good)
    assert at.warning[0].value.startswith("Exons and changes were not used: they are for sequences of 35 letters")
    at = dropped(at, p_fa=f">chr5\n{GENE}A", p_bed="chr5\tx\ty\n")
    assert "o exons can be read; line 1" in at.warning[0].value


def test_a_part_of_a_scan_is_not_judged(small, monkeypatch) -> None:
    monkeypatch.setattr(gene, "THRESHOLDS", (0.9, 0.3))
    assert "2 known sites** are found" in said(silent(opened("sequences", least="0.3")))
    monkeypatch.setattr("heedmap.runs.sequences.scan.BLOCK", 40)
    monkeypatch.setattr(gene, "AT_ONCE", 50)
    monkeypatch.setattr(gene, "WHOLE", "part")
    at = silent(opened("sequences", least="0.3"))
    (held,) = at.session_state[session_resources.STATE].results[gene.JOB].values.values()
    held.start()
    held.advance(0.0)
    held.cancel()
    text = said(silent(at.run()))
    assert " a kilobase and strand" in text
    assert "known sites** are found" not in text
    assert "not held against known sites" in text


def test_a_long_scan_says_what_it_costs_waits_shows_what_is_read_and_can_be_stopped(small, monkeypatch) -> None:
    monkeypatch.setattr(gene, "AT_ONCE", 50)
    monkeypatch.setattr("heedmap.runs.sequences.scan.BLOCK", 40)
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
    assert "100% of the letters are unknown" in at.warning[0].value
