"""Out-of-distribution input of a translator: three counts of a text against those of held-out sentences.

A model that knows nothing but captions translates a greeting too, and says so with no less confidence. Three numbers
tell most of what is far off: words that fall into many pieces are rare words; a translation whose tokens are unlikely
is one that the model itself doubts; and a text shorter than any that was read asks for what was never learned. Bounds
are quantiles over held-out sentences, so the share of false alarms is known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.messages import LANGUAGES, Message
from transformer.nn.common import log_probs
from transformer.nn.search import DecodingOptions, decode
from transformer.runs.concurrency import forward_slot, let_others
from transformer.runs.measures.files import MeasureFile
from transformer.runs.translate import Translation
from transformer.text.base import Tokenizer

FILE = "familiarity.json"
"""What is known of the texts that a shipped checkpoint was trained on, beside its weights."""

TAIL = 0.02
"""The share of held-out sentences that lie outside each bound."""

FEWEST_SENTENCES = 100
"""Quantiles of fewer sentences than this say nothing."""

MOST_NAME = 120
"""Characters of what a corpus is called, at most."""


@dataclass(frozen=True)
class Counts:
    """What is counted of an input.

    Its words (by spaces), its pieces a word, and the mean log-probability (nats) of the tokens that are written for it,
    the end token among them.
    """

    words: int
    pieces_per_word: float
    log_prob_per_token: float


@dataclass(frozen=True)
class TextBounds:
    """What a checkpoint was trained on, and from where on an input is far from it.

    `texts` is what those texts are, by language code. An input with more `pieces_per_word`, less `log_prob_per_token`
    or fewer `words` is far; `false_alarms` is the share of held-out `sentences` that are called far by bounds made of
    the other half of them.
    """

    texts: Mapping[str, str]
    sentences: int
    words: int
    pieces_per_word: float
    log_prob_per_token: float
    false_alarms: float

    def reasons(self, found: Counts) -> tuple[Message, ...]:
        """Why an input is far from what the checkpoint knows; none for one that is not."""
        reasons = []
        if found.words < self.words:
            reasons.append(Message("far_few_words", found=found.words, least=self.words))
        if found.pieces_per_word > self.pieces_per_word:
            reasons.append(Message("far_many_pieces", found=found.pieces_per_word, most=self.pieces_per_word))
        if found.log_prob_per_token < self.log_prob_per_token:
            reasons.append(Message("far_unlikely", found=found.log_prob_per_token, least=self.log_prob_per_token))
        return tuple(reasons)


def counts(reader: Tokenizer, text: str, log_prob: float, written: int) -> Counts:
    """The counts of one text, for which `written` tokens of this log-probability together (nats) were written."""
    words = max(1, len(text.split()))
    return Counts(words, len(reader.encode(text)) / words, log_prob / max(1, written))


def counts_of(checkpoint: Checkpoint, translation: Translation) -> Counts:
    """The counts of a translation, which is the model's own."""
    _, reader, _ = checkpoint.translator()
    return counts(reader, translation.input, translation.log_prob, len(translation.target_ids))


def measured(
    checkpoint: Checkpoint,
    sentences: Sequence[str],
    texts: Mapping[str, str],
    options: DecodingOptions | None = None,
) -> TextBounds:
    """Bounds from sentences of the kind that the checkpoint was trained on, but that it has not seen.

    Raises:
        InputError: there are too few of them.
        CheckpointError: the checkpoint does not translate text.
    """
    model, reader, _ = checkpoint.translator()
    readable = [text for text in sentences if 0 < len(reader.encode(text)) < model.config.max_length]
    if len(readable) < FEWEST_SENTENCES:
        raise InputError("few_held_out_sentences", found=len(readable), least=FEWEST_SENTENCES)
    found = [_counts_alone(checkpoint, text, options or DecodingOptions()) for text in readable]
    halves = found[::2], found[1::2]
    alarms = sum(
        bool(_bounded(one, texts, 0.0).reasons(sentence)) for one, other in (halves, halves[::-1]) for sentence in other
    )
    return _bounded(found, texts, alarms / len(found))


def _checked(found: TextBounds) -> TextBounds:
    if not np.isfinite([found.pieces_per_word, found.log_prob_per_token, found.false_alarms]).all():
        raise ValueError("bounds are no numbers")
    return replace(found, texts={code: found.texts.get(code, found.texts["en"])[:MOST_NAME] for code in LANGUAGES})


BOUNDS = MeasureFile(FILE, "familiarity", TextBounds, _checked, {}, {"tail": TAIL})
known_bounds, read_bounds, write_bounds = BOUNDS.beside, BOUNDS.read, BOUNDS.write


def _counts_alone(checkpoint: Checkpoint, text: str, options: DecodingOptions) -> Counts:
    """A sentence's counts, decoded alone as a page does it."""
    model, reader, _ = checkpoint.translator()
    source = torch.tensor([reader.source_ids(text)])
    with forward_slot():
        written = list(decode(model, source, options, between=let_others)[0].ids)
        logits = model(source, torch.tensor([[model.config.bos_id, *written[:-1]]]))
        total = float(log_probs(logits).gather(2, torch.tensor(written)[None, :, None]).double().sum())
    return counts(reader, text, total, len(written))


def _bounded(found: Sequence[Counts], texts: Mapping[str, str], false_alarms: float) -> TextBounds:
    return TextBounds(
        texts=dict(texts),
        sentences=len(found),
        words=min(one.words for one in found),
        pieces_per_word=round(float(np.quantile([one.pieces_per_word for one in found], 1 - TAIL)), 4),
        log_prob_per_token=round(float(np.quantile([one.log_prob_per_token for one in found], TAIL)), 4),
        false_alarms=round(false_alarms, 4),
    )
