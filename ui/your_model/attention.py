"""What a checkpoint attends to: tokens or ids in, what the model makes of them, and the heads of the run."""

from collections.abc import Callable, Hashable
from functools import partial
from itertools import count
from typing import Literal, TypeVar
from weakref import ref

import numpy as np
import streamlit as st
from jaxtyping import Float

from heedmap import Checkpoint, DecodingOptions, Record
from heedmap.attention.record import AttentionMap
from heedmap.attention.zoom import Zoom
from heedmap.errors import CheckpointError
from heedmap.plots.canvas.views import About, AxesTexts
from heedmap.plots.export import csv
from heedmap.plots.labels import readable
from heedmap.runs.any_model import (
    MAX_POSITIONS,
    ModelRun,
    Predictions,
    continues,
    numbers_of,
    predictions_of,
    read,
    sample_text,
)
from heedmap.runs.concurrency import forward_slot, letting_others
from heedmap.runs.continuing import mask_of
from heedmap.runs.translate import Translation
from heedmap.safe.contents import shape_text
from heedmap.sequences.task import SequenceTask
from heedmap.text.tokenizers import IdTokenizer
from ui.components.views import LARGEST_SIDE, all_heads, heatmap_window
from ui.shared import address, controls, files, record_views, writing
from ui.shared.controls import MEAN, MOST_LISTED, kind_name, kinds, layer_and_head
from ui.shared.files import Provenance, save_button, table
from ui.shared.part import in_page, part
from ui.shared.writing import token_strip
from ui.store import runs, store
from ui.store.cache import cached_result
from ui.store.progress import with_progress
from ui.texts import plain, said, t

Shown = TypeVar("Shown")

INPUT = "input"
"""The query parameter of what is read."""

LONGEST_IN_ADDRESS = 8_192
"""Characters of a text that the address holds: more than proxies let pass would make a link that leads nowhere."""

LONGEST_OUTPUT = 40
"""Tokens that a model writes at most here: one that was never trained does not stop by itself."""

MOST_CLASSES = 12
"""Classes of a token that have a column of their own; the likeliest one is always named."""


def attention_panel(name: str, checkpoint: Checkpoint) -> None:
    """Type, run, look.

    Raises:
        InputError, CheckpointError: what was typed cannot be run.
    """
    if checkpoint.tokenizer is None and checkpoint.task is not None:
        _sequence_classifier(checkpoint.task)
        return
    text = _typed(name, checkpoint)
    key: tuple[Hashable, ...] = (store.revision(name), text)
    whole, writes, is_long = None, continues(checkpoint), _is_long(checkpoint, text)
    if is_long:
        if writes:
            st.caption(t("your_model.long_read_alone", most=MAX_POSITIONS))
        shown = runs.long_run_of_any(name, text)
        if shown is None:
            return
    elif writes:
        st.subheader(t("writing.continue_title"), anchor=False)
        options = writing.options_form()
        found = runs.continuation(name, text, options)
        step = writing.step_choice(len(found.written), (name, text, options))
        writing.step_panel(found, step, options)
        shown, whole, key = found.at(step), found.run, (*key, options, len(found.written), step)
    else:
        shown = runs.any_run(name, text, DecodingOptions(beam=1, max_length=LONGEST_OUTPUT), None)
    if is_long or not writes:
        _result(shown, checkpoint)
    if mask_of(checkpoint) and not (is_long or writes):
        st.subheader(t("writing.gaps_title"), anchor=False)
        put = partial(address.set_parameter, INPUT)
        writing.words_to_hide(checkpoint, text, put)
        writing.words_for_gaps(name, checkpoint, text, put)
    record_views.record_notes(shown.record)
    maps_panel(shown, key, whole)
    _known(shown, checkpoint)


def _sequence_classifier(task: SequenceTask) -> None:
    """Say what it is, and lead to the page that reads its sequences: it needs no tokenizer."""
    classes = plain("your_model.or").join(task.classes)
    about = t("your_model.sequence_classifier", alphabet=task.alphabet.name, classes=classes)
    st.info(about, icon=":material/genetics:")
    if st.button(t("your_model.to_sequences"), key="to-sequences", type="primary", icon=":material/arrow_forward:"):
        st.switch_page("pages/sequences.py")


def _typed(name: str, checkpoint: Checkpoint) -> str:
    """What is read."""
    reader = checkpoint.tokenizer
    if reader is None:
        raise CheckpointError("tokenizer_not_brought", name=name)
    by_id = isinstance(reader, IdTokenizer)
    address.belong_to((name, by_id), INPUT)
    label = t("your_model.ids", last=len(reader) - 1) if by_id else t("your_model.text")
    with st.container(key="look-area"):
        text = text_form(label, sample_text(checkpoint), t("your_model.text_hint"))
    address.keep_out(INPUT, len(text) > LONGEST_IN_ADDRESS)
    return text


def text_form(label: str, sample: str, hint: str = "") -> str:
    """What is read, and the button that runs it."""
    with st.form("look", border=False), st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        text = address.line(label, sample, key=INPUT, placeholder=hint)
        st.form_submit_button(t("your_model.run"), type="primary", icon=":material/play_arrow:")
    return text


def _result(shown: ModelRun, checkpoint: Checkpoint) -> None:
    """What was written, or what the model ends with."""
    if shown.translation is not None:
        with st.container(key="result-area"):
            _written(shown.translation, checkpoint.languages[1])
        return
    answers, numbers = predictions_of(checkpoint, shown.outputs), numbers_of(checkpoint, shown.outputs)
    if numbers:
        st.markdown(f"**{t('your_model.numbers')}**")
        table([list(numbers.values())], list(numbers), key="numbers")
    elif answers is not None and answers.is_whole:  # under the names that the checkpoint says, and calibrated
        label = t("your_model.classes_each" if answers.each else "your_model.classes")
        if answers.temperature != 1.0:
            label = t("your_model.classes_calibrated", temperature=answers.temperature)
        st.markdown(f"**{label}**")
        table([answers.odds(0).tolist()], list(answers.names), key="classes")
    elif answers is not None and getattr(checkpoint.model.config, "head", "") == "tokens":
        _token_classes(answers, shown)
    else:
        for output, values in shown.outputs.items():
            st.caption(t("your_model.ends", output=output, shape=shape_text(values.shape)))


def _written(shown: Translation, language: str) -> None:
    """What was written, token by token, and how likely it was."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(t("translate.what_in", what=plain("translate.what_best"), language=language), width="content")
        st.text(said(shown.text), width="content")
        st.caption(
            t("translate.likely", count=len(shown.steps), log_prob=shown.log_prob), width="content",
            help=t("your_model.written_help"),
        )  # fmt: skip
    token_strip(shown.steps)
    if shown.tree is not None and shown.node is not None and shown.tree.nodes[shown.node].status == "cut":
        st.caption(t("your_model.cut", longest=len(shown.steps)))


def _known(shown: ModelRun, checkpoint: Checkpoint) -> None:
    """What has to be known of the maps: what was assumed of a folder, and which tokens nobody typed."""
    for assumption in checkpoint.assumptions:
        if checkpoint.is_of_other_library and assumption not in shown.record.notes:
            st.caption(controls.sentence(assumption))
    reader = checkpoint.tokenizer
    ids = list(shown.ids if shown.translation is None else shown.translation.source_ids)
    typed = [] if reader is None else reader.encode(shown.input)
    starts = [i for i in range(len(ids) - len(typed) + 1) if ids[i : i + len(typed)] == typed]
    if reader is None or not starts or len(ids) == len(typed) or continues(checkpoint):
        return
    before, after = (reader.labels(part) for part in (ids[: starts[0]], ids[starts[0] + len(typed) :]))
    st.caption(t("your_model.added", tokens=" ".join([*before, "\N{HORIZONTAL ELLIPSIS}", *after])))


def _token_classes(found: Predictions, shown: ModelRun) -> None:
    """Of each token the likeliest class, and the probabilities of all."""
    keys = next(iter(shown.record.values())).keys
    rows = range(len(found.scores))
    odds, best = np.stack([found.odds(row) for row in rows]), [found.likeliest(row, 1)[0] for row in rows]
    columns = {
        t("map.token"): [readable(text) for text in keys.texts],
        t("your_model.token_class"): [found.names[i] for i in best],
        t("writing.next_probability"): odds[rows, best],
    }
    named = {f"p({name})": odds[:, i] for i, name in enumerate(found.names[:MOST_CLASSES])}
    st.markdown(f"**{t('your_model.token_classes')}**")
    table(columns | named, key="token-classes")


ROWS, COLUMNS = "rows", "columns"
"""The query parameters of the window: first and last row and column, counted from 1."""

DOWNLOADS = "downloads"
"""The view that the server draws, and that follows the chosen head."""

AT_ONCE, MOST_SMALL = 60_000_000, 2_048
"""Weights and heads of a record that is shown as short texts are, whose maps are computed whole."""

MOST_TOGETHER, MOST_PASSED = 2**32, 2**34
"""Weights that are computed for all heads seen small, and for one that is looked at: a minute, in steps."""


def maps_panel(shown: ModelRun, key: tuple[Hashable, ...], whole: ModelRun | None = None) -> None:
    """Every head of a run, small, and one of them large: at first the surest of the `whole`, whichever step is shown.

    Maps that are long, or too many, are looked at through a window. `key` names the run, as caches do.
    """
    if is_wide(shown.record):
        _window_panel(shown, key)
        return
    first = cached_result("first-head", key, lambda: controls.surest((whole or shown).record))
    _part_of(shown, lambda run: _draw(run, first, key))


def _part_of(shown: Shown, draw: Callable[[Shown], None]) -> None:
    """A part that outlives the run that drew it, and keeps no record or map: once it is gone, the page draws."""
    alive = ref(shown)

    def drawn() -> None:
        found = alive()
        if found is None:
            in_page()
        else:
            draw(found)

    part(drawn)


def _draw(shown: ModelRun, first: tuple[int, int], key: Hashable) -> None:
    origin = Provenance(shown.checkpoint, shown.input, shown.record.interventions)
    with st.container(key="columns"):
        small, detail = st.columns([7, 11], gap="small")
    with small:
        overview = st.container(key="overview")
    with overview:
        chooser, all_heads_at = st.container(), st.container()
        words, special = controls.form_of_maps(has_scores=True)
    browser = record_views.bring(shown.record, key, first, words, special)
    panels: dict[str, Callable[[], None]] = {
        "heatmap": lambda: record_views.heatmap_panel(browser, origin),
        "head_view": lambda: record_views.head_view_panel(browser, origin),
        "measures": lambda: record_views.measures_panel(shown.record, key, origin),
        DOWNLOADS: lambda: files.downloads_panel(shown, browser.choice),
    }
    with detail:
        opened = address.choice(
            t("translate.view"), list(panels), key="map", bare=True, text=lambda one: plain(f"your_model.view_{one}")
        )
        place = st.container()
    with all_heads_at:
        record_views.all_heads_panel(browser, origin)
    with place:
        panels[opened]()
    with chooser:  # after the view, whose switch of scores it follows
        record_views.head_panel(browser, reruns=opened == DOWNLOADS)


def _is_long(checkpoint: Checkpoint, text: str) -> bool:
    """Whether a text is seen here: of a model that reads one text, and only where that text has many tokens.

    Raises:
        InputError: nothing to read, or what has no id.
        CheckpointError: the checkpoint has no tokenizer.
    """
    if checkpoint.translates or len(text) <= MAX_POSITIONS:  # a token has at least one character
        return False
    return len(read(checkpoint, text, None)[0]) > MAX_POSITIONS


def is_wide(record: Record) -> bool:
    """Whether a record's maps are seen here: they are long, or too many to be computed at one time."""
    maps, heads = list(record.values()), [one.n_heads for one in record.values()]
    return (
        max(max(one.shape) for one in maps) > MAX_POSITIONS
        or max(len(maps), *heads) > MOST_LISTED
        or sum(heads) > MOST_SMALL
        or sum(map(_cost, maps)) > AT_ONCE
        or max(one.n_heads * one.shape[0] * one.shape[1] for one in maps) > record_views.most_sent() // 2
    )


def _window_panel(shown: ModelRun, key: tuple[Hashable, ...]) -> None:
    """All heads of a kind small, in blocks, and one of them through a window; `key` names the run, as caches do."""
    record = shown.record
    available = kinds(record)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        kind = next(iter(available))
        if len(available) > MOST_LISTED:
            asked = address.line(t("translate.attention"), kind, key="kind", width=360)
            if asked not in available:
                st.info(t("your_model.no_such_group", name=asked, shown=kind))
            kind = asked if asked in available else kind
        elif len(available) > 1:
            kind = address.choice(t("translate.attention"), list(available), key="kind", form="list", text=kind_name)
        sites = available[kind]
        called, head = layer_and_head(record, {str(i): site for i, site in enumerate(sites)}, ("0", "0"))
    layer = int(called)
    maps, attention = [record[site] for site in sites], record[sites[layer]]
    overview, detail = st.columns([1, 2], gap="medium")
    is_seen, above = _are_seen(maps), 0
    if not is_seen:
        heads, maps, above = sum(one.n_heads for one in maps), [attention], layer
        overview.info(t("your_model.many_heads", heads=heads, positions=max(attention.shape)))
    if is_seen or _are_seen(maps):
        what = (*key, kind, above)
        small = with_progress("long_thumbnails", what, plain("your_model.thumbnails"), partial(_small, maps))
        if small is None:
            return
        with overview:
            all_heads(
                small, None, None if head == MEAN else (layer - above, head), key="all-heads", first=above,
                on_pick=lambda *one: address.put(layer=above + one[0], head=one[1]),
            )  # fmt: skip
    with detail:
        if (_cost(attention) if head == MEAN else attention.source.head_cost) > MOST_PASSED:
            st.info(t("your_model.long_head", positions=max(attention.shape)), icon=":material/info:")
            return
        zoom = _zoomed(key, attention, head)
        if zoom is None:
            return
        stem = Provenance(shown.checkpoint, shown.input).stem(str(attention.site), f"head-{head}")
        facts = [plain("your_model.long_tokens", count=len(attention.queries)), shown.checkpoint]
        about = About(f"{attention.site}, {head}", facts)
        _part_of(zoom, lambda zoom: _draw_window(zoom, key, stem, about))
        files.record_button(shown)


def _zoomed(key: tuple[Hashable, ...], attention: AttentionMap, head: int | Literal["mean"]) -> Zoom | None:
    """A head that can be looked at near and far; passed over once, with a bar and a button that stops it, then None."""
    if attention.n_heads == 1:
        head = 0  # which is their mean
    label = plain("zooming.passing", site=attention.site, head=said(attention.head_name(head)))

    def compute(progress: Callable[[float], None]) -> Zoom:
        with forward_slot():
            return Zoom.of(attention, head, letting_others(progress))

    return with_progress("zoom", (*key, str(attention.site), head), label, compute)


def _draw_window(zoom: Zoom, owner: Hashable, stem: str, about: About) -> None:
    """A head through its window, and again whenever that moves; of another `owner` the whole at first."""
    address.belong_to(owner, ROWS, COLUMNS)
    relative = address.switch(t("zooming.relative"), False, key="relative-zoom", help=t("zooming.relative_help"))
    attention = zoom.attention
    rows, keys = (
        _span(address.parameter(key), length) for key, length in zip((ROWS, COLUMNS), attention.shape, strict=True)
    )
    heatmap_window(
        zoom, rows, keys,
        axes=AxesTexts(said(attention.queries.name), said(attention.keys.name), t("zooming.exact"), about.lines),
        title=about.title, key="tokens-tiles", relative=relative, file_name=stem,
        on_window=lambda *found: _look(found, attention.shape),
    )  # fmt: skip
    save_button(
        t("zooming.download"), lambda: csv(zoom.picture(zoom.view(rows, keys))), f"{stem}.csv",
        help=t("zooming.download_help"), key="tokens-tiles-csv",
    )  # fmt: skip


def _look(window: tuple[slice, ...], shape: tuple[int, int]) -> None:
    """Look through another window from the next run on."""
    for key, span, length in zip((ROWS, COLUMNS), window, shape, strict=True):
        is_all = (span.start, span.stop) == (0, length)
        address.set_parameter(key, None if is_all else f"{span.start + 1}-{span.stop}")


def _span(text: str | None, length: int) -> slice:
    """Rows or columns that the address holds; all where it holds none that lie within."""
    first, last = address.whole_numbers(text, 2) or (1, length)
    return slice(first - 1, last) if 1 <= first <= last <= length else slice(0, length)


def _cost(attention: AttentionMap) -> int:
    return attention.n_heads * attention.source.head_cost


def _are_seen(maps: list[AttentionMap]) -> bool:
    """Whether all heads of some layers are shown at one time."""
    return sum(one.n_heads for one in maps) <= MOST_SMALL and sum(map(_cost, maps)) <= MOST_TOGETHER


def _small(maps: list[AttentionMap], progress: Callable[[float], None]) -> Float[np.ndarray, "layer head row column"]:
    """Every head in blocks, others first between two of them."""
    report, heads, done = letting_others(progress), sum(one.n_heads for one in maps), count()

    def overview(one: AttentionMap, head: int) -> Float[np.ndarray, "row column"]:
        report(next(done) / heads)
        return one.overview(head, LARGEST_SIDE)

    with forward_slot():
        return np.array([[overview(one, head) for head in range(one.n_heads)] for one in maps])
