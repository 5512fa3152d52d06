"""The lesson "Learning": what trainings rest on, that of a translator, and every screen of the page by its name."""

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from heedmap import DecodingOptions, Translation
from heedmap.attention.alignments import alignment, heads_of
from heedmap.errors import InputError
from heedmap.lessons.pairs import REFERENCES, TrainingBatch, training_batch
from heedmap.plots.canvas.views import About
from heedmap.plots.charts import curves
from heedmap.plots.export import file_name, plot_config
from heedmap.training import snapshots as training
from heedmap.training.snapshots import Snapshot, at_start, labels
from heedmap.training.tasks import Settings, noam
from ui.components.alignments.component import Moment, Panel, alignments
from ui.lessons.shared import listed
from ui.lessons.watched_training import MOMENT, watch_panel
from ui.shared import address, heads
from ui.shared.address import choice, hundredths, line, parameter, set_parameter, whole
from ui.shared.bars import is_dark
from ui.store import runs, store
from ui.store.cache import cached, session_store
from ui.store.refs import Revision
from ui.texts import plain, t

DONE = "training.done"
"""What the session has seen every snapshot of: its runs are cached, so there is no progress to show."""

WORD = "word"
"""The query parameter of the marked target word."""

GREEDY = DecodingOptions(beam=1)


class Stage(NamedTuple):
    """One snapshot: its name, what was written freely at that time, and the pass through the common target."""

    name: str
    free: Translation
    read: Translation


def history_panel(bar: DeltaGenerator) -> None:
    """The same sentence, target and head at every snapshot; nothing runs again when another one is looked at."""
    trained = [name for name in store.checkpoint_names("seq2seq", "recurrent") if store.snapshots(name)]
    if not trained:
        st.info(t("learning.no_history"))
        return
    with bar:
        name, text, forced = _sentence(trained, "trained")
        stages = _stages(name, text, forced)
        final = stages[-1].read
        codes = {f"{one.layer}.{one.head}": one for one in heads_of(final.record)}
        layer, head = heads.first_head(name, final)
        shown = codes[
            listed(
                "lessons.head", list(codes), key="emerging", default=f"{layer}.{head}", bare=True,
                text=lambda code: heads.head_text(codes[code]),
            )
        ]  # fmt: skip
    st.caption(t("learning.look_training", target=final.text))
    pictures = [alignment(stage.read.record, shown) for stage in stages]
    rows, word = pictures[0].queries.labels, parameter(WORD)
    moments = []
    for stage, picture in zip(stages, pictures, strict=True):
        written = plain("learning.wrote", text=stage.free.text or plain("learning.empty"))
        panel = Panel(heads.head_text(shown), picture.queries.labels, picture.values, picture.visible, written)
        moments.append(Moment(stage.name, (panel,)))
    # Where the address names no snapshot, it is the earliest: a training is seen from its beginning.
    at, *_ = address.whole_numbers(parameter(MOMENT), 1) or (0,)
    alignments(
        moments, pictures[0].keys.labels, key="training", same_rows=True,
        moment=at if at < len(stages) else 0,
        marked=(0, rows.index(word)) if word in rows else None,
        file_name=file_name(name, "training", f"layer-{shown.layer}-head-{shown.head}", text=text),
        about=About(
            plain("learning.about_training", model=name, head=heads.head_text(shown)),
            [plain("learning.about_sentence", text=text), plain("learning.about_read", target=final.text)],
        ),
        on_mark=lambda marked: set_parameter(WORD, None if marked is None else rows[marked[1]]),
        on_moment=lambda snapshot: set_parameter(MOMENT, str(snapshot)),
    )  # fmt: skip


def _stages(name: str, text: str, forced: str | None) -> list[Stage]:
    """Every snapshot and the finished model on the sentence; its words, or typed ones, are the target."""
    snapshots = store.snapshots(name)
    final = runs.translation(name, text, GREEDY, None)
    target = forced or final.text
    if not target.strip():
        raise InputError("align_model_wrote_nothing", model=name)
    done, asked = session_store(DONE), (tuple(map(store.revision, snapshots)), text, target)
    bar = st.empty() if asked in done else st.progress(0.0)
    found = []
    for number, (one, snapshot) in enumerate(snapshots.items()):
        if asked not in done:
            bar.progress(number / len(snapshots), t("learning.running_snapshot", update=snapshot.update))
        fields = {name: getattr(snapshot, name) for name in ("update", "epoch", "bleu", "loss")}
        free, read = (runs.translation(one, text, GREEDY, wanted) for wanted in (None, target))
        found.append(Stage(plain("learning.snapshot_title", **fields), free, read))
    done.put(asked, True)
    bar.empty()
    read = runs.translation(name, text, GREEDY, target)
    return [*found, Stage(plain("learning.snapshot_final"), final, read)]


def pair_panel(bar: DeltaGenerator) -> None:
    """One pair, a batch of two, and two ways to walk through the target."""
    with bar:
        name, text, forced = _sentence(store.checkpoint_names("seq2seq", "recurrent"), "learner")
    target, origin = _reference(name, text, forced)
    st.caption(t("learning.look_lesson", origin=origin, target=target))
    others = [pair for pair in REFERENCES.items() if pair[0] != text.strip()]
    companion = max(others, key=lambda pair: abs(len(pair[0]) - len(text)))  # of another length, so that one is padded
    batch = _batch(store.revision(name), ((text, target), companion))
    _cut(batch)
    _counted(batch, companion)
    _forced_and_free(name, text, target)


def _reference(name: str, text: str, forced: str | None) -> tuple[str, str]:
    """What a person would have written: typed, known for an example, or else the model's own words stand in."""
    if forced is not None:
        return forced, plain("learning.origin_typed")
    known = REFERENCES.get(text.strip())
    if known is not None:
        return known, plain("learning.origin_known")
    return runs.translation(name, text, GREEDY, None).text, plain("learning.origin_instead")


@cached()
def _batch(revision: Revision, pairs: tuple[tuple[str, str], ...]) -> TrainingBatch:
    return training_batch(store.load(revision), pairs)


def _cut(batch: TrainingBatch) -> None:
    """The pair that was typed, without padding."""
    st.markdown(f"**{t('learning.cut')}**", help=t("learning.look_cut"))
    source = " ".join(text for text in batch.source[0] if text != batch.pad)
    st.text(plain("learning.encoder_reads", tokens=source))
    with st.container(key="pair"):
        st.dataframe(_cells(batch, 0, int(batch.counted[0].sum())).iloc[:3], key="cut")


def _cells(batch: TrainingBatch, row: int, n: int, prefix: str = "") -> pd.DataFrame:
    """A pair position by position: what the decoder reads, its label, the loss, and whether it counts."""
    cells = {
        "decoder_reads": batch.read[row],
        "label": batch.labels[row],
        "loss_column": [f"{value:.2f}" for value in batch.losses[row]],
        "counts": ["1" if on else "0" for on in batch.counted[row]],
    }
    index, columns = [f"{prefix}{t(f'learning.{what}')}" for what in cells], [str(i + 1) for i in range(n)]
    return pd.DataFrame([list(one[:n]) for one in cells.values()], index=index, columns=columns)


def _counted(batch: TrainingBatch, companion: tuple[str, str]) -> None:
    """A batch of two: the loss at every position, and what counting padding would do to the mean."""
    st.markdown(f"**{t('learning.batch_of_two')}**", help=t("learning.look_batch", source=companion[0]))
    table = pd.concat([_cells(batch, i, batch.losses.shape[1], f"{i + 1}. ") for i in range(len(batch.labels))])
    hidden = np.repeat(~batch.counted, 4, axis=0)
    faded = np.where(hidden, "opacity: 0.45; background-color: rgba(128, 128, 128, 0.18)", "")
    st.dataframe(table.style.apply(lambda _: faded, axis=None), key="batch", height="content")
    count, positions = int(batch.counted.sum()), batch.counted.size
    sums = {"right": (batch.loss, batch.losses[batch.counted].sum(), count)}
    sums["wrong"] = (batch.loss_with_padding, batch.losses.sum(), positions)
    for place, (name, (loss, total, number)) in zip(st.columns(2), sums.items(), strict=True):
        place.metric(t(f"learning.loss_{name}"), f"{loss:.3f}")
        place.caption(t("learning.sum_and_count", total=float(total), count=number))
    st.caption(t("learning.why_padding", padding=positions - count))


def _forced_and_free(name: str, text: str, target: str) -> None:
    """The same model twice: given the true tokens so far, and given its own."""
    st.markdown(f"**{t('learning.forced_and_free')}**")
    st.caption(t("learning.look_forced"))
    forced, free = (runs.translation(name, text, GREEDY, wanted) for wanted in (target, None))
    given = [[one.text, float(np.log(one.probability)), one.likeliest[0].text, one.rank + 1] for one in forced.steps]
    own = [[one.text, float(np.log(one.probability))] for one in free.steps]
    names = [t(f"learning.forced_{column}") for column in ("token", "log", "would", "rank")]
    names += [t(f"learning.free_{column}") for column in ("token", "log")]
    table = pd.concat([pd.DataFrame(given, columns=names[:4]), pd.DataFrame(own, columns=names[4:])], axis=1)
    table.index += 1
    logarithm = st.column_config.NumberColumn(format="%.3f")
    st.dataframe(table, key="forced", column_config={names[1]: logarithm, names[5]: logarithm})
    pairs = enumerate(zip_longest(forced.target_ids, free.target_ids), 1)
    step = next((step for step, (one, other) in pairs if one != other), None)
    said, written = f"learning.sums_{'same' if step is None else 'apart'}", free.text or plain("learning.empty")
    st.caption(t(said, forced=forced.log_prob, free=free.log_prob, text=written, step=step))


def _sentence(names: Sequence[str], key: str) -> tuple[str, str, str | None]:
    """A trained model, a sentence for it, and the target that was typed, if any."""
    name = listed("learning.learner", names, key=key, width=260, bare=True, text=str)
    with st.popover(t("learning.sentence"), icon=":material/edit:"):
        text = line(t("lessons.source"), next(iter(store.checkpoint(name).examples), ""), key="text")
        forced = line(t("lessons.target"), "", key="force")
    return name, text, forced.strip() or None


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
    target = training.smoothed_target(epsilon, vocab)
    least = float(training.smoothed_losses(target[:1], epsilon, vocab)[0]) if target[0] < 1 else 0.0
    st.latex(
        r"q_{right} = 1 - \varepsilon + \tfrac{\varepsilon}{V}, \quad q_{other} = \tfrac{\varepsilon}{V}, \qquad "
        r"L = -\left(1 - \varepsilon\right) \log p_{right} - \tfrac{\varepsilon}{V} \sum_v \log p_v"
    )
    st.caption(t("learning.look_smoothing", right=float(target[0]), other=float(target[1]), least=least))
    right = np.linspace(0.5, 0.999, 200)
    names = {plain("learning.with_smoothing", epsilon=epsilon): epsilon, plain("learning.without_smoothing"): 0.0}
    lines = {name: training.smoothed_losses(right, one, vocab) for name, one in names.items()}
    _plot(lines, right.tolist(), plain("learning.right_probability"), plain("learning.loss"), float(target[0]))


def start_panel(bar: DeltaGenerator) -> None:
    """The same model before its first update, with Xavier's start values and with wider ones."""
    with bar:
        seed = whole(t("learning.seed"), 0, 20, 1, key="start-seed", width=240)
    (good, good_gradient), (bad, bad_gradient) = _started(seed, True), _started(seed, False)
    st.latex(r"W_{ij} \sim U(-a, a), \qquad a = \sqrt{\tfrac{6}{n_{in} + n_{out}}}")
    site = next(one for one in good.maps if "cross" in one)
    largest = {name: float(one.maps[site].max(2).mean()) for name, one in (("good", good), ("bad", bad))}
    st.caption(t("learning.look_start", good_gradient=good_gradient, bad_gradient=bad_gradient, **largest))
    rows, columns = labels(Settings(seed=seed))
    shown = ((plain("learning.start_xavier"), good), (plain("learning.start_bad"), bad))
    panels = tuple(Panel(title, tuple(rows), one.maps[site][0]) for title, one in shown)
    alignments([Moment("", panels)], columns, key="start-maps", same_rows=True, file_name="start")


@cached()
def _started(seed: int, xavier: bool) -> tuple[Snapshot, float]:
    return at_start(Settings(seed=seed, xavier=xavier))


def _plot(lines: Mapping[str, np.ndarray], places: Sequence[float], axis: str, quantity: str, mark: float) -> None:
    figure = curves(lines, axis, quantity, x=places, mark=mark, dark=is_dark())
    st.plotly_chart(figure, key="plot.theory", config=plot_config("learning", "svg"))


SCREENS: dict[str, Callable[[DeltaGenerator], None]] = {
    "watch": watch_panel,
    "rate": rate_panel,
    "smoothing": smoothing_panel,
    "start": start_panel,
    "lesson": pair_panel,
    "training": history_panel,
}
"""Every screen; each gets the row in which its controls stand."""
