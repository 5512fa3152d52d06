"""What is made of sums: parts added up, best examples, words, places and patterns that heads look at, their roles."""

from math import inf, nan

import numpy as np
import pytest

from heedmap.atlas.result import letters_of, place_of, words_of
from heedmap.atlas.roles import largest_shares, line_of, roles_of
from heedmap.atlas.statistics import MEASURES, Looked
from heedmap.atlas.summarise import Accumulator, ExampleSentence, Moments
from heedmap.attention.measures import Totals


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
            rows = counted[:, head, column].sum()
            assert whole.rows[head, column] == rows
            assert whole.value[head, column] == pytest.approx(total[:, head, column].sum() / rows)
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
        kept = tuple(ExampleSentence(score, line, "", "") for score, line in examples)
        return Accumulator(examples={("encoder.self", "previous", 0): kept})

    found = Accumulator()
    for one in (part((0.9, 3), (0.5, 1)), part((0.9, 11), (0.7, 12)), part((0.7, 20), (0.2, 21))):
        found.add(one, 3)
    assert [example.line for example in found.examples["encoder.self", "previous", 0]] == [3, 11, 12]


def test_words_stand_furthest_above_chance_first_with_the_strongest_contexts() -> None:
    texts = ["▁a", "▁dog", "s", "▁run"]
    counted = np.array([[5.0, 30.0, 60.0, 5.0], [40.0, 20.0, 20.0, 20.0]])
    pieces = ("▁a", "▁dog", "s", "▁run")
    one = Looked((pieces, pieces), [[1, 1, 2, 2]], [[0.5, 0.7, 0.9, 0.2]])
    two = Looked((pieces[:2], pieces[:2]), [[1, 0]], [[0.8, 0.9]])
    found = list(words_of(counted, 0, texts, [one, two]))
    assert [(row["word"], row["share"], row["chance"]) for row in found] == [("s", 0.6, 0.2), ("dog", 0.3, 0.2)]
    assert found[1]["contexts"] == [
        {"query": "a", "before": "a", "word": "dog", "after": "", "weight": 0.8},
        {"query": "dog", "before": "a", "word": "dog", "after": "s run", "weight": 0.7},
    ]


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


def head_row(site: str = "encoder.1.self", **values: object) -> dict[str, object]:
    """A head that does nothing in particular, but for `values`."""
    plain = dict.fromkeys(MEASURES, 0.1) | {f"{name}_chance": 0.1 for name in MEASURES}
    return plain | {"site": site, "head": 0, "peak_offset": 2, "peak_share": 0.2, "normalised_entropy": 0.5} | values


PLACE = {"place": 30, "place_share": 0.91, "place_chance": 0.05}
LETTERS_OF = {"pattern": "AG", "pattern_at": 10, "pattern_width": 11, "pattern_share": 0.92}
WIDTH = {"widths": [0.06, 0.94], "width": 11, "width_share": 0.94}


@pytest.mark.parametrize(
    ("values", "found", "said"),
    [
        ({}, (), "no single habit: 50% of the greatest possible entropy"),
        ({"peak_offset": -1, "peak_share": 0.9}, ("positional",), "looks one position back in 90% of rows"),
        ({"peak_offset": 3, "peak_share": 0.94}, ("positional",), "looks 3 positions ahead in 94% of rows"),
        ({"peak_offset": 0, "peak_share": 0.94, "site": "decoder.0.self"}, ("positional",),
         "looks at the token read last in 94% of rows"),
        ({"peak_offset": -1, "peak_share": 0.899}, (), ""),
        ({"peak_share": 0.95, "site": "decoder.1.cross"}, (), ""),
        ({"previous": 0.5, "peak_share": 0.9}, ("positional", "half_previous"), ""),
        ({"same": 0.61, "site": "decoder.0.self"}, ("half_same",), "puts 61% of its weight on the token read last"),
        ({"next": 0.61}, ("half_next",), "puts 61% of its weight on the next position"),
        ({"next": 0.499}, (), ""),
        ({"special": 0.6}, ("separator",), "rests on start and end tokens: 60% of its weight"),
        ({"special": 0.59}, (), ""),
        ({"rare": 0.5}, ("rare",), ""),
        ({"punctuation": 0.7}, ("punctuation",), ""),
        ({"punctuation": 0.3}, (), "30% of its weight on punctuation, 3.0 times chance"),
        ({"normalised_entropy": 0.9}, ("broad",), ""),
        ({"advance": 0.95, "confidence": 0.6, "site": "decoder.0.cross"}, ("aligned",), ""),
        ({"advance": 0.95, "confidence": 0.6}, (), ""),
        ({"advance": 0.95, "confidence": 0.4, "site": "decoder.0.cross"}, (), ""),
        ({"previous": nan, "rare": nan, "special": nan}, (), ""),
        (PLACE | LETTERS_OF, ("place", "letters"), "looks round letter 30 of every sequence in 91% of rows"),
        (PLACE | {"place_share": 0.89}, (), "looks round letter 30 in 89% of rows, 17.8 times chance"),
        (LETTERS_OF, ("letters",), "looks at windows with AG at letter 10 of 11: 92% of rows"),
        (LETTERS_OF | {"pattern_share": 0.89}, (), ""),
        (WIDTH, ("width",), "reads windows of 11 letters: 94% of its weight"),
        (WIDTH | {"widths": [1.0]}, (), ""),
        ({"place_share": None, "pattern_share": None, "widths": None}, (), ""),
    ],
)  # fmt: skip
def test_a_role_begins_at_its_threshold_and_a_line_says_how_usual_it_is(values, found, said) -> None:
    row = head_row(**values)
    assert roles_of(row) == found
    line = line_of(row)
    assert line == said or not said
    assert line.in_language("zh") != line


def test_shares_are_ordered_by_how_far_they_are_above_chance() -> None:
    """Six times a chance of a hundredth is less than twice one of a third."""
    values = {"number": 0.06, "number_chance": 0.01, "previous": 0.66, "previous_chance": 0.33, "end": nan}
    names = [name for name, _, _ in largest_shares(head_row(**values), 2)]
    assert names == ["previous", "number"]
    assert all(ratio < inf for _, _, ratio in largest_shares(head_row(**values, start_chance=0.0), 9))
