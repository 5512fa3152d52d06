"""What a checkpoint is, in one line: family, layers x heads x width, parameters, and what it can do."""

from collections import Counter
from typing import Any

import streamlit as st

from transformer import Checkpoint
from transformer.messages import Message
from transformer.runs.continuing import continues
from transformer.runs.filling import mask_of
from ui.markdown import as_text
from ui.texts import plain, said

HEADS = ("n_heads", "num_attention_heads", "encoder_attention_heads", "n_head", "num_heads")
WIDTHS = ("d_model", "hidden_size", "hidden", "n_embd", "dim")
"""What configs call the number of heads, and the width of a position's vector."""


def identity_panel(checkpoint: Checkpoint) -> None:
    """The line."""
    layers = Counter(site.group for site in checkpoint.sites)
    config: Any = checkpoint.model.config
    own = getattr(getattr(checkpoint.model, "net", None), "config", config)  # another library's
    family = getattr(config, "family", "") or said(Message(f"noun_{checkpoint.architecture}"))
    sizes = [plain("your_model.layers", count=layers.get("encoder.self", 0) or max(layers.values(), default=0))]
    if "encoder.self" in layers and "decoder.self" in layers:
        both = {"encoder": layers["encoder.self"], "decoder": layers["decoder.self"]}
        sizes = [plain("your_model.layers_both", **both)]
    for name, known in (("heads", HEADS), ("width", WIDTHS)):
        size = next((getattr(own, one) for one in known if isinstance(getattr(own, one, None), int)), None)
        sizes += [plain(f"your_model.{name}", count=size)] if size else []
    numbers = plain("your_model.parameters", count=checkpoint.n_parameters)
    parts = [plain("your_model.times").join(sizes), numbers, _can(checkpoint)]
    rest = " · ".join(parts)
    st.markdown(f"**{as_text(family)}** · {as_text(rest)}")


def _can(checkpoint: Checkpoint) -> str:
    """What it can do with an input."""
    if checkpoint.translates:
        return plain("your_model.can_translate", source=checkpoint.languages[0], target=checkpoint.languages[1])
    if checkpoint.task is not None:
        return plain("your_model.can_classify", classes=plain("checkpoints.or").join(checkpoint.task.classes))
    if continues(checkpoint):
        return plain("your_model.can_write")
    if mask_of(checkpoint):
        return plain("your_model.can_fill")
    classes = getattr(checkpoint.model.config, "labels", ())
    return (
        plain("your_model.can_classify", classes=plain("checkpoints.or").join(classes))
        if classes
        else plain("your_model.can_read")
    )
