"""Tables before the layers whose names say nothing: refused, until it is answered; then equal to the original."""

import pytest
import torch
from torch import nn

from tests.checkpoint.foreign.test_around_layers import ROWS, VOCAB, D, _encoder, _refused, _same_maps, ids
from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.torch_around import Around, Parts


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
