"""Known exons: GFF3, GTF and BED name the same splice sites on either strand, and hits are held against them."""

import io
from pathlib import Path

import pytest
from Bio import SeqIO
from Bio.Seq import Seq
from Bio.SeqFeature import CompoundLocation, SeqFeature, SimpleLocation
from Bio.SeqRecord import SeqRecord

from transformer.errors import InputError
from transformer.sequences.annotation import Gene, Judged, judged, known_sites, read_genes
from transformer.sequences.fasta import read_fasta
from transformer.sequences.hits import Hit

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "sequences.md"

FIRST, LAST = "SO:0000163", "SO:0000164"
GFF = """##gff-version 3
g\tme\tmRNA\t11\t90\t.\t-\t.\tID=a
g\tme\texon\t71\t90\t.\t-\t.\tID=2;Parent=a
g\tme\texon\t11\t30\t.\t-\t.\tID=1;Parent=a
g\tme\tCDS\t15\t30\t.\t-\t.\tParent=a
##FASTA
>g
ACGT
"""
GTF = 'g\tme\texon\t11\t30\t.\t-\t.\tgene_id "x"; transcript_id "a";\ng\tme\tCDS\t71\t90\t.\t-\t0\ttranscript_id "b";\n'
GTF += 'g\tme\texon\t71\t90\t.\t-\t.\ttranscript_id "a";\n'
BED12 = "track name=x\ng\t10\t90\ta\t0\t-\t10\t90\t0\t2\t20,20,\t0,60,\n"
BED6 = "g\t10\t30\ta\t0\t-\ng\t70\t90\ta\t0\t-\n"


@pytest.mark.parametrize("text", [GFF, GTF, BED12, BED6])
def test_every_format_names_the_letters_at_which_introns_begin_and_end(text) -> None:
    """The intron is letters 31 to 70 (from 1), read from 70 downwards on this strand."""
    genes = read_genes(text)["g"]
    assert known_sites(genes) == {(FIRST, "-", 70), (LAST, "-", 31)}
    forward = known_sites(read_genes(text.replace("\t-", "\t+"))["g"])
    assert forward == {(FIRST, "+", 31), (LAST, "+", 70)}


def test_what_is_no_annotation_is_refused_by_its_line() -> None:
    with pytest.raises(InputError, match="line 2"):
        read_genes("# comment\nACGTACGT\n")
    with pytest.raises(InputError, match="line 1"):
        read_genes("g\tten\t20\n")


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


def test_what_the_guide_makes_of_genbank_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gene of each strand, written by Biopython as GenBank."""
    record = SeqRecord(Seq("ACGTTGCAAC" * 20), id="x", annotations={"molecule_type": "DNA"})
    for name, strand, exons in (("A", 1, [(10, 40), (60, 100)]), ("B", -1, [(160, 180), (110, 140)])):
        place = CompoundLocation([SimpleLocation(*exon, strand) for exon in exons])
        record.features.append(SeqFeature(place, type="CDS", qualifiers={"gene": [name]}))
    monkeypatch.chdir(tmp_path)
    SeqIO.write([record], "gene.gb", "genbank")
    exec((GUIDE.read_text(encoding="utf-8").partition("```python\n")[2]).partition("```")[0])
    genes = {"x": [Gene("A", "+", ((10, 40), (60, 100))), Gene("B", "-", ((110, 140), (160, 180)))]}
    assert read_genes(Path("gene.bed").read_text(encoding="utf-8")) == genes
    (found,) = read_fasta(io.BytesIO(Path("gene.fa").read_bytes()))
    assert (found.id, found.sequence) == ("x", str(record.seq))
