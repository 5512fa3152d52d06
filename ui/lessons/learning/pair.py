"""How a training pair is cut, why padding is not counted, and teacher forcing beside free running."""

from itertools import zip_longest

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer import Checkpoint
from transformer.lessons.architectures.pairs import REFERENCES, TrainingBatch, training_batch
from ui.lessons.learning.controls import sentence
from ui.lessons.learning.history import GREEDY
from ui.store import runs, store
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import plain, t


def pair_panel(bar: DeltaGenerator) -> None:
    """One pair, a batch of two, and two ways to walk through the target."""
    with bar:
        name, text, forced = sentence(store.checkpoint_names("seq2seq", "recurrent"), "learner")
    checkpoint = store.checkpoint(name)
    target, origin = _reference(name, text, forced)
    st.caption(t("learning.look_lesson", origin=origin, target=target))
    companion = _companion(checkpoint, text)
    batch = _batch(name, store.revision(name), ((text, target), companion))
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


def _companion(checkpoint: Checkpoint, text: str) -> tuple[str, str]:
    """Another pair for the batch, of another length than the sentence."""
    tokenizer = checkpoint.tokenizer
    known = [pair for pair in REFERENCES.items() if pair[0] != text.strip()]
    if tokenizer is None:
        return known[0]
    length = len(tokenizer.encode(text))
    return max(known, key=lambda pair: abs(len(tokenizer.encode(pair[0])) - length))


@cached()
def _batch(name: str, revision: Revision, pairs: tuple[tuple[str, str], ...]) -> TrainingBatch:  # noqa: ARG001  (cache key)
    return training_batch(store.checkpoint(name), pairs)


def _cut(batch: TrainingBatch) -> None:
    """The pair that was typed, without padding."""
    st.markdown(f"**{t('learning.cut')}**", help=t("learning.look_cut"))
    n = int(batch.counted[0].sum())
    rows = {
        t("learning.decoder_reads"): list(batch.read[0][:n]),
        t("learning.label"): list(batch.labels[0][:n]),
        t("learning.loss_column"): [f"{value:.2f}" for value in batch.losses[0][:n]],
    }
    source = [text for text in batch.source[0] if text != batch.pad]
    st.text(plain("learning.encoder_reads", tokens=" ".join(source)))
    with st.container(key="pair"):
        st.dataframe(pd.DataFrame.from_dict(rows, orient="index", columns=_positions(n)), key="cut")


def _counted(batch: TrainingBatch, companion: tuple[str, str]) -> None:
    """A batch of two: the loss at every position, and what counting padding would do to the mean."""
    st.markdown(f"**{t('learning.batch_of_two')}**", help=t("learning.look_batch", source=companion[0]))
    n = batch.losses.shape[1]
    rows, index = [], []
    for i in range(len(batch.labels)):
        for what, cells in (
            ("decoder_reads", list(batch.read[i])),
            ("label", list(batch.labels[i])),
            ("loss_column", [f"{v:.2f}" for v in batch.losses[i]]),
            ("counts", ["1" if on else "0" for on in batch.counted[i]]),
        ):
            rows.append(cells)
            index.append(f"{i + 1}. {t(f'learning.{what}')}")
    table = pd.DataFrame(rows, index=index, columns=_positions(n))
    hidden = np.repeat(~batch.counted, 4, axis=0)
    faded = np.where(hidden, "opacity: 0.45; background-color: rgba(128, 128, 128, 0.18)", "")
    st.dataframe(table.style.apply(lambda _: faded, axis=None), key="batch", height="content")
    count, positions = int(batch.counted.sum()), batch.counted.size
    total, padded = float(batch.losses[batch.counted].sum()), float(batch.losses.sum())
    right, wrong = st.columns(2)
    right.metric(t("learning.loss_right"), f"{batch.loss:.3f}")
    right.caption(t("learning.sum_and_count", total=total, count=count))
    wrong.metric(t("learning.loss_wrong"), f"{batch.loss_with_padding:.3f}")
    wrong.caption(t("learning.sum_and_count", total=padded, count=positions))
    st.caption(t("learning.why_padding", padding=positions - count))


def _forced_and_free(name: str, text: str, target: str) -> None:
    """The same model twice: given the true tokens so far, and given its own."""
    st.markdown(f"**{t('learning.forced_and_free')}**")
    st.caption(t("learning.look_forced"))
    forced = runs.translation(name, text, GREEDY, target)
    free = runs.translation(name, text, GREEDY, None)
    length = max(len(forced.steps), len(free.steps))
    rows = []
    for i in range(length):
        row: list[object] = [None] * 6
        if i < len(forced.steps):
            step = forced.steps[i]
            row[:4] = [step.text, float(np.log(step.probability)), step.likeliest[0].text, step.rank + 1]
        if i < len(free.steps):
            row[4:] = [free.steps[i].text, float(np.log(free.steps[i].probability))]
        rows.append(row)
    names = [t(f"learning.forced_{column}") for column in ("token", "log", "would", "rank")]
    names += [t(f"learning.free_{column}") for column in ("token", "log")]
    table = pd.DataFrame(rows, index=list(range(1, length + 1)), columns=names)
    logarithm = st.column_config.NumberColumn(format="%.3f")
    st.dataframe(table, key="forced", column_config={names[1]: logarithm, names[5]: logarithm})
    apart = _first_difference(forced.target_ids, free.target_ids)
    name, written = f"learning.sums_{'same' if apart is None else 'apart'}", free.text or plain("learning.empty")
    st.caption(t(name, forced=forced.log_prob, free=free.log_prob, text=written, step=apart))


def _first_difference(forced: tuple[int, ...], free: tuple[int, ...]) -> int | None:
    """The first step, from 1, at which the two are not the same; None where there is none."""
    steps = enumerate(zip_longest(forced, free), 1)
    return next((step for step, (one, other) in steps if one != other), None)


def _positions(n: int) -> list[str]:
    return [str(i + 1) for i in range(n)]
