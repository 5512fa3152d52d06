"""A toy pair of languages, small enough to train on within a test: one word of the one is one word of the other."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from transformer.checkpoint.ours.folder import save_folder
from transformer.text.tokenizers import TextTokenizer, train_tokenizer
from transformer.training.run import TranslationOptions
from transformer.training.translation import new_model

NOUNS = {"dog": "Hund", "cat": "Katze", "man": "Mann", "woman": "Frau", "bird": "Vogel"}
VERBS = {"runs": "läuft", "sleeps": "schläft", "eats": "isst"}


def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    """Random sentences of different lengths, and their translations."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        nouns = [chance.choice(list(NOUNS)) for _ in range(chance.randint(1, 4))]
        verb = chance.choice(list(VERBS))
        source = f"the {' and the '.join(nouns)} {verb}."
        target = f"der {' und der '.join(NOUNS[noun] for noun in nouns)} {VERBS[verb]}."
        found.append((source, target))
    return found


def write_sides(folder: Path, pairs: Sequence[Sequence[str]], *names: str) -> None:
    """A file for each side of some pairs, a line for each."""
    for name, side in zip(names, zip(*pairs, strict=True), strict=True):
        (folder / name).write_text("".join(line + "\n" for line in side), encoding="utf-8")


def write_corpus(folder: Path) -> Path:
    """train.en, train.de, val.en, val.de."""
    folder.mkdir(parents=True)
    for split, count in (("train", 61), ("val", 7)):
        write_sides(folder, sentences(count, seed=count), f"{split}.en", f"{split}.de")
    return folder


def training_options(data: Path, work: Path, **changes: Any) -> TranslationOptions:
    """A run of seconds; two batches and a bit are an epoch."""
    sizes = dict(vocab_size=53, d_model=6, n_heads=2, d_ff=11, n_layers=1, max_tokens=32)
    pace = dict(batch_tokens=256, updates=12, warmup=4, save_every=2, validate_every=4, average=3)
    return TranslationOptions.of(data=data, work=work, **(sizes | pace | changes))


def tokenizer() -> TextTokenizer:
    """The vocabulary of the toy languages."""
    return train_tokenizer([side for pair in sentences(61, seed=61) for side in pair], 53)


def write_checkpoint(folder: Path) -> Path:
    """A folder with a random model, whose translations depend on the source: it looks at it with strong weights."""
    words = tokenizer()
    model = new_model(training_options(folder, folder), words)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "cross_attention" in name:
                parameter.mul_(4)
    save_folder(folder, "seq2seq", model, words, ("en", "de"), ("the dog runs.",), half=False)
    return folder
