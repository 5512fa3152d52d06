"""What rows look at most, counted by hand from the weights of a batch, and said; then a published measure of heads.

That is Clark et al. 2019 ("What Does BERT Look At?", sections 3.1 to 3.3) by their own definitions. Theirs: a share is
the weight on a class of keys, summed over a document and divided by the number of its tokens, and documents count
alike. Entropy is taken of 0.9999 a + 0.0001 / n. Ours: rows count alike; a position is averaged over the rows that have
it; nothing is smoothed. Up to these three, the numbers are the same.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import transformers

from tests.atlas.test_statistics import given, keys_of, value
from tests.checkpoint.huggingface.families import write_folder
from transformer.atlas.corpus import Corpus
from transformer.atlas.executors import Serial
from transformer.atlas.looks import (
    LETTERS,
    MIDDLE,
    N_DRAWN,
    Looked,
    drawn,
    drawn_by,
    letters_of,
    looked,
    place_of,
    share_drawn,
    window_tallies,
    word_tally,
    words_of,
)
from transformer.atlas.roles import roles_of
from transformer.atlas.run import Request, make_atlas
from transformer.atlas.statistics import text_totals
from transformer.checkpoint.huggingface.tokenizer import read_tokenizer
from transformer.nn.kmers import windows


def weights(*shape: int) -> torch.Tensor:
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(7)) * 3).softmax(-1)


def test_words_are_counted_by_the_largest_weight_of_each_row_and_chance_by_even_attention() -> None:
    n_sentences, n_heads, n_queries, n_keys, n_tokens = 3, 2, 5, 7, 11
    maps = given(weights(n_sentences, n_heads, n_queries, n_keys))
    ids = torch.randint(n_tokens + 1, (n_sentences, n_keys), generator=torch.Generator().manual_seed(3))
    found = word_tally(maps, ids, n_tokens)
    for head in range(n_heads):
        best = maps.weights[:, head].argmax(-1)
        counted = Counter(int(ids[s, best[s, q]]) for s in range(n_sentences) for q in range(n_queries))
        assert found[head].tolist() == [counted[token] for token in range(n_tokens)]
    even = Counter({token: int((ids == token).sum()) * n_queries / n_keys for token in range(n_tokens)})
    assert found[-1] == pytest.approx([even[token] for token in range(n_tokens)])


def test_words_stand_furthest_above_chance_first_with_the_strongest_contexts() -> None:
    texts = ["▁a", "▁dog", "s", "▁run"]
    counted = np.array([[5.0, 30.0, 60.0, 5.0], [40.0, 20.0, 20.0, 20.0]])
    pieces = ("▁a", "▁dog", "s", "▁run")
    one = Looked({"k": (pieces, pieces)}, {"k": [[1, 1, 2, 2]]}, {"k": [[0.5, 0.7, 0.9, 0.2]]})
    two = Looked({"k": (pieces[:2], pieces[:2])}, {"k": [[1, 0]]}, {"k": [[0.8, 0.9]]})
    found = list(words_of(counted, 0, texts, "k", [one, two]))
    assert [(row["word"], row["share"], row["chance"]) for row in found] == [("s", 0.6, 0.2), ("dog", 0.3, 0.2)]
    assert found[1]["contexts"] == [
        {"query": "a", "before": "a", "word": "dog", "after": "", "weight": 0.8},
        {"query": "dog", "before": "a", "word": "dog", "after": "s run", "weight": 0.7},
    ]


def test_windows_are_counted_by_place_and_by_the_letters_that_they_have() -> None:
    length, widths, n_heads = 13, (3, 5), 2
    spans = windows(length, widths)
    letters = torch.randint(4, (6, length), generator=torch.Generator().manual_seed(5))
    maps = given(weights(6, n_heads, 4, len(spans)))
    found = window_tallies(maps, letters, spans, "ACGT")
    tables = {name: table for name, table in found.items() if name.startswith(LETTERS)}
    assert list(tables) == ["letters.ACGT.3", "letters.ACGT.5"]
    for head in range(n_heads):
        best = [(s, spans[int(w)]) for s in range(6) for w in maps.weights[s, head].argmax(-1)]
        middles = Counter(2 * one.start + one.width - 1 for _, one in best)
        assert found[MIDDLE][head].tolist() == [middles[i] for i in range(2 * length)]
        for width in widths:
            counted = Counter(
                (column, int(letters[s, one.start + column]))
                for s, one in best if one.width == width for column in range(width)
            )  # fmt: skip
            expected = [counted[column, letter] for column in range(width) for letter in range(4)]
            assert tables[f"letters.ACGT.{width}"][head].tolist() == expected
    assert found[MIDDLE][-1].sum() == pytest.approx(24)
    assert sum(table[-1][:4].sum() for table in tables.values()) == pytest.approx(24)


def test_a_place_is_where_most_rows_look_one_letter_to_each_side_counted_in() -> None:
    middles, even = np.zeros(40), np.zeros(40)
    middles[[16, 18, 20, 30]] = 3, 5, 2, 4  # round letters 9, 10, 11 and 16
    even[4:36:2] = 1.0
    found = place_of(middles, even)
    assert found == {"place": 10, "place_share": pytest.approx(10 / 14), "place_chance": pytest.approx(3 / 16)}
    assert np.isnan(place_of(np.zeros(40), even)["place_share"])


def test_a_pattern_is_the_longest_run_of_sure_columns_and_its_share_counts_all_rows() -> None:
    sure = np.array([[3, 3, 2, 2], [19, 0, 1, 0], [0, 0, 20, 0], [9, 3, 4, 4]], dtype=float)  # A.., then A G sure
    tables = {"letters.ACGT.3": np.ones((2, 12)), "letters.ACGT.4": np.stack([sure.ravel() * 2, np.full(16, 5.0)])}
    found = letters_of(tables, 0, (50.0, 80.0))
    assert (found["pattern"], found["pattern_at"], found["pattern_width"]) == ("AG", 2, 4)
    assert found["pattern_share"] == pytest.approx(38 / 50)
    assert found["pattern_chance"] == pytest.approx(5 / 80)
    assert np.array(found["columns"]).reshape(4, 4).sum(1) == pytest.approx([1, 1, 1, 1])


def test_the_same_lines_are_drawn_whoever_reads_them_and_each_row_keeps_its_key() -> None:
    numbers = list(range(1_000))
    assert drawn(numbers) == drawn(numbers[::-1])
    assert len(drawn(numbers)) == N_DRAWN
    both = drawn(drawn(numbers[:500]) + drawn(numbers[500:]))
    assert both == drawn(numbers)
    many = range(20_000)
    assert drawn([i for i in many if drawn_by(i) <= share_drawn(len(many))]) == drawn(many)
    assert share_drawn(4 * N_DRAWN) == 1
    maps = given(weights(2, 3, 4, 5))
    keys, large = looked(maps, 1)
    assert keys == maps.weights[1, :-1].argmax(-1).tolist()
    assert np.array(large) == pytest.approx(maps.weights[1, :-1].amax(-1).numpy(), abs=1e-4)


N = 23
CLS, SEP, COMMA = [0], [11, N - 1], [4, 17]
CENTRES = {"left": -1, "self": 0, "right": 1}


def published(attention: np.ndarray) -> dict[str, float]:
    """One document's numbers of one head, as Clark et al. define them: key = query - 1 is what is left of a token."""
    n = len(attention)
    found = {name: float(np.trace(attention, offset)) / n for name, offset in CENTRES.items()}
    found |= {
        name: float(attention[:, keys].sum()) / n for name, keys in (("cls", CLS), ("sep", SEP), ("punct", COMMA))
    }
    smooth = 0.9999 * attention + 0.0001 / n
    return found | {"entropy": float(-(smooth * np.log(smooth)).sum(-1).mean())}


@pytest.mark.parametrize("seed", [1, 2])
def test_shares_and_entropy_are_the_published_ones_up_to_what_is_said(seed: int) -> None:
    scores = torch.randn(1, 1, N, N, generator=torch.Generator().manual_seed(seed)) * 3
    weights = scores.softmax(-1)
    ours = text_totals(given(weights), keys_of(N, special=CLS + SEP, start=CLS, end=SEP, punctuation=COMMA))
    theirs = published(weights[0, 0].double().numpy())
    for name, offset in CENTRES.items():
        rows = N - abs(offset)  # the first token has no left one, and they count it all the same
        assert value(ours["offset"], column=16 + offset) * rows / N == pytest.approx(theirs[name], abs=1e-6)
    for mine, their in (("start", "cls"), ("end", "sep"), ("punctuation", "punct")):
        assert value(ours[mine]) == pytest.approx(theirs[their], abs=1e-6)
    assert value(ours["special"]) == pytest.approx(theirs["cls"] + theirs["sep"], abs=1e-6)
    assert value(ours["entropy"]) == pytest.approx(theirs["entropy"], abs=2e-3)


@pytest.mark.parametrize(("offset", "role"), [(-1, "half_previous"), (1, "half_next"), (0, "half_same")])
@pytest.mark.parametrize("strength", [0.46, 0.56])
def test_a_head_is_positional_where_the_published_share_passes_one_half(offset, role, strength) -> None:
    """Left and right are not exchanged: key = query - 1 is the previous token."""
    there = np.eye(N, k=offset)
    weights = strength * there + (1 - strength * there.sum(1, keepdims=True)) / N
    found = text_totals(given(torch.tensor(weights)[None, None].float()), keys_of(N))
    row = {"site": "encoder.0.self", "peak_share": 0.0, "special": 0.0, "rare": np.nan, "punctuation": 0.0}
    row |= {"normalised_entropy": 0.0, "advance": np.nan, "confidence": 0.0}
    row |= {name: value(found["offset"], column=15 + i) for i, name in enumerate(("previous", "same", "next"))}
    share = published(weights)[{-1: "left", 0: "self", 1: "right"}[offset]]
    assert (role in roles_of(row)) == (share * N / (N - abs(offset)) >= 0.5)
    assert (strength > 0.5) == (role in roles_of(row))


@pytest.mark.parametrize("family", ["bert", "marian"])
def test_a_folder_of_another_library_is_measured_as_its_own_attention_says(family: str, tmp_path: Path) -> None:
    """The whole pass against that library's eager attention, sentence by sentence, by loops."""
    folder = write_folder(tmp_path / family, family)
    lines = ["the dog eats.", "the cat and the bird sleeps.", "a man and the dog and the bird eats.", "the bird runs."]
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    target = tmp_path / "a.txt" if family == "marian" else None
    make_atlas(Request(folder, Corpus(tmp_path / "a.txt", target), tmp_path / "out"), Serial())
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
        for head in range(len(found[0])):
            rows = [(q, row) for one in found for q, row in enumerate(one[head])]
            seen = [(q, row[: q + 1] if site == "decoder." + site.split(".")[1] + ".self" else row) for q, row in rows]
            entropies = [-(row * np.log(np.maximum(row, 1e-30))).sum() for _, row in seen if len(row) > 1]
            row = heads.loc[site, head]
            assert row["rows"] == len(entropies)
            assert row["entropy"] == pytest.approx(np.mean(entropies), abs=1e-4)
            if site.endswith("self"):
                previous = [row[q - 1] for q, row in seen if q > 0]
                assert row["previous"] == pytest.approx(np.mean(previous), abs=1e-5)
            ends = [row[-1] for _, row in seen if len(row) > 1]
            if not site.startswith("decoder") or site.endswith("cross"):
                assert row["end"] == pytest.approx(np.mean(ends), abs=1e-5)
