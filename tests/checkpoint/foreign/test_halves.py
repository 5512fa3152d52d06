"""One half of a recurrent pair by itself: told what it is, and read once the other half is there."""

from io import BytesIO
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.checkpoint.originals import rnn, rnn_tutorials
from tests.checkpoint.originals.common import scramble
from transformer import attention_maps, load
from transformer.checkpoint import report
from transformer.checkpoint.foreign.bundle import Bundle, bundle
from transformer.errors import CheckpointError

SOURCE = torch.randint(3, 31, (2, 7), generator=torch.Generator().manual_seed(5))
TARGET = torch.randint(3, 37, (2, 5), generator=torch.Generator().manual_seed(7))

PAIRS: dict[str, Any] = {
    "rnn-tutorial-1": lambda: (rnn.EncoderRNN(31, 13), rnn.LocationDecoder(37, 13, 9)),
    "rnn-tutorial-2": lambda: (rnn.EncoderRNN(31, 13), rnn.AdditiveDecoder(37, 13)),
    "rnn-d2l": lambda: (rnn_tutorials.D2lEncoder(31, 11, 13, 2), rnn_tutorials.D2lDecoder(37, 11, 13, 2)),
    "rnn-chatbot": lambda: (
        rnn_tutorials.ChatbotEncoder(31, 13, 2, nn.GRU, "gru"),
        rnn_tutorials.ChatbotDecoder(37, 13, 2, nn.GRU, "gru", "dot"),
    ),
}  # fmt: skip


class File(BytesIO):
    """A file as the browser sends it."""

    def __init__(self, name: str, module: nn.Module, prefix: str = "") -> None:
        super().__init__()
        torch.save({f"{prefix}{key}": tensor for key, tensor in module.state_dict().items()}, self)
        self.name, self.size = name, self.tell()
        self.seek(0)


def _bundle(name: str, module: nn.Module, prefix: str = "") -> Bundle:
    return bundle({name: File(name, module, prefix)})


@pytest.mark.parametrize("name", PAIRS)
def test_a_half_is_told_by_its_parts_and_completes_the_other_one(name):
    torch.manual_seed(3)
    encoder, decoder = (scramble(half) for half in PAIRS[name]())
    first, second = _bundle("a.pt", encoder, "encoder."), _bundle("b.pt", decoder)
    for half, said in ((first, "the encoder of a recurrent pair"), (second, "the decoder of a recurrent pair")):
        told = half.recognised({}).report
        assert (told.fits, said in told.text) == (False, True), told.text
        assert "choose both files at once, or bring it while this one is shown" in told.text
    assert first.with_half(first) is None
    run = rnn.run if name.startswith("rnn-tutorial") else rnn_tutorials.run
    expected: dict[str, torch.Tensor] = {}
    for whole in (first.with_half(second), second.with_half(first)):
        assert whole is not None
        told = whole.recognised({"pad_id": -1}).report
        assert (told.layout, told.fits) == (name, True), told.text
        found = attention_maps(whole.checkpoint({"pad_id": -1}), SOURCE, TARGET)
        with torch.no_grad():
            expected = expected or run(encoder.double(), decoder.double(), SOURCE, TARGET)
        for site, values in expected.items():
            assert np.abs(found[site] - values.numpy()).max() < 1e-9, site


def test_nets_that_look_at_nothing_are_told_so(tmp_path):
    torch.manual_seed(3)
    decoder = nn.ModuleDict({"embedding": nn.Embedding(37, 13), "gru": nn.GRU(13, 13), "out": nn.Linear(13, 37)})
    encoder = rnn.EncoderRNN(31, 13)
    for saved in (decoder.state_dict(), {"encoder": encoder.state_dict(), "decoder": decoder.state_dict()}):
        torch.save(saved, tmp_path / "model.pt")
        assert "recurrent nets without attention" in report(tmp_path / "model.pt").text
        with pytest.raises(CheckpointError, match="no tensor compares one state with another"):
            load(tmp_path / "model.pt")
