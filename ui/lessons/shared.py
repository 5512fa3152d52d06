"""What the lesson pages share: boards that are made once, the picked cell in the address, "try this", downloads."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.lessons.attention import AttentionLayer
from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.recipe import Recipe
from transformer.lessons.recurrent import recurrent_board
from transformer.lessons.sentences import source_sentence, target_sentence
from transformer.lessons.toy import MAX_TOKENS, toy_recurrent, toy_sentences, toy_transformer
from transformer.nn.recurrent import Recurrent
from transformer.nn.seq2seq import Seq2Seq
from transformer.plots.archive import archive
from transformer.plots.canvas.about import About
from transformer.plots.export import harmless
from ui.components.matrices.readable import readable
from ui.shared.address import belong_to, choice, line, parameter, put, whole
from ui.shared.files import frame_csv
from ui.store import store
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import in_this_language, plain, t

ToyWords = tuple[int, str, str]
"""What a toy reads: how many of its own words, and the source and target that were typed instead."""

LONGEST_SAID = 120
"""Letters that are said beside a picture before a question mark; a Chinese character counts as three."""

_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[^\s\d])|(?<=。)(?=\S)")
_WIDE = re.compile(r"[\u3000-\u9fff\uff00-\uffef]")

CELL = "cell"
"""The query parameter of the picked cell: matrix, row and column, from 0."""


def toy_words(*sides: Literal["source", "target"]) -> ToyWords:
    """Ask what a toy reads: how many of its own words, or the reader's; about other words no cell is picked.

    Raises:
        InputError: too many words were typed.
    """
    n_tokens = whole(t("lessons.toy_tokens"), 1, MAX_TOKENS, 4, key="n_tokens")
    typed = {"source": "", "target": ""}
    for side in sides:
        typed[side] = line(t(f"lessons.toy_{side}"), "", key=f"{side}_words", placeholder=plain("lessons.toy_apart"))
    belong_to(tuple(typed.values()), CELL)
    toy_sentences(n_tokens, **typed)
    return n_tokens, typed["source"], typed["target"]


def toy_board(
    d_model: int, n_heads: int, words: ToyWords, seed: int, norm_first: bool, site: str, recipe: Recipe
) -> Board:
    """One attention layer of a toy."""
    return _toy_layer(d_model, n_heads, words, seed, norm_first, site).board(recipe)


@cached()
def _toy_layer(d_model: int, n_heads: int, words: ToyWords, seed: int, norm_first: bool, site: str) -> AttentionLayer:
    model = toy_transformer(d_model, n_heads, seed, norm_first)
    return AttentionLayer(model, *toy_sentences(*words), site)


@cached()
def toy_recurrent_board(
    hidden: int, words: ToyWords, seed: int, attention: Literal["additive", "location"], step: int
) -> Board:
    """One step of a toy recurrent decoder's attention."""
    return recurrent_board(toy_recurrent(hidden, attention, seed), *toy_sentences(*words), step)


def shipped_board(name: str, text: str, target: str | None, site: str, recipe: Recipe) -> Board:
    """One attention layer of a checkpoint on a typed sentence pair; the encoder needs no target."""
    return _shipped_layer(name, store.revision(name), text, target, site).board(recipe)


def shipped_recurrent_board(name: str, text: str, target: str, step: int) -> Board:
    """One step of a recurrent checkpoint's attention on a typed sentence pair."""
    return _shipped_recurrent_board(name, store.revision(name), text, target, step)


@cached()
def _shipped_layer(
    name: str,
    revision: Revision,  # noqa: ARG001  (part of the cache key)
    text: str,
    target: str | None,
    site: str,
) -> AttentionLayer:
    checkpoint = store.checkpoint(name)
    source = source_sentence(checkpoint, text)
    read = None if target is None else target_sentence(checkpoint, target)
    return AttentionLayer(checkpoint.model_as(Seq2Seq), source, read, site)


@cached()
def _shipped_recurrent_board(
    name: str,
    revision: Revision,  # noqa: ARG001  (part of the cache key)
    text: str,
    target: str,
    step: int,
) -> Board:
    checkpoint = store.checkpoint(name)
    source, read = source_sentence(checkpoint, text), target_sentence(checkpoint, target)
    return recurrent_board(checkpoint.model_as(Recurrent), source, read, step)


def recurrent_names(attention: str) -> list[str]:
    """Recurrent checkpoints with this kind of attention, by name."""
    names = store.checkpoint_names("recurrent")
    return [name for name in names if getattr(store.checkpoint(name).model.config, "attention", "") == attention]


def n_steps(name: str, target: str) -> int:
    """Tokens of a typed target that a checkpoint's decoder reads."""
    return len(target_sentence(store.checkpoint(name), target).ids)


def in_formula(key: str, **symbols: str) -> str:
    """A text of the catalogue as a part of a formula; its fields are symbols, written as in formulas."""
    upright = {name: rf"}}{symbol}\text{{" for name, symbol in symbols.items()}
    return rf"\text{{{plain(key, **upright)}}}"


def try_this(page: str, items: Mapping[str, Mapping[str, Any]], defaults: Mapping[str, Any]) -> None:
    """A list of settings worth seeing: a choice sets every control, to its default or to what the item says.

    `items` maps a text of the page's catalogue to the settings; the setting `cell` goes to the address. The list closes
    when one is chosen.
    """
    said = {name: t(f"{page}.{name}") for name in items}
    st.menu_button(
        t("lessons.try"), list(items), key=f"{page}.try", format_func=said.__getitem__, on_click=_set,
        args=(f"{page}.try", items, defaults), icon=":material/lightbulb:", type="primary",
    )  # fmt: skip


def _set(key: str, items: Mapping[str, Mapping[str, Any]], defaults: Mapping[str, Any]) -> None:
    settings = items[st.session_state[key]]
    put(**dict.fromkeys((CELL, *defaults)))
    put(**{key: value for key, value in settings.items() if value != defaults.get(key)})


def about(screen: str, *lines: str, formulas: Sequence[str] = ()) -> About:
    """What a saved picture says of a screen of a lesson: what was chosen for it, and its formulas, given in LaTeX."""
    page, _, _ = screen.partition(".")
    title = f"{plain(f'{page}.title')}: {plain(screen)}"
    return About(title, [one for one in lines if one], [readable(one) for one in formulas])


def columns() -> tuple[DeltaGenerator, DeltaGenerator]:
    """A place for pictures, and beside it one for formulas and words; below it where the page is narrow."""
    with st.container(key="columns"):
        pictures, words = st.columns([13, 9], gap="medium")
    return pictures, words


def explain(said: str) -> None:
    """What to look at, in Markdown: its first sentences; those that would make it long stand behind a question mark."""
    sentences = _SENTENCES.split(said)
    lengths = np.cumsum([len(one) + 2 * len(_WIDE.findall(one)) for one in sentences])
    count = max(1, int((lengths <= LONGEST_SAID).sum()))
    st.markdown(" ".join(sentences[:count]), help=" ".join(sentences[count:]) or None)


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


def matrix_downloads(
    board: Board,
    names: Sequence[str],
    tables: Mapping[str, pd.DataFrame] | None = None,
    *,
    titles: Mapping[str, str] | None = None,
    about: Sequence[str] = (),
    name: str = "matrices",
) -> None:
    """All matrices in one ZIP, with a table of what each is, and each alone, as CSV with labels and all digits.

    Files are called as matrices are on the page. `tables` come along; `titles` say what a matrix is in words, `about`
    of what all of them are. `name` is the archive's. Each is written when it is asked for.
    """
    files = {_file_of(board[one]): partial(matrix_csv, board[one]) for one in names}
    what = {_file_of(board[one]): _described(board, one, (titles or {}).get(one, "")) for one in names}
    files |= {name: partial(_undefined_by_name, table) for name, table in (tables or {}).items()}

    def zipped() -> bytes:
        return archive({}, {file: (what.get(file, ""), text()) for file, text in files.items()}, about)

    with st.popover(t("lessons.downloads"), icon=":material/download:"):
        if len(files) > 1:
            st.download_button(
                t("lessons.download_zip"), in_this_language(zipped), f"{name}.zip", "application/zip",
                key="zip.matrices", on_click="ignore", icon=":material/folder_zip:",
            )  # fmt: skip
        for file, text in files.items():
            st.download_button(
                t("lessons.download_csv", name=file), text, f"{file}.csv", "text/csv",
                key=f"csv.{file}", on_click="ignore", type="tertiary",
            )  # fmt: skip


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


def n_layers(name: str, stack: str) -> int:
    """Layers of a shipped checkpoint's encoder or decoder."""
    return len(getattr(store.checkpoint(name).model_as(Seq2Seq), stack))


def n_heads(board: Board) -> int:
    """Heads of a board's attention."""
    return sum(matrix.stage == "mix" for matrix in board.values())
