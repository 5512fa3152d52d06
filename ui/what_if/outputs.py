"""What a model of one text ends with, before and after changes: each kind of output in its own way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

from heedmap import Checkpoint
from heedmap.attention.interventions.value import to_text
from heedmap.plots.labels import readable
from heedmap.runs import what_if
from heedmap.runs.any_model import ModelRun, numbers_of, predictions_of
from heedmap.runs.continuing import gap_effects, mask_of
from ui.shared import address
from ui.shared.bars import signed
from ui.shared.files import Provenance, bars, table
from ui.texts import plain, t
from ui.what_if import views

FOLLOWING = "following"
"""The query parameter of the next token that is followed: its id."""

NEXT = 10
"""How many of the likeliest next tokens can be chosen."""


@dataclass(frozen=True, eq=False)
class Both:
    """Both runs of one text (and of what a decoder alone wrote after it), and where their files say they come from."""

    checkpoint: Checkpoint
    before: ModelRun
    after: ModelRun
    origin: Provenance
    goes_on: bool

    def names(self, width: int) -> Callable[[Sequence[int]], list[str]]:
        """What a person reads for each output: classes by name, tokens where there is one for each, else numbers."""
        named = getattr(self.checkpoint.model.config, "labels", ())
        if len(named) == width:
            return lambda ids: [named[i] for i in ids]
        reader = self.checkpoint.tokenizer
        known = 0 if reader is None or width < len(reader) else len(reader)
        return lambda ids: [str(i) if reader is None or i >= known else reader.labels([i])[0] for i in ids]

    @property
    def labels(self) -> Sequence[str]:
        """The tokens that were read."""
        return next(iter(self.before.record.values())).keys.labels


def _classes(shown: Both) -> None:
    """Each class of a head over the whole text: its probability before and after, and the change of its log-odds."""
    st.markdown(f"**{t('what_if.read_classes')}**", help=t("what_if.read_classes_help"))
    answers = predictions_of(shown.checkpoint, shown.before.outputs)
    if answers is not None:
        was, now = (run.outputs["logits"] / answers.temperature for run in (shown.before, shown.after))
        views.class_table(what_if.logit_effects(answers.names, was, now, answers.each), shown.origin)


def _next(shown: Both) -> None:
    """Log p of each token after those before it, and of a chosen one after the text."""
    last = what_if.scores(shown.before)[-1]
    names = shown.names(len(last))
    likeliest = [str(i) for i in last.topk(min(NEXT, len(last))).indices.tolist()]
    address.belong_to((shown.origin.checkpoint, shown.origin.text), FOLLOWING)
    following = address.choice(
        t("what_if.read_following"), likeliest, key=FOLLOWING, form="list", width="stretch",
        text=lambda one: names([int(one)])[0], help=t("what_if.read_following_help"),
    )  # fmt: skip
    ids, own = what_if.asked_about(shown.before, "next", int(following)), list(shown.labels)[1:]
    texts = [*own, plain("what_if.read_after_text", token=names([int(following)])[0])]
    st.markdown(f"**{t('what_if.read_next')}**", help=t("what_if.read_next_help"))
    if shown.goes_on:
        st.caption(t("what_if.read_written"))
    _by_position(shown, ids, texts, own=len(own))


def _positions(shown: Both) -> None:
    """Log p, at each position, of what the unchanged model holds likeliest there."""
    ids = what_if.asked_about(shown.before, "positions")
    names = shown.names(what_if.scores(shown.before).shape[1])
    pairs = zip(shown.labels, names(ids), strict=True)
    texts = [plain("what_if.donor_label", own=token, other=other) for token, other in pairs]
    st.markdown(f"**{t('what_if.read_positions')}**", help=t("what_if.read_positions_help"))
    _by_position(shown, ids, texts)


def _by_position(shown: Both, ids: list[int], texts: list[str], own: int = 0) -> None:
    """Bars over positions, and one of them closely; the first `own` are the text's own tokens, which have a sum."""
    was, now = what_if.scores(shown.before), what_if.scores(shown.after)
    names, origin = shown.names(was.shape[1]), shown.origin
    steps = what_if.step_effects(texts, ids, was, now, names)
    if own:
        st.caption(t("what_if.read_total", total=signed(sum(one.change for one in steps[:own]))))
    place = st.container()
    step = views.step_choice(steps, (origin.checkpoint, origin.text, to_text(origin.changes)), "read_position")
    with place:
        views.bars(steps, step, origin)
    tops = [one[step].topk(min(views.TOP, one.shape[1])).indices.tolist() for one in (was, now)]
    before, after = (
        what_if.step_at(one[step], ids[step], names([ids[step], *top]), top)
        for one, top in zip((was, now), tops, strict=True)
    )
    views.step_panel(steps[step], before, after, is_next=own > 0)


def _states(shown: Both) -> None:
    """A model without a head of its own scores nothing: how far the state of each position moved."""
    st.info(t("what_if.read_no_head"), icon=":material/info:")
    effects = what_if.state_effects(shown.before, shown.after)
    rows = [(one.text, *one.lengths, one.moved) for one in effects]
    names = ("read_token", "read_length_before", "read_length_after", "read_moved")
    views.table_file(_table("states", names, rows), shown.origin, "states")


def _numbers(shown: Both) -> None:
    """The numbers of a regression, before and after: no probabilities, so their differences are all there is."""
    was, now = (numbers_of(shown.checkpoint, run.outputs) for run in (shown.before, shown.after))
    rows = [(name, value, now[name], now[name] - value) for name, value in was.items()]
    _table("numbers", ("number", "number_before", "number_after", "number_change"), rows)


def _table(key: str, names: Sequence[str], rows: Sequence[tuple[object, ...]]) -> pd.DataFrame:
    """Columns under the catalogue's names of them, below a title with a help."""
    st.markdown(f"**{t(f'what_if.read_{key}')}**", help=t(f"what_if.read_{key}_help"))
    return table(rows, [plain(f"what_if.{name}") for name in names], key=key)


def _gaps(shown: Both) -> None:
    """Of each hidden word the likeliest ones, before and after."""
    st.markdown(f"**{t('writing.gaps_title')}**", help=t("what_if.gaps_help"))
    found = gap_effects(shown.checkpoint, shown.before, shown.after)
    if not found:
        st.caption(t("writing.gaps_none", mask=mask_of(shown.checkpoint)))
        return
    was, now, apart = (plain(f"what_if.{name}") for name in ("class_before", "class_after", "gap_change"))
    tables = []
    for number, gap in enumerate(found, 1):
        words = [readable(word) for word in gap.words]
        change = np.log(gap.after) - np.log(gap.before)
        rows = pd.DataFrame({plain("what_if.gap_word"): words, was: gap.before, now: gap.after, apart: change})
        st.markdown(f"**{t('writing.gap', number=number)}**")
        table(rows, formats={apart: "%+.3f"}, key=f"gap-{number}", column_config=bars((was, now), 4))
        tables.append(rows.assign(**{plain("what_if.gap"): number}))
    views.table_file(pd.concat(tables), shown.origin, "gaps")


_OUTPUTS = {"next": _next, "positions": _positions, "classes": _classes, "numbers": _numbers, "states": _states}


def outputs_panel(shown: Both) -> None:
    """Words for gaps, where the text has any, and what the model ends with."""
    if mask_of(shown.checkpoint):
        _gaps(shown)
    _OUTPUTS[what_if.output_kind(shown.before)](shown)
