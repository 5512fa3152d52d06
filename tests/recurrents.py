"""A folder of checkpoints with recurrent models beside the shipped translator: random ones, with its tokenizer."""

from pathlib import Path

import torch

from heedmap.checkpoint.ours.folder import save_folder
from heedmap.nn.recurrent import Recurrent, RecurrentConfig
from heedmap.text.tokenizers import TextTokenizer

SHIPPED = Path(__file__).resolve().parent.parent / "checkpoints" / "multi30k-en-de"
ADDITIVE, LOCATION = "random-rnn", "random-rnn-location"
PLACES = 41
"""Positions that the random location attention covers."""


def checkpoints_with_recurrents(folder: Path) -> Path:
    """`folder` with the shipped translator, `ADDITIVE` and `LOCATION`."""
    tokenizer = TextTokenizer.read(SHIPPED / "tokenizer.model")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SHIPPED.name).symlink_to(SHIPPED)
    for name, attention in ((ADDITIVE, "additive"), (LOCATION, "location")):
        torch.manual_seed(7)
        config = RecurrentConfig.of(
            source_vocab=len(tokenizer),
            target_vocab=len(tokenizer),
            hidden=19,
            d_embedding=11,
            attention=attention,
            bidirectional=attention == "additive",
            max_length=PLACES,
            pad_id=tokenizer.pad_id,
            bos_id=tokenizer.bos_id,
            eos_id=tokenizer.eos_id,
        )
        save_folder(folder / name, "recurrent", Recurrent(config), tokenizer, ("English", "German"), ("Two dogs run.",))
    return folder
