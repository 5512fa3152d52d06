"""Which stacks the model of a folder has, and which head: told by its config and the class that saved it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from transformer.checkpoint.foreign.found import RECORD_FILE, record_lines
from transformer.checkpoint.huggingface.folder import FolderContents, checked_config
from transformer.checkpoint.huggingface.library import check_installed, tables
from transformer.checkpoint.huggingface.model import Head, Kind
from transformer.errors import CheckpointError
from transformer.messages import Message
from transformer.safe.refusal import refused

MAKERS: Final[dict[Head, str]] = {
    "words": "AutoModelForMaskedLM",
    "classes": "AutoModelForSequenceClassification",
    "scores": "AutoModelForSequenceClassification",
    "tokens": "AutoModelForTokenClassification",
}
"""The library's class for each head."""

OF_TEXT, OF_TOKENS = "ForSequenceClassification", "ForTokenClassification"
"""How the names of classes end that save one answer for a text, and one for each token."""

SAVED_BY: Final = {"words": ("ForMaskedLM", "ForPreTraining")}
"""The same of classes that save an encoder with a head that fills hidden words in."""

UNSHOWN: Final = ("ForQuestionAnswering", "ForMultipleChoice", "ForNextSentencePrediction")
"""Heads that are no part of what is shown."""

MANY, NUMBERS = "multi_label_classification", "regression"
"""What a config calls a problem whose classes do not exclude one another, and one of numbers."""

MOST_LABELS = 10_000
"""Classes whose names are taken from a config; more of them are numbered."""


def described_kind(path: Path) -> Kind:
    """What the config of the folder at `path` describes; neither its weights nor its tokenizer is looked at.

    Raises:
        CheckpointError: the library is not installed, the config is refused, or describes no model of text.
    """
    check_installed()
    config = checked_config(path)
    family = str(config.get("model_type"))
    check_of_text(path.name, family, config)
    told = config.get("is_encoder_decoder")
    both = family in tables().MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES if told is None else bool(told)
    return kind_of(path.name, family, config, both)


def check_of_text(name: str, family: str, config: Mapping[str, Any]) -> None:
    """Refuse a family that the library knows and that neither reads nor writes text.

    Raises:
        CheckpointError: it is one of those.
    """
    auto = tables()
    of_text = (
        auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    )
    if family in auto.CONFIG_MAPPING_NAMES and not any(family in table for table in of_text):
        raise no_model_of_text(name, family, config)


def no_model_of_text(name: str, family: str, config: Mapping[str, Any]) -> CheckpointError:
    """The refusal of a family that is not run here, with the lines that record it."""
    image, patch = (config.get(key) for key in ("image_size", "patch_size"))
    grid = (image // patch,) * 2 if isinstance(image, int) and isinstance(patch, int) and image > patch > 0 else None
    first, second, third = record_lines(name, "**inputs", grid)
    remedy = Message("remedy_record", file=RECORD_FILE, first=first, second=second, third=third)
    return refused("no_model_of_text", name, remedy, family=family)


def kind_of(name: str, family: str, config: Mapping[str, Any], both: bool) -> Kind:
    """Which stacks a model of a family has, by the class that saved it; `both` says that it has two.

    Raises:
        CheckpointError: it is no model of text.
    """
    auto, saved = tables(), next(iter(config.get("architectures") or ()), "")
    if both and family in auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
        return "seq2seq"
    reads_alone = family in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    writes_alone = family in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if not both and writes_alone and (not reads_alone or saved.endswith(("ForCausalLM", "LMHeadModel"))):
        return "decoder"
    if not both and reads_alone:
        return "encoder"
    raise no_model_of_text(name, family, config)


def saved_by(contents: FolderContents) -> str:
    """The class that saved a folder; empty where its config names none."""
    return next(iter(contents.config.get("architectures") or ()), "")


def head_of(contents: FolderContents, kind: Kind, settings: Any) -> Head:
    """What stands on the states: nothing that is known here, scores of words, of classes or tokens, or numbers."""
    auto, saved, family = tables(), saved_by(contents), contents.family
    if kind == "seq2seq":
        return ""
    if kind == "encoder" and saved.endswith(SAVED_BY["words"]) and family in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        return "words"
    if saved.endswith(OF_TOKENS) and family in auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES:
        return "tokens"
    if not saved.endswith(OF_TEXT) or family not in auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES:
        return ""
    problem = settings.problem_type
    if problem == NUMBERS or (problem is None and settings.num_labels == 1):  # as the library itself decides
        return "scores"
    return "classes"


def labels_of(settings: Any) -> tuple[str, ...]:
    """What the classes are called, in the order of their ids."""
    named, count = getattr(settings, "id2label", None) or {}, int(getattr(settings, "num_labels", 0) or 0)
    return tuple(str(named.get(i, i)) for i in range(min(count, MOST_LABELS)))
