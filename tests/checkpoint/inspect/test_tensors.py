"""Looking into files without running them: the tree, the numbers, ties, circuits, neighbours and differences."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.torch_modules import Translator
from tests.checkpoint.references import LAYOUTS, REFERENCE, model, reference_file
from transformer.checkpoint.inspect.circuits import head_circuits, neighbours
from transformer.checkpoint.inspect.compare import compare
from transformer.checkpoint.inspect.tensors import inspect, summary
from transformer.errors import InputError


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_reference_can_be_looked_into(name):
    found = inspect(REFERENCE / name)
    files = [*(REFERENCE / name).glob("model.*"), *(REFERENCE / name).glob("*coder.pt")]
    assert found.file_bytes == sum(file.stat().st_size for file in files)
    assert found.tree.n_parameters == sum(tensor.numel for tensor in found.tensors)
    assert len(found.text.splitlines()) > len(found.tensors)


def test_the_tree_follows_the_dots():
    tree = inspect(reference_file("annotated")).tree
    assert [module.name for module in tree.modules] == ["encoder", "decoder", "src_embed", "tgt_embed", "generator"]
    projection = tree.modules[-1].modules[0]
    assert (projection.name, projection.n_parameters) == ("proj", 29 * 24 + 29)
    assert [(t.name, t.shape) for t in projection.tensors] == [
        ("generator.proj.weight", (29, 24)),
        ("generator.proj.bias", (29,)),
    ]


def test_ties_are_found_and_counted_once():
    found = inspect(reference_file("jadore-emb"))
    shared = {"encoder.src_word_emb.weight", "decoder.trg_word_emb.weight", "trg_word_prj.weight"}
    assert shared in [set(group) for group in found.tied]
    tables = {"encoder.position_enc.pos_table", "decoder.position_enc.pos_table"}
    assert tables in [set(group) for group in found.tied]
    assert found.n_parameters == sum(t.numel for t in found.tensors) - 2 * 35 * 18 - 200 * 18


@given(st.integers(0, 99), st.integers(1, 97))
def test_statistics_are_numpy_s(seed, size):
    numbers = np.random.default_rng(seed).normal(3, 5, size)
    found = summary("x", torch.from_numpy(numbers))
    assert found.norm == pytest.approx(np.linalg.norm(numbers))
    assert found.mean == pytest.approx(numbers.mean())
    assert found.deviation == pytest.approx(numbers.std())
    assert (found.smallest, found.largest) == (numbers.min(), numbers.max())
    counts, edges = np.histogram(numbers, bins=len(found.counts))
    assert (found.counts == counts).all()
    np.testing.assert_allclose(found.edges, edges)


@pytest.mark.parametrize(
    ("numbers", "flags"),
    [
        ([1.0, 2.0, 4.0], ()),
        ([0.0, 0.0, 0.0], ("all numbers alike",)),
        ([1.0, float("nan"), float("inf")], ("2 NaN or infinite",)),
        ([float("nan")] * 3, ("3 NaN or infinite",)),
        ([7.0], ()),
        ([], ()),
        ([-1e308, 1e308], ()),
    ],
)
def test_dead_and_broken_tensors_are_flagged(numbers, flags):
    found = summary("x", torch.tensor(numbers, dtype=torch.float64))
    assert found.flags == flags
    assert np.isfinite(found.norm) or numbers == [-1e308, 1e308]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, torch.bool])
def test_every_kind_of_number_has_a_summary(dtype):
    found = summary("x", torch.tensor([0, 1, 1]).to(dtype))
    assert found.mean == pytest.approx(2 / 3, rel=1e-2)
    assert found.dtype == str(dtype).removeprefix("torch.")


@pytest.mark.parametrize("name", ["jadore-separate", "annotated", "encoder-only", "kmer"])
def test_singular_values_are_those_of_the_whole_products(name):
    checkpoint = model(REFERENCE / name)
    circuits = {found.site: found for found in head_circuits(checkpoint)}
    assert list(circuits) == list(checkpoint.attention_sites())
    block, n_heads = checkpoint.encoder[0].self_attention, checkpoint.config.n_heads
    query, key, value = ((m.weight.detach().double()).chunk(n_heads) for m in (block.query, block.key, block.value))
    output = block.output.weight.detach().double().chunk(n_heads, dim=1)
    for head in range(n_heads):
        for left, right, found in (
            (query[head].T, key[head], circuits["encoder.0.self"].compares[head]),
            (value[head].T, output[head].T, circuits["encoder.0.self"].writes[head]),
        ):
            whole = np.linalg.svd((left @ right).numpy(), compute_uv=False)
            np.testing.assert_allclose(found, whole[: len(found)], atol=1e-9)


def test_a_recurrent_model_has_no_heads_to_take_apart():
    assert head_circuits(model(REFERENCE / "rnn-tutorial-2")) == ()


def test_neighbours_point_the_same_way():
    table = torch.tensor([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0], [-1.0, 0.0], [0.0, 0.0]])
    found = neighbours(table, 0, count=9)
    assert [neighbour.token for neighbour in found] == [1, 2, 4, 3]
    assert found[-1].cosine == pytest.approx(-1)
    with pytest.raises(InputError, match="token=5"):
        neighbours(table, 5)


def test_what_moved_between_two_checkpoints(tmp_path):
    original = scramble(Translator(11, 13, (1, 1), 6, 2, 5))
    torch.save(original.state_dict(), tmp_path / "before.pt")
    with torch.no_grad():
        original.src_embed.weight *= 1.5
        original.generator.bias += 1e-3
    original.generator.weight = nn.Parameter(torch.zeros(13, 7))
    original.register_buffer("more", torch.ones(2))
    del original.tgt_embed
    torch.save(original.state_dict(), tmp_path / "after.pt")
    found = compare(tmp_path / "before.pt", tmp_path / "after.pt")
    assert [moved.name for moved in found.moved] == ["src_embed.weight", "generator.bias"]
    assert found.moved[0].share == pytest.approx(0.5)
    assert found.moved[0].cosine == pytest.approx(1)
    assert (found.other_shape, found.only_in_first) == (("generator.weight",), ("tgt_embed.weight",))
    assert found.only_in_second == ("more",)
    assert len(found.unchanged) > 20
    assert "50.00%" in found.text
    assert "only in after.pt: more" in found.text


def test_a_checkpoint_has_not_moved_from_itself():
    found = compare(reference_file("annotated"), reference_file("annotated"))
    assert (found.moved, found.only_in_first, found.only_in_second) == ((), (), ())
