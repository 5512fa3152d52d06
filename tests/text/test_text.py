"""Vocabularies, tokenizers and words: ids and text there and back; lines of a file; merges of pairs; whole words."""

import hashlib
import io
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from tests import toy
from transformer.errors import CheckpointError, InputError, TrainingError
from transformer.explain.attribution.gold import words_of
from transformer.lessons.architectures.pairs import REFERENCES
from transformer.messages import Message
from transformer.text.batch import pad
from transformer.text.lines import read_lines, split_lines
from transformer.text.text import SPACE, TextTokenizer, train_tokenizer

TOKENIZER = toy.tokenizer()
WORDS = [*toy.NOUNS, *toy.NOUNS.values(), *toy.VERBS.values(), "the", "und"]


@given(st.lists(st.sampled_from(WORDS)))
def test_known_words_come_back(words: list[str]) -> None:
    text = " ".join(words)
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text
    assert TOKENIZER.decode(TOKENIZER.source_ids(text)) == text
    assert TOKENIZER.decode([*TOKENIZER.target_ids(text), TOKENIZER.pad_id]) == text


def test_marks_stand_where_models_expect_them() -> None:
    ids = TOKENIZER.encode("the dog")
    assert TOKENIZER.source_ids("the dog") == [*ids, TOKENIZER.eos_id]
    assert TOKENIZER.target_ids("the dog") == [TOKENIZER.bos_id, *ids, TOKENIZER.eos_id]
    assert (TOKENIZER.pad_id, TOKENIZER.bos_id, TOKENIZER.eos_id) == (0, 2, 3)
    assert [TOKENIZER.is_special(i) for i in range(5)] == [True, False, True, True, False]
    assert len(TOKENIZER) == 53


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert all(0 <= i < len(TOKENIZER) for i in ids)
    assert len(TOKENIZER.pieces(text)) == len(ids)


def test_labels_are_pieces_and_pieces_show_unknown_characters() -> None:
    assert "".join(TOKENIZER.labels(TOKENIZER.encode("the dog"))) == f"{SPACE}the{SPACE}dog"
    assert "".join(TOKENIZER.pieces("the ☃")) == f"{SPACE}the{SPACE}☃"


def test_sampling_cuts_words_at_random_but_the_same_for_the_same_seed() -> None:
    texts = ["the woman and the bird sleeps."] * 20
    first = TOKENIZER.sample(texts, 0.5, seed=3)
    assert first == TOKENIZER.sample(texts, 0.5, seed=3)
    assert first != TOKENIZER.sample(texts, 0.5, seed=4)
    assert len({tuple(ids) for ids in first}) > 5
    assert {TOKENIZER.decode(ids) for ids in first} == {texts[0]}


def test_half_a_surrogate_pair_is_named() -> None:
    with pytest.raises(InputError, match="character 3 of the text is half of a broken character"):
        TOKENIZER.encode("ab\ud800")


def test_a_tokenizer_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(TOKENIZER.model)
    assert TextTokenizer.read(path).encode("the dog") == TOKENIZER.encode("the dog")
    path.write_bytes(b"no model")
    with pytest.raises(CheckpointError, match="not a SentencePiece model"):
        TextTokenizer.read(path)
    with pytest.raises(CheckpointError, match=r"missing\.model cannot be read: No such file"):
        TextTokenizer.read(tmp_path / "missing.model")


def test_training_a_tokenizer_is_reproducible() -> None:
    assert toy.tokenizer().model == TOKENIZER.model


@pytest.mark.parametrize(
    ("size", "reason"), [(5, "smaller than required_chars"), (1000, r"too high \(1000\). Please set it to a value <=")]
)
def test_a_vocabulary_that_the_text_cannot_fill_is_refused(size: int, reason: str) -> None:
    with pytest.raises(TrainingError, match=f"vocab_size={size} does not suit the training text: .*{reason}"):
        train_tokenizer(["the dog runs", "der Hund läuft"], size)


def test_short_rows_are_filled_up_at_the_end() -> None:
    assert pad([[5], [6, 7, 8], []], pad_id=9).tolist() == [[5, 9, 9], [6, 7, 8], [9, 9, 9]]


def test_a_piece_that_is_no_text_is_refused_when_it_is_read():
    """The piece's bytes are changed within the file, whose format is that of a table with lengths."""
    sound = train_tokenizer(["a man rides a bicycle", "two men ride"] * 3, 40)
    piece = max(sound.labels(range(4, 40)), key=len)
    damaged = sound.model.replace(piece.encode(), b"\xff" * len(piece.encode()), 1)
    assert damaged != sound.model
    with pytest.raises(CheckpointError, match=r"its piece \d+ is no UTF-8 text"):
        TextTokenizer(damaged)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"\n\na", ["", "", "a"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\n", ["a\rb"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        ("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n".encode(), ["a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"]),
    ],
)
def test_lines_of_a_file(content: bytes, lines: list[str]) -> None:
    assert split_lines(content, "the input") == lines


@given(st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff", codec="utf-8"))))
def test_what_was_joined_is_split_again(lines: list[str]) -> None:
    assert split_lines("".join(line + "\n" for line in lines).encode(), "the input") == lines


def test_bytes_that_are_not_utf_8_are_refused_with_their_place() -> None:
    with pytest.raises(InputError, match=r"line 3 of the input is not UTF-8 \(byte 0xfc\): convert it"):
        split_lines("gut\n\nGrüße\n".encode("latin-1"), "the input")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_bytes(b"a\nb\n")
    assert read_lines(tmp_path / "a.en") == ["a", "b"]
    with pytest.raises(InputError, match=r"b\.en cannot be read \(No such file or directory\)"):
        read_lines(tmp_path / "b.en")


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


ROOT = Path(__file__).resolve().parents[2]

SCORES = {TOKENIZER.labels([i])[0]: TOKENIZER._pieces.get_score(i) for i in range(4, len(TOKENIZER))}
LINES = [side for pair in toy.sentences(40, seed=5) for side in pair]


@given(st.text("thewomanbirdsluf. ▁☃é\u3000\t", max_size=40))
def test_without_dropout_the_cut_is_sentencepieces(text: str) -> None:
    assert TOKENIZER.sample([text], 0.0, seed=1) == [TOKENIZER.encode(text)]


def distribution(spans: tuple[str, ...], blocked: frozenset[int], dropout: float) -> dict[tuple[str, ...], float]:
    """Every way to cut a word and its probability, by brute force: the best pair is due first, the left one of equals.

    A pair is blocked by the place between its sides, in letters; it is free again when one of its sides grows.
    """
    places = [len("".join(spans[: i + 1])) for i in range(len(spans) - 1)]
    due = [
        (-SCORES[pair], i)
        for i, place in enumerate(places)
        if place not in blocked and (pair := spans[i] + spans[i + 1]) in SCORES
    ]
    if not due:
        return {spans: 1.0}
    _, i = min(due)
    found: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for cut, share in distribution(spans, blocked | {places[i]}, dropout).items():
        found[cut] += dropout * share
    merged = (*spans[:i], spans[i] + spans[i + 1], *spans[i + 2 :])
    beside = set(places[max(0, i - 1) : i + 2])
    for cut, share in distribution(merged, blocked - beside, dropout).items():
        found[cut] += (1 - dropout) * share
    return dict(found)


@pytest.mark.parametrize("word", ["the", "woman", "sleeps", "und"])
@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
def test_each_cut_is_as_frequent_as_its_probability(word: str, dropout: float) -> None:
    expected = distribution(tuple(f"▁{word}"), frozenset(), dropout)
    times = 4_000
    drawn = Counter(tuple(TOKENIZER.labels(ids)) for ids in TOKENIZER.sample([word] * times, dropout, seed=11))
    assert drawn.keys() <= expected.keys()
    for cut, share in expected.items():
        deviation = (share * (1 - share) / times) ** 0.5
        assert drawn[cut] / times == pytest.approx(share, abs=5 * deviation + 1e-4), cut


def test_the_seed_and_the_dropout_decide() -> None:
    first = TOKENIZER.sample(LINES, 0.3, seed=2)
    assert first == TOKENIZER.sample(LINES, 0.3, seed=2)
    assert first == TextTokenizer(TOKENIZER.model).sample(LINES, 0.3, seed=2), "nothing is remembered that changes it"
    assert first != TOKENIZER.sample(LINES, 0.3, seed=3)
    assert first != TOKENIZER.sample(LINES, 0.4, seed=2)
    assert [TOKENIZER.decode(ids) for ids in first] == LINES


def test_every_process_cuts_alike() -> None:
    """Other processes, with other seeds of Python's own hashes."""
    program = (
        "import hashlib; from tests import toy; from tests.text.test_text import LINES;"
        "print(hashlib.sha256(repr(toy.tokenizer().sample(LINES, 0.3, seed=7)).encode()).hexdigest())"
    )
    here = hashlib.sha256(repr(TOKENIZER.sample(LINES, 0.3, seed=7)).encode()).hexdigest()
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == here


def test_a_low_dropout_does_not_use_up_a_draw_for_each_merge() -> None:
    """What makes it quick: a word whose merges all happen costs one draw."""
    draws = Random(0)
    TOKENIZER._merges.cut("▁the▁woman", 1e-9, draws)
    expected = Random(0)
    expected.random(), expected.random()
    assert draws.random() == expected.random()


def test_a_vocabulary_without_merges_is_refused() -> None:
    model, lines = io.BytesIO(), [*REFERENCES, *REFERENCES.values()]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="unigram", vocab_size=120, minloglevel=2,
        hard_vocab_limit=False,
    )  # fmt: skip
    with pytest.raises(TrainingError, match="pieces by merges of pairs") as caught:
        TextTokenizer(model.getvalue()).sample(lines, 0.1, seed=1)
    assert isinstance(caught.value.message, Message)
    assert "成对合并" in caught.value.message.in_language("zh")
