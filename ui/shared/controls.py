"""Controls that pages share. Every one writes itself to the address, so that a link shows the same picture."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from heedmap import Checkpoint, DecodingOptions, Record, Translation
from heedmap.attention.measures import kinds_of, looked_through, strongest_head
from heedmap.errors import HeedmapError
from heedmap.messages import Message, catalogue
from heedmap.runs.sequences.classify import LETTERS_AT_ONCE
from heedmap.runs.translate import MAX_CHARACTERS
from heedmap.sites import Site
from ui.shared import subject
from ui.shared.address import belong_to, choice, fixed, line, lines, parameter, put, stop, switch, tenths, whole
from ui.shared.subject import MODEL, RECORD, SEQUENCE, TEXT, WORD
from ui.store import log, runs, session_resources, store
from ui.texts import KEY, as_text, language, plain, said, t

KINDS = ("decoder.cross", "decoder.self", "encoder.self")
"""The kinds of attention of our own models, as groups of sites."""

DECODING: Final = ("force", "beam", "penalty", "longest")
"""The query parameters of how a translation is searched."""

MOST_BUTTONS, MOST_LISTED = 24, 256
"""So many layers, heads or kinds have a button each; more are a list, and more than that a field to write one into."""

NODE: Final = "node"
"""The query parameter of the hypothesis."""

MEAN: Final = "mean"
"""The head average, where a head is chosen."""

LONGEST_IN_ADDRESS = 2 * MAX_CHARACTERS
"""Longest text that an address holds: more than any that is read, and less than browsers refuse."""

MAX_ADDRESS = 2 * LETTERS_AT_ONCE
"""Longest sequence that the address holds: more than proxies let pass would make a link that leads nowhere."""

TOO_LONG = frozenset(("letters_many", "too_many_positions", "too_many_characters"))
"""Codes of the errors that refuse a text for its length."""

SAME: Final = (
    MODEL, TEXT, WORD, *DECODING, "kind", "layer", "head", "words", "special", SEQUENCE, RECORD, KEY,
)  # fmt: skip
"""What What if calls by the name that other pages have for it: it goes along as it stands in the address."""

_FIRST_WORD = re.compile(r"[a-z]+(?=[\s,:;]|$)")
_FULL_STOPS, _QUOTES = (".", "!", "?", "…", "\u3002", "\uff01", "\uff1f"), "\"'\u201d\u2019)"


class Request(NamedTuple):
    """What a person asked for: a sentence, how to search, and perhaps a target to force."""

    text: str
    options: DecodingOptions
    forced: str | None


@dataclass(frozen=True)
class Selection:
    """Which map is looked at, and in which form."""

    kind: str
    layer: int
    site: str
    head: int | Literal["mean"]
    words: bool
    special: bool


def checkpoint_choice(*architectures: str) -> str:
    """Choose a checkpoint of one of the architectures; the page ends, with an explanation, when there is none."""
    names = store.checkpoint_names(*architectures)
    for problem in store.problems():
        explain(problem)
    warn_of_unknown()
    if not names:
        kinds = plain("translate.or").join(architectures)
        st.error(t("translate.no_checkpoint", kinds=kinds, folder=store.CHECKPOINTS.name))
        stop()
    named, usual = parameter(MODEL) or "", subject.usual(names)
    if named and named not in names and store.is_known(named):  # another one is shown, and it is said why
        if store.architecture(store.base(named)) is not None:
            st.warning(t("translate.not_on_this_page", name=named), icon=":material/info:")
        else:
            try:
                store.checkpoint(named)
            except HeedmapError as error:
                explain(error)
    with st.sidebar:
        name = choice(
            t("translate.checkpoint"), names, key=MODEL, form="list", width="stretch", text=str, default=usual,
            said=store.is_upload(usual),
        )  # fmt: skip
    subject.show(name)
    warn_of_guesses(name)
    return name


def warn_of_guesses(name: str) -> None:
    """Say in amber what a checkpoint's maps rest on that its file does not say; a page that runs it says the rest."""
    with suppress(HeedmapError):  # what cannot be loaded says so where it is run
        for reason in store.checkpoint(name).left_out:
            st.warning(sentence(reason), icon=":material/info:")
        guesses = as_text(" ".join(map(plain_sentence, store.guesses(name))))
        if guesses:
            st.warning(f"{guesses} {t('store.guessed')}", icon=":material/warning:")


def warn_of_unknown() -> None:
    """Say so where the address names a checkpoint that is not here; stands before the list of checkpoints."""
    named = parameter(MODEL) or ""
    if not store.is_known(named):
        text = t("translate.no_such_upload" if store.is_upload(named) else "translate.no_such_checkpoint")
        st.warning(text, icon=":material/info:")


def request(checkpoint: Checkpoint, longest_input: int, first: str | None = None) -> Request:
    """The input form: a sentence of at most `longest_input` tokens, examples, decoding options, a target to force.

    It opens with the sentence `first`, or the first example.
    """
    examples = checkpoint.examples
    row = partial(st.container, horizontal=True, vertical_alignment="bottom", gap="small")
    with row(key="asked"):
        with st.form("request", border=False, width="stretch"), row():
            text = lines(
                t("translate.sentence", tokens=longest_input, characters=MAX_CHARACTERS),
                next(iter(examples), "") if first is None else first,
                key=TEXT, height="content", longest=LONGEST_IN_ADDRESS, bare=True,
            )  # fmt: skip
            st.form_submit_button(t("translate.run"), type="primary", icon=":material/play_arrow:")
            with st.popover(t("translate.decoding"), icon=":material/tune:"):
                beam = whole(t("translate.beam"), 1, 8, 5, key="beam", help=t("translate.beam_help"))
                penalty = tenths(t("translate.penalty"), 0.0, 2.0, 1.0, key="penalty", help=t("translate.penalty_help"))
                longest = whole(t("translate.longest"), 5, 200, 100, key="longest", step=5)
                hint, why = t("translate.force_hint"), t("translate.force_help")
                forced = line(t("translate.force"), "", key="force", placeholder=hint, help=why)
        examples_menu(checkpoint, lambda example: put(text=example, force=None))
    subject.show(checkpoint.name, text)
    options = DecodingOptions(beam=beam, length_penalty=penalty, max_length=longest)
    belong_to((parameter(MODEL), text, options), NODE)  # its number says something in one tree only
    return Request(text, options, forced if forced.strip() else None)


def examples_menu(checkpoint: Checkpoint, take: Callable[[str], None]) -> None:
    """A checkpoint's examples by what there is to see in them, in a list that closes on a choice."""

    def named(example: str) -> str:
        name = checkpoint.example_names.get(example, {}).get(language(), "")
        return as_text(f"{name}: {example}" if name else example)

    if checkpoint.examples and not fixed(TEXT):
        st.menu_button(
            t("translate.examples"), checkpoint.examples, key="examples", format_func=named,
            on_click=lambda: take(st.session_state["examples"]),
        )  # fmt: skip


def selection(record: Record, default: tuple[int, int], *, kind_at: DeltaGenerator | None = None) -> Selection:
    """Kind of attention, layer and head (at first the `default` ones), and in which form maps are shown.

    `default` follows from the input alone, so that a fresh visit starts with the same head. The kind may
    stand at a place of its own.
    """
    available = kinds(record)
    row = st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="selection")
    with kind_at or row:
        kind = choice(
            t("translate.attention"),
            list(available),
            key="kind",
            form=form(available, few=len(KINDS)),
            bare=kind_at is not None,
            help=t("translate.attention_help") if kind_at is None else None,
            text=kind_name,
        )
    with row:
        sites = {str(layer): site for layer, site in enumerate(available[kind])}
        usual = str(min(default[0], len(sites) - 1)), str(default[1])
        layer, head = layer_and_head(record, sites, usual, helped=True)
        words, special = form_of_maps()
    return Selection(kind, int(layer), sites[layer], head, words, special)


def layer_and_head(
    record: Record, sites: Mapping[str, Site], default: tuple[str, str], *, helped: bool = False, last: str = ""
) -> tuple[str, int | Literal["mean"]]:
    """Choose one of `sites` by what the address calls its layer, and one of its heads or their mean.

    `last` is what the last layer is called where that is not its number; `helped` puts a question mark to both.
    """
    layer = _number(
        t("translate.layer"), list(sites), default=default[0], key="layer",
        text=lambda one: one if one.isdecimal() else last, help=t("translate.layer_help") if helped else None,
    )  # fmt: skip
    count = record[sites[layer]].n_heads
    usual = default[1] if default[1] == MEAN else str(min(int(default[1]), count - 1))
    heads = [*map(str, range(count)), MEAN]
    head = _number(
        t("translate.head"), heads, default=usual, key="head",
        text=lambda one: plain("translate.mean") if one == MEAN else one,
        help=t("translate.head_help") if helped else None,
    )  # fmt: skip
    return layer, MEAN if head == MEAN else int(head)


def _number(
    label: str, options: Sequence[str], *, key: str, default: str, text: Callable[[str], str], **told: Any
) -> str:
    """One of some numbers, or what else there is to choose; of very many a number that is written into a field."""
    if len(options) <= MOST_LISTED:
        return choice(label, options, default=default, key=key, form=form(options), text=text, **told)
    last = sum(map(str.isdecimal, options)) - 1
    return str(whole(label, 0, last, int(default) if default.isdecimal() else 0, key=key, width=180, **told))


def surest(record: Record) -> tuple[int, int]:
    """Layer and head of the first kind whose rows put the largest weight on one key."""
    return strongest_head(record, next(iter(kinds(record))))


def surest_note(record: Record, is_wide: bool) -> str:
    """How it was found, in a sentence: among all heads, or among some where these are too many."""
    maps = [record[site] for site in next(iter(kinds(record).values()))]
    step = 0 if is_wide else looked_through(maps)
    if step < 2:
        return t("your_model.first_head" if step else "your_model.first_of_long")
    return t("your_model.first_head_of_some", looked=-(-sum(one.n_heads for one in maps) // step), step=step)


def kinds(record: Record) -> dict[str, tuple[Site, ...]]:
    """What there is to choose among of a record, with its layers: the kinds of our own models first."""
    found = kinds_of(record)
    return {kind: found[kind] for kind in sorted(found, key=lambda kind: [*KINDS, kind].index(kind))}


def kind_name(kind: str) -> str:
    """What a kind of attention is called: that of any other module by the path of the module."""
    return plain(f"translate.kind_{kind}") if kind in KINDS else kind


def kind_title(kind: str) -> str:
    """The same where it is not clear that attention is meant."""
    return plain("translate.kind_of", kind=kind_name(kind)) if kind in KINDS else kind


def form(options: Collection[str], few: int = MOST_BUTTONS) -> Literal["segments", "list"]:
    """How options are shown: a button each while they are few."""
    return "segments" if len(options) <= few else "list"


def form_of_maps(*, has_scores: bool = False) -> tuple[bool, bool]:
    """Whether maps show whole words, and whether they show special tokens; one button opens the switches."""
    with st.popover(t("translate.display"), icon=":material/tune:", help=t("translate.all_heads_help")):
        words = switch(t("translate.words"), True, key="words", help=t("translate.words_help"))
        special = switch(t("translate.special"), True, key="special", help=t("translate.special_help"))
        if has_scores:
            switch(t("translate.scores"), False, key="scores", help=t("translate.scores_help"))
    return words, special


def hypothesis(best: Translation, options: DecodingOptions) -> int | None:
    """Which hypothesis of the beam is looked at; None, with no choice to make, for a forced target."""
    tree = best.tree
    if tree is None:
        return None
    texts = runs.hypothesis_texts(best.checkpoint, best.input, options)
    complete, dropped = tree.hypotheses(), tree.left_behind()
    places = {node.id: place for place, node in enumerate(complete, 1)}
    ids = dict.fromkeys(node.id for node in (*complete, *dropped, *tree.nodes[1:]))  # beginnings come last

    def name(node: str) -> str:
        found, text = tree.nodes[int(node)], texts[int(node)]
        if found.id in places:
            return plain("translate.hypothesis_complete", place=places[found.id], text=text, score=found.score)
        status = plain(f"translate.status_{found.status}")
        return plain("translate.hypothesis_left", status=status, step=found.step, text=text)

    cut = sum(node.status == "cut" for node in complete)  # those that the limit cut have no end
    code = "translate.hypothesis_with_cut" if cut else "translate.hypothesis"
    counts = {"complete": len(complete) - cut, "cut": cut, "longest": options.max_length, "others": len(dropped)}
    return int(
        choice(
            t(code, **counts), [*map(str, ids)], key=NODE, form="list", width="stretch", text=name,
            help=t("translate.hypothesis_help"),
        )
    )  # fmt: skip


def explain(error: HeedmapError) -> None:
    """Say what went wrong and what to change; nothing that was typed is lost. The log hears of it once a session."""
    reported = session_resources.mine().refused
    if error.message not in reported:
        reported.add(error.message)
        log.refused(error)
    st.warning(sentence(error.message), icon=":material/info:")


def sentence(message: str) -> str:
    """Markdown that shows an error, a refusal or a note as a sentence of the user's language (`plain_sentence`)."""
    return as_text(plain_sentence(message))


def plain_sentence(message: str) -> str:
    """An error, a refusal or a note as a sentence of the user's language, in plain text.

    It gets a full stop, unless it has one, and a capital where it begins with a word of the catalogue: a file's name,
    an option or a tensor stays as it is written.
    """
    text = said(message).strip()
    if isinstance(message, Message) and _FIRST_WORD.match(catalogue("en")[message.code]):
        text = f"{text[:1].upper()}{text[1:]}"
    stop = plain("lessons.full_stop")
    return text if text.rstrip(_QUOTES).endswith((*_FULL_STOPS, stop)) else f"{text}{stop}"


def what_if_query(**known: str) -> dict[str, str]:
    """What leads to What if with what is shown here; `known` is what the address does not say."""
    return {**known, **{key: value for key in SAME if (value := parameter(key)) is not None}}


def explain_long(error: HeedmapError, name: str, text: str) -> None:
    """Lead to the page that shows what a checkpoint makes of a long text, below the error that refused it here.

    Any other error leads nowhere, and so does a text to be translated, since no page shows a long one.
    """
    kind = store.architecture(name)
    if error.code not in TOO_LONG or kind in store.TRANSLATORS:
        return
    is_sequence = kind == store.CLASSIFIERS
    key = SEQUENCE if is_sequence else "input"
    view = {"view": "windows", "read": "one"} if is_sequence else {"show": "attention"}
    fits = len(text) <= MAX_ADDRESS
    st.page_link(
        "pages/sequences.py" if is_sequence else "pages/your_model.py",
        label=t(f"zooming.{'sequence' if is_sequence else 'text'}_{'elsewhere' if fits else 'pasted'}"),
        icon=":material/arrow_forward:",
        query_params={MODEL: name, **view, **({key: text} if fits else {}), KEY: language()},
    )
