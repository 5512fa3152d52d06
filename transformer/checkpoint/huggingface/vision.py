"""Folders of Vision Transformers: the library is not asked, since their weights are read by name as a lone file's are.

What shapes cannot tell stands in the config; how pixels are normalised in `preprocessor_config.json`, if it is there.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.checkpoint.foreign.build import build
from transformer.checkpoint.foreign.recognition import Recognition, recognise
from transformer.checkpoint.huggingface.folder import checked_contents, settings_in, weight_files
from transformer.checkpoint.huggingface.vision_names import NORMALISATIONS, VISION
from transformer.checkpoint.safe.contents import Contents
from transformer.checkpoint.safe.limits import ReadLimits
from transformer.checkpoint.safe.reading import read_file

FAMILIES = frozenset({"vit", "deit"})
"""Families whose layers are the paper's."""

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}
"""The library's names of activations, and ours."""

PREPROCESSOR = "preprocessor_config.json"


def is_vision(path: Path) -> bool:
    """Whether the folder's config names such a family."""
    return settings_in(path / "config.json").get("model_type") in FAMILIES


def recognised(path: Path, limits: ReadLimits) -> Recognition:
    """What the weights are taken for, the config answering what they cannot say.

    Raises:
        CheckpointError: a file is refused, or the config contradicts the weights.
    """
    about = checked_contents(path, limits).config
    parts = (read_file(file, limits) for file in weight_files(path))
    tensors = {name: tensor for part in parts for name, tensor in part.tensors.items()}
    contents = Contents(path.name, tensors, format="safetensors")
    return recognise(contents, _answers(about, settings_in(path / PREPROCESSOR)), VISION)


def load_vision(path: Path, limits: ReadLimits) -> Checkpoint:
    """The model, whose classes have the names that the config says.

    Raises:
        CheckpointError: as `recognised`; or the weights are of another layout.
    """
    built = build(recognised(path, limits), path.name)
    labels = settings_in(path / "config.json").get("id2label")
    count = next(iter(getattr(built.model.config, "head", ())[-1:]), 0)
    named = labels if isinstance(labels, dict) and len(labels) == count else None
    names = tuple(str(named.get(str(i), i))[:80] for i in range(count)) if named else ()
    return replace(built, class_names=names, folder=path)


def _answers(config: Mapping[str, Any], preprocessor: Mapping[str, Any]) -> dict[str, Any]:
    """The config's words as answers; those that are none are left to be assumed."""
    found: dict[str, Any] = {
        "n_heads": config.get("num_attention_heads", 12),
        "norm_eps": config.get("layer_norm_eps", 1e-12),
        "activation": ACTIVATIONS.get(str(config.get("hidden_act", "gelu")), config.get("hidden_act")),
    }
    mean = tuple(preprocessor.get("image_mean") or ())
    known = {values[0]: name for name, values in NORMALISATIONS.items()}
    return found | ({"normalisation": known[mean]} if mean in known else {})
