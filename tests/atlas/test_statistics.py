"""Every measure of a batch against the sentence's own record and by hand; windows, and what rows look at."""

from collections import Counter
from math import log
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from scipy.spatial.distance import jensenshannon

from heedmap.atlas import statistics
from heedmap.atlas.corpus import Chunk, Corpus, TokenCounts
from heedmap.atlas.run import make_atlas
from heedmap.atlas.statistics import OFFSETS, SHARES, Maps, TextKeys, pairs_of, text_totals
from heedmap.atlas.subjects import SequenceSubject, TextSubject
from heedmap.atlas.summarise import sums_of
from heedmap.attention.measures import Totals, measure
from heedmap.checkpoint import load
from heedmap.checkpoint.huggingface.tokenizer import read_tokenizer
from heedmap.nn.kmer import windows
from heedmap.runs.sequences.classify import classify
from heedmap.runs.translate import translate
from heedmap.sequences.tracks import folded
from heedmap.sites import Site
from tests.checkpoint.huggingface.families import write_folder
from tests.classifiers import sequence_checkpoint

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
PAIRS = (
    ("Two dogs are playing in the snow.", "Zwei Hunde spielen im Schnee."),
    ("A man.", "Ein alter Mann mit 3 Hunden, die schlafen."),
    ("Three women are sitting on a bench in the park and talking, 17 of them.", "Drei Frauen."),
)
"""Of different lengths, so that the batch is padded on both sides."""


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


@pytest.fixture(scope="module", params=["multi30k-en-de", "multi30k-en-de-rnn", "multi30k-en-de-rnn-location"])
def measured(
    request: pytest.FixtureRequest,
) -> tuple[dict[str, dict[str, Totals]], list[dict[Site, list[dict[str, float]]]]]:
    """A padded batch by kind and measure, and each sentence's record measured head by head."""
    checkpoint = load(CHECKPOINTS / request.param)
    subject = TextSubject(checkpoint, TokenCounts())
    readings = [subject.read(i, *pair) for i, pair in enumerate(PAIRS)]
    with torch.inference_mode():
        _, observed = subject.run(readings)
    alone = []
    for source, target in PAIRS:
        record = translate(checkpoint, source, forced=target).record
        alone.append({site: [measure(map_, head) for head in range(map_.n_heads)] for site, map_ in record.items()})
    return {one.maps.group: dict(one.totals) for one in observed}, alone


def test_a_padded_batch_measures_each_sentence_as_its_record_does(measured) -> None:
    totals, alone = measured
    names = ("entropy", "normalised_entropy", "distance", "confidence", "special")
    columns = {name: OFFSETS.index(offset) for offset, name in ((-1, "previous"), (0, "same"), (1, "next"))}
    compared = 0
    for sentence, record in enumerate(alone):
        for group, found in totals.items():
            heads = [(site, head) for site, heads in record.items() if site.group == group for head in heads]
            for index, (site, head) in enumerate(heads):
                for name in found.keys() & names:
                    total, count = found[name].total[sentence, index, 0], found[name].counted[sentence, 0, 0]
                    assert total / count == pytest.approx(head[name], rel=2e-4, abs=2e-5), (group, name)
                    compared += 1
                if site.kind == "self":
                    for name, column in columns.items():
                        total, count = (getattr(found["offset"], one)[sentence] for one in ("total", "counted"))
                        share = total[index, column] / count[0, column] if count[0, column] else np.nan
                        assert share == pytest.approx(head[name], abs=2e-5, nan_ok=True)
                ends = sum(found[name].total[sentence, index, 0] for name in ("start", "end"))
                assert ends == pytest.approx(found["special"].total[sentence, index, 0], abs=1e-5)
                z = found["advance"]
                if z.counted[sentence, index, 0]:
                    assert np.tanh(z.total[sentence, index, 0]) == pytest.approx(head["advance"], abs=1e-3)
    assert compared > 5


@pytest.mark.parametrize(("offset", "name"), [(-1, "previous"), (0, "same"), (1, "next"), (-4, "far back")])
def test_a_shifted_identity_is_positional_at_its_offset_and_nowhere_else(offset: int, name: str) -> None:
    """A sign that is turned round (previous for next) shows here: key = query + offset."""
    n = 11
    found = text_totals(given(torch.eye(n)[(torch.arange(n) + offset).clamp(0, n - 1)][None, None]), keys_of(n))
    share = {d: value(found["offset"], column=i) for i, d in enumerate(OFFSETS) if abs(d) < n}
    assert share[offset] == 1.0
    assert all(share[d] < 1 for d in share if d != offset)
    hits = {d: value(found["argmax"], column=i) for i, d in enumerate(OFFSETS)}
    assert max(hits, key=lambda d: hits[d]) == offset
    assert hits[offset] == pytest.approx((n - abs(offset)) / n)
    assert value(found["entropy"]) == pytest.approx(0, abs=1e-6)


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
    visible = torch.ones(1, n, n, dtype=torch.bool).tril(0 if causal else n)
    scores = torch.randn(1, 3, n, n, generator=torch.Generator().manual_seed(3)) * 2
    maps = given(scores.masked_fill(~visible, -torch.inf).softmax(-1), visible)
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


TEXTS = ("ACGTTGCANGTACCGGTATGCAA", "TTGACCATGGACATTACCGTGAC")
"""Of the length that the model was trained on; N is a letter that is not known."""


@pytest.fixture(scope="module")
def both():
    """The totals of two sequences together, and each one's record."""
    checkpoint = sequence_checkpoint()
    subject = SequenceSubject(checkpoint)
    with torch.inference_mode():
        _, observed = subject.run([subject.read(i, text, None) for i, text in enumerate(TEXTS)])
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


def test_sequences_of_another_length_have_no_places_and_do_not_count_among_those_that_have() -> None:
    subject, short = SequenceSubject(sequence_checkpoint()), "ACGTACGTA"
    other, usual, both = (
        sums_of(subject, Chunk(0, 0, tuple(text.encode() for text in texts))).moments
        for texts in ((short,), TEXTS, (TEXTS[0], short, TEXTS[1]))
    )
    for group in ("encoder.self", "pooling"):
        assert (group, "place") not in other
        np.testing.assert_allclose(both[group, "place"].value, usual[group, "place"].value)
        rows = [sums[group, "letter"].rows[0, 0] for sums in (other, usual, both)]
        assert rows[0] + rows[1] == rows[2]


def weights(*shape: int) -> torch.Tensor:
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(7)) * 3).softmax(-1)


def test_words_are_counted_by_the_largest_weight_of_each_row_and_chance_by_even_attention() -> None:
    n_sentences, n_heads, n_queries, n_keys, n_tokens = 3, 2, 5, 7, 11
    maps = given(weights(n_sentences, n_heads, n_queries, n_keys))
    ids = torch.randint(n_tokens + 1, (n_sentences, n_keys), generator=torch.Generator().manual_seed(3))
    found = statistics.word_tally(maps, ids, n_tokens)
    for head in range(n_heads):
        best = maps.weights[:, head].argmax(-1)
        counted = Counter(int(ids[s, best[s, q]]) for s in range(n_sentences) for q in range(n_queries))
        assert found[head].tolist() == [counted[token] for token in range(n_tokens)]
    even = Counter({token: int((ids == token).sum()) * n_queries / n_keys for token in range(n_tokens)})
    assert found[-1] == pytest.approx([even[token] for token in range(n_tokens)])


def test_windows_are_counted_by_place_and_by_the_letters_that_they_have() -> None:
    length, widths, n_heads = 13, (3, 5), 2
    spans = windows(length, widths)
    letters = torch.randint(4, (6, length), generator=torch.Generator().manual_seed(5))
    maps = given(weights(6, n_heads, 4, len(spans)))
    found = statistics.window_tallies(maps, letters, spans, "ACGT")
    tables = {name: table for name, table in found.items() if name.startswith(statistics.LETTERS)}
    assert list(tables) == ["letters.ACGT.3", "letters.ACGT.5"]
    for head in range(n_heads):
        best = [(s, spans[int(w)]) for s in range(6) for w in maps.weights[s, head].argmax(-1)]
        middles = Counter(2 * one.start + one.width - 1 for _, one in best)
        assert found[statistics.MIDDLE][head].tolist() == [middles[i] for i in range(2 * length)]
        for width in widths:
            counted = Counter(
                (column, int(letters[s, one.start + column]))
                for s, one in best if one.width == width for column in range(width)
            )  # fmt: skip
            expected = [counted[column, letter] for column in range(width) for letter in range(4)]
            assert tables[f"letters.ACGT.{width}"][head].tolist() == expected
    assert found[statistics.MIDDLE][-1].sum() == pytest.approx(24)
    assert sum(table[-1][:4].sum() for table in tables.values()) == pytest.approx(24)


def test_the_same_lines_are_drawn_whoever_reads_them_and_each_row_keeps_its_key() -> None:
    numbers, drawn, count = list(range(1_000)), statistics.drawn, statistics.N_DRAWN
    assert drawn(numbers) == drawn(numbers[::-1]) == drawn(drawn(numbers[:500]) + drawn(numbers[500:]))
    many = range(20_000)
    near = [i for i in many if statistics.drawn_by(i) <= statistics.share_drawn(len(many))]
    assert drawn(near) == drawn(many)
    assert (len(drawn(numbers)), statistics.share_drawn(4 * count)) == (count, 1)
    maps = given(weights(2, 3, 4, 5))
    keys, large = statistics.looked(maps, 1)
    assert keys == maps.weights[1, :-1].argmax(-1).tolist()
    assert np.array(large) == pytest.approx(maps.weights[1, :-1].amax(-1).numpy(), abs=1e-4)


@pytest.mark.parametrize("family", ["bert", "marian"])
def test_a_folder_of_another_library_is_measured_as_its_own_attention_says(family: str, tmp_path: Path) -> None:
    """The whole pass against that library's eager attention, sentence by sentence, by loops."""
    folder = write_folder(tmp_path / family, family)
    lines = ["the dog eats.", "the cat and the bird sleeps.", "a man and the dog and the bird eats.", "the bird runs."]
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    target = tmp_path / "a.txt" if family == "marian" else None
    make_atlas(folder, Corpus(tmp_path / "a.txt", target), tmp_path / "out")
    heads = pd.read_parquet(tmp_path / "out" / "heads.parquet").set_index(["site", "head"])
    tokenizer = read_tokenizer(folder)
    kind = transformers.AutoModelForSeq2SeqLM if family == "marian" else transformers.AutoModelForMaskedLM
    model = kind.from_pretrained(folder, attn_implementation="eager").eval()
    maps: dict[str, list[np.ndarray]] = {}
    for text in lines:
        ids = torch.tensor([tokenizer.source_ids(text)])
        with torch.no_grad():
            if family == "bert":
                parts = {"encoder.{}.self": model(ids, output_attentions=True).attentions}
            else:
                read = torch.cat([torch.tensor([[model.config.decoder_start_token_id]]), ids[:, :-1]], dim=1)
                out = model(ids, decoder_input_ids=read, output_attentions=True)
                parts = {"encoder.{}.self": out.encoder_attentions, "decoder.{}.self": out.decoder_attentions}
                parts |= {"decoder.{}.cross": out.cross_attentions}
        for name, layers in parts.items():
            for layer, attention in enumerate(layers):
                maps.setdefault(name.format(layer), []).append(attention[0].double().numpy())
    assert set(maps) == set(heads.index.get_level_values("site"))
    for site, found in maps.items():
        causal = site.startswith("decoder") and site.endswith("self")
        for head in range(len(found[0])):
            rows = [(q, row) for one in found for q, row in enumerate(one[head])]
            seen = [(q, row[: q + 1] if causal else row) for q, row in rows]
            entropies = [-(row * np.log(np.maximum(row, 1e-30))).sum() for _, row in seen if len(row) > 1]
            row = heads.loc[site, head]
            assert row["rows"] == len(entropies)
            assert row["entropy"] == pytest.approx(np.mean(entropies), abs=1e-4)
            if site.endswith("self"):
                previous = [row[q - 1] for q, row in seen if q > 0]
                assert row["previous"] == pytest.approx(np.mean(previous), abs=1e-5)
            ends = [row[-1] for _, row in seen if len(row) > 1]
            if not causal:
                assert row["end"] == pytest.approx(np.mean(ends), abs=1e-5)
