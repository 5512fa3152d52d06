"""What a model would write: a decoder continues a text, token by token; an encoder fills its hidden words in.

Drawing follows Fan et al. 2018 (top-k) after a temperature, as the `transformers` library does it; with the same seed
it draws the same tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..attention.record import Record
from ..checkpoint.checkpoint import Checkpoint
from ..errors import CheckpointError, InputError
from ..explain.attribution.deletion import Progress, untold
from ..messages import Message
from ..nn.common import changed_context
from ..nn.search import likeliest
from ..text.beams import Candidate, Step
from .any_model import MAX_POSITIONS, ModelRun, continues, read, run_ids
from .concurrency import run_of
from .translate import RUNNERS_UP, steps_of


@dataclass(frozen=True)
class ContinueOptions:
    """How a text is continued: `n_tokens` at most, fewer where the model ends the text or has no more positions.

    With a `temperature` of 0 the likeliest token is written. Otherwise logits are divided by it, the `top_k` highest
    are kept (0 keeps all), and a token is drawn by a generator that starts at `seed`.

    Raises:
        InputError: a number below 0.
    """

    n_tokens: int = 20
    temperature: float = 0.0
    top_k: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, key in (("n_tokens", "count"), *((one, one) for one in ("temperature", "top_k", "seed"))):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise InputError("continue_options", name=name, value=value, wanted=Message(f"continue_wanted_{key}"))


@dataclass(frozen=True)
class NextToken:
    """A token that could come next: the model's own probability, and the `chance` that it is written as asked for.

    Greedily the likeliest one's chance is 1; otherwise it is the probability at the temperature, among the top k.
    """

    token: int
    text: str
    probability: float
    chance: float


@dataclass(frozen=True)
class Continuation:
    """The continuation of a text by a decoder.

    `prompt` counts the tokens that were read; `written` are those that follow, and `finished` says that the last of
    them is the model's end mark. `steps[i]` holds the likeliest tokens (at most 10, the likeliest first) after the text
    and `i` written tokens, so there is one more of them than tokens; `texts[i]` is what had been read by then, and
    `tokens[i]` what was then written, with the model's own probability. `text` is all that was written.
    """

    run: ModelRun
    prompt: int
    written: tuple[int, ...]
    tokens: tuple[Step, ...]
    texts: tuple[str, ...]
    steps: tuple[tuple[NextToken, ...], ...]
    text: str
    finished: bool

    def at(self, step: int) -> ModelRun:
        """The run as it was before the token of a step was written: what had been read by then, and nothing else.

        Nothing is computed again: no token sees what follows it, so these are the first rows and columns of each map.
        """
        run, count = self.run, self.prompt + step
        axis = next(iter(run.record.values())).keys.kept(range(count))
        maps = {site: replace(one, queries=axis, keys=axis) for site, one in run.record.items()}
        outputs = {name: value[:count] for name, value in run.outputs.items()}
        record = Record(maps, run.record.model, self.texts[step])
        return replace(run, input=self.texts[step], record=record, outputs=outputs, ids=run.ids[:count])

    def last(self, step: int) -> str:
        """The last token that had been read before the token of a step was written."""
        axis = next(each.keys for each in self.run.record.values())
        return axis.texts[self.prompt + step - 1]


def continue_text(
    checkpoint: Checkpoint, text: str, options: ContinueOptions | None = None, progress: Progress = untold
) -> Continuation:
    """Continue `text` and record all attention over both; `progress` is called with the share done, up to 1.

    Probabilities are those of the run that writes, which keeps a cache. An end mark that the tokenizer puts after a
    text is left out, since the text is to go on.

    Raises:
        InputError: nothing to read, or too much; or a text that leaves no position to write to.
        CheckpointError: the checkpoint does not score what comes next, or has no tokenizer.
    """
    options = options or ContinueOptions()
    model: Any = checkpoint.model
    if not continues(checkpoint) or checkpoint.tokenizer is None:
        raise CheckpointError("continue_no_decoder", name=checkpoint.name)
    ids, pieces = read(checkpoint, text)
    if len(ids) > 1 and ids[-1] == _end_id(checkpoint):
        ids, pieces = ids[:-1], pieces[:-1]
    most = min(MAX_POSITIONS, model.config.max_length)
    if len(ids) >= most and options.n_tokens:
        raise InputError("continue_nothing_fits", most=most)
    options = replace(options, n_tokens=min(options.n_tokens, most - len(ids)))
    with changed_context(is_streaming=True):
        written, tops = _written(checkpoint, ids, options, progress)
    tokenizer = checkpoint.tokenizer
    labels, steps = tokenizer.labels(written), []
    for odds, chance in tops:
        likely: list[int] = likeliest(odds[None], RUNNERS_UP)[1][0].tolist()
        rows = zip(likely, tokenizer.labels(likely), odds[likely].tolist(), chance[likely].tolist(), strict=True)
        steps.append(tuple(NextToken(*row) for row in rows))
    each = torch.stack([odds for odds, _ in tops])[: len(written)]
    tokens = steps_of(each, written, labels, tokenizer) if written else ()
    texts = (text, *(tokenizer.decode([*ids, *written[: count + 1]]) for count in range(len(written))))
    with changed_context(is_streaming=True):
        run = run_ids(checkpoint, texts[-1], [*ids, *written], [*pieces, *labels])
    found, finished = tokenizer.decode(written), written[-1:] == [_end_id(checkpoint)]
    return Continuation(run, len(ids), tuple(written), tokens, texts, tuple(steps), found, finished)


def reread(checkpoint: Checkpoint, found: Continuation) -> ModelRun:
    """Read a text and what was written after it once more, under the caller's interventions: the same tokens."""
    axis = next(each.keys for each in found.run.record.values())
    return run_ids(checkpoint, found.run.input, list(found.run.ids), list(axis.texts))


def parting(first: Continuation, second: Continuation) -> int | None:
    """The step at which two continuations of one text first write another token, or one of them ends.

    None where both wrote the same.
    """
    if first.written == second.written:
        return None
    pairs = zip(first.written, second.written, strict=False)
    both = min(len(first.written), len(second.written))
    return next((step for step, (one, other) in enumerate(pairs) if one != other), both)


def _end_id(checkpoint: Checkpoint) -> int:
    """What ends a text; -1 where nothing is known to."""
    return int(getattr(checkpoint.model.config, "eos_id", -1))


def _written(
    checkpoint: Checkpoint, ids: list[int], options: ContinueOptions, progress: Progress
) -> tuple[list[int], list[tuple[Tensor, Tensor]]]:
    """The tokens, and the model's and the asked-for probabilities before each of them and after the last."""
    model: Any = checkpoint.model
    generator = torch.Generator().manual_seed(options.seed)
    end = _end_id(checkpoint)
    written: list[int] = []
    tops: list[tuple[Tensor, Tensor]] = []
    cache, new = model.begin(), ids
    while True:
        with run_of(checkpoint):  # a slot for one step: others have their turn between two
            logits = model.read_on(torch.tensor([new]), cache)[0]
        if not bool(logits.logsumexp(-1).isfinite()):
            raise CheckpointError("nothing_to_write")
        odds = chances(logits, options)
        tops.append((logits.softmax(-1), odds))
        progress(min(1.0, len(tops) / (options.n_tokens + 1)))
        if len(written) == options.n_tokens or (written and written[-1] == end):
            return written, tops
        drawn = odds.argmax() if options.temperature == 0 else torch.multinomial(odds, 1, generator=generator)
        new = [int(drawn)]
        written += new


def chances(logits: Float[Tensor, " vocab"], options: ContinueOptions) -> Float[Tensor, " vocab"]:
    """The probability that each token is written: all on the likeliest one (of equals the first), or tempered."""
    if options.temperature == 0:
        return torch.zeros_like(logits).index_fill(0, logits.argmax(), 1.0)
    scaled = logits / options.temperature
    if 0 < options.top_k < len(scaled):
        scaled = scaled.masked_fill(scaled < scaled.topk(options.top_k).values[-1], -torch.inf)
    return scaled.softmax(-1)


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
    ids, _ = read(checkpoint, text)
    places = _gaps(checkpoint, ids)
    if not places:
        return ()
    with run_of(checkpoint):
        odds = model.word_scores(torch.tensor([ids]))[0, places].softmax(-1)
    values, tops = likeliest(odds, RUNNERS_UP)
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
    """Each gap of a text that was read twice (`what_if.read_under`), in order; the likeliest before come first."""
    tokenizer: Any = checkpoint.tokenizer
    found = []
    for place in _gaps(checkpoint, before.ids):
        odds = [torch.from_numpy(run.outputs["logits"][place]).double().softmax(-1) for run in (before, after)]
        tops = [likeliest(one[None], RUNNERS_UP)[1][0].tolist() for one in odds]
        ids = [*tops[0], *(token for token in tops[1] if token not in tops[0])]
        was, now = (one[ids].numpy() for one in odds)
        found.append(GapEffect(place, tuple(tokenizer.labels(ids)), was, now))
    return tuple(found)


def _gaps(checkpoint: Checkpoint, ids: Sequence[int]) -> list[int]:
    """Where a word is hidden."""
    if not mask_of(checkpoint):
        raise CheckpointError("fill_no_mask", name=checkpoint.name)
    tokenizer: Any = checkpoint.tokenizer
    return [place for place, token in enumerate(ids) if token == tokenizer.mask_id]


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
