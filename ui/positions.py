"""The controls and panels of the lesson "Positions"."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from transformer.errors import InputError
from transformer.figures.export import plot_config
from transformer.figures.lessons import curves, grouped_bars, number_map
from transformer.lessons.matrices import Board, Matrix, numbered
from transformer.lessons.operations import Given
from transformer.lessons.positions import (
    LATER,
    VARIANTS,
    Later,
    Variant,
    example_weights,
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
from transformer.lessons.sentences import Sentence, source_sentence, translator
from transformer.lessons.toy import toy_sentences, toy_transformer
from transformer.models.seq2seq import Seq2Seq
from ui import cached, controls, lessons
from ui.address import choice, line, whole
from ui.components.matrices import matrices
from ui.texts import t

SCREENS = ("table", "waves", "distance", "rotation", "variants", "later", "order", "end", "share")
BASES = ("10", "100", "1000", "10000", "100000")
WORDS = ("the", "cat", "saw", "the", "mouse")

DEFAULTS: dict[str, Any] = {
    "screen": "table", "d_table": 64, "n_rows": 100, "base": "10000", "variant": "paper", "other": "doubled",
    "steps": 3, "how": "paper", "made": "toy", "draw": 1, "ready": 16, "asked": 24,
}  # fmt: skip
"""Every control of the page and where it stands at first."""

TRY: dict[str, dict[str, Any]] = {
    "try_slip": {"screen": "variants", "other": "doubled"},
    "try_base": {"screen": "waves", "base": "10", "d_table": 16},
    "try_rotation": {"screen": "rotation", "steps": 7, "d_table": 8},
    "try_distance": {"screen": "distance"},
    "try_part": {"screen": "distance", "variant": "doubled"},
    "try_set": {"screen": "order"},
    "try_rotary": {"screen": "later", "how": "rotary"},
    "try_end": {"screen": "end", "ready": 16, "asked": 17},
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
    _csv(table)


def waves_panel(d_model: int, length: int, base: float) -> None:
    """Single dimensions as curves, with their wavelength."""
    st.caption(t("positions.look_waves"))
    st.latex(r"\lambda_i = 2\pi \cdot \mathrm{base}^{\,2i/d}")
    table = position_table("paper", length, d_model, base)
    shown = sorted({int(d_model * part) // 2 * 2 for part in (0, 0.25, 0.5, 0.75)})
    lines = {
        t("positions.wave", dimension=dimension, length=wavelength(dimension, d_model, base)): table[:, dimension]
        for dimension in shown
    }
    _plot(curves(lines, t("positions.position"), t("positions.value"), dark=_dark()))
    _csv(table[:, shown])


def distance_panel(d_model: int, length: int, base: float) -> None:
    """Dot products against distance, from several positions."""
    st.caption(t("positions.look_distance"))
    variant = _variant("variant", VARIANTS, "paper")
    st.latex(r"t_p \cdot t_{p+k} = \textstyle\sum_i \cos(k\,\omega_i), \qquad \omega_i = \mathrm{base}^{-2i/d}")
    products = similarity(position_table(variant, length, d_model, base))
    starts = sorted({0, length // 4, length // 2})
    lines = {t("positions.from", position=start): products[start, start:] for start in starts}
    _plot(curves(lines, t("positions.distance"), t("positions.product"), dark=_dark()))
    _csv(products)


def rotation_panel(d_model: int, length: int, base: float) -> None:
    """The matrix that takes position p to p + k."""
    st.caption(t("positions.look_rotation"))
    st.latex(
        r"\begin{pmatrix} \sin((p+k)\omega) \\ \cos((p+k)\omega) \end{pmatrix} = "
        r"\begin{pmatrix} \cos k\omega & \sin k\omega \\ -\sin k\omega & \cos k\omega \end{pmatrix}"
        r"\begin{pmatrix} \sin p\omega \\ \cos p\omega \end{pmatrix}"
    )
    k = whole(t("positions.steps"), 0, length - 1, 3, key="steps")
    table = position_table("paper", length, d_model, base)
    errors = rotation_errors(table, k, base)
    st.markdown(t("positions.rotation_error", count=len(errors), error=float(errors.max())))
    turn = rotation(k, d_model, base)
    board = Board.of([Matrix("R", f"R_{{{k}}}", "input", turn, numbered(d_model), numbered(d_model), Given())])
    words = lessons.words({"R": t("positions.rotation_matrix", k=k)}, " ")
    matrices(board, ["R"], None, key="rotation", words=words)
    lessons.matrix_downloads(board, ["R"])


def variants_panel(d_model: int, length: int, base: float) -> None:
    """The paper's table, a variant, and the difference."""
    st.caption(t("positions.look_variants"))
    variant = _variant("other", [variant for variant in VARIANTS if variant != "paper"], "doubled")
    _formula(variant)
    paper, other = (position_table(one, length, d_model, base) for one in ("paper", variant))
    names = t("positions.position"), t("positions.dimension"), t("positions.value")
    for place, (table, one) in zip(st.columns(2), ((paper, "paper"), (other, variant)), strict=True):
        with place:
            st.markdown(f"**{t(f'positions.variant_{one}')}**")
            _plot(number_map(table, *names, dark=_dark()), f"table-{one}")
    st.markdown(f"**{t('positions.difference')}**")
    _plot(number_map(other - paper, *names, dark=_dark()), "difference")
    still = {name: int((np.ptp(table, axis=0) < 0.01).sum()) for name, table in (("paper", paper), ("variant", other))}
    st.caption(t("positions.largest_difference", value=float(np.abs(other - paper).max()), **still))
    _csv(other)


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
    slope = whole(t("positions.slope"), 0, 20, 5, key="slope") / 10 if how == "alibi" else 0.5
    sentence = Sentence.of(_numbers(WORDS), WORDS)
    board = Board.of(
        Matrix(name, "A", "softmax", example_weights(name, sentence.ids, 6, 1, slope), sentence.labels,
               sentence.labels, Given())
        for name in dict.fromkeys(("none", how))
    )  # fmt: skip
    titles = {name: t(f"positions.variant_{name}") for name in board}
    matrices(board, list(board), None, key="later", weights=list(board), words=lessons.words(titles, " "))
    lessons.matrix_downloads(board, list(board))


def order_panel() -> None:
    """Shuffled words through an encoder, with and without positions."""
    st.caption(t("positions.look_order"))
    found = _model()
    if found is None:
        return
    model, sentence = found
    draw = whole(t("positions.draw"), 0, 99, 1, key="draw")
    order = np.random.default_rng(draw).permutation(len(sentence.ids)).tolist()
    st.text(t("positions.shuffled", words=" ".join(sentence.labels[i] for i in order)))
    st.latex(r"\max\left|\,\mathrm{encoder}(\pi x) - \pi\,\mathrm{encoder}(x)\,\right|")
    for place, name in zip(st.columns(2), ("without", "with"), strict=True):
        place.metric(t(f"positions.{name}"), f"{shuffle_gap(model, sentence, order, name == 'with'):.2e}")


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
        st.error(f"{t('positions.variant_learned')}: {error}", icon=":material/block:")
    else:
        st.success(t("positions.reaches", rows=len(learned)), icon=":material/check:")


def share_panel() -> None:
    """How much of each vector's length is position."""
    st.caption(t("positions.look_share"))
    found = _model()
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
    columns = {t("positions.token"): sentence.labels, **bars, t("positions.share"): shares["share"]}
    st.dataframe(pd.DataFrame(columns), hide_index=True, width="content")


def _model() -> tuple[Seq2Seq, Sentence] | None:
    """The model and sentence of an experiment; None, with an explanation, when there is no trained one."""
    made = choice(t("lessons.model"), ("toy", "shipped"), key="made", bare=True, text=lambda made: t(f"lessons.{made}"))
    if made == "toy":
        return toy_transformer(8, 2, seed=1), toy_sentences(6)[0]
    name = controls.checkpoint_choice("seq2seq")
    if name is None:
        return None
    checkpoint = cached.checkpoint(name)
    text = line(t("lessons.source"), "A man rides a bicycle.", key="source")
    return translator(checkpoint)[0], source_sentence(checkpoint, text)


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
            "paper": r"t_{p,2i} = \sin\frac{p}{\mathrm{base}^{2i/d}}, \qquad "
            r"t_{p,2i+1} = \cos\frac{p}{\mathrm{base}^{2i/d}}",
            "doubled": r"t_{p,j} = \sin\frac{p}{\mathrm{base}^{2j/d}} \;(j \text{ even}), \qquad "
            r"\cos\frac{p}{\mathrm{base}^{2j/d}} \;(j \text{ odd})",
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


def _csv(table: np.ndarray) -> None:
    matrix = Matrix("table", "T", "input", table, numbered(len(table)), numbered(table.shape[1]), Given())
    lessons.matrix_downloads(Board.of([matrix]), ["table"])


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
