"""The alignments by hand: every line is sound, and a wrong one is named."""

from collections import Counter
from pathlib import Path

import pytest

from transformer.errors import InputError
from transformer.explain.attribution.gold import GoldAlignment, gold_alignments

SHIPPED = Path(__file__).resolve().parents[3] / "checkpoints" / "multi30k-en-de" / "alignments"


@pytest.fixture(scope="module")
def shipped() -> tuple[GoldAlignment, ...]:
    return gold_alignments(SHIPPED)


def test_every_shipped_line_holds_links_of_its_words(shipped: tuple[GoldAlignment, ...]) -> None:
    assert len(shipped) == 100
    for pair in shipped:
        links = pair.sure | pair.possible
        assert pair.sure
        assert not pair.sure & pair.possible
        assert {source for source, _ in links} <= set(range(len(pair.source_words)))
        assert {target for _, target in links} <= set(range(len(pair.target_words)))


def test_the_counts_are_those_of_its_readme(shipped: tuple[GoldAlignment, ...]) -> None:
    sure, possible = sum(len(pair.sure) for pair in shipped), sum(len(pair.possible) for pair in shipped)
    words = sum(len(pair.source_words) for pair in shipped), sum(len(pair.target_words) for pair in shipped)
    assert (sure, possible, *words) == (1019, 189, 1096, 1101)
    readme = (SHIPPED / "README.md").read_text(encoding="utf-8")
    assert "1,019 sure and 189 possible links over 1,096 English and\n1,101 German words" in readme


def test_some_links_say_what_a_reader_of_both_languages_says(shipped: tuple[GoldAlignment, ...]) -> None:
    said = {
        (pair.source_words[i], pair.target_words[j], (i, j) in pair.sure)
        for pair in shipped
        for i, j in pair.sure | pair.possible
    }
    assert ("tackles", "an", True) in said  # a separable verb: "greift ... an"
    assert {("toy", "Spielzeugschwert", True), ("sword", "Spielzeugschwert", True)} <= said
    assert ("is", "steht", False) in said  # the auxiliary of "is standing"
    assert ("rip", "Boot", False) in said  # a mistake of the translation


def test_punctuation_belongs_to_punctuation(shipped: tuple[GoldAlignment, ...]) -> None:
    """A full stop never belongs to a word: nearly all others of these pairs would be slips of a column."""
    for number, pair in enumerate(shipped, 1):
        for source, target in pair.sure:
            marks = pair.source_words[source].isalnum(), pair.target_words[target].isalnum()
            stop = "." in (pair.source_words[source], pair.target_words[target])
            assert not stop or marks == (False, False), number


def test_hardly_a_word_is_without_a_partner(shipped: tuple[GoldAlignment, ...]) -> None:
    alone = Counter(
        pair.target_words[j]
        for pair in shipped
        for j in set(range(len(pair.target_words))) - {j for _, j in pair.sure | pair.possible}
    )
    assert alone.pop(",") == 15
    assert alone == {"und": 3, "dabei": 1, "ob": 1, "sie": 1, "erhalten": 1, "hat": 1}


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
    ("links", "code"),
    [
        ("0-0\n0-0\n", "gold_lines_differ"),
        ("\n", "gold_line_without_links"),
        ("0-0 1:1\n", "gold_link_unreadable"),
        ("0-0 -1-1\n", "gold_link_unreadable"),
        ("0-0 4-0\n", "gold_link_outside"),
        ("0-0 0-2\n", "gold_link_outside"),
        ("0-0 0?0\n", "gold_link_twice"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, links: str, code: str) -> None:
    with pytest.raises(InputError) as caught:
        gold_alignments(written(tmp_path, "two dogs run.\n", "zwei Hunde\n", links))
    assert caught.value.code == code
