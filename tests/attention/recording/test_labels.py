"""Labels of a recording: axes made from offsets, and grids of a picture's patches."""

import pytest
import torch
from torch import Tensor, nn

from transformer import Axis, Record, RecordError, recording

ROWS, COLUMNS = 3, 4


class Captioner(nn.Module):
    """Patches behind two tokens attend to each other; a text attends to the patches."""

    def __init__(self) -> None:
        super().__init__()
        self.see = nn.MultiheadAttention(10, 2, batch_first=True)
        self.tell = nn.MultiheadAttention(10, 5, batch_first=True)

    def forward(self, picture: Tensor, text: Tensor) -> Tensor:
        seen = self.see(picture, picture, picture)[0]
        return self.tell(text, seen, seen)[0]


@pytest.fixture
def seen():
    module = Captioner().eval()
    with torch.no_grad(), recording(module) as found:
        module(torch.randn(1, 2 + ROWS * COLUMNS, 10), torch.randn(1, 5, 10))
    return found


def test_a_grid_is_that_of_axes_with_so_many_patches_and_a_few_tokens_before_them(seen, tmp_path) -> None:
    record = seen.record(grid=(ROWS, COLUMNS))
    for axis in (record["see"].queries, record["see"].keys, record["tell"].keys):
        assert axis.grid == (ROWS, COLUMNS)
        assert axis.texts[:7] == ("0", "1", "0,0", "0,1", "0,2", "0,3", "1,0")
        assert axis.texts[-1] == "2,3"
    assert record["tell"].queries.grid is None
    assert record["tell"].queries.texts == ("0", "1", "2", "3", "4")
    record.save(tmp_path / "run.heedmap")
    again = Record.open(tmp_path / "run.heedmap")
    assert again["see"].keys == record["see"].keys


def test_labels_that_were_given_keep_their_texts_beside_a_grid(seen) -> None:
    patches = ["[CLS]", "[D]", *(f"p{i}" for i in range(12))]
    record = seen.record(queries=["a", "cat", "on", "a", "mat"], keys=patches, grid=(ROWS, COLUMNS))
    assert record["see"].keys.texts[:3] == ("[CLS]", "[D]", "p0")
    assert record["see"].keys.grid == (ROWS, COLUMNS)
    assert record["tell"].queries.grid is None
    assert seen.record(keys={"see": patches}, grid=(ROWS, COLUMNS))["see"].keys.texts[0] == "[CLS]"


@pytest.mark.parametrize(
    ("grid", "said"), [((4, 4), "they have 5, 14 positions"), ((7, 3), "at most 8 tokens"), ((0, 4), "at least 1")]
)
def test_a_grid_that_is_nowhere_is_refused(seen, grid, said) -> None:
    with pytest.raises(RecordError, match=said):
        seen.record(grid=grid)


def test_an_axis_made_from_offsets_labels_queries_and_keys_of_its_length(seen) -> None:
    axis = Axis.of_offsets("caption", "a catnip.", [(0, 0), (0, 1), (2, 5), (5, 8), (8, 9)])
    record = seen.record(queries=axis)
    assert record["tell"].queries is axis
    assert axis.words == (0, 1, 2, 2, 3)
    assert record["see"].queries.texts[0] == "0"
