"""What a record shows does not depend on whether it was just made or read from its file."""

import copy
import io
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.record_files.samples import DTYPES, Samples, everything, same
from transformer.attention.interventions.value import Intervention
from transformer.attention.masks_and_biases import BiasTable
from transformer.attention.record import AttentionMap, Record
from transformer.attention.softmax_inputs import AttentionInputs, Weights
from transformer.checkpoint.worker import isolated
from transformer.errors import CheckpointError
from transformer.messages import Message, say, speaking
from transformer.nn.masks import Mask
from transformer.plots.axes import Axis
from transformer.sites import Site


def read_again(record: Record) -> Record:
    return Record.of_bytes(record.to_bytes(), "run.heedmap")


def one(source: AttentionInputs | Weights, **more: object) -> Record:
    """A record of one site."""
    queries, keys = (
        Axis.of_tokens(name, [str(i) for i in range(n)]) for name, n in (("q", source.n_queries), ("k", source.n_keys))
    )
    return Record({Site("pooling"): replace(AttentionMap(Site("pooling"), queries, keys, source), **more)})


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
    queries, keys = (Axis.of_tokens(name, [f"{name}{i}" for i in range(n)]) for name, n in (("q", 31), ("k", 37)))
    record = Record({Site(f"s{i}"): AttentionMap(Site(f"s{i}"), queries, keys, one) for i, one in enumerate(sources)})
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


class Elsewhere(Mask):
    """A mask of a form that no file knows."""

    def part(self, rows: slice, keys: slice, n_queries: int, n_keys: int, batch: int) -> torch.Tensor:
        cells = torch.arange(n_queries)[:, None] * 3 + torch.arange(n_keys)[None] + batch
        return (cells % 4 > 0)[rows, keys]

    def visible_range(self, rows: slice, n_queries: int, n_keys: int) -> slice:
        return slice(0, n_keys)


def test_a_mask_of_another_form_is_written_cell_by_cell() -> None:
    record = one(Samples(6, torch.float64).inputs(7, 9, mask=Elsewhere()), batch=2)
    assert not record["pooling"].mask().all()
    assert same(everything(read_again(record)), everything(record)) == []


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


def test_a_grid_is_kept_and_says_how_many_positions_come_before_it() -> None:
    axis = replace(Axis.of_tokens("patch", ["CLS", *"abcdef"]), grid=(2, 3))
    assert axis.kept([1, 2]).grid is None
    found = read_again(one(Samples(6).inputs(7, 7), queries=axis, keys=axis))["pooling"]
    assert (found.queries, found.keys.grid) == (axis, (2, 3))


def test_a_long_run_of_a_whole_model_is_small() -> None:
    """Two of twelve layers of 12 heads of 64 numbers; the others add as much again each."""
    n_keys = 2_048
    sums = torch.zeros(1, 12, n_keys)
    layers = [
        AttentionInputs(
            torch.randn(1, n_keys, 12, 64).transpose(1, 2),
            torch.randn(1, 12, n_keys, 64),
            Mask(causal=True),
            0.125,
            known=sums.clone(),
        )
        for _ in range(2)
    ]
    axis = Axis.of_tokens("token", [f"▁word{i}" for i in range(n_keys)])
    sites = [Site(f"encoder.{i}.self") for i in range(2)]
    maps = {site: AttentionMap(site, axis, axis, layer) for site, layer in zip(sites, layers, strict=True)}
    sizes = [len(Record(few).to_bytes()) for few in ({sites[0]: maps[sites[0]]}, maps)]
    assert sizes[0] + 11 * (sizes[1] - sizes[0]) < 160_000_000


def test_measures_are_a_table_of_every_head() -> None:
    record = Samples(9, torch.float64).record()
    table = record.measures()
    assert list(table.columns[:3]) == ["site", "head", "entropy"]
    assert len(table) == sum(one.n_heads for one in record.values())
    row = table[(table.site == "encoder.0.self") & (table["head"] == 2)].iloc[0]
    weights, visible = record["encoder.0.self"].weights(2), record["encoder.0.self"].mask()
    entropies = [-(p[p > 0] * np.log(p[p > 0])).sum() for p in weights[visible.sum(1) > 1]]
    np.testing.assert_allclose(row.entropy, np.mean(entropies), rtol=0, atol=1e-12)
    assert len(json.loads(table.to_json(orient="records"))) == len(table)
