"""Controls that pages share. Every one writes itself to the address, so that a link shows the same picture."""

import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer import Checkpoint, DecodingOptions, Record, Translation
from transformer.attention.measures import kinds_of
from transformer.errors import HeedmapError
from transformer.runs.translate import MAX_CHARACTERS
from transformer.sites import Site
from transformer.text.beams import BeamTree
from ui.markdown import as_text
from ui.shared import subject
from ui.shared.address import belong_to, choice, line, lines, parameter, put, renamed, switch, tenths, whole
from ui.shared.subject import MODEL, TEXT
from ui.store import log, runs, session_resources, shipped, store
from ui.texts import begins_with_a_word, in_language, language, plain, said, t

KINDS = {
    "decoder.cross": "Cross",
    "decoder.self": "Decoder self",
    "encoder.self": "Encoder self",
}
"""What attention of our own models is called, by the group of its sites; older addresses hold the words."""

DECODING: Final = ("force", "beam", "penalty", "longest")
"""The query parameters of how a translation is searched."""

MOST_BUTTONS = 24
"""So many layers, heads or kinds have a button each; more are a list."""

NODE: Final = "node"
"""The query parameter of the hypothesis."""

MEAN: Final = "mean"
"""The head average, where a head is chosen."""

LONGEST_IN_ADDRESS = 2 * MAX_CHARACTERS
"""Longest text that an address holds: more than any that is read, and less than browsers refuse."""

_ENDED = re.compile("[.!?…\u3002\uff01\uff1f][\"'\u201d\u2019)]*$")


@dataclass(frozen=True)
class Request:
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


def checkpoint_choice(*architectures: str) -> str | None:
    """Choose a checkpoint of one of the architectures; None, with an explanation, when there is none."""
    renamed(**{subject.OLD_MODEL: MODEL})
    names = store.checkpoint_names(*architectures)
    for problem in store.problems():
        explain(problem)
    warn_of_unknown()
    if not names:
        kinds = plain("translate.or").join(architectures)
        st.error(t("translate.no_checkpoint", kinds=kinds, folder=shipped.CHECKPOINTS.name))
        return None
    _warn_of_unlisted(names)
    with st.sidebar:
        name = choice(
            t("translate.checkpoint"), names, key=MODEL, form="list", width="stretch", text=str,
            default=subject.usual(names), said=store.is_upload(subject.usual(names)),
        )  # fmt: skip
    subject.show(name)
    warn_of_guesses(name)
    return name


def warn_of_guesses(name: str) -> None:
    """Say in amber what a checkpoint's maps rest on that its file does not say; a page that runs it says the rest."""
    with suppress(HeedmapError):  # what cannot be loaded says so where it is run
        guesses = as_text(" ".join(map(plain_sentence, store.guesses(name))))
        if guesses:
            st.warning(f"{guesses} {t('store.guessed')}", icon=":material/warning:")


def warn_of_unknown() -> None:
    """Say so where the address names a checkpoint that is not here; stands before the list of checkpoints."""
    named = parameter(MODEL) or ""
    if not store.is_known(named):
        text = t("translate.no_such_upload" if store.is_upload(named) else "translate.no_such_checkpoint")
        st.warning(text, icon=":material/info:")


def _warn_of_unlisted(names: Sequence[str]) -> None:
    """Say why the checkpoint that the address names is not in a page's list though it is here: another one is shown."""
    named = parameter(MODEL) or ""
    if not named or named in names or not store.is_known(named):
        return
    if store.architecture(store.base(named)) is not None:
        st.warning(t("translate.not_on_this_page", name=named), icon=":material/info:")
        return
    try:
        store.checkpoint(named)
    except HeedmapError as error:
        explain(error)


def request(checkpoint: Checkpoint, longest_input: int, first: str | None = None) -> Request:
    """The input form: a sentence of at most `longest_input` tokens, examples, decoding options, a target to force.

    It opens with the sentence `first`, or the first example.
    """
    examples = checkpoint.examples
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="asked"):
        with (
            st.form("request", border=False, width="stretch"),
            st.container(horizontal=True, vertical_alignment="bottom", gap="small"),
        ):
            text = lines(
                t("translate.sentence", tokens=longest_input, characters=MAX_CHARACTERS),
                next(iter(examples), "") if first is None else first,
                key=TEXT,
                height="content",
                longest=LONGEST_IN_ADDRESS,
                bare=True,
            )
            st.form_submit_button(t("translate.run"), type="primary", icon=":material/play_arrow:")
            with st.popover(t("translate.decoding"), icon=":material/tune:"):
                beam = whole(t("translate.beam"), 1, 8, 5, key="beam", help=t("translate.beam_help"))
                penalty = tenths(t("translate.penalty"), 0.0, 2.0, 1.0, key="penalty", help=t("translate.penalty_help"))
                longest = whole(t("translate.longest"), 5, 200, 100, key="longest", step=5)
                forced = line(
                    t("translate.force"),
                    "",
                    key="force",
                    placeholder=t("translate.force_hint"),
                    help=t("translate.force_help"),
                )
        examples_menu(checkpoint, _take_example)
    subject.show(checkpoint.name, text)
    options = DecodingOptions(beam=beam, length_penalty=penalty, max_length=longest)
    belong_to((parameter(MODEL), text, options), NODE)  # its number says something in one tree only
    return Request(text, options, forced if forced.strip() else None)


def examples_menu(checkpoint: Checkpoint, take: Callable[[str], None]) -> None:
    """A checkpoint's examples by what there is to see in them, in a list that closes on a choice."""

    def named(example: str) -> str:
        name = checkpoint.example_names.get(example, {}).get(language(), "")
        return as_text(f"{name}: {example}" if name else example)

    if checkpoint.examples:
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
            old={name: kind for kind, name in KINDS.items()},
        )
    with row:
        layers = [str(layer) for layer in range(len(available[kind]))]
        usual = layers[min(default[0], len(layers) - 1)]
        layer = int(
            choice(
                t("translate.layer"), layers, default=usual, key="layer", form=form(layers), text=str,
                help=t("translate.layer_help"),
            )
        )  # fmt: skip
        site = available[kind][layer]
        attention = record[site]
        heads = [*(str(head) for head in range(attention.n_heads)), MEAN]
        head = choice(
            t("translate.head"),
            heads,
            default=heads[min(default[1], attention.n_heads - 1)],
            key="head",
            form=form(heads),
            help=t("translate.head_help"),
            text=lambda head: plain("translate.mean") if head == MEAN else head,
        )
        words, special = form_of_maps()
    return Selection(kind, layer, site, MEAN if head == MEAN else int(head), words, special)


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
    complete = [node.id for node in tree.hypotheses()]
    dropped = [node.id for node in tree.left_behind()]
    beginnings = [node.id for node in tree.nodes[1:] if node.id not in {*complete, *dropped}]

    def name(node: int, code: str) -> str:
        found, text = tree.nodes[node], texts[node]
        if node in complete:
            place = complete.index(node) + 1
            return in_language(code, "translate.hypothesis_complete", place=place, text=text, score=found.score)
        status = in_language(code, f"translate.status_{found.status}")
        return in_language(code, "translate.hypothesis_left", status=status, step=found.step, text=text)

    every = [*complete, *dropped, *beginnings]
    is_old = not (parameter(NODE) or "0").isdecimal()  # only then are all names said in English too
    chosen = choice(
        _counted(tree, options),
        [str(node) for node in every],
        key=NODE,
        form="list",
        width="stretch",
        text=lambda node: name(int(node), language()),
        old={name(node, "en"): str(node) for node in every} if is_old else None,
        help=t("translate.hypothesis_help"),
    )
    return int(chosen)


def _counted(tree: BeamTree, options: DecodingOptions) -> str:
    """The label of the hypotheses: those that the limit cut have no end, so they are not counted as complete."""
    complete, others = tree.hypotheses(), len(tree.left_behind())
    cut = sum(node.status == "cut" for node in complete)
    if not cut:
        return t("translate.hypothesis", complete=len(complete), others=others)
    return t(
        "translate.hypothesis_with_cut",
        complete=len(complete) - cut,
        cut=cut,
        longest=options.max_length,
        others=others,
    )


def explain(error: HeedmapError) -> None:
    """Say what went wrong and what to change; nothing that was typed is lost. The log hears of it once a session."""
    told = session_resources.mine().refused
    if error.message not in told:
        told.add(error.message)
        log.refused(error)
    st.warning(sentence(error.message), icon=":material/info:")


def sentence(message: str) -> str:
    """Markdown that shows an error, a refusal or a note as a sentence of the user's language (`plain_sentence`)."""
    return as_text(plain_sentence(message))


def plain_sentence(message: str) -> str:
    """An error, a refusal or a note as a sentence of the user's language, in plain text.

    It gets a full stop, unless it has one, and a capital where it begins with a word of ours: a file's name, an option
    or a tensor stays as it is written.
    """
    text = said(message).strip()
    if begins_with_a_word(message):
        text = f"{text[:1].upper()}{text[1:]}"
    return text if _ENDED.search(text) else f"{text}{plain('lessons.full_stop')}"


def _take_example(example: str) -> None:
    put(text=example, force=None)
