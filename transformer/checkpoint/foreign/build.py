"""From a file that was recognised to our model with its weights."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from transformer.attention.capture import watch
from transformer.checkpoint.checkpoint import ARCHITECTURES, Checkpoint, Model
from transformer.checkpoint.foreign.inside import tokenizers_inside
from transformer.checkpoint.foreign.layouts import Fit
from transformer.checkpoint.foreign.recognition import Recognition
from transformer.checkpoint.foreign.report import Report
from transformer.checkpoint.ours.folder import fill, in_precision_of
from transformer.errors import CheckpointError


def build(recognition: Recognition, name: str) -> Checkpoint:
    """The model that was recognised. Its text is typed and shown as ids, unless a vocabulary lay beside the weights.

    Raises:
        CheckpointError: it fits no layout (the message is the report), or something must be answered first.
    """
    if recognition.fit is None or not recognition.report.fits:
        raise CheckpointError("no_fit", report=recognition.report.text)
    check_answered(recognition.report)
    tokenizer, target_tokenizer = tokenizers_inside(recognition.contents, recognition.fit.config)
    return Checkpoint(
        name=name,
        model=model_of(recognition.fit, recognition.contents.tensors, recognition.contents.source),
        tokenizer=tokenizer,
        target_tokenizer=target_tokenizer,
        assumptions=recognition.report.assumptions,
    )


def check_answered(report: Report) -> None:
    """Refuse to make a model whose attention depends on what nobody has said.

    Raises:
        CheckpointError: names the questions, and how to answer them.
    """
    if report.open:
        raise CheckpointError("answers_needed", source=report.source, needed=report.needed)


def model_of(fit: Fit, tensors: Mapping[str, Tensor], source: str) -> Model:
    """Our model with the foreign weights, in double precision if that is how they were kept."""
    model_type, _ = ARCHITECTURES[fit.architecture]
    with torch.random.fork_rng(devices=[]):
        model: Any = model_type(fit.config)
    model = in_precision_of(model, tensors)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    fill(model, {name: place.take(tensors, shapes[name]) for name, place in fit.sources.items()}, source)
    return watch(model.eval())
