"""Continue a text: (checkpoint, text) -> what a decoder alone writes after it, token by token.

Drawing follows Fan et al. 2018 (top-k) after a temperature, as the `transformers` library does it; with the same seed
it draws the same tokens.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transformer.attention.record import Record
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError, InputError
from transformer.explain.attribution.deletion import Progress, untold
from transformer.messages import Message
from transformer.nn.protocols import Continuing
from transformer.nn.run_context import changed_context
from transformer.nn.search import likeliest
from transformer.runs.any_model import MAX_POSITIONS, ModelRun, read, run_ids
from transformer.runs.changed import run_of
from transformer.text.base import Tokenizer
from transformer.text.steps import Candidate, Step

TOP = 10
"""How many of the likeliest next tokens are kept for each step."""


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
        wanted = {
            "n_tokens": Message("continue_wanted_count"),
            "temperature": Message("continue_wanted_temperature"),
            "top_k": Message("continue_wanted_top_k"),
            "seed": Message("continue_wanted_seed"),
        }
        for name, said in wanted.items():
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise InputError("continue_options", name=name, value=value, wanted=said)


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
        if step == len(self.written):
            return self.run
        return self._until[step]

    def last(self, step: int) -> str:
        """The last token that had been read before the token of a step was written."""
        axis = next(each.keys for each in self.run.record.values())
        return axis.texts[self.prompt + step - 1]

    @cached_property
    def _until(self) -> tuple[ModelRun, ...]:
        return tuple(_until(self.run, self.prompt + step, self.texts[step]) for step in range(len(self.written)))


def continues(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint scores what comes next, and has a tokenizer to say it with."""
    model = checkpoint.model
    return isinstance(model, Continuing) and model.continues and checkpoint.tokenizer is not None


def continue_text(
    checkpoint: Checkpoint,
    text: str,
    options: ContinueOptions | None = None,
    progress: Progress = untold,
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
    labels = checkpoint.tokenizer.labels(written)
    steps = tuple(_likeliest(*top, checkpoint.tokenizer) for top in tops)
    counts = range(1, len(written) + 1)
    texts = (text, *(checkpoint.tokenizer.decode([*ids, *written[:count]]) for count in counts))
    with changed_context(is_streaming=True):
        run = run_ids(checkpoint, texts[-1], [*ids, *written], [*pieces, *labels])
    return Continuation(
        run=run,
        prompt=len(ids),
        written=tuple(written),
        tokens=tuple(_token(*each) for each in zip(labels, written, tops, steps, strict=False)),
        texts=texts,
        steps=steps,
        text=checkpoint.tokenizer.decode(written),
        finished=written[-1:] == [_end_id(checkpoint)],
    )


def reread(checkpoint: Checkpoint, found: Continuation) -> ModelRun:
    """Read a text and what was written after it once more, under the caller's interventions: the same tokens.

    Raises:
        InputError: an intervention does not fit.
        CheckpointError: the checkpoint's attention cannot be changed.
    """
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


def _likeliest(odds: Tensor, asked: Tensor, tokenizer: Tokenizer) -> tuple[NextToken, ...]:
    ids: list[int] = likeliest(odds[None], TOP)[1][0].tolist()
    rows = zip(ids, tokenizer.labels(ids), odds[ids].tolist(), asked[ids].tolist(), strict=True)
    return tuple(NextToken(*row) for row in rows)


def _token(label: str, token: int, odds: tuple[Tensor, Tensor], likeliest_ones: tuple[NextToken, ...]) -> Step:
    own = odds[0]
    candidates = tuple(Candidate(one.text, one.probability) for one in likeliest_ones)
    return Step(label, float(own[token]), int((own > own[token]).sum()), candidates)


def _until(run: ModelRun, count: int, text: str) -> ModelRun:
    """The first `count` tokens of a run whose tokens see nothing ahead."""
    maps = {}
    for site, found in run.record.items():
        axis = found.keys.kept(range(count))
        maps[site] = replace(found, queries=axis, keys=axis)
    outputs = {name: value[:count] for name, value in run.outputs.items()}
    return replace(run, input=text, record=Record(maps, run.record.model, text), outputs=outputs, ids=run.ids[:count])
