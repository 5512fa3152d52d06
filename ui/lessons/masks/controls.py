"""The controls of the lesson "Masks"."""

from typing import Any, cast

import streamlit as st

from transformer.errors import InputError
from transformer.lessons.breaking import AXES, BREAKS, Break
from transformer.lessons.conventions import VISIBLE
from transformer.lessons.masks import KINDS, Batch
from transformer.runs.translate import MAX_CHARACTERS
from transformer.sites import Site
from ui.lessons.masks.example import Example
from ui.shared import controls
from ui.shared.address import choice, lines, put
from ui.texts import plain, t

SCREENS = ("build", "scores", "break", "conventions", "module", "test")
"""Every screen of the page: first what a mask is and does, then how libraries want it."""

SITES = {"encoder": ("encoder", "self"), "decoder": ("decoder", "self"), "cross": ("decoder", "cross")}
"""The attention that is looked at: its stack and its kind."""

SOURCES = "two dogs run\na man rides a red bicycle"
TARGETS = "zwei Hunde rennen\nein Mann fährt ein rotes Fahrrad"

DEFAULTS: dict[str, Any] = {
    "made": "toy", "sources": SOURCES, "targets": TARGETS, "row": "1", "screen": "build", "mask": "both",
    "at": "decoder", "at_layer": "0", "at_head": "0", "given": VISIBLE,
    "convention": "annotated_source", "how": "no_causal", "mask_form": "key_padding", "batch_first": True,
    "weights": "mean", "own_widths": False, "more": "none",
}  # fmt: skip
"""Every control of the page and where it stands at first."""

TRY: dict[str, dict[str, Any]] = {
    "try_padding": {"mask": "padding"},
    "try_both": {"mask": "both"},
    "try_scores": {"screen": "scores"},
    "try_conventions": {"screen": "conventions", "convention": "attn_3d"},
    "try_convert": {"screen": "conventions", "given": "annotated_target", "convention": "attn_3d"},
    "try_module": {"screen": "module", "mask_form": "attn_3d", "weights": "heads"},
    "try_future": {"screen": "break", "how": "no_causal"},
    "try_shift": {"screen": "break", "how": "shift", "made": "shipped"},
    "try_transpose": {"screen": "break", "how": "transpose", "made": "shipped"},
    "try_forget": {"screen": "break", "how": "no_padding", "at": "encoder", "made": "shipped"},
    "try_axes": {"screen": "break", "how": "axes", "made": "shipped"},
    "try_test": {"screen": "test"},
}
"""Settings worth seeing, by their text."""


def example() -> Example | None:
    """Choose the model and type the batch; None, with an explanation, when there is no trained model.

    Raises:
        InputError: the batch cannot be read.
    """
    with st.popover(t("masks.batch"), icon=":material/edit:", width="content"):
        made = choice(t("lessons.model"), ("toy", "shipped"), key="made", text=lambda made: plain(f"lessons.{made}"))
        typed = [
            lines(t("masks.sources"), SOURCES, key="sources"),
            lines(t("masks.targets"), TARGETS, key="targets"),
        ]
    name = controls.checkpoint_choice("seq2seq") if made == "shipped" else None
    if made == "shipped" and name is None:
        return None
    if max(map(len, typed)) > MAX_CHARACTERS:
        raise InputError("masks_batch_too_long", most=MAX_CHARACTERS)
    sources, targets = (tuple(line for line in text.splitlines() if line.strip()) for text in typed)
    return Example.of_toy((sources, targets)) if name is None else Example.of_checkpoint(name, (sources, targets))


def screen() -> str:
    """Which of the page's screens is open."""
    return choice(
        t("masks.screen"), SCREENS, key="screen", bare=True,
        text=lambda screen: plain(f"masks.screen_{screen}"),
    )  # fmt: skip


def row(batch: Batch) -> int:
    """Which sentence of the batch is shown, from 0."""
    rows = [str(i + 1) for i in range(len(batch))]
    return int(choice(t("masks.sentence"), rows, key="row", form="list", width=80, text=str)) - 1


def kind() -> str:
    """Which mask is built."""
    return choice(
        t("masks.kind"), KINDS, key="mask", default="both", form="list", width=290,
        text=lambda kind: plain(f"masks.kind_{kind}"),
    )  # fmt: skip


def site(shown: Example) -> Site:
    """Which attention is looked at, and in which layer where there are several."""
    at = choice(
        t("masks.site"), list(SITES), key="at", default="decoder", form="list", width=160,
        text=lambda at: plain(f"masks.site_{at}"),
    )  # fmt: skip
    stack, kind = SITES[at]
    layers = [str(layer) for layer in range(shown.layers(stack))]
    layer = "0"
    if len(layers) > 1:
        layer = choice(t("lessons.layer"), layers, key="at_layer", form="list", width=70, text=str)
    return Site.of(stack, int(layer), kind)


def look_at(site: Site, head: int, row: int) -> None:
    """Set the controls to one attention of one sentence; head and sentence count from 0."""
    at = next(name for name, sort in SITES.items() if sort == (site.stack, site.kind))
    chosen = {"at": at, "at_layer": str(site.layer), "at_head": str(head), "row": str(row + 1)}
    put(**{key: None if value == DEFAULTS[key] else value for key, value in chosen.items()})


def kind_of(site: Site) -> str:
    """The kind of mask that a site's attention has."""
    return {"encoder.self": "padding", "decoder.self": "both", "decoder.cross": "cross"}[site.group]


def head(shown: Example) -> int:
    """Which head is looked at."""
    heads = [str(head) for head in range(shown.n_heads)]
    return int(choice(t("lessons.head"), heads, key="at_head", form="list", width=70, text=str))


def how() -> Break:
    """How the mask is broken."""
    chosen = choice(
        t("masks.break"), (*BREAKS, AXES), key="how", default="no_causal", form="list", width=170,
        text=lambda how: plain(f"masks.break_{how}"),
    )  # fmt: skip
    return cast(Break, chosen)
