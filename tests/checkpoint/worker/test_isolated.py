"""What comes back from a worker is what reading here gives, ties and all; wrong tensors and errors are refused."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from heedmap.checkpoint.foreign import vocabularies
from heedmap.checkpoint.foreign.bundle import bundle
from heedmap.checkpoint.foreign.report import Report
from heedmap.checkpoint.load import find_files, load, read
from heedmap.checkpoint.worker import child, isolated, wire_format
from heedmap.checkpoint.worker import remote_tokenizer as texts
from heedmap.checkpoint.worker.pool import WORKERS
from heedmap.checkpoint.worker.wire_format import GarbledError, unpacked_error
from heedmap.errors import CheckpointError
from heedmap.messages import MOST_TEXT, Message, packed_message, say, speaking
from heedmap.safe.limits import DEFAULT_LIMITS, ReadLimits, refused
from heedmap.safe.tensors import DTYPES
from heedmap.text.tokenizers import train_tokenizer
from tests.checkpoint.references import LAYOUTS, REFERENCE
from tests.pages.tiny import save_tiny
from tests.safe.hostile import saved


def handed_over(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Through the wire's table and bytes."""
    described, memory = wire_format.packed(tensors)
    blocks = [bytearray(block) for block in memory]
    return wire_format.unpacked(json.loads(json.dumps(described)), blocks, DEFAULT_LIMITS)


def equal(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride() and torch.equal(a, b)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_file_reads_the_same_in_a_worker(name: str) -> None:
    here = read(REFERENCE / name, DEFAULT_LIMITS)
    there = isolated.read_path(REFERENCE / name)
    assert (there.source, there.place, there.format) == (here.source, here.place, here.format)
    assert there.settings == here.settings
    assert there.tensors.keys() == here.tensors.keys()
    assert all(equal(there.tensors[key], here.tensors[key]) for key in here.tensors)
    files = {file.name: io.BytesIO(file.read_bytes()) for file in find_files(REFERENCE / name)}
    brought = isolated.read_files(files)
    assert all(equal(brought.tensors[key], here.tensors[key]) for key in here.tensors)


def test_shared_memory_stays_shared_and_comes_once() -> None:
    whole = torch.arange(77, dtype=torch.float32)
    tied = {"a": whole.view(7, 11), "b": whole.view(7, 11).t(), "c": whole[13:], "d": torch.ones(3), "e": whole[:0]}
    _, memory = wire_format.packed(tied)
    assert sorted(map(len, memory)) == [12, 77 * 4]
    back = handed_over(tied)
    assert all(equal(back[name], tied[name]) for name in "abcd")
    assert back["e"].shape == (0,)
    back["a"][0, 1] = 99
    assert back["b"][1, 0] == 99


def test_a_file_of_many_views_costs_its_bytes_alone() -> None:
    block = torch.randn(1009)
    data = saved({f"view{i}": block[i:] for i in range(500)})
    found = isolated.read_files({"views.pt": io.BytesIO(data)})
    assert len(found.tensors) == 500
    assert torch.equal(found.tensors["view7"], block[7:])
    assert len({tensor.data_ptr() - 4 * int(name[4:]) for name, tensor in found.tensors.items()}) == 1


@given(
    st.lists(st.sampled_from(sorted(DTYPES)), min_size=1, max_size=6),
    st.lists(st.integers(0, 5), max_size=4),
    st.integers(0, 99),
)
def test_every_kind_and_shape_comes_back(kinds: list[str], shape: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    tensors = {f"{i}": (torch.randn(shape) * 9).to(DTYPES[kind]) for i, kind in enumerate(kinds)}
    back = handed_over(tensors)
    assert list(back) == list(tensors)
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype
        assert torch.equal(back[name], tensor)


GOOD: list[Any] = ["w", "float32", [2, 3], [3, 1], 0, 0]


WRONG: dict[int, list[Any]] = {
    0: [7, None, [], "x" * 1001],
    1: ["float33", "complex64", None, [], {}, 7],
    2: [[2, 4], [3, 3], [-2, 3], [2.0, 3], [True, 3], [2], None, [2**62, 3], ["2", 3], [1] * 9, [0, 2**62]],
    3: [[4, 1], [3, 2], [-3, 1], [2**62, 1], [3], None, [3, None], [1.0, 1]],
    4: [1, -1, 2**70, None, "0", True, 0.0],
    5: [1, 4, -4, 2**63, None, "0", 24],
}
"""What no place of a description may hold."""


@pytest.mark.parametrize(
    "wrong",
    [
        None, 7, "text", {}, [7], [[]], [GOOD[:5]], [[*GOOD, 1]], [GOOD, GOOD],
        *(
            [[*GOOD[:place], value, *GOOD[place + 1 :]]]
            for place, values in WRONG.items()
            for value in values
        ),
        [["e", "float32", [0, 2**39, 2**39], [1, 1, 1], -1, 0]],
        [["many", "float32", [2**20, 3], [0, 1], 0, 0]],
        [["flag", "bool", [3], [1], 1, 0]],
    ],
    ids=repr,
)  # fmt: skip
def test_a_wrong_description_is_refused(wrong: Any) -> None:
    blocks = [bytearray(24), bytearray(b"\x00\x01\x02")]
    assert wire_format.unpacked([GOOD], blocks, DEFAULT_LIMITS)["w"].shape == (2, 3)
    with pytest.raises(GarbledError):
        wire_format.unpacked(wrong, blocks, DEFAULT_LIMITS)


def test_more_tensors_than_the_limit_are_refused() -> None:
    entries = [[f"w{i}", *GOOD[1:]] for i in range(4)]
    with pytest.raises(GarbledError):
        wire_format.unpacked(entries, [bytearray(24)], ReadLimits(tensors=3))


def test_a_file_that_changes_while_it_is_sent_is_a_refusal() -> None:
    class Shrinking(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return b""

    with pytest.raises(CheckpointError, match=r"model\.pt is refused"):
        isolated.read_files({"model.pt": Shrinking(b"x" * 1000)})


@pytest.mark.parametrize("words", [["<pad>", "", "b"], ["a", "\x01", "é", "😀", '"', "a b"]])
def test_a_list_of_tokens_is_read_the_same_in_a_worker(words: list[str]) -> None:
    words = [word for word in words if word] + [f"w{i}" for i in range(29)]
    assert texts.read_tokens("\n".join(words).encode(), "words.txt") == words
    assert texts.read_tokens(json.dumps(words).encode(), "words.json") == words
    assert texts.read_tokens(json.dumps({word: i for i, word in enumerate(words)}).encode(), "w.json") == words


def test_a_vocabulary_is_parsed_in_a_worker_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def parsed(*_: Any) -> None:
        raise AssertionError("parsed in the server")

    WORKERS.template.close()
    monkeypatch.setattr(vocabularies, "read_tokens", parsed)
    monkeypatch.setattr(child, "read_tokens", parsed)
    weights = (REFERENCE / "annotated" / "model.pt").read_bytes()
    words = "\n".join(["<pad>", "<unk>", "</s>", "<s>", *(f"w{i}" for i in range(27))]).encode()
    brought = bundle({"model.pt": io.BytesIO(weights), "src.txt": io.BytesIO(words)})
    for heads in (3, 8):
        made = brought.checkpoint({"n_heads": heads})
        assert made.tokenizer.labels([5]) == ["w1"]
        assert (made.tokenizer.bos_id, getattr(made.tokenizer, "unknown_id", 1)) == (3, 1)


@pytest.mark.parametrize("name", ["words.txt", "words.json"])
def test_a_vocabulary_of_too_many_tokens_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabularies, "MOST_TOKENS", 30)
    words = [f"w{i}" for i in range(32)]
    data = json.dumps(words) if name.endswith("json") else "\n".join(words)
    with pytest.raises(CheckpointError, match=rf"{name} is refused: it has 3[12] tokens, at most 30 are read"):
        vocabularies.read_tokens(data.encode(), name)


def test_a_vocabulary_that_takes_all_memory_is_refused_and_the_server_parses_nothing() -> None:
    data = b"[" + b"[],[]," * 6_000_000 + b"[]]"
    with pytest.raises(CheckpointError, match=r"bomb\.json is refused: (it took more than|it is neither)"):
        texts.read_tokens(data, "bomb.json")


def test_a_folder_of_ours_is_tried_once_and_loaded(tmp_path: Path) -> None:
    save_tiny(tmp_path)
    folder = next(path for path in tmp_path.iterdir() if path.is_dir())
    assert isolated.tried_folder(folder).architecture == "seq2seq"
    assert isolated.load_folder(folder).architecture == "seq2seq"
    other = train_tokenizer(["a man rides a bicycle", "two men ride"] * 3, 40)
    (folder / "tokenizer.model").write_bytes(other.model)
    with pytest.raises(CheckpointError, match=r"tiny/tokenizer\.model has 40 tokens, the checkpoint's embedding has"):
        load(folder)
    (folder / "tokenizer.model").write_bytes(b"no model")
    with pytest.raises(CheckpointError, match="not a SentencePiece model"):
        isolated.load_folder(folder)


def in_chinese(error: CheckpointError) -> str:
    with speaking("zh"):
        return say(error.message)


def crossed(error: CheckpointError) -> CheckpointError:
    return unpacked_error(json.loads(json.dumps(packed_message(error.message))))


def test_an_error_that_crossed_is_said_in_every_language() -> None:
    error = refused("entry_compressed", "a.pt", Message("remedy_save_again"), entry="'x'")
    found = crossed(error)
    assert (type(found), str(found)) == (CheckpointError, str(error))
    assert in_chinese(found) == in_chinese(error)
    assert in_chinese(found).startswith("a.pt 被拒绝")


def test_numbers_and_lists_stay_what_they_are() -> None:
    error = CheckpointError("answer_to_nothing", name="x", answer="1", questions=("n_heads", Message("no_questions")))
    assert crossed(error).fields == error.fields
    assert "12,345" in in_chinese(crossed(refused("file_large", "a.pt", found=12_345, most=10)))


def nested(times: int) -> object:
    told: object = "x"
    for _ in range(times):
        told = {"code": "lines", "fields": {"above": told, "line": "y"}}
    return told


@pytest.mark.parametrize(
    "told",
    [
        None,
        "a sentence",
        ["refused"],
        {"code": "refused"},
        {"code": "no such code", "fields": {}},
        {"code": 7, "fields": {}},
        {"code": "refused", "fields": {"source": "a", "reason": "b"}},
        {"code": "refused", "fields": {"source": "a", "reason": "b", "remedy": None}},
        {"code": "refused", "fields": ["a", "b", "c"]},
        {"code": "file_large", "fields": {"found": "many", "most": 1}},
        {"code": "refused", "fields": {"source": "a" * (MOST_TEXT + 1), "reason": "b", "remedy": "c"}},
        {"code": "refused", "fields": {"source": "a" * MOST_TEXT, "reason": "b" * MOST_TEXT, "remedy": "c"}},
        {"code": "no_fit", "fields": {"report": ["x"] * 5_000}},
        {"code": "no_fit", "fields": {"report": nested(400)}},
    ],
)
def test_what_no_worker_of_ours_says_is_not_understood(told: object) -> None:
    with pytest.raises(GarbledError):
        unpacked_error(told)


def test_a_long_report_crosses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedmap.checkpoint.foreign.report.SHOWN", 60)
    names = {f"layer.{i}.weight": (2, 3) for i in range(60)}
    about = Report(
        "a.pt", "torch", Message("title_torch"), 0.5, missing=names, unexpected=names, ignored=dict.fromkeys(names, "x")
    )
    error = CheckpointError("no_fit", report=about.text)
    assert str(crossed(error)) == about.text
    lines = 3 * 60 + 5  # the head, and how to record it instead
    assert in_chinese(crossed(error)).count("\n") == about.text.count("\n") == lines
