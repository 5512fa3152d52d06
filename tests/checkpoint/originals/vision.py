"""Vision Transformers of the transformers library, as `save_pretrained` writes their folder."""

import io
import zipfile
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.checkpoint.originals.common import scramble

SIZES: dict[str, Any] = {
    "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 17, "image_size": 12,
    "patch_size": 4, "initializer_range": 0.4, "attn_implementation": "eager",
}  # fmt: skip


def vit(names: dict[int, str], **sizes: Any) -> Any:
    """A ViT with random weights, whose classes are called `names`."""
    torch.manual_seed(3)
    return scramble(transformers.ViTForImageClassification(transformers.ViTConfig(**SIZES | sizes, id2label=names)))


def zipped(original: Any, folder: Path) -> bytes:
    """Its folder as a ZIP."""
    original.save_pretrained(folder)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, f"vit/{file.name}")
    return target.getvalue()
