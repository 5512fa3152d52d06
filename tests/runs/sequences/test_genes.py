"""Real genes: every annotated splice site of the five shipped globin genes is a hit at its exact letter."""

import numpy as np
import pytest

from transformer import Checkpoint, load
from transformer.runs.sequences.classify import classifier, classify
from transformer.runs.sequences.scan import ScanPlan, find_hits, plan_scan
from transformer.sequences.annotation import FASTA_BEGINS, judged, known_sites, read_genes
from transformer.sequences.fasta import FastaRecord, parse_fasta
from transformer.sequences.hits import Hit

CODE = dict(zip((a + b + c for a in "TCAG" for b in "TCAG" for c in "TCAG"), (
    "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"
), strict=True))  # fmt: skip
"""The standard genetic code, in the order in which textbooks write it."""


@pytest.fixture(scope="module")
def splice() -> Checkpoint:
    return load("checkpoints/splice-junctions")


@pytest.fixture(scope="module")
def text(splice) -> str:
    assert splice.folder is not None
    return (splice.folder / "genes.gff3").read_text()


@pytest.fixture(scope="module")
def genes(text) -> list[FastaRecord]:
    return list(parse_fasta(text.partition(FASTA_BEGINS)[2].splitlines()))


def hits_of(plan: ScanPlan, threshold: float = 0.9) -> list[Hit]:
    _, task = classifier(plan.checkpoint)
    columns = {name: task.classes.index(name) for name in task.findable}
    return find_hits(plan, plan.blocks(2), columns, threshold)


def test_exons_translate_to_proteins_of_one_length(text, genes) -> None:
    known = read_genes(text)
    assert [record.id for record in genes] == ["HBB", "HBD", "HBG1", "HBG2", "HBE1"]
    for record in genes:
        (gene,) = known[record.id]
        coding = "".join(record.sequence[slice(*exon)] for exon in gene.exons)
        protein = "".join(CODE[coding[i : i + 3]] for i in range(0, len(coding), 3))
        assert (len(protein), protein[0], protein.index("*")) == (148, "M", 147)


def test_every_annotated_site_is_a_hit_at_its_letter(splice, text, genes) -> None:
    annotation = read_genes(text)
    for record in genes:
        known = known_sites(annotation[record.id])
        plan = plan_scan(splice, splice.task.alphabet.read(record.sequence))
        hits = hits_of(plan)
        found = judged(hits, known, "+-")
        print(record.id, found)  # noqa: T201  (ranks are for whoever reads, not asserted)
        assert len(found.ranks) == found.n_known == 4
        assert all(hit.found in {"GT", "AG"} for hit in hits)
    places = {
        hit.place: round(hit.probability, 3)
        for hit in hits_of(plan_scan(splice, splice.task.alphabet.read(genes[0].sequence)))
    }
    assert {568: 0.924, 697: 0.988, 921: 0.997, 1770: 0.998}.items() <= places.items()


def test_windows_without_a_landmark_are_not_read_and_the_others_say_the_same(splice, genes) -> None:
    letters = splice.task.alphabet.read(genes[0].sequence[400:1000])
    some, every = plan_scan(splice, letters), plan_scan(splice, letters, every=True)
    read, whole = (np.concatenate([b.probabilities for b in plan.blocks(2)], axis=1) for plan in (some, every))
    was_read = ~np.isnan(read[..., 0])
    np.testing.assert_allclose(read[was_read], whole[was_read], atol=1e-6)
    expected = np.zeros_like(was_read)
    for row, sign in enumerate("+-"):
        for window in range(some.n_windows):
            part = letters.text[window : window + 60]
            part = part if sign == "+" else letters.alphabet.reverse_complement(part)
            expected[row, window] = part[30:32] == "GT" or part[28:30] == "AG"
    np.testing.assert_array_equal(was_read, expected)
    assert some.reads == was_read.sum()
    assert every.reads == whole[..., 0].size


def test_a_scan_says_of_a_window_what_a_plain_read_of_it_says(splice, genes) -> None:
    plan = plan_scan(splice, splice.task.alphabet.read(genes[0].sequence))
    found = np.concatenate([block.probabilities for block in plan.blocks(2)], axis=1)
    for row, strand in enumerate(plan.strands.signs):
        for window in np.flatnonzero(~np.isnan(found[row, :, 0]))[::9].tolist():
            text = genes[0].sequence[window : window + plan.width]
            read = text if strand == "+" else splice.task.alphabet.reverse_complement(text)
            np.testing.assert_allclose(found[row, window], classify(splice, read).probabilities, atol=5e-6)
