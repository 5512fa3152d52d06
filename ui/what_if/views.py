"""The sentence before and after, and what became of each written token."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from html import escape

import pandas as pd
import streamlit as st

from transformer import Translation
from transformer.plots.bars import effect_bars
from transformer.plots.distribution import next_tokens
from transformer.plots.export import PLOT_CONFIG, plot_config, table_csv
from transformer.runs.what_if import OF_SOURCE, ClassEffect, SameTarget, StepEffect, Word, aligned_words, for_nobody
from transformer.sites import Site
from transformer.text.steps import Step
from ui.shared.address import belong_to, put, whole
from ui.shared.changed_maps import ForNobody
from ui.shared.changes import Group
from ui.shared.files import Origin, frame_csv
from ui.shared.numbers import as_written
from ui.shared.theme import is_dark
from ui.texts import in_this_language, plain, t

STEP = "step"
TOP = 5
"""How many of the likeliest tokens of a step are shown."""

CSV = ("token", "change", "rival", "margin", "rival_now", "margin_now", "divergence", "rank", "rank_now", "about")
"""The columns of the table of effects."""

_STYLE = """
<style>
.words { font-size: 1.15rem; line-height: 1.7; margin: .1rem 0 .4rem; overflow-wrap: anywhere;
  unicode-bidi: plaintext; }
.words mark { padding: .05rem .3rem; border-radius: .3rem; color: inherit; }
.words.was mark { background: color-mix(in srgb, #c2410c 24%, transparent); text-decoration: line-through; }
.words.now mark { background: color-mix(in srgb, #0f766e 28%, transparent); font-weight: 600; }
</style>
"""


def sentences(before: Translation, after: Translation | None) -> None:
    """Left what the model wrote, right what it writes now; words that differ are marked in both."""
    two_texts(before.text, None if after is None else after.text, "again")


def two_texts(before: str, after: str | None, title: str) -> None:
    """Two texts beside each other with the words marked that differ; None where the second would be one that is forced.

    `title` is the name of the text above the second one.
    """
    was, now = aligned_words(before, before if after is None else after)
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown(f"**{t('what_if.before')}**")
        st.html(_STYLE + _marked(was, "was"))
    with right:
        st.markdown(f"**{t(f'what_if.{title}')}**", help=t(f"what_if.{title}_help"))
        if after is None:
            st.caption(t("what_if.forced"))
        else:
            st.html(_STYLE + _marked(now, "now"))
            changed = sum(word.changed for word in now) + sum(word.changed for word in was)
            st.caption(t("what_if.words_changed", count=changed) if changed else t("what_if.words_same"))


def words_for_nobody(before: Translation) -> list[Group]:
    """Each source word, with what hides it from everybody."""
    words = before.axes.source.merged().labels
    return [
        Group(plain("what_if.nobody_chip", word=word), tuple(for_nobody(before, i))) for i, word in enumerate(words)
    ]


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
    st.plotly_chart(
        effect_bars(tokens, changes, step, dark=is_dark()),
        key="effects",
        config=plot_config(origin.stem("effects")),
        on_select=_pick_step,
        selection_mode="points",
    )
    st.download_button(
        t("what_if.effects_csv"), in_this_language(lambda: effects_csv(steps, origin)),
        f"{origin.stem('effects')}.csv", "text/csv", on_click="ignore", icon=":material/download:",
    )  # fmt: skip


def step_choice(steps: Sequence[StepEffect], owner: tuple[object, ...], label: str = "step") -> int:
    """Which step is looked at: at first the one that changes most. `label` is the text that stands above."""
    belong_to(owner, STEP)
    last = len(steps) - 1
    most = max(range(last + 1), key=lambda i: abs(steps[i].change))
    return whole(t(f"what_if.{label}"), 0, last, most, key=STEP)


def step_panel(one: StepEffect, before: Step, after: Step, is_next: bool = True) -> None:
    """What could be written at one step (or else stand there), before and after, and what is measured there."""
    st.caption(
        t(
            "what_if.measures", token=one.text, change=one.change, kl=one.divergence, rank=one.ranks[0] + 1,
            rank_now=one.ranks[1] + 1, margin=one.margins[0], rival=one.rivals[0], margin_now=one.margins[1],
            rival_now=one.rivals[1],
        )
    )  # fmt: skip
    columns = st.columns(2, gap="large")
    for column, key, step in zip(columns, ("before_top", "after_top"), (before, after), strict=True):
        with column:
            st.markdown(f"**{t(f'what_if.{key}')}**")
            few = replace(step, likeliest=step.likeliest[:TOP])  # so that both fit beside each other
            st.plotly_chart(next_tokens(few, is_next=is_next, dark=is_dark()), key=key, config=PLOT_CONFIG)


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
    bar = partial(st.column_config.ProgressColumn, min_value=0.0, max_value=1.0, format="%.4f")
    columns = {
        "class": st.column_config.TextColumn(plain("what_if.class")),
        "before": bar(plain("what_if.class_before")),
        "after": bar(plain("what_if.class_after")),
        "change": st.column_config.NumberColumn(plain("what_if.class_change"), format="%+.3f"),
    }
    st.dataframe(table.assign(change=as_written(table["change"], 3)), hide_index=True, column_config=columns)
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


def _pick_step() -> None:
    for point in st.session_state["effects"].selection.points[:1]:
        put(step=int(point["customdata"]))


def _marked(words: list[Word], side: str) -> str:
    shown = ""
    for word in words:
        text = f"<mark>{escape(word.text)}</mark>" if word.changed else escape(word.text)
        shown += text if word.attached or not shown else f" {text}"
    return f'<p class="words {side}" data-testid="words-{side}">{shown}</p>'
