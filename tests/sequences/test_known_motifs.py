"""Known motifs: files as they are found, and comparisons whose chances are counted by brute force."""

from itertools import permutations, product

import numpy as np
import pytest

from transformer.errors import InputError
from transformer.sequences import motif_matching
from transformer.sequences.motif_files import KnownMotif, read_motifs
from transformer.sequences.motif_matching import KnownMotifs, best_matches

MEME = """MEME version 4

ALPHABET= ACGT
strands: + -

Background letter frequencies
A 0.25 C 0.25 G 0.25 T 0.25

MOTIF MA0001.1 first one
letter-probability matrix: alength= 4 w= 2 nsites= 20 E= 0
 0.50 0.25 0.25 0.00
 0.10 0.20 0.30 0.41
URL http://example.org

MOTIF second
log-odds matrix: alength= 4 w= 1
 1 -2 3 4
letter-probability matrix: w= 1
1 0 0 0
"""
JASPAR = ">MA0004.1\tArnt\nA  [ 4 19 0 ]\nC  [16 0 20 ]\nG [ 0 1 0 ]\nT [ 0 0 0 ]\n>plain\n1 2\n3 4\n5 6\n1 8\n"


def motif(*columns: tuple[float, ...], name: str = "m") -> KnownMotif:
    values = np.array(columns, dtype=float).T
    return KnownMotif(name, "", values / values.sum(axis=0))


def random_motif(seed: int, width: int) -> KnownMotif:
    drawn = np.random.default_rng(seed).dirichlet([0.3] * 4, width)
    return motif(*map(tuple, drawn), name=f"random {seed}")


def test_both_formats_are_read() -> None:
    first, second = read_motifs("\ufeff" + MEME.replace("\n", "\r\n"))
    assert (first.id, first.name, first.text, second.text) == ("MA0001.1", "first one", "MA0001.1 first one", "second")
    np.testing.assert_allclose(first.frequencies.T, [[0.5, 0.25, 0.25, 0], np.array([10, 20, 30, 41]) / 101])
    np.testing.assert_array_equal(second.frequencies.T, [[1, 0, 0, 0]])
    arnt, plain = read_motifs(JASPAR)
    assert (arnt.id, arnt.name, plain.text) == ("MA0004.1", "Arnt", "plain")
    np.testing.assert_allclose(arnt.frequencies, [[0.2, 0.95, 0], [0.8, 0, 1], [0, 0.05, 0], [0, 0, 0]])
    np.testing.assert_allclose(plain.frequencies[:, 1], np.array([2, 4, 6, 8]) / 20)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "line 1: neither MEME's format"),
        ("\n\n>\nA 1", "line 3 is '>': it needs > and a name"),
        ("motifs", "line 1: neither"),
        ("MEME version 5\n", "holds no motif"),
        (MEME.replace("ACGT", "ACDEFGHIKLMNPQRSTVWY"), "line 3: the motifs are over protein: only motifs of DNA"),
        (MEME.replace("ACGT", "ACGU"), "line 3: the motifs are over RNA"),
        (MEME.replace("= ACGT", ' "mine" PROTEIN-LIKE'), "line 3: the motifs are over \"mine\""),
        (MEME.replace("alength= 4 w= 2", "alength= 20 w= 2"), "line 10: the motifs are over alength= 20"),
        (MEME.replace("w= 2 ", ""), "line 10 is .* it needs w= and a number of columns"),
        (MEME.replace("0.25 0.25 0.00", "0.25 0.75 0.00"), "line 11 is .* it needs four probabilities"),
        (MEME.replace("0.25 0.00", "x 0.00"), "line 11 is .* it needs numbers"),
        (MEME.replace("0.25 0.25 0.00", "0.75 -0.25 0.00"), "line 11 is .* none of them negative"),
        (MEME.replace("w= 1\n1 0", "w= 3\n1 0"), "the motif second ends after 1 of 3 lines"),
        (MEME.replace("MOTIF second", "MOTIF"), "line 15 is 'MOTIF': it needs the word MOTIF and a name"),
        (MEME.replace("MOTIF second\n", ""), "line 17 is .* needs a line MOTIF with a name before it"),
        (JASPAR.replace("T [", "U ["), "line 5: the motifs are over RNA"),
        (JASPAR.replace("C  [", "G  ["), "line 3 is .* it needs the counts of C"),
        (JASPAR.replace("5 6", "5 6 7"), r"line 6: the rows of plain have \[2, 2, 3, 2\] numbers"),
        (JASPAR.replace("20 ]", "0 ]"), "line 1 is .* it needs a count above 0 in each"),
        (">short\n1 2\n3 4\n", "the motif short ends after 2 of 4 lines"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_by_its_line(text, sentence) -> None:
    with pytest.raises(InputError, match=sentence):
        read_motifs(text)


def test_a_file_of_too_many_motifs_is_refused(monkeypatch) -> None:
    monkeypatch.setattr("transformer.sequences.motif_files.MAX_MOTIFS", 1)
    with pytest.raises(InputError, match="more than 1 motifs"):
        read_motifs(MEME)


def test_a_planted_motif_is_found_where_it_lies_on_either_strand() -> None:
    planted = random_motif(1, 7)
    known = KnownMotifs([random_motif(2, 9), planted, random_motif(3, 4)])
    around = np.full((4, 3), 0.25)
    for strand, laid in (("+", planted.frequencies), ("-", planted.frequencies[::-1, ::-1])):
        found = known.matches(np.concatenate([around[:, :2], laid, around], axis=1))
        best = found[0]
        assert (best.known, best.offset, best.strand, best.overlap) == (planted, 2, strand, 7)
        assert best.distance == pytest.approx(0, abs=1e-7)
        np.testing.assert_allclose(best.frequencies, laid)
        assert best.e_value == pytest.approx(3 * best.p_value)
        assert best.p_value < 1e-4 < found[1].p_value
    cut = known.matches(planted.frequencies[:, 2:])[0]  # it begins before the motif that was asked about
    assert (cut.known, cut.offset, cut.overlap) == (planted, -2, 5)


def test_chances_are_those_of_all_columns_that_could_be_drawn() -> None:
    known, asked = motif((6, 2, 1, 1), (1, 1, 8, 0), (0, 5, 0, 5)), motif((5, 3, 1, 1), (0, 1, 9, 0))
    best = KnownMotifs([known]).matches(asked.frequencies)[0]
    draws = np.array([[column[i] for i in order] for column in known.frequencies.T for order in permutations(range(4))])
    level = np.rint(100 * (1 - np.linalg.norm(asked.frequencies.T[:, None] - draws, axis=2) / 2**0.5)).astype(int)
    sums = np.array([a + b for a, b in product(*level)])
    both = [known.frequencies.T, known.frequencies[::-1, ::-1].T]
    every = []  # two columns overlap at least, so there are two offsets on each strand
    for turned in both:
        for start in (0, 1):
            apart = np.linalg.norm(asked.frequencies.T - turned[start : start + 2], axis=1)
            every.append((sums >= np.rint(100 * (1 - apart / 2**0.5)).sum()).mean())
    assert best.p_value == pytest.approx(1 - (1 - min(every)) ** 4)
    assert (best.offset, best.strand) == (0, "+")


def test_random_motifs_seldom_match() -> None:
    known = KnownMotifs([random_motif(seed, 6 + seed % 5) for seed in range(20)])
    p_values = np.array(
        [one.p_value for seed in range(100, 115) for one in known.matches(random_motif(seed, 8).frequencies)]
    )
    for level in (0.01, 0.05, 0.2):
        assert (p_values <= level).mean() <= level + 3 * (level / len(p_values)) ** 0.5


def test_the_best_of_each_has_a_q_value_over_all() -> None:
    planted = random_motif(1, 8)
    known = KnownMotifs([random_motif(2, 9), planted])
    found = best_matches(known, [planted.frequencies, random_motif(5, 8).frequencies, random_motif(6, 8).frequencies])
    assert found[0][0].known is planted
    each = [1 - (1 - one.p_value) ** 2 for one, _ in found]
    assert found[0][1] == pytest.approx(3 * each[0])
    assert found[1][1] <= max(1.0, 3 * each[1])


def test_letters_that_are_not_those_of_dna_are_refused() -> None:
    with pytest.raises(InputError, match="this checkpoint reads 20 letters: only motifs of DNA"):
        KnownMotifs([random_motif(1, 5)]).matches(np.full((20, 5), 0.05))
    with pytest.raises(InputError, match="holds no motif"):
        KnownMotifs([])


def test_a_large_file_is_stood_for_by_some_of_its_columns(monkeypatch) -> None:
    monkeypatch.setattr(motif_matching, "NULL_COLUMNS", 3)
    planted = random_motif(1, 7)
    assert KnownMotifs([random_motif(2, 6), planted]).matches(planted.frequencies)[0].known is planted
