"""Two checkpoints, or two moments of a training, side by side: which heads belong together, and how alike they are."""

import pandas as pd
import streamlit as st

from transformer import DecodingOptions
from transformer.atlas.matching import Distances, Head, distances
from transformer.atlas.roles import line_of
from transformer.plots.export import PLOT_CONFIG
from transformer.plots.file_names import file_name
from transformer.plots.heads import distance_map
from transformer.runs.concurrency import forward_slot
from ui.atlas import choices
from ui.shared.address import belong_to, choice, switch
from ui.shared.files import frame_csv
from ui.shared.part import part
from ui.shared.record_views import matrix
from ui.shared.theme import is_dark
from ui.store import atlases, runs, store
from ui.store.atlases import Atlas
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import in_this_language, plain, said, t

MOST_SENTENCES = 64
"""Sentences that both models read."""

PAIR, EXAMPLE = "pair", "example"
"""The query parameters of the two heads whose maps are shown, and of the sentence."""

Pairs = tuple[tuple[str, str], ...]


def compare_panel(name: str, atlas: Atlas) -> None:
    """The pairs of least total distance, the table of all distances, and one pair's maps of one sentence."""
    others = _others(name)
    if store.architecture(name) not in store.TRANSLATORS or not others:
        st.info(t("atlas.compare_none"))
        return
    texts = sentences_of(atlas)[:MOST_SENTENCES]
    if not texts:
        st.info(t("atlas.compare_no_sentences"))
        return
    snapshots = [one for one in others if store.is_snapshot(one)]
    usual = snapshots[len(snapshots) // 2] if snapshots else others[0]
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        other = choice(
            t("atlas.compare_with"), others, key="second", form="list", width=360, text=_label, default=usual
        )
    found = _distances(store.revision(name), store.revision(other), texts)
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        group = choice(t("atlas.kind"), list(found), key=choices.GROUP, text=choices.kind_name)
        within = switch(
            t("atlas.within"), False, key="within", disabled=not found[group].same_layers, help=t("atlas.within_help")
        )
    table = found[group]
    pairs = table.pairs(within)
    mean = sum(float(table.values[i, j]) for i, j in pairs) / len(pairs)
    st.markdown(
        t("atlas.compare_result", count=len(pairs), mean=f"{mean:.3f}", chance=f"{table.by_chance(within):.3f}")
    )
    kept = sum(table.first[i] == table.second[j] for i, j in pairs)
    if store.base(name) == store.base(other):
        st.markdown(t("atlas.compare_kept", kept=kept, count=len(pairs)))
    _table(name, other, table, pairs)
    st.caption(t("atlas.compare_note", sentences=len(texts)))
    st.plotly_chart(
        distance_map(
            table.values, [head_text(one) for one in table.first], [head_text(one) for one in table.second], pairs,
            axes=(_label(name), _label(other)), quantity=plain("atlas.distance"),
            matched=plain("atlas.matched"), dark=is_dark(),
        ),
        key="atlas-distances", width="content", config=PLOT_CONFIG,
    )  # fmt: skip
    named = [(table.first[i], table.second[j]) for i, j in pairs]
    with st.container():
        part(lambda: _maps(name, other, named, texts), PAIR, EXAMPLE)


def sentences_of(atlas: Atlas) -> Pairs:
    """The different example sentences that have a translation, in the order of their lines."""
    known = {one["line"]: (one["source"], one["target"]) for one in atlas.examples if one["source"] and one["target"]}
    return tuple(known[line] for line in sorted(known))


def head_text(head: Head) -> str:
    """A head in a few characters; `H0` where its attention stands alone."""
    site, number = head
    return f"H{number}" if site.layer is None else f"L{site.layer} H{number}"


def _others(name: str) -> list[str]:
    """What a checkpoint can stand beside: the moments of its training, then whatever else translates."""
    translators = [one for one in store.checkpoint_names(*store.TRANSLATORS) if one != name]
    return [*store.snapshots(name), *translators]


def _label(name: str) -> str:
    found = store.snapshots(store.base(name)).get(name)
    return name if found is None else plain("atlas.snapshot", name=store.base(name), update=found.update)


def _table(name: str, other: str, table: Distances, pairs: list[tuple[int, int]]) -> None:
    mine, theirs = (_habits(one) for one in (name, other))
    shown = pd.DataFrame(
        {
            "first": [head_text(table.first[i]) for i, _ in pairs],
            "second": [head_text(table.second[j]) for _, j in pairs],
            "distance": [float(table.values[i, j]) for i, j in pairs],
            "first_does": [mine.get(table.first[i], "") for i, _ in pairs],
            "second_does": [theirs.get(table.second[j], "") for _, j in pairs],
        }
    )
    if not theirs:
        shown = shown.drop(columns="second_does")
    titles = {"first": _label(name), "second": _label(other)} | {
        f"{side}_does": plain("atlas.does_of", model=_label(model))
        for side, model in (("first", name), ("second", other))
    }
    st.dataframe(
        shown,
        hide_index=True,
        column_config={
            **{key: st.column_config.TextColumn(title) for key, title in titles.items()},
            "distance": st.column_config.NumberColumn(plain("atlas.distance"), format="%.3f"),
        },
    )
    st.download_button(
        t("atlas.download_pairs"), in_this_language(lambda: frame_csv(shown)), f"{name}-pairs.csv", "text/csv",
        on_click="ignore",
    )  # fmt: skip


def _habits(name: str) -> dict[Head, str]:
    """What the heads of a checkpoint, or of a moment of its training, usually do; empty where nobody measured it."""
    found = atlases.at(name)
    return {} if found is None else {(row["site"], row["head"]): said(line_of(row)) for row in found.heads}


def _maps(name: str, other: str, pairs: list[tuple[Head, Head]], texts: Pairs) -> None:
    """One pair's maps of one sentence, read with the same reference."""
    codes = {f"{first[0]}.{first[1]}": (first, second) for first, second in pairs}
    belong_to((name, other, pairs[0][0][0].group), PAIR)
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        code = choice(
            t("atlas.compare_pair"), list(codes), key=PAIR, form="list", width=220,
            text=lambda one: " · ".join(map(head_text, codes[one])),
        )  # fmt: skip
        number = choice(
            t("atlas.example"), [str(i) for i in range(len(texts))], key=EXAMPLE, form="list", width=460,
            text=lambda one: texts[int(one)][0],
        )  # fmt: skip
    text, target = texts[int(number)]
    for column, model, (site, head) in zip(st.columns(2, gap="medium"), (name, other), codes[code], strict=True):
        with column:
            st.markdown(f"**{t('atlas.compare_map', model=_label(model), site=site, head=head)}**")
            translation = runs.translation(model, text, DecodingOptions(beam=1), target)
            picture = translation.record[site].picture(head)
            matrix(picture, key=f"atlas-pair-{model}", stem=file_name(model, site, f"head-{head}"))


@cached(spinner="atlas.comparing")
def _distances(first: Revision, second: Revision, texts: Pairs) -> dict[str, Distances]:
    with forward_slot():
        return distances(store.load(first), store.load(second), texts)
