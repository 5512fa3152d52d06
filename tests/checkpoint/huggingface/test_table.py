"""The page's table of families is the one on record, and what is on record still holds where that is quick to see."""

import json
from typing import Any

import pytest

from tests.checkpoint.huggingface.table import FAMILIES, MEASURED, PAGE, measured, on_page, table

KNOWN: dict[str, dict[str, Any]] = json.loads(MEASURED.read_text(encoding="utf-8"))
AGAIN = (
    "BERT to BERT", "BigBird, full attention", "DeBERTa v2, v3", "Falcon, a key for a group", "Gemma 2", "gpt-oss",
    "GPT-Neo",
    "Mistral, in a window", "ModernBERT", "MVP", "Qwen 2, with its usual config", "RoFormer", "Switch", "XLM",
    *(name for name, one in KNOWN.items() if one["recorded"] == "refused"),
)  # fmt: skip


def test_the_page_holds_the_table_on_record() -> None:
    assert KNOWN.keys() == FAMILIES.keys()
    assert on_page() == table(KNOWN)
    assert PAGE.name == "hugging-face.md"
    assert all(float(one["difference"]) < 1e-5 for one in KNOWN.values() if one["recorded"] != "refused")


@pytest.mark.parametrize("family", AGAIN)
def test_what_is_on_record_still_holds(family: str) -> None:
    again, known = measured(family), KNOWN[family]
    assert again.keys() == known.keys()
    assert (again["recorded"], again.get("code")) == (known["recorded"], known.get("code"))
    assert float(again.get("difference", 0)) <= 10 * float(known.get("difference", 0)) + 1e-7
