"""Modules as people write them, drawn at random: read right within 1e-9, or asked, or refused; never otherwise.

A drawn module knows the truth about itself. Every question that is asked of it is answered truthfully: what then loads
has its maps. Without the answers about roles, either the same maps come out, or a question says what was assumed.
"""

import random
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.torch_around import Around, Pair, Parts
from transformer import attention_maps, load
from transformer.checkpoint.foreign.questions import Question
from transformer.checkpoint.foreign.recognition import recognise
from transformer.checkpoint.foreign.report import Report
from transformer.safe.reading import read_file

DIALECT = {"n_heads", "activation", "norm_first", "scale_embedding", "positions", "head"}
"""What no name could tell: always answered."""

ROLES = (
    "embedding", "projection", "source_embedding", "target_embedding", "position_table", "one_position_table",
    "source_positions", "target_positions", "norm_after_stack", "others_after",
)  # fmt: skip
"""What a tensor is: answered one by one, in this order."""

PREFIXES = ("", "", "model.", "net.encoder_decoder.", "module.model.")
TOKENS = ("token", "tok_emb", "embedding", "word_embeddings", "wte", "emb", "lut", "t")
POSITIONS = ("pos", "pos_embedding", "position_embeddings", "wpe", "positional_encoding")
SEGMENTS = ("seg", "segment_embedding", "token_type_embeddings", "halves")
STACKS = ("encoder", "transformer_encoder", "backbone", "blocks")
NORMS_BEFORE = ("norm", "input_norm", "emb_norm", "LayerNorm", "ln", "final_norm", "ln_f", "out_norm", "pre_norm")
NORMS_AFTER = ("final_norm", "ln_f", "norm", "post_norm", "last_norm", "ln", "norm_out", "input_norm")
FIRST_MAPS = ("proj", "input_projection", "fc_in", "dense", "head_in", "linear")
HEADS = ("head", "classifier", "fc", "fc_out", "generator", "lm_head", "o")

SOURCES = ("src_tok_emb", "encoder_embedding", "embed_src", "source", "a", "emb_in")
TARGETS = ("tgt_tok_emb", "decoder_embedding", "embed_trg", "target", "b", "emb_out")
TABLES = (("src_pos", "tgt_pos"), ("pos_encoder", "pos_decoder"), ("position_a", "position_b"), ("pe1", "pe2"))
PROJECTIONS = ("generator", "fc_out", "to_vocab", "o", "head", "out", "linear")


@dataclass(frozen=True)
class Drawn:
    """A module, its state_dict under the names it was given, and the true answers by question."""

    original: nn.Module
    state: dict[str, Tensor]
    truth: dict[str, Any]
    inputs: tuple[Tensor, ...]
    before: tuple[str, ...]
    plain: bool

    def answer(self, question: Question) -> Any:
        """The true answer; that all of `some` act after the layers is true if none of them acts before."""
        if question.name in {"others_after", "norm_after_stack"}:
            return not any(f"{name}" in str(question.text) for name in self.before)
        return self.truth[question.name]


class Segment(nn.Module):
    """A table of segments, whose every token is of the first."""

    def __init__(self, rows: int, d_model: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, d_model))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight[0]


def _sizes(draw: random.Random) -> tuple[int, int, int, int, int]:
    """Heads, width, vocabulary, d_ff and rows: all different."""
    heads = draw.choice([2, 3, 5])
    width = 2 * heads * draw.choice([2, 3])
    vocab, d_ff, rows = draw.sample(sorted({*range(31, 60)} - {width}), 3)
    return heads, width, vocab, d_ff, rows


def _renamed(state: dict[str, Tensor], names: dict[str, str], prefix: str) -> dict[str, Tensor]:
    found = {}
    for name, tensor in state.items():
        first, _, rest = name.partition(".")
        found[f"{prefix}{names[first]}{'.' if rest else ''}{rest}"] = tensor
    return found


def _declared(parts: Parts, draw: random.Random) -> Parts:
    order = list(parts)
    draw.shuffle(order)
    return {name: parts[name] for name in order}


def _encoder(draw: random.Random, plain: bool) -> Drawn:
    heads, d, vocab, d_ff, rows = _sizes(draw)
    bias, norm_first, activation = draw.random() < 0.8, draw.random() < 0.5, draw.choice(["relu", "gelu"])
    layer = nn.TransformerEncoderLayer(
        d, heads, d_ff, 0.0, activation, batch_first=True, norm_first=norm_first, bias=bias
    )
    ends = nn.LayerNorm(d, bias=bias) if draw.random() < 0.4 else None
    parts: dict[str, Any] = {"token": nn.Embedding(vocab, d)}
    parts["encoder"] = nn.TransformerEncoder(layer, 2, ends, enable_nested_tensor=False)
    used, one_segment = ["seg", "pos", "first_norm", "first_map"], draw.random() < 0.7
    chances = {"seg": 0.25, "pos": 0.5, "first_norm": 0.4, "first_map": 0.15}
    used = [part for part in used if draw.random() < (chances[part] if not plain or part == "pos" else 0)]
    made = {
        "seg": lambda: Segment(3, d) if one_segment else nn.Embedding(3, d), "pos": lambda: nn.Embedding(rows, d),
        "first_norm": lambda: nn.LayerNorm(d, bias=bias),
        "first_map": lambda: nn.Linear(d, d, bias=draw.random() < 0.7),
        "last_norm": lambda: nn.LayerNorm(d), "head": lambda: nn.Linear(d, 7, bias=plain or draw.random() < 0.7),
    }  # fmt: skip
    after = [part for part in ("last_norm", "head") if draw.random() < 0.5 and not (plain and part == "last_norm")]
    parts |= {part: made[part]() for part in (*used, *after)}
    choices = {
        "token": TOKENS, "encoder": STACKS, "seg": SEGMENTS, "pos": POSITIONS, "first_norm": NORMS_BEFORE,
        "first_map": FIRST_MAPS, "last_norm": NORMS_AFTER,
        "head": HEADS[:2] if plain else HEADS,
    }  # fmt: skip
    names: dict[str, str] = {}
    for part in parts:
        free = [name for name in choices[part] if name not in names.values()]
        names[part] = draw.choice(free)
    prefix = draw.choice(PREFIXES)
    scaled = draw.random() < 0.5
    original = scramble(Around(_declared(parts, draw), used, scaled, "pos" not in used))
    told = prefix.removeprefix("module.")
    truth: dict[str, Any] = {
        "n_heads": heads, "activation": activation, "norm_first": norm_first, "scale_embedding": scaled,
        "positions": "sinusoidal", "embedding": f"{told}{names['token']}.weight", "causal": False, "pad_id": -1,
        "position_table": f"{told}{names['pos']}.weight" if "pos" in used else "none", "head": "none",
        "norm_eps": 1e-5,
    }  # fmt: skip
    before = tuple(f"{told}{names[part]}" for part in used if part != "pos")
    ids = torch.randint(1, vocab, (2, 5))
    return Drawn(original, _renamed(dict(original.state_dict()), names, prefix), truth, (ids,), before, plain)


def _pair(draw: random.Random, plain: bool) -> Drawn:
    heads, d, vocab, d_ff, rows = _sizes(draw)
    target = vocab if draw.random() < 0.3 else vocab + 2
    norm_first, activation = draw.random() < 0.5, draw.choice(["relu", "gelu"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = nn.Transformer(d, heads, 1, 2, d_ff, 0.0, activation, batch_first=True, norm_first=norm_first)
    parts: dict[str, Any] = {"source": nn.Embedding(vocab, d), "target": nn.Embedding(target, d), "core": core}
    tied = draw.random() < 0.3
    parts["projection"] = nn.Linear(d, target, bias=not tied and draw.random() < 0.5)
    if tied:
        parts["projection"].weight = parts["target"].weight
    roles = {"source_embedding": "source", "target_embedding": "target", "core": "core", "projection": "projection"}
    side = 0 if plain else draw.randrange(len(SOURCES))
    names = {"source": SOURCES[side], "target": TARGETS[side], "core": draw.choice(["transformer", "net", "core"])}
    names["projection"] = draw.choice(
        [name for name in PROJECTIONS[: 2 if plain else None] if name not in names.values()]
    )
    tables = draw.choice([0, 1, 2])
    if tables:
        pair = TABLES[0] if plain else draw.choice(TABLES)
        for i, kind in enumerate(("source_positions", "target_positions")[:tables]):
            parts[kind], roles[kind], names[kind] = nn.Embedding(rows + 3 * i, d), kind, pair[i]
        if tables == 1:
            roles["target_positions"] = "source_positions"
            names["source_positions"] = "positions" if plain else draw.choice(["positions", "pos_emb", "pos_encoder"])
    used = ["norm"] if not plain and draw.random() < 0.2 else []
    if used:
        parts["norm"], names["norm"] = nn.LayerNorm(d), draw.choice(NORMS_BEFORE)
    if draw.random() < 0.4:  # one norm of two after the stacks
        draw.choice([core.encoder, core.decoder]).norm = None
    if draw.random() < 0.3:  # attention alone without biases
        for layer in (*core.encoder.layers, *core.decoder.layers):
            layer.self_attn = nn.MultiheadAttention(d, heads, bias=False, batch_first=True)
        for layer in core.decoder.layers:
            layer.multihead_attn = nn.MultiheadAttention(d, heads, bias=False, batch_first=True)
    prefix = draw.choice(PREFIXES)
    original = scramble(Pair(_declared(parts, draw), roles, used))
    told = prefix.removeprefix("module.")
    truth: dict[str, Any] = {
        role: f"{told}{names[part]}.weight" for role, part in roles.items() if role != "core"
    } | {
        "n_heads": heads, "activation": activation, "norm_first": norm_first, "scale_embedding": True,
        "positions": "sinusoidal", "one_position_table": tables == 1, "norm_eps": 1e-5, "pad_id": 0, "bos_id": 1,
        "eos_id": 2, "target_pad_id": 0,
    }  # fmt: skip
    inputs = torch.randint(1, vocab, (2, 5)), torch.randint(1, target, (2, 4))
    return Drawn(original, _renamed(dict(original.state_dict()), names, prefix), truth, inputs, tuple(used), plain)


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
    contents = read_file(path)  # once: what is asked depends on names and shapes

    def report(**answers: Any) -> Report:
        return recognise(contents, answers).report

    answers = {name: drawn.truth[name] for name in DIALECT & {q.name for q in report().questions}}
    alone = report(**answers)
    differs = [q.name for q in alone.questions if not q.rare and q.name not in answers]
    doubtful = [q for q in alone.questions if q.name in differs and drawn.answer(q) != q.default]
    if alone.fits:
        assert doubtful or _apart(path, drawn, answers) < 1e-9, "wrong in silence"
        if not doubtful:
            return "right"
    roles: dict[str, Any] = {}
    for _ in range(len(ROLES)):  # an answer may raise the next question, or settle another
        asked = {q.name: q for q in report(**roles).questions}
        true = {name: drawn.answer(asked[name]) for name in ROLES if name in asked and name not in roles}
        new = next(({name: answer} for name, answer in true.items() if answer in asked[name].options), None)
        if new is None:
            break
        roles |= new
    answers = roles | {name: drawn.truth[name] for name in DIALECT & {q.name for q in report(**roles).questions}}
    found = report(**answers)
    if not found.fits:
        assert found.unexpected or found.missing or found.wrong_shape
        return "refused"
    assert _apart(path, drawn, answers) < 1e-9, f"wrong after true answers {answers}"
    return "asked"


MAKERS = {"encoder": _encoder, "pair": _pair}


@pytest.mark.parametrize(("kind", "count"), [("encoder", 28), ("pair", 14)])
def test_a_module_as_people_write_it_is_read_right_or_asked_or_refused(kind, count, tmp_path):
    counts = {"right": 0, "asked": 0, "refused": 0}
    for seed in range(count):
        draw = random.Random(seed)
        torch.manual_seed(seed)
        drawn = MAKERS[kind](draw, plain=seed % 4 == 0)
        try:
            outcome = _outcome(drawn, tmp_path / "model.pt")
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}; {list(drawn.state)}") from error
        assert outcome == "right" or not drawn.plain, f"seed {seed} is {outcome}: {list(drawn.state)}"
        counts[outcome] += 1
    assert counts["right"] > count // 4, counts  # refusing everything would be no reading
    assert counts["asked"], counts
