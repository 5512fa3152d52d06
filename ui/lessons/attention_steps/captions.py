"""What the lesson "Attention, step by step" says of a step: made from the board that is shown, not from the page."""

import numpy as np

from transformer.lessons.expressions.board import Board
from transformer.lessons.recipe import Recipe
from ui.texts import plain

_WHOLE = ("sE", "EP", "s", "e", "v", "y", "j", "r", "u", "n", "next")
"""Matrices whose name is no letter with a head's number."""

_PARAMETERS = {"b": "bias", "g": "gain", "W": "W"}


def what_is_shown(board: Board, stage: str, head: int, recipe: Recipe, layer: int) -> str:
    """What to look at on a step of this board; heads and layers count from 0."""
    keys = (_recurrent(board) if "s" in board else _transformer(board, head, recipe))[stage]
    fields: dict[str, object] = {"layer": layer - 1, "hidden": _hidden(recipe), "p": recipe.dropout}
    fields["temperature"] = recipe.temperature
    if "project_columns" in keys:
        d_model, d_k = board[f"W_Q{head}"].values.shape
        fields |= {"head": head, "d_model": d_model, "d_k": d_k}
    if "scale_query" in keys:
        q, k, scaled = (board[f"{name}{head}"].values for name in "QKD")
        divided = (q / (np.sqrt(q.shape[1]) * recipe.temperature)) @ k.T
        fields["gap"] = float(np.abs(divided - scaled).max())
    return " ".join(plain(f"attention_steps.look_{key}", **fields) for key in keys)


def title_of(board: Board, name: str) -> str:
    """What a matrix is, in words."""
    if name in _WHOLE:
        return plain(f"attention_steps.title_{name}")
    if name in {"c", "r_in", "u_in", "n_in", "n_kept"}:
        return plain("attention_steps.title_I")
    kind = name.split("_", maxsplit=1)[0].rstrip("0123456789")
    if kind == "b" and name in {"b_X", "b_N", "b_Y"}:
        return plain("attention_steps.title_shift")
    if kind == "A" and not np.allclose(board[name].values.sum(axis=1), 1.0):
        return plain("attention_steps.title_A_blind")
    return plain(f"attention_steps.title_{_PARAMETERS.get(kind, kind)}")


def _transformer(board: Board, head: int, recipe: Recipe) -> dict[str, list[str]]:
    """The texts of each step, by what is on the board."""
    several, hidden = "Z1" in board, board[f"M{head}"].hidden
    given = ["input_cross" if "H" in board else "input_layer"]
    made = ["input", "input_scaled" if "sE" in board else "input_plain", *_if("EP" in board, "input_normed")]
    mask = ["mask" if recipe.scale_first else "mask_first", *_if(recipe.blind is not None, "mask_blind")]
    return {
        "input": [*(made if "E" in board else given), *_if("N" in board, "input_norm_first")],
        "project": [
            "project", *_if(several, "project_columns"), *_if("H" in board, "project_cross"),
            *_if(f"b_Q{head}" in board, "project_bias"), *_if(recipe.n_heads > 0, "split"),
        ],
        "scores": ["scores"],
        "scale": [
            "scale" if recipe.scaled else "scale_off", *_if(recipe.scaled and recipe.scale_first, "scale_query"),
            *_if(recipe.temperature != 1.0, "scale_temperature"),
        ],
        "mask": mask if hidden is not None and hidden.any() else ["mask_none"],
        "softmax": ["softmax"] if recipe.blind is None else ["softmax_but", f"softmax_{recipe.hiding}"],
        "dropout": ["dropout"],
        "mix": ["mix_dropout" if recipe.dropout else "mix"],
        "concatenate": ["concatenate" if several else "concatenate_one"],
        "output": ["output" if several else "output_one"],
        "residual": ["residual" if "Y" in board else "residual_norm_first"],
    }  # fmt: skip


def _recurrent(board: Board) -> dict[str, list[str]]:
    kind = "location" if "b" in board else "additive"
    return {
        **{stage: [f"{stage}_{kind}"] for stage in ("input", "project", "scores")},
        "softmax": ["softmax_one"],
        "mix": ["mix_recurrent"],
        "next": ["next"],
    }


def _if(holds: bool, key: str) -> list[str]:
    return [key] if holds else []


def _hidden(recipe: Recipe) -> str:
    return "\N{MINUS SIGN}10⁹" if recipe.hiding == "large" else "\N{MINUS SIGN}∞"
