"""Several convolutions with batch norms before an encoder's layers: asked, and then equal to the original."""

import random
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.checkpoint.foreign.test_stems import _agree, _layers
from tests.checkpoint.originals.common import Maps, Original, scramble, table
from tests.checkpoint.originals.torch_modules import step_by_step, watch_layers
from transformer import load
from transformer.checkpoint import report
from transformer.checkpoint.ours.convert import convert
from transformer.errors import CheckpointError, ConfigError, InputError
from transformer.models.encoder import EncoderConfig
from transformer.runs.any_model import run_any


class Stem(Original):
    """Embedding (or letters as ones), convolutions with a norm before or after their activation, pooling, layers."""

    def __init__(self, vocab: int, sizes: list[int], windows: list[tuple[int, int, int, int, int]], norms: str):
        super().__init__()
        self.vocab, self.windows, self.norms = vocab, windows, norms
        self.embed = nn.Embedding(vocab, sizes[0]) if sizes[0] != vocab else None
        blocks = []
        for (reads, makes), (width, stride, padding, _, dilation) in zip(pairwise(sizes), windows, strict=True):
            block = Original()
            block.conv = nn.Conv1d(reads, makes, width, stride, padding, dilation, bias=not norms)
            if norms:
                block.bn = nn.BatchNorm1d(makes)
            blocks.append(block)
        self.stem, self.encoder = nn.ModuleList(blocks), _layers(sizes[-1], 3, 17)

    def kept(self) -> "Stem":
        """With statistics as training leaves them."""
        for name, buffer in scramble(self).named_buffers():
            if name.endswith(("running_mean", "running_var")):
                buffer.uniform_(0.4, 1.7)
        return self

    @step_by_step()
    def forward(self, ids: Tensor) -> Maps:
        maps: Maps = {}
        watch_layers(self.encoder.layers, None, maps)
        dtype = self.stem[0].conv.weight.dtype
        x = (F.one_hot(ids, self.vocab).to(dtype) if self.embed is None else self.embed(ids)).transpose(1, 2)
        for block, (*_, pool, _) in zip(self.stem, self.windows, strict=True):
            x = block.conv(x)
            if self.norms == "before_activation":
                mean, var = block.bn.running_mean[:, None], block.bn.running_var[:, None]
                x = (x - mean) / (var + 1e-5).sqrt() * block.bn.weight[:, None] + block.bn.bias[:, None]
            x = x.clamp(min=0)
            x = block.bn(x) if self.norms == "after_activation" else x
            x = torch.stack([x[:, :, i : i + pool].amax(2) for i in range(0, x.shape[2] - pool + 1, pool)], 2)
        x = x.transpose(1, 2)
        return maps | {"hidden": self.encoder(x + table(x.shape[1], x.shape[2]).to(dtype))}


CASES = [
    (4, [4, 7, 12], [(5, 1, 2, 2, 1), (3, 1, 1, 1, 1)], "before_activation"),
    (13, [6, 6, 9, 12], [(3, 1, 1, 1, 1), (1, 1, 0, 2, 1), (3, 2, 0, 1, 1)], "after_activation"),
    (4, [4, 12, 12, 12], [(5, 1, 0, 1, 1), (3, 1, 2, 2, 2), (3, 1, 1, 1, 1)], "before_activation"),
    (5, [5, 12], [(3, 1, 2, 1, 2)], "before_activation"),
    (5, [5, 8, 12], [(4, 2, 1, 1, 1), (2, 1, 0, 1, 1)], ""),
]
"""Vocabulary, channels, (width, stride, padding, pooling, dilation) of each, and where batch norms act."""


def _answers(windows: list[tuple[int, int, int, int, int]], norms: str) -> dict[str, object]:
    numbers = [""] if len(windows) == 1 else [f"_{i}" for i in range(1, len(windows) + 1)]
    names = ("width", "stride", "padding", "pool", "dilation")
    told = {f"conv_{name}{n}": size for n, one in zip(numbers, windows, strict=True)
            for name, size in zip(names[1:], one[1:], strict=True)}  # fmt: skip
    return told | {"n_heads": 3, "positions": "sinusoidal"} | ({"conv_norm": norms} if norms else {})


@pytest.mark.parametrize("case", range(len(CASES)))
def test_convolutions_and_their_norms_make_what_the_layers_read(case, tmp_path):
    vocab, sizes, windows, norms = CASES[case]
    torch.manual_seed(case)
    original = Stem(vocab, sizes, windows, norms).kept()
    path = tmp_path / "model.pt"
    torch.save(original.state_dict(), path)
    answers = _answers(windows, norms) | ({"scale_embedding": False} if original.embed is not None else {})
    found = report(path, **answers)
    assert found.fits, found.text
    _agree(path, original, torch.randint(0, vocab, (2, 23)), **answers)
    checkpoint = load(path, **answers)
    convert(path, tmp_path / "ours", **answers)
    _agree(tmp_path / "ours", original, torch.randint(0, vocab, (2, 19)))
    count = 23
    for width, stride, padding, pool, dilation in windows:
        count = ((count + 2 * padding - dilation * (width - 1) - 1) // stride + 1) // pool
    text = " ".join(str(i % vocab) for i in range(23))
    assert len(run_any(checkpoint, text).record["encoder.0.self"].keys) == count


def test_each_position_stands_for_the_letters_that_it_depends_on(tmp_path):
    """What a position reads is found by changing every letter: no other one changes what it makes."""
    vocab, sizes, windows, norms = CASES[2]
    torch.manual_seed(9)
    original = Stem(vocab, sizes, windows, norms).kept()
    torch.save(original.state_dict(), tmp_path / "model.pt")
    model = load(tmp_path / "model.pt", **_answers(windows, norms)).model.double()
    ids = torch.randint(0, vocab, (1, 17))
    told = model.windows(17)
    with torch.no_grad():
        x, _ = model.encoder_inputs(ids)
        reached = [{i for i in range(17) if any(
            bool((model.encoder_inputs(ids.index_fill(1, torch.tensor([i]), letter))[0][0, p] != x[0, p]).any())
            for letter in range(vocab))} for p in range(x.shape[1])]  # fmt: skip
    assert len(told) == x.shape[1]
    for (first, past), letters in zip(told, reached, strict=True):
        assert letters <= set(range(first, past))
    assert sum(first in letters for (first, _), letters in zip(told, reached, strict=True)) > len(told) // 2
    for length in range(1, 17):
        text = " ".join("1" * length)
        made = length
        for width, stride, padding, pool, dilation in windows:
            made = max(0, (made + 2 * padding - dilation * (width - 1) - 1) // stride + 1) // pool
        checkpoint = load(tmp_path / "model.pt", **_answers(windows, norms)) if length in {1, 4, 5, 6} else None
        if checkpoint is not None and made == 0:
            with pytest.raises(InputError, match="the convolution needs"):
                run_any(checkpoint, text)
        elif checkpoint is not None:
            assert len(run_any(checkpoint, text).record["encoder.0.self"].keys) == made


def test_of_several_orders_that_shapes_allow_one_is_asked(tmp_path):
    vocab, sizes, windows, norms = CASES[2]
    original = Stem(vocab, sizes, windows, norms).kept()
    torch.save(original.state_dict(), tmp_path / "model.pt")
    asked = {question.name: question for question in report(tmp_path / "model.pt").questions}
    names = [f"stem.{i}.conv.weight" for i in range(3)]
    assert asked["convolution"].options == (" > ".join(names), " > ".join([names[0], names[2], names[1]]), "none")
    assert any("convolution=" in text for text in report(tmp_path / "model.pt").assumptions)
    with pytest.raises(CheckpointError, match="conv"):
        load(tmp_path / "model.pt", convolution="none")


def test_a_batch_norm_that_is_declared_elsewhere_is_refused(tmp_path):
    vocab, sizes, windows, _ = CASES[4]
    original = Stem(vocab, sizes, windows, "").kept()
    state = original.state_dict()
    norm = nn.BatchNorm1d(12)
    torch.save({**state, **{f"mid.{name}": tensor for name, tensor in norm.state_dict().items()}}, tmp_path / "m.pt")
    assert {"mid.weight", "mid.running_mean"} <= report(tmp_path / "m.pt", n_heads=3).unexpected.keys()
    draw = random.Random(3)
    shuffled = sorted(state, key=lambda _: draw.random())  # no order says where a lone norm stands
    renamed = {name: state[name] for name in shuffled} | {
        f"n.{k}": v for k, v in nn.BatchNorm1d(8).state_dict().items()
    }
    torch.save(renamed, tmp_path / "m.pt")
    assert "n.running_var" in report(tmp_path / "m.pt", n_heads=3).unexpected


def test_convolutions_that_do_not_follow_are_no_config():
    for wrong in ({"early": (4, 7, 3, 1, 1, 1, 1)}, {"early": (4, 8, 3)}, {"early": (4, 8, 3, 1, 1, 0, 1)}):
        with pytest.raises(ConfigError, match="give seven numbers for each"):
            EncoderConfig(vocab=4, d_model=12, n_heads=3, conv_width=3, conv_reads=8, **wrong)
    with pytest.raises(ConfigError, match="at most 1024 are read"):
        EncoderConfig(vocab=4, d_model=12, n_heads=3, conv_width=3, conv_reads=8, conv_padding=10**9)
    with pytest.raises(ConfigError, match="count from 0"):
        EncoderConfig(vocab=4, d_model=12, n_heads=3, conv_width=3, conv_reads=8, conv_norms=(1,))
