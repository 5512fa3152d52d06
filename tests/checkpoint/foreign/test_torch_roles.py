"""What stands around torch's layers: equal to the original, or asked, or refused by name; never wrong in silence."""

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.checkpoint.originals.common import loaded, scramble
from tests.checkpoint.originals.torch_around import Around, Pair, Parts
from transformer import DecodingOptions, attention_maps, translate
from transformer.checkpoint import report
from transformer.checkpoint.foreign.build import build
from transformer.checkpoint.foreign.recognition import recognise
from transformer.errors import CheckpointError, InputError
from transformer.safe.reading import read_file

VOCAB, D, HEADS, D_FF, ROWS = 23, 12, 3, 17, 19
SIZES = (VOCAB, 29)
IDS = torch.randint(1, VOCAB, (2, 7), generator=torch.Generator().manual_seed(1))
NAMES = ("src_tok_emb", "tgt_tok_emb", "transformer", "generator")


def _layers(norm: bool = True, bias: bool = True) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(D, HEADS, D_FF, 0.0, batch_first=True)
    layer.self_attn = nn.MultiheadAttention(D, HEADS, bias=bias, batch_first=True)
    return nn.TransformerEncoder(layer, 2, nn.LayerNorm(D) if norm else None, enable_nested_tensor=False)


def _core() -> nn.Transformer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Transformer(D, HEADS, 2, 1, D_FF, 0.0, batch_first=True)


def _around(before: Parts, after: Parts, place: str = "last") -> Around:
    """An encoder with parts before and after its layers; all are declared first, or last."""
    torch.manual_seed(5)
    extra = {**before, **after}
    own: Parts = {"token": nn.Embedding(VOCAB, D), "encoder": _layers()}
    parts = {**extra, **own} if place == "first" else {**own, **extra}
    return Around(parts, list(before), scaled=True, positions="pos" not in before)


def _pair(names: tuple[str, ...] = NAMES, tables: Any = (), core: nn.Transformer | None = None, **before: Any) -> Pair:
    """An encoder-decoder whose parts are declared in any order; `tables` name those of positions."""
    torch.manual_seed(1)
    made = (nn.Embedding(SIZES[0], D), nn.Embedding(SIZES[1], D), core or _core(), nn.Linear(D, SIZES[1], bias=False))
    parts: dict[str, Any] = dict(zip(names, made, strict=True)) | before
    parts |= {name: nn.Embedding(ROWS + 2 * i, D) for i, name in enumerate(dict.fromkeys(tables))}
    roles = dict(zip(("source_embedding", "target_embedding", "core", "projection"), names, strict=True))
    roles |= dict(zip(("source_positions", "target_positions"), tables, strict=False))
    order = random.Random(3)
    return Pair({name: parts[name] for name in sorted(parts, key=lambda _: order.random())}, roles, tuple(before))


def _saved(original: nn.Module, folder: Path) -> Path:
    torch.save(scramble(original).state_dict(), folder / "model.pt")
    return folder / "model.pt"


def _same(path: Path, original: nn.Module, inputs: tuple[Tensor, ...], **answers: Any) -> None:
    found = attention_maps(loaded(path, n_heads=HEADS, pad_id=-1, **answers), *inputs)
    with torch.no_grad():
        expected = original.double()(*inputs)
    original.float()
    assert expected
    for name, values in expected.items():
        assert abs(torch.from_numpy(found[name]) - values).max() < 1e-9, name


def _refused(path: Path, *named: str, **answers: Any) -> str:
    recognition = recognise(read_file(path), answers)
    assert not recognition.report.fits
    assert recognition.report.confidence < 1
    with pytest.raises(CheckpointError) as refused:
        build(recognition, "model")
    for name in named:
        assert any(unexpected.startswith(name) for unexpected in recognition.report.unexpected), name
        assert name in str(refused.value)
    return str(refused.value)


BEFORE: dict[str, Callable[[], Any]] = {
    "norm": lambda: nn.LayerNorm(D),
    "final_norm": lambda: nn.LayerNorm(D, bias=False),
    "token_type_embeddings": lambda: nn.Embedding(3, D),
    "cls_token": lambda: nn.Parameter(torch.zeros(1, 1, D)),
    "head_scale": lambda: nn.Parameter(torch.zeros(D)),
    "proj_out": lambda: nn.Linear(D, D),
    "classifier": lambda: nn.Linear(D, D, bias=False),
    "conv": lambda: nn.Conv1d(D, D, 3, padding=1),
    "gate": lambda: nn.Linear(D, 1),
    "head": lambda: nn.Sequential(nn.Linear(D, 5), nn.ReLU(), nn.Linear(5, D)),
}


@pytest.mark.parametrize("name", BEFORE)
def test_what_acts_before_the_layers_is_refused_by_name(name, tmp_path):
    path = _saved(_around({name: BEFORE[name]()}, {}, "first"), tmp_path)
    found = _refused(path, *() if name == "head" else (name,))
    assert "act" in found
    if name not in {"cls_token", "conv"}:
        _refused(_saved(_pair(**{name: BEFORE[name]()}), tmp_path))


AFTER: dict[str, Any] = {
    "a linear map": {"u": nn.Linear(D, 5)},
    "two maps": {"u": nn.Linear(D, 5), "w": nn.Linear(5, 2)},
    "a pooler": {"pooler.dense": nn.Linear(D, D), "classifier": nn.Linear(D, 2)},
    "a norm": {"ln_f": nn.LayerNorm(D)},
    "a norm and a map": {"mlp_head": nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 5))},
    "scores": {"decoder": nn.Linear(D, VOCAB)},
}


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("name", AFTER)
def test_what_the_layers_cannot_read_stands_after_them_and_the_rest_is_asked(name, place, tmp_path):
    original = _around({"pos": nn.Embedding(ROWS, D)} if place == "first" else {}, AFTER[name], place)
    path = _saved(original, tmp_path)
    answers = {"causal": False} if name == "scores" else {}
    if name in {"a linear map", "two maps", "scores"}:
        assert report(path).fits
    else:
        assert "others_after" in _refused(path)
        answers["others_after"] = True
    assert ("causal" in {question.name for question in report(path).open}) == (name == "scores")
    _same(path, original, (IDS,), **answers)
    if {question.name for question in report(path).questions} & {"head"}:
        _same(path, original, (IDS,), head="none", **answers)


def test_what_is_not_told_can_be_left_out_too(tmp_path):
    original = _around({}, {"norm": nn.LayerNorm(D)})
    _same(_saved(original, tmp_path), original, (IDS,), ignore="norm.*")


@pytest.mark.parametrize("own", [False, True])
def test_a_norm_beside_layers_is_asked_where_more_than_they_is_there(own, tmp_path):
    original = _around({}, {"head": nn.Linear(D, 5)})
    state = scramble(original).state_dict()
    torch.save({name.removeprefix("encoder." if own else ""): one for name, one in state.items()}, tmp_path / "m.pt")
    if own:
        assert "norm_after_stack" in _refused(tmp_path / "m.pt", "norm.weight", "norm.bias")
    _same(tmp_path / "m.pt", original, (IDS,), **({"norm_after_stack": True} if own else {}))


@pytest.mark.parametrize("names", [("t", "time_embed"), ("tok", "rows"), ("a", "b"), ("token", "pos")])
def test_tables_of_any_name_can_be_answered(names, tmp_path):
    original = scramble(_around({"pos": nn.Embedding(ROWS, D)}, {}))
    told = dict(zip(("token", "pos"), names, strict=True))
    parted = {name: name.partition(".") for name in original.state_dict()}
    state = {f"{told.get(first, first)}.{rest}": original.state_dict()[n] for n, (first, _, rest) in parted.items()}
    path = tmp_path / "model.pt"
    torch.save(state, path)
    if names != ("token", "pos"):
        _refused(path)
    answers = {"embedding": f"{names[0]}.weight", "position_table": f"{names[1]}.weight"}
    asked = {question.name for question in report(path).questions}
    _same(path, original, (IDS,), **{name: answer for name, answer in answers.items() if name in asked})


def test_of_two_positional_tables_one_is_refused(tmp_path):
    path = _saved(_around({name: nn.Embedding(ROWS, D) for name in ("pos_a", "pos_b")}, {}), tmp_path)
    _refused(path, "pos_b")
    _refused(path, "pos_a", position_table="pos_b.weight")


@pytest.mark.parametrize("before", [True, False])
def test_a_single_layer_beside_the_stack_is_told_by_its_norms(before, tmp_path):
    single = nn.TransformerEncoderLayer(D, HEADS, D_FF, 0.0, batch_first=True)
    original = scramble(_around({"local": single} if before else {}, {} if before else {"local": single}))
    if not before:
        for norm in (single.norm1, single.norm2):
            norm.reset_parameters()
    torch.save(original.state_dict(), tmp_path / "model.pt")
    if before:
        _refused(tmp_path / "model.pt", "local.linear1.weight")
    else:
        _same(tmp_path / "model.pt", original, (IDS,))


def test_two_stacks_of_layers_are_refused(tmp_path):
    _refused(_saved(_around({"local": _layers(norm=False)}, {}), tmp_path), "local.layers.0.linear1.weight")


def test_a_stored_mask_over_the_future_is_believed(tmp_path):
    state = scramble(_around({}, {})).state_dict()
    mask = torch.zeros(9, 9).masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -torch.inf)
    torch.save({**state, "src_mask": mask}, tmp_path / "model.pt")
    found = report(tmp_path / "model.pt")
    assert (found.fits, found.config.causal) == (True, True)
    torch.save({**state, "src_mask": torch.randn(9, 9)}, tmp_path / "model.pt")
    _refused(tmp_path / "model.pt", "src_mask")


PAIRS = [
    (NAMES, ()),
    (("model.src", "model.tgt", "model.core", "model.head"), ("src_pos", "tgt_pos")),
    (("emb_in", "emb_out", "net", "o"), ("positions", "positions")),
    (("b", "a", "t", "o"), ("pos_b", "pos_a")),
]


@pytest.mark.parametrize(("names", "tables"), PAIRS)
def test_a_pair_under_any_names_in_any_order_is_read_or_asked(names, tables, tmp_path):
    original = _pair(names, tables)
    path = _saved(original, tmp_path)
    truth = {role: f"{name}.weight" for role, name in original.roles.items() if role != "core"}
    asked = {question.name for question in report(path).questions} & truth.keys()
    assert asked  # the projection has no bias
    _same(path, original, (IDS, IDS[:, 1:]), **{name: truth[name] for name in asked})
    guessed = {question.name: question.default for question in report(path).questions if question.name in asked}
    if names[0] != "b":
        assert guessed == {name: truth[name] for name in asked}  # what is proposed
    assert asked <= {text.partition("=")[0] for text in report(path).assumptions}  # and said to be assumed


def test_a_table_named_for_one_side_is_asked_before_it_serves_both(tmp_path):
    original = _pair(tables=("tgt_pos", "tgt_pos"))
    path = _saved(original, tmp_path)
    _refused(path, "tgt_pos")
    _same(path, original, (IDS, IDS[:, 1:]), one_position_table=True)


def test_each_side_has_the_positions_of_its_own_table(tmp_path):
    path = _saved(_pair(tables=("src_pos", "tgt_pos")), tmp_path)
    checkpoint = loaded(path, n_heads=HEADS, eos_id=-1)
    assert f"a source has at most {ROWS} positions, a target at most {ROWS + 2}" in report(path).text
    with pytest.raises(InputError, match=f"the text has {ROWS + 1} tokens, this checkpoint reads at most {ROWS}"):
        translate(checkpoint, " ".join("1" * (ROWS + 1)))
    assert len(translate(checkpoint, "1 2", DecodingOptions(beam=1, max_length=40)).steps) == ROWS + 2


@pytest.mark.parametrize("missing", ["encoder", "decoder", "biases"])
def test_a_pair_with_one_norm_of_two_or_attention_without_biases(missing, tmp_path):
    core: Any = _core()
    if missing == "biases":
        for layer in (*core.encoder.layers, *core.decoder.layers):
            layer.self_attn = nn.MultiheadAttention(D, HEADS, bias=False, batch_first=True)
        for layer in core.decoder.layers:
            layer.multihead_attn = nn.MultiheadAttention(D, HEADS, bias=False, batch_first=True)
    else:
        getattr(core, missing).norm = None
    original = _pair(core=core)
    path = _saved(original, tmp_path)
    _same(path, original, (IDS, IDS[:, :5]))
    if missing != "biases":
        assert loaded(path, n_heads=HEADS).model.config.without_norm == missing
