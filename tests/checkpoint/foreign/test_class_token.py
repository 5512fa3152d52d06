"""A class token before every text: where its position comes from is asked, and then equal to the original."""

import math
import random

import pytest
import torch
from torch import Tensor, nn

from tests.checkpoint.originals.common import Maps, Original, loaded, scramble, table
from tests.checkpoint.originals.torch_modules import step_by_step, watch_layers
from transformer import attention_maps, load
from transformer.checkpoint import report
from transformer.checkpoint.foreign.bundle import Bundle
from transformer.checkpoint.foreign.vocabularies import vocabulary_of
from transformer.checkpoint.safe.reading import read_file
from transformer.errors import CheckpointError
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


def _agree(path, original, ids, **answers) -> None:
    found = attention_maps(loaded(path, **answers), ids)
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
    run = run_any(loaded(path, **answers), "3 1 4")
    assert run.record["encoder.0.self"].keys.labels[0] == "[CLS]"
    assert len(run.record["encoder.0.self"].keys) == 4
    with pytest.raises(CheckpointError, match="cls_token"):
        load(path, cls_token="none")


def test_a_vocabulary_has_no_row_for_a_class_token(tmp_path):
    torch.manual_seed(4)
    path = tmp_path / "model.pt"
    torch.save(scramble(WithClassToken(5, 6, 2, 11, 0, True, 3)).state_dict(), path)
    words = vocabulary_of(["one", "two", "three", "four", "five"], "words.txt", "")
    found = Bundle("model", read_file(path), 1, "", {"words.txt": words}).checkpoint(
        {"n_heads": 2, "scale_embedding": True, "head": "first"}
    )
    assert run_any(found, "two five").record["encoder.1.self"].keys.labels == ("[CLS]", "two", "five")
