"""How an alignment emerges: one sentence and one head at every snapshot of a training, played in the browser."""

from dataclasses import dataclass

import streamlit as st

from transformer import Translation
from transformer.attention.alignment import Head, alignment
from transformer.errors import InputError
from transformer.plots.file_names import file_name
from transformer.plots.picture import Picture
from ui.align.choices import AUTO, Aligned, Pair, greedy, head_of, head_options, head_text, option_text
from ui.align.files import about_training, head_part
from ui.align.views import mark, marked
from ui.components.alignments.component import Moment, Panel, alignments
from ui.shared import controls, heads
from ui.shared.address import choice, parameter, set_parameter, whole_numbers
from ui.store import runs, store
from ui.store.cache import session_store
from ui.texts import plain, t

SNAPSHOT = "moment"
"""The query parameter of the snapshot that is shown, from 0."""

DONE = "align.done"
"""What the session has seen every snapshot of: its runs are cached, so there is no progress to show."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One snapshot: its name, what was written freely at that time, and the pass through the common target."""

    name: str
    free: Translation
    read: Translation


def training_panel(shown: Pair, aligned: Aligned, request: controls.Request) -> None:
    """The same sentence, target and head at every snapshot; nothing runs again when the snapshot or the head changes.

    At first the head is the one that stands for this model on the page; for another model, the one that it starts
    with everywhere.
    """
    trained = [name for name in _bases(shown) if store.snapshots(name)]
    if not trained:
        st.info(t("align.no_history"))
        return
    with st.container(horizontal=True, gap="medium"):
        name = choice(t("align.trained"), trained, key="trained", form="list", width=300, text=str)
        stages = _stages(name, request)
        final = stages[-1].read.record
        code = choice(
            t("align.head_emerging"), head_options(final), key="emerging", form="list", width=300,
            text=lambda code: plain("align.head_page") if code == AUTO else option_text(code),
        )  # fmt: skip
    usual = _usual(shown, aligned, name) or Head(*heads.first_head(name, stages[-1].read))
    head = usual if code == AUTO else head_of(code)
    target = stages[-1].read.text
    st.caption(t("align.look_training", head=head_text(head), target=target))
    pictures = [alignment(stage.read.record, head) for stage in stages]
    alignments(
        [_component_moment(stage, head, picture) for stage, picture in zip(stages, pictures, strict=True)],
        pictures[0].keys.labels,
        key="training",
        same_rows=True,
        moment=_snapshot_in_address(len(stages)),
        marked=marked(pictures[:1]),
        file_name=file_name(name, "training", head_part(head), text=request.text),
        about=about_training(shown, name, head, target),
        on_mark=lambda word: mark(word, pictures[:1]),
        on_moment=_keep_snapshot,
    )


def _usual(shown: Pair, aligned: Aligned, name: str) -> Head | None:
    """The head that stands for a model on the page; None for a model that no head stands for there."""
    found = [head for side, head in zip(shown.sides, aligned.heads, strict=True) if store.base(side.name) == name]
    return next((head for head in found if isinstance(head, Head)), None)


def _bases(shown: Pair) -> list[str]:
    """The two models without their snapshots, then every other checkpoint."""
    chosen = [store.base(side.name) for side in shown.sides]
    return list(dict.fromkeys([*chosen, *store.checkpoint_names("seq2seq", "recurrent")]))


def _stages(name: str, request: controls.Request) -> list[Stage]:
    """Every snapshot and the finished model on the sentence; its words, or typed ones, are the target."""
    snapshots = store.snapshots(name)
    final = runs.translation(name, request.text, greedy(request), None)
    target = request.forced or final.text
    if not target.strip():
        raise InputError("align_model_wrote_nothing", model=name)
    options = greedy(request)
    done, asked = session_store(DONE), (tuple(map(store.revision, snapshots)), request.text, options, target)
    bar = None if asked in done else st.progress(0.0)
    found = []
    for number, (one, snapshot) in enumerate(snapshots.items()):
        if bar is not None:
            bar.progress(number / len(snapshots), t("align.running_snapshot", update=snapshot.update))
        free = runs.translation(one, request.text, options, None)
        read = runs.translation(one, request.text, options, target)
        title = plain(
            "align.snapshot_title", update=snapshot.update, epoch=snapshot.epoch, bleu=snapshot.bleu, loss=snapshot.loss
        )
        found.append(Stage(title, free, read))
    done.put(asked, True)
    if bar is not None:
        bar.empty()
    read = runs.translation(name, request.text, options, target)
    return [*found, Stage(plain("align.snapshot_final"), final, read)]


def _component_moment(stage: Stage, head: Head, picture: Picture) -> Moment:
    written = plain("align.wrote", text=stage.free.text or plain("align.empty"))
    panel = Panel(head_text(head), picture.queries.labels, picture.values, picture.visible, written)
    return Moment(stage.name, (panel,))


def _snapshot_in_address(count: int) -> int:
    """The snapshot in the address; where there is none, the earliest, so that a training is seen from its beginning."""
    found = whole_numbers(parameter(SNAPSHOT) or "", "-")
    return found[0] if found is not None and len(found) == 1 and found[0] < count else 0


def _keep_snapshot(snapshot: int) -> None:
    set_parameter(SNAPSHOT, str(snapshot))
