"""Annotations as databases write them: transcripts, what is wrong with a line, and places of a longer sequence."""

import io
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from Bio import SeqIO
from Bio.Seq import Seq
from Bio.SeqFeature import CompoundLocation, SeqFeature, SimpleLocation
from Bio.SeqRecord import SeqRecord

from heedmap.errors import InputError
from heedmap.sequences.alphabet import DNA
from heedmap.sequences.annotation import Gene, beyond, genes_on, known_sites, read_genes
from heedmap.sequences.fasta import FastaRecord, read_fasta
from heedmap.sequences.lines import other_names, shortened
from heedmap.sequences.region import region_at, region_of

FIRST, LAST = "SO:0000163", "SO:0000164"


@pytest.mark.parametrize(("text", "line"), [("# comment\nACGTACGT\n", 2), ("g\tten\t20\n", 1)])
def test_what_is_no_annotation_is_refused_by_its_line(text, line) -> None:
    with pytest.raises(InputError, match=f"line {line}"):
        read_genes(text)


GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "sequences.md"


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
    assert read_genes(Path("gene.bed").read_text(encoding="utf-8")).genes == genes
    (found,) = read_fasta(io.BytesIO(Path("gene.fa").read_bytes()))
    assert (found.id, found.sequence) == ("x", str(record.seq))


PARENTS = "g\t.\texon\t{}\t{}\t.\t+\t.\t{}\n"
CODING = "g\t.\tCDS\t131\t180\t.\t+\t0\tParent=a\n"


def exons(*said: str) -> str:
    """Exons of GFF3 at letters 101 to 200, 301 to 400 and so on, each with these attributes."""
    return "".join(PARENTS.format(200 * i + 101, 200 * i + 200, one) for i, one in enumerate(said))


@pytest.mark.parametrize(
    ("text", "places", "note"),
    [
        (exons("Parent=m1,m2", "Parent=m1", "ID=x;Parent=m1,m2"), [201, 300, 401, 500], ""),
        (exons("Parent=m%2C1", "Parent=m%2C1").replace("exon", "SO:0000147"), [201, 300], ""),
        (exons("ID=e1;gene=A", "ID=e2;gene=A"), [201, 300], "2 exons name no transcript (Parent)"),
        (exons("ID=e1", "ID=e2"), [], "2 exons name no transcript, so no intron"),
        (exons("Parent=a", "Parent=a").replace("+", "."), [], "2 exons name no strand"),
        (exons("Parent=a").replace("exon", "gene"), [], "no exon or CDS is among 1 line"),
        ("track name=x\ng\t100\t400\t672\t0\t-\t100\t400\t0\t2\t100,100,\t0,200,\n", [201, 300], ""),
        ("g 100 200 7 0 +\ng 300 400 7 0 +\n", [201, 300], ""),
        ("g\t95\t205\tu.1_exon_0_5_g_101_f\t0\t+\ng\t295\t405\tu.1_exon_1_5_g_301_f\t0\t+\n", [201, 300], ""),
        ("g\t200\t300\tu.1_intron_0_0_g_201_f\t0\t+\n", [], "1 line is no exons by name"),
        ("g\t100\t200\ng\t300\t400\n", [], "2 exons name no transcript"),
        ("\ufeff" + exons("Parent=a", "Parent=a"), [201, 300], ""),
        (exons("Parent=a", "Parent=a") + CODING + "##FASTA\n>g\nACGT\n", [201, 300], ""),
        (CODING + CODING.replace("1", "3"), [181, 332], ""),
    ],
)
def test_exons_belong_together_as_the_specifications_say_and_what_is_assumed_is_noted(text, places, note) -> None:
    found = read_genes(text)
    sites = known_sites([gene for genes in found.genes.values() for gene in genes], 10_000)
    assert sorted(place for _, _, place in sites) == places
    assert note in "; ".join(found.notes)
    assert (bool(note), len(found.skipped)) == (bool(found.notes), 0)


def test_lines_that_cannot_be_read_are_listed_and_stop_no_other() -> None:
    bad = "".join(f"g\t.\texon\tx{i}\t9\t.\t+\t.\tParent=a\n" for i in range(13))
    found = read_genes(exons("Parent=a", "Parent=a") + bad + "g\t9\t7\ta\t0\t+\n")
    assert len(known_sites(found.genes["g"], 999)) == 2
    assert len(found.skipped) == 14
    assert "line 3 (g . exon x0 9 . + . Parent=a): it is neither GFF3" in found.skipped[0]
    assert shortened(found.skipped)[10] == "and 4 more"
    said = other_names({"11": 3, "chrX": 1, "chr2": 2}, ["chr11", "chr2"])
    assert said.startswith("1 of 3 names match the sequence (chr11, chr2).")
    assert "11 (3 lines; if it is chr11, give both the same name), chrX (1 line)" in said
    assert other_names({"a": 1}, ["a", "b"]) is None


STYLES = {
    "Ensembl GFF3": "{s}\thavana\texon\t{first}\t{end}\t.\t{z}\t.\tParent=transcript:{q};Name=E{i};rank={i}\n",
    "GENCODE GFF3": "{s}\tHAVANA\texon\t{first}\t{end}\t.\t{z}\t.\tID=exon:{q}:{i};Parent={q};tag=a,b\n",
    "RefSeq GFF3": "{s}\tBestRefSeq\texon\t{first}\t{end}\t.\t{z}\t.\tID=exon-{q}-{i};Parent=rna-{q};gene=G\n",
    "Ensembl GTF": '{s}\tx\texon\t{first}\t{end}\t.\t{z}\t.\tgene_id "G"; note "a=1; b"; transcript_id "{n}";\n',
    "UCSC BED": "{s}\t{a}\t{b}\t{n}_exon_{i}_{pad}_{s}_{first}_f\t0\t{z}\n",
}
HEADERS = [
    ("{s}:{first}-{last}", "+"), ("{s}:c{last}-{first}", "-"), ("{s}:{before}-{last}(+)", "+"),
    ("x::{s}:{before}-{last}(-)", "-"), ("{s}:{first}-{last}/rc", "-"), ("{s}:{first}-{last} {s}", "+"),
    ("hg38_dna range={s}:{first}-{last} 5'pad=0 3'pad=0 strand=- repeatMasking=none", "-"),
    ("11 dna:chromosome chromosome:GRCh38:{s}:{first}:{last}:1 REF", "+"),
    ("11 dna:chromosome primary_assembly:GRCh38:{s}:{first}:{last}:-1 REF", "-"),
]  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("header", "strand"), HEADERS)
def test_sites_of_a_genome_are_those_of_a_piece_of_it_on_either_strand(style: str, header: str, strand: str) -> None:
    """The piece may be cut by any tool, and the exons written by any database; other names and sizes each time."""
    generator = np.random.default_rng(len(style) * len(header))
    genome = "".join(generator.choice(list("ACGT"), 1_009))
    first, last = 61, 60 + int(generator.integers(400, 800))
    name, text, expected = f"chr{last}", "", set()
    for number in range(5):
        edges = np.sort(generator.choice(np.arange(40, 900), 8, replace=False)).tolist()
        sense, own = str(generator.choice(["+", "-"])), f"{number * 37}" + (",T" if "GFF3" in style else "")
        for i, (begin, end) in enumerate(zip(edges[::2], edges[1::2], strict=True)):
            fields = dict(s=name, first=begin + 1, end=end, z=sense, i=i, n=own, q=quote(own), pad=i)
            text += STYLES[style].format(**fields, a=begin - i, b=end + i)
        for low, high in zip(edges[1::2], edges[2::2], strict=False):  # an intron is letters low + 1 to high
            places = (low + 1, high) if sense == "+" else (high, low + 1)
            expected |= {(term, sense, at) for term, at in zip((FIRST, LAST), places, strict=True)}
    piece = genome[first - 1 : last] if strand == "+" else DNA.reverse_complement(genome[first - 1 : last])
    written = header.format(s=name, first=first, last=last, before=first - 1)
    (record,) = read_fasta(io.BytesIO(f">{written}\n{piece}\n".encode()))
    region = region_of(record)
    assert (region.name, region.first, region.last, region.strand) == (name, first, last, strand)
    inside = {one for one in expected if first <= one[2] <= last}
    turned = str.maketrans("+-", "-+" if strand == "-" else "+-")
    there = {(term, sense.translate(turned), region.place(at)) for term, sense, at in inside}
    assert known_sites(genes_on(read_genes(text), record.id, region), len(piece)) == there
    for _, _, at in inside:
        letter = piece[region.place(at) - 1]
        assert (letter if strand == "+" else DNA.reverse_complement(letter)) == genome[at - 1]


def test_a_place_is_asked_for_where_exons_lie_beyond_and_may_be_written_in_each_way() -> None:
    record = FastaRecord("chr11", "", "ACGTA" * 11)
    genes = read_genes(exons("Parent=a", "Parent=a").replace("g\t", "chr11\t")).genes["chr11"]
    assert "2 of 2 exons lie beyond the 55 letters of the sequence, at 101 to 400" in beyond(genes, 55, None)
    assert beyond(genes, 400, None) is None
    for written, strand in [("201", "+"), ("chr11:201-255", "+"), ("c255", "-"), ("chr11:c255-201", "-")]:
        region = region_at(written, record)
        assert (str(region), region_at(str(region), record)) == (f"chr11:201-255({strand})", region)
    for wrong in ("chr11:201-256-", "chr11:201-300", "here", "9" * 13):
        with pytest.raises(InputError, match="is no place of 55 letters"):
            region_at(wrong, record)
