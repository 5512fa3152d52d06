"""A norm or a table of segments before the layers: refused, until it is answered; then equal to the original."""

import pytest
import torch
from torch import nn

from tests.checkpoint.foreign.test_around_layers import ROWS, VOCAB, D, _encoder, _refused, _same_maps, _saved, ids
from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.torch_around import Around, Parts
from transformer.checkpoint import report


@pytest.mark.parametrize("name", ["norm", "final_norm", "input_norm"])
def test_a_norm_before_the_layers_can_be_answered(name, tmp_path):
    """BERT's own form: tokens, positions and one segment, normed; whatever the norm is called."""
    torch.manual_seed(4)
    parts: Parts = {"token": nn.Embedding(VOCAB, D), "pos": nn.Embedding(ROWS, D), "encoder": _encoder()}
    original = Around({**parts, name: nn.LayerNorm(D)}, ["pos", name], scaled=False, positions=False)
    path = _saved(original, tmp_path)
    asked = {question.name: question for question in report(path, scale_embedding=False).questions}
    assert asked["norm_before"].options == ("none", name)
    if name == "final_norm":  # its name is believed, and what was believed is said
        assert report(path).fits
        assert any("named_after" in assumption for assumption in report(path).assumptions)
        assert name in _refused(path, name, named_after=False)
    else:
        _refused(path, name)
    _same_maps(path, original, (ids,), scale_embedding=False, norm_before=name)


def test_a_table_of_segments_can_be_answered(tmp_path):
    torch.manual_seed(4)
    parts: Parts = {"token": nn.Embedding(VOCAB, D), "seg": nn.Embedding(2, D), "encoder": _encoder()}
    original = Around(parts, [], scaled=True, positions=True)
    path = _saved(original, tmp_path)
    _refused(path, "seg.weight")
    with torch.no_grad():  # every token is of the first segment: the same as another embedding
        original.double().token.weight += original.seg.weight[0] / D**0.5
    _same_maps(path, original, (ids,), segment_table="seg.weight")


@pytest.mark.parametrize("names", [("t", "time_embed"), ("tok", "rows"), ("a", "b")])
def test_tables_of_any_name_can_be_answered(names, tmp_path):
    """The tokens' table may be called by a letter, and positions an embedding: refused, until it is answered."""
    torch.manual_seed(6)
    parts: Parts = {"token": nn.Embedding(VOCAB, D), "pos": nn.Embedding(ROWS, D), "encoder": _encoder()}
    original = Around(parts, ["pos"], scaled=True, positions=False)
    told = dict(zip(("token", "pos"), names, strict=True))
    heads = {name: name.partition(".") for name in scramble(original).state_dict()}
    state = {
        f"{told.get(first, first)}.{rest}": original.get_parameter(name) for name, (first, _, rest) in heads.items()
    }
    torch.save({name: tensor.detach() for name, tensor in state.items()}, tmp_path / "model.pt")
    _refused(tmp_path / "model.pt")
    answers = {"embedding": f"{names[0]}.weight", "position_table": f"{names[1]}.weight"}
    _same_maps(tmp_path / "model.pt", original, (ids,), **answers)
