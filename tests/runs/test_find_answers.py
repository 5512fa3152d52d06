"""The answers that weights leave open are found from what the original computed; maps match by order and shape."""

import time

import numpy as np
import pytest
import torch
from torch import nn

from tests.checkpoint.references import REFERENCE
from transformer import CheckpointError, InputError, RecordError, check, check_file, find_answers, load, recording
from transformer import __main__ as command_line
from transformer.safe.arrays import read_arrays_file

RIGHT = dict(n_heads=4, activation="gelu", norm_first=True, scale_embedding=False, causal=False, head="mean")


class Classifier(nn.Module):
    """A bare nn.TransformerEncoder between an embedding with stored positions and a classifier of the mean."""

    def __init__(self, *, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        self.embedding = nn.Embedding(23, 24)
        self.register_buffer("pe", torch.randn(1, 19, 24))
        layer = nn.TransformerEncoderLayer(24, 4, 37, activation="gelu", norm_first=True, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.classifier = nn.Linear(24, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids) + self.pe[:, : ids.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], dtype=x.dtype) if self.causal else None
        return self.classifier(self.encoder(x, mask).mean(1))


def _saved(folder, seed=0, n_batch=2, **options):
    """Weights, and what `expected` wrote of a run of their module."""
    torch.manual_seed(seed)
    net = Classifier(**options).double().eval()
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
    folder, net, ids, output, _ = saved
    arrays = dict(np.load(folder / "expected.npz"))
    assert list(arrays) == [*(f"encoder.layers.{i}.self_attn" for i in range(3)), "input", "output"]
    assert (arrays["input"] == ids.numpy()).all()
    assert (arrays["output"] == output.numpy()).all()
    x = net.embedding(ids) + net.pe[:, :7]  # the first map, by hand
    q, k, _ = net.encoder.layers[0].self_attn.in_proj_weight.chunk(3)
    bias = net.encoder.layers[0].self_attn.in_proj_bias.chunk(3)
    x = net.encoder.layers[0].norm1(x)
    q, k = ((x @ w.T + b).unflatten(-1, (4, 6)).transpose(1, 2) for w, b in ((q, bias[0]), (k, bias[1])))
    wanted = (q @ k.mT / 6**0.5).softmax(-1).detach().numpy()
    assert arrays["encoder.layers.0.self_attn"].shape == (2, 4, 7, 7)
    assert abs(arrays["encoder.layers.0.self_attn"] - wanted).max() < 1e-14


def test_maps_by_paths_of_modules_are_compared_in_order_and_the_report_says_which(saved):
    folder = saved[0]
    found = check_file(load(folder / "net.pt", **RIGHT), folder / "expected.npz")
    assert found.agrees
    pairs = [(f"encoder.{i}.self", f"encoder.layers.{i}.self_attn") for i in range(3)]
    assert [(one.name, one.given) for one in found.differences] == [*pairs, ("output", "")]
    assert found.differences[1].title == "encoder.1.self (there encoder.layers.1.self_attn)"
    wrong = check_file(load(folder / "net.pt", **RIGHT | {"activation": "relu"}), folder / "expected.npz")
    assert "begins in encoder.1.self (there encoder.layers.1.self_attn)" in wrong.verdict


def test_order_and_shape_are_not_stretched(saved, tmp_path):
    folder, _, ids, *_ = saved
    arrays = dict(np.load(folder / "maps.npz"))
    del arrays["encoder.layers.1.self_attn"]
    np.savez(tmp_path / "two.npz", **arrays)
    checkpoint = load(folder / "net.pt", **RIGHT)
    with pytest.raises(InputError, match=r"7 x 7 the file holds encoder\.layers\.0\.self_attn.*encoder\.2\.self"):
        check_file(checkpoint, tmp_path / "two.npz")
    torch.save(
        {name: torch.from_numpy(array) for name, array in np.load(folder / "maps.npz").items()}, tmp_path / "m.pt"
    )
    with pytest.raises(InputError, match="nothing that is expected is of this model"):
        check_file(checkpoint, tmp_path / "m.pt")  # names in no order that anybody promised
    one = {
        "encoder.1.self": dict(np.load(folder / "maps.npz"))["encoder.layers.1.self_attn"],
        "mine": np.ones((2, 7, 7)),
    }
    found = check(checkpoint, ids, one)
    assert (found.agrees, len(found.differences), found.other) == (True, 1, ("mine",))


def test_source_target_and_cross_attention_match_by_their_shapes(tmp_path):
    folder = REFERENCE / "torch-prenorm"
    answers = dict(n_heads=4, activation="gelu", norm_first=True, scale_embedding=True)
    checkpoint = load(folder, **answers)
    arrays = dict(load_arrays(folder))
    source, target = arrays.pop("source"), arrays.pop("target")
    maps = {name: array for name, array in arrays.items() if "." in name}
    decoder_first = sorted(maps, key=lambda name: (not name.startswith("decoder"), name.split(".")[2], name))
    found = check(checkpoint, source, {f"net.{name}": maps[name] for name in decoder_first}, target)
    assert found.agrees
    assert {one.name: one.given for one in found.differences} == {name: f"net.{name}" for name in maps}


def load_arrays(folder):
    return {name: tensor.numpy() for name, tensor in read_arrays_file(folder / "expected.safetensors").tensors.items()}


def test_the_answers_are_found_among_all_and_nothing_else_agrees(saved):
    folder = saved[0]
    shares: list[float] = []
    began = time.process_time()
    found = find_answers(folder / "net.pt", folder / "expected.npz", progress=shares.append)
    assert time.process_time() - began < 60
    assert [dict(one) for one in found.found] == [RIGHT]
    assert found.is_complete
    assert found.undecided == {}
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert found.tried == 2**4 + 5  # scale, norm, activation, causal; then 5 things that the head may read
    assert "n_heads=4" in found.verdict
    assert "these answers alone" in found.verdict
    assert check_file(load(folder / "net.pt", **found.answers), folder / "expected.npz").agrees


def test_heads_are_tried_where_maps_are_means_over_them(saved, tmp_path):
    folder = saved[0]
    arrays = {name: a.mean(1) if a.ndim == 4 else a for name, a in np.load(folder / "expected.npz").items()}
    np.savez(tmp_path / "means.npz", **arrays)
    found = find_answers(folder / "net.pt", tmp_path / "means.npz")
    assert [dict(one) for one in found.found] == [RIGHT]
    assert found.tried == 8 * 2**4 + 5


def test_what_the_file_does_not_decide_is_told_and_the_likeliest_is_first(saved):
    folder = saved[0]
    found = find_answers(folder / "net.pt", folder / "maps.npz")
    assert dict(found.answers) == RIGHT
    assert found.undecided == {"head": ("mean", "each", "first", "last", "none")}
    assert len(found.found) == 5
    assert "does not decide head ('mean', 'each'" in found.verdict


def test_given_answers_stay_and_what_agrees_with_nothing_says_how_near_it_was(saved):
    folder = saved[0]
    part = {name: answer for name, answer in RIGHT.items() if name != "activation"}
    found = find_answers(folder / "net.pt", folder / "expected.npz", **part)
    assert (dict(found.answers), found.tried) == (RIGHT, 2)
    none = find_answers(folder / "net.pt", folder / "expected.npz", **RIGHT | {"activation": "relu"})
    assert none.found == ()
    assert "begins in encoder.1.self" in none.verdict
    with pytest.raises(InputError, match=r"answer \d+ heads"):
        find_answers(folder / "net.pt", folder / "expected.npz", n_heads=3)
    with pytest.raises(CheckpointError, match="n_heds"):
        find_answers(folder / "net.pt", folder / "expected.npz", n_heds=4)


def test_a_rare_answer_is_tried_where_the_usual_ones_fail(tmp_path):
    torch.manual_seed(1)
    net = Classifier(causal=True).double().eval()
    for module in net.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-6
    ids = torch.randint(2, 23, (3, 5))
    torch.save(net.state_dict(), tmp_path / "net.pt")
    with torch.no_grad(), recording(net) as seen:
        output = net(ids)
    seen.expected(tmp_path / "e.npz", inputs=ids, output=output)
    kept = {name: RIGHT[name] for name in ("n_heads", "scale_embedding", "activation")}
    found = find_answers(tmp_path / "net.pt", tmp_path / "e.npz", **kept)
    assert dict(found.answers) == RIGHT | {"causal": True, "norm_eps": 1e-6}


def test_a_search_ends_at_its_bounds_and_can_be_stopped(saved):
    folder = saved[0]
    few = find_answers(folder / "net.pt", folder / "expected.npz", most=5)
    assert (few.tried, few.is_complete) == (5, False)
    assert "none of the first 5 combinations" in few.verdict
    assert find_answers(folder / "net.pt", folder / "expected.npz", seconds=0.0).tried == 0

    class StopError(Exception):
        pass

    def stop(_share: float) -> None:
        raise StopError

    with pytest.raises(StopError):
        find_answers(folder / "net.pt", folder / "expected.npz", progress=stop)


def test_a_folder_that_says_all_has_nothing_to_find(saved):
    with pytest.raises(CheckpointError, match="says all"):
        find_answers("checkpoints/multi30k-en-de", saved[0] / "expected.npz")


def test_the_command_writes_options_that_make_check_agree(saved, capsys):
    folder = saved[0]
    files = [str(folder / "net.pt"), str(folder / "expected.npz")]
    assert command_line.main(["check", *files, "--find", "--answer", "n_heads=4"]) == 0
    options = capsys.readouterr().out.split()
    assert command_line.main(["check", *files, *options]) == 0
    assert "encoder.0.self (there encoder.layers.0.self_attn)" in capsys.readouterr().out
    assert command_line.main(["check", *files, "--find", *options, "--answer", "activation=relu"]) == 1
    written = capsys.readouterr()
    assert written.out == ""
    assert "no combination" in written.err


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
