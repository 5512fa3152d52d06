"""The reference checkpoints: where they lie, what they are, and what they hold."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heedmap.checkpoint import load

REFERENCE = Path(__file__).parents[1] / "fixtures" / "reference"

LAYOUTS = {
    "annotated": "annotated",
    "encoder-only": "encoder-only",
    "jadore-emb": "jadore",
    "jadore-separate": "jadore",
    "jadore-shared": "jadore",
    "kmer": "kmer",
    "rnn-tutorial-1": "rnn-tutorial-1",
    "rnn-tutorial-2": "rnn-tutorial-2",
    "torch-postnorm": "torch",
    "torch-prenorm": "torch",
}
"""Each reference, and the layout that it is to be taken for."""

ONE_FILE = {"annotated": "pt", "encoder-only": "pt", "jadore-emb": "chkpt", "kmer": "pt", "torch-prenorm": "pt"}
"""One reference of each layout that is a single file, with the file's ending."""


def heads(name: str) -> dict[str, Any]:
    """How many heads a reference has, and whether embeddings are scaled, where that is asked."""
    about = json.loads((REFERENCE / name / "about.json").read_text(encoding="utf-8"))
    scaled = {"encoder-only": False, "torch-prenorm": True, "torch-postnorm": True}
    told = {"scale_embedding": scaled[name]} if name in scaled else {}
    return {"n_heads": about["heads"], **told} if "heads" in about else {}


def reference_file(name: str) -> Path:
    return REFERENCE / name / f"model.{ONE_FILE[name]}"


def model(path: Path, **answers: Any) -> Any:
    """The model of a checkpoint, whatever it is."""
    return load(path, **answers).model


def weights(name: str) -> dict[str, Tensor]:
    """The tensors of a single-file reference by name."""
    with torch.serialization.safe_globals([__import__("argparse").Namespace]):
        saved: dict[str, Any] = torch.load(reference_file(name), weights_only=True)
    return dict(saved.get("model", saved))
