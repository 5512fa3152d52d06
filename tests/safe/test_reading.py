"""Reading untrusted files: nothing is run, nothing is believed, every refusal says why and what to do."""

import io
import os
import pickle
import resource
import sys
import time
import types
import warnings
import zipfile
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import safetensors.torch
import torch
from safetensors.torch import save

from tests.checkpoint.references import REFERENCE, reference_file, weights
from tests.safe import hostile, hostile_archives, hostile_programs
from tests.safe.zips import Part, parts_of, zipped
from transformer.checkpoint import ReadLimits, load
from transformer.errors import CheckpointError
from transformer.safe.limits import DEFAULT_LIMITS
from transformer.safe.reading import read_file, read_stream


def _read(data: bytes, limits: ReadLimits = DEFAULT_LIMITS):
    return read_stream(io.BytesIO(data), "upload.pt", limits)


@pytest.mark.parametrize(
    "corpus", [hostile.corpus, hostile_programs.legacy_keys, hostile_programs.strange_claims, hostile_programs.budgets,
               hostile_archives.archives, hostile_archives.headers],
)  # fmt: skip
def test_every_trick_is_refused_by_name_quickly_and_without_memory(corpus, tmp_path):
    marker = tmp_path / "executed"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for trick, data, reason in corpus(str(marker)) if corpus is hostile.corpus else corpus():
        start = time.process_time()
        with pytest.raises(CheckpointError) as refused:
            _read(data)
        assert reason in str(refused.value), (trick, str(refused.value))
        assert str(refused.value).startswith("upload.pt is refused: "), trick
        assert "Remedy: " in str(refused.value), trick
        assert len(str(refused.value)) < 600, trick
        assert ".. " not in str(refused.value), trick
        assert not str(refused.value).endswith("."), trick
        assert time.process_time() - start < 5, trick
        assert not marker.exists(), trick
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 500, f"{grown} MB were taken"


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
        _read(data)


def test_an_archive_of_a_big_endian_machine_holds_the_same_numbers():
    tensors = {
        "wide": torch.arange(6, dtype=torch.float64) / 7,
        "float": torch.arange(12.0).reshape(3, 4).t() / 3,
        "half": torch.tensor([1.5, -2.25], dtype=torch.float16),
        "brain": torch.tensor([[1.5], [-3.0]], dtype=torch.bfloat16),
        "whole": torch.tensor([2**40 + 3, -5]),
        "byte": torch.tensor([1, 2, 255], dtype=torch.uint8),
        "yes": torch.tensor([True, False]),
        "nothing": torch.zeros(0, 3),
    }
    widths = [tensor.element_size() for tensor in tensors.values()]
    turned: list[Part] = []
    for part in parts_of(hostile.saved(tensors)):
        folder, _, key = part.name.rpartition("/")
        if folder.endswith("/data"):
            numbers = np.frombuffer(part.data, np.uint8).reshape(-1, widths[int(key)])
            turned.append(replace(part, data=numbers[:, ::-1].tobytes()))
        else:
            turned.append(replace(part, data=b"big") if key == "byteorder" else part)
    data = zipped(turned)
    found = _read(data).tensors
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype, name
        assert torch.equal(found[name], tensor), name
    assert all(torch.equal(found[name], tensor) for name, tensor in torch.load(io.BytesIO(data)).items())


@pytest.mark.parametrize("old", [False, True])
def test_truncated_files_are_refused_at_every_length(old):
    whole = hostile.saved({"a": torch.arange(7.0), "b": torch.ones(3)}, _use_new_zipfile_serialization=not old)
    for cut in hostile.truncations(whole, 97):
        with pytest.raises(CheckpointError):
            _read(cut)


def test_truncated_safetensors_are_refused_at_every_length():
    whole = save({"a": torch.arange(7.0), "b": torch.ones(3)})
    for cut in range(len(whole)):
        with pytest.raises(CheckpointError):
            _read(whole[:cut])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.bool])
@pytest.mark.parametrize("old", [False, True, None])
def test_every_kind_of_number_is_read_exactly(dtype, old):
    tensors = {"a": torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype), "b.c": torch.tensor(7).to(dtype)}
    data = save(tensors) if old is None else hostile.saved(tensors, _use_new_zipfile_serialization=not old)
    found = _read(data).tensors
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensor) and found[name].dtype == dtype for name, tensor in tensors.items())


@pytest.mark.parametrize("old", [False, True])
def test_views_parameters_and_empty_tensors_are_read(old):
    base = torch.arange(24.0).reshape(4, 6)
    tensors = {
        "whole": base,
        "part": base[1:3, ::2],
        "turned": base.T,
        "none": torch.zeros(0, 3),
        "trained": torch.nn.Parameter(base),
    }
    found = _read(hostile.saved(tensors, _use_new_zipfile_serialization=not old)).tensors
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())


def test_settings_come_along_as_plain_values():
    options = Namespace(n_head=3, name="x", flag=True, rate=0.5, nothing=None, listed=[1])
    made = {"n_head": 2, "nested": {"n_head": 7}}
    contents = _read(
        hostile.saved({"settings": options, "config": {"lr": 1}, "model_args": made, "model": {"a": torch.ones(2)}})
    )
    assert contents.settings == {
        "model_args.n_head": 2, "settings.n_head": 3, "settings.name": "x", "settings.flag": True,
        "settings.rate": 0.5, "config.lr": 1,
    }  # fmt: skip
    assert contents.place == "model"


@pytest.mark.parametrize("old", [False, True])
def test_tensors_of_torch_0_4_and_1_0_whose_hooks_are_none_are_read(old, monkeypatch):
    def rebuilt(tensor, protocol):
        found, arguments = as_now(tensor, protocol)
        return found, (*arguments[:5], None)

    as_now = torch.Tensor.__reduce_ex__
    values = torch.randn(3, 5)
    monkeypatch.setattr(torch.Tensor, "__reduce_ex__", rebuilt)
    data = hostile.saved({"a": values}, _use_new_zipfile_serialization=not old)
    monkeypatch.undo()
    assert torch.load(io.BytesIO(data), weights_only=True)["a"].equal(values)
    assert _read(data).tensors["a"].equal(values)


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
        read_file(written)
    for old in ("constants.pkl", "model.json", "code/m.py"):  # nothing compressed; torch before 1.4 had no pickle
        stored = io.BytesIO()
        with zipfile.ZipFile(stored, "w") as archive:
            archive.writestr(f"m/{old}", b"{}")
        with pytest.raises(CheckpointError, match="TorchScript program"):
            _read(stored.getvalue())
    assert set(read_file(again).tensors) == {"inside.weight", "inside.bias"}


def test_shared_containers_are_no_cycle():
    shared = {"weight": torch.ones(2)}
    doubled: list[object] = [shared]
    for _ in range(40):
        doubled = [doubled, doubled]
    assert _read(hostile.saved({"model": shared, "again": shared, "lots": doubled})).tensors.keys() == {"weight"}


@pytest.mark.parametrize("old", [False, True, None])
def test_no_other_reader_is_asked(old, monkeypatch):
    """What torch or safetensors make of a file that misleads is theirs; the tensors come from the checked bytes."""
    tensors = {"a": torch.arange(7.0)}
    data = save(tensors) if old is None else hostile.saved(tensors, _use_new_zipfile_serialization=not old)
    readers = ((torch, "load"), (torch._C, "PyTorchFileReader"), (zipfile, "ZipFile"), (safetensors, "safe_open"))
    for owner, name in (*readers, (safetensors, "deserialize"), (safetensors.torch, "load")):
        monkeypatch.setattr(owner, name, None)
    assert torch.equal(_read(data).tensors["a"], tensors["a"])


def test_many_readers_at_once_read_the_same():
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(read_file, [reference_file("jadore-emb")] * 12))
    assert all(torch.equal(c.tensors["trg_word_prj.weight"], found[0].tensors["trg_word_prj.weight"]) for c in found)


@pytest.mark.parametrize(
    ("limit", "value", "reason"),
    [
        ("file_bytes", 1000, "at most 1,000 are read"),
        ("archive_entries", 10, "at most 10 are read"),
        ("pickle_bytes", 100, "at most 100 are read"),
        ("pickle_steps", 50, "more than 50 steps"),
        ("container_items", 20, "more than 20 items"),
        ("tensors", 5, "at most 5 are read"),
        ("dimensions", 1, "2 axes, at most 1"),
        ("name_characters", 12, "characters"),
        ("depth", 1, "nested more than 1 deep"),
        ("seconds", -1.0, "to read"),
    ],
)
def test_limits_hold_for_torch_s_files(limit, value, reason):
    with pytest.raises(CheckpointError, match=reason):
        read_file(reference_file("jadore-emb"), replace(DEFAULT_LIMITS, **{limit: value}))


@pytest.mark.parametrize(
    ("limit", "value", "reason"),
    [("file_bytes", 100, "at most 100"), ("header_bytes", 100, "at most 100"), ("tensors", 5, "at most 5"),
     ("dimensions", 1, "no sensible shape"), ("name_characters", 12, "characters")],
)  # fmt: skip
def test_limits_hold_for_safetensors(limit, value, reason):
    with pytest.raises(CheckpointError, match=reason):
        _read(save(weights("kmer")), replace(DEFAULT_LIMITS, **{limit: value}))


def test_a_pipe_is_refused_before_it_is_opened(tmp_path):
    os.mkfifo(tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="no regular file"):
        load(tmp_path / "model.pt")


def test_a_path_to_nothing_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="is not there"):
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


def test_links_inside_the_folder_are_followed(tmp_path):
    (tmp_path / "epoch9.pt").write_bytes(reference_file("annotated").read_bytes())
    (tmp_path / "model.pt").symlink_to(tmp_path / "epoch9.pt")
    assert load(tmp_path, n_heads=3).name == tmp_path.name


def test_which_file_of_a_folder_is_meant_must_be_clear(tmp_path):
    with pytest.raises(CheckpointError, match="found: none"):
        load(tmp_path)
    data = reference_file("encoder-only").read_bytes()
    (tmp_path / "net.pth").write_bytes(data)
    assert load(tmp_path, n_heads=4, scale_embedding=False).name == tmp_path.name
    (tmp_path / "other.pth").write_bytes(data)
    with pytest.raises(CheckpointError, match=r"found: net\.pth, other\.pth"):
        load(tmp_path)
    (tmp_path / "model.pt").write_bytes(data)
    assert load(tmp_path, n_heads=4, scale_embedding=False).name == tmp_path.name


def test_half_a_pair_is_reported(tmp_path):
    (tmp_path / "decoder.pt").write_bytes((REFERENCE / "rnn-tutorial-2" / "decoder.pt").read_bytes())
    with pytest.raises(CheckpointError, match="the decoder of a recurrent pair, without its encoder"):
        load(tmp_path)


STATE = {"layer.weight": torch.arange(6.0).reshape(2, 3), "layer.bias": torch.ones(2)}
LONE = torch.tensor(0.3)


def read(root: object) -> tuple[set[str], str]:
    stream = io.BytesIO()
    torch.save(root, stream)
    found = read_stream(stream, "upload.pt")
    return set(found.tensors), found.place


@pytest.mark.parametrize(
    ("root", "place"),
    [
        ({"model": STATE, "loss": LONE}, "model"),
        ({"loss": LONE, "model": STATE}, "model"),
        ({"epoch": 1, "state_dict": STATE, "best_acc1": LONE}, "state_dict"),
        ({"model": {"module": STATE, "step": LONE}}, "model.module"),
        ({"transformer": STATE, "optimizer": {"lr": 0.1}}, "transformer"),
        ({"checkpoint": {"model": STATE}}, "checkpoint.model"),
        ({"ema": STATE}, "ema"),
        ({"model": STATE, "ema": STATE}, "model"),
        ({**STATE, "extra": LONE}, ""),
        (STATE, ""),
    ],
)
def test_weights_are_found_beside_anything(root: dict[str, object], place: str) -> None:
    names, found = read(root)
    assert names >= STATE.keys()
    assert found == place
    assert ("extra" in names) == ("extra" in root)
    assert not names & {"loss", "best_acc1", "rng_state", "step"}


def test_the_pair_of_a_recurrent_model_is_found_beside_a_loss() -> None:
    names, place = read({"encoder": STATE, "decoder": STATE, "loss": LONE})
    assert names == {f"{half}.{name}" for half in ("encoder", "decoder") for name in STATE}
    assert not place


def test_as_many_tensors_above_as_below_are_the_weights_themselves() -> None:
    assert read({"weight": LONE, "bias": LONE, "model": STATE}) == ({"weight", "bias"}, "")


OTHER = {name: tensor + 1 for name, tensor in STATE.items()}
ADAM = {
    "state": {0: {"exp_avg": STATE["layer.weight"], "exp_avg_sq": LONE, "step": LONE}},
    "param_groups": [{"lr": 0.1}],
}


@pytest.mark.parametrize(
    ("root", "place"),
    [
        ([STATE, ADAM], "0"),
        ((ADAM, STATE), "1"),
        ({"netG": STATE, "opt": ADAM}, "netG"),
        ({"ema_state_dict": STATE, "loss": LONE}, "ema_state_dict"),
        (
            {"best_model": {"weights_of_it": STATE}, "optimizer": {"a": LONE, "b": LONE, "c": LONE}},
            "best_model.weights_of_it",
        ),
        ({"student": STATE, "teacher": dict(STATE)}, "student"),
        ({"results": [{"epoch": 1}, {"epoch": 2, "net_state": STATE}]}, "results.1.net_state"),
    ],
)
def test_weights_are_found_under_any_name_and_in_lists(root: object, place: str) -> None:
    assert read(root) == (set(STATE), place)


PAIRS = [
    ("encoder_state_dict", "decoder_state_dict"), ("en", "de"), ("enc", "dec"), ("encoder1", "attn_decoder1"),
    ("my_encoder_model", "my_decoder_model"), ("Encoder", "AttnDecoder"),
]  # fmt: skip


@pytest.mark.parametrize("names", PAIRS)
def test_a_pair_is_found_under_the_names_of_tutorials(names: tuple[str, str]) -> None:
    found, _ = read({names[0]: STATE, names[1]: OTHER, "en_opt": ADAM, "encoder_optimizer": {"a": LONE}, "loss": 0.1})
    assert found == {f"{half}.{name}" for half in ("encoder", "decoder") for name in STATE}


def test_of_two_different_sets_of_one_size_none_is_chosen() -> None:
    with pytest.raises(CheckpointError, match=r"several sets of weights of one size: 'b', 'a\.net'"):
        read({"a": {"net": STATE}, "b": OTHER})


def test_looking_everywhere_costs_no_more_than_the_file() -> None:
    """Long keys over many small containers, each reached in two ways: places are not written out."""
    inner: object = {str(i): {} for i in range(9_000)}
    for _ in range(50):
        inner = {"k" * 900: inner}
    with pytest.raises(CheckpointError, match="holds no tensors"):
        read({"first": inner, "second": inner})


def test_what_lies_under_a_tuple_is_passed_over_and_told() -> None:
    stream = io.BytesIO()
    torch.save({"model": STATE, "pairs": {(1, "a"): 3}, "best": 1}, stream)
    found = read_stream(stream, "upload.pt")
    assert set(found.tensors) == STATE.keys()
    assert found.dropped == ("dict[tuple]",)
    with pytest.raises(CheckpointError, match="a key is a tuple"):
        read({"model": STATE, "pairs": {((1, 2), 3): 4}})


def test_a_tensor_under_a_tuple_of_words_is_called_after_them() -> None:
    assert read({"model": {("layer", "weight"): LONE, ("blocks", 0, "b"): LONE, "c": LONE}}) == (
        {"layer.weight", "blocks.0.b", "c"}, "model",
    )  # fmt: skip
    with pytest.raises(CheckpointError, match=r"two tensors are called 'layer\.weight'"):
        read({"model": STATE | {("layer", "weight"): LONE}})
    for key in ((), ("a", None), ("a", 2.5), (True, "a"), ("a", 2**40)):
        with pytest.raises(CheckpointError, match="a tensor lies under a tuple that holds more than words"):
            read({"model": STATE | {key: LONE}})


def test_tensors_in_lists_are_refused() -> None:
    for root in ({"best": {"weights": list(STATE.values())}}, [LONE, "a"], list(STATE.items())):
        with pytest.raises(CheckpointError, match="holds no tensors"):
            read(root)
