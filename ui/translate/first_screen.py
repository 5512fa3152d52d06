"""What the page Translate shows first: the sentence over its translation, joined by one head's lines."""

from dataclasses import replace

import streamlit as st

from transformer import AttentionMap, Checkpoint, Record, Translation
from transformer.attention.measures import sites_of
from transformer.plots.axes import Axis
from transformer.plots.canvas.views import Known, Link
from transformer.plots.picture import Picture
from transformer.runs.measures.head_agreement import HeadAgreement, HeadScore
from transformer.runs.measures.out_of_distribution import TextBounds, counts_of
from transformer.sites import Site
from ui.components.bitext.component import Words, bitext_of_record
from ui.shared import heads, record_views
from ui.shared.controls import MEAN, Selection
from ui.shared.files import Origin
from ui.shared.likelihood import likelihood
from ui.shared.what_if_link import what_if_query
from ui.store import atlases, store
from ui.store.cache import cached_result
from ui.texts import KEY, language, plain, said, t

KIND = heads.KIND


def bitext_panel(shown: Translation, checkpoint: Checkpoint, browser: record_views.Shown) -> None:
    """Source over translation, with the chosen head's lines, or those of the truest where another kind is looked at."""
    first = heads.first_head(checkpoint.name, shown)
    sites = sites_of(shown.record, KIND)
    source, target = _both(shown.record[sites[0]], browser.first[KIND], checkpoint, browser.choice)
    origin = Origin(shown.checkpoint, shown.input)
    each = [[*range(shown.record[site].n_heads), MEAN] for site in sites]
    bitext_of_record(
        browser.local,
        source,
        target,
        kind=KIND,
        first=first,
        heads=[[in_a_sentence(layer, head) for head in row] for layer, row in enumerate(each)],
        file_names=[
            [origin.stem(str(site), f"head-{head}", "bitext") for head in row]
            for site, row in zip(sites, each, strict=True)
        ],
        key="bitext",
    )


def head_panel(name: str, browser: record_views.Shown, followed: bool) -> None:
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
        sentences.append((_role(name, score), _role_help(found)))
    if habit is not None:
        line, count = habit
        sentences.append((plain("atlas.habit", sentences=count, line=said(line)), ""))
        query = {"model": name, "screen": "head", "site": str(site), "head": str(head), KEY: language()}
        links.append(Link(plain("atlas.habit_link"), "atlas", query, {}))
    return Known(sentences, links)


def _role(name: str, score: HeadScore) -> str:
    role = heads.role_of(name, score.site, score.head)
    return plain(
        "translate.role" if role else "translate.no_role",
        head=in_a_sentence(score.layer, score.head),
        role=said(role or ""),
        agreement=score.agreement,
        previous=score.previous,
    )


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
        st.caption(
            t("translate.likely", count=len(shown.steps), log_prob=shown.log_prob), width="content",
            help=t("translate.likely_help"),
        )  # fmt: skip
    if shown.tree is None:
        st.caption(f"{t('translate.own', text=own.text)} {likelihood(own, shown)}")
    elif shown.node is not None and shown.tree.nodes[shown.node].status == "cut":
        st.caption(t("translate.was_cut", longest=len(shown.steps)))
    _familiarity(best, checkpoint, known)
    record_views.record_notes(shown.record)


def in_a_sentence(layer: int, head: int | str) -> str:
    """What a head is called within a sentence."""
    if head == MEAN:
        return plain("translate.mean_in_sentence", layer=layer)
    return plain("translate.head_in_sentence", layer=layer, head=head)


def _familiarity(best: Translation, checkpoint: Checkpoint, known: TextBounds | None) -> None:
    """What the model knows; stronger, with the reasons, where the input is far from it."""
    if known is None:
        st.caption(t("translate.knows_its_data"))
        return
    texts = known.texts[language()]
    reasons = known.reasons(counts_of(checkpoint, best)) if best.tree is not None else ()
    if not reasons:
        st.caption(t("translate.knows", texts=texts))
        return
    why = plain("translate.reason_after").join(said(reason) for reason in reasons)
    st.warning(
        t("translate.far", texts=texts, why=why, rate=100 * known.false_alarms), icon=":material/travel_explore:"
    )


def _both(attention: AttentionMap, picture: Picture, checkpoint: Checkpoint, choice: Selection) -> tuple[Words, Words]:
    """The words of source and translation, in the form that the picture shows."""
    shown, axes = (picture.keys, picture.queries), (attention.keys, attention.queries)
    source, target = (
        Words(of_picture.texts, _attached(axis, choice), of_picture.special, name)
        for of_picture, axis, name in zip(shown, axes, checkpoint.languages, strict=True)
    )
    return source, target


def _attached(axis: Axis, choice: Selection) -> list[bool]:
    """Which of the words (or pieces) that are shown are written without a space before them."""
    cut = axis if choice.words else replace(axis, words=tuple(range(len(axis))))
    special = cut.merged().special
    return [attached for attached, hidden in zip(cut.attached, special, strict=True) if choice.special or not hidden]
