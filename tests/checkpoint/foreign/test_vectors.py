"""Layers without embeddings read vectors: drawn with a seed, or brought; equal to torch's own modules."""

import io
import random
import warnings

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.checkpoint.originals.common import Maps, scramble
from tests.checkpoint.originals.torch_modules import keep_weights, step_by_step, watch_layers
from transformer import attention_maps, load
from transformer.checkpoint import report
from transformer.checkpoint.foreign.bundle import bundle
from transformer.errors import CheckpointError
from transformer.runs.any_model import run_any
from transformer.runs.check import check


def _sizes(seed: int) -> tuple[int, int, int, int, int]:
    """Heads, width, d_ff, and the lengths of both sides: all different."""
    draw = random.Random(seed)
    heads = draw.choice([2, 3, 5])
    d_ff = draw.randrange(31, 50)
    source, target = draw.sample([4, 6, 7, 9], 2)
    return heads, heads * draw.choice([4, 6]), d_ff, source, target


def _vectors(rows: int, d: int, seed: int) -> Tensor:
    return torch.randn(2, rows, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _future(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def _agree(found: dict[str, np.ndarray], expected: Maps) -> None:
    assert found.keys() >= expected.keys()
    for name, values in expected.items():
        assert found[name].shape == tuple(values.shape), name
        assert abs(found[name] - values.numpy()).max() < 1e-9, name


def _core(seed: int, **options) -> tuple[nn.Transformer, int, tuple[Tensor, Tensor]]:
    torch.manual_seed(seed)
    heads, d, d_ff, source, target = _sizes(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = scramble(nn.Transformer(d, heads, 2, 1, d_ff, 0.0, batch_first=True, **options))
    return core, heads, (_vectors(source, d, seed), _vectors(target, d, seed + 1))


@torch.no_grad()
@step_by_step()
def _expected(core: nn.Transformer, source: Tensor, target: Tensor) -> Maps:
    maps: Maps = {}
    watch_layers(core.encoder.layers, core.decoder.layers, maps)
    hidden = core.double()(source, target, tgt_mask=_future(target.shape[1]))
    return maps | {"hidden": hidden}


@pytest.mark.parametrize("without", ["", "encoder", "decoder", "both"])
def test_a_bare_transformer_reads_vectors_on_both_sides(without, tmp_path):
    core, heads, (source, target) = _core(len(without), bias=without != "both")
    for side in ("encoder", "decoder"):
        if without in {side, "both"}:
            getattr(core, side).norm = None
    torch.save({"transformer": core.state_dict()}, tmp_path / "model.pt")
    checkpoint = load(tmp_path / "model.pt", n_heads=heads)
    _agree(attention_maps(checkpoint, source, target), _expected(core, source, target))
    table = {name: checkpoint.model.get_parameter(name).data.double() for name in ("source", "target")}
    numbers = [[3, 1, 4, 1, 5]], [[2, 7, 1]]
    read = [table[side][torch.tensor(ids)] for side, ids in zip(table, numbers, strict=True)]
    _agree(attention_maps(checkpoint, *numbers), _expected(core, *read))
    run = run_any(checkpoint, "3 1 4 1 5", forced="2 7 1")
    assert run.record["decoder.0.cross"].queries.labels == ("2", "7", "1")
    assert len(run.record["decoder.0.cross"].keys) == 5
    assert "no tensor of the file embeds tokens" in report(tmp_path / "model.pt").text
    assert "16 vectors of normal random numbers (seed 0)" in " ".join(map(str, checkpoint.assumptions))


def test_the_vectors_are_those_of_their_seed(tmp_path):
    core, heads, _ = _core(5)
    torch.save(core.state_dict(), tmp_path / "model.pt")
    d = core.d_model
    for seed, count in ((0, 16), (7, 23)):
        drawn = torch.randn(count, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        model = load(tmp_path / "model.pt", n_heads=heads, vector_seed=seed, n_vectors=count).model
        assert torch.equal(model.source.data, drawn.float())


MEMORIES = {"inputs": lambda x, model: x, "zeros": lambda x, model: torch.zeros_like(x),
            "vectors": lambda x, model: model.memory.data.double().expand(len(x), -1, -1)}  # fmt: skip


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("embedded", [False, True])
def test_a_decoder_alone_is_asked_for_its_memory(memory, embedded, tmp_path):
    torch.manual_seed(8)
    heads, d, d_ff, length, _ = _sizes(8)
    layer = nn.TransformerDecoderLayer(d, heads, d_ff, 0.0, batch_first=True)
    parts: dict[str, nn.Module] = {"decoder": nn.TransformerDecoder(layer, 2, None if embedded else nn.LayerNorm(d))}
    if embedded:
        parts |= {"tok_emb": nn.Embedding(29, d), "pos_emb": nn.Embedding(11, d), "lm_head": nn.Linear(d, 29)}
    original = scramble(nn.ModuleDict(parts))
    path = tmp_path / "model.pt"
    torch.save(original.state_dict() if embedded else parts["decoder"].state_dict(), path)
    assert "memory" in {question.name for question in report(path).questions}
    checkpoint = load(path, n_heads=heads, memory=memory, **({"scale_embedding": False} if embedded else {}))
    original.double()
    ids, maps = torch.randint(0, 29, (2, length)), Maps()
    with torch.no_grad(), step_by_step():
        watch_layers((), parts["decoder"].layers, maps)
        x = parts["tok_emb"](ids) + parts["pos_emb"].weight[:length] if embedded else _vectors(length, d, 3)
        hidden = parts["decoder"](x, MEMORIES[memory](x, checkpoint.model), tgt_mask=_future(length))
        maps |= {"log_probs": parts["lm_head"](hidden).log_softmax(-1)} if embedded else {"hidden": hidden}
    _agree(attention_maps(checkpoint, ids if embedded else x), maps)
    cross = run_any(checkpoint, "3 1 4").record["decoder.1.cross"]
    assert cross.keys.labels[0] == ("m0" if memory == "vectors" else "3")


def test_a_bare_encoder_reads_vectors(tmp_path):
    torch.manual_seed(6)
    heads, d, d_ff, _, _ = _sizes(6)
    layer = nn.TransformerEncoderLayer(d, heads, d_ff, 0.0, batch_first=True)
    original = scramble(nn.TransformerEncoder(layer, 2, nn.LayerNorm(d), enable_nested_tensor=False))
    torch.save(original.state_dict(), tmp_path / "model.pt")
    checkpoint = load(tmp_path / "model.pt", n_heads=heads)
    ids = torch.tensor([[5, 2, 2, 11], [1, 0, 15, 3]])
    maps: Maps = {}
    with torch.no_grad(), step_by_step():
        watch_layers(original.layers, None, maps)
        maps["hidden"] = original.double()(checkpoint.model.embedding.weight.data.double()[ids])
    _agree(attention_maps(checkpoint, ids), maps)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("own", [True, False])
def test_a_lone_attention_of_torch(bias, own, tmp_path):
    torch.manual_seed(9)
    heads, d, _, source, target = _sizes(9)
    original = scramble(nn.MultiheadAttention(d, heads, bias=bias, batch_first=True))
    torch.save(original.state_dict(), tmp_path / "model.pt")
    checkpoint = load(tmp_path / "model.pt", n_heads=heads, attends="itself" if own else "another")
    keys, queries = _vectors(source, d, 4), _vectors(target, d, 5)
    maps: Maps = {}
    keep_weights(original.double(), maps, "encoder.0.self" if own else "decoder.0.cross")
    with torch.no_grad():
        hidden = original(keys, keys, keys)[0] if own else original(queries, keys, keys)[0]
    found = attention_maps(checkpoint, keys) if own else attention_maps(checkpoint, keys, queries)
    _agree(found, maps | {"hidden": hidden})


NAMES = [
    ("w_qs", "w_ks", "w_vs", "fc"), ("linears.0", "linears.1", "linears.2", "linears.3"), ("query", "key", "value", ""),
    ("mha.to_q", "mha.to_k", "mha.to_v", "mha.to_out.0"), ("W_query", "W_key", "W_value", "out_proj"),
    ("qkv", "", "", "proj"),
]  # fmt: skip


@pytest.mark.parametrize("names", NAMES)
def test_a_lone_attention_of_ones_own(names, tmp_path):
    torch.manual_seed(3)
    heads, d, d_k, d_v, n = 3, 10, 4, 5, 6
    if names[0] == "qkv" or not names[3]:  # without a map of its own, heads side by side are the output
        d, d_k, d_v = 12, 4, 4
    sizes = zip("qkv", (d_k, d_k, d_v), strict=True)
    maps = {one: nn.Linear(d, heads * size, bias=one != "k").double() for one, size in sizes}
    output = nn.Linear(heads * d_v, d).double()
    x = _vectors(n, d, 1)
    with torch.no_grad():
        q, k, v = (maps[one](x).unflatten(-1, (heads, -1)).transpose(1, 2) for one in "qkv")
        weights = (q @ k.mT / d_k**0.5).softmax(-1)
        hidden = (weights @ v).transpose(1, 2).flatten(2)
    state = {f"{name}.weight": maps[one].weight.data for one, name in zip("qkv", names, strict=False)}
    state |= {f"{name}.bias": maps[one].bias.data for one, name in zip("qv", names[::2], strict=False)}
    if names[0] == "qkv":
        biases = [torch.zeros_like(maps["q"].bias) if one == "k" else maps[one].bias for one in "qkv"]
        state = {"qkv.weight": torch.cat([maps[one].weight for one in "qkv"]).data, "qkv.bias": torch.cat(biases).data}
    if names[3]:
        state |= {f"{names[3]}.{kind}": tensor for kind, tensor in output.state_dict().items()}
        hidden = output(hidden).detach()
    torch.save(state, tmp_path / "model.pt")
    _agree(attention_maps(load(tmp_path / "model.pt", n_heads=heads), x), {"encoder.0.self": weights, "hidden": hidden})


def _npz(**arrays: np.ndarray) -> io.BytesIO:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    stream.seek(0)
    return stream


def _file(state: dict[str, Tensor]) -> io.BytesIO:
    stream = io.BytesIO()
    torch.save(state, stream)
    stream.seek(0)
    return stream


def test_vectors_may_be_brought(tmp_path):
    core, heads, (source, target) = _core(11)
    files = {"model.pt": _file(core.state_dict()), "vectors.npz": _npz(source=source[0].numpy(), y=target[0].numpy())}
    found = bundle(files)
    checkpoint = found.checkpoint({"n_heads": heads})
    assert not any("random" in str(one) for one in checkpoint.assumptions)
    assert (
        f"vectors of vectors.npz: {source.shape[1]}, {target.shape[1]}"
        in found.recognised({"n_heads": heads}).report.text
    )
    numbers = [list(range(source.shape[1]))], [list(range(target.shape[1]))]
    expected = _expected(core.float().double(), source[:1].float().double(), target[:1].float().double())
    _agree(attention_maps(checkpoint, *numbers), expected)
    given = {name: values.numpy() for name, values in expected.items()}
    assert check(checkpoint, source[0].float().double(), given, target[0].float().double()).agrees


REFUSED = {
    "call what is read one of source": dict(a=np.zeros((3, 12)), b=np.zeros((3, 12))),
    "has shape 3 x 11": dict(source=np.zeros((3, 11))),
    "holds 0 vectors": dict(source=np.zeros((0, 12))),
}


@pytest.mark.parametrize("said", REFUSED)
def test_vectors_that_cannot_be_read_are_refused_by_name(said):
    layer = nn.TransformerEncoderLayer(12, 3, 17, 0.0, batch_first=True)
    state = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).state_dict()
    found = bundle({"model.pt": _file(state), "x.npz": _npz(**REFUSED[said])})
    with pytest.raises(CheckpointError, match=said):
        found.checkpoint({})


def test_vectors_for_a_model_that_reads_tokens_are_refused():
    layer = nn.TransformerEncoderLayer(12, 3, 17, 0.0, batch_first=True)
    stack = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    state = nn.ModuleDict({"token": nn.Embedding(7, 12), "encoder": stack}).state_dict()
    with pytest.raises(CheckpointError, match=r"x\.npz holds vectors, and this model reads tokens"):
        bundle({"model.pt": _file(state), "x.npz": _npz(source=np.zeros((3, 12)))}).checkpoint({})
