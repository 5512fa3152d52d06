"""Many maps to take away at once: a ZIP of tables, and a table of what each one is."""

import io
import zipfile
from collections.abc import Mapping, Sequence

import numpy as np

from transformer.messages import say, words
from transformer.plots.export import csv, table_csv
from transformer.plots.picture import Picture

CONTENTS = "contents.csv"
"""The file of an archive that says what the others are."""

COLUMNS = (
    "files_file",
    "files_map",
    "files_rows",
    "files_columns",
    "files_numbers",
    "files_lowest",
    "files_highest",
    "files_masked",
    "files_notes",
)
"""What the list of contents says of each file."""

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file: the same numbers make the same archive."""


def archive(
    pictures: Mapping[str, Picture], others: Mapping[str, tuple[str, str]] | None = None, about: Sequence[str] = ()
) -> bytes:
    """A ZIP with the numbers of each picture as `NAME.csv`, and `contents.csv`: a row a file.

    `others` are further tables: what each is, and its text. `about` says what all of them are of (a sentence, a
    checkpoint); every file says it in its first cell (`csv`), and the list of contents in its last lines.
    """
    target = io.BytesIO()
    rows: list[Sequence[object]] = []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for name, picture in pictures.items():
            _add(made, f"{name}.csv", csv(picture, about))
            rows.append((f"{name}.csv", *_described(picture)))
        for name, (what, text) in (others or {}).items():
            _add(made, f"{name}.csv", text)
            rows.append((f"{name}.csv", what))
        _add(made, CONTENTS, table_csv([words(code) for code in COLUMNS], [*rows, *((line,) for line in about)]))
    return target.getvalue()


def _described(picture: Picture) -> Sequence[object]:
    shown = picture.values[picture.visible & np.isfinite(picture.values)]
    return (
        say(picture.title),
        words("files_axis", count=len(picture.queries), name=picture.queries.name),
        words("files_axis", count=len(picture.keys), name=picture.keys.name),
        say(picture.unit),
        float(shown.min()) if shown.size else None,
        float(shown.max()) if shown.size else None,
        int((~picture.visible).sum()),
        "; ".join(map(say, picture.notes)),
    )


def _add(made: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    made.writestr(entry, text)
