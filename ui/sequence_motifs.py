"""The panel that looks for motifs over a set of sequences."""

import streamlit as st

from transformer.checkpoint.task import SequenceTask
from transformer.figures.export import plot_config
from transformer.figures.logo import logo
from transformer.motifs import FLANK, Motif
from transformer.sequence_sets import MAX_SEQUENCES, MAX_SET_LETTERS, SequenceSet
from ui import cached, sequence_runs
from ui.sequence_controls import one_of

CLEAREST = "clearest"
"""The head whose motif is clearest, where a head is chosen."""


def motifs_panel(name: str, task: SequenceTask) -> None:
    """What the windows have in common that a head attends to most, in all sequences of a class."""
    fasta = _chosen_set(name)
    if not fasta:
        st.info("Upload FASTA with sequences of every class. The first word after a name may say its class.")
        return
    found = sequence_runs.sequence_set(name, fasta)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        label = one_of("Class", task.classes, key="class")
        width = int(one_of("Windows of width", [str(w) for w in found.widths], key="motif-width"))
        site = one_of("Attention", [CLEAREST, *found.sites], key="motif-site")
        head = 0
        if site == CLEAREST:
            site, head = found.clearest(task.classes.index(label), width)
        else:
            head = int(one_of("Head", [str(h) for h in range(found.sites[site])], key="motif-head"))
    _motif(found, found.motif(task.classes.index(label), site, head, width), (label, site, head), width)


def _chosen_set(name: str) -> bytes:
    shipped = sequence_runs.example_set(cached.checkpoint(name))
    upload = st.file_uploader(
        "Your own set (FASTA)", type=["fa", "fasta", "fna", "gz", "txt"], key="set", max_upload_size=5
    )
    st.caption(
        f"At most {MAX_SEQUENCES} sequences of {MAX_SET_LETTERS} letters; the word after a name may be its class. "
        + ("Until you choose a file, the checkpoint's own example set is read." if shipped else "")
    )
    return upload.getvalue() if upload is not None else shipped


def _motif(found: SequenceSet, motif: Motif, place: tuple[str, str, int], width: int) -> None:
    label, site, head = place
    places = [
        str(i + 1 if 0 <= i < width else (i if i < 0 else f"+{i - width + 1}")) for i in range(-FLANK, width + FLANK)
    ]
    image = one_of("The camera button saves", ["SVG", "PNG"], key="motif-image")
    stem = f"{label}-{site}-head-{head}-width-{width}"
    st.plotly_chart(
        logo(
            motif.letters,
            motif.heights,
            places,
            title=f"{label}: windows of {width} that {site}, head {head} attends to most ({len(motif.sites)} windows)",
            dark=st.context.theme.type == "dark",
        ),
        key="logo",
        config=plot_config(stem, "svg" if image == "SVG" else "png"),
    )
    test = motif.enrichment
    if set(test.pattern) == {"."}:
        st.markdown("**No place is clear** (0.8 bits or more), so there is no pattern to test.")
    else:
        st.markdown(
            f"**Pattern** `{test.pattern}` (places of 0.8 bits or more): at the window of {test.found} of {test.total} "
            f"sequences of {label}, and of {test.others_found} of {test.others_total} others "
            f"(Fisher's exact test, one-sided: p = {test.p_value:.2g})."
        )
    starts = [site.start + 1 for site in motif.sites]
    st.caption(
        f"Each sequence gives the window that receives most; they may shift by up to {FLANK} letters onto each other. "
        f"They start between letters {min(starts)} and {max(starts)}. Heights have the small-sample correction. "
        f"Classes are {'those of the headers' if found.labelled else 'predicted, as not every header names one'}. "
        "The p-value is not corrected for reading the pattern off the same windows, nor for the heads one may try."
    )
    st.download_button("Motif (MEME text)", lambda: motif.meme(stem), f"{stem}.meme", "text/plain", on_click="ignore")
