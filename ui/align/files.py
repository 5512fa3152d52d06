"""What the page's files are called, what they say of themselves, and the panel that hands them out."""

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from transformer.attention.alignment import AlignmentComparison, further_apart
from transformer.plots.archive import archive
from transformer.plots.canvas.about import About
from transformer.plots.export import table_csv
from transformer.plots.file_names import file_name
from transformer.plots.picture import Picture
from ui.align.choices import Aligned, Pair, own_alignments
from ui.texts import in_this_language, plain, t


def stem(shown: Pair, *parts: str) -> str:
    """A file's name without its ending: the sentence's first words, both models, and `parts`."""
    return file_name(shown.first.name, shown.second.name, *parts, text=shown.first.own.input)


def about_maps(shown: Pair, own: bool) -> About:
    """What a saved picture of both maps says above them: the models, the sentence, whose words the rows are."""
    title = plain("align.about_title", first=shown.first.label, second=shown.second.label)
    return About(title, [_sentence(shown), plain("align.look_own") if own else _target(shown)])


def agreement_table(comparison: AlignmentComparison) -> tuple[list[str], list[tuple[str, float, str, str]]]:
    """A header, and a row a target word: agreement, and the source words on which the maps are furthest apart."""
    keys = comparison.first.keys.labels
    rows = [
        (word, float(value), keys[more], keys[less])
        for word, value, (more, less) in zip(
            comparison.first.queries.labels, comparison.agreement, further_apart(comparison), strict=True
        )
    ]
    return [plain(f"align.table_{column}") for column in ("word", "agreement", "more", "less")], rows


def downloads_panel(shown: Pair, aligned: Aligned, draw: Callable[[], None]) -> None:
    """Every number of the page: all tables in one ZIP, and the records; below them `draw` draws the maps."""
    comparison = aligned.comparison
    facts = [_sentence(shown), _target(shown), *_heads(shown, aligned)]
    table = in_this_language(lambda: table_csv(*agreement_table(comparison)))
    with st.container(horizontal=True):
        st.download_button(
            t("align.download_all"), _all(shown, aligned, facts), f"{stem(shown, 'alignments')}.zip", "application/zip",
            type="primary", icon=":material/folder_zip:", on_click="ignore", help=t("align.download_all_help"),
        )  # fmt: skip
        st.download_button(
            t("align.download_agreement"), table, f"{stem(shown, 'agreement')}.csv", "text/csv", on_click="ignore"
        )
        for side in dict.fromkeys(shown.sides):
            for what, run in (("own", side.own), ("read", side.read)):
                st.download_button(
                    t(f"align.download_record_{what}", model=side.label), run.record.npz,
                    f"{file_name(side.name, f'{what}-record', text=side.own.input)}.npz",
                    "application/octet-stream", key=f"npz-{side.name}-{what}", on_click="ignore", wrap=True,
                )  # fmt: skip
    draw()
    st.caption(t("align.look_downloads"))


def _all(shown: Pair, aligned: Aligned, facts: list[str]) -> Callable[[], bytes]:
    comparison = aligned.comparison
    first, second = own_alignments(shown, aligned)
    pictures = {
        "first": comparison.first,
        "second": comparison.second,
        "difference": comparison.difference,
        "first-own-words": first,
        "second-own-words": second,
    }
    told = {name: _told(shown, name, picture) for name, picture in pictures.items()}

    def made() -> bytes:
        agreement = {"agreement": (plain("align.table_is"), table_csv(*agreement_table(comparison)))}
        return archive(told, agreement, facts)

    return in_this_language(made)


def _told(shown: Pair, name: str, picture: Picture) -> Picture:
    """The picture, with a note that says whose it is and whose words its rows are."""
    labels = {"first": shown.first.label, "second": shown.second.label}
    model, _, own = name.partition("-")
    if model not in labels:
        note = plain("align.difference", **labels)
    elif own:
        note = plain("align.file_own", model=labels[model])
    else:
        note = plain("align.file_read", model=labels[model], origin=shown.origin)
    return replace(picture, notes=(*picture.notes, note))


def _sentence(shown: Pair) -> str:
    return plain("align.about_sentence", text=shown.first.own.input)


def _target(shown: Pair) -> str:
    return plain("align.about_target", target=shown.target, origin=shown.origin)


def _heads(shown: Pair, aligned: Aligned) -> list[str]:
    return [
        plain("align.about_head", model=side.label, head=note)
        for side, note in zip(shown.sides, aligned.notes, strict=True)
    ]
