"""Out-of-distribution input of a translator: four counts of a text against those of held-out sentences.

A model that knows nothing but captions translates a greeting too, and says so with no less confidence. Four numbers
tell most of what is far off: words that fall into many pieces are rare words; pieces that no held-out sentence has,
such as digits, are rare ones; a translation whose tokens are unlikely is one that the model itself doubts; and a text
shorter than any that was read asks for what was never learned. Bounds are quantiles over held-out sentences, so the
share of false alarms is known; the share that is caught is that of sentences about other things, of the catalogue.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.messages import LANGUAGES, Message, catalogue
from transformer.nn.search import DecodingOptions
from transformer.runs.measures.files import MeasureFile
from transformer.runs.translate import MAX_CHARACTERS, Translation, translate

TAIL = 0.02
"""The share of held-out sentences that lie outside each bound."""

FEWEST_SENTENCES = 100
"""Quantiles of fewer sentences than this say nothing."""

FOLDS = 10
"""Parts of the held-out sentences: how often bounds err is measured on each part by bounds made of all others."""

OTHERS = 400
"""Sentences of the catalogue that are about other things, at most."""

MOST_NAME = 120
"""Characters of what a corpus is called, at most."""


@dataclass(frozen=True)
class TextCounts:
    """What is counted of an input.

    Its words (by spaces), its pieces a word, the mean log-probability (nats) of the tokens that are written for it, the
    end token among them, and its pieces as ids.
    """

    words: int
    pieces_per_word: float
    log_prob_per_token: float
    pieces: tuple[int, ...] = ()


@dataclass(frozen=True)
class TextBounds:
    """What a checkpoint was trained on, and from where on an input is far from it.

    `texts` is what those texts are, by language code. An input with more `pieces_per_word`, less `log_prob_per_token`,
    fewer `words` or a larger share of `new_pieces` (ids not among `pieces`) is far. `false_alarms` is the share
    of held-out `sentences`, and `caught` that of `others`, that are called far by bounds made without them (`FOLDS`).
    """

    texts: Mapping[str, str]
    sentences: int
    words: int
    pieces_per_word: float
    log_prob_per_token: float
    new_pieces: float
    pieces: str
    false_alarms: float
    caught: float
    others: int

    def reasons(self, found: TextCounts) -> tuple[Message, ...]:
        """Why an input is far from what the checkpoint knows; none for one that is not."""
        reasons = []
        if found.words < self.words:
            reasons.append(Message("far_few_words", found=found.words, least=self.words))
        if found.pieces_per_word > self.pieces_per_word:
            reasons.append(Message("far_many_pieces", found=found.pieces_per_word, most=self.pieces_per_word))
        known = set(map(int, self.pieces.split()))
        new = float(np.mean([piece not in known for piece in found.pieces])) if found.pieces else 0.0
        if new > self.new_pieces:
            reasons.append(Message("far_new_pieces", found=new, most=self.new_pieces, sentences=self.sentences))
        if found.log_prob_per_token < self.log_prob_per_token:
            reasons.append(Message("far_unlikely", found=found.log_prob_per_token, least=self.log_prob_per_token))
        return tuple(reasons)


def counts_of(checkpoint: Checkpoint, translation: Translation) -> TextCounts:
    """The counts of a translation, which is the model's own."""
    _, reader, _ = checkpoint.translator()
    words, pieces = max(1, len(translation.input.split())), tuple(reader.encode(translation.input))
    log_prob = translation.log_prob / max(1, len(translation.target_ids))
    return TextCounts(words, len(pieces) / words, log_prob, pieces)


def measured(
    checkpoint: Checkpoint,
    sentences: Sequence[str],
    texts: Mapping[str, str],
    options: DecodingOptions | None = None,
    others: Sequence[str] | None = None,
    bar: Callable[[list[str]], Iterable[str]] = list,
) -> TextBounds:
    """Bounds from sentences of the kind that the checkpoint was trained on, but that it has not seen.

    How many of `others` they catch is measured too: sentences about other things, of the catalogue unless given. `bar`
    draws how far the work at some sentences is.

    Raises:
        InputError: there are too few of them.
        CheckpointError: the checkpoint does not translate text.
    """
    model, reader, _ = checkpoint.translator()

    def read(texts: Sequence[str]) -> list[str]:
        short = [text for text in texts if len(text) <= MAX_CHARACTERS]
        return [text for text in short if 0 < len(reader.encode(text)) < model.config.max_length]

    readable = read(sentences)
    if len(readable) < FEWEST_SENTENCES:
        raise InputError("few_held_out_sentences", found=len(readable), least=FEWEST_SENTENCES)
    found, far = (
        [counts_of(checkpoint, translate(checkpoint, text, options)) for text in bar(of)]
        for of in (readable, read(_about_other_things() if others is None else others))
    )
    folds = [(_bounded([one for i, one in enumerate(found) if i % FOLDS != k], texts), k) for k in range(FOLDS)]
    alarms = sum(bool(bounds.reasons(one)) for bounds, k in folds for one in found[k::FOLDS])
    caught = sum(bool(bounds.reasons(one)) for bounds, _ in folds for one in far)
    rates = [round(alarms / len(found), 4), round(caught / max(1, FOLDS * len(far)), 4)]
    return replace(_bounded(found, texts), false_alarms=rates[0], caught=rates[1], others=len(far))


def _about_other_things() -> list[str]:
    """Whole sentences of the catalogue, evenly taken: nobody wrote them to be told from captions."""
    every = [one for text in catalogue("en").values() for one in re.split(r"(?<=[.?!]) ", text)]
    whole = [one for one in every if re.fullmatch(r"[A-Z][^{`]*[.?!]", one) and 4 <= len(one.split()) <= 25]
    return whole[:: max(1, len(whole) // OTHERS)][:OTHERS]


def _checked(found: TextBounds) -> TextBounds:
    numbers = found.pieces_per_word, found.log_prob_per_token, found.new_pieces, found.false_alarms, found.caught
    if not np.isfinite(numbers).all():
        raise ValueError("bounds are no numbers")
    return replace(found, texts={code: found.texts.get(code, found.texts["en"])[:MOST_NAME] for code in LANGUAGES})


FILE = MeasureFile("familiarity.json", "familiarity", TextBounds, _checked, {}, {"tail": TAIL})
known_bounds = FILE.beside


def _bounded(found: Sequence[TextCounts], texts: Mapping[str, str]) -> TextBounds:
    """The bounds; a piece is new in a sentence that alone has it. What they call falsely is measured on others."""
    kept = Counter(piece for one in found for piece in set(one.pieces))
    new = [float(np.mean([kept[piece] == 1 for piece in one.pieces])) for one in found]
    return TextBounds(
        texts=dict(texts),
        sentences=len(found),
        words=min(one.words for one in found),
        pieces_per_word=round(float(np.quantile([one.pieces_per_word for one in found], 1 - TAIL)), 4),
        log_prob_per_token=round(float(np.quantile([one.log_prob_per_token for one in found], TAIL)), 4),
        new_pieces=round(float(np.quantile(new, 1 - TAIL)), 4),
        pieces=" ".join(map(str, sorted(kept))),
        false_alarms=0.0,
        caught=0.0,
        others=0,
    )
