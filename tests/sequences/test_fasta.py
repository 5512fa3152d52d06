"""FASTA files as people have them: plain, packed, headless, commented, broken."""

import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.errors import InputError
from transformer.sequences import fasta
from transformer.sequences.fasta import FastaRecord, fasta_of, label_of, parse_fasta, read_fasta

TWO = b">one first of two\r\nACGT\r\nAC\r\n\r\n; a comment\n>two\nGG\n"
RECORDS = [FastaRecord("one", "first of two", "ACGTAC"), FastaRecord("two", "", "GG")]


def test_records_are_joined_over_lines():
    assert list(fasta_of(TWO)) == RECORDS


def test_gzip_is_told_by_its_content():
    assert list(fasta_of(gzip.compress(TWO))) == RECORDS


@pytest.mark.parametrize("text", [">one\nACGT\n>two\nGG\n", "ACGT", "; a comment\n>one\nAC"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark_belongs_to_no_record(text: str, packed: bool):
    data = text.encode("utf-8-sig")
    expected = [*parse_fasta(text.splitlines())]
    assert [*fasta_of(gzip.compress(data) if packed else data)] == expected
    assert [*parse_fasta(("\ufeff" + text).splitlines())] == expected  # pasted


def test_bare_letters_are_one_record():
    assert list(parse_fasta(["ACG", "T"])) == [FastaRecord("sequence", "", "ACGT")]


def test_no_lines_are_no_record_and_an_empty_record_is_kept():
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


def test_a_file_that_unpacks_to_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(fasta, "MAX_BYTES", 1_000)
    bomb = gzip.compress(b">x\n" + b"A" * 5_000)
    with pytest.raises(InputError, match="split it"):
        list(fasta_of(bomb))


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


def test_a_long_line_counts_as_much_as_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fasta, "MAX_BYTES", 1_000)
    assert len(next(iter(fasta_of(b">x\n" + b"A" * 997))).sequence) == 997
    with pytest.raises(InputError, match="split it"):
        list(fasta_of(b">x\n" + b"A" * 998))
