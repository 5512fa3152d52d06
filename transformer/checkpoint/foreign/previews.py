"""A look at what each possible number of heads would mean, before one is chosen: the first layer's attention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float

from transformer.attention.capture import recording
from transformer.checkpoint.checkpoint import ARCHITECTURES
from transformer.checkpoint.foreign.build import model_of
from transformer.checkpoint.foreign.bundle import Bundle
from transformer.checkpoint.foreign.layouts import Fit
from transformer.checkpoint.foreign.questions import Question
from transformer.checkpoint.meta_shapes import meta_shapes
from transformer.errors import CheckpointError

SITE = "encoder.0.self"
PREVIEWS = 6
"""Numbers of heads that are offered a look, at most."""

NARROWEST, WIDEST = 4, 256
"""Numbers a head that trained models have: fewer can hardly tell keys apart, more are not seen."""

MAX_TOKENS = 24


@dataclass(frozen=True, eq=False)
class Preview:
    """The first layer's heads, if there were `n_heads` of them."""

    n_heads: int
    weights: Float[np.ndarray, "head query key"]
    visible: Bool[np.ndarray, "query key"]


def plausible_heads(question: Question, d_model: int) -> tuple[int, ...]:
    """The numbers of heads worth a look: those nearest to the default that leave a head a usual width."""
    usual = [n for n in question.options if NARROWEST <= d_model // n <= WIDEST] or list(question.options)
    nearest = sorted(usual, key=lambda n: abs(np.log2(n / question.default)))[:PREVIEWS]
    return tuple(sorted({*nearest, question.default}))


def head_previews(
    bundle: Bundle, answers: Mapping[str, Any], counts: Sequence[int], ids: Sequence[int]
) -> tuple[Preview, ...]:
    """The first encoder layer's attention over the first of `ids`, for each of the `counts` of heads.

    Only that layer is built.

    Raises:
        CheckpointError: the weights fit no layout with such an encoder.
    """
    return tuple(_preview(bundle, {**answers, "n_heads": count}, count, ids) for count in counts)


def _preview(bundle: Bundle, answers: Mapping[str, Any], count: int, ids: Sequence[int]) -> Preview:
    recognition = bundle.recognised(answers)
    if recognition.fit is None or not recognition.report.fits:
        raise CheckpointError("no_fit", report=recognition.report.text)
    model: Any = model_of(_first_layer(recognition.fit), recognition.contents.tensors, bundle.name)
    tokens = torch.tensor([list(ids[:MAX_TOKENS])])
    with torch.inference_mode(), recording() as seen:
        if model.abilities.translates:
            model.encode(tokens)
        else:
            model(tokens)
    attention = seen.map(SITE if SITE in seen.sites else seen.sites[0])
    return Preview(count, attention.all_weights(), attention.mask())


def _first_layer(fit: Fit) -> Fit:
    """The same with one layer a stack."""
    layers = ("n_layers", "n_encoder_layers", "n_decoder_layers")
    config = replace(fit.config, **{name: 1 for name in layers if getattr(fit.config, name, 0) > 1})
    model_type, _ = ARCHITECTURES[fit.architecture]
    needed = meta_shapes(model_type, config)
    return replace(fit, config=config, sources={name: s for name, s in fit.sources.items() if name in needed})
