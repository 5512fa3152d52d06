"""Labels that a person reads follow one convention, whatever the family: a leading ▁ starts a word."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.checkpoint.huggingface.families import CONFIGS, TEXT, TOKENIZERS, pieces, write_folder
from transformer import Axis
from transformer.checkpoint.huggingface.tokenizer import HuggingFaceTokenizer, read_tokenizer
from transformer.text.base import Tokenizer, labels_as_typed
from transformer.text.text import train_tokenizer


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, HuggingFaceTokenizer]:
    place = tmp_path_factory.mktemp("tokenizers")
    return {family: read_tokenizer(write_folder(place / family, family)) for family in CONFIGS}


@pytest.mark.parametrize("family", TOKENIZERS)
def test_words_marks_and_text_come_back(tokenizers: dict[str, HuggingFaceTokenizer], family: str) -> None:
    tokenizer = tokenizers[family]
    assert isinstance(tokenizer, Tokenizer)
    text = "the dog and the bird eats."
    ids = tokenizer.source_ids(text)
    labels = tokenizer.labels(ids)
    special = [tokenizer.is_special(i) for i in ids]
    words = Axis.of_pieces("source", labels, special).merged().texts
    inner = [word for word in words if word not in {"<s>", "</s>", "[CLS]", "[SEP]"}]
    assert " ".join(inner).replace(" .", ".") == text
    assert [i for i, mark in zip(ids, special, strict=True) if not mark] == tokenizer.encode(text)
    assert tokenizer.decode(ids).replace(" .", ".") == text
    assert tokenizer.labels([9_999]) == ["<9999>"]


def test_what_the_vocabulary_lacks_is_shown_as_itself(tokenizers: dict[str, HuggingFaceTokenizer]) -> None:
    text = "the dög 🙂 runs"
    shown = {
        family: Axis.of_pieces("source", labels_as_typed(tokenizer, text, ids), [False] * len(ids)).merged().texts
        for family, tokenizer in tokenizers.items()
        for ids in [tokenizer.encode(text)]
    }
    for family in ("marian", "t5"):
        assert shown[family] == ("the", "dög\u00a0<unk>", "🙂\u00a0<unk>", "runs"), family
    assert shown["bert"] == ("the", "dog", "🙂\u00a0[UNK]", "runs"), "BERT reads letters without their accents"
    assert shown["gpt2"] == ("the", "d\\xc3\\xb6g", "\\xf0\\x9f\\x99\\x82", "runs"), "bytes that are no whole letter"


def test_the_marks_of_a_family_stand_where_it_puts_them(tokenizers: dict[str, HuggingFaceTokenizer]) -> None:
    around = {family: tokenizer.labels(tokenizer.source_ids("dog")) for family, tokenizer in tokenizers.items()}
    assert (around["bart"][0], around["bart"][-1]) == ("<s>", "</s>")
    assert (around["bert"][0], around["bert"][-1]) == ("[CLS]", "[SEP]")
    assert around["t5"][-1] == around["marian"][-1] == "</s>"
    assert around["t5"][0].startswith("▁")
    assert len(tokenizers["marian"]) == len(pieces())


def test_sessions_do_not_turn_each_other_s_language(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "marian", "marian")
    (folder / "target.spm").write_bytes(train_tokenizer(TEXT, 41).model)
    reader = read_tokenizer(folder)
    writer = reader.as_target()
    text = "the dog runs"
    expected = reader.encode(text), writer.encode(text)
    assert expected[0] != expected[1]
    with ThreadPoolExecutor(8) as sessions:
        found = list(sessions.map(lambda i: (reader, writer)[i % 2].encode(text), range(200)))
    assert all(ids == expected[i % 2] for i, ids in enumerate(found))
