"""The controls of the lesson "Masks"."""

from typing import Any, cast

import streamlit as st

from transformer.errors import InputError
from transformer.lessons.breaking import BREAKS, Break
from transformer.lessons.conventions import VISIBLE
from transformer.lessons.masks import KINDS, Batch
from transformer.runs.translate import MAX_CHARACTERS
from transformer.sites import Site
from ui.lessons.masks.example import Example
from ui.shared import controls
from ui.shared.address import choice, lines
from ui.texts import t

SITES = {
    "encoder": Site.of("encoder", 0, "self"),
    "decoder": Site.of("decoder", 0, "self"),
    "cross": Site.of("decoder", 0, "cross"),
}
SOURCES = "two dogs run\na man rides a red bicycle"
TARGETS = "zwei Hunde rennen\nein Mann fährt ein rotes Fahrrad"

DEFAULTS: dict[str, Any] = {
    "made": "toy", "sources": SOURCES, "targets": TARGETS, "row": "1", "screen": "build", "mask": "both",
    "at": "decoder", "given": VISIBLE, "convention": "annotated", "how": "no_causal",
}  # fmt: skip
"""Every control of the page and where it stands at first."""

TRY: dict[str, dict[str, Any]] = {
    "try_padding": {"mask": "padding"},
    "try_both": {"mask": "both"},
    "try_scores": {"screen": "scores"},
    "try_conventions": {"screen": "conventions", "convention": "attn_mask"},
    "try_convert": {"screen": "conventions", "given": "annotated", "convention": "attn_mask"},
    "try_future": {"screen": "break", "how": "no_causal"},
    "try_shift": {"screen": "break", "how": "shift", "made": "shipped"},
    "try_transpose": {"screen": "break", "how": "transpose", "made": "shipped"},
    "try_forget": {"screen": "break", "how": "no_padding", "at": "encoder", "made": "shipped"},
    "try_test": {"screen": "test"},
}
"""Settings worth seeing, by their text."""


def example() -> Example | None:
    """Choose the model and type the batch; None, with an explanation, when there is no trained model.

    Raises:
        InputError: the batch cannot be read.
    """
    made = choice(t("lessons.model"), ("toy", "shipped"), key="made", bare=True, text=lambda made: t(f"lessons.{made}"))
    name = controls.checkpoint_choice("seq2seq") if made == "shipped" else None
    if made == "shipped" and name is None:
        return None
    with st.popover(t("masks.batch"), icon=":material/edit:", width="content"):
        typed = [
            lines(t("masks.sources"), SOURCES, key="sources"),
            lines(t("masks.targets"), TARGETS, key="targets"),
        ]
    if max(map(len, typed)) > MAX_CHARACTERS:
        raise InputError("masks_batch_too_long", most=MAX_CHARACTERS)
    sources, targets = (tuple(line for line in text.splitlines() if line.strip()) for text in typed)
    return Example.of_toy((sources, targets)) if name is None else Example.of_checkpoint(name, (sources, targets))


def screen() -> str:
    """Which of the page's screens is open."""
    return choice(
        t("masks.screen"), ("build", "scores", "conventions", "break", "test"), key="screen", bare=True,
        text=lambda screen: t(f"masks.screen_{screen}"),
    )  # fmt: skip


def row(batch: Batch) -> int:
    """Which sentence of the batch is shown, from 0."""
    return int(choice(t("masks.sentence"), [str(i + 1) for i in range(len(batch))], key="row", text=str)) - 1


def kind() -> str:
    """Which mask is built."""
    return choice(t("masks.kind"), KINDS, key="mask", default="both", bare=True, text=lambda k: t(f"masks.kind_{k}"))


def site() -> Site:
    """Which attention is looked at."""
    at = choice(
        t("masks.site"), list(SITES), key="at", default="decoder", bare=True, text=lambda at: t(f"masks.site_{at}")
    )
    return SITES[at]


def kind_of(site: str) -> str:
    """The kind of mask that a site's attention has."""
    return {"encoder.0.self": "padding", "decoder.0.self": "both", "decoder.0.cross": "cross"}[site]


def head(shown: Example) -> int:
    """Which head is looked at."""
    heads = [str(head) for head in range(shown.n_heads)]
    return int(choice(t("lessons.head"), heads, key="at_head", text=str))


def how() -> Break:
    """How the mask is broken."""
    chosen = choice(
        t("masks.break"), BREAKS, key="how", default="no_causal", bare=True, text=lambda how: t(f"masks.break_{how}")
    )
    return cast(Break, chosen)
