"""A toy pair of languages, small enough to train on within a test: one word of the one is one word of the other."""

import random
from collections.abc import Sequence
from pathlib import Path

import torch

from heedmap.checkpoint.ours.folder import save_folder
from heedmap.nn.seq2seq import Seq2Seq, Seq2SeqConfig
from heedmap.text.tokenizers import TextTokenizer, train_tokenizer

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


def tokenizer() -> TextTokenizer:
    """The vocabulary of the toy languages."""
    return train_tokenizer([side for pair in sentences(61, seed=61) for side in pair], 53)


def model(words: TextTokenizer) -> Seq2Seq:
    """A random translator, one vocabulary for both languages."""
    sizes = dict(d_model=6, n_heads=2, d_ff=11, n_encoder_layers=1, n_decoder_layers=1, max_length=32)
    vocabulary = dict(source_vocab=len(words), target_vocab=len(words), tie_embeddings=True, tie_projection=True)
    ids = dict(pad_id=words.pad_id, bos_id=words.bos_id, eos_id=words.eos_id)
    return Seq2Seq(Seq2SeqConfig.of(norm_first=True, norm_after_stack=True, **sizes, **vocabulary, **ids))


def write_checkpoint(folder: Path) -> Path:
    """A folder with a random model, whose translations depend on the source: it looks at it with strong weights."""
    words = tokenizer()
    random_model = model(words)
    with torch.no_grad():
        for name, parameter in random_model.named_parameters():
            if "cross_attention" in name:
                parameter.mul_(4)
    save_folder(folder, "seq2seq", random_model, words, ("en", "de"), ("the dog runs.",), half=False)
    return folder
