"""Reading untrusted files: nothing is run, nothing is believed, every refusal says why and what to do."""

import io
import os
import pickle
import subprocess
import sys
import types
import warnings
import zipfile
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from heedmap.checkpoint import load
from heedmap.checkpoint.load import read
from heedmap.errors import CheckpointError
from heedmap.safe.limits import DEFAULT_LIMITS
from tests.checkpoint.references import REFERENCE, reference_file, weights
from tests.fuzzing import calls_counted, memory_bounded
from tests.safe import hostile
from tests.safe.archives import archives, read_bytes

MOST_MEGABYTES, MOST_CALLS = 500, 20_000_000
"""What reading a small file may take: the most work is 8 million calls, with those that check signatures."""


@pytest.mark.parametrize(
    "corpus", [hostile.corpus, hostile.legacy_keys, hostile.strange_claims, hostile.budgets, archives,
               hostile.headers],
)  # fmt: skip
def test_every_trick_is_refused_by_name_quickly_and_without_memory(corpus, tmp_path):
    marker = tmp_path / "executed"
    for trick, data, reason in corpus(str(marker)) if corpus is hostile.corpus else corpus():
        with memory_bounded(MOST_MEGABYTES), calls_counted() as count, pytest.raises(CheckpointError) as refused:
            read_bytes(data)
        assert reason in str(refused.value), (trick, str(refused.value))
        assert str(refused.value).startswith("upload.pt is refused: "), trick
        assert "Remedy: " in str(refused.value), trick
        assert len(str(refused.value)) < 600, trick
        assert ".. " not in str(refused.value), trick
        assert not str(refused.value).endswith("."), trick
        assert count() < MOST_CALLS, trick
        assert not marker.exists(), trick


def test_the_corpus_would_do_harm_if_it_were_believed(tmp_path):
    marker = tmp_path / "executed"
    pickle.loads(pickle.dumps(hostile.Touch(str(marker)), protocol=2))
    assert marker.exists()


def test_a_refusal_names_exactly_what_was_asked_for(monkeypatch):
    net = type("Net", (torch.nn.Module,), {"__module__": "my_models"})
    module = types.ModuleType("my_models")
    monkeypatch.setattr(module, "Net", net, raising=False)
    monkeypatch.setitem(sys.modules, "my_models", module)
    data = hostile.saved(net())
    with pytest.raises(CheckpointError, match=r"import 'my_models\.Net'.*save its weights alone"):
        read_bytes(data)


def test_truncated_files_are_refused_at_every_length():
    tensors = {"a": torch.arange(7.0), "b": torch.ones(3)}
    cuts = [save(tensors)[:cut] for cut in range(len(save(tensors)))]
    for write in hostile.TORCH:
        cuts += hostile.truncations(write(tensors), 97)
    for cut in cuts:
        with pytest.raises(CheckpointError):
            read_bytes(cut)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.bool])
@pytest.mark.parametrize("write", [save, *hostile.TORCH])
def test_every_kind_of_number_is_read_exactly(dtype, write):
    tensors = {"a": torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype), "b.c": torch.tensor(7).to(dtype)}
    data = write(tensors)
    found = read_bytes(data).tensors
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensor) and found[name].dtype == dtype for name, tensor in tensors.items())


@pytest.mark.parametrize("write", hostile.TORCH)
def test_views_parameters_and_empty_tensors_are_read(write):
    base = torch.arange(24.0).reshape(4, 6)
    tensors = {"whole": base, "part": base[1:3, ::2], "turned": base.T, "none": torch.zeros(0, 3)}
    tensors["trained"] = torch.nn.Parameter(base)
    found = read_bytes(write(tensors)).tensors
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())


def test_settings_come_along_as_plain_values():
    options = Namespace(n_head=3, name="x", flag=True, rate=0.5, nothing=None, listed=[1])
    made = {"n_head": 2, "nested": {"n_head": 7}}
    contents = read_bytes(
        hostile.saved({"settings": options, "config": {"lr": 1}, "model_args": made, "model": {"a": torch.ones(2)}})
    )
    assert contents.settings == {
        "model_args.n_head": 2, "settings.n_head": 3, "settings.name": "x", "settings.flag": True,
        "settings.rate": 0.5, "config.lr": 1,
    }  # fmt: skip
    assert contents.place == "model"


@pytest.mark.parametrize("write", hostile.TORCH)
def test_tensors_of_torch_0_4_and_1_0_whose_hooks_are_none_are_read(write, monkeypatch):
    def rebuilt(tensor, protocol):
        found, arguments = as_now(tensor, protocol)
        return found, (*arguments[:5], None)

    as_now = torch.Tensor.__reduce_ex__
    values = torch.randn(3, 5)
    monkeypatch.setattr(torch.Tensor, "__reduce_ex__", rebuilt)
    data = write({"a": values})
    monkeypatch.undo()
    assert torch.load(io.BytesIO(data), weights_only=True)["a"].equal(values)
    assert read_bytes(data).tensors["a"].equal(values)


def test_torchscript_is_called_so_and_its_remedy_works(tmp_path):
    class Doubled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = torch.nn.Linear(3, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * self.inside(x)

    written, again = tmp_path / "model.pt", tmp_path / "weights.pt"
    with warnings.catch_warnings():  # torch.jit is on its way out; its files are not
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.script(Doubled()), written)
        data = written.read_bytes()
        torch.save(torch.jit.load(written).state_dict(), again)
    assert any(entry.compress_type for entry in zipfile.ZipFile(io.BytesIO(data)).infolist())
    with pytest.raises(CheckpointError, match=r"TorchScript program.*torch\.jit\.load\(path\)\.state_dict\(\)"):
        read(written, DEFAULT_LIMITS)
    for old in ("constants.pkl", "model.json", "code/m.py"):  # nothing compressed; torch before 1.4 had no pickle
        with pytest.raises(CheckpointError, match="TorchScript program"):
            read_bytes(hostile.zip_of((f"m/{old}", b"{}"), packed=False))
    assert set(read(again, DEFAULT_LIMITS).tensors) == {"inside.weight", "inside.bias"}


def test_shared_containers_are_no_cycle():
    shared = {"weight": torch.ones(2)}
    doubled: list[object] = [shared]
    for _ in range(40):
        doubled = [doubled, doubled]
    assert read_bytes(hostile.saved({"model": shared, "again": shared, "lots": doubled})).tensors.keys() == {"weight"}


@pytest.mark.parametrize("write", [save, *hostile.TORCH])
def test_no_other_reader_is_asked(write, monkeypatch):
    """What torch or safetensors make of a file that misleads is theirs; the tensors come from the checked bytes."""
    tensors = {"a": torch.arange(7.0)}
    data = write(tensors)
    readers = ((torch, "load"), (torch._C, "PyTorchFileReader"), (zipfile, "ZipFile"), (safetensors, "safe_open"))
    for owner, name in (*readers, (safetensors, "deserialize"), (safetensors.torch, "load")):
        monkeypatch.setattr(owner, name, None)
    assert torch.equal(read_bytes(data).tensors["a"], tensors["a"])


def test_many_readers_at_once_read_the_same():
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(read, [reference_file("jadore-emb")] * 12, [DEFAULT_LIMITS] * 12))
    assert all(torch.equal(c.tensors["trg_word_prj.weight"], found[0].tensors["trg_word_prj.weight"]) for c in found)


LIMITS: dict[str, tuple[float, str, float, str]] = {
    "file_bytes": (1000, "at most 1,000 are read", 100, "at most 100"),
    "archive_entries": (10, "at most 10 are read", 0, ""),
    "header_bytes": (10**6, "", 100, "at most 100"),
    "pickle_bytes": (100, "at most 100 are read", 0, ""),
    "pickle_steps": (50, "more than 50 steps", 0, ""),
    "container_items": (20, "more than 20 items", 0, ""),
    "tensors": (5, "at most 5 are read", 5, "at most 5"),
    "dimensions": (1, "2 axes, at most 1", 1, "no sensible shape"),
    "name_characters": (12, "characters", 12, "characters"),
    "depth": (1, "nested more than 1 deep", 0, ""),
    "seconds": (-1.0, "to read", 0, ""),
}
"""What is refused of torch's files with such a limit, and of safetensors with such; nothing where no reason stands."""


@pytest.mark.parametrize("limit", LIMITS)
def test_limits_hold(limit):
    of_torch, reason, of_safetensors, other = LIMITS[limit]
    if reason:
        with pytest.raises(CheckpointError, match=reason):
            read(reference_file("jadore-emb"), replace(DEFAULT_LIMITS, **{limit: of_torch}))
    if other:
        with pytest.raises(CheckpointError, match=other):
            read_bytes(save(weights("kmer")), replace(DEFAULT_LIMITS, **{limit: of_safetensors}))


def test_a_path_to_nothing_is_refused_and_a_pipe_before_it_is_opened(tmp_path):
    with pytest.raises(CheckpointError, match="is not there"):
        load(tmp_path / "model.pt")
    os.mkfifo(tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="no regular file"):
        load(tmp_path / "model.pt")


@pytest.mark.parametrize("names", [("model.pt",), ("encoder.pt", "decoder.pt")])
def test_links_out_of_the_folder_are_refused(names, tmp_path):
    folder, secret = tmp_path / "checkpoint", tmp_path / "secret.pt"
    folder.mkdir()
    torch.save({"a": torch.ones(2)}, secret)
    for name in names:
        (folder / name).symlink_to(secret)
    with pytest.raises(CheckpointError, match="a link that leads out of its folder"):
        load(folder)


def test_which_file_of_a_folder_is_meant_must_be_clear_and_links_inside_are_followed(tmp_path):
    with pytest.raises(CheckpointError, match="found: none"):
        load(tmp_path)
    data = reference_file("encoder-only").read_bytes()
    (tmp_path / "net.pth").write_bytes(data)
    assert load(tmp_path, n_heads=4, scale_embedding=False).name == tmp_path.name
    (tmp_path / "other.pth").write_bytes(data)
    with pytest.raises(CheckpointError, match=r"found: net\.pth, other\.pth"):
        load(tmp_path)
    (tmp_path / "model.pt").symlink_to(tmp_path / "other.pth")
    assert load(tmp_path, n_heads=4, scale_embedding=False).name == tmp_path.name


def test_half_a_pair_is_reported(tmp_path):
    (tmp_path / "decoder.pt").write_bytes((REFERENCE / "rnn-tutorial-2" / "decoder.pt").read_bytes())
    with pytest.raises(CheckpointError, match="the decoder of a recurrent pair, without its encoder"):
        load(tmp_path)


@settings(max_examples=60)
@given(data=st.binary(max_size=300), start=st.sampled_from([b"", b"PK\x03\x04", b"\x80\x02", b"\x0a\0\0\0\0\0\0\0{"]))
def test_anything_at_all_is_refused(data, start):
    with pytest.raises(CheckpointError):
        read_bytes(start + data)


@settings(max_examples=60)
@given(steps=st.lists(st.sampled_from(sorted("}]()lut.Rbsae0Nq\x00h\x00\x85\x86\x87\x88\x89")), max_size=60))
def test_programs_of_random_steps_are_refused(steps):
    with pytest.raises(CheckpointError):
        read_bytes(hostile.archive(b"\x80\x02" + "".join(steps).encode("latin-1") + b"."))


def test_mutants_are_refused_or_read_as_other_readers_read_them():
    """Each in a process with 4 GB and 20 s; `python -m tests.safe.fuzz --files 20000` does more of them."""
    command = [sys.executable, "-m", "tests.safe.fuzz", "--files", "400"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "400 files, 0 bad" in done.stdout
    assert "read as others read it" in done.stdout
