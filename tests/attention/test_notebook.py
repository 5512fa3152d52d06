"""A record in a notebook's cell: one string of HTML that needs nothing else, and holds the record's own numbers."""

import base64
import hashlib
import io
import json
import re
import struct
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from heedmap.attention import notebook
from heedmap.attention.record import AttentionMap, Record
from heedmap.attention.softmax_inputs import Weights
from heedmap.messages import speaking
from heedmap.plots.axes import Axis
from heedmap.plots.charts import heatmap
from heedmap.plots.export import archive, csv
from heedmap.sites import Site
from tests.attention import maps
from tests.attention.maps import record_of

HIDDEN = ("\u202eevil\u202c", "\u2066a\u200f", "Z" + "\u0301" * 300, "\x1b[31m", "\U000e0041b")
HOSTILE = ("</script><img src=x onerror=alert(1)>", "'\" onload='alert(2)' &amp;", "<!--", "]]>", "\u2028`${1}`")
LEAST = 300_000
"""Bytes that a cell may take besides its numbers."""


class Elements(HTMLParser):
    """The elements of a page, in order, with their attributes and the text that stands directly in them."""

    VOID = ("meta", "link", "img")

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[int] = []
        self.feed(text)
        self.close()
        assert not self.open, "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), []))
        if tag not in self.VOID:
            self.open.append(len(self.found) - 1)

    def handle_endtag(self, tag: str) -> None:
        assert self.found[self.open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.found[self.open[-1]][2].append(data)

    def of(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attributes, "".join(texts)) for name, attributes, texts in self.found if name == tag]


def attention(site: str, heads: int = 3, queries: int = 5, keys: int = 7, causal: bool = False) -> AttentionMap:
    return maps.attention(queries, keys, causal, site=site, heads=heads, dtype=torch.float32)


def message(page: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The JSON and the numbers that a page was given, read by the layout that blob.py documents."""
    (text,) = [text for attributes, text in Elements(page).of("script") if attributes.get("id") == "record"]
    raw = base64.b64decode(text)
    (length,) = struct.unpack_from("<I", raw)
    header, offset, arrays = json.loads(raw[4 : 4 + length]), 4 + length, {}
    for name, dtype, count in header["arrays"]:
        arrays[name] = np.frombuffer(raw, np.dtype(dtype).newbyteorder("<"), count, offset)
        offset += arrays[name].nbytes
    assert offset == len(raw)
    return header, arrays


def softmax(one: AttentionMap) -> np.ndarray:
    """The weights of all heads by the book, minus infinity where the mask hides a key."""
    return np.array([maps.by_the_book(one, head, -np.inf) for head in range(one.n_heads)])


@pytest.mark.parametrize("causal", [False, True])
def test_a_page_holds_the_weights_of_every_head(causal: bool) -> None:
    every = [attention(f"layers.{layer}.self_attn", 3, 7, 7, causal) for layer in range(2)]
    header, arrays = message(record_of(*every).html())
    (kind,) = header["record"]["kinds"]
    assert (kind["name"], kind["sites"], kind["heads"]) == ("layers.self_attn", [one.site for one in every], 3)
    assert kind["queries"]["texts"] == [f"q{i}" for i in range(7)]
    found = arrays["weights_0"].reshape(2, 3, 7, 7)
    assert found.dtype == np.float32
    expected = np.array([softmax(one) for one in every])
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_sites_of_a_group_are_one_wall_where_they_are_alike_and_stand_by_themselves_where_not() -> None:
    alike = [attention(f"transformer.h.{layer}.attn") for layer in (1, 3, 4)]
    heads = [attention("swin.0.attn", heads=2), attention("swin.1.attn", heads=5)]
    tokens = [attention("decoder.0.cross"), attention("decoder.1.cross", keys=13)]
    alone = [attention("pooling", queries=1), attention("decoder.1.cross#2")]
    header, arrays = message(record_of(*heads, *alike, *tokens, *alone).html())
    kinds = {one["name"]: one for one in header["record"]["kinds"]}
    assert list(kinds) == [
        "swin.0.attn", "swin.1.attn", "transformer.h.attn", "decoder.0.cross", "decoder.1.cross", "pooling",
        "decoder.1.cross#2",
    ]  # fmt: skip
    assert kinds["transformer.h.attn"]["numbers"] == ["1", "3", "4"], "the layers keep their own numbers"
    assert kinds["swin.1.attn"]["numbers"] == ["1"]
    assert kinds["pooling"]["numbers"] == [""]
    assert [array.size for array in arrays.values()] == [2 * 35, 5 * 35, 3 * 3 * 35, 3 * 35, 3 * 65, 3 * 7, 3 * 35]
    sites = {str(one.site) for one in (*heads, *alike, *tokens, *alone)}
    assert set(header["views"]["heatmap"]["sites"]) == sites


def test_nothing_that_a_record_says_is_markup(tmp_path: Path) -> None:
    axis = Axis.of_tokens(HOSTILE[0], HOSTILE)
    one = AttentionMap(Site(f"a.0.{HOSTILE[0]}"), axis, axis, Weights(torch.full((1, 2, 5, 5), 0.2)), notes=HOSTILE)
    saved = tmp_path / "page.html"
    for shown in (one, record_of(one)):
        page = shown.html(saved)
        assert saved.read_text(encoding="utf-8") == page
        assert "<img" not in page.lower().replace("&lt;img", "")
        elements = Elements(page)
        counts = {tag: len(elements.of(tag)) for tag, _, _ in elements.found}
        assert counts == {"html": 1, "head": 1, "meta": 3, "title": 1, "style": 1, "body": 1, "script": 2}
        header, _ = message(page)
        assert header["record"]["kinds"][0]["queries"]["texts"] == list(HOSTILE)
        cell = Elements(shown._repr_html_())
        ((attributes, _),) = cell.of("iframe")
        assert [tag for tag, _, _ in cell.found] == ["iframe"]
        assert attributes["srcdoc"] == page
        assert attributes["sandbox"] == "allow-scripts allow-downloads", "a page cannot read the notebook around it"


def test_nothing_that_leaves_to_be_read_hides_or_turns_text_round_and_the_record_keeps_it() -> None:
    axis = Axis.of_tokens(HIDDEN[0], HIDDEN)
    one = AttentionMap(Site("a.0.self"), axis, axis, Weights(torch.full((1, 2, 5, 5), 0.2)), notes=HIDDEN)
    record = Record({one.site: one}, HIDDEN[3], HIDDEN[4])
    drawn = one.picture(1)
    packed = notebook.page(record)
    tables = zipfile.ZipFile(io.BytesIO(archive({"a": drawn}, about=HIDDEN)))
    texts = [csv(drawn, HIDDEN), *(tables.read(name).decode() for name in tables.namelist()), packed.document()]
    texts += [json.dumps(message(packed.document())[0], ensure_ascii=False), str(heatmap(drawn).to_plotly_json())]
    for text in texts:
        assert not re.search("[\\x1b\u202e\u202c\u2066\u200f\U000e0041]|\u0301{7}", text)
    assert Record.of_bytes(record.to_bytes(), "x")[one.site].keys.texts == HIDDEN


def test_no_other_script_or_style_may_run_and_nothing_is_fetched() -> None:
    page = Elements(record_of(attention("a.0.b")).html())
    ((policy),) = [one["content"] for one, _ in page.of("meta") if one.get("http-equiv")]
    directives = dict(part.strip().split(" ", 1) for part in str(policy).split(";"))
    (program,) = [text for attributes, text in page.of("script") if "type" not in attributes]
    ((_, style),) = page.of("style")
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (program, style)]
    assert directives == {
        "default-src": "'none'",
        "script-src": f"'sha256-{digests[0]}'",
        "style-src": f"'sha256-{digests[1]}'",
        "img-src": "data: blob:",
    }
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|\bimport\b|\brequire\(", program)
    assert "url(" not in style


def test_a_cell_takes_at_most_300_kilobytes_besides_its_numbers() -> None:
    for one, count in ((attention("a.0.b"), 0), (attention("encoder.0.self", 144, 31, 31), 4 * 144 * 31 * 31)):
        assert len(one._repr_html_().encode()) < LEAST + count * 4 / 3


def test_many_weights_travel_in_16_bits_and_the_page_says_so() -> None:
    one = attention("encoder.0.self", 11, 113, 113)
    header, arrays = message(one.html())
    assert arrays["weights_0"].dtype == np.float16
    expected = softmax(one)
    found = arrays["weights_0"].reshape(expected.shape).astype(float)
    assert np.all(np.abs(found - expected) <= expected / 2047 + 2**-25)
    assert any("16 bits" in fact for fact in header["facts"])
    few, _ = message(attention("encoder.0.self").html())
    assert few["facts"] == []


@pytest.mark.parametrize("causal", [False, True])
def test_a_long_map_is_shown_in_blocks_by_their_largest_weight(causal: bool) -> None:
    long, short = attention("encoder.0.self", 2, 401, 401, causal), attention("decoder.0.cross")
    header, arrays = message(record_of(long, short).html())
    kind = header["record"]["kinds"][0]
    block = 3  # 401 tokens in at most 192 blocks
    count = -(-401 // block)
    found = arrays["weights_0"].reshape(2, count, count).astype(float)
    for head in range(2):
        np.testing.assert_allclose(found[head], maps.blocks(softmax(long)[head], 192), atol=5e-4)
    assert kind["keys"]["texts"] == [f"k{i}" for i in range(0, 401, block)], "a block is named by its first token"
    assert any('record.save("run.heedmap")' in fact and "321,707" in fact for fact in header["facts"])
    assert "blocks of 3 x 3 cells" in header["views"]["heatmap"]["sites"]["encoder.0.self"]["notes"][0].lower()
    np.testing.assert_allclose(arrays["weights_1"].reshape(3, 5, 7), softmax(short), atol=1e-6)


def test_a_record_of_any_size_stays_within_bounds_and_sites_that_would_take_long_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = [attention(f"encoder.{layer}.self", 3, 47, 53) for layer in range(3)]
    monkeypatch.setattr(notebook, "MOST", 9 * 23**2)
    (weights,) = message(record_of(*every).html())[1].values()
    assert weights.size == 9 * 16 * 18  # 47 in blocks of 3, 53 in blocks of 3
    for most, shown in ((2 * 3 * 47 * 53, 2), (1, 1)):  # the first is shown whatever it costs
        monkeypatch.setattr(notebook, "AT_ONCE", most)
        header, arrays = message(record_of(*every).html())
        assert arrays["weights_0"].size < (shown + 1) * 3 * 23**2
        assert [fact for fact in header["facts"] if f'record["encoder.{shown}.self"]' in fact]


def test_a_notebook_keeps_a_short_text_beside_the_page_which_says_of_what_it_is() -> None:
    one = attention("a.0.b")
    assert one._repr_mimebundle_()["text/plain"] == "AttentionMap(a.0.b)"
    shown = Record({one.site: one}, model="my model", text="a <b> c")
    assert shown._repr_mimebundle_() == {"text/html": shown._repr_html_(), "text/plain": "Record(a.0.b)"}
    header, _ = message(shown.html())
    assert (header["title"], header["facts"]) == ("my model", ["Model: my model", "Text: a <b> c"])


def test_what_is_no_number_stays_so() -> None:
    values = torch.full((1, 1, 2, 3), 1 / 3)
    values[0, 0, 1, 2] = torch.nan
    axes = Axis.of_tokens("q", ("a", "b")), Axis.of_tokens("k", ("c", "d", "e"))
    _, arrays = message(AttentionMap(Site("a.0.b"), *axes, Weights(values)).html())
    assert np.isnan(arrays["weights_0"]).nonzero()[0].tolist() == [5]


def test_a_record_without_attention_says_so() -> None:
    for shown in (record_of(), attention("a.0.b", queries=0)):
        header, arrays = message(shown.html())
        assert (header["views"], arrays, header["facts"]) == ({}, {}, ["There is no attention in this record."])
    for heads in (1, 2):  # one head of one site has no grid of all
        views = message(attention("a.0.b", heads=heads).html())[0]["views"]
        assert ("all_heads" in views) == (heads > 1)


def test_a_page_is_in_the_language_of_the_context() -> None:
    one = attention("a.0.b")
    with speaking("zh"):
        page = one.html()
    assert Elements(page).of("html")[0][0]["lang"] == "zh"
    assert message(page)[0]["words"]["map"] == "热图"
