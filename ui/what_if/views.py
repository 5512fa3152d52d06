"""The sentence before and after, and what became of each written token."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from html import escape
from typing import NamedTuple

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer import Translation
from transformer.messages import words
from transformer.plots.axes import Axis
from transformer.plots.export import table_csv
from transformer.runs.what_if import OF_SOURCE, ClassEffect, SameTarget, StepEffect, Word, aligned_words, for_nobody
from transformer.sites import Site
from transformer.text.steps import Step
from ui.markdown import as_text
from ui.shared import changes as changes_
from ui.shared import subject
from ui.shared.address import belong_to, whole
from ui.shared.bars import effects, next_tokens
from ui.shared.changed_maps import ForNobody
from ui.shared.changes import Changes, Group
from ui.shared.files import Origin, frame_csv
from ui.shared.numbers import as_written
from ui.texts import in_this_language, plain, t

STEP, HIDDEN = "step", "hidden-words"
TOP = 5
"""How many of the likeliest tokens of a step are shown."""

CSV = ("token", "change", "rival", "margin", "rival_now", "margin_now", "divergence", "rank", "rank_now", "about")
"""The columns of the table of effects."""

_STYLE = """
<style>
.two-texts { display: grid; grid-template-columns: auto 1fr; column-gap: .8rem; align-items: baseline; }
.two-texts > small { opacity: .75; }
.words { font-size: 1.15rem; line-height: 1.6; margin: 0; overflow-wrap: anywhere; unicode-bidi: plaintext; }
.two-texts.small .words { font-size: .95rem; }
.words mark { padding: .05rem .3rem; border-radius: .3rem; color: inherit; }
.words.was mark { background: color-mix(in srgb, #c2410c 24%, transparent); text-decoration: line-through; }
.words.one mark, .words.two mark { background: color-mix(in srgb, #c2850c 26%, transparent); }
.words.now mark { background: color-mix(in srgb, #0f766e 28%, transparent); font-weight: 600; }
</style>
"""


class Places(NamedTuple):
    """Where the first screen shows what: the heads, the sentence with what is changed, and the effects below it."""

    board: DeltaGenerator
    sentence: DeltaGenerator
    effects: DeltaGenerator


def two_texts(before: str, after: str | None) -> None:
    """Two texts, one below the other, with the words marked that differ; None where a target is forced."""
    was, now = aligned_words(before, before if after is None else after)
    rows = [("was", was), ("now", now)][: 1 if after is None else 2]
    _lines([(side, plain(f"what_if.side_{side}"), _marked(words)) for side, words in rows])
    if after is None:
        st.caption(t("what_if.forced"))
    elif before == after:
        st.caption(t("what_if.words_same"))


def source_and_two_texts(source: str, before: str, after: str) -> None:
    """A sentence, and what is made of it before and after a change."""
    was, now = aligned_words(before, after)
    rows = [("read", escape(source)), ("was", _marked(was)), ("now", _marked(now))]
    _lines([(side, plain(f"what_if.side_{side}"), text) for side, text in rows], " small")


def two_sides(first: str, second: str) -> None:
    """Two texts of two runs, with the words marked that differ."""
    sides = zip(("one", "two"), aligned_words(first, second), strict=True)
    _lines([(side, plain(f"what_if.side_{side}"), _marked(words)) for side, words in sides])


def two_answers(before: str, after: str) -> None:
    """What a model says before and after a change, in a few words each."""
    _lines([(side, plain(f"what_if.side_{side}"), escape(said)) for side, said in (("was", before), ("now", after))])


def _lines(rows: Sequence[tuple[str, str, str]], size: str = "") -> None:
    """Texts below each other, each behind its name, by the side that they are on; texts are HTML."""
    shown = "".join(
        f'<small>{escape(name)}</small><p class="words {side}" data-testid="words-{side}">{text}</p>'
        for side, name, text in rows
    )
    st.html(f'{_STYLE}<div class="two-texts{size}">{shown}</div>')


def words_for_nobody(before: Translation) -> list[Group]:
    """Each source word, with what hides it from everybody."""
    words = before.axes.source.merged().labels
    return [
        Group(plain("what_if.nobody_chip", word=word), tuple(for_nobody(before, i))) for i, word in enumerate(words)
    ]


def words_to_hide(before: Translation, nobody: Sequence[Group], changes: Changes) -> None:
    """The words of the source: one that is pressed is hidden from everybody."""
    words = before.axes.source.merged().labels
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


def hides(before: Translation, site: str) -> ForNobody:
    """What hides the word of a key from everybody, where the keys of a site are those of the source."""
    if site not in before.record or Site(site).group not in OF_SOURCE:
        return lambda _key: ()
    words = before.axes.source.words
    return lambda key: for_nobody(before, words[key]) if key < len(words) else ()


def effects_panel(found: SameTarget, step: int, origin: Origin) -> None:
    """On the same target: the change of log p of every token; a click on one opens its step."""
    st.markdown(f"**{t('what_if.same_target')}**", help=t("what_if.same_target_help"))
    st.caption(t("what_if.total", total=found.total))
    bars(found.steps, step, origin)


def bars(steps: Sequence[StepEffect], step: int, origin: Origin) -> None:
    """The change of log p of each token, and the table of all that is measured there."""
    tokens, changes = [one.text for one in steps], [one.change for one in steps]
    effects(tokens, changes, words("figure_change_of_log_p"), key="effects", step=step)
    st.download_button(
        t("what_if.effects_csv"), in_this_language(lambda: effects_csv(steps, origin)),
        f"{origin.stem('effects')}.csv", "text/csv", on_click="ignore", icon=":material/download:",
    )  # fmt: skip


def step_choice(
    steps: Sequence[StepEffect], owner: tuple[object, ...], label: str = "step", written: Axis | None = None
) -> int:
    """Which step is looked at: at first that of the word that is marked, or the one that changes most.

    `label` is the text that stands above, `written` says to which words steps belong.
    """
    belong_to(owner, STEP)
    last = len(steps) - 1
    most = max(range(last + 1), key=lambda i: abs(steps[i].change))
    marked = None if written is None else subject.marked(written)
    step = whole(t(f"what_if.{label}"), 0, last, most if marked is None else marked, key=STEP)
    if written is not None and step != most:
        subject.mark(subject.word_at(written, step))
    return step


def step_panel(one: StepEffect, before: Step, after: Step, is_next: bool = True) -> None:
    """What could be written at one step (or else stand there), before and after, and what is measured there."""
    was, now = (
        plain(f"what_if.{'ahead' if gap >= 0 else 'behind'}", rank=rank + 1, gap=abs(gap), rival=rival)
        for rank, gap, rival in zip(one.ranks, one.margins, one.rivals, strict=True)
    )
    st.caption(t("what_if.measures", token=one.text, change=one.change, kl=one.divergence, was=was, now=now))
    columns = st.columns(2, gap="large")
    for column, key, step in zip(columns, ("before_top", "after_top"), (before, after), strict=True):
        with column:
            st.markdown(f"**{t(f'what_if.{key}')}**")
            few = replace(step, likeliest=step.likeliest[:TOP])  # so that both fit beside each other
            next_tokens(few, key=key, is_next=is_next)


def class_table(effects: Sequence[ClassEffect], origin: Origin) -> None:
    """Each class: its probability before and after, and the change of its log-odds; and the same as a file."""
    table = pd.DataFrame(
        {
            "class": [one.name for one in effects],
            "before": [one.probabilities[0] for one in effects],
            "after": [one.probabilities[1] for one in effects],
            "change": [one.change for one in effects],
        }
    )
    bar = partial(st.column_config.ProgressColumn, min_value=0.0, max_value=1.0, format="%.4f", width=105)
    columns = {
        "class": st.column_config.TextColumn(plain("what_if.class"), width=60),
        "before": bar(plain("what_if.side_was")),
        "after": bar(plain("what_if.side_now")),
        "change": st.column_config.NumberColumn(plain("what_if.class_odds"), format="%+.3f", width=75),
    }
    shown = table.assign(change=as_written(table["change"], 3))
    st.dataframe(shown, hide_index=True, column_config=columns, placeholder="-")
    about = plain("files.about_separator").join(origin.facts())
    names = {name: plain(f"what_if.class_{name}") for name in ("before", "after", "change")}
    named = table.assign(run=about).rename(
        columns={**names, "class": plain("what_if.class"), "run": plain("what_if.csv_about")}
    )
    st.download_button(
        t("what_if.effects_csv"), in_this_language(lambda: frame_csv(named)), f"{origin.stem('classes')}.csv",
        "text/csv", on_click="ignore", icon=":material/download:",
    )  # fmt: skip


def effects_csv(steps: Sequence[StepEffect], origin: Origin) -> str:
    """A row a token; the last column says of what run."""
    about = plain("files.about_separator").join(origin.facts())
    rows = []
    for one in steps:
        ahead = [field for pair in zip(one.rivals, one.margins, strict=True) for field in pair]
        rows.append((one.text, one.change, *ahead, one.divergence, *(rank + 1 for rank in one.ranks), about))
    return table_csv([plain(f"what_if.csv_{name}") for name in CSV], rows)


def _marked(words: list[Word]) -> str:
    shown = ""
    for word in words:
        text = f"<mark>{escape(word.text)}</mark>" if word.changed else escape(word.text)
        shown += text if word.attached or not shown else f" {text}"
    return shown
