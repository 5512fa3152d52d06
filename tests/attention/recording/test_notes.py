"""What is said beside the maps: which element is shown, rows that are odd, and why something was not seen."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask

from heedmap import CheckpointError, Record, recording
from tests.attention.recording.case import Lambda, assert_seen, softmax, watched

pytestmark = pytest.mark.usefixtures("in_doubles")


def test_a_window_of_many_and_pieces_of_a_softmax_are_said() -> None:
    """Three pictures of four windows; and the weights of a softmax in two pieces, of which one is scaled."""
    attend = nn.MultiheadAttention(10, 2, batch_first=True).eval()
    windows = Lambda(lambda m, x: m.attend(*(x.unflatten(1, (4, 5)).flatten(0, 1),) * 3)[0], attend=attend)
    seen, _ = watched(windows, torch.randn(3, 20, 10))
    picture = seen.record(batch=7)["attend"].pictures()[1]
    assert picture.title == "attend · head 1 · element 7 of 12"
    assert any("model read 3, so that each has 4 here" in note for note in picture.notes)
    assert seen.map("attend", batch=2).picture(0).title.endswith("element 2 of 12")
    pieces = Lambda(lambda _, x: (w := (x @ x.mT).softmax(-1))[..., :3] @ x[:, :3] - (w * 2)[..., 3:] @ x[:, 3:])
    seen, _ = watched(pieces, x := torch.randn(3, 7, 5))
    weights = softmax(x @ x.mT)[2]
    for site, table in zip(seen.sites, (weights[:, :3], weights[:, 3:] * 2), strict=True):
        sums, said = table.sum(-1), "\n".join(seen.map(site, batch=2).notes)
        assert f"sum to {sums.min():.2f} to {sums.max():.2f}, not" in said
        assert "element 2 of 3 in the batch" in said


def test_an_axis_that_nothing_names_is_one_of_several() -> None:
    module, x = Lambda(lambda _, x: (x @ x.mT).softmax(-1) @ x), torch.randn(2, 3, 7, 5)
    seen, _ = watched(module, x)
    assert_seen(seen, "Lambda", softmax(x @ x.mT))
    assert any("axis of 3 that is shown as heads is one of" in note for note in seen.notes)
    seen, _ = watched(Lambda(lambda m, x: (x @ x.mT).softmax(-1) @ m.project(x), project=nn.Linear(5, 5)), x[:, 0])
    assert not any("one of" in note for note in seen.notes)


def test_rows_that_are_nan_are_saved_and_marked_and_nan_queries_are_refused(tmp_path: Any) -> None:
    module, x = nn.MultiheadAttention(6, 3, batch_first=True).eval(), torch.randn(1, 5, 6)
    mask = torch.zeros(3, 5, 5, dtype=torch.bool)
    mask[2, 1] = True
    with torch.no_grad(), recording(module) as seen:
        module(x, x, x, attn_mask=mask, average_attn_weights=False)
    seen.record().save(tmp_path / "run.heedmap")
    again = Record.open(tmp_path / "run.heedmap")[seen.sites[0]]
    assert [(head, row) for head, row in np.argwhere(np.isnan(again.all_weights()).any(-1))] == [(2, 1)]
    assert any("NaN are marked" in note for note in again.picture(2).notes)
    assert len(Record({again.site: again}).html()) > len(Record({again.site: again}).measures()) == 3
    fused = Lambda(lambda _, x: F.scaled_dot_product_attention(x, x, x))
    with recording(fused) as seen:
        fused(x[None] / 0)
    with pytest.raises(CheckpointError, match="holds NaN"):
        seen.record().save(tmp_path / "other.heedmap")


def test_selected_queries_are_said_to_be_selected() -> None:
    """Informer: the few queries whose scores are uneven; another time keys that blocks select (BigBird)."""

    def attend(m: Any, x: Tensor, which: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in m.qkv(x).chunk(3, -1))
        rows = q[torch.arange(len(x))[:, None, None], torch.arange(2)[None, :, None], which]
        few = (rows @ k.mT / 2).softmax(-1) @ v
        return few + F.scaled_dot_product_attention(rows * 1.0, k, v) + (q @ k.mT).softmax(-1)[..., :5, :] @ v

    module, x, which = Lambda(attend, qkv=nn.Linear(8, 24)), torch.randn(3, 11, 8), torch.randint(11, (3, 2, 5))
    seen, _ = watched(module, x, which)
    q, k, _ = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in module.qkv(x).chunk(3, -1))
    rows = torch.take_along_dim(q, which[..., None], 2)
    for site in ("Lambda#1", "Lambda#2"):
        assert_seen(seen, site, softmax(torch.einsum("bhqd,bhkd->bhqk", rows, k) / 2))
    said = [any("table of indices" in note for note in seen.map(site).notes) for site in seen.sites]
    assert said == [True, True, False]


class Flexible(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        mask = create_block_mask(lambda b, h, q, k: q >= 0, None, None, x.shape[1], x.shape[1], device="cpu")
        whole = (x[:, None],) * 3  # what `flex_attention` runs, uncompiled
        return torch.ops.higher_order.flex_attention(*whole, lambda score, *_: score, mask.as_tuple(), 1.0, {})[0]


def vector(m: Any, x: Tensor) -> Tensor:
    """Point Transformer: a softmax over neighbours for each feature."""
    q, k, v = m.qkv(x).chunk(3, -1)
    return ((q[:, :, None] - k[:, None]).softmax(2) * v[:, None]).sum(2)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("module", "said"),
    [
        (Flexible(), "FlexAttention"),
        (Lambda(vector, qkv=nn.Linear(16, 48)), "vector attention"),
        (Lambda(lambda _, x: torch.sigmoid(x @ x.mT) @ x), "no softmax there"),
    ],
)
def test_what_is_not_seen_has_its_true_reason(module: nn.Module, said: str) -> None:
    around = Lambda(lambda m, x: m.attn_mlp(m.norm_attn(m.attn(x))), attn=module)
    around.norm_attn = Lambda(lambda m, x: m.norm(x).flatten(0, -2), norm=nn.LayerNorm(16))
    around.attn_mlp = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
    seen, _ = watched(around.float(), torch.randn(2, 17, 16, dtype=torch.float32))
    (note,) = seen.notes
    assert not seen.sites
    assert said in note
    assert "attn_mlp" not in note
