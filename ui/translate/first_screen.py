"""What the page Translate shows first: the sentence over its translation, joined by one head's lines."""

from dataclasses import replace
from typing import cast

import numpy as np
import streamlit as st

from transformer import AttentionMap, Checkpoint, Record, Translation
from transformer.attention.measures import sites_of
from transformer.messages import Message
from transformer.plots.axes import Axis
from transformer.plots.canvas.views import Known, Link
from transformer.plots.picture import Picture
from transformer.runs.measures.head_agreement import HeadAgreement, HeadScore
from transformer.runs.measures.out_of_distribution import TextBounds
from transformer.sites import Site
from ui.components.bitext.component import Sides, Words, bitext
from ui.shared import familiarity, heads, record_views, subject
from ui.shared.address import parameter, set_parameter
from ui.shared.controls import MEAN, Selection, kind_name
from ui.shared.files import Origin
from ui.shared.likelihood import likelihood
from ui.shared.what_if_link import what_if_query
from ui.store import atlases, store
from ui.store.cache import cached_result
from ui.texts import KEY, language, plain, said, t

KIND = heads.KIND


def bitext_panel(shown: Translation, checkpoint: Checkpoint, browser: record_views.BrowserRecord) -> None:
    """What the chosen head joins, with its lines: source over translation, or a sentence that looks at itself."""
    origin, sides = Origin(shown.checkpoint, shown.input), {}
    for kind, picture in browser.first.items():
        sites = sites_of(shown.record, kind)
        each = [[*range(shown.record[site].n_heads), MEAN] for site in sites]
        source, target = _both(shown.record[sites[0]], kind, picture, checkpoint, browser.choice)
        sides[kind] = Sides(
            source,
            target,
            [[in_a_sentence(layer, head, kind) for head in row] for layer, row in enumerate(each)],
            [
                [origin.stem(str(site), f"head-{head}", "bitext") for head in row]
                for site, row in zip(sites, each, strict=True)
            ],
            kind == "encoder.self",
            origin.about("", picture),
        )
    hides = shown.scored_sequence(checkpoint).abilities.hides
    how = plain(f"translate.decided_{'hidden' if hides else 'removed'}")
    bitext(browser.local, sides, f"{how} {plain('translate.likely_help')}", key="bitext")


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


def head_panel(name: str, browser: record_views.BrowserRecord, followed: bool) -> None:
    """Buttons for kind, layer and head, what is known of the chosen one, and the way to What if with it.

    Where it is `followed` by something that the server draws, another choice starts a run.
    """
    record = browser.record
    known = _known_of_all(name, record)
    along = {key: key for key in ("kind", "layer", "head")}
    query = {key: value for key, value in what_if_query(model=name).items() if key not in along}
    record_views.head_panel(browser, known, [Link(plain("what_if.link"), "what_if", query, along)], followed)


def _known_of_all(name: str, record: Record) -> dict[str, list[Known]]:
    """`_known` of all heads by site. It is the same for every text, and takes longer to say than a page to draw."""
    atlas, heads_of = atlases.atlas(name), tuple((site, record[site].n_heads) for site in record.sites)

    def say_all() -> dict[str, list[Known]]:
        return {str(site): [_known(name, site, head) for head in range(count)] for site, count in heads_of}

    return cached_result("known-heads", (store.revision(name), atlas and atlas.written, heads_of, language()), say_all)


def _known(name: str, site: Site, head: int) -> Known:
    """What was measured of a head, and what it usually does over a corpus, with a link to its page in the atlas."""
    found, habit = heads.agreement(name), atlases.habit_of(name, site, head)
    score = None if found is None else found.of(site, head)
    sentences: list[tuple[str, str]] = []
    links: list[Link] = []
    if found is not None and score is not None:
        sentences.append((_role(score), _role_help(found)))
    if habit is not None:
        line, count = habit
        query = {"model": name, "screen": "head", "site": str(site), "head": str(head), KEY: language()}
        links.append(Link(plain("atlas.habit_link"), "atlas", query, {}))
        if line.code == "atlas_no_role" and score is not None:  # it has its sentence already: what is left to say of it
            text, help_ = sentences[0]
            what = said(cast(Message, line.fields["what"]))
            more = plain("translate.habit_beside", what=what, percent=line.fields["percent"])
            sentences[0] = f"{text} {more}", help_
        elif line.code != "atlas_no_habit" or score is None:
            sentences.append((plain("atlas.habit", sentences=count, line=said(line)), ""))
    return Known(sentences, links)


def _role(score: HeadScore) -> str:
    name = "no_role" if score.role is None else "role" if score.agreement >= score.previous else "role_before"
    text = plain(
        f"translate.{name}",
        head=in_a_sentence(score.layer, score.head),
        role=said(score.role or ""),
        agreement=score.agreement,
        previous=score.previous,
    )
    return f"{text[:1].upper()}{text[1:]}"


def _role_help(found: HeadAgreement) -> str:
    return plain("translate.role_help", sentences=found.sentences, rows=found.rows)


def result(
    shown: Translation, best: Translation, own: Translation, checkpoint: Checkpoint, known: TextBounds | None
) -> None:
    """The translation as text, how likely it is, and how near its source is to what the model was trained on.

    A forced target stands beside `own`, which the model writes itself.
    """
    what = "forced" if shown.tree is None else ("best" if shown.node == best.node else "other")
    title = t("translate.what_in", what=plain(f"translate.what_{what}"), language=checkpoint.languages[1])
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(title, width="content")
        st.text(shown.text, width="content")
        st.caption(t("translate.likely", count=len(shown.steps), log_prob=shown.log_prob), width="content")
        if known is None:
            st.caption(t("translate.knows_its_data"), width="content")
        elif not familiarity.unlike(checkpoint, best):
            st.caption(t("translate.knows", texts=known.texts[language()]), width="content")
    if shown.tree is None:
        st.caption(f"{t('translate.own', text=own.text)} {likelihood(own, shown)}")
    elif shown.node is not None and shown.tree.nodes[shown.node].status == "cut":
        st.caption(t("translate.was_cut", longest=len(shown.steps)))
    familiarity.warn_of_unlike(checkpoint, best)
    record_views.record_notes(shown.record)


def in_a_sentence(layer: int, head: int | str, kind: str = KIND) -> str:
    """What a head is called within a sentence; of cross-attention, which joins two, without its kind."""
    name = "mean" if head == MEAN else "head"
    found = plain(f"translate.{name}_in_sentence", layer=layer, head=head)
    return found if kind == KIND else plain("translate.of_kind_in_sentence", head=found, kind=kind_name(kind))


def _both(
    attention: AttentionMap, kind: str, picture: Picture, checkpoint: Checkpoint, choice: Selection
) -> tuple[Words, Words]:
    """The words that are looked at and those that look, in the form that the picture shows."""
    read, written = checkpoint.languages
    names = {KIND: (read, written), "encoder.self": (read, read)}.get(kind, (written, written))
    shown, axes = (picture.keys, picture.queries), (attention.keys, attention.queries)
    source, target = (
        Words(of_picture.texts, _attached(axis, choice), of_picture.special, said(name))
        for of_picture, axis, name in zip(shown, axes, names, strict=True)
    )
    return source, target


def _attached(axis: Axis, choice: Selection) -> list[bool]:
    """Which of the words (or pieces) that are shown are written without a space before them."""
    cut = axis if choice.words else replace(axis, words=tuple(range(len(axis))))
    special = cut.merged().special
    return [attached for attached, hidden in zip(cut.attached, special, strict=True) if choice.special or not hidden]
