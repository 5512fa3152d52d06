"""The methods of a record that open, save, measure and draw it: functions above the data, attached to it by name.

`attach` makes them methods of `Record` and `AttentionMap`, which `import transformer` does. So what is captured knows
neither files nor pages, and whoever has a record still finds `record.save` and `record.html` on it.
"""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..plots.export import arrays_file, file_names
from ..safe.reading import opened
from . import notebook, record_files
from .interventions.value import to_text
from .measures import measures_table
from .record import MEAN, AttentionMap, HeadOrMean, Record

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def open_record(path: Path | str) -> Record:
    """The record of a file that `save` wrote. The file is untrusted: nothing in it is run.

    Raises:
        CheckpointError: it is missing, damaged, no record, or one of a newer version.
    """
    with opened(Path(path)) as handle:
        return record_files.read(handle, Path(path).name)


def of_bytes(data: bytes | bytearray, name: str) -> Record:
    """As `open`, of the bytes of a file that messages call `name`."""
    return record_files.read(io.BytesIO(data), name)


def save(record: Record, path: Path | str) -> None:
    """Write the record to a file, which is whole or not there; `Record.open` reads it, also on another machine.

    Raises:
        CheckpointError: a tensor holds NaN, or the file would be larger than is read.
        OSError: it cannot be written.
    """
    record_files.save(record, Path(path))


def to_bytes(record: Record) -> bytes:
    """The bytes that `save` writes."""
    return b"".join(record_files.blocks(record))


def npz(record: Record) -> bytes:
    """All of it as a NumPy archive: per site `SITE` (head, query, key), `SITE.mask` and the labels of both axes.

    A run that was changed brings `interventions` as well, as addresses write them; `notes` are what must be known of
    the maps. A site whose name is no name of a file gets one (`plots.export.file_names`); `sites` then are the names.
    """
    arrays: list[tuple[str, Any]] = [("notes", list(map(str, record.notes)))] if record.notes else []
    if record.interventions:
        arrays.append(("interventions", to_text(record.interventions)))
    if file_names(record.sites, ["notes", "interventions"]) != list(record.sites):
        arrays.append(("sites", record.sites))
    for site, one in record.maps.items():
        arrays += [(site, one.all_weights()), (f"{site}.mask", one.mask())]
        arrays += [(f"{site}.queries", one.queries.labels), (f"{site}.keys", one.keys.labels)]
    return arrays_file(arrays)


def figure(attention: AttentionMap, head: HeadOrMean = MEAN, words: bool = False, special: bool = True) -> "Figure":
    """A Plotly heatmap of one head (or the mean of all), in the form of `picture`."""
    from ..plots.charts import heatmap  # Plotly waits until something is drawn

    return heatmap(attention.picture(head, words, special))


def html(shown: Record | AttentionMap, path: str | Path | None = None) -> str:
    """The dashboard's views as a page for any browser, which needs no network; saved where a path is given.

    What travels rounded or in blocks, the page says (`attention.notebook`).
    """
    text = notebook.page(_record(shown)).document()
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def cell(shown: Record | AttentionMap, **_: object) -> dict[str, str]:
    """In a notebook: all heads, one head large, and its lines; with a short text for where there is no HTML."""
    name = f"{type(shown).__name__}({', '.join(_record(shown))})"
    return {"text/html": cell_html(shown), "text/plain": name}


def cell_html(shown: Record | AttentionMap) -> str:
    """The same views, as what a notebook shows of HTML alone."""
    return notebook.page(_record(shown)).frame()


def _record(shown: Record | AttentionMap) -> Record:
    return Record({shown.site: shown}) if isinstance(shown, AttentionMap) else shown


DRAWN = {"html": html, "_repr_html_": cell_html, "_repr_mimebundle_": cell}

METHODS: Mapping[type, Mapping[str, Any]] = {
    AttentionMap: {"figure": figure, **DRAWN},
    Record: {
        "open": staticmethod(open_record), "of_bytes": staticmethod(of_bytes), "save": save, "to_bytes": to_bytes,
        "npz": npz, "measures": measures_table, **DRAWN,
    },
}  # fmt: skip
"""The methods of each type, by name."""


def attach() -> None:
    """Give records their methods."""
    for owner, methods in METHODS.items():
        for name, function in methods.items():
            setattr(owner, name, function)
