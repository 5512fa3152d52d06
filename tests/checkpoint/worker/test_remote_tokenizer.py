"""A tokenizer in a worker says what it says here; one that would take all memory or time costs one sentence."""

import gc
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from heedmap.checkpoint.load import read_folder_tokenizer
from heedmap.checkpoint.worker import isolated, resident
from heedmap.checkpoint.worker import remote_tokenizer as texts
from heedmap.checkpoint.worker.pool import WORKERS, Answer, Budget
from heedmap.checkpoint.worker.remote_tokenizer import RemoteTokenizer, about, checked
from heedmap.errors import CheckpointError, InputError
from heedmap.safe.limits import DEFAULT_LIMITS
from heedmap.text.tokenizers import TextTokenizer, train_tokenizer
from tests.checkpoint.huggingface.families import write_folder
from tests.fuzzing import is_gone
from tests.waiting import until

TEXT = ["a man rides a bicycle", "two men ride", "the dog runs in the park"] * 3
TEXTS = ("two men", "the dog rides a bicycle.", "", "a  zebra 你好 😀", "ride\tride")


def model() -> bytes:
    return train_tokenizer(TEXT, 47).model


def some_tokenizer() -> RemoteTokenizer:
    return texts.sentencepiece(model(), "some.model")


def same(there: Any, here: Any) -> None:
    assert len(there) == len(here)
    for name in texts.ASKED_ONCE:
        assert getattr(there, name) == getattr(here, name)
    every = range(len(here))
    assert [there.is_special(i) for i in every] == [here.is_special(i) for i in every]
    assert there.labels(every) == here.labels(every)
    assert there.labels([3, 3, 1]) == here.labels([3, 3, 1])
    for text in TEXTS:
        for call in ("encode", "pieces", "source_ids", "encoder_ids", "target_ids"):
            assert getattr(there, call)(text) == getattr(here, call)(text)
        assert there.decode(here.source_ids(text)) == here.decode(here.source_ids(text))


def test_a_sentencepiece_model_says_the_same_in_a_worker() -> None:
    same(some_tokenizer(), TextTokenizer(model()))


@pytest.mark.parametrize("family", ["marian", "gpt2", "bert"])
def test_a_folder_s_tokenizer_says_the_same_in_a_worker(family: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / family, family)
    there, here = texts.folder_tokenizer(folder), read_folder_tokenizer(folder)
    same(there, here)
    same(there.as_target(), here.as_target())


def changed(folder: Path, **parts: Any) -> None:
    """Have the folder's tokenizer work with these parts, as its file says."""
    file = folder / "tokenizer.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **parts}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))


def replaced(folder: Path, rules: list[tuple[str, str]]) -> None:
    """Have it replace each text by another before it cuts."""
    steps = [{"type": "Replace", "pattern": {"String": old}, "content": new} for old, new in rules]
    changed(folder, normalizer={"type": "Sequence", "normalizers": steps})


def split(folder: Path, pattern: str, times: int = 1) -> None:
    """Have it cut at a regular expression."""
    step = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    changed(folder, pre_tokenizer={"type": "Sequence", "pretokenizers": [step] * times})


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda folder: replaced(folder, [("q", "qq")] * 40), "qqqqqqqq"),
        (lambda folder: replaced(folder, [("q", "z" * 1_000_000)]), "q" * 2000),
        (lambda folder: split(folder, "(?:q|qq){20}!"), "q" * 2000),
    ],
    ids=["doubles", "grows", "backtracks"],
)
def test_a_text_that_a_tokenizer_makes_enormous_costs_a_sentence(spoil: Any, text: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "gpt2", "gpt2")
    spoil(folder)
    tokenizer = texts.folder_tokenizer(folder)
    usual = tokenizer.encode("the dog")
    with pytest.raises(InputError, match=r"tokenizer of gpt2 cannot work on this"):
        tokenizer.encode(text)
    assert tokenizer.encode("the dog") == usual


def test_a_small_folder_and_five_texts_take_at_most_20_seconds_of_work_whatever_is_in_it() -> None:
    loaded = isolated.FOLDER_SECONDS + isolated.LOAD_SECONDS + texts._budget(10**6).seconds
    assert loaded + 5 * (resident.ASK_SECONDS + 0.5) <= 20
    assert texts._budget(16 * 10**6).seconds >= 4 * 1.9  # a vocabulary of 250,000 pieces takes 1.9 s


def test_a_long_text_may_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, asked = some_tokenizer(), list[int]()

    def said(request: dict[str, Any], *_: Any) -> dict[str, Any]:
        asked.append(request["seconds"])
        return {}

    monkeypatch.setattr(tokenizer._resident, "_said", said)
    for text in ("a", "a" * 99_999, "a" * 730_000):
        with pytest.raises(InputError):
            tokenizer.encode(text)
    assert asked == [1, 1, 8]


def test_more_letters_than_are_read_are_refused_by_number() -> None:
    tokenizer = some_tokenizer()
    text = "a man " * 200_000
    with pytest.raises(InputError, match=r"the text has 1,200,000 letters.*at most 1,000,000"):
        tokenizer.encode(text)


def liar(found: Any) -> RemoteTokenizer:
    """A tokenizer whose worker was taken over, and answers this."""

    class Liar(resident.Resident):
        def ask(self, request: Mapping[str, Any], size: int = 0) -> Mapping[str, Any]:
            return {"found": found}

    kept = Liar("keep", "liar.model", budget=Budget.of(0))
    return RemoteTokenizer(kept, {"source": checked(HONEST, "liar.model")})


HONEST = about(TextTokenizer(model()))


LIES: dict[str, tuple[Any, list[Any]]] = {
    "encode": ("two men", [None, 7, "ids", [1.5], [True], [-1], [10**9], ["1"], {"a": 1}, [1] * 200_001, [[1]]]),
    "labels": ([4, 5], [None, 7, "pieces", [1], [None], ["a"] * 3, ["x" * 1_000_001] * 2]),
    "decode": ([4, 5], [None, 7, ["text"], "x" * 1_000_001]),
}


@pytest.mark.parametrize(("call", "place"), [(call, i) for call, (_, lies) in LIES.items() for i in range(len(lies))])
def test_what_no_tokenizer_could_answer_is_refused(call: str, place: int) -> None:
    given, lies = LIES[call]
    with pytest.raises(InputError, match=r"liar\.model cannot work on this .*not understood"):
        getattr(liar(lies[place]), call)(given)


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": -1}, {"size": 10**8}, {"size": "47"}, {"size": True}, {"pad_id": None}, {"pad_id": -2},
        {"eos_id": 1.5},
        {"mask": 7}, {"mask": "x" * 201}, {"languages": ["a"]}, {"languages": [1, 2]}, {"languages": None},
        {"special": None}, {"special": [-1]}, {"special": [47]}, {"special": ["1"]}, {"max_length": 0},
        {"max_length": "9"},
    ],
    ids=str,
)  # fmt: skip
def test_what_a_tokenizer_cannot_say_of_itself_is_refused(wrong: dict[str, Any]) -> None:
    assert checked(HONEST, "liar.model")["size"] == 47
    with pytest.raises(CheckpointError, match=r"liar\.model is refused: .*not understood \(no tokenizer\)"):
        checked({**HONEST, **wrong}, "liar.model")


def test_a_list_of_tokens_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for found in (b"{}", b"[]", b"7", b"[1]", b'[""]', b"no json", json.dumps(["x" * 2000]).encode()):
        answer = Answer({}, [bytearray(found)])
        monkeypatch.setattr(WORKERS, "answers", lambda *_, answer=answer, **__: iter([answer]))
        with pytest.raises(CheckpointError, match=r"w\.txt is refused: .*not understood"):
            texts.read_tokens(b"a", "w.txt", DEFAULT_LIMITS)


def test_a_tokenizer_that_nobody_has_any_more_ends_its_worker() -> None:
    tokenizer = some_tokenizer()
    worker = tokenizer._resident._worker
    target = tokenizer.as_target()
    del tokenizer
    gc.collect()
    assert target.encode("two men")
    del target
    gc.collect()
    until(is_gone, worker.pid)
