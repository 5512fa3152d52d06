"""The page's table of families is the one on record, and what is on record still holds where that is quick to see."""

import json

import pytest
import transformers

from tests.checkpoint.huggingface import sweep
from tests.checkpoint.huggingface.table import FAMILIES, MEASURED, PAGE, measured, on_page, table


def on_record() -> dict[str, dict[str, str]]:
    return json.loads(MEASURED.read_text(encoding="utf-8"))


def test_the_page_holds_the_table_on_record() -> None:
    found = on_record()
    assert found.keys() == FAMILIES.keys()
    assert on_page() == table(found)
    assert all(float(one["difference"]) < 1e-5 for one in found.values() if one["recorded"] != "refused")


@pytest.mark.parametrize("family", ["BERT", "GPT-J", "Mamba"])
def test_what_is_on_record_still_holds(family: str) -> None:
    again, known = measured(family), on_record()[family]
    assert again.keys() == known.keys()
    assert again["recorded"] == known["recorded"]
    assert float(again.get("difference", 0)) <= 10 * float(known.get("difference", 0)) + 1e-7


def test_every_model_type_of_the_library_is_shown_or_refused_by_name() -> None:
    """What `python -m tests.checkpoint.huggingface.sweep` left: of this library, of all its types, and no error."""
    swept = json.loads(sweep.SWEPT.read_text(encoding="utf-8"))
    assert swept["transformers"] == transformers.__version__
    assert sorted(swept["types"]) == sweep.types()
    counts = sweep.kinds_of_outcome(swept["types"])
    assert set(counts) == {"lazily", "eagerly", "refused", "not built", "read as files are"}
    assert counts["not built"] <= 5
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    said = f"{len(swept['types'])} model types: {counts['lazily']} are recorded lazily, {counts['eagerly']} eagerly, "
    assert said + f"{counts['refused']} are refused by name" in page


@pytest.mark.parametrize("family", ["gemma3n_text", "mamba2", "resnet", "timm_wrapper"])
def test_what_was_swept_still_ends_so(family: str) -> None:
    """A size that speaks of layers and counts none; no attention; no text; a config that says `architecture`."""
    known = json.loads(sweep.SWEPT.read_text(encoding="utf-8"))["types"][family]
    assert sweep.outcome(family).startswith(known.partition(",")[0])
