"""What stands around torch's layers is read by exact names and shapes, or refused with the lines that record it.

Exact names at sizes drawn at random are compared in `test_layouts.py`. Here modules are also drawn as people write
them: what loads has the maps of the original, everything else is refused, and nothing is wrong in silence.
"""

import random
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heedmap import load
from heedmap.checkpoint import report
from heedmap.errors import CheckpointError
from tests.checkpoint.originals.common import same, scramble, table
from tests.checkpoint.originals.torch_modules import NAMES, Around, Pair, translator

VOCAB, D, HEADS, D_FF, ROWS = 23, 12, 3, 17, 19
IDS = torch.randint(1, VOCAB, (2, 7), generator=torch.Generator().manual_seed(1))
DIALECT: dict[str, Any] = {"n_heads": HEADS, "scale_embedding": True}
ENCODER = "transformer_encoder"


def _layers(norm: bool = True, d_ff: int = D_FF) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(D, HEADS, d_ff, 0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, nn.LayerNorm(D) if norm else None, enable_nested_tensor=False)


def _around(extra: Mapping[str, Any], before: tuple[str, ...] = (), **options: Any) -> Around:
    """The parts of the tutorial's encoder, with more or others."""
    torch.manual_seed(5)
    parts = {"embedding": nn.Embedding(VOCAB, D), ENCODER: _layers(), **extra}
    return Around(parts, before, scaled=True, formula=not before, **options)


def _pair(extra: Mapping[str, Any], before: tuple[str, ...] = ()) -> Pair:
    torch.manual_seed(1)
    made = translator(VOCAB, 29, (2, 1), D, HEADS, D_FF)
    return Pair({name: getattr(made, name) for name in NAMES} | dict(extra), made.roles, before)


def _saved(state: nn.Module | Mapping[str, Tensor], folder: Path) -> Path:
    torch.save(scramble(state).state_dict() if isinstance(state, nn.Module) else state, folder / "model.pt")
    return folder / "model.pt"


def _same(path: Path, original: nn.Module, *inputs: Tensor, **answers: Any) -> None:
    with torch.no_grad():
        expected = original.double()(*inputs)
    assert expected
    same(load(path, **DIALECT | answers), expected, *inputs)


def _refused(path: Path, *named: str, **answers: Any) -> str:
    """What a refusal says: these tensors are named, how they are used is not known, and the lines that record."""
    found = report(path, **answers)
    with pytest.raises(CheckpointError) as refused:
        load(path, **answers)
    text = str(refused.value)
    assert not found.fits
    assert "do not say how they are used" in text or "its name does not say how it is used" in text
    assert f"d_model={D}" in text
    assert text.endswith("\n".join(found.record))
    for name in named:
        assert any(unexpected.startswith(name) for unexpected in found.unexpected), name
        assert f"unexpected: {name}" in text
    return text


EXTRA: dict[str, Callable[[], Any]] = {
    "norm": lambda: nn.LayerNorm(D),
    "final_norm": lambda: nn.LayerNorm(D, bias=False),
    "token_type_embeddings": lambda: nn.Embedding(3, D),
    "cls_token": lambda: nn.Parameter(torch.zeros(1, 1, D)),
    "head_scale": lambda: nn.Parameter(torch.zeros(D)),
    "proj_out": lambda: nn.Linear(D, D),
    "classifier": lambda: nn.Linear(D, 5),
    "logits": lambda: nn.Linear(D, VOCAB, bias=False),
    "conv": lambda: nn.Conv1d(D, D, 3, padding=1),
    "head": lambda: nn.Sequential(nn.Linear(D, 5), nn.ReLU(), nn.Linear(5, D)),
    "local": lambda: nn.TransformerEncoderLayer(D, HEADS, D_FF),
    "src_pos": lambda: nn.Embedding(ROWS, D),
}


@pytest.mark.parametrize("name", EXTRA)
def test_what_has_no_role_is_refused_by_name(name, tmp_path):
    for original in (_around({name: EXTRA[name]()}), _pair({name: EXTRA[name]()})):
        assert "2 x nn.TransformerEncoderLayer at transformer" in _refused(_saved(original, tmp_path), name)


OTHERS = [
    ("embedding", "t"), ("embedding", "src_embed"), ("src_embed", "words"), ("tgt_embed", "tgt_pos"),
    ("generator", "generator.proj"),
]  # fmt: skip
"""A part, and a name that is none of its role's."""


@pytest.mark.parametrize(("name", "other"), OTHERS)
def test_a_role_that_no_name_tells_is_refused_and_what_stands_around_is_listed(name, other, tmp_path):
    original = _around({}) if name == "embedding" else _pair({})
    if name == "generator":
        original.generator.bias = None  # a bias would tell that it scores
    state = {one.replace(f"{name}.", f"{other}."): tensor for one, tensor in scramble(original).state_dict().items()}
    text = _refused(_saved(state, tmp_path), f"{other}.weight")
    assert "is of a module around layers of torch.nn.Transformer" in text
    assert "2 layers at transformer" in text
    assert not any(".layers." in tensor for tensor in report(tmp_path / "model.pt").unexpected)


@pytest.mark.parametrize(
    "names",
    [("embedding.weight", "encoder.weight"), ("pos_encoder.pe", "pos_embedding"), ("linear.weight", "decoder.weight")],
)  # fmt: skip
def test_of_two_tensors_of_one_role_one_is_refused(names, tmp_path):
    shapes = [(VOCAB, D)] * 2 if names[0].endswith("weight") else [(ROWS, 1, D), (1, ROWS, D)]
    state = scramble(_around({})).state_dict()
    _refused(_saved(state | dict(zip(names, map(torch.ones, shapes), strict=True)), tmp_path), names[1])


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("pos_encoder.pe", (ROWS, 2, D)),
        ("linear.weight", (5, D)),
        ("pos_embedding", (ROWS, 7)),
        ("embedding.bias", (VOCAB,)),
    ],
)
def test_a_name_without_the_shape_of_its_role_is_none(name, shape, tmp_path):
    _refused(_saved(scramble(_around({})).state_dict() | {name: torch.ones(shape)}, tmp_path), name)


def test_layers_that_are_no_whole_module_of_torch_are_refused(tmp_path):
    """A norm that stands among other modules may come before the layers, and stacks of two modules anything."""
    encoder = scramble(_around({})).state_dict()
    within = {name.removeprefix(f"{ENCODER}."): tensor for name, tensor in encoder.items()}
    masked = encoder | {f"{ENCODER}.src_mask": torch.zeros(7, 7)}
    _refused(_saved(masked, tmp_path), f"{ENCODER}.norm.weight")
    for state in (within, {name.replace(".layers.", ".blocks."): tensor for name, tensor in encoder.items()}):
        _refused(_saved(state, tmp_path), f"{'' if state is within else f'{ENCODER}.'}norm.weight")
    _refused(_saved(_around({"local": _layers(norm=False)}), tmp_path), "embedding.weight")
    pair = scramble(_pair({})).state_dict()
    _refused(_saved({n.replace("transformer.decoder", "writer.decoder"): one for n, one in pair.items()}, tmp_path))
    _refused(_saved({n.replace("transformer.", "my_"): one for n, one in pair.items()}, tmp_path), "src_embed.weight")
    decoder = {name: one for name, one in pair.items() if not name.startswith("transformer.encoder.")}
    _refused(_saved(decoder, tmp_path), "tgt_embed.weight")


def test_a_norm_that_torch_s_module_has_is_missing_and_its_lines_are_given(tmp_path):
    state = scramble(_pair({})).state_dict()
    del state["transformer.encoder.norm.bias"]
    found = report(_saved(state, tmp_path))
    assert found.missing == {"transformer.encoder.norm.bias": (D,)}
    assert found.text.endswith("\n".join(found.record))


def test_sizes_that_coincide_do_not_make_scores_of_a_layer_s_maps(tmp_path):
    """The map that widens has as many rows as the vocabulary, and a bias."""
    original = _around({ENCODER: _layers(d_ff=VOCAB)})
    path = _saved(original, tmp_path)
    assert "causal" not in {question.name for question in report(path).open}
    _same(path, original, IDS)


@pytest.mark.parametrize("prefix", ["", "model.", "net.core.", "module.model."])
def test_scores_are_told_by_their_bias_and_a_module_may_stand_in_others(prefix, tmp_path):
    original = _around({"to_words": nn.Linear(D, VOCAB)}, scores="to_words")
    state = {f"{prefix}{name}": tensor for name, tensor in scramble(original).state_dict().items()}
    _same(_saved(state, tmp_path), original, IDS, causal=False)


def test_the_axis_of_a_table_with_an_axis_for_the_batch_is_asked_and_said(tmp_path):
    """The tutorial's table, in a module that has the batch first, is added along the batch."""
    for along_batch in (False, True):
        rows = {"pos_encoder.pe": table(ROWS, D)[:, None].float()}
        original = _around(rows, ("pos_encoder.pe",), along_batch=along_batch)
        path = _saved(original, tmp_path)
        assert "position_axis='sequence' is assumed (as in PyTorch's tutorials)" in report(path).assumptions
        _same(path, original, IDS, position_axis="batch" if along_batch else "sequence")


def test_parts_that_share_one_matrix(tmp_path):
    for shared in (("generator", "tgt_embed"), ("tgt_embed", "src_embed"), ("generator", "tgt_embed", "src_embed")):
        made = translator(VOCAB, VOCAB, (1, 2), D, HEADS, D_FF, bias=False)
        for name in shared:
            getattr(made, name).weight = made.get_submodule(shared[-1]).weight
        path = _saved(made, tmp_path)
        _same(path, made, IDS, IDS[:, :5], target_pad_id=0)
        config = report(path).config
        assert (config.tie_projection, config.tie_embeddings) == ("generator" in shared, "src_embed" in shared)


ALSO = {
    "embedding": "tok_emb",
    "src_embed": "src_tok",
    "tgt_embed": "trg_embed",
    "generator": "fc_out",
    "linear": "head",
}
"""Other names that people give to parts of the tutorials."""


def _core(draw: random.Random, d: int, heads: int, d_ff: int, **options: Any) -> nn.Module:
    """Both stacks or the encoder's alone, perhaps with a norm after it."""
    if draw.random() < 0.5:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's advice on its own fast path
            return nn.Transformer(d, heads, 1, 2, d_ff, 0.0, batch_first=True, **options)
    layer = nn.TransformerEncoderLayer(d, heads, d_ff, 0.0, batch_first=True, **options)
    norm = nn.LayerNorm(d, bias=options["bias"]) if draw.random() < 0.5 else None
    return nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False)


def _drawn(draw: random.Random) -> tuple[nn.Module, dict[str, Tensor], list[Tensor], dict[str, Any]]:
    """A module as people write it, its weights under the names that it was given, its inputs, its true dialect."""
    heads = draw.choice([2, 3, 5])
    d = 2 * heads * draw.choice([2, 3])
    source, target, d_ff, rows, classes = draw.sample(sorted({*range(31, 60)} - {d}), 5)
    truth: dict[str, Any] = {"activation": draw.choice(["relu", "gelu"]), "norm_first": draw.random() < 0.5}
    core = _core(draw, d, heads, d_ff, bias=draw.random() < 0.7, **truth)
    truth |= {"n_heads": heads, "scale_embedding": True, "causal": False}
    chances: dict[str, tuple[float, Callable[[], nn.Module]]] = {
        "pos_embedding": (0.5, lambda: nn.Embedding(rows, d)),
        "seg": (0.15, lambda: nn.Embedding(3, d)),
        "norm": (0.15, lambda: nn.LayerNorm(d)),
        "proj": (0.1, lambda: nn.Linear(d, d)),
    }
    extra = {name: make() for name, (chance, make) in chances.items() if draw.random() < chance}
    words, inputs = nn.Embedding(source, d), [torch.randint(1, source, (2, 5))]
    original: nn.Module
    if isinstance(core, nn.Transformer):
        scores = nn.Linear(d, target, bias=draw.random() < 0.6)
        parts = dict(zip(NAMES, (words, nn.Embedding(target, d), core, scores), strict=True))
        roles = dict(zip(("source", "target", "core", "scores"), NAMES, strict=True))
        roles |= {f"{side}_positions": "pos_embedding" for side in ("source", "target") if "pos_embedding" in extra}
        original = Pair(parts | extra, roles, [name for name in extra if name != "pos_embedding"])
        inputs.append(torch.randint(1, target, (2, 4)))
    else:
        end = {"linear": nn.Linear(d, draw.choice([source, classes]))} if draw.random() < 0.7 else {}
        options = {"scaled": True, "formula": "pos_embedding" not in extra, "scores": "".join(end)}
        original = Around({"embedding": words, ENCODER: core, **extra, **end}, list(extra), **options)
    called = {old: new for old, new in ALSO.items() if draw.random() < 0.2}
    renamed = {}
    for name, tensor in scramble(original).state_dict().items():
        first, dot, rest = name.partition(".")
        renamed[f"{called.get(first, first)}{dot}{rest}"] = tensor
    return original, renamed, inputs, truth


def test_a_module_as_people_write_it_is_read_right_or_refused(tmp_path):
    counts = {"right": 0, "refused": 0}
    for seed in range(40):
        torch.manual_seed(seed)
        original, state, inputs, truth = _drawn(random.Random(seed))
        path = _saved(state, tmp_path)
        answers = {name: truth[name] for name in truth.keys() & {question.name for question in report(path).questions}}
        found = report(path, **answers)
        counts["right" if found.fits else "refused"] += 1
        if found.fits:
            _same(path, original, *inputs, **answers)
        else:
            assert (bool(found.record), bool(found.unexpected)) == (True, True), (seed, list(state))
    assert min(counts.values()) > 10, counts
