"""Tiny random translators that stand in for the shipped ones."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from heedmap.checkpoint.ours.folder import save_folder
from heedmap.nn.recurrent import Recurrent, RecurrentConfig
from heedmap.nn.seq2seq import Seq2Seq, Seq2SeqConfig
from heedmap.text.tokenizers import TextTokenizer, train_tokenizer

TEXT = ["A man rides a bicycle.", "Ein Mann fährt Fahrrad.", "two dogs run", "zwei Hunde rennen", "a red", "ein rotes"]

SEED = 4
"""With these weights, what is written has many steps, whichever search writes it."""


@cache
def tiny_tokenizer() -> TextTokenizer:
    """The tokenizer of the tiny checkpoints."""
    return train_tokenizer(TEXT * 5, 60)


def save_tiny(folder: Path, **options: object) -> None:
    """A checkpoint folder `tiny` in `folder`: a Transformer."""
    (folder / "tiny").mkdir(parents=True)
    for name, data in _tiny(tuple(sorted(options.items()))).items():
        (folder / "tiny" / name).write_bytes(data)


@cache
def _tiny(options: tuple[tuple[str, object], ...]) -> dict[str, bytes]:
    """The files of a tiny Transformer by name."""
    tokenizer = tiny_tokenizer()
    sizes: dict[str, object] = dict(source_vocab=len(tokenizer), target_vocab=len(tokenizer), d_model=12, n_heads=2)
    sizes |= dict(d_ff=8, n_encoder_layers=2, n_decoder_layers=1, norm_first=True, norm_after_stack=True)
    sizes |= dict(pad_id=0, bos_id=2, eos_id=3, max_length=40)
    torch.manual_seed(SEED)
    model = Seq2Seq(Seq2SeqConfig.of(**(sizes | dict(options))))  # type: ignore[arg-type]
    with TemporaryDirectory() as folder:
        save_folder(Path(folder) / "tiny", "seq2seq", model, tokenizer, ("English", "German"))
        return {file.name: file.read_bytes() for file in (Path(folder) / "tiny").iterdir()}


def save_tiny_recurrent(folder: Path, attention: str, name: str = "", **options: object) -> Recurrent:
    """A checkpoint folder (called as its attention) in `folder`: a recurrent translator, which is returned."""
    tokenizer = tiny_tokenizer()
    sizes: dict[str, object] = dict(source_vocab=len(tokenizer), target_vocab=len(tokenizer), hidden=11, d_embedding=7)
    sizes |= dict(attention=attention, max_length=29, pad_id=0, bos_id=2, eos_id=3)
    torch.manual_seed(5)
    model = Recurrent(RecurrentConfig.of(**(sizes | options)))  # type: ignore[arg-type]
    save_folder(folder / (name or attention), "recurrent", model, tokenizer, ("English", "German"), half=False)
    return model
