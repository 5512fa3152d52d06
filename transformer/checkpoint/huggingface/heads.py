"""What a model of one text was saved with on its states: told by the class that saved it, where it is known here."""

from typing import Any, Final

from transformer.checkpoint.huggingface.folder import FolderContents
from transformer.checkpoint.huggingface.library import tables
from transformer.checkpoint.huggingface.model import Head, Kind

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
