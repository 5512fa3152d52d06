"""Map: the whole model at work on one sentence, from the words below to what comes out above."""

from weakref import ref

import streamlit as st

from transformer.errors import HeedmapError
from transformer.plots.canvas.about import About
from ui import shell
from ui.components.map.component import model_map
from ui.map import choices, writing
from ui.map.descriptions import headline, identity
from ui.map.drawing import drawing
from ui.map.panel import part_panel
from ui.map.prediction import prediction_panel
from ui.map.table import table_panel
from ui.shared import address, controls, elsewhere
from ui.shared.familiarity import warn_of_unlike
from ui.shared.files import Origin
from ui.shared.part import in_page, part
from ui.shared.subject import TEXT
from ui.shared.writing import TEMPERATURE
from ui.store import store
from ui.texts import plain, t

shell.heading(t("map.title"), t("map.intro"))
chosen = controls.checkpoint_choice(*store.ARCHITECTURES)
if chosen is None:
    address.stop()
name: str = chosen  # also where it is used later, within functions
try:
    checkpoint = store.checkpoint(name)
    text = choices.text(name, checkpoint)
    shown = writing.shown(name, checkpoint, text)
    if shown.translation is not None:
        warn_of_unlike(checkpoint, shown.translation)
except HeedmapError as error:
    controls.explain(error)
    elsewhere.explain_long(error, name, address.parameter(TEXT) or "")
    address.stop()

alive = ref(shown)


def looked_at() -> None:
    """The map at a step, and what is said of that step or of the open part."""
    shown = alive()
    if shown is None:
        in_page()
        return
    checkpoint = store.checkpoint(name)
    axis, labels = shown.axis, choices.source_labels(shown)  # alone: what a component calls must not keep the run
    opened, step, whole = choices.opened(shown), choices.step(shown), choices.every_layer()
    found = drawing(shown, whole, opened.name if opened else "")
    pinned = choices.source(shown)
    source = found.source_at(step) if pinned is None else pinned
    about, origin = identity(shown.flow.diagram), Origin(name, writing.text_of(shown, text))
    writing.written_panel(shown, step)
    names = [part.name for part in found.parts]
    with st.container(key="map-area"):
        model_map(
            found.towers,
            found.parts,
            found.steps,
            key="map",
            about=about,
            headline=headline(shown.flow.diagram, checkpoint.languages, shown.answer),
            legend=f"{found.legend} {about}.",
            step=step,
            source=pinned,
            opened=found.numbers[opened.name] if opened else None,
            folds=plain("map.fold" if whole else "map.unfold") if found.can_fold else "",
            file_name=origin.stem("map"),
            saved=About(about, (*origin.facts(), found.legend)),
            on_open=lambda part, head: choices.open_part(names[part], head),
            on_close=choices.close_part,
            on_step=lambda number: choices.to_step(axis, number),
            on_source=lambda number: choices.to_source(labels, number),
            on_fold=choices.turn_layers,
        )
        if opened:
            side = "left" if len(found.towers) == 2 and found.is_last(opened.name) else "right"
            with st.container(key=f"map-panel-{side}", border=True):
                part_panel(name, checkpoint, shown, text, found, opened, step, source)
    writing.gaps_panel(name, checkpoint, axis, text)
    if not opened:
        with st.container():
            part(lambda: predicted(step), TEMPERATURE)
    table_panel(found, step, source)
    for note in (*checkpoint.assumptions, *shown.record.notes):
        st.caption(controls.sentence(note))


def predicted(step: int) -> None:
    """What comes next at a step."""
    shown = alive()
    if shown is None:
        in_page()
        return
    prediction_panel(store.checkpoint(name), shown, step)


part(looked_at)
del checkpoint, shown  # a part outlives this run, and what is called here `shown` with it: it must not keep the run
