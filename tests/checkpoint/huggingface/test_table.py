"""The README's table of families is the one on record, and what is on record still holds where that is quick to see."""

import json

import pytest

from tests.checkpoint.huggingface.table import FAMILIES, MEASURED, in_readme, measured, table


def on_record() -> dict[str, dict[str, str]]:
    return json.loads(MEASURED.read_text(encoding="utf-8"))


def test_the_readme_holds_the_table_on_record() -> None:
    found = on_record()
    assert found.keys() == FAMILIES.keys()
    assert in_readme() == table(found)
    assert all(float(one["difference"]) < 1e-5 for one in found.values() if one["recorded"] != "refused")


@pytest.mark.parametrize("family", ["BERT", "GPT-J", "Mamba"])
def test_what_is_on_record_still_holds(family: str) -> None:
    again, known = measured(family), on_record()[family]
    assert again.keys() == known.keys()
    assert again["recorded"] == known["recorded"]
    assert float(again.get("difference", 0)) <= 10 * float(known.get("difference", 0)) + 1e-7
