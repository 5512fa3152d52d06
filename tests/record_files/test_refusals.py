"""A record file that cannot be is refused in one sentence that names the place and what has to stand there."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.record_files.fuzz import outcomes
from tests.record_files.mutated import Mutants, parts_of, whole
from tests.record_files.samples import Samples
from transformer.attention.interventions.value import Intervention
from transformer.attention.record import AttentionMap, Record
from transformer.attention.softmax_inputs import AttentionInputs
from transformer.checkpoint.worker import isolated
from transformer.errors import CheckpointError
from transformer.nn.masks import Mask
from transformer.plots.axes import Axis
from transformer.safe.limits import ReadLimits
from transformer.sites import Site

Table = dict[str, Any]
MARKED = "a.0.self.mask.keys"


def small() -> bytes:
    """One site of 3 heads, 5 queries and 7 keys."""
    queries, keys = (Axis.of_tokens(name, [f"{name}{i}" for i in range(n)]) for name, n in (("q", 5), ("k", 7)))
    mask = Mask(torch.tensor([[True] * 6 + [False]]))
    source = AttentionInputs(torch.randn(1, 3, 5, 4), torch.randn(1, 3, 7, 4), mask, 0.5)
    return Record({Site("a.0.self"): AttentionMap(Site("a.0.self"), queries, keys, source)}).to_bytes()


def put(path: str, value: object) -> Callable[[Table], None]:
    """A change of the table: a value at a place (`sites.0.source.scale`)."""

    def change(table: Table) -> None:
        *holders, last = (int(part) if part.isdecimal() else part for part in path.split("."))
        holder: Any = table
        for part in holders:
            holder = holder[part]
        holder[last] = value

    return change


def twice(table: Table) -> None:
    table["sites"].append(table["sites"][0])


def forced_on_hidden(table: Table) -> None:
    site = table["sites"][0]
    table["changes"] = {"interventions": ["a.0.self~force~k6~v1.0"]}
    site["source"] = {"kind": "changed", "base": site["source"], "interventions": [0]}


def head_past_the_site(table: Table) -> None:
    site = table["sites"][0]
    table["changes"] = {"interventions": ["a.0.self~zero~h3"]}
    site["source"] = {"kind": "changed", "base": site["source"], "interventions": [0]}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put("version", 2), r"newer Heedmap \(version 2 of .*; this one reads up to 1\)\. Remedy: update Heedmap"),
        (put("version", -1), "no version of record files that is known"),
        (put("version", "1"), "no version of record files that is known"),
        (put("more", 1), r"heedmap in its table is not a table of version, model"),
        (put("sites", 7), r"heedmap\.sites in its table is not a list of 0 to 4,096 items"),
        (put("sites.0.site", "a\x1b[2J"), "printable characters"),
        (put("sites.0.keys", 9), r"heedmap\.sites\[0\]\.keys in its table is not a whole number from 0 to 1"),
        (put("sites.0.keys", -1), "is not a whole number"),
        (put("sites.0.queries", 1), r"the axis of heedmap\.sites\[0\]\.queries has 7 labels for 5 positions"),
        (put("axes.0.texts", []), "list of 1 to 65,536 items"),
        (put("axes.0.texts", ["a", None]), r"heedmap\.axes\[0\]\.texts\[1\] in its table is not a text"),
        (put("axes.0.texts", ["\ud800"]), "is not a text"),
        (put("axes.0.words", [0, 1]), "the word of each of 5 positions"),
        (put("axes.0.words", [0, 1, 0, 1, 1]), "the word of each of 5 positions"),
        (put("axes.0.special", [5]), "whole numbers from 0 to 4"),
        (put("axes.0.grid", [2, 3]), "rows and columns of at most 5 positions"),
        (put("sites.0.source.kind", "magic"), "one of inputs, weights, changed"),
        (put("sites.0.source.scale", float("nan")), "is not a finite number"),
        (put("sites.0.source.scale", 10**400), "is not a finite number"),
        (put("sites.0.source.softcap", 1.0), "is not a table of kind, q, k"),
        (put("sites.0.source.mask", {"kind": "table", "visible": MARKED}), "is 1 x 7, and has to be 1 x 1 x 5 x 7"),
        (put("sites.0.source.mask.causal", 1), "true or false"),
        (put("sites.0.source.k", MARKED), r"is 1 x 7, and has to be 1 x \? x \? x 4"),
        (put("sites.0.source.k", "nowhere"), "names the tensor 'nowhere', which the file does not hold"),
        (put("sites.0.source.known", "a.0.self.q"), r"is 1 x 3 x 5 x 4, and has to be 1 x 3 x 5"),
        (put("sites.0.source.bias", {"values": "a.0.self.k"}), r"is 1 x 3 x 7 x 4, and has to be 1 x \? x \? x 7"),
        (put("sites.0.source.mask", {"kind": "keys"}), "holds the tensor 'a.0.self.mask.keys', which no site names"),
        (put("sites.0.interventions", [0]), "whole numbers from 0 to -1"),
        (put("sites.0.notes", ["x"] * 101), "list of 0 to 100 items"),
        (put("changes", {"interventions": ["a~bang"]}), "an intervention of .*bang"),
        (put("changes", {"interventions": ["a~patch_output~vx"]}), "intervention of"),
        (put("checksums", {"a.0.self.q": 5}), "block 'a.0.self.q' is damaged"),
        (put("checksums", [1]), "its checksums are no numbers"),
        (twice, "it holds the site 'a.0.self' twice"),
        (forced_on_hidden, r"an intervention of heedmap\.sites\[0\]\.source \('a\.0\.self'\) cannot be read"),
        (head_past_the_site, r"an intervention of heedmap\.sites\[0\]\.source"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_is_refused(change: Callable[[Table], None], reason: str) -> None:
    parts = parts_of(small())
    change(parts[1])
    with pytest.raises(CheckpointError, match=rf"^run\.heedmap is refused: .*{reason}"):
        Record.of_bytes(whole(parts), "run.heedmap")


@pytest.mark.parametrize("shape", [[1, 10**9, 5, 4], [1, 3, 5, -4], [2, 3, 5, 2], [1, 5, 3, 4], [1, 3, 20, 1]])
def test_a_tensor_of_another_shape_is_refused(shape: list[int]) -> None:
    header, table, data = parts_of(small())
    header["a.0.self.q"]["shape"] = shape
    with pytest.raises(CheckpointError, match=r"^x is refused: "):
        Record.of_bytes(whole((header, table, data)), "x")


def test_heads_without_numbers_are_refused_before_they_cost_anything() -> None:
    """A billion heads that hold nothing, or that one number stands for."""
    header, table, data = parts_of(small())
    header["a.0.self.q"] |= {"shape": [1, 10**9, 0, 4], "data_offsets": [0, 0]}
    with pytest.raises(CheckpointError, match="is refused"):
        Record.of_bytes(whole((header, table, data)), "x")
    heads = Record.of_bytes(small(), "x")["a.0.self"].source
    many = AttentionInputs(torch.zeros(1, 4_097, 1, 1), heads.k[:, :1, :, :1], Mask(), 1.0)
    axis = Axis.of_tokens("x", ["a"])
    with pytest.raises(CheckpointError, match="has 4,097 x 1 x 7 heads, queries and keys: at most 4,096"):
        Record({Site("a"): AttentionMap(Site("a"), axis, axis, many)}).to_bytes()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_no_softmax_has_are_refused_by_the_tensor_s_name(value: float) -> None:
    header, table, data = parts_of(small())
    start, _ = header["a.0.self.k"]["data_offsets"]
    data[start + 8 : start + 12] = torch.tensor([value]).numpy().tobytes()
    with pytest.raises(CheckpointError, match=r"block 'a\.0\.self\.k' is damaged"):
        Record.of_bytes(whole((header, table, data)), "x")
    table["checksums"] = {}
    with pytest.raises(CheckpointError, match=r"'a\.0\.self\.k' \(heedmap\.sites\[0\]\.source\.k\) holds NaN"):
        Record.of_bytes(whole((header, table, data)), "x")


def test_brackets_that_are_written_as_codes_count() -> None:
    header, table, data = parts_of(small())
    inner = json.dumps({**table, "more": "?"}).replace('"?"', "<" + "<>," * 300_000 + "1>")
    text = json.dumps({"__metadata__": {"heedmap": inner}, **header}).replace("<", "\\u005b").replace(">", "\\u005d")
    assert text.count("[") < 100
    with pytest.raises(CheckpointError, match="its header holds more than 250,000 tables and lists"):
        Record.of_bytes(len(text.encode()).to_bytes(8, "little") + text.encode() + bytes(data), "x")


def test_weights_and_other_files_are_no_records() -> None:
    header, _, data = parts_of(small())
    text = json.dumps(header).encode()
    with pytest.raises(CheckpointError, match="it is a file of weights"):
        Record.of_bytes(len(text).to_bytes(8, "little") + text + data, "x.safetensors")
    for other in (b"", b"PK\x03\x04" + bytes(90), b"\x80\x02}q\x00."):
        with pytest.raises(CheckpointError, match=r"it is no file that record\.save wrote"):
            Record.of_bytes(other, "x")


def test_a_file_is_refused_by_its_size_before_it_is_read() -> None:
    with pytest.raises(CheckpointError, match=r"bytes, at most 100 are read\. Remedy: record a shorter input"):
        isolated.open_record(io.BytesIO(small()), "x", ReadLimits(file_bytes=100))


def test_interventions_that_all_maps_repeat_are_bounded() -> None:
    """What costs a hash or a look at each map may not be written once and named a thousand times."""
    parts = parts_of(small())
    table = parts[1]
    table["changes"] = {"interventions": ["a~zero~q0-19999"] * 3}
    first = table["sites"][0]
    table["sites"] = [{**first, "site": f"a.{i}.self", "interventions": [0, 1, 2]} for i in range(100)]
    with pytest.raises(CheckpointError, match="name more than 5,000,000 heads"):
        Record.of_bytes(whole(parts), "x")


def test_mutated_files_are_refused_or_are_records() -> None:
    bad = [end for _, end in outcomes(Mutants(seed=77), 0, 40) if end not in ("refused", "read")]
    assert not bad, bad[0]


def test_the_fuzzer_sees_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Record:
        raise KeyError("q")

    monkeypatch.setattr(Record, "of_bytes", fails)
    assert "KeyError" in next(outcomes(Mutants(seed=1), 0, 1))[1]


def test_an_intervention_that_fits_is_read() -> None:
    source = Samples(1, torch.float64).changed(5, 6)
    queries, keys = (Axis.of_tokens("x", [str(i) for i in range(n)]) for n in (5, 6))
    changes = (*source.interventions, Intervention("elsewhere", "zero"))
    site = Site("blocks.7.attn-1")
    record = Record({site: AttentionMap(site, queries, keys, source, 2, changes)})
    assert len(Record.of_bytes(record.to_bytes(), "x").interventions) == 7
