"""Fill the gap: (checkpoint, text with hidden words) -> what an encoder would put in their place."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError
from transformer.nn.search import likeliest
from transformer.runs.any_model import ModelRun, read
from transformer.runs.changed import run_of
from transformer.text.steps import Candidate

TOP = 10
"""How many words are kept for each gap."""


@dataclass(frozen=True)
class Gap:
    """A masked position: its index among the input tokens, and the likeliest words there (at most 10).

    Probabilities are over the whole vocabulary, each gap's on its own: with several gaps, none knows the others.
    `words[i]` is how `candidates[i]` is typed.
    """

    position: int
    candidates: tuple[Candidate, ...]
    words: tuple[str, ...]


def mask_of(checkpoint: Checkpoint) -> str:
    """How a hidden word is typed for a checkpoint that fills words in; empty for another one."""
    head = getattr(checkpoint.model.config, "head", "")
    return str(getattr(checkpoint.tokenizer, "mask", "")) if head == "words" else ""


def fill(checkpoint: Checkpoint, text: str) -> tuple[Gap, ...]:
    """Predict the masked positions of `text` (`mask_of(checkpoint)`), in order; empty where none is masked.

    Raises:
        InputError: nothing to read, or too much.
        CheckpointError: the checkpoint fills no words in.
    """
    model: Any = checkpoint.model
    tokenizer: Any = checkpoint.tokenizer
    if not mask_of(checkpoint):
        raise CheckpointError("fill_no_mask", name=checkpoint.name)
    ids, _ = read(checkpoint, text)
    places = [place for place, token in enumerate(ids) if token == tokenizer.mask_id]
    if not places:
        return ()
    with run_of(checkpoint):
        odds = model.word_scores(torch.tensor([ids]))[0, places].softmax(-1)
    values, tops = likeliest(odds, TOP)
    return tuple(
        Gap(
            place,
            tuple(map(Candidate, tokenizer.labels(top), chances)),
            tuple(tokenizer.decode([token]).strip() for token in top),
        )
        for place, top, chances in zip(places, tops.tolist(), values.tolist(), strict=True)
    )


@dataclass(frozen=True, eq=False)
class GapEffect:
    """What interventions do to a gap: probabilities of the words that are among the likeliest before or after."""

    position: int
    words: tuple[str, ...]
    before: Float[np.ndarray, " word"]
    after: Float[np.ndarray, " word"]


def gap_effects(checkpoint: Checkpoint, before: ModelRun, after: ModelRun) -> tuple[GapEffect, ...]:
    """Each gap of a text that was read twice (`what_if.read_under`), in order; the likeliest before come first.

    Raises:
        CheckpointError: the checkpoint fills no words in.
    """
    tokenizer: Any = checkpoint.tokenizer
    if not mask_of(checkpoint):
        raise CheckpointError("fill_no_mask", name=checkpoint.name)
    found = []
    for place in (i for i, token in enumerate(before.ids) if token == tokenizer.mask_id):
        odds = [torch.from_numpy(run.outputs["logits"][place]).double().softmax(-1) for run in (before, after)]
        tops = [likeliest(one[None], TOP)[1][0].tolist() for one in odds]
        ids = [*tops[0], *(token for token in tops[1] if token not in tops[0])]
        was, now = (one[ids].numpy() for one in odds)
        found.append(GapEffect(place, tuple(tokenizer.labels(ids)), was, now))
    return tuple(found)


def filled(text: str, mask: str, gap: int, word: str) -> str:
    """`text` with `word` in its gap of this number, counted from 0.

    A piece that continues a word (##ing) is joined to what stands before it.
    """
    parts = text.split(mask)
    before, after = mask.join(parts[: gap + 1]), mask.join(parts[gap + 1 :])
    joined = before.rstrip() + word.removeprefix("##") if word.startswith("##") else before + word
    return joined + after


def hidden(text: str, mask: str, word: int) -> str:
    """`text` with its word of this number, counted from 0, hidden; punctuation around it stays."""
    words = text.split(" ")
    place = [i for i, one in enumerate(words) if one][word]
    own = words[place]
    start = next((i for i, letter in enumerate(own) if letter.isalnum()), 0)
    stop = next((i for i in range(len(own), 0, -1) if own[i - 1].isalnum()), len(own))
    words[place] = own[:start] + mask + own[stop:]
    return " ".join(words)
