"""The controls and panels of the lesson "Positions"."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from transformer.errors import InputError
from transformer.figures.export import plot_config
from transformer.figures.lessons import curves, grouped_bars, number_map, table_grid
from transformer.layers.positions import TablePositions
from transformer.lessons.expressions.board import Board, Matrix, numbered
from transformer.lessons.expressions.operations import Given, Operation
from transformer.lessons.expressions.rowwise import Product
from transformer.lessons.positions import (
    LATER,
    VARIANTS,
    Later,
    Variant,
    example_weights,
    first_rows,
    learned_positions,
    norm_shares,
    past_the_end,
    position_table,
    rotation,
    rotation_errors,
    shuffle_gap,
    similarity,
    stored_table,
    wavelength,
)
from transformer.lessons.sentences import Sentence, source_sentence
from transformer.lessons.toy import toy_sentences, toy_transformer
from transformer.models.seq2seq import Seq2Seq
from ui.components.matrices.component import matrices
from ui.lessons import shared
from ui.shared import controls
from ui.shared.address import choice, line, tenths, whole
from ui.store import store
from ui.texts import plain, t

SCREENS = ("table", "waves", "distance", "rotation", "variants", "later", "order", "end", "share")
BASES = ("10", "100", "1000", "10000", "100000")
WORDS = ("the", "cat", "saw", "the", "mouse")

UNTRAINED = "untrained"
"""Stands for a checkpoint's name where a new learned table is shown."""

DEFAULTS: dict[str, Any] = {
    "screen": "table", "d_table": 64, "n_rows": 100, "base": "10000", "variant": "paper", "other": "doubled",
    "dim": 2, "steps": 3, "p": 0, "whose": UNTRAINED, "how": "paper", "slope": 0.5, "made": "toy", "draw": 1,
    "ready": 16, "asked": 24, "of": "shipped",
}  # fmt: skip
"""Every control of the page and where it stands at first."""

TRY: dict[str, dict[str, Any]] = {
    "try_slip": {"screen": "variants", "other": "doubled"},
    "try_base": {"screen": "waves", "base": "10", "d_table": 16},
    "try_single": {"screen": "waves", "d_table": 16, "dim": 9},
    "try_rotation": {"screen": "rotation", "steps": 7, "d_table": 8},
    "try_start": {"screen": "rotation", "steps": 7, "d_table": 8, "p": 50},
    "try_distance": {"screen": "distance"},
    "try_part": {"screen": "distance", "variant": "doubled"},
    "try_set": {"screen": "order"},
    "try_rotary": {"screen": "later", "how": "rotary"},
    "try_slope": {"screen": "later", "how": "alibi", "slope": 2.0},
    "try_end": {"screen": "end", "ready": 16, "asked": 17},
    "try_share": {"screen": "share"},
}
"""Settings worth seeing, by their text."""


def screen() -> str:
    """Which of the page's screens is open."""
    return choice(
        t("positions.screen"), SCREENS, key="screen", bare=True, text=lambda screen: t(f"positions.screen_{screen}")
    )


def sizes() -> tuple[int, int, float]:
    """d_model, positions and base of the table."""
    with st.popover(t("positions.sizes"), icon=":material/straighten:", width="content"):
        d_model = whole(t("positions.d_model"), 2, 128, 64, key="d_table")
        length = whole(t("positions.length"), 2, 200, 100, key="n_rows")
        base = choice(t("positions.base"), BASES, key="base", default="10000", text=str)
    return d_model, length, float(base)


def table_panel(d_model: int, length: int, base: float) -> None:
    """The whole table as colours."""
    st.caption(t("positions.look_table"))
    variant = _variant("variant", VARIANTS, "paper")
    _formula(variant)
    table = position_table(variant, length, d_model, base)
    _plot(number_map(table, t("positions.position"), t("positions.dimension"), t("positions.value"), dark=_dark()))
    _csv(table=table)


def waves_panel(d_model: int, length: int, base: float) -> None:
    """Single dimensions as curves, with their wavelength."""
    st.caption(t("positions.look_waves"))
    st.latex(r"\lambda_i = 2\pi \cdot \mathrm{base}^{\,2i/d}")
    table = position_table("paper", length, d_model, base)
    picked = whole(t("positions.pick"), 0, d_model - 1, min(2, d_model - 1), key="dim")
    shown = sorted({picked, *(int(d_model * part) // 2 * 2 for part in (0, 0.25, 0.5, 0.75))})
    lines = {
        t("positions.wave", dimension=dimension, length=wavelength(dimension, d_model, base)): table[:, dimension]
        for dimension in shown
    }
    _plot(curves(lines, t("positions.position"), t("positions.value"), dark=_dark()))
    _csv(waves=table[:, shown])


def distance_panel(d_model: int, length: int, base: float) -> None:
    """Dot products against distance, from several positions."""
    st.caption(t("positions.look_distance"))
    variant = _variant("variant", VARIANTS, "paper")
    st.latex(r"t_p \cdot t_{p+k} = \textstyle\sum_i \cos(k\,\omega_i), \qquad \omega_i = \mathrm{base}^{-2i/d}")
    products = similarity(position_table(variant, length, d_model, base))
    starts = sorted({0, length // 4, length // 2})
    lines = {t("positions.from", position=start): products[start, start:] for start in starts}
    _plot(curves(lines, t("positions.distance"), t("positions.product"), dark=_dark()))
    _csv(products=products)


def rotation_panel(d_model: int, length: int, base: float) -> None:
    """The matrix that takes position p to p + k."""
    st.caption(t("positions.look_rotation"))
    st.latex(
        r"\begin{pmatrix} \sin((p+k)\omega) \\ \cos((p+k)\omega) \end{pmatrix} = "
        r"\begin{pmatrix} \cos k\omega & \sin k\omega \\ -\sin k\omega & \cos k\omega \end{pmatrix}"
        r"\begin{pmatrix} \sin p\omega \\ \cos p\omega \end{pmatrix}"
    )
    k = whole(t("positions.steps"), 0, length - 1, min(3, length - 1), key="steps")
    start = whole(t("positions.start"), 0, length - 1 - k, 0, key="p")
    table = position_table("paper", length, d_model, base)
    errors = rotation_errors(table, k, base)
    st.markdown(t("positions.rotation_error", count=len(errors), error=float(errors.max())))
    turn = rotation(k, d_model, base)
    wide = numbered(d_model)
    made: dict[str, tuple[np.ndarray, tuple[str, ...], Operation]] = {
        "t_p": (table[start][None], (str(start),), Given()),
        "R": (turn, wide, Given()),
        "turned": ((turn @ table[start])[None], (f"{start} → {start + k}",), Product("t_p", "R", transposed=True)),
        "t_q": (table[start + k][None], (str(start + k),), Given()),
    }
    symbols = {"t_p": "t", "R": "R", "turned": "R t", "t_q": "t"}
    board = Board.of(
        Matrix(name, symbols[name], "input", values, rows, wide, operation)
        for name, (values, rows, operation) in made.items()
    )
    titles = {
        "t_p": t("positions.row_of", p=start), "R": t("positions.rotation_matrix", k=k),
        "turned": t("positions.row_turned"), "t_q": t("positions.row_of", p=start + k),
    }  # fmt: skip
    matrices(board, list(board), None, key="rotation", titles=titles)
    st.caption(t("positions.rotation_here", p=start, q=start + k, error=float(errors[start])))
    shared.matrix_downloads(board, list(board))


def variants_panel(d_model: int, length: int, base: float) -> None:
    """Every variant's table, and its difference from the paper's; the learned one may be a checkpoint's own."""
    st.caption(t("positions.look_variants"))
    learned = _learned_choice()
    if learned is not None:
        d_model = learned.table.shape[1]
        st.caption(t("positions.own_sizes", rows=len(learned.table), d_model=d_model))
    tables = {variant: position_table(variant, length, d_model, base) for variant in VARIANTS}
    if learned is not None:
        try:
            tables["learned"] = first_rows(learned, length)
        except InputError as error:
            st.error(controls.sentence(str(error)), icon=":material/block:")
            del tables["learned"]
    names = {variant: t(f"positions.variant_{variant}") for variant in tables}
    paper = tables["paper"]
    differences: dict[Variant, np.ndarray] = {name: table - paper for name, table in tables.items() if name != "paper"}
    figure = table_grid(
        {names[variant]: table for variant, table in tables.items()},
        {names[variant]: table for variant, table in differences.items()},
        (t("positions.position"), t("positions.dimension")),
        dark=_dark(),
    )
    _plot(figure, "variants")
    variant = _variant("other", list(differences), "doubled")
    _formula(variant)
    still = {
        name: int((np.ptp(table, axis=0) < 0.01).sum())
        for name, table in (("paper", paper), ("variant", tables[variant]))
    }
    largest = float(np.abs(differences[variant]).max())
    st.caption(t("positions.largest_difference", value=largest, **still))
    _csv(**tables)


def _learned_choice() -> TablePositions | None:
    """Whose learned table is shown; None for a new one."""
    found = {
        name: learned
        for name in store.checkpoint_names("seq2seq", "encoder", "kmer")
        if (learned := learned_positions(store.checkpoint(name).model)) is not None
    }
    whose = choice(
        t("positions.whose"), [UNTRAINED, *found], key="whose", form="list", width=320,
        text=lambda name: t("positions.untrained") if name == UNTRAINED else name,
    )  # fmt: skip
    if not found:
        st.caption(t("positions.no_learned"))
    return found.get(whose)


def later_panel() -> None:
    """Attention on the same words with each way to tell positions."""
    st.caption(t("positions.look_later"))
    how = cast(Later, _variant("how", LATER, "paper"))
    st.latex(
        {
            "rotary": r"S_{ij} = (R_i q_i) \cdot (R_j k_j) \big/ \sqrt{d} = q_i^\top R_{j-i}\, k_j \big/ \sqrt{d}",
            "alibi": r"S_{ij} = q_i \cdot k_j \big/ \sqrt{d} - m\,|i - j|",
            "none": r"S_{ij} = q(x_i) \cdot k(x_j) \big/ \sqrt{d}",
        }.get(how, r"S_{ij} = q(x_i + t_i) \cdot k(x_j + t_j) \big/ \sqrt{d}")
    )
    slope = tenths(t("positions.slope"), 0.0, 2.0, 0.5, key="slope") if how == "alibi" else 0.5
    sentence = Sentence.of(_numbers(WORDS), WORDS)
    board = Board.of(
        Matrix(name, "A", "softmax", example_weights(name, sentence.ids, 6, 1, slope), sentence.labels,
               sentence.labels, Given())
        for name in dict.fromkeys(("none", how))
    )  # fmt: skip
    titles = {name: t(f"positions.variant_{name}") for name in board}
    matrices(board, list(board), None, key="later", weights=list(board), titles=titles)
    shared.matrix_downloads(board, list(board))


def order_panel() -> None:
    """Shuffled words through an encoder, with and without positions."""
    st.caption(t("positions.look_order"))
    found = _model("made", "toy")
    if found is None:
        return
    model, sentence = found
    draw = whole(t("positions.draw"), 0, 99, 1, key="draw")
    order = np.random.default_rng(draw).permutation(len(sentence.ids)).tolist()
    st.text(plain("positions.shuffled", words=" ".join(sentence.labels[i] for i in order)))
    st.latex(r"\max\left|\,\mathrm{encoder}(\pi x) - \pi\,\mathrm{encoder}(x)\,\right|")
    gaps = {name: shuffle_gap(model, sentence, order, name == "with") for name in ("without", "with")}
    for place, (name, gap) in zip(st.columns(2), gaps.items(), strict=True):
        place.metric(t(f"positions.{name}"), f"{gap:.2e}")
    words = [sentence.labels[i] for i in order]
    columns = {t("positions.token"): words, t("positions.was"): [i + 1 for i in order]}
    table = pd.DataFrame({**columns, **{t(f"positions.{name}"): gap for name, gap in gaps.items()}})
    shared.matrix_downloads(Board.of([]), [], {"shuffle": table})


def end_panel() -> None:
    """A fixed and a learned table past their end."""
    st.caption(t("positions.look_end"))
    ready = whole(t("positions.rows_ready"), 1, 64, 16, key="ready")
    asked = whole(t("positions.rows_asked"), 1, 128, 24, key="asked")
    fixed = past_the_end("sinusoidal", ready, 32, asked)
    names = t("positions.position"), t("positions.dimension"), t("positions.value")
    _plot(number_map(fixed, *names, dark=_dark()), "fixed")
    if asked > ready:
        st.success(t("positions.goes_on", row=asked), icon=":material/check:")
    try:
        learned = past_the_end("learned", ready, 32, asked)
    except InputError as error:
        st.error(f"{t('positions.variant_learned')}: {controls.sentence(str(error))}", icon=":material/block:")
    else:
        st.success(t("positions.reaches", rows=len(learned)), icon=":material/check:")
    _csv(fixed=fixed)


def share_panel() -> None:
    """How much of each vector's length is position."""
    st.caption(t("positions.look_share"))
    found = _model("of", "shipped")
    if found is None:
        return
    model, sentence = found
    st.latex(r"\frac{\lVert P \rVert^2}{\lVert \sqrt{d}\,E \rVert^2 + \lVert P \rVert^2}")
    shares = norm_shares(model, sentence)
    bars = {t(f"positions.{name}_norm"): shares[name] for name in ("word", "position", "sum")}
    _plot(grouped_bars(bars, sentence.labels, t("positions.norm"), dark=_dark()))
    st.caption(t("positions.mean_share", share=float(shares["share"].mean())))
    if (table := stored_table(model)) is not None:
        _plot(number_map(table, t("positions.position"), t("positions.dimension"), t("positions.value"), dark=_dark()))
    columns = pd.DataFrame({t("positions.token"): sentence.labels, **bars, t("positions.share"): shares["share"]})
    numbers = {name: st.column_config.NumberColumn(format="%.3f") for name in columns.columns[1:]}
    st.dataframe(columns, hide_index=True, width="content", column_config=numbers)
    shared.matrix_downloads(Board.of([]), [], {"norms": columns})


def _model(key: str, default: str) -> tuple[Seq2Seq, Sentence] | None:
    """The model and sentence of an experiment; None, with an explanation, when there is no trained one."""
    made = choice(
        t("lessons.model"), ("toy", "shipped"), key=key, default=default, bare=True,
        text=lambda made: t(f"lessons.{made}"),
    )  # fmt: skip
    if made == "toy":
        return toy_transformer(8, 2, seed=1), toy_sentences(6)[0]
    name = controls.checkpoint_choice("seq2seq")
    if name is None:
        return None
    checkpoint = store.checkpoint(name)
    text = line(t("lessons.source"), "A man rides a bicycle.", key="source")
    return checkpoint.model_as(Seq2Seq), source_sentence(checkpoint, text)


def _variant(key: str, options: Any, default: str) -> Variant:
    chosen = choice(
        t("positions.variant"), options, key=key, default=default, bare=True,
        text=lambda variant: t(f"positions.variant_{variant}"),
    )  # fmt: skip
    st.caption(t(f"positions.note_{chosen}"))
    return cast(Variant, chosen)


def _formula(variant: Variant) -> None:
    st.latex(
        {
            "paper": r"\begin{aligned} t_{p,2i} &= \sin\frac{p}{\mathrm{base}^{2i/d}} \\ "
            r"t_{p,2i+1} &= \cos\frac{p}{\mathrm{base}^{2i/d}} \end{aligned}",
            "doubled": r"\begin{aligned} t_{p,j} &= \sin\frac{p}{\mathrm{base}^{2j/d}} \quad (j \text{ even}) \\ "
            r"t_{p,j} &= \cos\frac{p}{\mathrm{base}^{2j/d}} \quad (j \text{ odd}) \end{aligned}",
            "halves": r"t_p = [\,\sin p\,\omega_0, \sin p\,\omega_1, \ldots, "
            r"\cos p\,\omega_0, \cos p\,\omega_1, \ldots\,]",
            "learned": r"t_p \in \mathbb{R}^d \text{ free}",
            "none": r"t_p = 0",
        }[variant]
    )


def _numbers(words: tuple[str, ...]) -> list[int]:
    known = {word: i for i, word in enumerate(dict.fromkeys(words))}
    return [known[word] for word in words]


def _plot(figure: go.Figure, key: str = "positions") -> None:
    st.plotly_chart(figure, key=f"plot.{key}", config=plot_config(key, "svg"))


def _dark() -> bool:
    return st.context.theme.type == "dark"


def _csv(**tables: np.ndarray) -> None:
    """Tables as downloads, by name."""
    made = [
        Matrix(name, "T", "input", table, numbered(len(table)), numbered(table.shape[1]), Given())
        for name, table in tables.items()
    ]
    shared.matrix_downloads(Board.of(made), list(tables))


SIZED: dict[str, Callable[[int, int, float], None]] = {
    "table": table_panel,
    "waves": waves_panel,
    "distance": distance_panel,
    "rotation": rotation_panel,
    "variants": variants_panel,
}
"""Screens that show a table of chosen size."""

UNSIZED: dict[str, Callable[[], None]] = {
    "later": later_panel,
    "order": order_panel,
    "end": end_panel,
    "share": share_panel,
}
"""Screens that do not."""
