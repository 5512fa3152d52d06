"""Alignment error rates of a translator's heads and methods against links that people drew."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heedmap.checkpoint import load
from heedmap.plots.axes import Axis
from heedmap.runs.translate import translate
from tests import toy
from tools import ToolError, alignment_error
from tools.alignment_error import (
    AlignmentCounts,
    GoldAlignment,
    alignment_counts,
    alignment_errors,
    gold_alignments,
    main,
    word_positions,
    words_of,
)

ALIGNMENTS = Path(alignment_error.__file__).parent / "alignments"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("A man, alone.", ["A", "man", ",", "alone", "."]),
        ("her dad's T-Shirt", ["her", "dad's", "T-Shirt"]),
        ("ein blau-rot-weißes", ["ein", "blau-rot-weißes"]),
        ("Garten- und Arbeit", ["Garten", "-", "und", "Arbeit"]),
        ("a--b -c d' 'e", ["a", "-", "-", "b", "-", "c", "d", "'", "'", "e"]),
        ("3.5 m\t(wide)\n", ["3", ".", "5", "m", "(", "wide", ")"]),
        ("l\u2019été 🎉!", ["l\u2019été", "🎉", "!"]),
    ],
)
def test_the_words_of_a_sentence(text: str, words: list[str]) -> None:
    assert words_of(text) == tuple(words)


@given(st.text())
def test_words_are_the_text_without_its_spaces(text: str) -> None:
    assert "".join(words_of(text)) == "".join(text.split())


@pytest.fixture(scope="module")
def gold() -> tuple[GoldAlignment, ...]:
    return gold_alignments(ALIGNMENTS)


def test_the_counts_are_those_of_its_readme(gold: tuple[GoldAlignment, ...]) -> None:
    sure, possible = sum(len(pair.sure) for pair in gold), sum(len(pair.possible) for pair in gold)
    words = sum(len(pair.source_words) for pair in gold), sum(len(pair.target_words) for pair in gold)
    assert (sure, possible, *words) == (1019, 189, 1096, 1101)
    readme = (ALIGNMENTS / "README.md").read_text(encoding="utf-8")
    assert "1,019 sure and 189 possible links over 1,096 English and\n1,101 German words" in readme


def written(folder: Path, source: str, target: str, links: str) -> Path:
    for name, text in (("sentences.en", source), ("sentences.de", target), ("links.txt", links)):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_sure_and_possible_are_told_apart(tmp_path: Path) -> None:
    (pair,) = gold_alignments(written(tmp_path, "two dogs run.\n", "zwei Hunde\n", "0-0 1-1 2?1\n"))
    assert pair.sure == {(0, 0), (1, 1)}
    assert pair.possible == {(2, 1)}
    assert pair.source_words == ("two", "dogs", "run", ".")


@pytest.mark.parametrize(
    ("links", "says"),
    [
        ("0-0\n0-0\n", "1 lines of sources, 1 of translations and 2 of links: line i of each belongs together"),
        ("\n", "line 1 holds no link: link at least one word"),
        ("0-0 1:1\n", "line 1 holds '1:1': write a link as 0-0 .sure. or 0.0 .possible."),
        ("0-0 -1-1\n", "line 1 holds '-1-1': write a link"),
        ("0-0 4-0\n", "line 1 links 4-0, but its source has 4 words and its translation 2, counted from 0"),
        ("0-0 0-2\n", "line 1 links 0-2, but its source has 4 words"),
        ("0-0 0?0\n", "line 1 holds the link 0.0 twice"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, links: str, says: str) -> None:
    with pytest.raises(ToolError, match=says):
        gold_alignments(written(tmp_path, "two dogs run.\n", "zwei Hunde\n", links))


SOURCE = Axis.of_pieces("source", ["▁two", "▁base", "ball", "s", ".", "</s>"], [False] * 5 + [True])
STEPS = Axis.of_pieces("steps", ["▁zwei", "▁Bäl", "le", ".", "</s>"], [False] * 4 + [True])
GOLD = GoldAlignment("two baseballs.", "zwei Bälle.", frozenset({(0, 0), (1, 1)}), frozenset({(2, 2), (0, 1)}))

WRITES = np.array(
    [
        [0.5, 0.1, 0.1, 0.1, 0.1, 0.1],  # zwei: two
        [0.4, 0.1, 0.2, 0.2, 0.1, 0.0],  # Bäl: baseballs in sum, although "two" is the largest piece
        [0.3, 0.3, 0.0, 0.1, 0.1, 0.2],
        [0.1, 0.1, 0.1, 0.0, 0.2, 0.5],  # the full stop: the end token, so no link
        [0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
    ]
)


def test_pieces_are_summed_on_the_side_of_the_source_and_averaged_on_the_other() -> None:
    found = alignment_counts(WRITES, STEPS, SOURCE, GOLD)
    assert (found, found.error_rate) == (AlignmentCounts(2, 2, 4, 2, 2), 0.0)
    values = WRITES.copy()
    values[0, 2] = np.nan  # a row without numbers links nothing
    assert alignment_counts(values, STEPS, SOURCE, GOLD).found == 1


def test_the_row_that_reads_a_word_is_the_one_after() -> None:
    found = alignment_counts(WRITES, STEPS, SOURCE, GOLD, reads=True)
    assert found.sure == 2
    rows = {0: WRITES[1], 1: (WRITES[2] + WRITES[3]) / 2, 2: WRITES[4]}
    links = set()
    for word, row in rows.items():
        sums = [row[0], row[1:4].sum(), row[4], row[5]]
        if np.argmax(sums) < 3:
            links.add((int(np.argmax(sums)), word))
    assert (found.found, found.found_sure) == (len(links), len(links & GOLD.sure))
    assert found.found_possible == len(links & (GOLD.sure | GOLD.possible))


def test_counts_add_up_and_make_the_rate() -> None:
    whole = AlignmentCounts(5, 4, 7, 3, 4) + AlignmentCounts(3, 4, 5, 1, 2)
    assert whole == AlignmentCounts(8, 8, 12, 4, 6)
    assert whole.error_rate == pytest.approx(1 - 10 / 16)
    assert np.isnan(AlignmentCounts().error_rate)


def test_a_piece_belongs_to_the_word_of_its_first_letter() -> None:
    axis = Axis.of_pieces("source", ["▁", "T", "-", "shirt", "▁dad", "'", "s", "!", "</s>"], [False] * 8 + [True])
    assert word_positions(axis, ["T-shirt", "dad's", "!"]) == [[0, 1, 2, 3], [4, 5, 6], [7]]
    for words in (["T-shirt", "dads", "!"], ["T-shirt", "dad's"], ["T-shirt", "dad's", "!", "?"]):
        with pytest.raises(ToolError, match="do not make up the words of the links"):
            word_positions(axis, words)


PAIRS = (
    ("the dog runs.", "der Hund läuft.", "0-0 1-1 2-2 3-3"),
    ("the cat eats.", "der Katze isst.", "0-0 1-1 2?2 3-3"),
)


@pytest.fixture
def links(tmp_path: Path) -> Path:
    """A folder of sentences whose words are linked."""
    (tmp_path / "links").mkdir()
    toy.write_sides(tmp_path / "links", PAIRS, "sentences.en", "sentences.de", "links.txt")
    return tmp_path / "links"


def test_counts_are_of_the_largest_weight_of_each_word(links: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    checkpoint = load(toy.write_checkpoint(tmp_path / "toy"))
    every = alignment_errors(checkpoint, gold_alignments(links))
    found = good = 0
    for source, target, _ in PAIRS:
        picture = translate(checkpoint, source, forced=target).record["decoder.0.cross"].picture(1, words=True)
        assert picture.queries.texts[:3] == tuple(target[:-1].split())
        for row, weights in enumerate(picture.values[:-1]):
            best = int(np.argmax(weights))
            found += best < 4
            good += best == row and not (source.startswith("the cat") and row == 2)
    counts = every["weights.0.1"]["written"]
    assert counts == AlignmentCounts(found, 7, 8, good, counts.found_possible)
    heads = {name: counts for name, counts in every.items() if name.split(".")[0] == "weights"}
    assert alignment_errors(checkpoint, gold_alignments(links), only={"weights"}) == heads
    assert {"norms", "norms.0", "norms.0.1", "contributions.0", "rollout", "deletion"} <= set(every)


def test_the_command_prints_the_table_or_one_sentence(
    links: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = toy.write_checkpoint(tmp_path / "toy")
    command = [str(folder), str(links), "--quiet", "--methods", "weights"]
    assert main(command) == 0
    rates = alignment_errors(load(folder), gold_alignments(links), only={"weights"})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(rates)
    of = rates["weights.0.1"]
    assert f"| weights.0.1 | {of['written'].error_rate:.1%} | {of['read'].error_rate:.1%} |" in lines
    assert main(["nowhere", *command[1:]]) == 2
    (links / "links.txt").write_text("0-0\n\n", encoding="utf-8")
    assert main(command) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 2)
    assert told.err.endswith("error: line 2 holds no link: link at least one word, or leave the sentence out\n")
