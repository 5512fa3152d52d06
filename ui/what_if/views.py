"""The sentence before and after, and what became of each written token."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import streamlit as st

from heedmap import Translation
from heedmap.messages import words
from heedmap.plots.axes import Axis
from heedmap.plots.labels import readable
from heedmap.runs.what_if import OF_SOURCE, ClassEffect, StepEffect, Word, aligned_words, for_nobody
from heedmap.sites import Site
from heedmap.text.beams import Step
from ui.shared import changes as changes_
from ui.shared import subject
from ui.shared.address import belong_to, whole
from ui.shared.bars import effects, next_tokens, signed
from ui.shared.changes import Changes, ForNobody, Group
from ui.shared.files import Provenance, save_button, table
from ui.shared.files import bars as part_of_one
from ui.texts import as_html, as_text, plain, t

STEP, HIDDEN = "written", "hidden-words"
"""The query parameter of the step, from 1 as on Translate, and the key of the words."""
TOP = 5
"""How many of the likeliest tokens of a step are shown."""


CSV = ("token", "change", "rival", "margin", "rival_now", "margin_now", "divergence", "rank", "rank_now")
"""The columns of the table of effects."""


def two_texts(before: str, after: str | None) -> None:
    """What is said before and after a change; None where a target is forced."""
    if after is None:
        texts(was=before)
        st.caption(t("what_if.forced"))
        return
    texts(was=before, now=after)
    if before == after:
        st.caption(t("what_if.words_same"))


def texts(size: str = "", read: str = "", **sides: str) -> None:
    """One or two texts below each other, each behind the name of its side, with the words marked that differ.

    Above them stands what was `read`, if it is given.
    """
    first, *others = sides.values()
    marked = map(_marked, aligned_words(first, *(others or [first])))
    shown = ({"read": as_html(read)} if read else {}) | dict(zip(sides, marked, strict=False))
    rows = "".join(
        f"<small>{as_html(plain(f'what_if.side_{side}'))}</small>"
        f'<p class="words {side}" data-testid="words-{side}">{text}</p>'
        for side, text in shown.items()
    )
    st.html(f'<div class="two-texts{size}">{rows}</div>')


def words_to_hide(before: Translation, changes: Changes) -> list[Group]:
    """The words of the source, of which one that is pressed is hidden from everybody; and what hides each of them."""
    words = before.axes.source.merged().labels
    nobody = [
        Group(plain("what_if.nobody_chip", word=word), tuple(for_nobody(before, i))) for i, word in enumerate(words)
    ]
    hidden = [i for i, group in enumerate(nobody) if set(group.ones) <= set(changes)]
    if st.session_state.get(HIDDEN) != hidden:
        st.session_state[HIDDEN] = hidden

    def press() -> None:
        now = st.session_state[HIDDEN]
        for i in set(hidden) - set(now):
            changes_.remove(nobody[i].ones)
        for i in sorted(set(now) - set(hidden)):
            changes_.add(*nobody[i].ones)

    st.pills(
        t("what_if.words"), range(len(words)), selection_mode="multi", key=HIDDEN, on_change=press,
        format_func=lambda i: as_text(words[i]), help=t("what_if.words_help"),
    )  # fmt: skip
    return nobody


def hides(before: Translation, site: str) -> ForNobody:
    """What hides the word of a key from everybody, where the keys of a site are those of the source."""
    if site not in before.record or Site(site).group not in OF_SOURCE:
        return lambda _key: ()
    words = before.axes.source.words
    return lambda key: for_nobody(before, words[key]) if key < len(words) else ()


def bars(steps: Sequence[StepEffect], step: int, origin: Provenance) -> None:
    """The change of log p of each token, and the table of all that is measured there."""
    tokens, changes = [one.text for one in steps], [one.change for one in steps]
    effects(tokens, changes, words("figure_change_of_log_p"), key="effects", step=step, sets=STEP)
    table_file(effects_table(steps), origin, "effects")


def step_choice(
    steps: Sequence[StepEffect], owner: tuple[object, ...], label: str = "step", written: Axis | None = None
) -> int:
    """Which step is looked at, from 0: at first that of the word that is marked, or the one that changes most.

    `label` is the text that stands above, `written` says to which words steps belong.
    """
    belong_to(owner, STEP)
    last = len(steps) - 1
    most = max(range(last + 1), key=lambda i: abs(steps[i].change))
    marked = None if written is None else subject.marked(written)
    step = whole(t(f"what_if.{label}"), 1, last + 1, 1 + (most if marked is None else marked), key=STEP) - 1
    if written is not None and step != most:
        subject.mark(subject.word_at(written, step))
    return step


def step_panel(one: StepEffect, before: Step, after: Step, is_next: bool = True) -> None:
    """What could be written at one step (or else stand there), before and after, and what is measured there."""
    was, now = (
        plain(f"what_if.{'ahead' if gap >= 0 else 'behind'}", rank=rank + 1, gap=abs(gap), rival=readable(rival))
        for rank, gap, rival in zip(one.ranks, one.margins, one.rivals, strict=True)
    )
    change = signed(one.change)
    st.caption(t("what_if.measures", token=readable(one.text), change=change, kl=one.divergence, was=was, now=now))
    columns = st.columns(2, gap="large")
    for column, key, step in zip(columns, ("before_top", "after_top"), (before, after), strict=True):
        with column:
            st.markdown(f"**{t(f'what_if.{key}')}**")
            few = replace(step, likeliest=step.likeliest[:TOP])  # so that both fit beside each other
            next_tokens(few, key=key, is_next=is_next)


def class_table(effects: Sequence[ClassEffect], origin: Provenance) -> None:
    """Each class: its probability before and after, and the change of its log-odds; and the same as a file."""
    found = pd.DataFrame([(one.name, *one.probabilities, one.change) for one in effects])
    shown = found.set_axis([plain(f"what_if.{one}") for one in ("class", "side_was", "side_now", "class_odds")], axis=1)
    name, before, after, odds = shown.columns
    columns = {
        name: st.column_config.TextColumn(width=60),
        **part_of_one((before, after), 4, width=105),
        odds: st.column_config.NumberColumn(format="%+.3f", width=75),
    }
    table(shown, formats={odds: "%+.3f"}, column_config=columns)
    names = [plain(f"what_if.{one}") for one in ("class", "class_before", "class_after", "class_change")]
    table_file(found.set_axis(names, axis=1), origin, "classes")


def table_file(rows: pd.DataFrame, origin: Provenance, stem: str) -> None:
    """A table as a file, whose last column says of what run."""
    named = rows.assign(**{plain("what_if.csv_about"): plain("files.about_separator").join(origin.facts())})
    save_button(
        t("what_if.effects_csv"), named, f"{origin.stem(stem)}.csv", icon=":material/download:",
        key=f"{stem}-csv",
    )  # fmt: skip


def effects_table(steps: Sequence[StepEffect]) -> pd.DataFrame:
    """A row a token."""
    rows = []
    for one in steps:
        ahead = [field for pair in zip(one.rivals, one.margins, strict=True) for field in pair]
        rows.append((one.text, one.change, *ahead, one.divergence, *(rank + 1 for rank in one.ranks)))
    return pd.DataFrame(rows, columns=[plain(f"what_if.csv_{name}") for name in CSV])


def _marked(words: list[Word]) -> str:
    shown = ""
    for word in words:
        text = f"<mark>{as_html(word.text)}</mark>" if word.changed else as_html(word.text)
        shown += text if word.attached or not shown else f" {text}"
    return shown
