"""How an alignment emerges: one sentence and one head at every kept moment of a training, played in the browser."""

from dataclasses import dataclass

import streamlit as st

from transformer import Translation
from transformer.attention.alignment import Head, alignment, strongest
from transformer.errors import InputError
from transformer.pictures.picture import Picture
from ui.align.choices import AUTO, Aligned, Pair, greedy, head_of, head_options, head_text, option_text
from ui.align.views import mark, marked
from ui.components.alignments.component import Moment, Panel, alignments
from ui.shared import controls
from ui.shared.address import choice
from ui.store import runs, store
from ui.store.cache import session_store
from ui.texts import plain, t

MOMENT = "moment"
"""The query parameter of the moment that is shown, from 0."""

DONE = "align.done"
"""What the session has seen every snapshot of: its runs are cached, so there is no progress to show."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One moment: its name, what was written freely then, and the pass through the common target."""

    name: str
    free: Translation
    read: Translation


def training_panel(shown: Pair, aligned: Aligned, request: controls.Request) -> None:
    """The same sentence, target and head at every moment; nothing runs again when the moment or the head changes.

    At first the head is the one that stands for this model on the page; the surest one for another model.
    """
    trained = [name for name in _bases(shown) if store.snapshots(name)]
    if not trained:
        st.info(t("align.no_history"))
        return
    with st.container(horizontal=True, gap="medium"):
        name = choice(t("align.trained"), trained, key="trained", form="list", width=330, text=str)
        stages = _stages(name, request)
        final = stages[-1].read.record
        code = choice(
            t("align.head_emerging"), head_options(final), key="emerging", form="list", width=330,
            text=lambda code: plain("align.head_page") if code == AUTO else option_text(code),
        )  # fmt: skip
    head = head_of(code) if code != AUTO else _usual(shown, aligned, name) or strongest(final)
    st.caption(t("align.look_training", head=head_text(head), target=stages[-1].free.text))
    pictures = [alignment(stage.read.record, head) for stage in stages]
    alignments(
        [_moment(stage, head, picture) for stage, picture in zip(stages, pictures, strict=True)],
        pictures[0].keys.labels,
        key="training",
        same_rows=True,
        moment=_moment_in_address(len(stages)),
        marked=marked(),
        file_name=f"{name}-training",
        on_mark=mark,
        on_moment=_keep_moment,
    )


def _usual(shown: Pair, aligned: Aligned, name: str) -> Head | None:
    """The head that stands for a model on the page; None for a model that is not on it."""
    found = [head for side, head in zip(shown.sides, aligned.heads, strict=True) if store.base(side.name) == name]
    return found[0] if found else None


def _bases(shown: Pair) -> list[str]:
    """The two models without their moments, then every other checkpoint."""
    chosen = [store.base(side.name) for side in shown.sides]
    return list(dict.fromkeys([*chosen, *store.checkpoint_names("seq2seq", "recurrent")]))


def _stages(name: str, request: controls.Request) -> list[Stage]:
    """Every moment and the finished model on the sentence; its words, or typed ones, are the target."""
    moments = store.snapshots(name)
    final = runs.translation(name, request.text, greedy(request), None)
    target = request.forced or final.text
    if not target.strip():
        raise InputError(plain("align.model_wrote_nothing", model=name))
    options = greedy(request)
    done, asked = session_store(DONE), (tuple(map(store.revision, moments)), request.text, options, target)
    bar = None if asked in done else st.progress(0.0)
    found = []
    for number, (one, moment) in enumerate(moments.items()):
        if bar is not None:
            bar.progress(number / len(moments), t("align.running_moment", update=moment.update))
        free = runs.translation(one, request.text, options, None)
        read = runs.translation(one, request.text, options, target)
        title = plain("align.moment", update=moment.update, epoch=moment.epoch, bleu=moment.bleu, loss=moment.loss)
        found.append(Stage(title, free, read))
    done.put(asked, True)
    if bar is not None:
        bar.empty()
    return [*found, Stage(plain("align.moment_final"), final, runs.translation(name, request.text, options, target))]


def _moment(stage: Stage, head: Head, picture: Picture) -> Moment:
    written = plain("align.wrote", text=stage.free.text or plain("align.empty"))
    panel = Panel(head_text(head), picture.queries.labels, picture.values, picture.visible, written)
    return Moment(stage.name, (panel,))


def _moment_in_address(count: int) -> int:
    """The moment in the address; the finished model where there is none."""
    text = st.query_params.get(MOMENT, "")
    return int(text) if text.isdecimal() and len(text) < 4 and int(text) < count else count - 1


def _keep_moment(moment: int) -> None:
    st.query_params[MOMENT] = str(moment)
