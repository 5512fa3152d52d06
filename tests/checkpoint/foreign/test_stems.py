"""Class tokens and convolutions before an encoder's layers: asked, and then equal to the original."""

import math
import random

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.checkpoint.originals.common import Maps, Original, scramble, table
from tests.checkpoint.originals.torch_modules import step_by_step, watch_layers
from transformer import attention_maps, load
from transformer.checkpoint import report
from transformer.checkpoint.foreign.bundle import Bundle
from transformer.checkpoint.foreign.vocabularies import vocabulary_of
from transformer.checkpoint.safe.reading import read_file
from transformer.errors import CheckpointError, InputError
from transformer.runs.any_model import run_any


def _layers(d: int, heads: int, d_ff: int) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(d, heads, d_ff, 0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class WithClassToken(Original):
    """A learned vector before the tokens; with `early`, it gets row 0 of the positions."""

    def __init__(self, vocab: int, d: int, heads: int, d_ff: int, rows: int, early: bool, classes: int):
        super().__init__()
        self.token_embedding, self.cls_token = nn.Embedding(vocab, d), nn.Parameter(torch.zeros(1, 1, d))
        self.pos_embedding = nn.Embedding(rows, d) if rows else None
        self.encoder, self.classifier, self.early = _layers(d, heads, d_ff), nn.Linear(d, classes), early

    @step_by_step()
    def forward(self, ids: Tensor) -> Maps:
        maps: Maps = {}
        watch_layers(self.encoder.layers, None, maps)
        x = self.token_embedding(ids) * math.sqrt(self.cls_token.shape[2])
        first = self.cls_token.expand(len(x), 1, -1)
        x = self._placed(torch.cat([first, x], 1)) if self.early else torch.cat([first, self._placed(x)], 1)
        hidden = self.encoder(x)
        return maps | {"hidden": hidden, "logits": self.classifier(hidden[:, 0])}

    def _placed(self, x: Tensor) -> Tensor:
        rows = table(x.shape[1], x.shape[2]).to(x.dtype)
        return x + (rows if self.pos_embedding is None else self.pos_embedding.weight[: x.shape[1]])


class WithConvolution(Original):
    """A convolution over embeddings of another width, or over letters as ones (`width` 0)."""

    def __init__(self, vocab: int, width: int, d: int, heads: int, d_ff: int, window: tuple[int, int, int, int]):
        super().__init__()
        kernel, stride, padding, pool = window
        self.embed = nn.Embedding(vocab, width) if width else None
        self.stem = nn.Conv1d(width or vocab, d, kernel, stride=stride, padding=padding)
        self.encoder, self.vocab, self.pool = _layers(d, heads, d_ff), vocab, pool

    @step_by_step()
    def forward(self, ids: Tensor) -> Maps:
        maps: Maps = {}
        watch_layers(self.encoder.layers, None, maps)
        ones = F.one_hot(ids, self.vocab).to(self.stem.weight.dtype)
        x = F.gelu(self.stem((ones if self.embed is None else self.embed(ids)).transpose(1, 2)))
        x = torch.stack(
            [x[:, :, i : i + self.pool].amax(2) for i in range(0, x.shape[2] - self.pool + 1, self.pool)], 1
        )
        return maps | {"hidden": self.encoder(x + table(x.shape[1], x.shape[2]).to(x.dtype))}


def _agree(path, original, ids, **answers) -> None:
    found = attention_maps(load(path, **answers), ids)
    with torch.no_grad():
        for name, values in original.double()(ids).items():
            assert found[name].shape == tuple(values.shape), name
            assert abs(torch.from_numpy(found[name]) - values).max() < 1e-9, name


@pytest.mark.parametrize("seed", range(4))
def test_a_class_token_is_the_first_position(seed, tmp_path):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    heads = draw.choice([2, 3, 5])
    vocab, d_ff, rows = draw.sample(range(31, 60), 3)
    early, learned = bool(seed % 2), seed < 2
    original = scramble(WithClassToken(vocab, 4 * heads, heads, d_ff, rows if learned else 0, early, 7))
    path = tmp_path / "model.pt"
    torch.save(original.state_dict(), path)
    assert "before every text" in report(path).text or "cls_token" in report(path).text
    place = "before_positions" if early else "after_positions"
    answers = {"n_heads": heads, "scale_embedding": True} | ({} if early else {"cls_token": place})
    _agree(path, original, torch.randint(0, vocab, (2, 7)), **answers)
    run = run_any(load(path, **answers), "3 1 4")
    assert run.record["encoder.0.self"].keys.labels[0] == "[CLS]"
    assert len(run.record["encoder.0.self"].keys) == 4
    with pytest.raises(CheckpointError, match="cls_token"):
        load(path, cls_token="none")


def test_a_vocabulary_has_no_row_for_a_class_token(tmp_path):
    torch.manual_seed(4)
    path = tmp_path / "model.pt"
    torch.save(scramble(WithClassToken(5, 6, 2, 11, 0, True, 3)).state_dict(), path)
    words = vocabulary_of(["one", "two", "three", "four", "five"], "words.txt", "")
    found = Bundle("model", read_file(path), 1, "", {"words.txt": words}).checkpoint({"n_heads": 2})
    assert run_any(found, "two five").record["encoder.1.self"].keys.labels == ("[CLS]", "two", "five")


STEMS = [(13, 5, 3, 1, 1, 1), (13, 7, 4, 2, 0, 1), (4, 0, 5, 1, 2, 1), (4, 0, 3, 1, 1, 2), (4, 0, 2, 2, 1, 2)]
"""Vocabulary, width of its embedding, kernel, stride, padding, pooling."""


@pytest.mark.parametrize("stem", STEMS)
def test_a_convolution_makes_what_the_layers_read(stem, tmp_path):
    vocab, width, kernel, stride, padding, pool = stem
    torch.manual_seed(kernel)
    original = scramble(WithConvolution(vocab, width, 12, 3, 17, stem[2:]))
    path = tmp_path / "model.pt"
    torch.save(original.state_dict(), path)
    answers = {"conv_stride": stride, "conv_padding": padding, "conv_pool": pool, "conv_activation": "gelu"}
    assert answers.keys() <= {question.name for question in report(path).questions}
    answers |= {"n_heads": 3, "positions": "sinusoidal"} | ({"scale_embedding": False} if width else {})
    _agree(path, original, torch.randint(0, vocab, (2, 11)), **answers)
    checkpoint = load(path, **answers)
    labels = run_any(checkpoint, "0 1 2 3 2 1 0").record["encoder.0.self"].keys.labels
    if stride == pool == 1:
        assert len(labels) == 7
    else:
        count = ((7 + 2 * padding - kernel) // stride + 1) // pool
        last = (count - 1) * stride * pool - padding
        assert len(labels) == count
        assert labels[-1].endswith(f"({max(0, last) + 1}-{min(7, last + (pool - 1) * stride + kernel)})")
    if padding == 0:
        with pytest.raises(InputError, match="the text has 2 tokens, the convolution needs 4"):
            run_any(checkpoint, "0 1")


def test_a_convolution_that_shapes_do_not_prove_is_refused_until_it_is_answered(tmp_path):
    torch.manual_seed(2)
    original = scramble(WithConvolution(13, 12, 12, 3, 17, (3, 1, 1, 1)))
    torch.save(original.state_dict(), tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match=r"stem\.weight"):
        load(tmp_path / "model.pt")
    answers = dict(n_heads=3, convolution="stem.weight", conv_activation="gelu", scale_embedding=False)
    _agree(tmp_path / "model.pt", original, torch.randint(0, 13, (2, 9)), **answers)
