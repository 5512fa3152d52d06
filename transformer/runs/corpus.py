"""Whole files of sentences: translated in batches of like length, and scored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tqdm import tqdm

from transformer.nn.protocols import Decodable
from transformer.nn.search import DecodingOptions, decode
from transformer.text.base import Tokenizer
from transformer.text.batch import pad

MAX_ROWS = 64
"""Sentences that are decoded together; more bring no speed, since the longest keeps the others waiting."""

MAX_POSITIONS = 4_096
"""Source positions that are decoded together, padding counted: long sentences come in smaller batches."""


@dataclass(frozen=True)
class TranslatedLine:
    """What became of one line: its translation, and whether anything of source or target was left out.

    `unread` counts the source tokens past what the checkpoint reads; `finished` is False where the maximum length cut
    the translation, which then has `tokens` tokens.
    """

    text: str = ""
    unread: int = 0
    finished: bool = True
    tokens: int = 0


@dataclass(frozen=True)
class Bleu:
    """A BLEU score (0 to 100) and the signature that says how it was counted."""

    score: float
    signature: str


def translate_lines(
    model: Decodable[Any],
    tokenizer: Tokenizer,
    lines: Sequence[str],
    options: DecodingOptions | None = None,
    progress: bool = False,
    device: torch.device | str = "cpu",
    writer: Tokenizer | None = None,
) -> list[TranslatedLine]:
    """Translate each line, in order; a line without any token becomes an empty one.

    A model reads and writes at most `config.max_length` tokens; what a longer source holds past them is counted as
    `unread`. `writer` makes the target's text where `tokenizer` knows the source alone. `progress` draws a bar on
    stderr; `device` is where the model is.
    """
    writer = tokenizer if writer is None else writer
    longest = model.config.max_length
    sources = [tokenizer.source_ids(line) if tokenizer.encode(line) else [] for line in lines]
    results = [TranslatedLine()] * len(lines)
    with tqdm(total=len(lines), unit="line", disable=not progress, mininterval=1.0) as bar:
        for rows in _batches([min(len(source), longest) for source in sources], mixed=model.config.pad_id >= 0):
            read = [sources[i] if len(sources[i]) <= longest else _cut(sources[i], longest) for i in rows]
            for i, found in zip(rows, decode(model, pad(read, model.config.pad_id).to(device), options), strict=True):
                unread = max(0, len(sources[i]) - longest)
                results[i] = TranslatedLine(writer.decode(found.ids), unread, found.finished, len(found.ids))
            bar.update(len(rows))
        bar.update(bar.total - bar.n)
    return results


def bleu(translations: Sequence[str], references: Sequence[str]) -> Bleu:
    """Corpus BLEU as sacrebleu counts it: cased, detokenised, its own 13a tokens.

    Source: Post 2018, "A Call for Clarity in Reporting BLEU Scores".
    """
    import sacrebleu  # an extra of the library, which reading and running do not need

    metric = sacrebleu.BLEU()
    score = metric.corpus_score(list(translations), [list(references)])
    return Bleu(float(score.score), str(metric.get_signature()))


def _cut(ids: list[int], longest: int) -> list[int]:
    """What can be read of a source that is too long: its beginning, and the special token at its end."""
    return [*ids[: longest - 1], ids[-1]]


def _batches(lengths: Sequence[int], mixed: bool) -> list[list[int]]:
    """Rows of like length together (of one length, unless `mixed`), the longest first; empty rows are left out."""
    batches: list[list[int]] = []
    room = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if not lengths[i]:
            break
        if not room or not (mixed or lengths[i] == lengths[batches[-1][0]]):
            batches.append([])
            room = min(MAX_ROWS, max(1, MAX_POSITIONS // lengths[i]))
        batches[-1].append(i)
        room -= 1
    return batches
