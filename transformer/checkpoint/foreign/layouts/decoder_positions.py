"""How a decoder alone is told the order: by a table in its file, by rotation, which leaves no tensor, or not at all."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from transformer.checkpoint.foreign.layouts.base import Fit, Source, size
from transformer.checkpoint.foreign.questions import Answers, Question, choice
from transformer.errors import CheckpointError
from transformer.messages import Message
from transformer.safe.contents import Shape

ROTARY, BOTH, ALIBI = "rotary", "learned+rotary", "alibi"
BASE = 10_000
"""Rates of rotary positions fall from 1 to about its inverse (Su et al. 2021)."""


def decoder_positions(table: str, shapes: Mapping[str, Shape], answers: Answers) -> str:
    """How positions are told. With a `table` it is one of them; without, nothing in the file tells, so it is asked.

    Raises:
        CheckpointError: they are biases on scores that grow with the distance (ALiBi), which no model of ours computes.
    """
    if table in shapes:
        return str(choice(answers, "positions", ("learned", BOTH), Message("why_table")))
    text, why = Message("question_positions_without_table", table=table), Message("why_nothing_tells")
    found = choice(answers, "positions", ("none", ROTARY, "sinusoidal", ALIBI), why, text, is_open=True)
    if found == ALIBI:
        raise CheckpointError("positions_not_run", name="positions", answer=ALIBI)
    return str(found)


def positioned(kind: str, table: str, shapes: Mapping[str, Shape]) -> tuple[dict[str, Any], dict[str, Source]]:
    """What a decoder's config says of its own positions, and where their table stands."""
    if kind in {"learned", BOTH}:
        return {"positions": "learned", "max_length": size(shapes, (table, 0))}, {"positions.table": Source(table)}
    return {"positions": "none" if kind == ROTARY else kind}, {}


def turned(fit: Fit, kind: str, answers: Answers) -> Fit:
    """The same decoder, whose queries and keys are turned where positions are rotary."""
    config = fit.config
    if kind not in {ROTARY, BOTH}:
        return fit
    text = Message("question_rotary_pairs_of")
    halves = choice(answers, "rotary_pairs", ("halves", "neighbours"), Message("why_nothing_tells"), text, is_open=True)
    why = Message("why_paper")
    base = answers.ask(Question("rotary_base", Message("question_rotary_base"), BASE, why=why, least=2, rare=True))
    d_head = config.d_model // config.n_heads
    pairs = torch.arange(d_head // 2, dtype=torch.float64)
    rates = base ** (-2 * pairs / (2 * len(pairs)))
    if not len(pairs):
        return fit
    return replace(
        fit,
        config=replace(config, rotary=len(pairs), rotary_halves=halves == "halves"),
        sources={**fit.sources, "rotary.rates": Source(None, rows=rates)},
    )
