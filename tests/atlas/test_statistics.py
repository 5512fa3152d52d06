"""Every measure of a batch against the sentence's own record and by hand; sums, windows, and the tree of heads."""

from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon, pdist, squareform

from tests.classifiers import sequence_checkpoint
from transformer.atlas.accumulators import Accumulator, Example, Moments
from transformer.atlas.adapters import Counts, SequenceSubject, TranslatorSubject
from transformer.atlas.layout import average_linkage, clusters, distance_matrix
from transformer.atlas.maps import Maps, batch_weights
from transformer.atlas.statistics import OFFSETS, SHARES, TextKeys, pairs_of, text_totals
from transformer.attention.capture import recording
from transformer.attention.measures import HeadMeasures, Totals, measure
from transformer.checkpoint import Checkpoint, load
from transformer.runs.sequences.classify import classify
from transformer.runs.translate import translate
from transformer.sequences.folding import folded
from transformer.sites import Site

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
PAIRS = (
    ("Two dogs are playing in the snow.", "Zwei Hunde spielen im Schnee."),
    ("A man.", "Ein alter Mann mit 3 Hunden, die schlafen."),
    ("Three women are sitting on a bench in the park and talking, 17 of them.", "Drei Frauen."),
)
"""Of different lengths, so that the batch is padded on both sides."""


def rows_of(n_queries: int, n_keys: int, seed: int, causal: bool = False, n_heads: int = 3) -> Maps:
    """Random attention of one sentence, with the even head at the end."""
    visible = torch.ones(n_queries, n_keys, dtype=torch.bool)
    if causal:
        visible = visible.tril(n_keys - n_queries)
    scores = torch.randn(1, n_heads, n_queries, n_keys, generator=torch.Generator().manual_seed(seed)) * 2
    return given(scores.masked_fill(~visible, -torch.inf).softmax(-1), visible[None])


def given(weights: torch.Tensor, visible: torch.Tensor | None = None, kind: str = "self") -> Maps:
    """Maps that hold these weights."""
    n_sentences, n_heads, n_queries, n_keys = weights.shape
    visible = torch.ones(n_sentences, n_queries, n_keys, dtype=torch.bool) if visible is None else visible
    even = visible / visible.sum(-1, keepdim=True).clamp(min=1)
    whole = torch.cat([weights, even[:, None].to(weights.dtype)], dim=1)
    lengths = torch.full((n_sentences,), n_queries), torch.full((n_sentences,), n_keys)
    return Maps(f"encoder.{kind}", ((Site.of("encoder", 0, kind), n_heads),), whole, visible, *lengths)


def keys_of(n_keys: int, n_sentences: int = 1, rarest: int = -1, **classes: list[int]) -> TextKeys:
    """Keys of which these positions belong to these classes; every one is a word by itself."""
    marks = {name: torch.zeros(n_sentences, n_keys, dtype=torch.bool) for name in SHARES}
    for name, positions in classes.items():
        marks[name][:, positions] = True
    words = torch.arange(n_keys).expand(n_sentences, -1).clone()
    return TextKeys(marks, words, torch.full((n_sentences,), rarest))


def value(found: Totals, head: int = 0, column: int = 0) -> float:
    """The mean over the sentences of a batch, every row alike."""
    count = np.broadcast_to(found.counted, found.total.shape)
    return float(found.total[:, head, column].sum() / count[:, head, column].sum())


@pytest.fixture(scope="module")
def translator() -> Checkpoint:
    return load(CHECKPOINTS / "multi30k-en-de")


@pytest.fixture(scope="module", params=["multi30k-en-de", "multi30k-en-de-rnn", "multi30k-en-de-rnn-location"])
def measured(
    request: pytest.FixtureRequest,
) -> tuple[dict[str, dict[str, Totals]], list[dict[Site, list[HeadMeasures]]]]:
    """A padded batch by kind and measure, and each sentence's record measured head by head."""
    checkpoint = load(CHECKPOINTS / request.param)
    subject = TranslatorSubject(checkpoint, Counts())
    readings = [subject.read(i, *pair) for i, pair in enumerate(PAIRS)]
    with torch.inference_mode():
        observed = subject.run(readings)
    alone = []
    for source, target in PAIRS:
        record = translate(checkpoint, source, forced=target).record
        alone.append({site: [measure(map_, head) for head in range(map_.n_heads)] for site, map_ in record.items()})
    return {one.maps.group: dict(one.totals) for one in observed}, alone


def test_a_padded_batch_measures_each_sentence_as_its_record_does(measured) -> None:
    totals, alone = measured
    names = {
        "entropy": "entropy", "normalised_entropy": "normalised_entropy", "distance": "distance",
        "confidence": "confidence",
    }  # fmt: skip
    compared = 0
    for sentence, record in enumerate(alone):
        for group, found in totals.items():
            heads = [head for site, heads in record.items() if site.group == group for head in heads]
            for index, head in enumerate(heads):
                for name, attribute in names.items():
                    if name not in found:
                        continue
                    total, count = found[name].total[sentence, index, 0], found[name].counted[sentence, 0, 0]
                    assert total / count == pytest.approx(getattr(head, attribute), rel=2e-4, abs=2e-5), (group, name)
                    compared += 1
                if Site(head.site).kind == "self":
                    for offset, attribute in ((-1, "previous"), (0, "same"), (1, "next")):
                        column = OFFSETS.index(offset)
                        n_rows = found["offset"].counted[sentence, 0, column]
                        known = getattr(head, attribute)
                        if not n_rows:
                            assert np.isnan(known)
                            continue
                        assert found["offset"].total[sentence, index, column] / n_rows == pytest.approx(known, abs=2e-5)
                z = found["advance"]
                if z.counted[sentence, index, 0]:
                    assert np.tanh(z.total[sentence, index, 0]) == pytest.approx(head.advance, abs=1e-3)
    assert compared > 5


def test_special_tokens_are_those_of_the_record(translator: Checkpoint) -> None:
    subject = TranslatorSubject(translator, Counts())
    with torch.inference_mode():
        observed = {
            one.maps.group: one for one in subject.run([subject.read(i, *pair) for i, pair in enumerate(PAIRS)])
        }
    for sentence, (source, target) in enumerate(PAIRS):
        record = translate(translator, source, forced=target).record
        for group, one in observed.items():
            site = next(site for site in record if site.group == group)
            found = one.totals["special"]
            known = measure(record[site], 0).special
            assert found.total[sentence, 0, 0] / found.counted[sentence, 0, 0] == pytest.approx(known, abs=2e-5)
            parts = sum(one.totals[name].total[sentence, 0, 0] for name in ("start", "end"))
            assert parts == pytest.approx(found.total[sentence, 0, 0], abs=1e-5)


def test_all_weights_of_a_batch_are_those_of_the_record(translator: Checkpoint) -> None:
    source, target = torch.randint(4, 4_000, (2, 7)), torch.randint(4, 4_000, (2, 5))
    source[1, 5:] = translator.model.config.pad_id
    with torch.inference_mode(), recording() as seen:
        translator.model(source, target)
        for site in seen.sites:
            kept = seen.source(site)
            whole = batch_weights(kept)
            for batch, head in ((0, 1), (1, 3)):
                alone = kept.weights(batch, head, slice(0, kept.n_queries), slice(0, kept.n_keys))
                assert torch.allclose(whole[batch, head], alone, atol=1e-6)


@pytest.mark.parametrize(("offset", "name"), [(-1, "previous"), (0, "same"), (1, "next"), (-4, "far back")])
def test_a_shifted_identity_is_positional_at_its_offset_and_nowhere_else(offset: int, name: str) -> None:
    """A sign that is turned round (previous for next) shows here: key = query + offset."""
    n = 11
    weights = torch.zeros(1, 1, n, n)
    for query in range(n):
        weights[0, 0, query, min(max(query + offset, 0), n - 1)] = 1.0
    found = text_totals(given(weights), keys_of(n))
    share = {d: value(found["offset"], column=i) for i, d in enumerate(OFFSETS) if abs(d) < n}
    assert share[offset] == 1.0
    assert all(share[d] < 1 for d in share if d != offset)
    hits = {d: value(found["argmax"], column=i) for i, d in enumerate(OFFSETS)}
    assert max(hits, key=lambda d: hits[d]) == offset
    assert hits[offset] == pytest.approx((n - abs(offset)) / n)
    assert value(found["entropy"]) == pytest.approx(0, abs=1e-6)


def test_a_row_that_cannot_see_a_key_is_not_counted_for_it() -> None:
    """The mean over rows that see the key; a sum over unequal numbers of rows would fall with the offset."""
    n = 9
    found = text_totals(given(torch.full((1, 1, n, n), 1 / n)), keys_of(n))
    for i, d in enumerate(OFFSETS):
        rows = max(0, n - abs(d))
        assert found["offset"].counted[0, 0, i] == rows
        if rows:
            assert value(found["offset"], column=i) == pytest.approx(1 / n)


def test_even_attention_is_at_its_chance_level_in_every_share() -> None:
    """By brute force: the mean over rows with a choice of the share of visible keys that are of the class."""
    n = 8
    visible = torch.ones(n, n, dtype=torch.bool).tril()
    weights = (visible / visible.sum(-1, keepdim=True))[None, None].float()
    keys = keys_of(n, special=[0, 7], start=[0], end=[7], punctuation=[3, 6], number=[2])
    found = text_totals(given(weights, visible[None]), keys)
    for name, positions in (("special", {0, 7}), ("punctuation", {3, 6}), ("number", {2}), ("end", {7})):
        expected = np.mean([len(positions & set(range(t + 1))) / (t + 1) for t in range(1, n)])
        assert value(found[name], head=0) == pytest.approx(expected, abs=1e-6)
        assert value(found[name], head=1) == pytest.approx(expected, abs=1e-6)
    assert value(found["normalised_entropy"]) == pytest.approx(1, abs=1e-6)
    assert value(found["entropy"]) == pytest.approx(np.mean([log(t + 1) for t in range(1, n)]), abs=1e-6)
    for column in range(len(OFFSETS)):
        assert found["offset"].total[0, 0, column] == pytest.approx(found["offset"].total[0, 1, column])


def test_by_hand() -> None:
    """Three queries, four keys, numbers that a pencil can check."""
    weights = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.25, 0.75, 0.0], [0.1, 0.2, 0.3, 0.4]])[None, None]
    found = text_totals(given(weights, kind="cross"), keys_of(4, rarest=2, special=[3], end=[3], punctuation=[2]))
    third = -(0.1 * log(0.1) + 0.2 * log(0.2) + 0.3 * log(0.3) + 0.4 * log(0.4))
    second = -(0.25 * log(0.25) + 0.75 * log(0.75))
    assert value(found["entropy"]) == pytest.approx((log(2) + second + third) / 3, abs=1e-6)
    assert value(found["normalised_entropy"]) == pytest.approx((log(2) + second + third) / 3 / log(4), abs=1e-6)
    assert value(found["confidence"]) == pytest.approx((0.5 + 0.75 + 0.3) / 3)
    assert value(found["end"]) == pytest.approx(0.4 / 3)
    assert value(found["punctuation"]) == pytest.approx((0.75 + 0.3) / 3)
    assert value(found["rare"]) == 1.0  # column sums 0.6, 0.95, 1.05 of real keys: the third is the most attended
    centres = np.array([0.5, 1.75, 2.0])
    assert value(found["diagonality"]) == pytest.approx(1 - np.mean(np.abs(np.array([0, 0.5, 1]) - centres / 3)))
    assert np.tanh(value(found["advance"])) == pytest.approx(np.corrcoef([0, 1, 2], centres)[0, 1], abs=1e-6)
    profile = {d: value(found["offset"], column=OFFSETS.index(d)) for d in (-2, -1, 0, 1, 2)}
    assert profile == pytest.approx({-2: 0.1, -1: 0.1, 0: (0.5 + 0.25 + 0.3) / 3, 1: (0.5 + 0.75 + 0.4) / 3, 2: 0.0})
    assert "sibling" not in found  # a word of the source is none of the target


def test_other_pieces_of_a_word_are_neither_the_piece_itself_nor_another_word() -> None:
    weights = torch.tensor([[0.1, 0.2, 0.7, 0.0], [0.3, 0.3, 0.2, 0.2], [0.0, 0.6, 0.4, 0.0], [1.0, 0.0, 0.0, 0.0]])
    keys = keys_of(4, special=[3])
    keys.words[0] = torch.tensor([0, 0, 0, -1])
    found = text_totals(given(weights[None, None]), keys)
    assert value(found["sibling"]) == pytest.approx((0.2 + 0.7 + 0.3 + 0.2 + 0.0 + 0.6 + 0.0) / 4)


@pytest.mark.parametrize("causal", [False, True])
def test_permuted_heads_permute_rows_and_distances_are_those_of_scipy(causal: bool) -> None:
    n, order = 7, [2, 0, 1]
    maps = rows_of(n, n, seed=3, causal=causal)
    found = text_totals(maps, keys_of(n, special=[0], rarest=4))
    permuted = text_totals(given(maps.weights[:, order], maps.visible), keys_of(n, special=[0], rarest=4))
    for name, totals in found.items():
        if name != "divergence":
            assert np.allclose(permuted[name].total[:, :3], totals.total[:, order]), name
    weights = maps.weights.double().numpy()[0]
    rows = range(1 if causal else 0, n)
    for column, (i, j) in enumerate(pairs_of(3)):
        expected = np.mean([jensenshannon(weights[i, t], weights[j, t]) ** 2 for t in rows])
        assert value(found["divergence"], column=column) == pytest.approx(expected, abs=1e-5)
        there = pairs_of(3).index(tuple(sorted((order.index(i), order.index(j)))))
        assert value(permuted["divergence"], column=there) == pytest.approx(expected, abs=1e-5)


def test_a_long_sentence_counts_by_its_rows_and_a_mean_by_sentences_does_not() -> None:
    """Sums over sentences of unequal lengths keep both ways apart."""
    weights = torch.zeros(2, 1, 6, 6)
    visible = torch.zeros(2, 6, 6, dtype=torch.bool)
    weights[0, 0, :2, 0], visible[0, :2, :2] = 1.0, True  # two rows on the first key
    weights[1, 0, :, 5], visible[1] = 1.0, True  # six rows on the last
    maps = given(weights, visible)
    found = text_totals(maps, keys_of(6, n_sentences=2, number=[0]))
    assert found["number"].counted[:, 0, 0].tolist() == [2, 6]
    assert value(found["number"]) == pytest.approx(2 / 8)
    assert np.mean(found["number"].total[:, 0, 0] / found["number"].counted[:, 0, 0]) == pytest.approx(1 / 2)


def test_ties_go_to_the_first_key() -> None:
    weights = torch.tensor([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4], [0.3, 0.4, 0.3]])[None, None]
    found = text_totals(given(weights), keys_of(3))
    hits = {d: found["argmax"].total[0, 0, i] for i, d in enumerate(OFFSETS) if found["argmax"].total[0, 0, i]}
    assert hits == {0: 2.0, -1: 1.0}


def some(n_sentences: int, seed: int) -> Totals:
    """Totals of sentences of different lengths; a few count nothing."""
    chance = np.random.default_rng(seed)
    counted = chance.integers(0, 9, (n_sentences, 1, 2))
    return Totals(chance.normal(1e6, 1, (n_sentences, 3, 2)) * counted, counted)


def test_parts_add_up_to_the_moments_of_numpy() -> None:
    """Values a million times their spread, where the difference of squares would keep nothing of it."""
    parts = [some(n, n) for n in (5, 1, 13, 2)]
    whole = Moments.of(parts[0])
    for part in parts[1:]:
        whole = whole.merged(Moments.of(part))
    total, counted = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    counted = np.broadcast_to(counted, total.shape)
    for head in range(3):
        for column in range(2):
            there = counted[:, head, column] > 0
            means = total[there, head, column] / counted[there, head, column]
            assert whole.rows[head, column] == counted[:, head, column].sum()
            assert whole.value[head, column] == pytest.approx(
                total[:, head, column].sum() / counted[:, head, column].sum()
            )
            assert whole.mean[head, column] == pytest.approx(means.mean(), rel=1e-12)
            assert whole.spread[head, column] == pytest.approx(means.std(ddof=1), rel=1e-6)


def test_what_was_never_counted_is_not_a_number_and_not_zero() -> None:
    nothing = Moments.of(Totals(np.zeros((4, 1, 1)), np.zeros((4, 1, 1), np.int64)))
    assert np.isnan(nothing.value).all()
    assert np.isnan(nothing.spread).all()
    one = Moments.of(Totals(np.full((1, 1, 1), 3.0), np.full((1, 1, 1), 2)))
    assert one.merged(nothing).value == nothing.merged(one).value == 1.5


def test_the_best_examples_stay_and_of_equals_the_first_lines() -> None:
    def part(*examples: tuple[float, int]) -> Accumulator:
        kept = tuple(Example(score, line, "", "") for score, line in examples)
        return Accumulator(examples={("encoder.self", "previous", 0): kept})

    found = Accumulator()
    for one in (part((0.9, 3), (0.5, 1)), part((0.9, 11), (0.7, 12)), part((0.7, 20), (0.2, 21))):
        found.add(one, 3)
    assert [example.line for example in found.examples["encoder.self", "previous", 0]] == [3, 11, 12]


def test_pairs_fill_both_halves_of_the_table() -> None:
    table = distance_matrix(5, np.arange(1.0, 11))
    for value, (i, j) in zip(range(1, 11), pairs_of(5), strict=True):
        assert table[i, j] == table[j, i] == value
    assert not table.diagonal().any()


def test_the_tree_joins_by_mean_distance_and_the_cut_makes_groups() -> None:
    points = np.array([[0.0], [1.0], [10.0], [11.5], [40.0]])
    tree = average_linkage(squareform(pdist(points)))
    assert tree[:, 2] == pytest.approx([1.0, 1.5, (10 + 9 + 11.5 + 10.5) / 4, np.mean([40, 39, 30, 28.5])])
    assert clusters(tree, 1.2).tolist() == [0, 0, 1, 2, 3]
    assert clusters(tree, 11.0).tolist() == [0, 0, 0, 0, 1]
    assert clusters(tree, 0.0).tolist() == [0, 1, 2, 3, 4]


TEXTS = ("ACGTTGCANGTACCGGTATGCAA", "TTGACCATGGACATTACCGTGAC")
"""Of the length that the model was trained on; N is a letter that is not known."""


@pytest.fixture(scope="module")
def both():
    """The totals of two sequences together, and each one's record."""
    checkpoint = sequence_checkpoint()
    subject = SequenceSubject(checkpoint)
    with torch.inference_mode():
        observed = subject.run([subject.read(i, text, None) for i, text in enumerate(TEXTS)])
    return {one.maps.group: one.totals for one in observed}, [classify(checkpoint, text) for text in TEXTS]


def test_offsets_are_letters_between_the_starts_of_windows(both) -> None:
    totals, runs = both
    for sentence, run in enumerate(runs):
        starts = [span.start for span in run.spans]
        weights = run.record["encoder.1.self"].weights(2)
        for offset in (-16, -3, 0, 1, 7):
            pairs = [(q, k) for q in range(len(starts)) for k in range(len(starts)) if starts[k] - starts[q] == offset]
            column = OFFSETS.index(offset)
            found = totals["encoder.self"]["offset"]
            assert found.total[sentence, 5, column] == pytest.approx(sum(weights[q, k] for q, k in pairs), abs=1e-5)
            assert found.counted[sentence, 0, column] == len({q for q, _ in pairs})
        nearest = [starts[k] - starts[q] for q, k in enumerate(weights.argmax(-1))]
        hits = totals["encoder.self"]["argmax"].total[sentence, 5]
        assert hits.tolist() == [nearest.count(offset) for offset in OFFSETS]


@pytest.mark.parametrize(("group", "site", "head"), [("encoder.self", "encoder.0.self", 1), ("pooling", "pooling", 1)])
def test_widths_bases_and_places_are_what_windows_receive_folded_onto_letters(both, group, site, head) -> None:
    totals, runs = both
    for sentence, run in enumerate(runs):
        attention = run.record[site]
        share = attention.received(head)
        track = folded(share, run.spans, len(TEXTS[0]))
        rows = attention.shape[0]
        found = totals[group]
        assert found["place"].total[sentence, head] / rows == pytest.approx(track.total, abs=1e-5)
        by_base = [sum(track.total[i] for i, base in enumerate(TEXTS[sentence]) if base == one) for one in "ACGT"]
        assert found["letter"].total[sentence, head] / rows == pytest.approx(by_base, abs=1e-5)
        widths = [sum(s for s, span in zip(share, run.spans, strict=True) if span.width == w) for w in (3, 5)]
        assert found["width"].total[sentence, head] / rows == pytest.approx(widths, abs=1e-5)
        even = folded(np.full(len(run.spans), 1 / len(run.spans)), run.spans, len(TEXTS[0]))
        assert found["place"].total[sentence, -1] / rows == pytest.approx(even.total, abs=1e-5)


def test_sequences_of_another_length_have_no_places() -> None:
    subject = SequenceSubject(sequence_checkpoint())
    with torch.inference_mode():
        (first, *_) = subject.run([subject.read(0, "ACGTACGTA", None)])
    assert "place" not in first.totals
    assert "letter" in first.totals
