"""A change of a sequence: each probability is the classifier's own; known mutations do as published."""

import numpy as np
import pytest

from tests.classifiers import sequence_checkpoint
from transformer import Checkpoint, load
from transformer.errors import InputError
from transformer.runs.sequences.classify import classify
from transformer.runs.sequences.scan import Strands
from transformer.runs.sequences.variants import changed_sites, deltas
from transformer.sequences.alphabet import DNA
from transformer.sequences.annotation import FASTA_BEGINS
from transformer.sequences.fasta import parse_fasta
from transformer.sequences.variants import Change, read_changes

WIDTH, MARK = 23, 11
"""Of the small classifier: letters of a window, and those of them before the GT of its donor."""


@pytest.mark.parametrize(("before", "after"), [("A", "G"), ("ACG", "T"), ("C", "CGTGT"), ("GT", "AC")])
def test_each_site_is_what_the_classifier_says_of_its_window_before_and_after(before, after) -> None:
    """Brute force: the window of each GT, on each strand of each of the two sequences, classified by itself."""
    small = sequence_checkpoint(double=True)
    generator = np.random.default_rng(len(after))
    text = "".join(generator.choice(list("ACGT"), 97))
    first = 41
    text = text[:first] + before + text[first:]
    changed = text[:first] + after + text[first + len(before) :]
    shift = len(after) - len(before)

    def donors(sequence: str) -> dict[tuple[str, int], float]:
        """The probability of each window, by strand and the letter (from 1, on the given strand) of its G."""
        found = {}
        for sign, strand in (("+", sequence), ("-", DNA.reverse_complement(sequence))):
            for start in range(len(strand) - WIDTH + 1):
                place = start + MARK + 1 if sign == "+" else len(strand) - start - MARK
                found[sign, place] = float(classify(small, strand[start : start + WIDTH]).probabilities[0])
        return found

    was, now = donors(text), donors(changed)
    found = deltas(small, DNA.read(text), Change(first + 1, before, after))
    donor = [one for one in found if one.site.label == "EI"]
    assert {one.was for one in donor} | {one.found for one in donor} >= {"GT"}
    checked = 0
    for one in donor:
        assert one.before == pytest.approx(was[one.site.strand, one.place], abs=1e-9)
        if one.place <= first or one.place > first + len(before):  # of a letter that is not replaced
            at = one.place + (shift if one.place > first else 0)
            assert one.after == pytest.approx(now[one.site.strand, at], abs=1e-9)
            checked += 1
        elif len(before) == len(after):
            assert one.after == pytest.approx(now[one.site.strand, one.place], abs=1e-9)
        elif one.place - first > len(after):
            assert one.after == 0
    assert checked
    expected = {place for place, sign in _marks(text, "GT") if abs(place - first - 1) < MARK - 1}
    assert expected <= {one.place for one in donor}


def _marks(text: str, letters: str) -> list[tuple[int, str]]:
    return [(i + 1, "+") for i in range(len(text) - 1) if text[i : i + 2] == letters]


@pytest.fixture(scope="module")
def splice() -> Checkpoint:
    return load("checkpoints/splice-junctions")


@pytest.mark.parametrize(
    ("change", "place", "before", "after"),
    [
        ("568 G>A", 568, 0.92, 0.09),  # IVS1-1
        ("572 G>C", 568, 0.92, 0.28),  # IVS1-5
        ("677 G>A", 678, 0.06, 0.94),  # IVS1-110
        ("1574 C>T", 1573, 0.18, 0.95),  # IVS2-654
        ("1665 C>G", 1665, 0.05, 0.96),  # IVS2-745
    ],
)
def test_mutations_of_beta_thalassaemia_gain_and_lose_the_published_sites(splice, change, place, before, after) -> None:
    assert splice.folder is not None
    text = (splice.folder / "genes.gff3").read_text()
    gene = next(iter(parse_fasta(text.partition(FASTA_BEGINS)[2].splitlines())))
    letters = DNA.read(gene.sequence)
    (one,) = read_changes(change, gene.id, letters)
    strongest = changed_sites(deltas(splice, letters, one, Strands.GIVEN))[0]
    assert strongest.place == place
    assert (strongest.before, strongest.after) == pytest.approx((before, after), abs=0.011)


def test_a_site_whose_letters_are_lost_is_told_though_the_model_still_calls_it(splice) -> None:
    assert splice.folder is not None
    text = (splice.folder / "genes.gff3").read_text()
    gene = next(iter(parse_fasta(text.partition(FASTA_BEGINS)[2].splitlines())))
    (broken,) = changed_sites(deltas(splice, DNA.read(gene.sequence), Change(1769, "A", "G"), Strands.GIVEN))
    assert (broken.place, broken.was, broken.found, broken.is_broken) == (1770, "AG", "GG", True)
    assert broken.after == pytest.approx(0.958, abs=0.001)


def test_changes_are_read_as_written_and_as_vcf() -> None:
    letters = DNA.read("ACGTTGCAAGTG")
    vcf = "##fileformat=VCFv4.3\n#CHROM\tPOS\tID\tREF\tALT\nx\t2\t.\tCG\tC,U\nother\t1\t.\tA\tC\n"
    assert read_changes(vcf, "x", letters) == [Change(2, "CG", "C"), Change(2, "CG", "T")]
    assert read_changes("2 C>T, g.12G>a", "x", letters) == [Change(2, "C", "T"), Change(12, "G", "A")]
    for wrong, reason in [
        ("2 A>T", "the sequence has C there"), ("13 A>T", "the sequence has - there"), ("0 A>T", "has"),
        ("two", "'two' is no change"), ("other 1 . A C", "are of other"),
    ]:  # fmt: skip
        with pytest.raises(InputError, match=reason):
            read_changes(wrong, "x", letters)
