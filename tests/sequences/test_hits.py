"""Hits: the likeliest window of its neighbourhood, the site in it, and the lines that genome browsers read."""

import io

import numpy as np
import pytest
from BCBio import GFF
from Bio import Align
from Bio.Seq import Seq

from transformer.sequences.alphabet import DNA
from transformer.sequences.hits import GFF3_START, Hit, bed, gff3, peaks, site_of, with_weaker
from transformer.sequences.task import Landmark, SequenceTask

TASK = SequenceTask(DNA, ("EI", "a/b c", "N"), 20, landmarks=(Landmark("EI", 11, "GTA", "donor"),), background="N")


def suppressed(starts: np.ndarray, values: np.ndarray, threshold: float, apart: int) -> list[tuple[int, float]]:
    """Non-maximum suppression as its definition says: take the likeliest that is left, drop all that are near."""
    left = {int(start): float(value) for start, value in zip(starts, values, strict=True) if value >= threshold}
    kept = {}
    while left:
        best = min(left, key=lambda start: (-left[start], start))
        kept[best] = left[best]
        left = {start: value for start, value in left.items() if abs(start - best) >= apart}
    return sorted(kept.items())


@pytest.mark.parametrize(("step", "apart", "threshold"), [(1, 10, 0.5), (3, 13, 0.7), (7, 8, 0.2)])
def test_peaks_are_what_suppression_leaves_in_any_order(step, apart, threshold) -> None:
    generator = np.random.default_rng(step)
    values = generator.random(157).round(2)  # equals occur
    values[generator.integers(0, 157, 20)] = np.nan
    starts = np.arange(157) * step
    above = [(int(start), float(value)) for start, value in zip(starts, values, strict=True) if value >= threshold]
    expected = suppressed(starts, values, threshold, apart)
    assert peaks([above[i] for i in generator.permutation(len(above))], apart) == expected
    assert len(above) > len(expected)


def test_lines_of_bed_and_gff3_say_where_and_on_which_strand() -> None:
    mark = TASK.landmark("EI")
    assert site_of(100, 120, "+", mark) == (111, 114)
    assert site_of(103, 123, "-", mark) == (
        109,
        112,
    )  # letters 11 to 13 of the other strand, counted from its start at 122
    assert site_of(7, 27, "-", TASK.landmark("a/b c")) == (7, 27)


def test_a_likelier_hit_within_half_a_window_marks_the_weaker_one() -> None:
    hits = [
        Hit(start, start + 20, "+", "EI", p, (start, start + 20))
        for start, p in [(0, 0.6), (9, 0.7), (19, 0.7), (40, 0.9)]
    ]
    assert [hit.weaker for hit in with_weaker(hits)] == [True, False, False, False]


def test_readers_of_others_find_each_site_at_its_letters_on_its_strand() -> None:
    """Letters are drawn at random; Biopython's reader of BED and BCBio's of GFF3 cut the sites out of them."""
    generator = np.random.default_rng(4)
    text = Seq("".join(generator.choice(list("ACGT"), 211)))
    hits, expected = list[Hit](), list[str]()
    for start, end, strand, term in [(100, 120, "+", "SO:0000163"), (33, 53, "-", "SO:0000164"), (7, 27, "-", "")]:
        site = site_of(start, end, strand, TASK.landmark("EI") if term else None)
        window = text[start:end] if strand == "+" else text[start:end].reverse_complement()
        expected.append(str(window[11:14] if term else window))
        marked = (term, expected[-1], "GTA") if term else ()
        hits.append(Hit(start, end, strand, "EI", 0.98765, site, *marked))
    target = {"chr1": text}
    for alignment, hit, letters in zip(Align.parse(io.StringIO(bed("chr1", hits)), "bed"), hits, expected, strict=True):
        (first, last), strand = alignment.coordinates[0][[0, -1]], "+-"[int(alignment.coordinates[1][0] > 0)]
        cut = target[alignment.target.id][min(first, last) : max(first, last)]
        assert str(cut if strand == "+" else cut.reverse_complement()) == letters
        assert (strand, alignment.score) == (hit.strand, 987)
    (record,) = GFF.parse(io.StringIO(GFF3_START + gff3("chr1", hits, "my;net")))
    assert record.id == "chr1"
    types = ["five_prime_cis_splice_site", "three_prime_cis_splice_site", "region"]
    for feature, kind, hit, letters in zip(record.features, types, hits, expected, strict=True):
        assert str(feature.extract(text)) == letters
        assert feature.type == kind
        assert feature.qualifiers["window"] == [f"{hit.start + 1}-{hit.end}"]
        assert float(feature.qualifiers["score"][0]) == 0.98765


def test_a_site_is_known_by_the_letter_at_which_the_intron_begins_or_ends() -> None:
    """An intron of letters 31 to 50 on the one strand, and the same letters on the other."""
    begins, ends = {"+": (30, 32), "-": (48, 50)}, {"+": (48, 50), "-": (30, 32)}
    for strand, first, last in [("+", 31, 50), ("-", 50, 31)]:
        assert Hit(0, 60, strand, "EI", 1.0, begins[strand], "SO:0000163").place == first
        assert Hit(0, 60, strand, "IE", 1.0, ends[strand], "SO:0000164").place == last
    assert str(Hit(0, 60, "+", "EI", 1.0, (30, 32), "SO:0000163", "GT", "GT").said()) == "intron begins at 31 (+)"
    assert str(Hit(0, 60, "-", "x", 1.0, (0, 60)).said()) == "x: window 1-60 (-)"
