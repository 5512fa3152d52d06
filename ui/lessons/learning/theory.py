"""Screens of the lesson "Learning" beside a training: the learning rate, smoothed targets, start values."""

from collections.abc import Mapping, Sequence

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.plots.curves import curves
from transformer.plots.export import plot_config
from transformer.training.explained import at_start, smoothed_losses, smoothed_target
from transformer.training.snapshots import Snapshot, labels
from transformer.training.tasks import Settings, noam
from ui.components.alignments.component import Moment, Panel, alignments
from ui.shared.address import choice, hundredths, whole
from ui.store.cache import cached
from ui.texts import plain, t


def rate_panel(bar: DeltaGenerator) -> None:
    """Noam's schedule over 4,000 updates, for a width and a warm-up."""
    with bar:
        d_model = int(choice(t("learning.rate_d_model"), ("32", "128", "512"), key="width", default="512", text=str))
        warmup = whole(t("learning.rate_warmup"), 50, 4_000, 400, key="rising", step=50, width=240)
    peak = (d_model * warmup) ** -0.5
    updates = np.unique(np.linspace(1, 4_000, 161).round()).tolist()
    st.latex(r"\eta(n) = d_{model}^{-0.5} \min\left(n^{-0.5},\; n \cdot warmup^{-1.5}\right)")
    st.caption(t("learning.look_rate", warmup=warmup, peak=peak))
    line = {plain("learning.noam_curve"): np.array([peak * noam(int(update), warmup) for update in updates])}
    _plot(line, updates, plain("learning.update"), plain("learning.rate"), float(warmup))


def smoothing_panel(bar: DeltaGenerator) -> None:
    """What label smoothing aims at, and the loss over the probability that the right token gets."""
    with bar:
        epsilon = hundredths(t("learning.smoothing_epsilon"), 0.0, 0.5, 0.1, key="epsilon", width=240)
        vocab = int(choice(t("learning.smoothing_vocab"), ("2", "14", "100", "5000"), key="v", default="14", text=str))
    target = smoothed_target(epsilon, vocab)
    least = float(smoothed_losses(target[:1], epsilon, vocab)[0]) if target[0] < 1 else 0.0
    st.latex(
        r"q_{right} = 1 - \varepsilon + \tfrac{\varepsilon}{V}, \quad q_{other} = \tfrac{\varepsilon}{V}, \qquad "
        r"L = -\left(1 - \varepsilon\right) \log p_{right} - \tfrac{\varepsilon}{V} \sum_v \log p_v"
    )
    st.caption(t("learning.look_smoothing", right=float(target[0]), other=float(target[1]), least=least))
    right = np.linspace(0.5, 0.999, 200)
    names = {plain("learning.with_smoothing", epsilon=epsilon): epsilon, plain("learning.without_smoothing"): 0.0}
    lines = {name: smoothed_losses(right, one, vocab) for name, one in names.items()}
    _plot(lines, right.tolist(), plain("learning.right_probability"), plain("learning.loss"), float(target[0]))


def start_panel(bar: DeltaGenerator) -> None:
    """The same model before its first update, with Xavier's start values and with wider ones."""
    with bar:
        seed = whole(t("learning.seed"), 0, 20, 1, key="start-seed", width=240)
    (good, good_gradient), (bad, bad_gradient) = _started(seed, True), _started(seed, False)
    st.latex(r"W_{ij} \sim U(-a, a), \qquad a = \sqrt{\tfrac{6}{n_{in} + n_{out}}}")
    site = next(one for one in good.maps if "cross" in one)
    st.caption(
        t(
            "learning.look_start", good=_largest(good, site), bad=_largest(bad, site), good_gradient=good_gradient,
            bad_gradient=bad_gradient,
        )
    )  # fmt: skip
    rows, columns = labels(Settings(seed=seed))
    shown = ((plain("learning.start_xavier"), good), (plain("learning.start_bad"), bad))
    panels = tuple(Panel(title, tuple(rows), one.maps[site][0]) for title, one in shown)
    alignments([Moment("", panels)], columns, key="start-maps", same_rows=True, file_name="start")


@cached()
def _started(seed: int, xavier: bool) -> tuple[Snapshot, float]:
    return at_start(Settings(seed=seed, xavier=xavier))


def _largest(found: Snapshot, site: str) -> float:
    """The mean over rows and heads of the largest weight of a row."""
    return float(found.maps[site].max(2).mean())


def _plot(lines: Mapping[str, np.ndarray], places: Sequence[float], axis: str, quantity: str, mark: float) -> None:
    dark = st.context.theme.type == "dark"
    figure = curves(lines, axis, quantity, x=places, mark=mark, dark=dark)
    st.plotly_chart(figure, key="plot.theory", config=plot_config("learning", "svg"))
