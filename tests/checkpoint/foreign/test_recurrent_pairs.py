"""Recurrent encoder-decoder pairs, which lie in one file or in two, under any keys: each is the original."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heedmap import load, report, translate
from heedmap.checkpoint.foreign.bundle import bundle
from heedmap.checkpoint.load import convert, read
from heedmap.errors import CheckpointError
from heedmap.explain.diagram import architecture
from heedmap.nn.search import DecodingOptions
from heedmap.safe.limits import DEFAULT_LIMITS
from tests.checkpoint.originals import drawn
from tests.checkpoint.originals.common import Maps, same
from tests.checkpoint.originals.drawn import Drawn
from tests.checkpoint.references import REFERENCE

SOURCE = torch.randint(3, 31, (2, 7), generator=torch.Generator().manual_seed(5))
TARGET = torch.randint(3, 37, (2, 5), generator=torch.Generator().manual_seed(7))

PAIRS: dict[str, Any] = {
    "rnn-d2l": drawn.d2l,
    "rnn-d2l one layer": partial(drawn.d2l, layers=1),
    "rnn-chatbot dot": partial(drawn.chatbot, method="dot"),
    "rnn-chatbot general": partial(drawn.chatbot, method="general", layers=3),
    "rnn-chatbot concat": partial(drawn.chatbot, method="concat"),
    "rnn-chatbot lstm": partial(drawn.chatbot, method="general", name="lstm"),
    "rnn-tutorial-1 layers": drawn.stacked,
}
State = dict[str, Tensor]


def _made(name: str, **options: Any) -> tuple[dict[str, State], Maps]:
    """The weights of encoder and decoder, and what they compute."""
    torch.manual_seed(3)
    w = Drawn()
    with torch.no_grad():
        expected = PAIRS[name](w, SOURCE, TARGET, **options)
    halves: dict[str, State] = {"encoder": {}, "decoder": {}}
    for key, tensor in w.state.items():
        half, _, rest = key.partition(".")
        halves[half][rest] = tensor
    return halves, expected


def _same(path: Path, expected: Maps) -> None:
    answers = {} if path.is_dir() else {"pad_id": -1}
    assert same(load(path, **answers), expected, SOURCE, TARGET, within=1e-12).keys() == expected.keys()


@pytest.mark.parametrize("name", PAIRS)
def test_a_tutorial_s_pair_is_the_original(name, tmp_path):
    halves, expected = _made(name)
    path = tmp_path / "model.pt"
    torch.save(halves, path)
    found = report(path)
    assert (found.layout, found.fits) == (name.partition(" ")[0], True), found.text
    assert {question.name for question in found.questions} - {"query_layer"} == {"pad_id", "bos_id", "eos_id"}
    _same(path, expected)
    model = load(path, pad_id=-1).model
    owned = [part for node in architecture(model).nodes for part in node.owns]
    assert sorted(owned) == sorted(part for part, _ in model.named_parameters())


def test_other_keys_and_files_of_the_same_pair(tmp_path):
    """The chatbot tutorial's own `.tar`, with halves and an optimiser beside them; one module of both in a wrapper."""
    halves, expected = _made("rnn-chatbot dot")
    saved = {
        "iteration": 4000, "en": halves["encoder"], "de": halves["decoder"], "loss": 2.5,
        "en_opt": torch.optim.Adam([nn.Parameter(torch.ones(3))]).state_dict(),
        "voc_dict": {"name": "films", "word2index": {"hi": 3}, "index2word": {3: "hi"}},
        "embedding": {"weight": halves["decoder"]["embedding.weight"]},
    }  # fmt: skip
    torch.save(saved, tmp_path / "4000_checkpoint.tar")
    _same(tmp_path / "4000_checkpoint.tar", expected)
    halves, expected = _made("rnn-d2l")
    whole = {f"seq2seq.{half}.{name}": one for half, state in halves.items() for name, one in state.items()}
    torch.save({"model_state_dict": whole}, tmp_path / "tut3.pt")
    _same(tmp_path / "tut3.pt", expected)


def test_it_is_translated_converted_and_read_again(tmp_path):
    halves, expected = _made("rnn-chatbot lstm")
    torch.save(halves, tmp_path / "model.pt")
    found = translate(load(tmp_path / "model.pt"), "5 7 9", DecodingOptions(max_length=5, beam=2))
    assert found.record["decoder.cross"].shape[1] == 4  # the end id is appended
    convert(tmp_path / "model.pt", tmp_path / "ours", pad_id=-1)
    _same(tmp_path / "ours", expected)


@pytest.mark.parametrize("names", [("attn_encoder_final.pth", "attn_decoder_final.pth"), ("dec_9.pkl", "enc_9.pkl")])
def test_halves_in_files_of_other_names(names, tmp_path):
    halves, expected = _made("rnn-d2l")
    folder = tmp_path / "pair"
    folder.mkdir()
    for name in names:
        torch.save(halves["encoder" if "enc" in name else "decoder"], folder / name)
    same(load(folder), {"decoder.cross": expected["decoder.cross"]}, SOURCE, TARGET, within=1e-12)
    streams = {name: (folder / name).open("rb") for name in names}
    brought = bundle(streams)
    for stream in streams.values():
        stream.close()
    assert brought.contents.tensors.keys() == read(folder, DEFAULT_LIMITS).tensors.keys()


@pytest.mark.parametrize("name", ["rnn-tutorial-1", "rnn-tutorial-2", "rnn-d2l"])
def test_a_half_is_told_by_its_parts(name, tmp_path):
    kept = {half: REFERENCE / name / f"{half}.pt" for half in ("encoder", "decoder")}
    halves = _made(name)[0] if name == "rnn-d2l" else {half: torch.load(path) for half, path in kept.items()}
    for half, state in halves.items():
        for prefix in ("", f"{half}."):
            torch.save({f"{prefix}{key}": one for key, one in state.items()}, tmp_path / "a.pt")
            told = report(tmp_path / "a.pt")
            said = "the decoder of a recurrent pair" if half == "decoder" else "recurrent nets without attention"
            assert (told.fits, said in told.text) == (False, True), told.text
            assert "choose both files at once" in told.text


def test_nets_that_look_at_nothing_or_have_other_depths_are_told_so(tmp_path):
    torch.save(_made("rnn-d2l", of_encoder=3)[0], tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="the encoder has 3 layers, the decoder 2"):
        load(tmp_path / "model.pt")
    decoder = nn.ModuleDict({"embedding": nn.Embedding(37, 13), "gru": nn.GRU(13, 13), "out": nn.Linear(13, 37)})
    encoder = torch.load(REFERENCE / "rnn-tutorial-1" / "encoder.pt")
    for saved in (decoder.state_dict(), {"encoder": encoder, "decoder": decoder.state_dict()}):
        torch.save(saved, tmp_path / "model.pt")
        assert "recurrent nets without attention" in report(tmp_path / "model.pt").text
        assert report(tmp_path / "model.pt").record == ()  # there is nothing to record
        with pytest.raises(CheckpointError, match="no tensor compares one state with another"):
            load(tmp_path / "model.pt")
