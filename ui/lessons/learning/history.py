"""How an alignment emerges: one sentence and one head at every snapshot of a translator's training, played back."""

from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer import DecodingOptions, Translation
from transformer.attention.alignment import Head, alignment, heads_of
from transformer.errors import InputError
from transformer.plots.canvas.about import About
from transformer.plots.file_names import file_name
from transformer.plots.picture import Picture
from ui.components.alignments.component import Marked, Moment, Panel, alignments
from ui.lessons.learning.controls import MOMENT, sentence
from ui.shared import heads
from ui.shared.address import choice, parameter, set_parameter, whole_numbers
from ui.store import runs, store
from ui.store.cache import session_store
from ui.texts import plain, t

DONE = "training.done"
"""What the session has seen every snapshot of: its runs are cached, so there is no progress to show."""

WORD = "word"
"""The query parameter of the marked target word."""

GREEDY = DecodingOptions(beam=1)


@dataclass(frozen=True, eq=False)
class Stage:
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
        name, text, forced = sentence(trained, "trained")
        stages = _stages(name, text, forced)
        final = stages[-1].read
        codes = {f"{one.layer}.{one.head}": one for one in heads_of(final.record)}
        layer, head = heads.first_head(name, final)
        shown = codes[
            choice(
                t("lessons.head"), list(codes), key="emerging", default=f"{layer}.{head}", form="list",
                width=180, bare=True, text=lambda code: _head_text(codes[code]),
            )
        ]  # fmt: skip
    st.caption(t("learning.look_training", target=final.text))
    pictures = [alignment(stage.read.record, shown) for stage in stages]
    rows = pictures[0].queries.labels
    alignments(
        [_moment(stage, shown, picture) for stage, picture in zip(stages, pictures, strict=True)],
        pictures[0].keys.labels,
        key="training",
        same_rows=True,
        moment=_snapshot_in_address(len(stages)),
        marked=Marked(0, rows.index(word)) if (word := parameter(WORD)) in rows else None,
        file_name=file_name(name, "training", f"layer-{shown.layer}-head-{shown.head}", text=text),
        about=About(
            plain("learning.about_training", model=name, head=_head_text(shown)),
            [plain("learning.about_sentence", text=text), plain("learning.about_read", target=final.text)],
        ),
        on_mark=lambda marked: set_parameter(WORD, None if marked is None else rows[marked.row]),
        on_moment=lambda snapshot: set_parameter(MOMENT, str(snapshot)),
    )


def _head_text(head: Head) -> str:
    if head.head == "mean":
        return plain("learning.head_mean", layer=head.layer)
    return plain("learning.head_one", layer=head.layer, head=head.head)


def _stages(name: str, text: str, forced: str | None) -> list[Stage]:
    """Every snapshot and the finished model on the sentence; its words, or typed ones, are the target."""
    snapshots = store.snapshots(name)
    final = runs.translation(name, text, GREEDY, None)
    target = forced or final.text
    if not target.strip():
        raise InputError("align_model_wrote_nothing", model=name)
    done, asked = session_store(DONE), (tuple(map(store.revision, snapshots)), text, target)
    bar = None if asked in done else st.progress(0.0)
    found = []
    for number, (one, snapshot) in enumerate(snapshots.items()):
        if bar is not None:
            bar.progress(number / len(snapshots), t("learning.running_snapshot", update=snapshot.update))
        free = runs.translation(one, text, GREEDY, None)
        read = runs.translation(one, text, GREEDY, target)
        title = plain(
            "learning.snapshot_title", update=snapshot.update, epoch=snapshot.epoch, bleu=snapshot.bleu,
            loss=snapshot.loss,
        )  # fmt: skip
        found.append(Stage(title, free, read))
    done.put(asked, True)
    if bar is not None:
        bar.empty()
    read = runs.translation(name, text, GREEDY, target)
    return [*found, Stage(plain("learning.snapshot_final"), final, read)]


def _moment(stage: Stage, head: Head, picture: Picture) -> Moment:
    written = plain("learning.wrote", text=stage.free.text or plain("learning.empty"))
    panel = Panel(_head_text(head), picture.queries.labels, picture.values, picture.visible, written)
    return Moment(stage.name, (panel,))


def _snapshot_in_address(count: int) -> int:
    """The snapshot in the address; where there is none, the earliest, so that a training is seen from its beginning."""
    found = whole_numbers(parameter(MOMENT) or "", "-")
    return found[0] if found is not None and len(found) == 1 and found[0] < count else 0
