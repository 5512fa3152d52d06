"""The panel that looks for motifs over a set of sequences."""

import streamlit as st

from transformer.plots.export import plot_config
from transformer.plots.logo import logo
from transformer.runs.sequences.sets import MAX_SEQUENCES, MAX_SET_LETTERS, MOST_FALSE, SequenceSet, clearest
from transformer.safe.limits import MEGABYTE
from transformer.sequences.motifs import FLANK, Motif
from transformer.sequences.task import SequenceTask
from transformer.sites import Site
from ui.sequences import runs
from ui.shared.address import choice, parameter, set_parameter
from ui.shared.controls import sentence
from ui.shared.sequence_controls import site_text
from ui.shared.theme import is_dark
from ui.store import store, upload_guard
from ui.texts import plain, t

MAX_SET_MB = 5

UPLOADED = "set"
"""The key of the uploader."""

WHOSE, OWN = "whose_set", "own"
"""The query parameter that says of a motif that it is that of a set which was brought."""

CLEAREST = "clearest"
"""The head whose motif is clearest, where a head is chosen."""


def motifs_panel(name: str, task: SequenceTask) -> None:
    """What the windows have in common that a head attends to most, in all sequences of a class."""
    fasta = _chosen_set(name)
    if not fasta:
        st.info(t("sequences.set_none"))
        return
    found = runs.sequence_set(name, fasta)
    if found is None:
        return
    _left_out(found)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        label = choice(t("sequences.class"), list(task.classes), key="class", text=str)
        width = int(choice(t("sequences.width"), [str(w) for w in found.widths], key="motif-width", text=str))
        asked = choice(
            t("sequences.motif_site"),
            [CLEAREST, *found.sites],
            key="motif-site",
            text=lambda site: plain("sequences.clearest") if site == CLEAREST else site_text(site),
        )
        every = runs.motifs(name, fasta, found, task.classes.index(label), width)
        if asked == CLEAREST:
            site, head = clearest(every)
        else:
            site = Site(asked)
            heads = [str(h) for h in range(found.sites[site])]
            head = int(choice(t("sequences.head"), heads, key="motif-head", text=str))
    motif, q = every[site, head]
    if asked == CLEAREST and q > MOST_FALSE:
        st.info(t("sequences.none_passes", most=MOST_FALSE))
    if motif.place.is_fixed:
        place = motif.place
        st.info(t("sequences.fixed", share=place.share, start=place.start + 1, others=place.others_share))
    _logo(motif, label, site, head, width)
    _enrichment(motif, label)
    st.caption(
        t("sequences.motif_note", flank=FLANK, first=int(motif.starts.min()) + 1, last=int(motif.starts.max()) + 1)
        + " "
        + t("sequences.classes_known" if found.labelled else "sequences.classes_predicted")
    )
    stem = _stem(label, site, head, width)
    st.download_button(
        t("sequences.download_motif"), lambda: motif.meme(stem), f"{stem}.meme", "text/plain", on_click="ignore"
    )
    st.caption(t("sequences.q_value", q=f"{q:.2g}", count=len(every), most=MOST_FALSE))


def _left_out(found: SequenceSet) -> None:
    """Say what of a file is not in the set, and why."""
    if found.more:
        st.caption(t("sequences.set_more", count=MAX_SEQUENCES))
    if found.problems:
        with st.expander(t("sequences.set_problems", count=len(found.problems)), icon=":material/info:"):
            for problem in found.problems:
                st.caption(sentence(problem))


def _chosen_set(name: str) -> bytes:
    shipped = runs.example_set(store.checkpoint(name))
    upload_guard.expect(2 * MAX_SET_MB * MEGABYTE)  # the next file comes before the last one goes
    upload = st.file_uploader(
        t("sequences.set"), type=runs.FILES, key=UPLOADED, max_upload_size=MAX_SET_MB, on_change=_say_whose
    )
    limit = t("sequences.set_limit", sequences=MAX_SEQUENCES, letters=MAX_SET_LETTERS)
    st.caption(f"{limit} {t('sequences.set_shipped')}" if shipped else limit)
    if upload is None and parameter(WHOSE) == OWN:
        st.warning(t("sequences.set_not_here"), icon=":material/info:")
    return upload.getvalue() if upload is not None else shipped


def _say_whose() -> None:
    """The address says that a set was brought, which nobody else has: elsewhere it shows another one."""
    set_parameter(WHOSE, OWN if st.session_state[UPLOADED] else None)


def _stem(label: str, site: Site, head: int, width: int) -> str:
    return f"{label}-{site}-head-{head}-width-{width}"


def _logo(motif: Motif, label: str, site: Site, head: int, width: int) -> None:
    positions = [str(i + 1 if i >= 0 else i) for i in range(-FLANK, width)]
    positions += [f"+{i + 1}" for i in range(FLANK)]
    title = plain(
        "sequences.logo_title", label=label, width=width, site=site_text(site), head=head, count=len(motif.starts)
    )
    st.plotly_chart(
        logo(motif.letters, motif.heights, positions, title=title, dark=is_dark()),
        key="logo",
        config=plot_config(_stem(label, site, head, width), "svg"),
    )


def _enrichment(motif: Motif, label: str) -> None:
    test = motif.enrichment
    if set(test.pattern) == {"."}:
        st.markdown(t("sequences.no_pattern"))
        return
    numbers = dict(found=test.found, total=test.total, others_found=test.others_found, others_total=test.others_total)
    st.markdown(t("sequences.pattern", pattern=test.pattern, label=label, p=f"{test.p_value:.2g}", **numbers))
