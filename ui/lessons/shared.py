"""What the lesson pages share: lists of choices, "try this", the frame of a screen, a board, and its picked cell.

The address holds the cell that was clicked, so coming back shows it again; every other step shows the cell that belongs
to the same words.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar, cast

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from heedmap.lessons.board import Axes, Board, Matrix
from heedmap.lessons.operations import TERMS_SHOWN
from heedmap.lessons.sentences import MOST_WORDS, Sentence, toy_sentences
from heedmap.plots.canvas.views import About
from heedmap.plots.export import archive, harmless
from ui.components.matrices.component import Cell, matrices, readable
from ui.shared import address
from ui.shared.address import belong_to, choice, line, parameter, put, set_parameter, whole
from ui.shared.files import frame_csv, save_button
from ui.shared.files import table as table_of
from ui.shared.state import HIDE, LOCK, page_state
from ui.shared.subject import MODEL, TEXT
from ui.texts import plain, t

Option = TypeVar("Option", bound=str)

ToyWords = tuple[int, str, str]
"""What a toy reads: how many of its own words, and the source and target that were typed instead."""

WIDTHS = ("2", "4", "6", "8", "12", "16")
"""Widths of a toy, d_model."""

LONGEST_SAID = 120
"""Letters that are said beside a picture before a question mark; a Chinese character counts as three."""

_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[^\s\d])|(?<=。)(?=\S)")
_WIDE = re.compile(r"[\u3000-\u9fff\uff00-\uffef]")

CELL = "cell"
"""The query parameter of the picked cell: matrix, row and column, from 0."""

KEPT = frozenset((HIDE, LOCK, MODEL, TEXT, "source", "target", "force"))
"""Parameters that "try this" leaves as they are: the model, what it reads, and what a lesson link hides."""


def listed(
    name: str,
    options: Sequence[Option],
    *,
    key: str,
    default: str | None = None,
    width: address.Width = 180,
    bare: bool = False,
    text: Callable[[str], str] | None = None,
) -> Option:
    """A list of choices called `name` in the catalogue, each as `name_option` there, or as `text` says."""
    said = text or (lambda option: plain(f"{name}_{option}"))
    found = choice(t(name), options, key=key, default=default, form="list", width=width, bare=bare, text=said)
    return cast("Option", found)


def counted(name: str, count: int, *, key: str, default: int = 0, width: address.Width = 80, **form: Any) -> int:
    """A list of `count` numbers from 0."""
    form.setdefault("text", str)
    return int(listed(name, [str(i) for i in range(count)], key=key, default=str(default), width=width, **form))


def model_kind(*more: str, key: str = "made", default: str = "toy", width: address.Width = 140) -> str:
    """Whether a toy or a trained model is looked at (`shipped`), or something more."""
    return listed("lessons.model", ("toy", "shipped", *more), key=key, default=default, width=width, bare=True)


def toy_width() -> int:
    """Ask for the width of a toy."""
    return int(choice(t("attention_steps.d_model"), WIDTHS, key="d_model", default="4", text=str))


def toy_seed() -> int:
    """Ask what a toy's numbers are drawn from."""
    return whole(t("attention_steps.seed"), 0, 9_999, 1, key="seed")


def toy_words(*sides: Literal["source", "target"]) -> tuple[ToyWords, tuple[Sentence, Sentence]]:
    """Ask what a toy reads: how many of its own words, or the reader's; about other words no cell is picked.

    Gives what was asked, and the sentences.

    Raises:
        InputError: too many words were typed.
    """
    n_tokens = whole(t("lessons.toy_tokens"), 1, MOST_WORDS, 4, key="n_tokens")
    typed = {"source": "", "target": ""}
    for side in sides:
        typed[side] = line(t(f"lessons.toy_{side}"), "", key=f"{side}_words", placeholder=plain("lessons.toy_apart"))
    belong_to(tuple(typed.values()), CELL)
    words = n_tokens, typed["source"], typed["target"]
    return words, toy_sentences(*words)


def try_this(page: str, items: Mapping[str, Mapping[str, Any]]) -> None:
    """A list of settings worth seeing: a choice sets every control to what the item says, or to its default.

    `items` maps a text of the page's catalogue to the settings. The list closes when one is chosen. What a lesson link
    fixes is set by no item that is offered.
    """
    said = {name: t(f"{page}.{name}") for name, settings in items.items() if not address.fixed(*settings)}
    if not said:
        return
    st.menu_button(
        t("lessons.try"), list(said), key=f"{page}.try", format_func=said.__getitem__, on_click=_set,
        args=(f"{page}.try", items), icon=":material/lightbulb:", type="primary",
    )  # fmt: skip


def _set(key: str, items: Mapping[str, Mapping[str, Any]]) -> None:
    here = page_state()
    put(**dict.fromkeys(here.values.keys() - KEPT - set(here.kept)))
    put(**items[st.session_state[key]])


def columns() -> tuple[DeltaGenerator, DeltaGenerator]:
    """A place for pictures, and beside it one for formulas and words; below it where the page is narrow."""
    with st.container(key="columns"):
        pictures, words = st.columns([13, 9], gap="medium")
    return pictures, words


@contextmanager
def beside(formula: str, *said: str) -> Iterator[DeltaGenerator]:
    """Inside, pictures are drawn; beside them stand a formula, if there is one, and what is said. Gives their place."""
    pictures, words = columns()
    with words:
        if formula:
            st.latex(formula)
        for one in said:
            explain(one)
    with pictures:
        yield words


def explain(said: str) -> None:
    """What to look at, in Markdown: its first sentences; those that would make it long stand behind a question mark."""
    sentences = _SENTENCES.split(said)
    lengths = np.cumsum([len(one) + 2 * len(_WIDE.findall(one)) for one in sentences])
    count = max(1, int((lengths <= LONGEST_SAID).sum()))
    st.markdown(" ".join(sentences[:count]), help=" ".join(sentences[count:]) or None)


def composed(begins: str, texts: Mapping[str, bool], **fields: object) -> str:
    """Those texts of the catalogue that hold, one after another; their names begin with `begins`."""
    return " ".join(plain(f"{begins}{name}", **fields) for name, holds in texts.items() if holds)


def stage(page: str, stages: Sequence[str]) -> str:
    """Which step is looked at, the first one at first: the one before or after, or one of a row of all.

    Where the row is too long for the window it wraps, and both buttons stay in sight.
    """
    here = parameter("stage")
    at = stages.index(here) if here in stages else 0
    with st.container(horizontal=True, vertical_alignment="center", gap="xxsmall"):
        _turn("previous", stages[at - 1] if at else None)
        _turn("next", stages[at + 1] if at + 1 < len(stages) else None)
        return choice(
            t(f"{page}.stage"), stages, key="stage", bare=True, text=lambda stage: plain(f"{page}.stage_{stage}")
        )


def _turn(name: str, stage: str | None) -> None:
    """A button that leads to a step; it leads nowhere from the first one back, and from the last one on.

    Only its arrow is seen (`frame.STYLE`): the label is for screen readers. It has no help, which would lie over the
    steps and lists around it.
    """
    st.button(
        t(f"lessons.{name}"), key=name, on_click=partial(put, stage=stage), disabled=stage is None,
        icon=f":material/chevron_{'left' if name == 'previous' else 'right'}:",
    )  # fmt: skip


def about(screen: str, *lines: str, formulas: Sequence[str] = ()) -> About:
    """What a saved picture says of a screen of a lesson: what was chosen for it, and its formulas, given in LaTeX."""
    page, _, _ = screen.partition(".")
    title = f"{plain(f'{page}.title')}: {plain(screen)}"
    return About(title, [one for one in lines if one], [readable(one) for one in formulas])


def draw(
    board: Board,
    key: str,
    about: About,
    *,
    titles: Mapping[str, str] | None = None,
    names: Sequence[str] | None = None,
    tables: Mapping[str, pd.DataFrame] | None = None,
    file_name: str = "matrices",
    **drawing: Any,
) -> None:
    """The matrices of a board and their download; `drawing` is what `matrices` can be told besides."""
    shown = list(board if names is None else names)
    selected = drawing.pop("selected", None)
    matrices(board, shown, selected, key=key, titles=titles, about=about, file_name=file_name, **drawing)
    download(board, shown, tables, titles=titles, about=[about.title, *about.lines[:1]], name=file_name)


def download(
    board: Board,
    names: Sequence[str] = (),
    tables: Mapping[str, pd.DataFrame] | None = None,
    *,
    titles: Mapping[str, str] | None = None,
    about: Sequence[str] = (),
    name: str = "matrices",
) -> None:
    """Matrices as CSV with labels and all digits: one file, or several in a ZIP with a table of what each is.

    Files are called as matrices are on the page. `tables` come along; `titles` say what a matrix is in words, `about`
    of what all of them are. `name` is the archive's. All is written when it is asked for.
    """
    files = {_file_of(board[one]): partial(matrix_csv, board[one]) for one in names}
    what = {_file_of(board[one]): _described(board, one, (titles or {}).get(one, "")) for one in names}
    files |= {name: partial(_undefined_by_name, table) for name, table in (tables or {}).items()}

    def zipped() -> bytes:
        return archive({}, {file: (what.get(file, ""), text()) for file, text in files.items()}, about)

    save = partial(save_button, key="matrices.file", icon=":material/download:")
    if len(files) == 1:
        ((file, text),) = files.items()
        save(t("lessons.download_csv", name=file), text, f"{file}.csv")
    else:
        save(t("lessons.download_zip"), zipped, f"{name}.zip", "application/zip")


def _undefined_by_name(table: pd.DataFrame) -> str:
    """A table as CSV, its texts harmless in a spreadsheet; undefined numbers are called so, and not left out."""
    return frame_csv(table.astype(object).where(table.notna(), "NaN"))


def _file_of(matrix: Matrix) -> str:
    """What a matrix is called on the page, as a file's name.

    Its own name where its axes have no meaning, or where no file can be called as it is.
    """
    called = readable(matrix.symbol)
    return matrix.name if re.search(r'[<>:"/\\|?*]', called) or not any(matrix.axes) else called


def _described(board: Board, name: str, title: str) -> str:
    """A matrix in words: what it is, and how it is made."""
    return ": ".join(part for part in (title, "; ".join(map(readable, board.formulas(name)))) if part)


def matrix_csv(matrix: Matrix) -> str:
    """Labels, which are harmless in a spreadsheet, and numbers of a matrix; undefined and infinite ones by name."""
    rows, columns = (list(map(harmless, labels)) for labels in (matrix.rows, matrix.columns))
    table = pd.DataFrame(matrix.values, index=rows, columns=columns)
    return table.to_csv(na_rep="NaN")


_CELL = re.compile(r"(\w{1,8})\.(\d{1,4})\.(\d{1,4})(?:\.(\w{1,12}))?")
_HEAD = re.compile(r"\d+$")


def picked(board: Board, shown: Sequence[str], stage: str | None, head: int) -> Cell | None:
    """The picked cell as the matrices called `shown` have it; None where none is picked.

    On the step where it was picked it is that very cell, on the whole board (`stage` of None) too. On another one it is
    the cell of the step's result with the same query, key and dimension, as far as it has these; the last one where
    this board has fewer.
    """
    found = _CELL.fullmatch(parameter(CELL) or "")
    if found is None:
        return None
    name, row, column, at = found[1], int(found[2]), int(found[3]), found[4]
    same = _of_head(board, name, head)
    if same in shown and (stage is None or board[same].stage == stage or at == stage):
        return _inside(board, same, row, column)
    place = dict(zip(_axes(board, name, same), (row, column), strict=True))
    made = [one for one in shown if stage is None or board[one].stage == stage]

    def nearness(one: str) -> tuple[int, bool, int]:
        axes = [axis for axis in board[one].axes if axis]
        return sum(axis in place for axis in axes), "query" in axes and "query" in place, made.index(one)

    best = max(made, key=nearness)
    row, column = (place.get(axis, 0) if axis else 0 for axis in board[best].axes)
    return _inside(board, best, row, column)


def pick(board: Board, stage: str | None, cell: Cell | None) -> None:
    """Put a cell into the address, with the step on which it was picked where that is not its own; None: no cell."""
    if cell is None:
        set_parameter(CELL, None)
        return
    elsewhere = stage is not None and board[cell.matrix].stage != stage
    text = f"{cell.matrix}.{cell.row}.{cell.column}"
    set_parameter(CELL, f"{text}.{stage}" if elsewhere else text)


def _of_head(board: Board, name: str, head: int) -> str:
    """The matrix of the same meaning on this board: of the head that is looked at, or of none."""
    root = _HEAD.sub("", name)
    candidates = (f"{root}{head}", root, name) if root != name else (name, f"{name}{head}")
    return next((one for one in candidates if one in board), "")


def _axes(board: Board, name: str, same: str) -> Axes:
    """What rows and columns of a picked matrix are, also where this board has no such matrix."""
    if same:
        return board[same].axes
    return ("query", "key") if _HEAD.sub("", name) in {"S", "D", "M", "A", "B"} else ("query", "dimension")


def _inside(board: Board, name: str, row: int, column: int) -> Cell:
    n_rows, n_columns = board[name].values.shape
    return Cell(name, min(row, n_rows - 1), min(column, n_columns - 1))


def equation(board: Board, cell: Cell, is_example: bool, with_formula: bool = False) -> None:
    """A cell worked out: its equation; with the formula of its matrix where nothing else shows it.

    Terms that the equation leaves out are listed, and the exponentials of a softmax.
    """
    worked = board.equation(cell.matrix, cell.row, cell.column)
    matrix = board[cell.matrix]
    labels = [label for label in (matrix.rows[cell.row], matrix.columns[cell.column]) if label]
    key = "equation_example" if is_example else "equation_picked"
    with st.container(key="worked"):
        st.markdown(t(f"lessons.{key}", labels=", ".join(labels)))
        if with_formula:
            for formula in board.formulas(cell.matrix):
                st.latex(formula)
        st.latex(worked.latex)
    if matrix.stage == "softmax":
        _softmax_table(matrix, cell.row, worked.terms)
    elif len(worked.terms) > TERMS_SHOWN:
        with st.expander(t("lessons.terms", count=len(worked.terms))):
            table_of(worked.terms, [t("lessons.term"), t("lessons.value")], width="content")


def _softmax_table(matrix: Matrix, row: int, terms: tuple[tuple[str, float], ...]) -> None:
    """exp, sum, quotient of one row; an undefined quotient is called so."""
    values = [*matrix.values[row], float(matrix.values[row].sum())]
    table = {
        t("lessons.key"): [*matrix.columns, t("lessons.sum")],
        t("lessons.exponential"): [*(value for _, value in terms), sum(value for _, value in terms)],
        t("lessons.quotient"): [number_text(value) for value in values],
    }
    table_of(table, formats={t("lessons.exponential"): "%.4f"}, width="content", key="softmax-row")


def number_text(value: float) -> str:
    """Four decimals, or the word for what is not defined."""
    return plain("lessons.undefined") if value != value else f"{value:.4f}"  # noqa: PLR0124  (NaN)


def step_panel(
    board: Board,
    names: Sequence[str],
    stage: str | None,
    first: str,
    said: str,
    about: About,
    *,
    head: int = 0,
    formulas: Sequence[str] = (),
    **drawing: Any,
) -> DeltaGenerator:
    """A step: matrices that can be picked from; beside them formulas, what is said, and one cell worked out.

    `first` is the matrix of the cell that is worked out until one is picked. Without `formulas` that of the cell's
    matrix stands with its equation. It gives the place for what else is said.
    """
    cell = picked(board, names, stage, head)
    shown = cell or Cell(first, 0, min(1, board[first].values.shape[1] - 1))  # the first row's second, if there are two
    left, right = columns()
    with right:
        for formula in formulas:
            st.latex(formula)
        explain(said)
        equation(board, shown, is_example=cell is None, with_formula=not formulas)
    worked = readable(board.equation(shown.matrix, shown.row, shown.column).latex)
    with left:
        draw(
            board, "matrices", replace(about, formulas=[*map(readable, about.formulas), worked]), names=names,
            selected=shown, example=cell is None, elided=True, on_pick=partial(pick, board, stage), **drawing,
        )  # fmt: skip
    return right
