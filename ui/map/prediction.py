"""What comes next: the distribution at a step, also at another temperature, and what each layer would say.

Nothing is decoded again: the same logits are divided by the temperature. The lens is `transformer.explain.flow.lens`.
"""

import numpy as np
import pandas as pd
import streamlit as st
import torch

from transformer import Checkpoint
from transformer.attention.measures import entropy
from transformer.explain.flow.lens import Lens
from transformer.runs.continuing import chances
from ui.map.drawing import readable
from ui.map.runs import Shown, tempered
from ui.shared import controls, writing
from ui.shared.address import tenths
from ui.shared.writing import COLDEST, HOTTEST, TEMPERATURE
from ui.texts import plain, t


def prediction_panel(checkpoint: Checkpoint, shown: Shown, step: int, is_narrow: bool = False) -> None:
    """Both, one below the other; unless it is narrow, the first is folded: its best stand on top of the map."""
    if shown.said is not None and shown.said.numbers:
        numbers = shown.said.numbers
        st.markdown(f"**{t('checkpoints.numbers')}**")
        table = pd.DataFrame([list(numbers.values())], columns=list(numbers))
        st.dataframe(table, hide_index=True, key="next", placeholder="-")
        return
    if not shown.next:
        st.caption(t("map.no_output"))
        return
    row = shown.row_of(step)
    fills = shown.said is not None and shown.said.fills
    title = t("map.word_here" if fills else "map.classes" if shown.classes else "map.next_word")
    with st.container() if is_narrow else st.expander(title, icon=":material/bar_chart:"):
        st.markdown(f"**{title}** · {t('map.at', word=_label(shown, row))}")
        _odds(checkpoint, shown, row)
    _lens(checkpoint, shown, row, is_narrow)


def names_of(checkpoint: Checkpoint, shown: Shown, ids: list[int]) -> list[str]:
    """Outputs by name: classes, or tokens."""
    if shown.classes:
        return [shown.classes[i] for i in ids]
    writer = checkpoint.writer
    return [str(i) for i in ids] if writer is None else [readable(label) for label in writer.labels(ids)]


def _odds(checkpoint: Checkpoint, shown: Shown, row: int) -> None:
    each = shown.said is not None and shown.said.each
    drawn = shown.options if shown.options is not None and shown.options.temperature else None
    temperature = _temperature() if drawn is None else drawn.temperature
    logits = shown.logits[row] / shown.own_temperature
    before, after = tempered(logits, 1.0, each), tempered(logits, temperature, each)
    top = [int(i) for i in np.argsort(-before, kind="stable")[:10]]
    names = names_of(checkpoint, shown, top)
    columns = {t("map.output_name"): names, t("map.probability"): before[top]}
    if drawn is not None:
        columns[writing.chance_title(drawn)] = chances(torch.from_numpy(logits).double(), drawn).numpy()[top]
    elif temperature != 1.0:
        columns[t("map.probability_at", temperature=temperature)] = after[top]
    bars = {
        name: st.column_config.ProgressColumn(name, min_value=0.0, max_value=1.0, format="%.3f")
        for name in list(columns)[1:]
    }
    st.dataframe(pd.DataFrame(columns), hide_index=True, key="next", column_config=bars, placeholder="-")
    if each:
        st.caption(t("checkpoints.classes_each"))
        return
    entropies = [float(entropy(odds)) for odds in (before, after)]
    if temperature == 1.0:
        st.caption(t("map.entropy", nats=entropies[0]))
    else:
        st.caption(t("map.entropies", before=entropies[0], after=entropies[1], temperature=temperature))
    written = shown.written_at(row)
    if shown.continued is not None and written is not None:
        writing.then(shown.continued, written)


def _temperature() -> float:
    """Another temperature to look at, where nothing was drawn at one."""
    return tenths(t("map.temperature"), COLDEST, HOTTEST, 1.0, key=TEMPERATURE, help=t("map.temperature_help"))


def _lens(checkpoint: Checkpoint, shown: Shown, row: int, is_narrow: bool) -> None:
    st.markdown(f"**{t('map.lens')}**", help=t("map.lens_help"))
    lens = shown.flow.lens
    if lens is None:
        st.caption(controls.sentence(shown.flow.no_lens))
        return
    tops = [int(i) for i in lens.ids[:, row, 0]]
    final = names_of(checkpoint, shown, [int(lens.final[row])])[0]
    after = [plain("map.before_layers" if i == 0 else "map.after_layer", layer=i - 1) for i in range(len(tops))]
    columns = {
        t("map.after"): after,
        t("map.would_write"): names_of(checkpoint, shown, tops),
        t("map.probability"): lens.probabilities[:, row, 0],
        t("map.of_final", word=final): lens.final_probabilities[:, row],
        t("map.entropy_column"): lens.entropy[:, row],
    }
    if is_narrow:
        del columns[t("map.of_final", word=final)]
    table = pd.DataFrame(columns)[::-1]  # the last layer on top, as on the map
    config = {
        name: st.column_config.ProgressColumn(name, min_value=0.0, max_value=1.0, format="%.3f")
        for name in list(columns)[2:-1]
    }
    config[t("map.entropy_column")] = st.column_config.NumberColumn(format="%.2f")
    st.dataframe(table, hide_index=True, key="lens", column_config=config, placeholder="-")
    _lead(lens, row, final, after)
    if lens.note:
        st.caption(controls.sentence(lens.note))


def _lead(lens: Lens, row: int, final: str, after: list[str]) -> None:
    """Since when the final output is the likeliest; and where it was before another one took the lead once more."""
    first = int(lens.leads_from[row])
    earlier = plain("map.and").join(after[i] for i in np.flatnonzero(lens.leads[:first, row]))
    if first == len(lens.ids):
        st.caption(t("map.leads_only", word=final, rows=earlier) if earlier else t("map.never_leads", word=final))
        return
    st.caption(t("map.leads_from", word=final, layer=first - 1) if first else t("map.leads_at_once", word=final))
    if earlier:
        st.caption(t("map.led_before", rows=earlier))


def _label(shown: Shown, row: int) -> str:
    """Which step a row is about."""
    if shown.is_one_answer:
        return plain("map.whole_input")
    return readable(shown.steps[row])
