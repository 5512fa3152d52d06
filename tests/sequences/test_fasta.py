"""FASTA files as people have them: plain, packed, headless, commented, broken."""

import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedmap.errors import ConfigError, InputError
from heedmap.sequences import fasta
from heedmap.sequences.alphabet import DNA, PROTEIN, Alphabet
from heedmap.sequences.fasta import FastaRecord, fasta_of, label_of, parse_fasta, read_fasta

TWO = b">one first of two\r\nACGT\r\nAC\r\n\r\n; a comment\n>two\nGG\n"
RECORDS = [FastaRecord("one", "first of two", "ACGTAC"), FastaRecord("two", "", "GG")]


@pytest.mark.parametrize("text", [">one\nACGT\n>two\nGG\n", "ACGT", "; a comment\n>one\nAC"])
def test_a_byte_order_mark_belongs_to_no_record(text: str):
    assert [*parse_fasta(("\ufeff" + text).splitlines())] == [*parse_fasta(text.splitlines())]


def test_bare_letters_are_one_record_no_lines_none_and_an_empty_record_is_kept():
    assert list(parse_fasta(["ACG", "T"])) == [FastaRecord("sequence", "", "ACGT")]
    assert list(parse_fasta(["", "  "])) == []
    assert list(parse_fasta([">empty", ">full", "A"])) == [FastaRecord("empty", "", ""), FastaRecord("full", "", "A")]


@given(st.lists(st.tuples(st.text("abc", min_size=1), st.text("ACGT", min_size=1)), min_size=1, max_size=5))
def test_what_is_written_is_read(records):
    text = "".join(f">{name}\n{letters[:3]}\n{letters[3:]}\n" for name, letters in records)
    assert [(r.id, r.sequence) for r in fasta_of(text.encode())] == records


def test_the_callers_file_stays_open():
    file = io.BytesIO(TWO)
    list(read_fasta(file))
    assert not file.closed


@pytest.mark.parametrize(
    ("data", "says"),
    [(gzip.compress(TWO)[:-9], "gzip file is broken"), (b">x\n\xff\xfe\x00", "no text")],
    ids=["gzip", "binary"],  # gzip writes the time into its file, and tests are called the same in every process
)
def test_a_broken_file_is_refused(data, says):
    with pytest.raises(InputError, match=says):
        list(fasta_of(data))


def test_a_file_that_unpacks_to_too_much_is_refused_also_in_one_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fasta, "MAX_BYTES", 1_000)
    assert len(next(iter(fasta_of(b">x\n" + b"A" * 997))).sequence) == 997
    for data in (b">x\n" + b"A" * 998, gzip.compress(b">x\n" + b"A" * 5_000)):
        with pytest.raises(InputError, match="split it"):
            list(fasta_of(data))


@pytest.mark.parametrize(
    ("header", "label"),
    [
        ("one EI", "EI"),
        ("one EI, a donor", ""),
        ("one a donor label=IE; from 1992", "IE"),
        ("one N class: EI", "EI"),  # said outright, it counts more than a word
        ("chr1|7|IE", "IE"),
        ("IE", ""),  # a name is no class
        ("one ei", ""),
    ],
)
def test_the_class_that_a_header_names(header, label):
    (record,) = parse_fasta([f">{header}", "ACGT"])
    assert label_of(record, ("EI", "IE", "N")) == label


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("packed", [False, True])
def test_line_ends_and_encodings_of_any_age_are_read(end: str, encoding: str, packed: bool):
    data = end.join([">one first of two", "ACGT", "AC", "", "; a comment", ">two", "GG"]).encode(encoding)
    assert list(fasta_of(gzip.compress(data) if packed else data)) == RECORDS


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("@HD\tVN:1.6\n@SQ\tSN:chr1", "SAM"), ("##fileformat=VCFv4.2\n", "VCF"), ("##gff-version 3", "GFF"),
        ("\n\nCLUSTAL W\none ACGT", "Clustal"), ("# STOCKHOLM 1.0", "Stockholm"), ("ID   X56734; SV 1;", "EMBL"),
        ("track name=x\nchr1 1 2", "BED"), ("#NEXUS\nbegin data;", "NEXUS"),
        ("@one\nACGT\n+\nIIII", "FASTQ"), ("LOCUS       SCU49845     5028 bp    DNA\n", "GenBank"),
    ],
)  # fmt: skip
def test_other_formats_are_refused_by_their_names(text: str, name: str):
    with pytest.raises(InputError, match=f"this is {name}: give FASTA"):
        list(fasta_of(text.encode()))


codes = st.text(st.sampled_from("ACGTNRYSWKMBDHV"), min_size=1, max_size=40)


def test_case_white_space_and_rna_are_read_and_told_of():
    letters = DNA.read(" acg\nu\tAN ")
    assert (letters.text, letters.ids, letters.aliased, letters.masked) == ("ACGTAN", [0, 1, 2, 3, 0, 4], {"U": 1}, 4)
    aliased, unknown = "U (1) is read as T", "N (1; any of A, C, G, T) is read as an unknown letter"
    assert letters.notes == (aliased, unknown, "4 lower-case letters (soft-masked) are read like all others")
    assert DNA.read("acgt").notes == DNA.read("ACGT").notes == ()


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
def test_turning_twice_and_reading_give_the_sequence_back(text):
    assert DNA.reverse_complement(DNA.reverse_complement(text)) == text
    assert DNA.read(DNA.read(text.lower()).text).text == text
    assert DNA.reverse_complement("AACGN") == "NCGTT"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (" \n\t", "empty"), ("ACGT7", "letter 5 is '7'"), ("MKVLAEF", "looks like protein"), ("🧬", "letter 1"),
        ("AC<script>", "letter 3 is '<'"), ("AC-!", "no DNA code"),
        ("AC--GT.A", "letter 3 is '-': this is the row of an alignment, with 3 gaps"),
        ("1 acgt 61 ac", "letter 1 is '1': these lines are numbered, as in GenBank"),
    ],
)  # fmt: skip
def test_what_is_no_sequence_is_refused_with_its_place(text, says):
    with pytest.raises(InputError, match=says):
        DNA.read(text)


def test_protein_reads_its_own_letters_and_has_no_other_strand():
    assert PROTEIN.read("mkx").ids == [10, 8, PROTEIN.unknown_id]
    with pytest.raises(InputError, match="no other strand"):
        PROTEIN.reverse_complement("MK")


def test_an_alphabet_is_named_or_spelt_out():
    assert Alphabet.of("dna") is DNA
    purines = Alphabet("purines", letters="RY", unknown="N", ambiguous={"N": "RY"}, aliases={}, complement={})
    assert (purines.read("ryn").ids, len(purines)) == ([0, 1, 2], 3)


def test_wrong_alphabets_are_refused():
    with pytest.raises(ConfigError, match="dna, protein"):
        Alphabet.of("klingon")
    with pytest.raises(ConfigError, match="each letter once"):
        Alphabet(**dict(name="x", letters="AA", unknown="N", ambiguous={"N": "A"}, aliases={}, complement={}))
    with pytest.raises(ConfigError, match="no letter"):
        Alphabet(**dict(name="x", letters="AC", unknown="A", ambiguous={"N": "A"}, aliases={}, complement={}))
