"""What the lesson "Inside a layer" says of a step: made from the run and the board that are shown."""

import numpy as np

from transformer.lessons.expressions.board import Board
from transformer.lessons.inside.norms import bare_lengths, bare_limit
from transformer.lessons.inside.outputs import is_tied, likeliest, positions_of
from transformer.lessons.toy import toy_words
from transformer.nn.blocks import Residual
from transformer.nn.norms import norm_kind
from ui.lessons.inside_layer.controls import Place
from ui.lessons.inside_layer.examples import Example
from ui.texts import plain


def said_of(example: Example, board: Board, stage: str, at: Place, form: str, position: int) -> str:
    """What to look at, and what is found, on a step of this run."""
    run = example.run
    sub = run.sub_layer(at.stack, at.layer, at.part)
    first, part = sub.residual.norm_first, plain(f"inside_layer.part_{at.part}")
    if stage == "embedding":
        return _embedding(example, board)
    if stage == "residual":
        share = board["c"].values[:, 0]
        told = plain("inside_layer.look_residual", part=part, share=share.mean(), low=share.min(), high=share.max())
        return f"{told} {plain('inside_layer.residual_first' if first else 'inside_layer.residual_last')}"
    if stage == "norm":
        key = "beside" if form == "beside" else form
        own = plain(f"inside_layer.form_{norm_kind(sub.residual.norm)}")
        reads = plain("inside_layer.norm_reads_first" if first else "inside_layer.norm_reads_last", part=part)
        said = plain(f"inside_layer.look_norm_{key}")
        return f"{reads} {said} {plain('inside_layer.norm_own', form=own)}"
    if stage == "order":
        return _order(sub.residual, board, part)
    if stage == "feed_forward":
        share, units = board["on"].values[:, 0], board["A"].values
        never = int((units <= 0).all(axis=0).sum())
        bend = {"relu": "relu", "silu": "silu"}.get(run.model.config.activation, "gelu")
        sizes = {"d_model": board["H"].values.shape[1], "d_ff": units.shape[1]}
        told = plain("inside_layer.look_feed_forward", share=share.mean(), never=never, **sizes)
        return f"{told} {plain(f'inside_layer.bend_{bend}')} {plain('inside_layer.gated')}"
    return _output(example, board, position)


def _embedding(example: Example, board: Board) -> str:
    config = example.run.model.config
    own, other = (float(board[name].values.mean()) for name in ("g", "gU"))
    fields = {"own": own, "other": other, "d": config.d_model}
    said = [plain(f"inside_layer.embedding_{'scaled' if config.scale_embedding else 'plain'}", **fields)]
    if "EP" in board:
        said.append(plain("inside_layer.embedding_normed"))
    if not np.any(board["P"].values):
        said.append(plain("inside_layer.embedding_no_positions"))
    return " ".join(said)


def _order(residual: Residual, board: Board, part: str) -> str:
    norm, d_model = residual.norm, board["R"].values.shape[1]
    bare, squared = bare_lengths(norm, board["R"].values), bare_limit(norm, d_model)
    root = f"√d = √{squared}" if squared == d_model else f"√(d \N{MINUS SIGN} 1) = √{squared}"
    length, least = float(squared**0.5), float(bare.min())
    even = f"{least:.2f}" == f"{length:.2f}"
    said = plain(f"inside_layer.order_{'even' if even else 'shortened'}", root=root, length=length, least=least)
    lengths = {name: board[f"l{name.upper()}"].values for name in "xyz"}
    ends = {"low": float(lengths["y"].min()), "high": float(lengths["y"].max())}
    means = {name: float(values.mean()) for name, values in lengths.items()}
    told = plain("inside_layer.look_order", part=part, bare=said, **ends, **means)
    return f"{told} {plain('inside_layer.order_first' if residual.norm_first else 'inside_layer.order_last')}"


def _output(example: Example, board: Board, position: int) -> str:
    run = example.run
    ahead = likeliest(run)[position]
    each = len(positions_of(run)) > 1
    key = "word" if run.scores_words else "class"
    fields = {"word": ahead.word, "after": ahead.label, "probability": ahead.probability}
    said = [plain(f"inside_layer.look_output_{key if each or key == 'word' else 'whole'}", **fields)]
    if key == "word":
        said.append(plain(f"inside_layer.output_{'tied' if is_tied(run) else 'own'}"))
    said.append(plain(f"inside_layer.output_{'bias' if 'b' in board else 'no_bias'}"))
    if "D" in board:
        said.append(plain("inside_layer.output_scaled"))
    if example.is_toy:
        said.append(plain("inside_layer.output_toy", count=len(toy_words())))
    said.append(plain("inside_layer.output_shift"))
    if "r" in board:
        said.append(plain("inside_layer.output_rest"))
    return " ".join(said)


def title_of(example: Example, stage: str, name: str, at: Place) -> str:
    """What a matrix is, in words."""
    run = example.run
    part = plain(f"inside_layer.part_{at.part}")
    match f"{stage}_{name}":
        case "norm_X":
            first = run.sub_layer(at.stack, at.layer, at.part).residual.norm_first
            return plain(f"inside_layer.title_norm_X_{'first' if first else 'last'}")
        case "embedding_U":
            scaled = run.model.config.scale_embedding
            return plain(f"inside_layer.title_embedding_U_{'scaled' if scaled else 'plain'}")
        case "output_T":
            return plain(f"inside_layer.title_output_T_{'tied' if is_tied(run) else 'own'}")
        case key:
            return plain(f"inside_layer.title_{key}", part=part)
