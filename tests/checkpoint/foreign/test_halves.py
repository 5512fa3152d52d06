"""One half of a recurrent pair by itself, and pairs without attention: told what they are."""

from typing import Any

import pytest
import torch
from torch import nn

from tests.checkpoint.originals import rnn, rnn_tutorials
from transformer import load
from transformer.checkpoint import report
from transformer.errors import CheckpointError

PAIRS: dict[str, Any] = {
    "rnn-tutorial-1": lambda: (rnn.EncoderRNN(31, 13), rnn.LocationDecoder(37, 13, 9)),
    "rnn-tutorial-2": lambda: (rnn.EncoderRNN(31, 13), rnn.AdditiveDecoder(37, 13)),
    "rnn-d2l": lambda: (rnn_tutorials.D2lEncoder(31, 11, 13, 2), rnn_tutorials.D2lDecoder(37, 11, 13, 2)),
    "rnn-chatbot": lambda: (
        rnn_tutorials.ChatbotEncoder(31, 13, 2, nn.GRU, "gru"),
        rnn_tutorials.ChatbotDecoder(37, 13, 2, nn.GRU, "gru", "dot"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_a_half_is_told_by_its_parts(name, tmp_path):
    for half, module in zip(("encoder", "decoder"), PAIRS[name](), strict=True):
        for prefix in ("", f"{half}."):
            torch.save({f"{prefix}{key}": one for key, one in module.state_dict().items()}, tmp_path / "a.pt")
            told = report(tmp_path / "a.pt")
            said = "the decoder of a recurrent pair" if half == "decoder" else "recurrent nets without attention"
            assert (told.fits, said in told.text) == (False, True), told.text
            assert "choose both files at once" in told.text


def test_nets_that_look_at_nothing_are_told_so(tmp_path):
    torch.manual_seed(3)
    decoder = nn.ModuleDict({"embedding": nn.Embedding(37, 13), "gru": nn.GRU(13, 13), "out": nn.Linear(13, 37)})
    encoder = rnn.EncoderRNN(31, 13)
    for saved in (decoder.state_dict(), {"encoder": encoder.state_dict(), "decoder": decoder.state_dict()}):
        torch.save(saved, tmp_path / "model.pt")
        assert "recurrent nets without attention" in report(tmp_path / "model.pt").text
        with pytest.raises(CheckpointError, match="no tensor compares one state with another"):
            load(tmp_path / "model.pt")
