"""The plan for a class names the steps of the tour, in their order, with their addresses and minutes."""

import re
from pathlib import Path
from urllib.parse import parse_qsl, urlparse

from transformer.teaching.data import steps
from ui.path.place import page_path

PLAN = Path(__file__).parents[2] / "docs" / "guide" / "teaching.md"


def test_the_plan_is_the_tour() -> None:
    rows = re.findall(r"^\| (\d+)\W(\d+) \| (\d+)\. .*? \| `(.*?)` \|$", PLAN.read_text(encoding="utf-8"), re.MULTILINE)
    tour = [one for one in steps() if one.branch == "tour"]
    assert len(rows) == len(tour)
    minute = 0
    for (begins, ends, label, address), one in zip(rows, tour, strict=True):
        assert (int(begins), int(ends), label) == (minute, minute + one.minutes, one.label)
        minute += one.minutes
        query = dict(parse_qsl(urlparse(address).query))
        assert urlparse(address).path.strip("/") == page_path(one.page)
        assert query.pop("tour") == one.label
        asked = {key: value for key, value in one.address.items() if key not in {"text", "source"}}
        assert {key: value for key, value in query.items() if key != "text"} == asked
    assert minute == 45
