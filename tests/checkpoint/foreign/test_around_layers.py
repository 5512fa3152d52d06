"""What stands around torch's layers: equal to the original, or asked, or refused by name; never wrong in silence."""

import random
import warnings
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.checkpoint.originals.common import loaded, scramble
from tests.checkpoint.originals.torch_around import Around, Pair, Parts
from transformer import attention_maps
from transformer.checkpoint import report
from transformer.checkpoint.foreign.build import build
from transformer.checkpoint.foreign.recognition import recognise
from transformer.checkpoint.safe.reading import read_file
from transformer.errors import CheckpointError

VOCAB, LENGTH, D, HEADS, D_FF, ROWS = 23, 7, 12, 3, 17, 19


def _encoder(norm: bool = True) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(D, HEADS, D_FF, 0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, nn.LayerNorm(D) if norm else None, enable_nested_tensor=False)


def _core(bias: bool = True) -> nn.Transformer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Transformer(D, HEADS, 2, 1, D_FF, 0.0, batch_first=True, bias=bias)


def _saved(original: nn.Module, folder: Path) -> Path:
    torch.save(scramble(original).state_dict(), folder / "model.pt")
    return folder / "model.pt"


def _same_maps(path: Path, original: nn.Module, inputs: tuple[Tensor, ...], **answers) -> None:
    found = attention_maps(loaded(path, n_heads=HEADS, **answers), *inputs)
    with torch.no_grad():
        expected = original.double()(*inputs)
    for name, values in expected.items():
        assert abs(torch.from_numpy(found[name]) - values).max() < 1e-9, name


def _refused(path: Path, *named: str, **answers) -> str:
    recognition = recognise(read_file(path), answers)
    found = recognition.report
    assert not found.fits
    assert found.confidence < 1
    with pytest.raises(CheckpointError) as refused:
        build(recognition, "model")
    for name in named:
        assert name in str(refused.value)
        assert any(unexpected.startswith(name) for unexpected in found.unexpected)
    return str(refused.value)


ids = torch.randint(1, VOCAB, (2, LENGTH), generator=torch.Generator().manual_seed(1))

BEFORE = {
    "norm": lambda: nn.LayerNorm(D),
    "ln_emb": lambda: nn.LayerNorm(D),
    "input_norm": lambda: nn.LayerNorm(D),
    "layer_norm": lambda: nn.LayerNorm(D),
    "embeddings.LayerNorm": lambda: nn.LayerNorm(D),
    "ln1": lambda: nn.LayerNorm(D, bias=False),
    "bn.norm": lambda: nn.LayerNorm(D),
    "seg": lambda: nn.Embedding(2, D),
    "type_embedding": lambda: nn.Embedding(2, D),
    "token_type_embeddings": lambda: nn.Embedding(3, D),
    "halves": lambda: nn.Embedding(2, D),
    "head_token": lambda: nn.Parameter(torch.zeros(1, 1, D)),
    "alpha": lambda: nn.Parameter(torch.zeros(())),
    "head_scale": lambda: nn.Parameter(torch.zeros(D)),
    "proj": lambda: nn.Linear(D, D),
    "out_norm": lambda: nn.LayerNorm(D),
    "after": lambda: nn.LayerNorm(D),
    "proj_out": lambda: nn.Linear(D, D),
    "fc": lambda: nn.Linear(D, D),
    "dense": lambda: nn.Linear(D, D, bias=False),
    "input_projection": lambda: nn.Linear(D, D),
    "proj_in": lambda: nn.Linear(D, D),
    "embed_out": lambda: nn.Linear(D, D),
    "conv": lambda: nn.Conv1d(D, D, 3, padding=1),
    "mixer": lambda: nn.Conv1d(D, D, 3, padding=1),
    "bottleneck": lambda: nn.Sequential(nn.Linear(D, 5), nn.ReLU(), nn.Linear(5, D)),
    "gate": lambda: nn.Linear(D, 1),
}


@pytest.mark.parametrize(("name", "place"), list(zip(BEFORE, cycle(["first", "middle", "last"]))))
def test_what_acts_before_the_layers_is_refused_by_name(name, place, tmp_path):
    positions = "learned" if place == "middle" else "formula"
    torch.manual_seed(5)
    table = {"pos": nn.Embedding(ROWS, D)} if positions == "learned" else {}
    parts: Parts = {"token": nn.Embedding(VOCAB, D), **table, "encoder": _encoder()}
    extra = {name: BEFORE[name]()}
    order = list(parts)
    order.insert({"first": 0, "middle": 1, "last": len(order)}[place], name)
    parts = {key: (parts | extra)[key] for key in order}
    used = [key for key in parts if key not in {"token", "encoder"}]
    original = Around(parts, sorted(used, reverse=True), scaled=True, positions=positions == "formula")
    path = _saved(original, tmp_path)
    found = _refused(path, name)
    assert "act" in found
    for questions in report(path).questions:
        assert questions.check(questions.default) == questions.default


@pytest.mark.parametrize("first", [True, False])
def test_the_order_of_two_embeddings_does_not_choose_the_tokens(first, tmp_path):
    parts: Parts = {"token": nn.Embedding(VOCAB, D), "seg": nn.Embedding(2, D), "encoder": _encoder()}
    parts = parts if first else dict(sorted(parts.items(), key=lambda part: part[0] != "seg"))
    path = _saved(Around(parts, ["seg"], scaled=True, positions=True), tmp_path)
    assert report(path).config.vocab == VOCAB
    _refused(path, "seg.weight")


def test_two_norms_are_told_apart_by_their_container(tmp_path):
    torch.manual_seed(2)
    layers = _encoder(norm=False)
    parts: Parts = {"token": nn.Embedding(VOCAB, D), "encoder": layers, "encoder.norm": nn.LayerNorm(D)}
    original = Around(parts, [], scaled=True, positions=True)
    _same_maps(_saved(original, tmp_path), original, (ids,))
    own: Parts = {
        "token": nn.Embedding(VOCAB, D),
        "encoder": layers,
        "encoder.dropped.weight": nn.Parameter(torch.ones(D)),
    }
    path = _saved(Around({**own, "encoder.norm": nn.LayerNorm(D)}, ["encoder.norm"], True, True), tmp_path)
    said = _refused(path, "encoder.norm", "encoder.dropped.weight")
    assert "norm_after_stack" in said
    assert "others_after" in said


@pytest.mark.parametrize("norm", [True, False])
def test_a_norm_in_a_module_of_ones_own_is_asked(norm, tmp_path):
    """`layers` and `norm` beside an embedding are no container of torch's: the norm may stand before the layers."""
    torch.manual_seed(3)
    original = Around({"token": nn.Embedding(VOCAB, D), "encoder": _encoder(), "head": nn.Linear(D, 5)}, [], True, True)
    state = {name.removeprefix("encoder."): tensor for name, tensor in scramble(original).state_dict().items()}
    torch.save(state, tmp_path / "model.pt")
    path = tmp_path / "model.pt"
    assert "norm_after_stack" in _refused(path, "norm.weight", "norm.bias")
    _same_maps(path, original, (ids,), norm_after_stack=True)
    assert loaded(path, n_heads=HEADS, norm_after_stack=True).model.config.norm_after_stack
    _refused(path, "norm.weight", norm_after_stack=False)


AFTER: dict[str, Callable[[], dict[str, nn.Module]]] = {
    "head": lambda: {"head": nn.Linear(D, 5)},
    "classifier": lambda: {"classifier": nn.Linear(D, 5, bias=False)},
    "fc": lambda: {"fc": nn.Linear(D, 5, bias=False)},
    "linear": lambda: {"linear": nn.Linear(D, 5)},
    "nameless": lambda: {"u": nn.Linear(D, 5), "v": nn.LayerNorm(5), "w": nn.Linear(5, 2)},
    "pooler": lambda: {"pooler.dense": nn.Linear(D, D), "classifier": nn.Linear(D, 2)},
    "pre_classifier": lambda: {"pre_classifier": nn.Linear(D, D), "classifier": nn.Linear(D, 2)},
    "out": lambda: {"out": nn.Sequential(nn.Linear(D, D), nn.ReLU(), nn.Linear(D, 2))},
    "final": lambda: {"final_norm": nn.LayerNorm(D), "lm_head": nn.Linear(D, VOCAB, bias=False)},
    "ln_f": lambda: {"ln_f": nn.LayerNorm(D)},
    "sequential": lambda: {"mlp_head": nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 5))},
    "decoder": lambda: {"decoder": nn.Linear(D, VOCAB)},
    "batch": lambda: {"head": nn.Sequential(nn.Linear(D, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))},
}


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize(("name", "positions"), list(zip(AFTER, cycle(["formula", "learned"]))))
def test_what_provably_stands_after_the_layers_still_loads(name, place, positions, tmp_path):
    torch.manual_seed(7)
    table = {"pos": nn.Embedding(ROWS, D)} if positions == "learned" else {}
    parts: Parts = {"token": nn.Embedding(VOCAB, D), **table, "encoder": _encoder()}
    extra = AFTER[name]()
    parts = {**extra, **parts} if place == "first" else {**parts, **extra}
    before = [] if positions == "formula" else ["pos"]
    original = Around(parts, before, scaled=True, positions=positions == "formula")
    path = _saved(original, tmp_path)
    if place == "first" and name in {"linear", "nameless"}:  # neither a name nor the order says where they stand
        _refused(path, str(min(extra)))
        _same_maps(path, original, (ids,), others_after=True)
        return
    assert report(path).fits
    asked = {question.name for question in report(path).questions}
    causal = {"causal": False} if name in {"decoder", "final"} else {}  # they score the vocabulary: asked
    assert ("causal" in {question.name for question in report(path).open}) == bool(causal)
    _same_maps(path, original, (ids,), head="none", **causal) if "head" in asked else None
    _same_maps(path, original, (ids,), **causal)


def test_what_is_not_told_can_be_answered_or_left_out(tmp_path):
    torch.manual_seed(9)
    parts: Parts = {"token": nn.Embedding(VOCAB, D), "encoder": _encoder(), "norm": nn.LayerNorm(D)}
    original = Around(parts, [], scaled=True, positions=True)
    path = _saved(original, tmp_path)
    assert "others_after" in _refused(path, "norm.weight")
    _same_maps(path, original, (ids,), others_after=True)
    _same_maps(path, original, (ids,), ignore="norm.*")


def test_a_name_that_says_before_is_not_answered_away(tmp_path):
    parts: Parts = {"token": nn.Embedding(VOCAB, D), "input_norm": nn.LayerNorm(D), "encoder": _encoder()}
    path = _saved(Around(parts, ["input_norm"], scaled=True, positions=True), tmp_path)
    assert "others_after" not in {question.name for question in report(path).questions}
    assert "acts before the layers" in _refused(path, "input_norm")


@pytest.mark.parametrize("last", [True, False])
def test_a_positional_table_declared_after_the_layers_is_asked(last, tmp_path):
    torch.manual_seed(4)
    parts: Parts = {"token": nn.Embedding(VOCAB, D), "encoder": _encoder(), "pos": nn.Embedding(ROWS, D)}
    original = Around(parts, ["pos"] if not last else [], scaled=True, positions=last)
    path = _saved(original, tmp_path)
    assert "position_table" in {question.name for question in report(path).questions}
    if last:
        _same_maps(path, original, (ids,), position_table="none", ignore="pos.*")
    else:
        _same_maps(path, original, (ids,))


def test_of_two_positional_tables_one_is_refused(tmp_path):
    parts: Parts = {n: nn.Embedding(ROWS, D) for n in ("pos_a", "pos_b")}
    parts = {**parts, "token": nn.Embedding(VOCAB, D), "encoder": _encoder()}
    path = _saved(Around(parts, ["pos_a", "pos_b"], scaled=True, positions=False), tmp_path)
    _refused(path, "pos_b")
    _refused(path, "pos_a", position_table="pos_b.weight")


def test_embeddings_without_a_telling_name_are_asked(tmp_path):
    torch.manual_seed(6)
    parts: Parts = {"token": nn.Embedding(VOCAB, D), "encoder": _encoder()}
    original = Around(parts, [], scaled=True, positions=True)
    state = scramble(original).state_dict()
    torch.save({name.replace("token.", "a."): tensor for name, tensor in state.items()}, tmp_path / "model.pt")
    path = tmp_path / "model.pt"
    asked = {question.name: question for question in report(path).questions}
    assert asked["embedding"].options == ("a.weight", "none")
    _same_maps(path, original, (ids,))
    assert not report(path, embedding="none").fits


@pytest.mark.parametrize("before", [True, False])
def test_a_single_layer_beside_the_stack_is_told_by_its_norms(before, tmp_path):
    torch.manual_seed(8)
    single = nn.TransformerEncoderLayer(D, HEADS, D_FF, 0.0, batch_first=True)
    parts: Parts = {"token": nn.Embedding(VOCAB, D), "local": single, "encoder": _encoder()}
    original = Around(parts, ["local"] if before else [], scaled=True, positions=True)
    scramble(original)
    if not before:
        nn.init.ones_(single.norm1.weight), nn.init.zeros_(single.norm1.bias)
        nn.init.ones_(single.norm2.weight), nn.init.zeros_(single.norm2.bias)
    torch.save(original.state_dict(), tmp_path / "model.pt")
    if before:
        _refused(tmp_path / "model.pt", "local.linear1.weight")
        _refused(tmp_path / "model.pt", "local.self_attn", others_after=True)
    else:
        _same_maps(tmp_path / "model.pt", original, (ids,))


def test_a_trained_layer_called_a_template_is_asked(tmp_path):
    single = nn.TransformerEncoderLayer(D, HEADS, D_FF, 0.0, batch_first=True)
    parts: Parts = {"token": nn.Embedding(VOCAB, D), "encoder_layer": single, "encoder": _encoder()}
    path = _saved(Around(parts, ["encoder_layer"], scaled=True, positions=True), tmp_path)
    assert "only_copied" in {question.name for question in report(path).questions}
    _refused(path, "encoder_layer", only_copied=False)


def test_two_stacks_of_layers_are_refused(tmp_path):
    parts: Parts = {"token": nn.Embedding(VOCAB, D), "local": _encoder(norm=False), "encoder": _encoder()}
    path = _saved(Around(parts, ["local"], scaled=True, positions=True), tmp_path)
    assert "second stack" in _refused(path)


def test_a_stored_mask_over_the_future_is_believed(tmp_path):
    original = Around({"token": nn.Embedding(VOCAB, D), "encoder": _encoder()}, [], True, True)
    mask = torch.zeros(9, 9).masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -torch.inf)
    torch.save({**scramble(original).state_dict(), "src_mask": mask}, tmp_path / "model.pt")
    found = report(tmp_path / "model.pt")
    assert found.fits
    assert found.config.causal
    torch.save({**original.state_dict(), "src_mask": torch.randn(9, 9)}, tmp_path / "model.pt")
    _refused(tmp_path / "model.pt", "src_mask")


NAMES = [
    ("src_tok_emb", "tgt_tok_emb", "transformer", "generator"),
    ("encoder_embedding", "decoder_embedding", "net", "fc_out"),
    ("embed_src", "embed_trg", "core", "to_vocab"),
    ("model.src", "model.tgt", "model.core", "model.head"),
    ("a", "b", "t", "o"),
    ("emb_in", "emb_out", "net", "o"),
]


def _pair(names, order, tied, sizes, tables=None, before=()) -> Pair:
    source, target, core, scores = names
    projection = nn.Linear(D, sizes[1], bias=False)
    read = nn.Embedding(sizes[1], D)
    parts = {source: nn.Embedding(sizes[0], D), target: read, core: _core(), scores: projection}
    if tied:
        projection.weight = read.weight
    roles = dict(source_embedding=source, target_embedding=target, core=core, projection=scores)
    if tables:
        parts |= {name: nn.Embedding(ROWS + 2 * i, D) for i, name in enumerate(tables)}
        roles |= dict(source_positions=tables[0], target_positions=tables[1])
    parts |= dict(before)
    return Pair({name: parts[name] for name in sorted(parts, key=lambda _: order.random())}, roles, tuple(dict(before)))


@pytest.mark.parametrize(("tied", "sizes", "seed"), [
    (False, (23, 23), 0), (False, (23, 29), 1), (True, (23, 23), 1), (True, (23, 29), 0),
])  # fmt: skip
@pytest.mark.parametrize("names", NAMES)
def test_a_projection_without_bias_may_be_declared_anywhere(names, sizes, tied, seed, tmp_path):
    torch.manual_seed(seed)
    original = _pair(names, random.Random(seed), tied, sizes)
    path = _saved(original, tmp_path)
    inputs = (ids, ids[:, 1:] % min(sizes))
    right = {
        "projection": f"{names[3]}.weight",
        "source_embedding": f"{names[0]}.weight",
        "target_embedding": f"{names[1]}.weight",
    }
    asked = {question.name: question for question in report(path).questions}
    answers = {name: right[name] for name in right if name in asked}
    if names[0] in {"a", "emb_in"}:  # nothing tells but the order, or `emb_out` may embed or score: it must be asked
        assert "projection" in asked
        answers = {"projection": right["projection"]}
        for _ in range(2):  # an answer may raise the next question
            now = {question.name for question in report(path, **answers).questions}
            answers |= {name: right[name] for name in right if name in now}
        _same_maps(path, original, inputs, **answers)
        return
    _same_maps(path, original, inputs)
    _same_maps(path, original, inputs, **answers)


def test_any_matrix_may_be_answered_to_be_the_projection(tmp_path):
    path = _saved(_pair(("m", "n", "t", "o"), random.Random(1), False, (23, 23)), tmp_path)
    options = {question.name: question.options for question in report(path).questions}["projection"]
    assert set(options) == {"m.weight", "n.weight", "o.weight", "tied"}


TABLES = [
    ("src_pos_emb", "tgt_pos_emb"), ("encoder_pos", "decoder_pos"), ("enc.position", "dec.position"),
    ("source_pe", "target_pe"), ("srcPos", "tgtPos"),
]  # fmt: skip


@pytest.mark.parametrize(("tables", "seed"), list(zip([*TABLES, *TABLES], cycle(range(4)))))
def test_positional_tables_are_told_by_their_names(tables, seed, tmp_path):
    torch.manual_seed(seed)
    original = _pair(NAMES[0], random.Random(seed), False, (23, 29), tables)
    path = _saved(original, tmp_path)
    assert not {"source_positions", "target_positions"} & {question.name for question in report(path).questions}
    _same_maps(path, original, (ids, ids[:, 1:]))


@pytest.mark.parametrize("seed", range(4))
def test_positional_tables_without_telling_names_are_asked(seed, tmp_path):
    torch.manual_seed(seed)
    original = _pair(NAMES[0], random.Random(seed), False, (23, 29), ("pos_a", "pos_b"))
    path = _saved(original, tmp_path)
    asked = {question.name for question in report(path).questions}
    assert {"source_positions", "target_positions"} <= asked
    answers = dict(source_positions="pos_a.weight", target_positions="pos_b.weight")
    _same_maps(path, original, (ids, ids[:, 1:]), **answers)


def test_a_table_named_for_one_side_is_asked_before_it_serves_both(tmp_path):
    torch.manual_seed(1)
    original = _pair(NAMES[0], random.Random(1), False, (23, 29), ("tgt_pos", "tgt_pos"))
    path = _saved(original, tmp_path)
    _refused(path, "tgt_pos")
    _same_maps(path, original, (ids, ids[:, 1:]), one_position_table=True)


@pytest.mark.parametrize("seed", [3])
@pytest.mark.parametrize("name", [name for name in BEFORE if name not in {"head_token", "gate"}])
def test_what_acts_before_the_layers_of_a_pair_is_refused_or_asked(name, seed, tmp_path):
    torch.manual_seed(seed)
    original = _pair(NAMES[0], random.Random(seed), False, (23, 29), before=((name, BEFORE[name]()),))
    _refused(_saved(original, tmp_path), name)


def test_a_second_embedding_is_never_the_source(tmp_path):
    """One embedding serves both sides; beside it stand segments, or places under a name that says nothing."""
    for name in ("type_embedding", "seg", "place"):
        torch.manual_seed(1)
        parts: Parts = {
            "words": nn.Embedding(23, D), name: nn.Embedding(ROWS, D), "core": _core(), "out": nn.Linear(D, 23),
        }  # fmt: skip
        roles = dict(source_embedding="words", target_embedding="words", core="core", projection="out")
        _refused(_saved(Pair(parts, roles, (name,)), tmp_path), name)
