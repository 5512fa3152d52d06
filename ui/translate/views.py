"""What the page Translate shows: the sentence over its translation, where each word came from, and the search."""

from dataclasses import replace
from typing import cast

import numpy as np
import streamlit as st

from heedmap import AttentionMap, Attribution, Checkpoint, Record, Translation
from heedmap.attention.measures import rank_correlation, sites_of
from heedmap.errors import HeedmapError
from heedmap.explain.attribution.methods import METHODS, defined
from heedmap.messages import Message, words
from heedmap.plots.axes import Axis
from heedmap.plots.beams import beam_tree
from heedmap.plots.canvas.views import Known, Link, Sides, SideTexts
from heedmap.plots.export import PLOT_CONFIG, csv
from heedmap.plots.labels import readable
from heedmap.plots.picture import Picture, Quantity
from heedmap.runs.measures import faithfulness
from heedmap.runs.measures.faithfulness import Faithfulness
from heedmap.sites import Site
from ui.components.views import bitext
from ui.shared import controls, heads, record_views, subject
from ui.shared.address import belong_to, choice, parameter, put, set_parameter, whole
from ui.shared.bars import Bar, bars, is_dark, next_tokens
from ui.shared.controls import MEAN, Selection, kind_name, what_if_query
from ui.shared.files import Provenance, save_button
from ui.shared.record_views import matrix
from ui.shared.writing import token_strip
from ui.store import atlases, runs, store
from ui.store.cache import cached_result
from ui.texts import KEY, as_html, language, plain, said, t

KIND = heads.KIND

_MARKS = st.components.v2.component(
    "heedmap.marks",
    js="""
let told = "", send = null;
const tell = () => {
  const pair = globalThis.heedmapAddress.values().pair ?? "";
  if (send && pair !== told) send("pair", (told = pair));
};
addEventListener("heedmap-address", tell);
export default ({ setTriggerValue }) => {
  send = setTriggerValue;
  tell();
  return () => ([told, send] = ["", null]);
};
""",
)
"""Tells which pair of a written and a source word the address marks behind #; that it marks none, only after one."""


def bitext_panel(shown: Translation, checkpoint: Checkpoint, browser: record_views.BrowserRecord) -> None:
    """What the chosen head joins, with its lines: source over translation, or a sentence that looks at itself."""
    origin, sides = Provenance(shown.checkpoint, shown.input), {}
    for kind, picture in browser.form.first.items():
        sites = sites_of(shown.record, kind)
        each = [[*range(shown.record[site].n_heads), MEAN] for site in sites]
        query, key = _both(shown.record[sites[0]], kind, picture, checkpoint, browser.choice)
        rows = list(zip(sites, each, strict=True))
        names = [[in_a_sentence(layer, head, kind) for head in row] for layer, row in enumerate(each)]
        files = [[origin.stem(str(site), f"head-{head}", "bitext") for head in row] for site, row in rows]
        abouts = [origin.about("", picture)] * len(sites)
        sides[kind] = Sides(query, key, names, files, abouts, kind == "encoder.self")
    hides = shown.scored_sequence(checkpoint).model.abilities.hides
    how = plain(f"translate.decided_{'hidden' if hides else 'removed'}")
    bitext.of_record(browser.local, "bitext", sides=sides, how=f"{how} {plain('translate.likely_help')}")


def take_mark(shown: Translation, first: tuple[int, int], words: bool, special: bool) -> None:
    """Hand the word that the address marks to the browser, which owns the marks here: with what it looked at most."""
    marked = subject.marked(shown.axes.written)
    if marked is None:
        return
    picture = shown.record[sites_of(shown.record, KIND)[first[0]]].picture(first[1], words, special)
    label = subject.word_at(shown.axes.written, marked) if words else shown.axes.written.labels[marked]
    if label in picture.queries.labels and parameter("pair") is None:
        row = picture.queries.labels.index(label)
        key = picture.keys.labels[int(np.nanargmax(np.where(picture.visible[row], picture.values[row], np.nan)))]
        set_parameter("pair", f"{KIND}:{label}|{key}")
    set_parameter(subject.WORD, None)


def listen() -> None:
    """Remember which word the browser marks, so that it is marked on the page that is opened next. Draws nothing."""
    _MARKS(key="marks", on_pair_change=_mark)


def head_panel(name: str, browser: record_views.BrowserRecord, is_server_drawn: bool) -> None:
    """Buttons for kind, layer and head, what is known of the chosen one, and the way to What if with it.

    Where the server draws what depends on it (`is_server_drawn`), another choice starts a run.
    """
    record = browser.record
    known = _known_of_all(name, record)
    along = {key: key for key in ("kind", "layer", "head")}
    query = {key: value for key, value in what_if_query(model=name).items() if key not in along}
    record_views.head_panel(browser, known, [Link(plain("what_if.link"), "what_if", query, along)], is_server_drawn)


def _mark() -> None:
    kind, _, pair = str(st.session_state["marks"].pair or "").partition(":")
    subject.mark(pair.partition("|")[0] or None if kind.startswith("decoder.") else None)


def _known_of_all(name: str, record: Record) -> dict[str, list[Known]]:
    """`_known` of all heads by site. It is the same for every text, and takes longer to say than a page to draw."""
    atlas, heads_of = atlases.atlas(name), tuple((site, record[site].n_heads) for site in record.sites)

    def say_all() -> dict[str, list[Known]]:
        habits = {} if atlas is None else atlas.habits
        return {
            str(site): [_known(name, site, head, habits.get((site, head))) for head in range(count)]
            for site, count in heads_of
        }

    return cached_result("known-heads", (store.revision(name), atlas and atlas.written, heads_of, language()), say_all)


def _known(name: str, site: Site, head: int, habit: tuple[Message, int] | None) -> Known:
    """What was measured of a head, and what it usually does over a corpus, with a link to its page in the atlas."""
    found = heads.agreement(name)
    score = None if found is None else found.of(site, head)
    sentences: list[tuple[str, str]] = []
    links: list[Link] = []
    if found is not None and score is not None:
        code = "no_role" if score.role is None else "role" if score.agreement >= score.previous else "role_before"
        role = plain(
            f"translate.{code}", head=in_a_sentence(score.layer, score.head), role=said(score.role or ""),
            agreement=score.agreement, rows=found.rows, previous=score.previous, after=found.after,
        )  # fmt: skip
        help_ = plain("translate.role_help", sentences=found.sentences, data=found.data)
        sentences.append((f"{role[:1].upper()}{role[1:]}", help_))
    if habit is not None:
        line, count = habit
        layer = {} if site.layer is None else {"layer": str(site.layer)}
        query = {"model": name, "screen": "head", "kind": site.group, **layer, "head": str(head), KEY: language()}
        links.append(Link(plain("atlas.habit_link"), "atlas", query, {}))
        if line.code == "atlas_no_role" and score is not None:  # it has its sentence already: what is left to say of it
            text, help_ = sentences[0]
            what = said(cast(Message, line.fields["what"]))
            more = plain("translate.habit_beside", what=what, percent=line.fields["percent"])
            sentences[0] = f"{text} {more}", help_
        elif line.code != "atlas_no_habit" or score is None:
            sentences.append((plain("atlas.habit", sentences=count, line=said(line)), ""))
    return Known(sentences, links)


def result(shown: Translation, best: Translation, own: Translation, checkpoint: Checkpoint) -> None:
    """The translation as text, how likely it is, and which words of its source the vocabulary lacks.

    A forced target stands beside `own`, which the model writes itself.
    """
    what = "forced" if shown.tree is None else ("best" if shown.node == best.node else "other")
    title = t("translate.what_in", what=plain(f"translate.what_{what}"), language=checkpoint.languages[1])
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(title, width="content")
        st.text(said(shown.text), width="content")
        st.caption(t("translate.likely", count=len(shown.steps), log_prob=shown.log_prob), width="content")
        st.caption(t("translate.knows_its_data"), width="content")
    if shown.tree is None:
        st.caption(f"{t('translate.own', text=own.text)} {heads.likelihood(own, shown)}")
    elif shown.node is not None and shown.tree.nodes[shown.node].status == "cut":
        st.caption(t("translate.was_cut", longest=len(shown.steps)))


def in_a_sentence(layer: int, head: int | str, kind: str = KIND) -> str:
    """What a head is called within a sentence; of cross-attention, which joins two, without its kind."""
    name = "mean" if head == MEAN else "head"
    found = plain(f"translate.{name}_in_sentence", layer=layer, head=head)
    return found if kind == KIND else plain("translate.of_kind_in_sentence", head=found, kind=kind_name(kind))


def _both(
    attention: AttentionMap, kind: str, picture: Picture, checkpoint: Checkpoint, choice: Selection
) -> tuple[SideTexts, SideTexts]:
    """The words that look and those that are looked at, in the form that the picture shows."""
    read, written = checkpoint.languages
    names = {KIND: (written, read), "encoder.self": (read, read)}

    def words(axis: Axis, of_picture: Axis, name: str) -> SideTexts:
        cut = axis if choice.words else replace(axis, words=tuple(range(len(axis))))
        hidden = cut.merged().special  # those that are shown are, or are not, written without a space before them
        attached = [one for one, is_hidden in zip(cut.attached, hidden, strict=True) if choice.special or not is_hidden]
        return SideTexts(said(name), attached, of_picture.special)

    query, key = names.get(kind, (written, written))
    return words(attention.queries, picture.queries, query), words(attention.keys, picture.keys, key)


WORD, FIRST, SECOND = "word", "by", "also"
"""The query parameters: which written word, and the two methods."""

NONE = "none"
"""The choice of no second method."""


def sources_panel(checkpoint: Checkpoint, request: controls.Request, shown: Translation) -> None:
    """Pick a written word and a method (or two): its source words light up, under them the whole answer."""
    known = defined(shown.scored_sequence(checkpoint), shown.record)
    steps = shown.axes.written.merged()
    belong_to((shown.text, request.text), WORD)
    words = list(steps.labels)
    usual = next((label for label, special in zip(words, steps.special, strict=True) if not special), words[0])
    label = choice(
        t("sources.word"), words, key=WORD, text=str, default=usual, form="list", width="stretch",
        help=t("sources.word_help"),
    )  # fmt: skip
    one, two = st.columns(2)
    with one:
        first = choice(t("sources.method"), known, key=FIRST, text=_name, form="list", width="stretch")
    with two:
        others = [NONE, *(method for method in known if method != first)]
        second = choice(t("sources.beside"), others, key=SECOND, text=_name, form="list", width="stretch")
    asked = *request, shown.node
    methods = [first] if second == NONE else [first, second]
    try:
        answers = [runs.attribution(checkpoint.name, *asked, method) for method in methods]
        measured = faithfulness.shipped(checkpoint)
    except HeedmapError as error:
        controls.explain(error)
        return
    found = [answer for answer in answers if answer is not None]
    if not found:
        return
    row, origin = words.index(label), Provenance(shown.checkpoint, shown.input)
    for place, answer in zip(st.columns(len(found)), found, strict=True):
        with place:
            _lit(answer, row, label)
            _explain(answer, measured)
    if len(found) == 2:
        _agreement(*found)
    for number, answer in enumerate(found):
        _whole(answer, row, number, origin)
    missing = [_name(method) for method in METHODS if method not in known]
    if missing:
        st.caption(t("sources.not_defined", methods=", ".join(missing)))


def _name(method: str) -> str:
    return plain("sources.none") if method == NONE else said(METHODS[method].title)


def _lit(answer: Attribution, row: int, label: str) -> None:
    """The sentence, each word as bright as it stands behind the written one."""
    values = answer.of_source[row]
    known = np.isfinite(values)
    st.markdown(f"**{t('sources.for_word', method=answer.name, word=label)}**")
    if not known.any():
        st.warning(t("sources.no_numbers", word=label), icon=":material/warning:")
    largest = np.abs(values[known]).max(initial=0.0)
    form = ".0%" if answer.quantity in (Quantity.SHARE, Quantity.WEIGHT) else "z.2f"
    cells = []
    for text, value in zip(answer.source.texts, values.tolist(), strict=True):
        strength = max(0.0, value) / largest if largest > 0 and np.isfinite(value) else 0.0
        number = format(value, form) if np.isfinite(value) else plain("sources.no_number")
        cells.append(
            f'<span style="background: color-mix(in srgb, #0f766e {60 * strength:.0f}%, transparent)">'
            f"<b>{as_html(text)}</b><small>{number}</small></span>"
        )
    st.html(f'<div class="sources" data-testid="sources-{answer.method}">{"".join(cells)}</div>')
    st.caption(controls.sentence(answer.quantity.unit))


def _explain(answer: Attribution, measured: Faithfulness | None) -> None:
    """What the method asks, what it cannot say, and how far it was found to be right."""
    st.markdown(f"**{t('sources.asks')}** {controls.sentence(METHODS[answer.method].question)}")
    st.markdown(f"**{t('sources.cannot')}** {controls.sentence(METHODS[answer.method].limit)}")
    fare = None if measured is None else measured.fares.get(answer.method)
    if measured is None or fare is None:
        st.info(t("sources.not_measured"), icon=":material/help:")
        return
    counts = dict(words=measured.words, sentences=measured.sentences, data=measured.data)
    counts |= dict(chance=measured.fares["random"].share, area=fare.area)
    if answer.method == measured.reference:  # against itself it would say nothing
        st.info(t("sources.measure", **counts), icon=":material/rule:")
        return
    found = t("sources.found", share=fare.share, **counts)
    st.info(f"{found} {t('sources.correlation', value=fare.spearman)}", icon=":material/fact_check:")


def _agreement(first: Attribution, second: Attribution) -> None:
    """How alike two methods rank the source words, on average."""
    words = [i for i, special in enumerate(first.source.special) if not special]
    each = [rank_correlation(a[words], b[words]) for a, b in zip(first.of_source, second.of_source, strict=True)]
    known = [one for one, mark in zip(each, first.steps.special, strict=True) if not (mark or np.isnan(one))]
    if known:
        st.markdown(t("sources.agreement", value=float(np.mean(known)), count=len(known)))
    else:
        st.caption(t("sources.no_agreement"))


def _whole(answer: Attribution, row: int, number: int, origin: Provenance) -> None:
    """The matrix, and a bar a step for source against prefix where the method shares something out."""
    picture = answer.picture()
    values = np.where(picture.visible[row], picture.values[row], -np.inf)
    largest = (row, int(np.nanargmax(values))) if np.isfinite(values).any() else None

    def keep(step: int, _: int) -> None:
        put(**{WORD: answer.steps.labels[step]})

    stem = f"sources-{answer.method}"
    matrix(picture, key=f"sources-{number}", stem=stem, selected=largest, relative=True, on_pick=keep)
    save_button(
        t("translate.download_csv"), lambda: csv(picture, origin.facts()),
        f"{origin.stem('sources', answer.method)}.csv", key=f"sources-csv-{number}",
    )  # fmt: skip
    share = answer.source_share
    if not len(answer.prefix):
        st.caption(t("sources.one_side"))
    if share is None:
        return
    source, prefix = words("figure_share_source"), words("figure_share_prefix")
    rows = [
        Bar(text, value, f"{value:.3f}", f"{label}: {source} {value:.3f}, {prefix} {1 - value:.3f}", "split")
        if np.isfinite(value)
        else Bar(text, np.nan, plain("sources.no_number"))
        for text, label, value in zip(answer.steps.texts, answer.steps.labels, share.tolist(), strict=True)
    ]
    title = words("figure_share_axis")
    bars(rows, title, key=f"source-share-{number}", legend=[("", source), ("second", prefix)])


STEP = "written"
"""The query parameter of the output step, from 1."""


def steps_panel(shown: Translation) -> None:
    """One output step: what could have been written."""
    count = len(shown.steps)
    if (place := subject.newly_marked(shown.axes.written)) is not None:
        put(**{STEP: place + 1})
    number = whole(t("translate.step"), 1, count, 1, key=STEP)
    step = number - 1
    written, likeliest = shown.steps[step], shown.steps[step].likeliest[0]
    piece, chance = readable(written.text), written.probability
    line = t("translate.step_writes", step=number, last=count, piece=piece, probability=chance)
    if written.rank and shown.tree is not None:
        other = t("translate.step_not_likeliest", other=readable(likeliest.text), probability=likeliest.probability)
        line = f"{line} {other}"
    st.markdown(line)
    st.caption(t("translate.steps_ignore"))
    token_strip(shown.steps, current=step)
    next_tokens(shown.steps[step], key="next-tokens")


def beams_panel(shown: Translation, checkpoint: Checkpoint) -> None:
    """The whole tree of the search; a click on a hypothesis shows its attention in every view."""
    tokenizer = checkpoint.writer
    if shown.tree is None or tokenizer is None:
        st.info(t("translate.no_beam"))
        return
    figure = beam_tree(shown.tree, lambda token: tokenizer.labels([token])[0], selected=shown.node, dark=is_dark())
    with st.container(key="tree-around"):
        st.plotly_chart(
            figure, key="tree", width=round(figure.layout.width), on_select=_select_from_tree, selection_mode="points",
            config=PLOT_CONFIG,
        )  # fmt: skip
    st.caption(t("translate.beams_look"))
    st.caption(t("translate.beams_ignore"))


def _select_from_tree() -> None:
    for point in st.session_state["tree"].selection.points[:1]:
        put(node=int(point["customdata"]))
