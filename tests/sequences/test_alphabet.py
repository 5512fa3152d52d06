"""Letters of biological sequences: what is read, what is counted, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.errors import ConfigError, InputError
from transformer.sequences.alphabet import DNA, PROTEIN, Alphabet

codes = st.text(st.sampled_from("ACGTNRYSWKMBDHV"), min_size=1, max_size=40)


def test_case_white_space_and_rna_are_read():
    letters = DNA.read(" acg\nu\tAN ")
    assert letters.text == "ACGTAN"
    assert letters.ids == [0, 1, 2, 3, 0, 4]
    assert letters.aliased == {"U": 1}
    aliased, unknown = "U (1) is read as T", "N (1; any of A, C, G, T) is read as an unknown letter"
    assert letters.notes == (aliased, unknown, "4 lower-case letters (soft-masked) are read like all others")


def test_every_ambiguous_code_is_unknown_and_counted():
    letters = DNA.read("RYSWKMBDHVNN")
    assert set(letters.ids) == {DNA.unknown_id}
    assert letters.ambiguous == dict.fromkeys("RYSWKMBDHV", 1) | {"N": 2}


def test_complement_of_a_code_stands_for_the_complements_of_its_letters():
    pair = dict(zip("ACGT", "TGCA", strict=True))
    for code, bases in DNA.ambiguous.items():
        other = DNA.reverse_complement(code)
        assert sorted(DNA.ambiguous[other]) == sorted(pair[base] for base in bases)


@given(codes)
def test_turning_twice_gives_the_sequence_back(text):
    assert DNA.reverse_complement(DNA.reverse_complement(text)) == text


def test_reverse_complement_runs_the_other_way():
    assert DNA.reverse_complement("AACGN") == "NCGTT"


@given(codes)
def test_reading_is_stable(text):
    assert DNA.read(DNA.read(text.lower()).text).text == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("ACGT7", "letter 5 is '7'"),
        ("AC-GT", "letter 3 is '-'"),
        ("MKVLAEF", "looks like protein"),
        ("AC<script>", "letter 3 is '<'"),
        ("🧬", "letter 1"),
    ],
)
def test_what_is_no_sequence_is_refused_with_its_place(text, says):
    with pytest.raises(InputError, match=says):
        DNA.read(text)


def test_protein_reads_its_own_letters_and_has_no_other_strand():
    assert PROTEIN.read("mkx").ids == [10, 8, PROTEIN.unknown_id]
    with pytest.raises(InputError, match="no other strand"):
        PROTEIN.reverse_complement("MK")


def test_an_alphabet_is_named_or_spelt_out():
    assert Alphabet.of("dna") is DNA
    either = dict(name="purines", letters="RY", unknown="N", ambiguous={"N": "RY"}, aliases={}, complement={})
    purines = Alphabet(**either)
    assert purines.read("ryn").ids == [0, 1, 2]
    assert len(purines) == 3


def test_wrong_alphabets_are_refused():
    with pytest.raises(ConfigError, match="dna, protein"):
        Alphabet.of("klingon")
    with pytest.raises(ConfigError, match="each letter once"):
        Alphabet(**dict(name="x", letters="AA", unknown="N", ambiguous={"N": "A"}, aliases={}, complement={}))
    with pytest.raises(ConfigError, match="no letter"):
        Alphabet(**dict(name="x", letters="AC", unknown="A", ambiguous={"N": "A"}, aliases={}, complement={}))


def test_lower_case_beside_upper_case_is_told_of():
    read = DNA.read("acgtNNAC gt")
    assert read.text == "ACGTNNACGT"
    assert read.masked == 6
    assert "6 lower-case letters (soft-masked) are read like all others" in read.notes
    assert DNA.read("acgt").notes == DNA.read("ACGT").notes == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("AC--GT.A", "letter 3 is '-': this is the row of an alignment, with 3 gaps"),
        ("1 acgt 61 ac", "letter 1 is '1': these lines are numbered, as in GenBank"),
        ("AC-!", "no DNA code"),
    ],
)
def test_gaps_and_numbers_are_called_what_they_are(text: str, says: str):
    with pytest.raises(InputError, match=says):
        DNA.read(text)
