"""Sequences: one with all its attention, many as a table, windows of a long one on either strand, changes."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from heedmap import Checkpoint, load
from heedmap.attention.capture import recording
from heedmap.errors import CheckpointError, InputError
from heedmap.nn.kmer import windows
from heedmap.nn.stacks import Encoder, EncoderConfig
from heedmap.runs.sequences import scan as scanning
from heedmap.runs.sequences.classify import MAX_MUTATED, classifier, classify, mutations, read, verdicts
from heedmap.runs.sequences.scan import ScanPlan, find_hits, plan_scan
from heedmap.runs.sequences.variants import Change, changed_sites, deltas, read_changes
from heedmap.sequences.alphabet import DNA, PROTEIN
from heedmap.sequences.annotation import FASTA_BEGINS, known_sites, read_genes
from heedmap.sequences.fasta import FastaRecord, parse_fasta
from heedmap.sequences.hits import judged
from heedmap.sequences.region import Region
from heedmap.sequences.task import SequenceTask
from tests.classifiers import sequence_checkpoint

WIDTH, MARK = 23, 11
"""Of the small classifier: letters of a window, and those of them before the GT of its donor."""


@pytest.fixture(scope="module")
def small() -> Checkpoint:
    return sequence_checkpoint(double=True)


def letters(count: int, seed: int, alphabet: str = "ACGTN") -> str:
    share = [0.24, 0.27, 0.22, 0.25, 0.02][: len(alphabet)]
    drawn = np.random.default_rng(seed).choice(list(alphabet), count, p=np.array(share) / sum(share))
    return "".join(drawn)


def all_of(plan: ScanPlan, workers: int = 1) -> np.ndarray:
    blocks = list(plan.blocks(workers))
    each = scanning.BLOCK // len(plan.signs)
    assert [block.first for block in blocks] == list(range(0, plan.n_windows, each))
    return np.concatenate([block.probabilities for block in blocks], axis=1)


@pytest.mark.parametrize(("workers", "signs"), [(1, "+-"), (3, "-"), (5, "+")])
def test_every_window_is_what_the_classifier_says_of_it_alone(small, monkeypatch, workers, signs) -> None:
    monkeypatch.setattr(scanning, "BLOCK", 11)
    monkeypatch.setattr(scanning, "LETTERS_AT_ONCE", 6 * WIDTH)
    text = letters(61, seed=workers)
    plan = plan_scan(small, DNA.read(text), signs)
    found = all_of(plan, workers=workers)
    assert found.shape == (len(plan.signs), 61 - WIDTH + 1, 3)
    for window in range(plan.n_windows):
        part = text[window : window + WIDTH]
        for row, sign in enumerate(plan.signs):
            read = part if sign == "+" else DNA.reverse_complement(part)
            if part.count("N") / WIDTH > 0.1:
                assert np.isnan(found[row, window]).all()
            else:
                np.testing.assert_allclose(found[row, window], classify(small, read).probabilities, atol=1e-9)


@pytest.mark.parametrize(("length", "gaps"), [(WIDTH, ("NNNRR",)), (20, ("NN", "NNN"))])
def test_windows_with_more_than_one_unknown_letter_in_ten_are_not_judged(small, length, gaps) -> None:
    model = replace(small, task=replace(classifier(small)[1], length=length))
    text = letters(40, 1, "ACGT") + "".join(gap + letters(40, 2, "ACGT") for gap in gaps)
    found = all_of(plan_scan(model, DNA.read(text), signs="+"))[0, :, 0]
    unknown = np.array([sum(letter in "NR" for letter in text[i : i + length]) for i in range(len(text) - length + 1)])
    np.testing.assert_array_equal(np.isnan(found), unknown > 2)
    assert set(unknown) == set(range(len(max(gaps, key=len)) + 1))


def test_a_scan_that_is_not_asked_for_more_has_stopped(small, monkeypatch) -> None:
    monkeypatch.setattr(scanning, "BLOCK", 5)
    seen = []
    hook = small.model.encoder_norm.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    threads = threading.active_count()
    blocks = plan_scan(small, DNA.read(letters(200, 3, "ACGT")), signs="+").blocks(workers=2)
    next(blocks)
    del blocks
    hook.remove()
    assert threading.active_count() == threads
    assert set(seen) == {5}
    assert 1 <= len(seen) <= 2  # of the block that came, and of the one ahead


def test_numbers_of_a_plan_and_refusals_that_name_what_is_wrong(small) -> None:
    plan = plan_scan(small, DNA.read(letters(64, 5)))
    assert (plan.n_windows, plan.centre(3)) == (42, 3 + 11)
    even = replace(plan, width=10)  # after five of its ten letters the sixth begins, which is number 5 from 0
    assert [even.centre(window) for window in (0, 3)] == [5, 3 + 5]
    text = letters(500, 6) + "RYT"
    np.testing.assert_array_equal(DNA.id_array(text), DNA.ids(text))
    opposite = DNA.complement_ids()[DNA.id_array(text)[::-1]]
    np.testing.assert_array_equal(opposite, DNA.ids(DNA.reverse_complement(text)))
    with pytest.raises(InputError, match="has 22 letters, and a window needs 23"):
        plan_scan(small, DNA.read("A" * 22))
    protein, read = (
        Checkpoint("protein", small.model, task=SequenceTask(PROTEIN, ("a", "b"), 23)),
        PROTEIN.read("A" * 45),
    )
    with pytest.raises(InputError, match="protein has no other strand"):
        plan_scan(protein, read)
    assert plan_scan(protein, read, signs="+").n_windows == 23


@pytest.fixture(scope="module")
def splice() -> Checkpoint:
    return load("checkpoints/splice-junctions")


@pytest.fixture(scope="module")
def genes(splice) -> list[FastaRecord]:
    text = (splice.folder / "genes.gff3").read_text()
    return list(parse_fasta(text.partition(FASTA_BEGINS)[2].splitlines()))


def test_every_annotated_site_is_a_hit_at_its_letter(splice, genes) -> None:
    annotation = read_genes((splice.folder / "genes.gff3").read_text()).genes
    columns = {name: splice.task.classes.index(name) for name in splice.task.findable}
    places: dict[str, dict[int, float]] = {}
    for record in genes:
        plan = plan_scan(splice, splice.task.alphabet.read(record.sequence))
        hits = find_hits(plan, plan.blocks(2), columns, 0.9)
        found = judged(hits, known_sites(annotation[record.id], len(record.sequence)), "+-")
        assert len(found.ranks) == found.n_known == 4
        assert all(hit.found in {"GT", "AG"} for hit in hits)
        places[record.id] = {hit.place: round(hit.probability, 3) for hit in hits}
    assert {568: 0.924, 697: 0.988, 921: 0.997, 1770: 0.998}.items() <= places[genes[0].id].items()


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


@pytest.mark.parametrize(("before", "after"), [("A", "G"), ("ACG", "T"), ("C", "CGTGT"), ("GT", "AC")])
def test_each_site_is_what_the_classifier_says_of_its_window_before_and_after(small, before, after) -> None:
    """Brute force: the window of each GT, on each strand of each of the two sequences, classified by itself."""
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
    marks = {i + 1 for i in range(len(text) - 1) if text[i : i + 2] == "GT"}
    assert {place for place in marks if abs(place - first - 1) < MARK - 1} <= {one.place for one in donor}


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
def test_mutations_of_beta_thalassaemia_change_the_published_sites(splice, genes, change, place, before, after) -> None:
    sequence = DNA.read(genes[0].sequence)
    (one,) = read_changes(change, genes[0].id, sequence).found
    strongest = changed_sites(deltas(splice, sequence, one, "+"))[0]
    assert strongest.place == place
    assert (strongest.before, strongest.after) == pytest.approx((before, after), abs=0.011)


def test_a_site_whose_letters_are_lost_is_told_though_the_model_still_calls_it(splice, genes) -> None:
    (broken,) = changed_sites(deltas(splice, DNA.read(genes[0].sequence), Change(1769, "A", "G"), "+"))
    assert (broken.place, broken.was, broken.found, broken.is_broken) == (1770, "AG", "GG", True)
    assert broken.after == pytest.approx(0.958, abs=0.001)


def test_changes_are_read_as_written_and_as_vcf() -> None:
    read = DNA.read("ACGTTGCAAGTG")
    vcf = "\ufeff##fileformat=VCFv4.3\n#CHROM\tPOS\tID\tREF\tALT\nx\t2\t.\tCG\tC,U\nother\t1\t.\tA\tC\n"
    found = read_changes(vcf, "x", read)
    assert found.found == (Change(2, "CG", "C"), Change(2, "CG", "T"))
    assert (found.names, found.notes) == ({"x": 1, "other": 1}, [])
    for written in ("2 C>T, g.12G>a", "x:g.2C>T; x-12-G-A", "x 2 . C T\nx 12 . G A"):
        assert read_changes(written, "x", read).found == (Change(2, "C", "T"), Change(12, "G", "A"))


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("2\t.\tA\tT", "the sequence has C there (letter 2, counted from 1): check"),
        ("1\t.\tC\tT", "and these letters one further: if places count from 0"),
        ("13\t.\tA\tT", "letter 13 is not among the 12"), ("0\t.\tN\tA", "letter 0 is not among the 12"),
        ("2\t.\tC\t.", "'.' names no letters"), ("2\t.\tC\t*", "lost by a deletion of another line"),
        ("2\t.\tC\t<DEL>", "<DEL> names no letters"), ("2\t.\tC\tC[chr2:321682[", "breakend"),
        ("2\t.\tC\t]chr2:3]C", "breakend"), ("2\t.\tC\t.T", "breakend"), ("2\t.\tC\tc", "the same letters"),
        ("2\t.\tC\tC!", "letter 2 is '!'"), ("2\t.\tC\t" + "A" * 101, "at most 100 letters"),
        ("x\t.\tC\tA", "is no change: write 568 G>A"),
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_computed_is_named_by_its_line_and_stops_no_other(record, reason) -> None:
    """Alleles as the specification of VCF 4.4, sections 1.4 and 5, writes them."""
    good = "g\t3\t.\tG\tA\t.\tPASS\n"
    for text, line in [(f"{good}g\t{record}\n{good}", 2), (f"##x\ng\t{record}\t.\n\n{good}{good}", 2)]:
        found = read_changes(text, "g", DNA.read("ACGTTGCAAGTG"))
        assert found.found == (Change(3, "G", "A"),) * 2
        (note,) = found.notes
        assert note.startswith(f"line {line} (g ")
        assert reason in note


@pytest.mark.parametrize(("seed", "strand"), list(enumerate("+-+-")))
def test_changes_of_a_genome_are_those_of_a_piece_of_it_on_either_strand(seed: int, strand: str) -> None:
    generator, genome = np.random.default_rng(seed), letters(307, seed, "ACGT")
    first, last = 31, 30 + int(generator.integers(101, 211))
    region = Region("chr7", first, last, strand)
    piece = genome[first - 1 : last]
    read = DNA.read(piece if strand == "+" else DNA.reverse_complement(piece))
    inside = 0
    for place in generator.choice(np.arange(1, 300), 23, replace=False).tolist():
        change = Change(place, genome[place - 1 : place - 1 + int(generator.integers(1, 4))], letters(4, place, "ACGT"))
        found = read_changes(f"chr7\t{place}\t.\t{change.before}\t{change.after}", "cut", read, region)
        end = place + len(change.before) - 1
        if first <= place and end <= last:
            cut = change.applied(genome)[first - 1 : last + len(change.after) - len(change.before)]
            assert found.found[0].applied(read.text) == (cut if strand == "+" else DNA.reverse_complement(cut))
            inside += 1
        else:
            assert (found.found, found.notes) == ((), [f"1 change lies outside of {region}, and is not used"])
    assert 0 < inside < 23


def records(length: int, count: int) -> Iterator[FastaRecord]:
    return (FastaRecord(str(i), "", letters(length, i, "ACGT")) for i in range(count))


WORK: dict[str, Callable[[Checkpoint, Callable[..., object]], Any]] = {
    "file": lambda one, sign: [sign() for _ in verdicts(one, records(300, 40))],
    "short file": lambda one, sign: [sign() for _ in verdicts(one, records(23, 400))],
    "mutations": lambda one, sign: mutations(one, DNA.read(letters(90, 0, "ACGT")), 1, sign),
    "scan": lambda one, sign: [sign() for _ in plan_scan(one, DNA.read(letters(1_500, 0, "ACGT"))).blocks()],
}


@pytest.mark.parametrize("name", WORK)
def test_little_is_computed_between_two_signs(name: str) -> None:
    """Slow work says soon that it goes on, which is when it can be stopped: counted in letters, and by no clock."""
    one = sequence_checkpoint(d_model=4, n_heads=1, d_ff=4, n_layers=1)
    passed, largest, scans = [0], [0], name == "scan"

    def count(_: Any, given: tuple[torch.Tensor], __: Any) -> None:
        passed[0] += len(given[0]) * (23 if scans else given[0].shape[1])  # a scan convolves what its windows share

    def sign(*_: float) -> None:
        largest[0], passed[0] = max(largest[0], passed[0]), 0

    (one.model.encoder_norm if scans else one.model.kmers).register_forward_hook(count)
    WORK[name](one, sign)
    allowed = 2 * 128 * 23 + 16 * 23 if scans else 4_096 + 500  # both strands, or one more sequence
    assert 0 < largest[0] <= allowed
    assert passed[0] <= allowed  # after the last sign


SEQUENCE = "ACGTTGCANGTACCAGTTGACGT"


def test_probabilities_are_the_softmax_of_logits_over_the_temperature():
    checkpoint = sequence_checkpoint()
    run = classify(checkpoint, SEQUENCE.lower())
    logits = checkpoint.model.outputs(torch.tensor([run.letters.ids]))["logits"][0].double()
    np.testing.assert_allclose(run.probabilities, (logits / 1.7).softmax(0).detach(), rtol=1e-6)
    assert run.probabilities.sum() == pytest.approx(1)
    assert run.classes[run.predicted] == run.classes[int(np.argmax(run.probabilities))]


def test_the_record_names_windows_by_letters_and_place():
    run = classify(sequence_checkpoint(), SEQUENCE)
    assert run.record.sites == ("encoder.0.self", "encoder.1.self", "pooling")
    keys = run.record["encoder.1.self"].keys
    assert len(keys) == len(run.spans) == len(set(keys.labels)) == 21 + 19
    assert keys.texts[2] == "3-5 GTT"
    assert keys.texts[21] == "1-5 ACGTT"
    np.testing.assert_allclose(run.record["encoder.0.self"].weights(1).sum(1), 1, rtol=1e-5)
    assert run.record["pooling"].shape == (1, 40)
    assert run.spans == tuple(windows(23, (3, 5)))
    for places, name in ((range(101, 124), "103-105 GTT"), (range(123, 100, -1), "121-119 GTT")):
        named = classify(sequence_checkpoint(), SEQUENCE, places=places).record["pooling"].keys
        assert (named.texts[2], named.texts[21].partition(" ")[0]) == (name, f"{places[0]}-{places[4]}")


def test_looking_does_not_change_the_answer():
    checkpoint = sequence_checkpoint(double=True)
    ids = torch.tensor([checkpoint.task.alphabet.read(SEQUENCE).ids])
    with torch.inference_mode():
        plain = checkpoint.model(ids)
        with recording():
            assert torch.equal(checkpoint.model(ids), plain)


def test_many_sequences_keep_their_order_and_do_not_depend_on_their_neighbours(monkeypatch):
    checkpoint = sequence_checkpoint(double=True)
    texts = [SEQUENCE, SEQUENCE[::-1], SEQUENCE.replace("G", "A"), "TTTTTTT", "CCCCC"]
    monkeypatch.setattr("heedmap.runs.sequences.classify.LETTERS_AT_ONCE", 2 * len(SEQUENCE))
    found = list(verdicts(checkpoint, [FastaRecord(str(i), "", text) for i, text in enumerate(texts)]))
    assert [verdict.id for verdict in found] == ["0", "1", "2", "3", "4"]
    for verdict, text in zip(found, texts, strict=True):
        np.testing.assert_allclose(verdict.probabilities, classify(checkpoint, text).probabilities, rtol=1e-12)


def test_a_sequence_that_cannot_be_read_says_why_and_stops_no_other():
    records = [FastaRecord("bad", "", "AC!GTA"), FastaRecord("short", "", "ACG"), FastaRecord("good", "", "ACGTA")]
    bad, short, good = verdicts(sequence_checkpoint(), records)
    assert bad.probabilities is None
    assert "letter 3 is '!'" in bad.problem
    assert "the widest window needs 5" in short.problem
    assert good.probabilities is not None


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "empty"), ("ACGT", "widest window needs 5"), ("A" * 16_385, "16,385 letters, at most 16,384")],
)
def test_what_cannot_be_run_is_refused(text, says):
    with pytest.raises(InputError, match=says):
        classify(sequence_checkpoint(), text)


def test_a_checkpoint_must_classify_and_say_what():
    checkpoint = sequence_checkpoint()
    with pytest.raises(CheckpointError, match="add `task`"):
        classify(Checkpoint("bare", checkpoint.model), SEQUENCE)
    encoder = Encoder(EncoderConfig.of(vocab=5, d_model=4, n_heads=2))
    with pytest.raises(CheckpointError, match="does not classify"):
        classify(Checkpoint("other", encoder, task=checkpoint.task), SEQUENCE)


def log_odds(logits: torch.Tensor, target: int) -> float:
    """Of the only row, calibrated by the small checkpoint's temperature."""
    p = (logits[0] / 1.7).softmax(0)[target]
    return (p / (1 - p)).log().item()


def test_each_mutation_is_the_change_that_a_run_of_its_own_shows(monkeypatch):
    monkeypatch.setattr("heedmap.runs.sequences.classify.LETTERS_AT_ONCE", 7 * 23)  # several batches
    checkpoint = sequence_checkpoint(double=True)
    letters = read(checkpoint, SEQUENCE)
    seen: list[float] = []
    found = mutations(checkpoint, letters, 2, seen.append)

    def answer(text: str) -> float:
        logits = checkpoint.model.outputs(torch.tensor([read(checkpoint, text).ids]))["logits"]
        return log_odds(logits, 2)

    for place, new in ((0, "T"), (8, "A"), (22, "G"), (12, "C")):
        mutant = SEQUENCE[:place] + new + SEQUENCE[place + 1 :]
        expected = answer(mutant) - answer(SEQUENCE)
        assert found.change["ACGT".index(new), place] == pytest.approx(expected, abs=1e-12)
    assert found.change[found.letters.index("A"), 0] == 0
    np.testing.assert_allclose(found.effect[0], np.abs(found.change[1:, 0]).mean())
    np.testing.assert_allclose(found.effect[8], np.abs(found.change[:, 8]).mean())  # N may become any of four
    assert seen == sorted(seen)
    assert seen[-1] == 1
    with pytest.raises(InputError, match="at most 512"):
        mutations(checkpoint, read(checkpoint, "ACGT" * (MAX_MUTATED // 4) + "A"), 0)
