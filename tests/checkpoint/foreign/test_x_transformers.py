"""x-transformers by names and shapes: equal to its own arithmetic in float64, or asked, or refused by name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.x_transformers import Options, XTransformers
from transformer import attention_maps, load
from transformer.checkpoint import report
from transformer.checkpoint.ours.convert import convert
from transformer.errors import CheckpointError, ConfigError
from transformer.runs.any_model import run_any

IDS = torch.randint(0, 31, (2, 11), generator=torch.Generator().manual_seed(3))
PLAIN = Options()

KINDS: dict[str, tuple[Options, dict[str, Any]]] = {
    "an encoder": (PLAIN, {}),
    "a decoder": (replace(PLAIN, causal=True, d_head=4, d=12), {}),
    "norms after, tied": (replace(PLAIN, pre_norm=False, tied=True, layers=3), {}),
    "a norm first, no positions": (replace(PLAIN, post_emb_norm=True, places=False), {}),
    "gains around 1": (replace(PLAIN, offset=False), {"norm_offset": False}),
    "an early version": (replace(PLAIN, old=True), {"positions_scaled": False}),
    "an early decoder, tied": (replace(PLAIN, old=True, causal=True, tied=True), {}),
}


NEWER = Options(rotary=2, rms=True, gated=True, silu=True, places=False)
MORE: dict[str, tuple[Options, dict[str, Any]]] = {
    "rotary, rms, gated": (NEWER, {"activation": "silu"}),
    "a decoder": (replace(NEWER, causal=True, silu=False, d_head=6, d=15, layers=3, rotary=3), {}),
    "rotary alone": (replace(PLAIN, rotary=1, tied=True), {}),
    "rms alone, norms after": (replace(PLAIN, rms=True, pre_norm=False, offset=False), {"norm_offset": False}),
    "gated alone": (replace(PLAIN, gated=True, post_emb_norm=True), {}),
    "halves": (replace(NEWER, halves=True, offset=False, silu=False), {"norm_offset": False}),
    "values turned, an early version": (
        replace(NEWER, old=True, halves=True, turns_values=True, offset=False, silu=False, causal=True),
        {"rotary_values": True, "norm_offset": False},
    ),
    "neighbours are answered": (
        replace(NEWER, offset=False, silu=False), {"norm_offset": False, "rotary_pairs": "neighbours"},
    ),
}  # fmt: skip


def saved(state: dict[str, Tensor], folder: Path) -> Path:
    torch.save(state, folder / "model.pt")
    return folder / "model.pt"


def state_of(options: Options) -> tuple[XTransformers, dict[str, Tensor]]:
    """In double precision, since sums and products are folded into what the file holds."""
    torch.manual_seed(7)
    made = scramble(XTransformers(31, 17, 23, options)).double()
    written = "net." if options.causal else ""
    return made, {f"{written}{name}": tensor for name, tensor in made.state_dict().items()}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_what_the_library_computes(kind, tmp_path):
    options, answers = KINDS[kind]
    made, state = state_of(options)
    path = saved(state, tmp_path)
    answers = {"n_heads": options.heads, **answers}
    found = report(path, **answers)
    assert (found.layout, found.confidence, found.fits) == ("x-transformers", 1.0, True), found.text
    assert found.config.causal == options.causal
    assert any("options_off=True is assumed" in text for text in found.assumptions)
    maps = attention_maps(load(path, **answers), IDS)
    with torch.no_grad():
        expected = made(IDS)
    for name, values in expected.items():
        assert np.abs(maps[name] - values.numpy()).max() < 1e-9, name


@pytest.mark.parametrize("kind", MORE)
def test_rotary_positions_rms_norms_and_gates_are_what_the_library_computes(kind, tmp_path):
    options, answers = MORE[kind]
    made, state = state_of(options)
    path = saved(state, tmp_path)
    answers = {"n_heads": options.heads, **answers}
    found = report(path, **answers)
    assert (found.layout, found.confidence, found.fits) == ("x-transformers-rotary", 1.0, True), found.text
    assert found.config.causal == options.causal
    with torch.no_grad():
        expected = made(IDS)
    convert(path, tmp_path / "ours", **answers)
    for checkpoint in (load(path, **answers), load(tmp_path / "ours")):
        maps = attention_maps(checkpoint, IDS)
        for name, values in expected.items():
            assert np.abs(maps[name] - values.numpy()).max() < 1e-9, name
    run = run_any(load(path, **answers), "3 1 4 1 5")
    assert run.record["encoder.1.self"].shape == (5, 5)


def test_what_the_years_changed_in_rotary_positions_is_asked(tmp_path):
    _, state = state_of(NEWER)
    asked = {question.name: question for question in report(saved(state, tmp_path), n_heads=3).questions}
    assert asked["rotary_pairs"].options == ("neighbours", "halves")
    assert asked["rotary_values"].options == (False, True)
    assert (asked["n_heads"].options, asked["n_heads"].default) == ((1, 3), 3)  # 5 heads of 3 have no 2 pairs to turn
    with pytest.raises(CheckpointError, match="n_heads=5"):
        load(saved(state, tmp_path), n_heads=5)
    config = report(saved(state, tmp_path), n_heads=3).config
    with pytest.raises(ConfigError, match="3 pairs of numbers would be turned"):
        replace(config, rotary=3)


def test_an_answer_that_makes_no_model_keeps_the_questions(tmp_path):
    _, state = state_of(NEWER)
    found = report(saved(state, tmp_path), options_off=False)
    assert not found.fits
    assert {"options_off", "n_heads"} <= {question.name for question in found.questions}


def test_whether_gains_lie_around_0_is_seen_and_asked(tmp_path):
    _, state = state_of(PLAIN)
    gains = {name: tensor / 10 + 1 if name.endswith("gamma") else tensor for name, tensor in state.items()}
    texts = {state_: " ".join(report(saved(one, tmp_path)).assumptions) for state_, one in (("0", state), ("1", gains))}
    assert "norm_offset=True is assumed (they lie around 0)" in texts["0"]
    assert "norm_offset=False is assumed (they lie around 1)" in texts["1"]


OPTIONS: dict[str, dict[str, tuple[int, ...]]] = {
    "rotary positions that fade": {"attn_layers.rotary_pos_emb.scale": (2,)},
    "relative": {"attn_layers.rel_pos.relative_attention_bias.weight": (32, 3)},
    "sandwich": {"attn_layers.layers.0.0.1.gamma": (14,)},
    "normed queries": {"attn_layers.layers.0.1.qk_norm_q_scale": (3, 1, 5)},
    "memories": {"attn_layers.layers.0.1.mem_k": (3, 2, 5)},
    "talking heads": {"attn_layers.layers.0.1.attend.pre_softmax_talking_heads.weight": (3, 3, 1, 1)},
    "memory tokens": {"memory_tokens": (4, 14)},
    "a narrow embedding": {"project_emb.weight": (14, 9)},
}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_is_not_run_is_refused_by_its_tensor(option, tmp_path):
    _, state = state_of(PLAIN)
    more = {name: torch.ones(shape) for name, shape in OPTIONS[option].items()}
    found = report(saved(state | more, tmp_path))
    assert list(found.unexpected) == list(more)
    assert all("an option of x-transformers that is not run here" in reason for reason in found.doubts.values())


def test_other_stacks_are_refused(tmp_path):
    _, state = state_of(PLAIN)
    shared = {k: v[:5] if k.endswith(("to_k.weight", "to_v.weight")) else v for k, v in state.items()}
    assert report(saved(shared, tmp_path)).wrong_shape  # one head of keys for all
    squares = {k.replace("0.0.gamma", "0.0.g"): v for k, v in state.items()}  # other norms in the layers than after
    assert report(saved(squares, tmp_path)).config.norm_after_stack == "torch"
    gated = {k.replace(".ff.0.0.", ".ff.0.proj."): v for k, v in state.items()}
    assert report(saved(gated, tmp_path)).wrong_shape  # half of a gate
    with pytest.raises(CheckpointError, match="options that leave no tensor"):
        load(saved(state, tmp_path), options_off=False)
