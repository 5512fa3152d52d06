"""All maps of a page in one ZIP file: each as its own CSV file, and a table of contents."""

import csv as csv_format
import io
import zipfile

from tests.plots.examples import picture
from transformer.messages import speaking
from transformer.plots.archive import archive
from transformer.plots.export import csv
from transformer.plots.quantity import Quantity

ABOUT = ["A man rides.", "=checkpoint"]


def opened(content: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(content)) as found:
        assert found.testzip() is None
        return {name: found.read(name).decode() for name in found.namelist()}


def test_every_map_is_in_it_as_by_itself_and_the_list_says_what_each_is() -> None:
    masked, scores = picture(5, 7, causal=True), picture(3, 2, quantity=Quantity.SCORE, notes=("first", "second"))
    files = opened(archive({"a": masked, "b": scores}, {"words": ("agreement", "x\n")}, ABOUT))
    assert set(files) == {"a.csv", "b.csv", "words.csv", "contents.csv"}
    assert files["a.csv"] == csv(masked, ABOUT)
    assert files["b.csv"] == csv(scores, ABOUT)
    assert files["words.csv"] == "x\n"
    header, *rows = csv_format.reader(io.StringIO(files["contents.csv"], newline=""))
    a, b = (dict(zip(header, row, strict=True)) for row in rows[:2])
    assert (a["file"], a["map"], a["rows"], a["columns"]) == (
        "a.csv", "decoder.1.cross · head 2", "5: target (German)", "7: source (English)",
    )  # fmt: skip
    seen = masked.values[masked.visible]
    assert (float(a["lowest"]), float(a["highest"])) == (float(seen.min()), float(seen.max()))
    assert (a["masked cells (empty)"], b["masked cells (empty)"]) == (str(35 - masked.visible.sum()), "0")
    assert (b["numbers"], b["notes"]) == ("score (scaled dot product, before the mask)", "first; second")
    assert rows[2:] == [["words.csv", "agreement"], ["A man rides."], ["'=checkpoint"]]


def test_the_same_maps_make_the_same_bytes_and_speak_the_readers_language() -> None:
    assert archive({"a": picture()}) == archive({"a": picture()})
    with speaking("zh"):
        files = opened(archive({"a": picture()}))
    assert files["contents.csv"].startswith("文件,图,行,列,")
