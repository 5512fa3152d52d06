"""What rows look at most, counted by hand from the weights of a batch, and what is said of it."""

from collections import Counter

import numpy as np
import pytest
import torch

from tests.atlas.test_statistics import given
from transformer.atlas.looks import (
    LETTERS,
    MIDDLE,
    N_DRAWN,
    Looked,
    drawn,
    letters_of,
    looked,
    place_of,
    window_tallies,
    word_tally,
    words_of,
)
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
    maps = given(weights(2, 3, 4, 5))
    keys, large = looked(maps, 1)
    assert keys == maps.weights[1, :-1].argmax(-1).tolist()
    assert np.array(large) == pytest.approx(maps.weights[1, :-1].amax(-1).numpy(), abs=1e-4)
