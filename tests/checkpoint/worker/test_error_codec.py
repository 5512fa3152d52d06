"""An error crosses from a worker as code and fields; what a worker makes up is not believed."""

import json

import pytest

from transformer.checkpoint.foreign.report import Report
from transformer.checkpoint.worker.error_codec import packed, unpacked
from transformer.checkpoint.worker.wire_format import GarbledError
from transformer.errors import CheckpointError
from transformer.messages import Message, say, speaking
from transformer.messages.parts import MOST_TEXT
from transformer.safe.refusal import refused


def in_chinese(error: CheckpointError) -> str:
    with speaking("zh"):
        return say(error.message)


def crossed(error: CheckpointError) -> CheckpointError:
    return unpacked(json.loads(json.dumps(packed(error))))


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
        unpacked(told)


def test_a_long_report_crosses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer.checkpoint.foreign.report.SHOWN", 60)
    names = {f"layer.{i}.weight": (2, 3) for i in range(60)}
    about = Report(
        "a.pt", "torch", Message("title_torch"), 0.5, missing=names, unexpected=names, ignored=dict.fromkeys(names, "x")
    )
    error = CheckpointError("no_fit", report=about.text)
    assert str(crossed(error)) == about.text
    lines = 3 * 60 + 5  # the head, and how to record it instead
    assert in_chinese(crossed(error)).count("\n") == about.text.count("\n") == lines
