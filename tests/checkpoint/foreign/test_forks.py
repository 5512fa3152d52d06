"""Models under the names of nanoGPT that compute something else: asked, and equal to 1e-9 once it is answered truly.

Names and shapes cannot tell these forks apart, so nothing about them is taken for granted: without an answer their maps
are refused, or say on what they rest.
"""

import io
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from transformer import attention_maps, load, report
from transformer.errors import CheckpointError
from transformer.plots.export import csv
from transformer.plots.heatmap import heatmap
from transformer.plots.theme import DARK, LIGHT
from transformer.runs.any_model import run_any

ATTENTION = {"n_heads", "norm_first", "scores_divided_by", "positions", "activation", "pad_id"}
"""What is asked of every such file, and what its attention depends on."""


class Fork:
    """A decoder alone in float64, from random weights under nanoGPT's names; every choice of a fork is an argument."""

    def __init__(
        self, heads: int, *, norm_first: bool = True, divided_by: str = "d_head", positions: str = "learned",
        pairs: str = "halves", base: float = 10_000.0, bias: bool = True,
    ) -> None:  # fmt: skip
        self.heads, self.norm_first, self.divided_by = heads, norm_first, divided_by
        self.positions, self.pairs, self.base = positions, pairs, base
        self.d, self.vocab, self.rows, self.layers = heads * 6, 31, 17, 2
        d, wide = self.d, 4 * self.d + 1
        shapes = {"wte.weight": (self.vocab, d), "ln_f.weight": (d,)}
        if "learned" in positions:
            shapes["wpe.weight"] = (self.rows, d)
        for i in range(self.layers):
            shapes |= {f"h.{i}.ln_1.weight": (d,), f"h.{i}.ln_2.weight": (d,)}
            shapes |= {f"h.{i}.attn.c_attn.weight": (3 * d, d), f"h.{i}.attn.c_proj.weight": (d, d)}
            shapes |= {f"h.{i}.mlp.c_fc.weight": (wide, d), f"h.{i}.mlp.c_proj.weight": (d, wide)}
        if bias:
            linear = [name for name in shapes if name.split(".")[0] not in {"wte", "wpe"}]
            shapes |= {name.replace("weight", "bias"): shapes[name][:1] for name in linear}
        kept = torch.float64 if "rotary" in positions else torch.float32  # a float32 model has float32 rates
        self.w = {name: torch.randn(shape, dtype=kept) * 0.4 for name, shape in shapes.items()}

    def state(self, **more: Tensor) -> dict[str, Tensor]:
        """Its tensors as they are saved."""
        named = {f"transformer.{name}": tensor for name, tensor in self.w.items()}
        return named | {"lm_head.weight": self.w["wte.weight"]} | more

    @property
    def answers(self) -> dict[str, Any]:
        """The truth about it."""
        told = {"n_heads": self.heads, "norm_first": self.norm_first, "scores_divided_by": self.divided_by}
        told |= {"positions": self.positions, "activation": "relu", "pad_id": -1}
        turned = {"rotary_pairs": self.pairs, "rotary_base": int(self.base)}
        return told | (turned if "rotary" in self.positions else {})

    def maps(self, ids: list[int]) -> dict[str, np.ndarray]:
        """Its attention, position by position and head by head."""
        w = {name: tensor.double() for name, tensor in self.w.items()}
        x = w["wte.weight"][ids]
        if "learned" in self.positions:
            x = x + w["wpe.weight"][: len(ids)]
        if self.positions == "sinusoidal":
            for p in range(len(ids)):
                for j in range(self.d):
                    angle = p / 10_000 ** (2 * (j // 2) / self.d)
                    x[p, j] += math.sin(angle) if j % 2 == 0 else math.cos(angle)
        found = {}
        for i in range(self.layers):
            read = self._norm(x, f"h.{i}.ln_1") if self.norm_first else x
            weights, mixed = self._attention(read, i)
            found[f"decoder.{i}.self"] = weights
            x = x + mixed
            x = x if self.norm_first else self._norm(x, f"h.{i}.ln_1")
            read = self._norm(x, f"h.{i}.ln_2") if self.norm_first else x
            wide = self._linear(read, f"h.{i}.mlp.c_fc").relu()
            x = x + self._linear(wide, f"h.{i}.mlp.c_proj")
            x = x if self.norm_first else self._norm(x, f"h.{i}.ln_2")
        return found | {"log_probs": (self._norm(x, "ln_f") @ w["wte.weight"].T).log_softmax(-1).numpy()}

    def _linear(self, x: Tensor, name: str) -> Tensor:
        found = x @ self.w[f"{name}.weight"].double().T
        return found + self.w[f"{name}.bias"].double() if f"{name}.bias" in self.w else found

    def _norm(self, x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        found = centred / ((centred**2).mean(-1, keepdim=True) + 1e-5).sqrt() * self.w[f"{name}.weight"].double()
        return found + self.w[f"{name}.bias"].double() if f"{name}.bias" in self.w else found

    def _attention(self, x: Tensor, i: int) -> tuple[np.ndarray, Tensor]:
        n, size = len(x), self.d // self.heads
        q, k, v = self._linear(x, f"h.{i}.attn.c_attn").split(self.d, -1)
        by = {"d_head": math.sqrt(size), "d_model": math.sqrt(self.d), "nothing": 1.0}[self.divided_by]
        weights, mixed = torch.zeros(self.heads, n, n, dtype=torch.float64), torch.zeros(n, self.d, dtype=torch.float64)
        for head in range(self.heads):
            part = slice(head * size, (head + 1) * size)
            for query in range(n):
                scores = [
                    float(self._turned(q[query, part], query) @ self._turned(k[key, part], key)) / by
                    for key in range(query + 1)
                ]
                weights[head, query, : query + 1] = torch.tensor(scores, dtype=torch.float64).softmax(0)
            mixed[:, part] = weights[head] @ v[:, part]
        return weights.numpy(), self._linear(mixed, f"h.{i}.attn.c_proj")

    def _turned(self, x: Tensor, place: int) -> Tensor:
        """Su et al. 2021, equation 34: two numbers at a time as one complex number, times e^(i place rate)."""
        if "rotary" not in self.positions:
            return x
        found, half = x.clone(), len(x) // 2
        for j in range(half):
            a, b = (j, j + half) if self.pairs == "halves" else (2 * j, 2 * j + 1)
            one = complex(float(x[a]), float(x[b]))
            angle = place * self.base ** (-2 * j / len(x))
            turned = one * complex(math.cos(angle), math.sin(angle))
            found[a], found[b] = turned.real, turned.imag
        return found


IDS = [7, 30, 2, 7, 19, 11, 0, 5]
FORKS: dict[str, dict[str, Any]] = {
    "as published": {},
    "no 1/sqrt(d)": {"divided_by": "nothing"},
    "divided by the model's width": {"divided_by": "d_model", "bias": False},
    "norm after": {"norm_first": False},
    "rotary": {"positions": "rotary"},
    "rotary, neighbours, without biases": {"positions": "rotary", "pairs": "neighbours", "bias": False},
    "rotary of another base, norm after, no scale": {
        "positions": "rotary", "base": 500.0, "norm_first": False, "divided_by": "nothing",
    },
    "rotary beside a table": {"positions": "learned+rotary", "pairs": "neighbours"},
    "no positions": {"positions": "none"},
    "a formula": {"positions": "sinusoidal", "bias": False},
}  # fmt: skip


def _saved(folder: Path, fork: Fork, **beside: Any) -> Path:
    torch.save({"model": fork.state(), **beside}, folder / "ckpt.pt")
    return folder / "ckpt.pt"


def _fork(seed: int, **choices: Any) -> Fork:
    torch.manual_seed(seed)
    return Fork(random.Random(seed).choice([2, 3, 5]), **choices)


@pytest.mark.parametrize("name", FORKS)
def test_a_fork_is_read_right_once_its_questions_are_answered(name, tmp_path):
    fork = _fork(len(name), **FORKS[name])
    path = _saved(tmp_path, fork)
    assert {question.name for question in report(path).questions if not question.rare} == ATTENTION
    with pytest.raises(CheckpointError, match="n_heads"):
        load(path)
    found = report(path, **fork.answers)
    assert (found.confidence, found.is_ready, found.guesses, found.left_out) == (1.0, True, (), ())
    checkpoint = load(path, **fork.answers)
    maps = attention_maps(checkpoint, [IDS])
    for site, expected in fork.maps(IDS).items():
        assert maps[site].dtype == np.float64
        assert abs(maps[site][0] - expected).max() < 1e-9, site
    assert run_any(checkpoint, " ".join(map(str, IDS))).record.notes == ()


@pytest.mark.parametrize("name", [name for name in FORKS if name != "as published"])
def test_no_map_of_a_fork_is_shown_as_if_it_were_sure(name, tmp_path):
    """With heads alone, whatever else has no default is asked; where all have one, each is named on every map."""
    fork = _fork(len(name), **FORKS[name])
    path = _saved(tmp_path, fork)
    found = report(path, n_heads=fork.heads)
    if found.open:
        assert {question.name for question in found.open} == {"positions"}
        with pytest.raises(CheckpointError, match="positions"):
            load(path, n_heads=fork.heads)
        return
    run = run_any(load(path, n_heads=fork.heads), " ".join(map(str, IDS)))
    expected = fork.maps(IDS)["decoder.1.self"]
    assert abs(run.record["decoder.1.self"].all_weights() - expected).max() > 1e-3  # the defaults are not this fork's
    for picture in run.record["decoder.0.self"].pictures():
        assert picture.is_unsure
        assert "scores_divided_by='d_head'" in " ".join(picture.notes)
        assert "assumed, since the file does not say: " in csv(picture)
        for dark, ink in ((False, LIGHT.second), (True, DARK.second)):
            said = heatmap(picture, dark=dark).layout.title.subtitle
            assert (said.font.color, "norm_first=True" in said.text.replace("<br>", " ")) == (ink, True)
    assert "norm_first=True" in str(np.load(io.BytesIO(run.record.npz()))["notes"])


def test_the_arguments_of_the_model_are_believed_and_flags_that_differ_are_asked(tmp_path):
    fork = _fork(3)
    fork.heads = fork.d // 6
    made = {"n_layer": 2, "n_head": fork.heads, "n_embd": fork.d, "block_size": 17, "bias": True, "dropout": 0.0}
    told = report(_saved(tmp_path, fork, model_args=made, config={"learning_rate": 6e-4, "n_layer": 2}))
    assert (told.is_ready, told.config.n_heads) == (True, fork.heads)
    assert f"n_heads={fork.heads}: model_args beside the weights says so" in told.reasons
    other = 2 * fork.heads  # the flags of the run that went on from it
    path = _saved(tmp_path, fork, model_args=made, config={"n_head": other})
    with pytest.raises(CheckpointError, match=f"model_args says {fork.heads}, config says {other}"):
        load(path)
    told = report(_saved(tmp_path, fork, model_args=made, config={"n_head": fork.d + 1}))  # cannot be
    assert told.config.n_heads == fork.heads


def test_what_the_options_say_of_positions_and_scale_is_no_assumption(tmp_path):
    fork = _fork(4, positions="rotary")
    path = _saved(tmp_path, fork, cfg={"n_head": fork.heads, "positions": "rotary", "norm_first": True})
    found = report(path)
    assert [question.name for question in found.open] == ["rotary_pairs"]
    assert "positions='rotary': cfg beside the weights says so" in found.reasons


def test_alibi_is_refused_by_name_and_nobody_is_told_to_add_a_table(tmp_path):
    fork = _fork(5, positions="none")
    path = _saved(tmp_path, fork)
    assert "add" not in " ".join(report(path).changes)
    with pytest.raises(CheckpointError, match="positions=alibi: Heedmap has no ALiBi"):
        load(path, n_heads=fork.heads, positions="alibi")
    state = {name.replace("transformer.", ""): tensor for name, tensor in fork.state().items()}
    del state["h.1.mlp.c_fc.weight"]
    torch.save(state, path)
    assert report(path).changes[0].startswith("bring the file that holds the 1 missing: trained weights cannot be made")


def _with_norms(fork: Fork, place: str) -> dict[str, Tensor]:
    """Two more tensors a layer, as forks with normed queries and keys have them."""
    kinds = ("q_norm.weight", "k_norm.weight")
    return {f"transformer.h.{i}.{place}.{kind}": torch.ones(6) for i in range(2) for kind in kinds}


@pytest.mark.parametrize("place", ["attn", "attn.inner", "extra"])
def test_a_part_of_an_attention_cannot_be_left_out(place, tmp_path):
    fork = _fork(6)
    torch.save(fork.state(**_with_norms(fork, place)), tmp_path / "ckpt.pt")
    with pytest.raises(CheckpointError, match=r"ignore: transformer\.h\.0\.\S*k_norm\.weight is a part of an"):
        load(tmp_path / "ckpt.pt", **fork.answers, ignore="*_norm.*")


def test_what_was_left_out_is_counted_and_said_on_every_map(tmp_path):
    fork = _fork(7)
    more = {f"transformer.h.{i}.ln_{name}.weight": torch.ones(fork.d) for i in range(2) for name in "ab"}
    torch.save(fork.state(**more), tmp_path / "ckpt.pt")
    found = report(tmp_path / "ckpt.pt", **fork.answers, ignore="*.ln_?.*")
    matched = len(found.matched)
    assert (len(found.left_out), found.confidence) == (4, matched / (matched + 4))
    run = run_any(load(tmp_path / "ckpt.pt", **fork.answers, ignore="*.ln_?.*"), "3 4 5")
    note = "4 tensors left out by you: transformer.h.0.ln_a.weight, transformer.h.0.ln_b.weight"
    assert all(one.notes[0].startswith(note) and one.is_unsure for one in run.record["decoder.1.self"].pictures())


class Writer(nn.Module):
    """The language model of PyTorch's tutorial: an embedding, nn.TransformerEncoder, the embedding as scores."""

    def __init__(self, vocab: int, d: int, heads: int) -> None:
        super().__init__()
        self.encoder = nn.Embedding(vocab, d)
        layer = nn.TransformerEncoderLayer(d, heads, 2 * d + 1, 0.0, batch_first=True)
        self.transformer_encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.decoder = nn.Linear(d, vocab)
        self.decoder.weight = self.encoder.weight


@pytest.mark.parametrize("causal", [True, False])
def test_whether_a_language_model_hides_the_future_is_asked_without_a_default(causal, tmp_path):
    torch.manual_seed(9)
    d, heads = 18, 3
    model = Writer(31, d, heads).eval()
    torch.save(model.state_dict(), tmp_path / "lm.pt")
    answers = {"n_heads": heads, "scale_embedding": False, "norm_first": False, "activation": "relu", "pad_id": -1}
    answers |= {"positions": "none"}
    found = report(tmp_path / "lm.pt", **answers)
    assert [question.name for question in found.open] == ["causal"]
    with pytest.raises(CheckpointError, match="causal"):
        load(tmp_path / "lm.pt", **answers)
    maps = attention_maps(load(tmp_path / "lm.pt", **answers, causal=causal), [IDS])
    model.double()
    x = model.encoder(torch.tensor(IDS))
    hidden = torch.ones(len(IDS), len(IDS), dtype=torch.bool).triu(1) if causal else None
    with torch.no_grad():
        for i, layer in enumerate(model.transformer_encoder.layers):
            expected = layer.self_attn(x, x, x, attn_mask=hidden, average_attn_weights=False)[1]
            assert abs(maps[f"{'decoder' if causal else 'encoder'}.{i}.self"][0] - expected.numpy()).max() < 1e-9
            x = layer(x[None], src_mask=hidden)[0]
