"""What a model of one text exists for: a decoder writes on, an encoder fills hidden words in."""

import pandas as pd
import streamlit as st

from transformer import Checkpoint, ContinueOptions
from transformer.pictures.axes import WORD_START
from transformer.runs.any_model import AnyRun
from transformer.runs.continuing import Continuation
from transformer.runs.filling import filled, hidden, mask_of
from ui.shared import address
from ui.shared.token_strip import token_strip
from ui.store import runs
from ui.texts import plain, t
from ui.texts.markdown import as_text

MOST, USUAL = 40, 20
"""Tokens that are written at most, and at first."""

MORE, STEP, INPUT = "more", "at", "input"
"""The query parameters of how many tokens are written, of the step that is looked at, and of the text."""

WAYS = ("greedy", "draw")

MOST_WORDS = 60
"""Words of a text that have a button: more of them are hidden by typing."""


def continue_panel(name: str, text: str) -> tuple[AnyRun, AnyRun]:
    """What comes next, written as far as asked for. Two runs: as far as the step that is looked at, and the whole one.

    Raises:
        InputError: the text cannot be read, or leaves no room.
    """
    st.subheader(t("checkpoints.continue_title"), anchor=False)
    options = _options()
    found = runs.continuation(name, text, options)
    address.belong_to((name, text, options), STEP)
    last = len(found.written)
    step = address.whole(t("checkpoints.continue_step"), 0, last, last, key=STEP, help=t("checkpoints.continue_help"))
    if found.written:
        st.text(found.texts[-1])
        token_strip(found.tokens, step if step < last else None)
    _next(found, step, options)
    return found.at(step), found.run


def _options() -> ContinueOptions:
    """How much is written and how: in the address, like everything else."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="continue-options"):
        count = address.whole(t("checkpoints.continue_count"), 0, MOST, 0, key=MORE, width=220)
        if count:
            st.button(t("checkpoints.continue_back"), key="continue-back", on_click=_write, args=(None,))
        else:
            st.button(
                t("checkpoints.continue"), key="continue", type="primary", icon=":material/edit_note:",
                on_click=_write, args=(USUAL,),
            )  # fmt: skip
        way = address.choice(
            t("checkpoints.continue_way"), WAYS, key="way", text=lambda way: plain(f"checkpoints.continue_{way}")
        )
        if way == "greedy":
            return ContinueOptions(count)
        temperature = address.tenths(t("checkpoints.temperature"), 0.1, 3.0, 1.0, key="temperature", width=180)
        top_k = address.whole(
            t("checkpoints.top_k"), 0, 100, 50, key="top-k", width=180, help=t("checkpoints.top_k_help")
        )
        seed = address.whole(t("checkpoints.seed"), 0, 9999, 0, key="seed", width=140)
    return ContinueOptions(count, temperature, top_k, seed)


def _next(found: Continuation, step: int, options: ContinueOptions) -> None:
    """The likeliest tokens of a step, and which row of the maps they were read from."""
    likeliest = found.steps[step]
    axis = next(each.keys for each in found.run.record.values())
    last = axis.texts[found.prompt + step - 1]
    st.markdown(f"**{t('checkpoints.next_after', token=readable(last))}**")
    columns = {
        t("checkpoints.next_token"): [readable(one.text) for one in likeliest],
        t("checkpoints.next_probability"): [one.probability for one in likeliest],
    }
    if options.temperature:
        drawn = "checkpoints.next_chance" if options.top_k else "checkpoints.next_chance_all"
        named = plain(drawn, temperature=options.temperature, top_k=options.top_k)
        columns[named] = [one.chance for one in likeliest]
    bars = {
        name: st.column_config.ProgressColumn(name, min_value=0.0, max_value=1.0, format="%.3f")
        for name in list(columns)[1:]
    }
    st.dataframe(pd.DataFrame(columns), hide_index=True, key="next", column_config=bars)
    if step < len(found.written):
        token = found.tokens[step]
        then = t("checkpoints.next_written", token=readable(token.text), rank=token.rank + 1)
    else:
        then = t("checkpoints.next_ended") if found.finished else ""
    st.caption(f"{t('checkpoints.next_note', count=found.prompt + step)} {then}")


def gaps_panel(name: str, checkpoint: Checkpoint, text: str) -> None:
    """Words to hide, and for each hidden one the likeliest; a click puts it in.

    Raises:
        InputError: the text cannot be read.
    """
    mask = mask_of(checkpoint)
    st.subheader(t("checkpoints.gaps_title"), anchor=False)
    words = text.split()
    with st.container(horizontal=True, gap="xsmall", key="gap-words"):
        st.caption(t("checkpoints.gaps_hide"), width="content")
        for place, word in enumerate(words[:MOST_WORDS]):
            if mask not in word:
                st.button(as_text(word), key=f"hide-{place}", on_click=_type, args=(hidden(text, mask, place),))
    gaps = runs.gaps(name, text)
    if not gaps:
        st.caption(t("checkpoints.gaps_none", mask=mask))
        return
    for number, gap in enumerate(gaps):
        with st.container(horizontal=True, gap="xsmall", vertical_alignment="center", key=f"gap-{number}"):
            st.markdown(f"**{t('checkpoints.gap', number=number + 1)}**", width="content")
            for rank, (one, word) in enumerate(zip(gap.candidates, gap.words, strict=True)):
                label = f"{as_text(readable(one.text))} · {one.probability:.3f}"
                text_then = filled(text, mask, number, word)
                st.button(
                    label, key=f"gap-{number}-{rank}", on_click=_type, args=(text_then,), disabled=not word
                )  # what stands for no text cannot be typed
    st.caption(t("checkpoints.gaps_note"))


def readable(label: str) -> str:
    """A token without the mark of the space before it."""
    return label.removeprefix(WORD_START) or label


def _write(count: int | None) -> None:
    address.put(**{MORE: count, STEP: None})


def _type(text: str) -> None:
    address.put(**{INPUT: text})
