"""Hits and tracks: the likeliest window of its neighbourhood, its site, and the lines that genome browsers read."""

import csv
import io

import numpy as np
import pytest
import torch
from BCBio import GFF
from Bio import Align
from Bio.Seq import Seq
from hypothesis import given
from hypothesis import strategies as st

from heedmap.attention.measures import rank_correlation
from heedmap.attention.record import AttentionMap
from heedmap.attention.softmax_inputs import AttentionInputs
from heedmap.nn.kmer import windows
from heedmap.nn.masks import Mask
from heedmap.plots.axes import Axis
from heedmap.sequences import tracks
from heedmap.sequences.alphabet import DNA
from heedmap.sequences.hits import GFF3_START, Hit, Judged, bed, gff3, judged, peaks, site_of, with_weaker
from heedmap.sequences.task import Landmark, SequenceTask
from heedmap.sequences.tracks import folded
from heedmap.sites import Site

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


@pytest.mark.parametrize(
    ("start", "strand", "label", "site"), [(100, "+", "EI", (111, 114)), (103, "-", "EI", (109, 112)),
                                           (7, "-", "a/b c", (7, 27))],
)  # fmt: skip
def test_a_site_lies_where_its_landmark_does_on_its_strand(start, strand, label, site) -> None:
    """Letters 11 to 13 of the other strand are counted from its start, which is the window's end."""
    assert site_of(start, start + 20, strand, TASK.landmark(label)) == site


def test_a_likelier_hit_within_half_a_window_marks_the_weaker_one() -> None:
    chances = [(0, 0.6), (9, 0.7), (19, 0.7), (40, 0.9)]
    hits = [Hit(start, start + 20, "+", "EI", p, (start, start + 20)) for start, p in chances]
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


FIRST, LAST = "SO:0000163", "SO:0000164"


def test_hits_are_ranked_by_probability_and_counted_on_the_strands_that_were_read() -> None:
    known = {(FIRST, "+", 31), (LAST, "+", 70), (FIRST, "-", 5)}
    hits = [
        Hit(0, 60, "+", "EI", 0.91, (30, 32), FIRST), Hit(9, 69, "+", "EI", 0.99, (39, 41), FIRST),
        Hit(40, 100, "+", "IE", 0.95, (68, 70), LAST), Hit(0, 60, "-", "EI", 0.9, (30, 32), FIRST),
    ]  # fmt: skip
    assert judged(hits, known, "+-") == Judged((2, 3), 3, 4)
    assert judged(hits[:3], known, "+") == Judged((2, 3), 2, 3)
    assert judged(hits, known, "+-").precision == 0.5
    assert judged([], known, "+").precision is None


values = st.lists(st.sampled_from([0.0, 0.25, 1.5, -2.0]), min_size=1, max_size=23)


@given(values)
def test_bedgraph_covers_every_letter_once_with_its_value(track):
    lines = tracks.intervals("chr 1", np.array(track), start=100).splitlines()
    read, place = [], 100
    for line in lines:
        name, start, stop, value = line.split("\t")
        assert name == "chr_1"
        assert int(start) == place < int(stop)
        place = int(stop)
        read += [float(value)] * (int(stop) - int(start))
    assert read == track


def test_bedgraph_leaves_out_what_is_not_known():
    text = tracks.bedgraph("", {"x": np.array([1.0, np.nan, np.nan, 1.0])}, range(1, 5))
    assert text.splitlines() == ['track type=bedGraph name="x"', "sequence\t0\t1\t1", "sequence\t3\t4\t1"]
    text = tracks.bedgraph("x", {"x": np.array([1.0, 2.0, 2.0])}, range(12, 9, -1))  # of the other strand
    assert text.splitlines()[1:] == ["x\t9\t11\t2", "x\t11\t12\t1"]


@given(values)
def test_csv_gives_the_same_numbers_back(track):
    read = np.array(track)
    text = tracks.csv("A" * len(track), {"attention": read, "effect": read / 3}, range(5, 5 + len(track)))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["place"] for row in rows] == [str(i + 5) for i in range(len(track))]
    assert [float(row["effect"]) for row in rows] == (read / 3).tolist()


def test_no_cell_of_a_table_is_a_formula_and_no_number_is_empty() -> None:
    text = tracks.csv("A", {"=1+1": np.array([np.nan]), "-1": np.array([-0.5])}, [1])
    assert text == "place,letter,'=1+1,'-1\n1,A,,-0.5\n"


def test_a_window_shares_evenly_among_its_letters():
    spans = windows(5, (2, 3))
    values = np.zeros(len(spans))
    values[1], values[4 + 2] = 0.5, 0.5  # letters 1-2 of width 2, letters 2-4 of width 3
    track = folded(values, spans, 5)
    assert track.widths == (2, 3)
    np.testing.assert_allclose(track.share, [[0, 0.25, 0.25, 0, 0], [0, 0, 1 / 6, 1 / 6, 1 / 6]])


@given(length=st.integers(7, 31), widths=st.sets(st.integers(1, 7), min_size=1, max_size=3), seed=st.integers(0, 99))
def test_shares_sum_to_what_windows_received(length, widths, seed):
    spans = windows(length, tuple(widths))
    values = np.random.default_rng(seed).dirichlet(np.ones(len(spans)))
    track = folded(values, spans, length)
    assert track.total.sum() == pytest.approx(1)
    assert track.even.sum() == pytest.approx(1)
    for row, width in enumerate(track.widths):
        arrived = sum(value for value, span in zip(values, spans, strict=True) if span.width == width)
        assert track.share[row].sum() == pytest.approx(arrived)


def test_even_attention_favours_no_letter():
    spans = windows(23, (3, 5))
    track = folded(np.full(len(spans), 1 / len(spans)), spans, 23)
    np.testing.assert_allclose(track.relative, 1)


def test_received_is_the_mean_of_the_rows_also_over_several_groups(monkeypatch):
    monkeypatch.setattr("heedmap.attention.record.ROWS_AT_ONCE", 5)
    source = AttentionInputs(torch.randn(1, 2, 13, 3), torch.randn(1, 2, 17, 3), Mask(), 1.0)
    queries, keys = (Axis.of_tokens(name, [str(i) for i in range(n)]) for name, n in (("query", 13), ("key", 17)))
    attention = AttentionMap(Site("encoder.0.self"), queries, keys, source)
    np.testing.assert_allclose(attention.received(1), attention.weights(1).mean(axis=0), rtol=1e-5)


def test_a_constant_has_no_rank_correlation():
    assert np.isnan(rank_correlation(np.ones(5), np.arange(5.0)))
    assert np.isnan(rank_correlation(np.arange(2.0), np.arange(2.0)))
