"""The controls of the lesson "Positions"."""

from collections.abc import Sequence
from typing import Any, cast

import streamlit as st

from transformer.lessons.positions import Variant
from transformer.lessons.sentences import Sentence, source_sentence
from transformer.lessons.toy import toy_sentences, toy_transformer
from transformer.nn.seq2seq import Seq2Seq
from ui.shared import controls
from ui.shared.address import choice, line, whole
from ui.store import store
from ui.texts import plain, t

SCREENS = ("table", "waves", "distance", "rotation", "variants", "later", "order", "end", "share")
BASES = ("10", "100", "1000", "10000", "100000")

DEFAULTS: dict[str, Any] = {
    "screen": "table", "d_table": 64, "n_rows": 100, "base": "10000", "variant": "paper", "other": "doubled",
    "dim": 2, "steps": 3, "p": 0, "whose": "trained", "how": "paper", "slope": 0.5, "made": "toy", "draw": 1,
    "ready": 16, "asked": 24, "of": "shipped",
}  # fmt: skip
"""Every control of the page and where it stands at first."""

TRY: dict[str, dict[str, Any]] = {
    "try_slip": {"screen": "variants", "other": "doubled"},
    "try_base": {"screen": "waves", "base": "10", "d_table": 16},
    "try_single": {"screen": "waves", "d_table": 16, "dim": 9},
    "try_rotation": {"screen": "rotation", "steps": 7, "d_table": 8},
    "try_start": {"screen": "rotation", "steps": 7, "d_table": 8, "p": 50},
    "try_distance": {"screen": "distance"},
    "try_part": {"screen": "distance", "variant": "doubled"},
    "try_learned": {"screen": "distance", "variant": "learned"},
    "try_set": {"screen": "order"},
    "try_rotary": {"screen": "later", "how": "rotary"},
    "try_slope": {"screen": "later", "how": "alibi", "slope": 2.0},
    "try_end": {"screen": "end", "ready": 16, "asked": 17},
    "try_share": {"screen": "share"},
}
"""Settings worth seeing, by their text."""


def screen() -> str:
    """Which of the page's screens is open."""
    return choice(
        t("positions.screen"), SCREENS, key="screen", bare=True, text=lambda screen: plain(f"positions.screen_{screen}")
    )


def sizes() -> tuple[int, int, float]:
    """d_model, positions and base of the table."""
    with st.popover(t("positions.sizes"), icon=":material/straighten:", width="content"):
        d_model = whole(t("positions.d_model"), 2, 128, 64, key="d_table")
        length = whole(t("positions.length"), 2, 200, 100, key="n_rows")
        base = choice(t("positions.base"), BASES, key="base", default="10000", text=str)
    return d_model, length, float(base)


def variant(key: str, options: Sequence[str], default: str) -> Variant:
    """Which way to tell positions is shown."""
    chosen = choice(
        t("positions.variant"), options, key=key, default=default, form="list", width=210,
        text=lambda variant: plain(f"positions.variant_{variant}"),
    )  # fmt: skip
    return cast(Variant, chosen)


def model(key: str, default: str) -> tuple[Seq2Seq, Sentence] | None:
    """The model and sentence of an experiment; None, with an explanation, when there is no trained one."""
    made = choice(
        t("lessons.model"), ("toy", "shipped"), key=key, default=default, form="list", width=200,
        text=lambda made: plain(f"lessons.{made}"),
    )  # fmt: skip
    if made == "toy":
        return toy_transformer(8, 2, seed=1), toy_sentences(6)[0]
    name = controls.checkpoint_choice("seq2seq")
    if name is None:
        return None
    checkpoint = store.checkpoint(name)
    text = line(t("lessons.source"), "A man rides a bicycle.", key="source", width=320)
    return checkpoint.model_as(Seq2Seq), source_sentence(checkpoint, text)
