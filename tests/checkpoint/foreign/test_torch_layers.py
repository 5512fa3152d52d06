"""What stands around torch's layers: equal to the original, or asked, or refused by name; never wrong in silence.

Beside single cases, modules are drawn as people write them. A drawn module knows the truth about itself, and every
question that is asked of it is answered truthfully: what then loads has its maps. Without the answers about roles,
either the same maps come out, or a question says what was assumed.
"""

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.checkpoint.originals.common import loaded, same, scramble
from tests.checkpoint.originals.torch_modules import Around, Pair, Parts
from transformer import DecodingOptions, attention_maps, load, translate
from transformer.checkpoint import report
from transformer.checkpoint.foreign.recognition import build, recognise
from transformer.checkpoint.load import read
from transformer.errors import CheckpointError, InputError
from transformer.safe.limits import DEFAULT_LIMITS

VOCAB, D, HEADS, D_FF, ROWS = 23, 12, 3, 17, 19
SIZES = (VOCAB, 29)
IDS = torch.randint(1, VOCAB, (2, 7), generator=torch.Generator().manual_seed(1))
NAMES = ("src_tok_emb", "tgt_tok_emb", "transformer", "generator")


def _layers(norm: bool = True) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(D, HEADS, D_FF, 0.0, batch_first=True)
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
    with torch.no_grad():
        expected = original.double()(*inputs)
    original.float()
    assert expected
    same(loaded(path, n_heads=HEADS, pad_id=-1, **answers), expected, *inputs)


def _refused(path: Path, *named: str, **answers: Any) -> str:
    contents = read(path, DEFAULT_LIMITS)
    found = recognise(contents, answers)
    assert not found.fits
    assert found.confidence < 1
    with pytest.raises(CheckpointError) as refused:
        build(contents, found, "model")
    for name in named:
        assert any(unexpected.startswith(name) for unexpected in found.unexpected), name
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
    if name in {"a linear map", "scores"}:
        assert report(path).fits
    else:
        assert "others_after" in _refused(path)
        answers["others_after"] = True
    assert ("causal" in {question.name for question in report(path).open}) == (name == "scores")
    _same(path, original, (IDS,), **answers)
    if {question.name for question in report(path).questions} & {"head"}:
        _same(path, original, (IDS,), head="none", **answers)


def test_the_question_lists_what_the_layers_could_read_before_what_they_cannot(tmp_path):
    maps = {f"map_{i}": nn.Linear(D, 20 + i) for i in range(13)}
    found = report(_saved(_around({}, {**maps, "entry": nn.LayerNorm(D)}), tmp_path))
    text = next(question.text for question in found.questions if question.name == "others_after")
    listed = text.partition(": ")[2].rstrip("?").split(", ")
    assert listed == ["entry.weight", *(f"map_{i}.weight" for i in range(11)), "and others"]


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


def test_of_two_positional_tables_or_stacks_one_is_refused(tmp_path):
    path = _saved(_around({name: nn.Embedding(ROWS, D) for name in ("pos_a", "pos_b")}, {}), tmp_path)
    _refused(path, "pos_b")
    _refused(path, "pos_a", position_table="pos_b.weight")
    _refused(_saved(_around({"local": _layers(norm=False)}, {}), tmp_path), "local.layers.0.linear1.weight")


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


def test_each_side_has_the_positions_of_its_own_table(tmp_path):
    path = _saved(_pair(tables=("src_pos", "tgt_pos")), tmp_path)
    checkpoint = loaded(path, n_heads=HEADS, eos_id=-1)
    assert f"a source has at most {ROWS} positions, a target at most {ROWS + 2}" in report(path).text
    with pytest.raises(InputError, match=f"the text has {ROWS + 1} tokens, this checkpoint reads at most {ROWS}"):
        translate(checkpoint, " ".join("1" * (ROWS + 1)))
    assert len(translate(checkpoint, "1 2", DecodingOptions(beam=1, max_length=40)).steps) == ROWS + 2


def test_a_norm_that_stands_among_other_modules_has_no_place(tmp_path):
    original = _around({}, {"head": nn.Linear(D, 5)})
    state = scramble(original).state_dict()
    torch.save({name.removeprefix("encoder."): one for name, one in state.items()}, tmp_path / "m.pt")
    _refused(tmp_path / "m.pt", "norm.weight", "norm.bias")


DIALECT = {"n_heads", "activation", "norm_first", "scale_embedding", "positions", "head"}
"""What no name could tell: always answered."""

ROLES = (
    "embedding", "projection", "source_embedding", "target_embedding", "position_table",
    "source_positions", "target_positions", "others_after",
)  # fmt: skip
"""What a tensor is: answered one by one, in this order."""

COMMON = {"positions": "sinusoidal", "norm_eps": 1e-5, "causal": False, "position_table": "none", "head": "none"}
COMMON |= {"bos_id": 1, "eos_id": 2}
PREFIXES = ("", "", "model.", "net.encoder_decoder.", "module.model.")
CALLED: dict[str, tuple[str, ...]] = {
    "token": ("token", "tok_emb", "embedding", "word_embeddings", "wte", "emb", "lut", "t"),
    "encoder": ("encoder", "transformer_encoder", "backbone", "blocks"),
    "pos": ("pos", "pos_embedding", "position_embeddings", "wpe", "positional_encoding"),
    "seg": ("seg", "segment_embedding", "token_type_embeddings", "halves"),
    "first_norm": ("norm", "input_norm", "emb_norm", "LayerNorm", "ln", "final_norm", "ln_f", "out_norm", "pre_norm"),
    "first_map": ("proj", "input_projection", "fc_in", "dense", "head_in", "linear"),
    "last_norm": ("final_norm", "ln_f", "norm", "post_norm", "last_norm", "ln", "norm_out", "input_norm"),
    "head": ("head", "classifier", "fc", "fc_out", "generator", "lm_head", "o"),
    "core": ("transformer", "net", "core"),
    "projection": ("generator", "fc_out", "to_vocab", "o", "head", "out", "linear"),
    "positions": ("positions", "pos_emb", "pos_encoder"),
}
SIDES = (
    ("src_tok_emb", "tgt_tok_emb"), ("encoder_embedding", "decoder_embedding"), ("embed_src", "embed_trg"),
    ("source", "target"), ("a", "b"), ("emb_in", "emb_out"),
)  # fmt: skip
TABLES = (("src_pos", "tgt_pos"), ("pos_encoder", "pos_decoder"), ("position_a", "position_b"), ("pe1", "pe2"))


@dataclass(frozen=True)
class Drawn:
    """A module, its state_dict under the names it was given, and the true answers by question."""

    original: nn.Module
    state: dict[str, Tensor]
    truth: dict[str, Any]
    inputs: tuple[Tensor, ...]


def _drawn(
    module: nn.Module, names: dict[str, str], draw: random.Random, roles: dict[str, str], *inputs: Tensor, **truth: Any
) -> Drawn:
    """The module with its parts under these names, perhaps in a wrapper; `roles` says which part answers a question."""
    prefix = draw.choice(PREFIXES)
    state = {}
    for name, tensor in scramble(module).state_dict().items():
        first, dot, rest = name.partition(".")
        state[f"{prefix}{names[first]}{dot}{rest}"] = tensor
    placed = {role: f"{prefix.removeprefix('module.')}{names[part]}.weight" for role, part in roles.items()}
    return Drawn(module, state, COMMON | truth | placed, inputs)


def _named(part: str, names: dict[str, str], draw: random.Random, plain: bool = False) -> str:
    """A name of a part that no other one has; a plain one is among the first two."""
    return draw.choice([name for name in CALLED[part][: 2 if plain else None] if name not in names.values()])


def _sizes(draw: random.Random) -> tuple[int, int, int, int, dict[str, Any]]:
    """Width, vocabulary, d_ff and rows, all different, and the dialect of the layers."""
    heads = draw.choice([2, 3, 5])
    width = 2 * heads * draw.choice([2, 3])
    vocab, d_ff, rows = draw.sample(sorted({*range(31, 60)} - {width}), 3)
    dialect = {"activation": draw.choice(["relu", "gelu"]), "norm_first": draw.random() < 0.5}
    return width, vocab, d_ff, rows, dialect | {"n_heads": heads}


def _shuffled(parts: dict[str, Any], draw: random.Random) -> Parts:
    """The parts in another order of declaration."""
    return dict(draw.sample(list(parts.items()), len(parts)))


def _drawn_encoder(draw: random.Random, plain: bool) -> Drawn:
    d, vocab, d_ff, rows, dialect = _sizes(draw)
    bias, scaled = draw.random() < 0.8, draw.random() < 0.5
    options = {name: dialect[name] for name in ("activation", "norm_first")} | {"bias": bias, "batch_first": True}
    layer = nn.TransformerEncoderLayer(d, dialect["n_heads"], d_ff, 0.0, **options)
    last = nn.LayerNorm(d, bias=bias) if draw.random() < 0.4 else None
    parts: dict[str, Any] = {"token": nn.Embedding(vocab, d)}
    parts["encoder"] = nn.TransformerEncoder(layer, 2, last, enable_nested_tensor=False)
    names = {part: draw.choice(CALLED[part]) for part in parts}
    chances: dict[str, tuple[float, Callable[[], nn.Module]]] = {
        "seg": (0.25, lambda: nn.Embedding(3, d)),
        "pos": (0.5, lambda: nn.Embedding(rows, d)),
        "first_norm": (0.4, lambda: nn.LayerNorm(d, bias=bias)),
        "first_map": (0.15, lambda: nn.Linear(d, d, bias=draw.random() < 0.7)),
        "last_norm": (0.5, lambda: nn.LayerNorm(d)),
        "head": (0.5, lambda: nn.Linear(d, 7, bias=plain or draw.random() < 0.7)),
    }
    for part, (chance, make) in chances.items():
        if draw.random() < (chance if not plain or part in {"pos", "head"} else 0):
            parts[part], names[part] = make(), _named(part, names, draw, plain and part == "head")
    used = [part for part in ("seg", "pos", "first_norm", "first_map") if part in parts]
    original = Around(_shuffled(parts, draw), used, scaled, "pos" not in used)
    roles = {"embedding": "token"} | ({"position_table": "pos"} if "pos" in used else {})
    truth = dialect | {"scale_embedding": scaled, "pad_id": -1, "others_after": set(used) <= {"pos"}}
    return _drawn(original, names, draw, roles, torch.randint(1, vocab, (2, 5)), **truth)


def _drawn_pair(draw: random.Random, plain: bool) -> Drawn:
    d, vocab, d_ff, rows, dialect = _sizes(draw)
    target, tied = vocab if draw.random() < 0.3 else vocab + 2, draw.random() < 0.3
    options = {name: dialect[name] for name in ("activation", "norm_first")} | {"batch_first": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = nn.Transformer(d, dialect["n_heads"], 1, 2, d_ff, 0.0, **options)
    parts: dict[str, Any] = {"source": nn.Embedding(vocab, d), "target": nn.Embedding(target, d), "core": core}
    parts["projection"] = nn.Linear(d, target, bias=not tied and draw.random() < 0.5)
    if tied:
        parts["projection"].weight = parts["target"].weight
    roles = {"source_embedding": "source", "target_embedding": "target", "core": "core", "projection": "projection"}
    names = dict(zip(("source", "target"), SIDES[0] if plain else draw.choice(SIDES), strict=True))
    names |= {"core": draw.choice(CALLED["core"])}
    names["projection"] = _named("projection", names, draw, plain)
    pair, tables = TABLES[0] if plain else draw.choice(TABLES), draw.choice([0, 1, 2])
    for i, kind in enumerate(("source_positions", "target_positions")[:tables]):
        parts[kind], roles[kind], names[kind] = nn.Embedding(rows + 3 * i, d), kind, pair[i]
    if tables == 1:
        roles["target_positions"] = "source_positions"
        names["source_positions"] = "positions" if plain else draw.choice(CALLED["positions"])
    used = ["norm"] if not plain and draw.random() < 0.2 else []
    if used:
        parts["norm"], names["norm"] = nn.LayerNorm(d), draw.choice(CALLED["first_norm"])
    if draw.random() < 0.4:  # one norm of two after the stacks
        draw.choice([core.encoder, core.decoder]).norm = None
    original = Pair(_shuffled(parts, draw), dict(roles), used)
    truth = dialect | {"scale_embedding": True, "pad_id": 0, "target_pad_id": 0, "others_after": not used}
    inputs = torch.randint(1, vocab, (2, 5)), torch.randint(1, target, (2, 4))
    return _drawn(
        original, names, draw, {role: part for role, part in roles.items() if role != "core"}, *inputs, **truth
    )


def _apart(path: Path, drawn: Drawn, answers: dict[str, Any]) -> float:
    """How far the maps of what was loaded are from those of the original."""
    found = attention_maps(load(path, **answers), *drawn.inputs)
    with torch.no_grad():
        expected = drawn.original.double()(*drawn.inputs)
    apart = max(float(abs(torch.from_numpy(found[name]) - values).max()) for name, values in expected.items())
    drawn.original.float()
    return apart


def _outcome(drawn: Drawn, path: Path) -> str:
    """`right`, `asked` (right after answers about roles) or `refused`; anything else fails."""
    torch.save(drawn.state, path)
    contents = read(path, DEFAULT_LIMITS)  # once: what is asked depends on names and shapes

    answers = {name: drawn.truth[name] for name in DIALECT & {q.name for q in recognise(contents, {}).questions}}
    alone = recognise(contents, answers)
    differs = [q.name for q in alone.questions if not q.rare and q.name not in answers]
    doubtful = [q for q in alone.questions if q.name in differs and drawn.truth[q.name] != q.default]
    if alone.fits:
        assert doubtful or _apart(path, drawn, answers) < 1e-9, "wrong in silence"
        if not doubtful:
            return "right"
    roles: dict[str, Any] = {}
    for _ in range(len(ROLES)):  # an answer may raise the next question, or settle another
        asked = {q.name: q for q in recognise(contents, roles).questions}
        true = {name: drawn.truth[name] for name in ROLES if name in asked and name not in roles}
        new = next(({name: answer} for name, answer in true.items() if answer in asked[name].options), None)
        if new is None:
            break
        roles |= new
    asked = {q.name: q for q in recognise(contents, roles).questions}
    answers = roles | {name: drawn.truth[name] for name in DIALECT & asked.keys()}
    found = recognise(contents, answers)
    if not found.fits:
        assert found.unexpected or found.missing or found.wrong_shape
        return "refused"
    assert _apart(path, drawn, answers) < 1e-9, f"wrong after true answers {answers}"
    return "asked"


@pytest.mark.parametrize(("make", "seeds"), [(_drawn_encoder, range(28)), (_drawn_pair, range(16, 36))])
def test_a_module_as_people_write_it_is_read_right_or_asked_or_refused(make, seeds, tmp_path):
    counts = {"right": 0, "asked": 0, "refused": 0}
    for seed in seeds:
        torch.manual_seed(seed)
        plain = seed % 4 == 0
        drawn = make(random.Random(seed), plain)
        try:
            outcome = _outcome(drawn, tmp_path / "model.pt")
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}; {list(drawn.state)}") from error
        assert outcome == "right" or not plain, f"seed {seed} is {outcome}: {list(drawn.state)}"
        counts[outcome] += 1
    assert counts["right"] > len(seeds) // 4, counts  # refusing everything would be no reading
    assert counts["asked"], counts
