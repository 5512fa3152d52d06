"""What a record shows does not depend on whether it was just made or read from its file."""

import copy
import io
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heedmap.attention.interventions.value import Intervention
from heedmap.attention.record import AttentionMap, Record
from heedmap.attention.softmax_inputs import AttentionInputs, Weights
from heedmap.attention.tables import BiasTable
from heedmap.checkpoint.worker import isolated
from heedmap.errors import CheckpointError
from heedmap.messages import Message, say, speaking
from heedmap.nn.masks import Mask
from heedmap.safe.limits import ReadLimits
from heedmap.sites import Site
from tests.attention.maps import numbered, record_of
from tests.record_files.fuzz import GOOD, outcome, parts_of, whole
from tests.record_files.samples import DTYPES, Samples, everything, same
from tests.safe.hostile import safetensors as safetensors_file


def read_again(record: Record) -> Record:
    return Record.of_bytes(record.to_bytes(), "run.heedmap")


def map_of(site: str, source: AttentionInputs | Weights, **more: Any) -> AttentionMap:
    return AttentionMap(Site(site), numbered("q", source.n_queries), numbered("k", source.n_keys), source, **more)


def one(source: AttentionInputs | Weights, **more: Any) -> Record:
    """A record of one site."""
    return record_of(map_of("pooling", source, **more))


def refused(data: bytes | bytearray, reason: str) -> None:
    with pytest.raises(CheckpointError, match=rf"^run\.heedmap is refused: .*{reason}"):
        Record.of_bytes(data, "run.heedmap")


@settings(max_examples=8)
@given(st.integers(0, 10_000), st.sampled_from(DTYPES))
def test_a_record_shows_the_same_after_it_was_read(seed: int, dtype: torch.dtype) -> None:
    record = Samples(seed, dtype).record()
    assert same(everything(copy.deepcopy(record)), everything(read_again(record))) == []


def test_the_comparison_can_fail() -> None:
    record = Samples(3).record()
    site = Site("encoder.0.self")
    other = copy.deepcopy(record)
    other[site].source.q[record[site].batch, 2, -1, 0] += 0.5
    changed = same(everything(record), everything(other))
    assert changed
    assert all(name.startswith("encoder.0.self 2") for name in changed)


def test_a_file_is_what_the_format_says() -> None:
    """The weights of a site, worked out from the file by hand."""
    samples = Samples(5, torch.float64)
    nq, nk = samples.n_queries, samples.n_keys
    record = one(replace(samples.inputs(nq, nk, 6, 2, mask=Mask(causal=True)), scale=0.25), batch=2)
    data = record.to_bytes()
    tensors = safetensors.torch.load(data)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    table = json.loads(header["__metadata__"]["heedmap"])
    assert (table["version"], [site["site"] for site in table["sites"]]) == (1, ["pooling"])
    source = table["sites"][0]["source"]
    q, k = (_meant(tensors, source[name]).numpy()[0] for name in ("q", "k"))
    assert q.shape == (6, nq, samples.d_k)
    assert k.shape == (2, nk, samples.d_k)
    past = np.tril(np.ones((nq, nk), dtype=bool), nk - nq)
    for head in range(6):
        exponentials = np.exp(source["scale"] * q[head] @ k[head // 3].T) * past
        sums = exponentials.sum(1, keepdims=True)
        expected = np.divide(exponentials, sums, where=sums > 0, out=np.zeros_like(exponentials))
        np.testing.assert_allclose(record["pooling"].weights(head), expected, rtol=0, atol=1e-12)


def _meant(tensors: dict[str, torch.Tensor], entry: object) -> torch.Tensor:
    if isinstance(entry, str):
        return tensors[entry]
    return tensors[entry["tensor"]].permute(tuple(np.argsort(entry["order"])))


def test_a_file_is_saved_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, path = Samples(1).record(), tmp_path / "run.heedmap"
    record.save(path)
    assert path.read_bytes() == record.to_bytes()
    assert same(everything(Record.open(str(path))), everything(record)) == []

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match=os.strerror(28)):
        Samples(2).record().save(path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == record.to_bytes()


def test_a_worker_reads_the_same_and_writes_it_anew() -> None:
    record = Samples(7).record()
    found = isolated.open_record(io.BytesIO(record.to_bytes()), "run.heedmap")
    assert same(everything(found), everything(record)) == []
    assert found.to_bytes() == record.to_bytes()
    with pytest.raises(CheckpointError, match=r"^weights\.pt is refused: .*save it again with record\.save"):
        isolated.open_record(io.BytesIO(b"PK\x03\x04" * 30), "weights.pt")


def test_shared_tensors_are_written_once_and_stay_shared() -> None:
    bias, k = BiasTable(torch.randn(1, 1, 31, 37)), torch.randn(1, 4, 37, 5)
    sources = [AttentionInputs(torch.randn(1, 4, 31, 5), k, Mask(), 0.5, bias) for _ in range(9)]
    sources.append(AttentionInputs(torch.randn(1, 4, 31, 5), k[:, :1].expand(1, 4, 37, 5), Mask(), 0.5))
    record = record_of(*(map_of(f"s{i}", source) for i, source in enumerate(sources)))
    data = record.to_bytes()
    numbers = 10 * 4 * 31 * 5 + 4 * 37 * 5 + 37 * 5 + 31 * 37
    assert len(safetensors.torch.load(data)) == 10 + 1 + 1 + 1
    assert 4 * numbers < len(data) < 4 * numbers + 8_000
    assert data.count(b"q17") == 1
    found = read_again(record)
    assert len({one.source.bias.values.data_ptr() for one in found.values() if one.source.bias}) == 1
    assert same(everything(found), everything(record)) == []


def test_numbers_lie_in_memory_as_they_did() -> None:
    """Sums over numbers in another order may be rounded otherwise, on some processors."""
    q = torch.randn(2, 7, 3, 5).transpose(1, 2)
    record = one(AttentionInputs(q, torch.randn(2, 3, 5, 9).transpose(2, 3), Mask(), 0.5), batch=1)
    was, found = record["pooling"].source, read_again(record)["pooling"].source
    assert found.q.stride()[1:] == was.q.stride()[1:] == (5, 15, 1)
    assert found.k.stride()[1:] == was.k.stride()[1:] == (45, 1, 9)


def test_only_the_sentence_that_is_shown_is_written() -> None:
    record = one(Samples(4, torch.float32).inputs(11, 7), batch=1)
    found = read_again(record)["pooling"]
    assert (found.batch, found.source.q.shape[0], found.source.k.shape[0]) == (0, 1, 1)
    assert torch.equal(found.source.q[0], record["pooling"].source.q[1])


def test_messages_are_said_in_the_reader_s_language_and_unknown_ones_as_they_are() -> None:
    note = Message("title_of_map", site=Site("a"), head=Message("head_number", head=3))
    record = one(Samples(6, torch.float64).inputs(7, 9), notes=(note, "plain"))
    data = record.to_bytes()
    found = Record.of_bytes(data, "x").notes
    assert found == (str(note), "plain")
    with speaking("zh"):
        assert [say(text) for text in found] == [say(note), "plain"]
        assert say(note) != str(note)
    for code in (b"title_of_bag", b"head_number!"):  # of a newer catalogue, or with other fields
        newer = Record.of_bytes(data.replace(b"title_of_map", code), "x").notes
        assert newer == (str(note), "plain")
        assert not isinstance(newer[0], Message)


def test_a_record_that_could_not_be_read_is_not_written() -> None:
    source = Samples(6, torch.float64).inputs(7, 9)
    source.q[0, 1, 2, 3] = torch.nan
    with pytest.raises(CheckpointError, match=r"'pooling\.q' .* holds NaN"):
        one(source).to_bytes()
    many = tuple(Intervention("pooling", "zero", queries=i) for i in range(501))
    with pytest.raises(CheckpointError, match="list of 0 to 500 items"):
        one(Samples(6, torch.float64).inputs(7, 9), interventions=many).to_bytes()


def test_interventions_keep_their_donors_names_and_are_written_once() -> None:
    record = Samples(8, torch.float64).record()
    found = read_again(record)
    assert [one.message for one in found.interventions] == [one.message for one in record.interventions]
    donors = {id(one.value) for one in found.interventions if one.action.startswith("patch")}
    assert len(donors) == 1
    assert record.to_bytes().count(b"patch_output") == 1


Table = dict[str, Any]
MARKED = "a.0.self.mask.keys"


def small() -> bytes:
    """One site of 3 heads, 5 queries and 7 keys."""
    mask = Mask(torch.tensor([[True] * 6 + [False]]))
    return record_of(
        map_of("a.0.self", AttentionInputs(torch.randn(1, 3, 5, 4), torch.randn(1, 3, 7, 4), mask, 0.5))
    ).to_bytes()


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


def changed_by(text: str) -> Callable[[Table], None]:
    """A change of the table: its only site runs under an intervention."""

    def change(table: Table) -> None:
        site = table["sites"][0]
        table["changes"] = {"interventions": [text]}
        site["source"] = {"kind": "changed", "base": site["source"], "interventions": [0]}

    return change


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
        (changed_by("a.0.self~force~k6~v1.0"), r"an intervention of .*source \('a\.0\.self'\) cannot be read"),
        (changed_by("a.0.self~zero~h3"), r"an intervention of heedmap\.sites\[0\]\.source"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_is_refused(change: Callable[[Table], None], reason: str) -> None:
    parts = parts_of(small())
    change(parts[1])
    refused(whole(parts), reason)


@pytest.mark.parametrize("shape", [[1, 10**9, 5, 4], [1, 3, 5, -4], [2, 3, 5, 2], [1, 5, 3, 4], [1, 3, 20, 1]])
def test_a_tensor_of_another_shape_is_refused(shape: list[int]) -> None:
    parts = parts_of(small())
    parts[0]["a.0.self.q"]["shape"] = shape
    refused(whole(parts), "")


def test_heads_without_numbers_are_refused_before_they_cost_anything() -> None:
    """A billion heads that hold nothing, or that one number stands for."""
    parts = parts_of(small())
    parts[0]["a.0.self.q"] |= {"shape": [1, 10**9, 0, 4], "data_offsets": [0, 0]}
    refused(whole(parts), "")
    many = AttentionInputs(torch.zeros(1, 4_097, 1, 1), torch.zeros(1, 1, 7, 1), Mask(), 1.0)
    with pytest.raises(CheckpointError, match="has 4,097 x 1 x 7 heads, queries and keys: at most 4,096"):
        one(many).to_bytes()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_no_softmax_has_are_refused_by_the_tensor_s_name(value: float) -> None:
    header, table, data = parts = parts_of(small())
    start, _ = header["a.0.self.k"]["data_offsets"]
    data[start + 8 : start + 12] = torch.tensor([value]).numpy().tobytes()
    refused(whole(parts), r"block 'a\.0\.self\.k' is damaged")
    table["checksums"] = {}
    refused(whole(parts), r"'a\.0\.self\.k' \(heedmap\.sites\[0\]\.source\.k\) holds NaN")


@pytest.mark.parametrize(("value", "is_read"), [(1e38, False), (-0.002, False), (1.0009, True)])
def test_kept_weights_lie_between_0_and_1(value: float, is_read: bool) -> None:
    record = one(Weights(torch.tensor([[[[value, 0.0]]]])))
    if is_read:
        assert record.to_bytes()
        return
    with pytest.raises(CheckpointError, match="cannot be meant: attention weights lie between 0 and 1"):
        record.to_bytes()


def test_brackets_that_are_written_as_codes_count() -> None:
    header, table, data = parts_of(small())
    inner = json.dumps({**table, "more": "?"}).replace('"?"', "<" + "<>," * 300_000 + "1>")
    text = json.dumps({"__metadata__": {"heedmap": inner}, **header}).replace("<", "\\u005b").replace(">", "\\u005d")
    assert text.count("[") < 100
    refused(safetensors_file(text.encode(), bytes(data)), "its header holds more than 250,000 tables and lists")


def test_weights_and_other_files_are_no_records() -> None:
    header, _, data = parts_of(small())
    refused(safetensors_file(header, bytes(data)), "it is a file of weights")
    for other in (b"", b"PK\x03\x04" + bytes(90), b"\x80\x02}q\x00."):
        refused(other, r"it is no file that record\.save wrote")


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
    refused(whole(parts), "name more than 5,000,000 heads")


def test_mutated_files_are_refused_or_are_records() -> None:
    assert not {outcome(number)[1] for number in range(40)} - {*GOOD}


def test_the_fuzzer_sees_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Record:
        raise KeyError("q")

    monkeypatch.setattr(Record, "of_bytes", fails)
    assert "KeyError" in outcome(1)[1]
