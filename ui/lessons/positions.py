"""The lesson "Positions": tables, their waves, distances and rotation; ways to tell positions, order, the end."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from heedmap.lessons import positions
from heedmap.lessons.board import Board, Matrix, dimensions
from heedmap.lessons.inside import embedding_board
from heedmap.lessons.operations import product, upright
from heedmap.lessons.run import Run, in_float64
from heedmap.lessons.sentences import Sentence, source_sentence, toy_sentences, toy_transformer
from heedmap.nn.seq2seq import Seq2Seq
from heedmap.plots.charts import curves, grouped_bars
from heedmap.plots.export import plot_config
from heedmap.plots.labels import readable
from ui.components.views import table_of_numbers
from ui.lessons import shared
from ui.lessons.shared import listed
from ui.shared import controls, files, writing
from ui.shared.address import choice, line, tenths, whole
from ui.shared.bars import is_dark
from ui.store import store
from ui.texts import plain, t

SAME = 1e-9
"""Differences up to this are rounding."""

STILL = 0.01
"""A dimension that changes by less over the whole table hardly moves."""

WORDS = ("the", "cat", "saw", "the", "mouse")
"""What ways to tell positions are compared on: one word stands twice."""

ANGLES = 4
"""Pairs whose angles are said, besides the last one."""

WIDTHS = ("2", "4", "6", "8", "12", "16", "32", "64", "128")
"""Sizes of d_model, all even: each sine has its cosine."""

BASES = ("10", "100", "1000", "10000", "100000")

TRAINED = "trained"
"""Stands for a checkpoint's name: the learned table that training found for a small translator."""

TRY: dict[str, dict[str, Any]] = {
    "try_slip": {"screen": "variants"},
    "try_base": {"screen": "waves", "base": "10", "d_table": "16"},
    "try_rotation": {"screen": "rotation", "steps": 7, "d_table": "8"},
    "try_distance": {"screen": "distance"},
    "try_part": {"screen": "distance", "variant": "doubled"},
    "try_learned": {"screen": "distance", "variant": "learned"},
    "try_set": {"screen": "order"},
    "try_rotary": {"screen": "later", "how": "rotary"},
    "try_share": {"screen": "share"},
}
"""Settings worth seeing, by their text."""


def _formula(variant: positions.Variant) -> str:
    """A variant's table as an equation; dimensions and positions count from 0."""
    even, odd = (upright(f"positions.formula_{name}", j="j") for name in ("even", "odd"))
    return {
        "paper": (
            r"t_{p,2i} = \sin\!\left(p\,\omega_i\right), \quad t_{p,2i+1} = \cos\!\left(p\,\omega_i\right), "
            r"\quad \omega_i = \mathrm{base}^{-2i/d}"
        ),
        "doubled": (
            rf"t_{{p,j}} = \sin\!\left(p\,\mathrm{{base}}^{{-2j/d}}\right) \enspace {even}, "
            rf"\quad t_{{p,j}} = \cos\!\left(p\,\mathrm{{base}}^{{-2j/d}}\right) \enspace {odd}"
        ),
        "halves": (
            r"t_p = [\,\sin p\,\omega_0, \sin p\,\omega_1, \ldots, "
            r"\cos p\,\omega_0, \cos p\,\omega_1, \ldots\,], \quad \omega_i = \mathrm{base}^{-2i/d}"
        ),
        "learned": r"t_p \in \mathbb{R}^d \enspace " + upright("positions.formula_free"),
    }[variant]


def _sizes() -> tuple[int, int, float]:
    """d_model, positions and base of the table."""
    with st.popover(t("positions.sizes"), icon=":material/straighten:", width="content"):
        d_model = choice(t("positions.d_model"), WIDTHS, key="d_table", default="64", text=str)
        length = whole(t("positions.length"), 2, 200, 100, key="n_rows")
        base = choice(t("positions.base"), BASES, key="base", default="10000", text=str)
    return int(d_model), length, float(base)


def table_panel(bar: DeltaGenerator) -> None:
    """The whole table as colours."""
    with bar:
        chosen, table, note = _chosen_table(*_sizes())
    rows, width = table.shape
    with shared.beside(_formula(chosen), f"{t('positions.look_table')} {note}") as words:
        _table_plot(table, plain(f"positions.variant_{chosen}"))
        _download({"table": table})
    words.markdown(t("positions.still", still=_still(table), width=width, rows=rows))


def variants_panel(bar: DeltaGenerator) -> None:
    """Every variant's table, and beside it its difference from the paper's of its size; a learned one has its own."""
    with bar:
        d_model, length, base = _sizes()
        own, note = _learned_table(length)
    shared.explain(f"{t('positions.look_variants')} {note}")
    formulas = [name for name in positions.VARIANTS if name != "learned"]
    tables = {name: positions.position_table(name, length, d_model, base) for name in formulas} | {"learned": own}
    for name, table in tables.items():
        rows, width = table.shape
        paper = positions.position_table("paper", rows, width, base)
        left, right = st.columns(2)
        with left:
            _table_plot(table, plain(f"positions.variant_{name}"), name)
        with right:
            if name == "paper":
                continue
            _table_plot(table - paper, plain("positions.difference"), f"{name}.difference")
            largest = float(np.abs(table - paper).max())
            st.markdown(t("positions.largest_difference", value=largest, paper=_still(paper), variant=_still(table)))
            if width != d_model:
                st.markdown(t("positions.own_width", own=width, d_model=d_model))
    _download({str(name): table for name, table in tables.items()})


def _still(table: positions.Table) -> int:
    """Dimensions that hardly move over the whole table."""
    return int((np.ptp(table, axis=0) < STILL).sum())


def waves_panel(bar: DeltaGenerator) -> None:
    """Single dimensions as curves, with their wavelength; positions are the dots on them."""
    with bar:
        d_model, length, base = _sizes()
        picked = whole(t("positions.pick"), 0, d_model - 1, min(2, d_model - 1), key="dim", width=260)
    table = positions.position_table("paper", length, d_model, base)
    shown = sorted({picked, *(int(d_model * part) // 2 * 2 for part in (0, 0.25, 0.5, 0.75))})
    place, between = positions.waves(shown, length, d_model, base)
    lengths = (positions.wavelength(one, d_model, base) for one in shown)
    waves = [plain("positions.wave", dimension=one, length=each) for one, each in zip(shown, lengths, strict=True)]
    lines = dict(zip(waves, between.T, strict=True))
    names = plain("positions.position"), plain("positions.value")
    dots = range(0, len(place), (len(place) - 1) // (length - 1))
    columns = tuple(plain("positions.dimension_number", number=dimension) for dimension in shown)
    with shared.beside(r"\lambda_i = 2\pi \cdot \mathrm{base}^{\,2i/d}", t("positions.look_waves")):
        _plot(curves(lines, *names, x=place.tolist(), dots=dots, dark=is_dark()))
        _download({"waves": table[:, shown]}, columns)


def distance_panel(bar: DeltaGenerator) -> None:
    """Dot products against distance, from several positions; what is said of them is computed from the table."""
    with bar:
        d_model, length, base = _sizes()
        chosen, table, note = _chosen_table(d_model, length, base)
    products = table @ table.T
    starts = sorted({0, len(products) // 4, len(products) // 2})
    lines = {plain("positions.from", position=start): products[start, start:] for start in starts}
    spread, rises, steps = positions.likeness(products)
    said = t("positions.like_alone") if spread < SAME else t("positions.like_parted", spread=spread)
    falls = t("positions.like_ripples" if rises else "positions.like_falls", rises=rises, steps=steps)
    formula = rf"t_p \cdot t_{{p+k}} = {PRODUCTS[chosen]}"
    with shared.beside(formula, f"{said} {falls}", f"{t('positions.look_distance')} {note}"):
        _plot(curves(lines, plain("positions.distance"), plain("positions.product"), dark=is_dark()))
        _download({"products": products})


_COSINES = r"\textstyle\sum_i \cos(k\,\omega_i), \qquad \omega_i = \mathrm{base}^{-2i/d}"
PRODUCTS: dict[positions.Variant, str] = {
    "paper": _COSINES,
    "halves": _COSINES,
    "doubled": (
        r"\textstyle\sum_{j = 0, 2, \ldots} \sin(p\,\nu_j)\sin((p+k)\,\nu_j) "
        r"+ \sum_{j = 1, 3, \ldots} \cos(p\,\nu_j)\cos((p+k)\,\nu_j), \qquad \nu_j = \mathrm{base}^{-2j/d}"
    ),
    "learned": r"\textstyle\sum_j t_{p,j}\,t_{p+k,j}",
}
"""The dot product of two rows of a variant's table, k positions from each other."""


def rotation_panel(bar: DeltaGenerator) -> None:
    """The matrix that takes position p to p + k; what comes out, and what should."""
    with bar:
        d_model, length, base = _sizes()
        k = whole(t("positions.steps"), 0, length - 1, min(3, length - 1), key="steps", width=260)
        start = whole(t("positions.start"), 0, length - 1 - k, 0, key="p", width=260)
    table = positions.position_table("paper", length, d_model, base)
    errors, turn = positions.rotation_errors(table, k, base), positions.rotation(k, d_model, base)
    degrees = positions.turning_angles(k, d_model, base)
    pairs = range(len(degrees)) if len(degrees) <= ANGLES + 1 else [*range(ANGLES), len(degrees) - 1]
    angles = plain("positions.comma").join(plain("positions.angle", pair=i, angle=float(degrees[i])) for i in pairs)
    here = t("positions.rotation_here", p=start, q=start + k, error=float(errors[start]))
    count = t("positions.rotation_error", count=len(errors), error=float(errors.max())) if len(errors) > 1 else ""
    ways, turned, row = dimensions(d_model), product("t_p", "R", transposed=True), table[start]
    board = Board.of(
        [
            Matrix("t_p", "t", "input", row[None], (str(start),), ways),
            Matrix("R", r"\Omega", "input", turn, ways, ways),
            Matrix("turned", r"\Omega t", "input", (turn @ row)[None], (f"{start} → {start + k}",), ways, turned),
            Matrix("t_q", "t", "input", table[start + k][None], (str(start + k),), ways),
        ]
    )
    titles = {name: plain("positions.row_of", p=p) for name, p in (("t_p", start), ("t_q", start + k))}
    titles |= {"R": plain("positions.rotation_matrix", k=k), "turned": plain("positions.row_turned")}
    formula = (
        r"\begin{pmatrix} \sin((p+k)\omega_i) \\ \cos((p+k)\omega_i) \end{pmatrix} = "
        r"\begin{pmatrix} \cos k\omega_i & \sin k\omega_i \\ -\sin k\omega_i & \cos k\omega_i \end{pmatrix} \cdot "
        r"\begin{pmatrix} \sin p\omega_i \\ \cos p\omega_i \end{pmatrix}"
    )
    said = f"{here} {count} {t('positions.angles', k=k, angles=angles)}"
    with shared.beside(formula, t("positions.look_rotation"), said):
        about = shared.about("positions.screen_rotation", here, angles, formulas=["R t_p = t_(p+k)"])
        shared.draw(board, "rotation", about, titles=titles, file_name=f"rotation-{k}", elided=True)


def _chosen_table(d_model: int, length: int, base: float) -> tuple[positions.Variant, positions.Table, str]:
    """Which way to tell positions, its table, and Markdown that says what it is.

    A learned table has its own width, and as many rows as it has.
    """
    chosen = listed("positions.variant", positions.VARIANTS, key="variant", width=210)
    if chosen != "learned":
        return chosen, positions.position_table(chosen, length, d_model, base), t(f"positions.note_{chosen}")
    return chosen, *_learned_table(length)


def _learned_table(length: int) -> tuple[positions.Table, str]:
    """The first rows of a learned table, of that which came with the lesson or of a checkpoint, and what it is."""
    found = {
        name: table
        for name in store.checkpoint_names("seq2seq", "encoder", "kmer")
        if (table := positions.stored_table(store.checkpoint(name).model)) is not None
    }
    whose = listed(
        "positions.whose", [TRAINED, *found], key="whose", width=320,
        text=lambda name: plain("positions.trained") if name == TRAINED else name,
    )  # fmt: skip
    if whose == TRAINED:
        own, sentences = positions.trained_table()
        note, reached = t("positions.note_trained", seen=int(sentences[0])), int((sentences > 0).sum())
        note = f"{note} {t('positions.never_trained', position=reached)}" if length > reached else note
    else:
        own, note = found[whose], t("positions.note_own")
        writing.lead_to_map(whose, store.checkpoint(whose))
    rows, width = own.shape
    sizes_said = t("positions.own_sizes", rows=rows, last=rows - 1, d_model=width)
    hint = "" if found else f" {t('positions.no_learned')}"
    return own[:length], f"{note} {sizes_said}{hint}"


def _plot(figure: go.Figure) -> None:
    st.plotly_chart(figure, key="plot.positions", config=plot_config("positions", "svg"))


def _table_plot(table: positions.Table, title: str, key: str = "positions") -> None:
    """A whole table of positions as colours."""
    names = plain("positions.position"), plain("positions.dimension")
    table_of_numbers(table, title, names, plain("positions.value"), key=f"plot.{key}", file_name=key)


def _download(tables: Mapping[str, positions.Table], columns: tuple[str, ...] | None = None) -> None:
    """Tables as a download, by name; rows and columns count from 0, unless `columns` names these."""
    made = [
        Matrix(name, "P", "input", table, dimensions(len(table)), columns or dimensions(table.shape[1]))
        for name, table in tables.items()
    ]
    shared.download(Board.of(made), list(tables))


def later_panel(bar: DeltaGenerator) -> None:
    """Attention on the same words with each way to tell positions."""
    with bar:
        how = listed("positions.variant", positions.LATER, key="how", default="paper", width=210)
        slope = tenths(t("positions.slope"), 0.0, 2.0, 0.5, key="slope", width=260) if how == "alibi" else 0.5
    sentence = Sentence.of([WORDS.index(word) for word in WORDS], WORDS)
    labels = sentence.labels
    board = Board.of(
        Matrix(name, "A", "softmax", positions.example_weights(name, sentence.ids, 6, 1, slope), labels, labels)
        for name in dict.fromkeys(("none", how))
    )
    titles = {name: plain(f"positions.variant_{name}") for name in board}
    formula = {
        "rotary": r"S_{ij} = (R_i q_i) \cdot (R_j k_j) \big/ \sqrt{d} = q_i^\top R_{j-i}\, k_j \big/ \sqrt{d}",
        "alibi": r"S_{ij} = q_i \cdot k_j \big/ \sqrt{d} - m\,|i - j|",
        "none": r"S_{ij} = q(x_i) \cdot k(x_j) \big/ \sqrt{d}",
    }.get(how, r"S_{ij} = q(x_i + t_i) \cdot k(x_j + t_j) \big/ \sqrt{d}")
    about = shared.about("positions.screen_later", f"m = {slope:g}" if how == "alibi" else "", formulas=[formula])
    with shared.beside(formula, t("positions.look_later"), t(f"positions.note_{how}")):
        shared.draw(board, "later", about, weights=list(board), titles=titles)


def order_panel(bar: DeltaGenerator) -> None:
    """Shuffled words through an encoder, with and without positions: how far the output of each word moves."""
    with bar:
        chosen, sentence = _model()
        draw = whole(t("positions.draw"), 0, 99, 1, key="draw", width=260)
    order = np.random.default_rng(draw).permutation(len(sentence.ids)).tolist()
    without, moved = (positions.shuffle_gaps(chosen, sentence, order, with_them) for with_them in (False, True))
    before = list(map(readable, sentence.labels))
    bars = {plain("positions.without"): without, plain("positions.with"): moved}
    columns = {
        plain("positions.token"): sentence.labels,
        plain("positions.before"): list(range(len(order))),
        plain("positions.after"): np.argsort(order).tolist(),
    }
    left, right = shared.columns()
    with left:
        st.text(plain("positions.shuffled", before=" ".join(before), after=" ".join(before[i] for i in order)))
        _plot(grouped_bars(bars, sentence.labels, plain("positions.moved"), dark=is_dark()))
        shared.download(Board.of([]), tables={"shuffle": pd.DataFrame({**columns, **bars})})
    with right:
        st.latex(r"\frac{\lVert\, y_i - y'_i \,\rVert}{\lVert\, y_i \,\rVert}")
        if without.max() < SAME:
            st.markdown(t("positions.set", moved=float(moved.max())))
        shared.explain(t("positions.look_order"))


def _model(key: str = "made", default: str = "toy") -> tuple[Seq2Seq, Sentence]:
    """The model and sentence of the experiment; the page ends, with an explanation, where there is no trained one."""
    if shared.model_kind(key=key, default=default, width=200) == "toy":
        return toy_transformer(8, 2, seed=1), toy_sentences(6)[0]
    name = controls.checkpoint_choice("seq2seq")
    checkpoint = store.checkpoint(name)
    text = line(t("lessons.source"), "A man rides a bicycle.", key="source", width=320)
    return checkpoint.model_as(Seq2Seq), source_sentence(checkpoint, text)


def share_panel(bar: DeltaGenerator) -> None:
    """How much of each vector's length is position, as the lesson "Inside a layer" works it out."""
    with bar:
        model, sentence = _model(key="of", default="shipped")
    board = embedding_board(Run(in_float64(model), sentence, None), "encoder")
    scaled = model.config.scale_embedding
    both = board["EP" if "EP" in board else "X"].values
    lengths = (board["lsE" if scaled else "lE"].values[:, 0], board["lP"].values[:, 0], np.linalg.norm(both, axis=1))
    names = (plain(f"positions.{name}_norm") for name in ("word", "position", "sum"))
    bars, share = dict(zip(names, lengths, strict=True)), board["g"].values[:, 0]
    table = pd.DataFrame({plain("positions.token"): sentence.labels, **bars, plain("positions.share"): share})
    left, right = shared.columns()
    with left:
        _plot(grouped_bars(bars, sentence.labels, plain("positions.norm"), dark=is_dark()))
        files.table(table, formats=dict.fromkeys(table.columns[1:], "%.3f"), width="content")
        shared.download(Board.of([]), tables={"norms": table})
    with right:
        word = "E'" if scaled else "E"
        st.latex(rf"\frac{{|P|^2}}{{|{word}|^2 + |P|^2}}")
        st.markdown(t("positions.mean_share", share=float(share.mean())))
        if scaled:
            st.markdown(t("positions.without_root", share=float(board["gU"].values.mean())))
        shared.explain(t("positions.look_share"))


SCREENS: dict[str, Callable[[DeltaGenerator], None]] = {
    "table": table_panel,
    "waves": waves_panel,
    "variants": variants_panel,
    "distance": distance_panel,
    "rotation": rotation_panel,
    "later": later_panel,
    "order": order_panel,
    "share": share_panel,
}
"""Every screen; each gets the row in which its controls stand."""
