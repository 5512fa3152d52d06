"""Map: the whole model at work on one sentence, from the words below to what comes out above."""

from weakref import ref

import streamlit as st

from heedmap.plots.axes import Axis
from heedmap.plots.canvas.views import About
from heedmap.runs.continuing import mask_of
from ui import shell
from ui.components.map.component import model_map
from ui.map import choices
from ui.map.drawing import drawing, headline, identity
from ui.map.panel import part_panel, prediction_panel, table_panel
from ui.shared import address, controls, writing
from ui.shared.files import Provenance
from ui.shared.part import in_page, part
from ui.shared.record_views import record_notes
from ui.store import store
from ui.texts import plain, t

shell.heading(t("map.title"), t("map.intro"))
name = controls.checkpoint_choice(*store.ARCHITECTURES)
with shell.explained(model=name):
    checkpoint = store.checkpoint(name)
    text = choices.text(name, checkpoint)
    shown = choices.run(name, checkpoint, text)
    record_notes(shown.record)

alive = ref(shown)


def looked_at() -> None:
    """The map at a step, and what is said of that step or of the open part."""
    shown = alive()
    if shown is None:
        in_page()
        return
    checkpoint = store.checkpoint(name)
    # alone: what a component calls must not keep the run
    axis, labels = shown.axis, Axis.of_tokens("", shown.source).labels
    opened, step = choices.opened(shown), choices.step(shown)
    whole = address.parameter(choices.LAYERS) == choices.WHOLE
    found = drawing(shown, whole, opened.name if opened else "")
    pinned = choices.source(shown, labels)
    source = found.source_at(step) if pinned is None else pinned
    about, read = identity(shown.flow.diagram), text if shown.continued is None else shown.continued.texts[-1]
    origin = Provenance(name, read)
    if shown.continued is not None and shown.continued.written:
        writing.token_strip(shown.continued.tokens, shown.written_at(step))
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
            opened=opened.name if opened else None,
            folds=plain("map.fold" if whole else "map.unfold") if found.can_fold else "",
            file_name=origin.stem("map"),
            saved=About(about, (*origin.facts(), found.legend)),
            on_open=lambda part, head: address.put(**{choices.PART: part, choices.HEAD: head}),
            on_close=choices.close_part,
            on_step=lambda number: choices.to_step(axis, number),
            on_source=lambda at: address.set_parameter(choices.SOURCE, None if at is None else labels[at]),
            on_fold=lambda: address.set_parameter(choices.LAYERS, None if whole else choices.WHOLE),
        )
        if opened:
            side = "left" if len(found.towers) == 2 and found.is_last(opened.name) else "right"
            with st.container(key=f"map-panel-{side}", border=True):
                part_panel(name, checkpoint, shown, text, found, opened, step, source)
    if mask_of(checkpoint):
        writing.words_for_gaps(name, checkpoint, text, choices.take, lambda at: choices.to_step(axis, at))
    if not opened:
        with st.container():
            part(lambda: predicted(step), writing.TEMPERATURE)
    table_panel(found, step, source)
    for note in checkpoint.assumptions:
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
