"""`check`: equal to the original within rounding, or told where it differs; files of arrays are not believed."""

import io
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from heedmap import InputError, RecordError, check, check_file, load, recording
from heedmap import __main__ as command_line
from heedmap.errors import CheckpointError
from heedmap.safe.arrays import ARRAY_LIMITS, read_arrays, read_arrays_file
from heedmap.safe.limits import ReadLimits
from tests.checkpoint.references import REFERENCE, heads
from tests.safe.hostile import zip_of

PRENORM = REFERENCE / "torch-prenorm"
RIGHT = dict(n_heads=4, activation="gelu", norm_first=True, scale_embedding=True)


def _expected(folder: Path = PRENORM) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in load_file(folder / "expected.safetensors").items()}


@pytest.fixture(scope="module")
def right():
    return load(PRENORM, **RIGHT)


@pytest.mark.parametrize("kind", ["npz", "npz packed", "safetensors"])
def test_a_checkpoint_that_is_read_right_agrees(kind, right, tmp_path):
    path = tmp_path / f"expected.{kind[:3]}"
    if kind == "safetensors":
        save_file({name: torch.from_numpy(array) for name, array in _expected().items()}, path)
    else:
        (np.savez if kind == "npz" else np.savez_compressed)(path, **_expected())
    found = check_file(right, path)
    assert found.agrees
    assert found.begins is None
    assert [one.name for one in found.differences] == [*map(str, right.sites), "log_probs"]
    assert 0 < max(one.largest for one in found.differences) < 1e-9
    assert "computes what was expected" in found.verdict


def test_a_wrong_answer_is_told_by_where_the_difference_begins(right):
    arrays = _expected()
    source, target = arrays.pop("source"), arrays.pop("target")
    wrong = check(load(PRENORM, **RIGHT | {"activation": "relu"}), source, arrays, target)
    assert not wrong.agrees
    assert wrong.begins.name == "decoder.0.cross"  # the first attention that reads a feed-forward net
    assert "decoder.0.cross" in wrong.verdict
    moved = arrays["decoder.0.cross"].copy()
    moved[1, 2, 3, 1] += 0.25
    found = check(right, source, arrays | {"decoder.0.cross": moved}, target)
    first = found.begins
    assert (first.name, first.place, round(first.largest, 9)) == ("decoder.0.cross", (1, 2, 3, 1), 0.25)
    assert first.expected == pytest.approx(first.found + 0.25)
    assert sum(one.agrees for one in found.differences) == len(found.differences) - 1


def test_the_mean_over_heads_raw_scores_and_one_sentence_will_do(right):
    arrays = _expected()
    source, target, maps = arrays["source"], arrays["target"], arrays["decoder.1.cross"]
    shifted = arrays["log_probs"] + np.arange(arrays["log_probs"].shape[1])[:, None]
    averaged = check(right, source, {"decoder.1.cross": maps.mean(1), "logits": shifted}, target)
    assert averaged.agrees
    assert len(averaged.differences) == 2
    assert not check(right, source, {"log_probs": shifted}, target).agrees  # these are to be what they are called
    alone = check(right, source[0], {"decoder.1.cross": maps[0], "mine": maps}, target[0])
    assert alone.agrees
    assert alone.other == ("mine",)


def test_rounding_is_judged_by_the_precision_that_was_saved(right):
    arrays = _expected()
    source, target = arrays["source"], arrays["target"]
    single = arrays["log_probs"].astype(np.float32)
    assert check(right, source, {"log_probs": single}, target).agrees
    assert not check(right, source, {"log_probs": single}, target, tolerance=1e-12).agrees
    assert not check(right, source, {"log_probs": single.astype(np.float64)}, target).agrees


@pytest.mark.parametrize(("layout", "rest"), [("annotated", "even"), ("torch-postnorm", "undefined")])
def test_what_is_undefined_agrees_with_nothing_and_rows_that_see_nothing_are_what_the_original_makes(layout, rest):
    arrays, checkpoint = _expected(REFERENCE / layout), load(REFERENCE / layout, **heads(layout))
    source, target = arrays["source"].copy(), arrays["target"]
    source[0] = 0  # nothing but padding: one original spreads such rows evenly, the other makes NaN of them
    expected = np.full_like(arrays["encoder.0.self"], 1 / source.shape[1] if rest == "even" else np.nan)
    expected[1:] = arrays["encoder.0.self"][1:]
    found = check(checkpoint, source, {"encoder.0.self": expected}, target)
    (one,) = found.differences
    assert (one.unseen, one.agrees) == (0 if rest == "even" else source.shape[1], True)
    log_probs = arrays["log_probs"].copy()
    log_probs[0, 1, 2] = np.nan
    (undefined,) = check(checkpoint, arrays["source"], {"log_probs": log_probs}, target).differences
    assert (undefined.place, undefined.largest, undefined.agrees) == ((0, 1, 2), np.inf, False)


def test_what_cannot_be_compared_is_refused_by_name(right, tmp_path):
    arrays = _expected()
    source, target = arrays["source"], arrays["target"]
    with pytest.raises(InputError, match=r"mine.*encoder\.0\.self.*log_probs"):
        check(right, source, {"mine": arrays["log_probs"]}, target)
    with pytest.raises(InputError, match="log_probs is expected in the shape"):
        check(right, source, {"log_probs": arrays["log_probs"][:, 1:]}, target)
    np.savez(tmp_path / "no_ids.npz", log_probs=arrays["log_probs"])
    with pytest.raises(InputError, match="holds no ids to run"):
        check_file(right, tmp_path / "no_ids.npz")
    np.savez(tmp_path / "reals.npz", source=source.astype(float), target=target, log_probs=arrays["log_probs"])
    with pytest.raises(InputError, match="no whole numbers"):
        check_file(right, tmp_path / "reals.npz")


def _npy(shape: tuple[int, ...], body: bytes, descr: str = "'<f8'", fortran: bool = False) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body


def _zip(packed: bool = True, **entries: bytes) -> bytes:
    return zip_of(*((f"{name}.npy", data) for name, data in entries.items()), packed=packed)


HOSTILE = {
    "claims more than it holds": _zip(a=_npy((1 << 40,), b"\0" * 64)),
    "holds more than it claims": _zip(a=_npy((2,), b"\0" * 64)),
    "negative": _zip(a=_npy((-2, -4), b"\0" * 64)),
    "objects": _zip(a=_npy((1,), b"\x80\x04N.", "'|O'")),
    "records": _zip(a=_npy((1,), b"\0" * 8, "[('x', '<f8')]")),
    "code in its header": _zip(a=_npy((1,), b"\0" * 8, "__import__('os').system('true')")),
    "nested header": _zip(a=_npy((1,), b"\0" * 8, "(" * 300 + ")" * 300)),
    "no array": _zip(a=b"\x80\x04N."),
    "bomb": _zip(a=_npy((1 << 20,), b"\0" * (8 << 20))),
    "cut off": _zip(a=_npy((8,), b"\1" * 64))[:-30],
    "damaged": _zip(packed=False, a=_npy((8,), b"\1" * 64)).replace(b"\1" * 64, b"\2" * 64),
    "axes": _zip(a=_npy((1,) * 30, b"\0" * 8)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_arrays_are_refused(name):
    limits = ReadLimits(file_bytes=1 << 20)
    with pytest.raises(CheckpointError, match=r"x\.npz is refused"):
        read_arrays(io.BytesIO(HOSTILE[name]), "x.npz", limits)


def test_arrays_are_what_numpy_saved():
    rng = np.random.default_rng(3)
    arrays = {
        "fortran": np.asfortranarray(rng.normal(size=(3, 5, 7))), "big": rng.normal(size=4).astype(">f4"),
        "none": np.zeros((0, 3)), "one": np.array(2.5), "whole": np.arange(5, dtype=np.int16), "yes": np.array([True]),
    }  # fmt: skip
    held = io.BytesIO()
    np.savez(held, **arrays)
    found = read_arrays(held, "x.npz", ARRAY_LIMITS).tensors
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert np.array_equal(found[name].numpy(), array), name


def test_the_command_writes_a_table_and_ends_with_1_where_something_differs(tmp_path: Path, capsys):
    answers = [part for name, value in RIGHT.items() for part in ("--answer", f"{name}={value}".lower())]
    expected = str(PRENORM / "expected.safetensors")
    assert command_line.main(["check", str(PRENORM), expected, *answers]) == 0
    assert "computes what was expected" in capsys.readouterr().out
    assert command_line.main(["check", str(PRENORM), expected, *answers, "--answer", "activation=relu"]) == 1
    out = capsys.readouterr().out
    assert "encoder.0.self\t" in out
    assert "it begins in decoder.0.cross" in out
    (tmp_path / "x.npz").write_bytes(b"PK")
    assert command_line.main(["check", str(PRENORM), str(tmp_path / "x.npz"), *answers]) == 2
    assert "is refused" in capsys.readouterr().err


def test_a_pipe_is_no_file_of_arrays(tmp_path: Path) -> None:
    """Opening it would wait for ever."""
    os.mkfifo(tmp_path / "expected.npz")
    with pytest.raises(CheckpointError, match="expected"):
        read_arrays_file(tmp_path / "expected.npz")


MINE = dict(n_heads=4, activation="gelu", norm_first=True, scale_embedding=False, causal=False)


class LanguageModel(nn.Module):
    """A bare nn.TransformerEncoder between an embedding with stored positions and scores of the vocabulary."""

    def __init__(self, *, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        self.embedding = nn.Embedding(23, 24)
        self.register_buffer("pos_embedding", torch.randn(1, 19, 24))
        layer = nn.TransformerEncoderLayer(24, 4, 37, activation="gelu", norm_first=True, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.linear = nn.Linear(24, 23)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids) + self.pos_embedding[:, : ids.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], dtype=x.dtype) if self.causal else None
        return self.linear(self.encoder(x, mask))


def _saved(folder, seed=0, n_batch=2, **options):
    """Weights, and what `expected` wrote of a run of their module."""
    torch.manual_seed(seed)
    net = LanguageModel(**options).double().eval()
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.3)
    ids = torch.randint(2, 23, (n_batch, 7))
    torch.save(net.state_dict(), folder / "net.pt")
    with torch.no_grad(), recording(net) as seen:
        output = net(ids)
    seen.expected(folder / "expected.npz", inputs=ids, output=output)
    seen.expected(folder / "maps.npz", inputs=ids)
    return net, ids, output, seen


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    return folder, *_saved(folder)


def test_one_line_saves_what_the_module_computed(saved):
    folder, _, ids, output, _ = saved
    arrays = dict(np.load(folder / "expected.npz"))
    assert list(arrays) == [*(f"encoder.layers.{i}.self_attn" for i in range(3)), "input", "output"]
    assert (arrays["input"] == ids.numpy()).all()
    assert (arrays["output"] == output.numpy()).all()
    assert arrays["encoder.layers.0.self_attn"].shape == (2, 4, 7, 7)


def test_maps_by_paths_of_modules_are_compared_in_order_and_the_report_says_which(saved):
    folder = saved[0]
    found = check_file(load(folder / "net.pt", **MINE), folder / "expected.npz")
    assert found.agrees
    pairs = [(f"encoder.{i}.self", f"encoder.layers.{i}.self_attn") for i in range(3)]
    assert [(one.name, one.given) for one in found.differences] == [*pairs, ("output", "")]
    assert found.differences[1].title == "encoder.1.self (there encoder.layers.1.self_attn)"
    wrong = check_file(load(folder / "net.pt", **MINE | {"activation": "relu"}), folder / "expected.npz")
    assert "begins in encoder.1.self (there encoder.layers.1.self_attn)" in wrong.verdict


def test_order_and_shape_are_not_stretched(saved, tmp_path):
    folder, _, ids, *_ = saved
    arrays = dict(np.load(folder / "maps.npz"))
    torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, tmp_path / "m.pt")
    middle = arrays.pop("encoder.layers.1.self_attn")
    np.savez(tmp_path / "two.npz", **arrays)
    checkpoint = load(folder / "net.pt", **MINE)
    with pytest.raises(InputError, match=r"7 x 7 the file holds encoder\.layers\.0\.self_attn.*encoder\.2\.self"):
        check_file(checkpoint, tmp_path / "two.npz")
    with pytest.raises(InputError, match="nothing that is expected is of this model"):
        check_file(checkpoint, tmp_path / "m.pt")  # names in no order that anybody promised
    found = check(checkpoint, ids, {"encoder.1.self": middle, "mine": np.ones((2, 7, 7))})
    assert (found.agrees, len(found.differences), found.other) == (True, 1, ("mine",))


def test_source_target_and_cross_attention_match_by_their_shapes(right):
    arrays = _expected()
    source, target = arrays.pop("source"), arrays.pop("target")
    maps = {name: array for name, array in arrays.items() if "." in name}
    decoder_first = sorted(maps, key=lambda name: (not name.startswith("decoder"), name.split(".")[2], name))
    found = check(right, source, {f"net.{name}": maps[name] for name in decoder_first}, target)
    assert found.agrees
    assert {one.name: one.given for one in found.differences} == {name: f"net.{name}" for name in maps}


def test_expected_is_of_one_run_of_the_inputs(saved, tmp_path):
    _, net, ids, _, seen = saved
    with pytest.raises(RecordError, match="attended in 2 sentences, inputs have 3"):
        seen.expected(tmp_path / "e.npz", inputs=torch.zeros(3, 7, dtype=torch.long))
    with recording(nn.Linear(3, 5)) as nothing:
        pass
    with pytest.raises(RecordError, match="no attention was seen"):
        nothing.expected(tmp_path / "e.npz", inputs=[1, 2])
    with torch.no_grad(), recording(net.half().float()) as seen:
        net(ids)
    seen.expected(tmp_path / "single.npz", inputs=ids.tolist(), targets=ids[:, :3])
    arrays = dict(np.load(tmp_path / "single.npz"))
    assert list(arrays)[3:] == ["source", "target"]
    assert arrays["encoder.layers.0.self_attn"].dtype == np.float32
    net.double()
