"""Pictures to take away: CSV, many of them in a ZIP, what the mode bar of a figure offers, and names of files."""

import csv as csv_format
import io
import math
import re
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from ..messages import say, words
from .picture import Picture

_FORMULA = "=+-@\uff1d\uff0b\uff0d\uff20\t\r\n"
"""With one of these in front, a spreadsheet would run a text as a formula."""


def plot_config(name: str = "attention", image: Literal["png", "svg"] = "png") -> dict[str, Any]:
    """Plotly's settings for every figure: its camera saves `name` as PNG (twice the pixels) or SVG.

    The button that uploads a chart to a server is taken away.
    """
    return {
        "displaylogo": False,
        "modeBarButtonsToRemove": ["sendChartToCloud", "select2d", "lasso2d"],
        "toImageButtonOptions": {"format": image, "filename": name, "scale": 2},
    }


PLOT_CONFIG = plot_config()
"""The settings where the file's name does not matter."""


def csv(picture: Picture, about: Sequence[str] = ()) -> str:
    """The numbers of a picture: a header of keys, then a row for each query; masked cells are empty, NaN is `nan`.

    The first cell says what the table is, apart by ` | `: the axis of the rows, that of the columns, site and head,
    the unit, the notes, and `about` (of what sentence, of what checkpoint).

    Values are written so that reading them gives the same number again. A label that a spreadsheet could take for a
    formula (it begins with = + - @, their full-width forms, a tab or a line break), or that begins with an
    apostrophe, gets an apostrophe in front; to read labels back, take one leading apostrophe away.
    """
    target = io.StringIO()
    rows = csv_format.writer(target, lineterminator="\n")
    axes = [words("figure_query", text=picture.queries.name), words("figure_key", text=picture.keys.name)]
    facts = [*axes, say(picture.title), say(picture.unit), *map(say, picture.notes), *about]
    corner = words("files_about_separator").join(dict.fromkeys(" ".join(fact.split()) for fact in facts))
    rows.writerow([harmless(corner), *map(harmless, picture.keys.labels)])
    for label, values, visible in zip(picture.queries.labels, picture.values, picture.visible, strict=True):
        rows.writerow([harmless(label), *(str(v) if seen else "" for v, seen in zip(values, visible, strict=True))])
    return target.getvalue()


def table_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Any table: texts are written as labels are (`csv`), numbers exactly; what is None or NaN is an empty cell."""
    target = io.StringIO()
    written = csv_format.writer(target, lineterminator="\n")
    written.writerow(map(harmless, header))
    for row in rows:
        written.writerow([harmless(value) if isinstance(value, str) else _number(value) for value in row])
    return target.getvalue()


def harmless(label: str) -> str:
    """A text as a cell of a table, in the language of the context: no spreadsheet runs it as a formula (see `csv`)."""
    label = say(label)
    signed = label in {"+", "-"}  # a strand, which no spreadsheet runs
    return f"'{label}" if label.startswith((*_FORMULA, "'")) and not signed else label


def _number(value: object) -> str:
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "" if missing else str(value)


CONTENTS = "contents.csv"
"""The file of an archive that says what the others are."""

COLUMNS = ("file", "map", "rows", "columns", "numbers", "lowest", "highest", "masked", "notes")
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
    target, others = io.BytesIO(), others or {}
    rows: list[Sequence[object]] = []
    names = (f"{name}.csv" for name in file_names([*pictures, *others], [CONTENTS.partition(".")[0]]))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for picture, name in zip(pictures.values(), names, strict=False):
            _add(made, name, csv(picture, about))
            rows.append((name, *_described(picture)))
        for (what, text), name in zip(others.values(), names, strict=True):
            _add(made, name, text)
            rows.append((name, what))
        header = [words(f"files_{name}") for name in COLUMNS]
        _add(made, CONTENTS, table_csv(header, [*rows, *((line,) for line in about)]))
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


def arrays_file(arrays: Iterable[tuple[str, Any]], packed: bool = True) -> bytes:
    """Arrays as a NumPy archive (.npz), under their names or what `file_names` makes of them."""
    target, save, pairs = io.BytesIO(), np.savez_compressed if packed else np.savez, list(arrays)
    names = file_names((name for name, _ in pairs), ["file", "allow_pickle"])  # those two are NumPy's own arguments
    save(target, **{name: values for name, (_, values) in zip(names, pairs, strict=True)})
    return target.getvalue()


LONGEST = 180
"""Bytes of a name in UTF-8 without its ending, at most: file systems take 255."""

WORDS, WORDS_LONGEST = 5, 48
"""How many words of a text stand in a name, and their bytes at most."""

RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
"""What Windows takes for a device, whatever the ending."""


def file_name(*parts: str, text: str = "") -> str:
    """A name without its ending: the first words of `text`, then `parts` (checkpoint, site, head), joined by `_`.

    Letters and digits of every script stay; dots stay between them in `parts`; anything else becomes one hyphen. So
    nothing of it can be a path, an option or a hidden file. Never empty, at most `LONGEST` bytes.
    """
    beginning = _cut("-".join(_joined_letters(text[:LONGEST]).split("-")[:WORDS]), WORDS_LONGEST)
    cleaned = [beginning, *(".".join(filter(None, map(_joined_letters, part.split(".")))) for part in parts)]
    name = _cut("_".join(filter(None, cleaned)), LONGEST) or "heedmap"
    return f"_{name}" if name.partition(".")[0].lower() in RESERVED else name


def file_names(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Names of files that lie side by side: no two are one where case does not count, and none is one of `taken`.

    A name that is safe already stays; of another one `file_name` makes one. The second of two gets `-2`.
    """
    seen, count, found = set(map(str.casefold, taken)), Counter[str](), list[str]()
    for name in names:
        parts = unicodedata.normalize("NFKC", name).partition(".")[0].lower()
        is_safe = _SAFE.fullmatch(name) and parts not in RESERVED and len(name.encode()) <= LONGEST
        stem = made = name if is_safe else file_name(name)
        while made.casefold() in seen:
            count[stem] += 1
            made = f"{stem}-{count[stem] + 1}"
        seen.add(made.casefold())
        found.append(made)
    return found


_SAFE = re.compile(r"\w[\w-]*(\.[\w-]+)*")
"""Letters, digits and low lines, hyphens but in front, single dots between them: no path, option or hidden file."""


@lru_cache(512)
def _joined_letters(text: str) -> str:
    """Runs of letters (with their accents) and digits, joined by hyphens."""
    kept = "".join(
        letter if unicodedata.category(letter)[0] in "LMN" else " " for letter in unicodedata.normalize("NFKC", text)
    )
    return "-".join(kept.split())


def _cut(name: str, longest: int) -> str:
    """As much of a name as takes `longest` bytes, without a mark at its end that joined it to more."""
    return name.encode()[:longest].decode(errors="ignore").rstrip("-_.")
