"""A model of one text at what it exists for, before and after a change: it writes on, or fills hidden words in."""

import numpy as np
import pandas as pd
import streamlit as st

from transformer import Checkpoint, ContinueOptions
from transformer.runs.any_model import ModelRun
from transformer.runs.continuing import Continuation, continues, parting
from transformer.runs.filling import gap_effects, mask_of
from ui.shared import address, writing
from ui.shared.files import Origin, frame_csv
from ui.shared.numbers import as_written
from ui.store import runs
from ui.texts import in_this_language, plain, t
from ui.what_if import views

TEXT = "text"
"""The query parameter of the text that is read."""


def asked(checkpoint: Checkpoint, text: str) -> ContinueOptions | None:
    """Below the text: how a decoder alone writes on (None: another model), or words to hide of one that fills in."""
    if mask_of(checkpoint):
        writing.words_to_hide(checkpoint, text, lambda hidden: address.put(**{TEXT: hidden}))
    return writing.options_form() if continues(checkpoint) else None


def texts_panel(name: str, text: str, options: ContinueOptions, changes: str) -> None:
    """What the model writes after the text as it is, and what it writes now.

    Each reads what it wrote itself. The same seed lets chance speak alike in both.
    """
    was, now = _both(name, text, options, changes)
    st.markdown(f"**{t('what_if.writes_now')}**")
    views.two_texts(was.texts[-1], now.texts[-1])
    apart = parting(was, now)
    if apart is None:
        st.caption(t("what_if.never_part"))
    else:
        st.caption(t("what_if.part_at", step=apart) if apart else t("what_if.part_at_once"))
    if options.temperature:
        st.caption(t("what_if.same_seed", seed=options.seed))


def steps_panel(name: str, text: str, options: ContinueOptions, changes: str) -> None:
    """One step of both, at first that at which they part: what could come next, and what was written."""
    was, now = _both(name, text, options, changes)
    last = max(len(was.written), len(now.written))
    step = writing.step_choice(last, (name, text, options, changes), parting(was, now), "what_if.step_help")
    for column, title, found in zip(st.columns(2, gap="large"), ("step_before", "step_after"), (was, now), strict=True):
        with column:
            st.markdown(f"**{t(f'what_if.{title}')}**")
            _step(found, step, options, f"next-{title}")


def _both(name: str, text: str, options: ContinueOptions, changes: str) -> tuple[Continuation, Continuation]:
    return runs.continuation(name, text, options), runs.continuation(name, text, options, changes)


def _step(found: Continuation, step: int, options: ContinueOptions, key: str) -> None:
    """The likeliest tokens of one continuation at a step, unless it ended before."""
    if step >= len(found.steps):
        st.caption(t("what_if.ended_before", count=len(found.written)))
        return
    st.caption(t("writing.next_after", token=writing.readable(found.last(step))))
    writing.next_table(found.steps[step], options, key)
    writing.then(found, step)


def gaps_panel(checkpoint: Checkpoint, before: ModelRun, after: ModelRun, origin: Origin) -> None:
    """Of each hidden word the likeliest ones, before and after."""
    st.markdown(f"**{t('writing.gaps_title')}**", help=t("what_if.gaps_help"))
    found = gap_effects(checkpoint, before, after)
    if not found:
        st.caption(t("writing.gaps_none", mask=mask_of(checkpoint)))
        return
    bar = {
        plain(f"what_if.class_{name}"): st.column_config.ProgressColumn(min_value=0.0, max_value=1.0, format="%.4f")
        for name in ("before", "after")
    }
    changed = plain("what_if.gap_change")
    change = {changed: st.column_config.NumberColumn(format="%+.3f")}
    tables = []
    for number, gap in enumerate(found, 1):
        table = pd.DataFrame(
            {
                plain("what_if.gap_word"): [writing.readable(word) for word in gap.words],
                plain("what_if.class_before"): gap.before,
                plain("what_if.class_after"): gap.after,
                changed: np.log(gap.after) - np.log(gap.before),
            }
        )
        st.markdown(f"**{t('writing.gap', number=number)}**")
        shown = table.assign(**{changed: as_written(table[changed], 3)})
        st.dataframe(shown, hide_index=True, key=f"gap-{number}", column_config=bar | change, placeholder="-")
        tables.append(table.assign(**{plain("what_if.gap"): number}))
    about = plain("files.about_separator").join(origin.facts())
    named = pd.concat(tables).assign(**{plain("what_if.csv_about"): about})
    st.download_button(
        t("what_if.effects_csv"), in_this_language(lambda: frame_csv(named)), f"{origin.stem('gaps')}.csv", "text/csv",
        on_click="ignore", icon=":material/download:", key="gaps-csv",
    )  # fmt: skip
