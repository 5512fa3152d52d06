"""What leaves a page: its files, what they are called and say of themselves; and its tables."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from jaxtyping import Float
from numpy.typing import ArrayLike

from heedmap import Record, Translation
from heedmap.attention.interventions.value import Intervention, to_text
from heedmap.attention.notebook import page
from heedmap.attention.record_files import ENDING
from heedmap.messages import say
from heedmap.plots.canvas.views import About
from heedmap.plots.export import archive, csv, file_name, file_names, table_csv
from heedmap.plots.picture import Picture
from heedmap.runs.any_model import ModelRun
from heedmap.sites import Site
from ui.shared.address import parameter
from ui.shared.controls import MEAN, Selection
from ui.store import store
from ui.texts import in_this_language, plain, said, t

MOST_NUMBERS = 2_000_000
"""So many numbers fit into a ZIP of tables, which takes seconds then; beyond, there is the NPZ."""

MOST_IN_NPZ = 100_000_000
"""So many numbers are computed for an NPZ at one time; beyond, there is the file of the record."""


@dataclass(frozen=True)
class Provenance:
    """Where a page's maps come from: the checkpoint, what it read, and what was changed while it ran."""

    checkpoint: str = ""
    text: str = ""
    changes: tuple[Intervention, ...] = ()

    def stem(self, *parts: str) -> str:
        """A file's name without its ending: the text's first words, the checkpoint, `parts`, and what was changed."""
        more = len(self.changes) - 1
        changed = [f"changed-{to_text(self.changes[:1])}"] if self.changes else []
        return file_name(self.checkpoint, *parts, *changed, *([f"and-{more}-more"] if more > 0 else []), text=self.text)

    def facts(self, *more: str) -> list[str]:
        """The lines that every file of this run says, and `more` of them."""
        known = {"files.sentence": self.text, "files.checkpoint": self.checkpoint}
        found = [plain(code, text=text) for code, text in known.items() if text]
        found += [plain("files.changed", text=said(one.message)) for one in self.changes]
        unsure = map(said, store.guesses(self.checkpoint))
        return [*found, *dict.fromkeys(fact for fact in (*unsure, *more) if fact)]

    def about(self, title: str, picture: Picture, *more: str) -> About:
        """What a saved picture says that shows maps in the form of `picture`."""
        return About(title, self.facts(*map(said, picture.notes), *more))


def head_prefix(picture: Picture) -> tuple[str, str]:
    """A map's part of a file's name, in no language: its site and head."""
    return str(picture.site), str(picture.head)


def as_written(values: ArrayLike, digits: int) -> Float[np.ndarray, "..."]:
    """Values for a column that writes so many digits after the point: those that are written as zero are zero.

    Streamlit would write -0.000 for what it rounds to zero.
    """
    found = np.asarray(values, dtype=np.float64)
    return np.where(np.abs(found) < 0.5 * 10.0**-digits, 0.0, found)


def bars(names: Iterable[str], digits: int = 3, **form: Any) -> dict[str, Any]:
    """Columns of numbers from 0 to 1, each with a bar behind it."""
    bar = st.column_config.ProgressColumn
    return {name: bar(name, min_value=0.0, max_value=1.0, format=f"%.{digits}f", **form) for name in names}


def table(
    rows: Any, columns: Any = None, formats: Mapping[str, str] = MappingProxyType({}), **form: Any
) -> pd.DataFrame:
    """Draw rows (what a `DataFrame` is made of) without an index; `form` is that of `st.dataframe`. Gives the table.

    `formats` say of columns how their numbers are written (`%.3f`).
    """
    found = pd.DataFrame(rows, columns=columns)
    config = {name: st.column_config.NumberColumn(format=one) for name, one in formats.items()}
    config |= form.pop("column_config", {})
    written: dict[Any, Any] = {name: as_written(found[name], int(one[-2])) for name, one in formats.items()}
    texts = found.select_dtypes(exclude=["number", "bool"])
    written |= {name: [said(one) if isinstance(one, str) else one for one in texts[name]] for name in texts}
    st.dataframe(found.assign(**written), hide_index=True, placeholder="-", column_config=config, **form)
    return found


def frame_csv(table: pd.DataFrame) -> str:
    """A table of a page, whose texts may be anybody's (`table_csv`); without its index."""
    return table_csv([str(name) for name in table.columns], table.itertuples(index=False, name=None))


def save_button(label: str, data: Any, name: str, kind: str = "text/csv", **form: Any) -> None:
    """A button that saves a file: a table as CSV, or what `data` is or makes, in the language of now."""
    make = partial(frame_csv, data) if isinstance(data, pd.DataFrame) else data
    localized = in_this_language(make) if callable(make) else make
    st.download_button(label, localized, file_names([name])[0], kind, on_click="ignore", **form)


def downloads_panel(shown: Translation | ModelRun, choice: Selection) -> None:
    """The record's numbers in the form that is on screen (scores, whole words, hidden tokens): this map, or all."""
    record, origin = shown.record, Provenance(shown.checkpoint, shown.input, shown.record.interventions)
    scores = (parameter("scores") or "").lower() == "true" and choice.head != MEAN
    picture = record[choice.site].picture(choice.head, choice.words, choice.special, scores=scores)
    facts = origin.facts(*map(said, record.notes))
    form = ["scores"] if scores else []
    stem = origin.stem(*head_prefix(picture), *form)
    what = " · ".join([say(picture.title), said(picture.unit), *map(said, picture.notes)])
    st.markdown(f"**{t('files.this')}**")
    save_button(t("translate.download_csv"), lambda: csv(picture, facts), f"{stem}.csv")
    st.markdown(f"**{t('files.all')}**")
    numbers = sum(one.n_heads * one.shape[0] * one.shape[1] for one in record.values())
    too_many = numbers > MOST_NUMBERS
    head = None if choice.head == MEAN else int(choice.head)
    named, first = replace(record, model=shown.checkpoint, text=shown.input), (Site(choice.site), head)
    with st.container(horizontal=True):
        save_button(
            t("files.zip"), lambda: archive(_all(record, choice, scores), about=facts),
            f"{origin.stem('all-maps', *form)}.zip", "application/zip", icon=":material/folder_zip:", disabled=too_many,
        )  # fmt: skip
        save_button(
            t("translate.download_npz"), record.npz, f"{origin.stem('record')}.npz", "application/octet-stream",
            disabled=numbers > MOST_IN_NPZ,
        )  # fmt: skip
        save_button(
            t("files.page"), lambda: page(named, first, choice.words, choice.special).document(),
            f"{origin.stem('all-maps')}.html", "text/html", help=t("files.page_help"),
        )  # fmt: skip
        record_button(shown)
    st.caption(t("files.zip_large", numbers=numbers, most=MOST_NUMBERS) if too_many else t("files.zip_holds"))
    st.caption(f"{t('files.holds', what=what)} {t('translate.downloads_note')}")


def record_button(shown: Translation | ModelRun) -> None:
    """The record as a file that can be brought again, however long it is."""
    origin = Provenance(shown.checkpoint, shown.input, shown.record.interventions)
    record = replace(shown.record, model=shown.checkpoint, text=shown.input)
    save_button(
        t("files.record"), record.to_bytes, f"{origin.stem()}{ENDING}", "application/octet-stream",
        icon=":material/save:", help=t("files.record_help"), key="record-file",
    )  # fmt: skip


def _all(record: Record, choice: Selection, scores: bool) -> dict[str, Picture]:
    """Every head of every site by a file's name; with each layer's mean if the page shows a mean."""
    return {
        f"{site}_{MEAN if head == MEAN else f'head-{head}'}": attention.picture(
            head, choice.words, choice.special, scores=scores
        )
        for site, attention in record.items()
        for head in [*range(attention.n_heads), *([MEAN] if choice.head == MEAN else [])]
    }
