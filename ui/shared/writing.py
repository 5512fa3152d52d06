"""What a model of one text exists for: a decoder writes on, an encoder fills hidden words in. On every page the same.

How a text is written on stands under the same keys of every page's address. The text itself is the page's own: it says
how it is put there.
"""

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from heedmap import Checkpoint, ContinueOptions
from heedmap.plots.axes import WORD_START
from heedmap.plots.labels import readable
from heedmap.runs.any_model import continues
from heedmap.runs.continuing import Continuation, NextToken, filled, hidden, mask_of
from heedmap.text.beams import Step
from ui.shared import address
from ui.shared.files import bars, table
from ui.shared.subject import MODEL
from ui.store import runs
from ui.texts import KEY, as_html, as_text, language, plain, said, t

MOST, USUAL = 40, 20
"""Tokens that are written at most, and at first."""

MORE, STEP, WAY, TEMPERATURE, TOP_K, SEED = "more", "at", "way", "temperature", "top-k", "seed"
"""The query parameters: how many tokens are written, the step that is looked at, and how a token is chosen."""

GREEDY, DRAW = WAYS = ("greedy", "draw")

COLDEST, HOTTEST = 0.1, 3.0
"""The range of the temperature."""

Put = Callable[[str], None]
"""Puts a text in the place of the one that is read, in the next run."""

MOST_WORDS = 60
"""Words of a text that have a button: more of them are hidden by typing."""

RUNNERS_UP = 5
"""How many candidates the hover shows."""


def options_form() -> ContinueOptions:
    """How much is written and how: in the address, like everything else."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="continue-options"):
        count = address.whole(t("writing.continue_count"), 0, MOST, 0, key=MORE, width=220)
        write = partial(address.put, **{MORE: None if count else USUAL, STEP: None})
        if count:
            st.button(t("writing.continue_back"), key="continue-back", on_click=write)
        else:
            icon = ":material/edit_note:"
            st.button(t("writing.continue"), key="continue", type="primary", icon=icon, on_click=write)
        way = address.choice(
            t("writing.continue_way"), WAYS, key=WAY, text=lambda one: plain(f"writing.continue_{one}")
        )
        if way == GREEDY:
            return ContinueOptions(count)
        temperature = address.tenths(t("writing.temperature"), COLDEST, HOTTEST, 1.0, key=TEMPERATURE, width=180)
        top_k = address.whole(t("writing.top_k"), 0, 100, 50, key=TOP_K, width=180, help=t("writing.top_k_help"))
        seed = address.whole(t("writing.seed"), 0, 9999, 0, key=SEED, width=140)
    return ContinueOptions(count, temperature, top_k, seed)


def address_of(options: ContinueOptions) -> dict[str, str]:
    """How a link to another page says what is written there, and how."""
    if not options.n_tokens:
        return {}
    how = {MORE: str(options.n_tokens)}
    if options.temperature:
        how |= {WAY: DRAW, TEMPERATURE: str(options.temperature), TOP_K: str(options.top_k), SEED: str(options.seed)}
    return how


def step_choice(
    last: int, owner: tuple[object, ...], usual: int | None = None, why: str = "writing.continue_help"
) -> int:
    """Which step is looked at, from 0 (the text alone) to `last`, which is the usual one if no other is said.

    `why` is the text that says what a step shows on this page.
    """
    address.belong_to(owner, STEP)
    return address.whole(
        t("writing.continue_step"), 0, last, last if usual is None else usual, key=STEP, help=t(why)
    )  # fmt: skip


def step_panel(found: Continuation, step: int, options: ContinueOptions) -> None:
    """The whole text, and its written tokens with their probabilities, that of the step outlined.

    Below, the likeliest tokens of the step, and which row of the maps they were read from.
    """
    if found.written:
        st.text(said(found.texts[-1]))
        token_strip(found.tokens, step if step < len(found.written) else None)
    st.markdown(f"**{t('writing.next_after', token=readable(found.last(step)))}**")
    next_table(found.steps[step], options)
    st.caption(t("writing.next_note", count=found.prompt + step))
    then(found, step)


def next_table(likeliest: Sequence[NextToken], options: ContinueOptions, key: str = "next") -> None:
    """Tokens that could come next, each with its probability, and with the chance that it is drawn where one is."""
    columns = {
        t("writing.next_token"): [readable(one.text) for one in likeliest],
        t("writing.next_probability"): [one.probability for one in likeliest],
    }
    if options.temperature:
        columns[chance_title(options)] = [one.chance for one in likeliest]
    config = bars(list(columns)[1:])
    table(columns, key=key, column_config=config)


def chance_title(options: ContinueOptions) -> str:
    """What the column of chances is called."""
    drawn = "writing.next_chance" if options.top_k else "writing.next_chance_all"
    return plain(drawn, temperature=options.temperature, top_k=options.top_k)


def then(found: Continuation, step: int) -> None:
    """What was written at a step, or that the model ended the text; after the last step nothing."""
    if step < len(found.written):
        token = found.tokens[step]
        st.caption(t("writing.next_written", token=readable(token.text), rank=token.rank + 1))
    elif found.finished:
        st.caption(t("writing.next_ended"))


def words_for_gaps(
    name: str, checkpoint: Checkpoint, text: str, put: Put, look: Callable[[int], None] | None = None
) -> None:
    """For each hidden word the likeliest ones, of which a click puts one in.

    A page that shows one position at a time says how to `look` at that of a gap.

    Raises:
        InputError: the text cannot be read.
    """
    mask = mask_of(checkpoint)
    gaps = runs.gaps(name, text)
    if not gaps:
        st.caption(t("writing.gaps_none", mask=mask))
        return
    for number, gap in enumerate(gaps):
        with st.container(horizontal=True, gap="xsmall", vertical_alignment="center", key=f"gap-{number}"):
            title = t("writing.gap", number=number + 1)
            if look is None:
                st.markdown(f"**{title}**", width="content")
            else:
                st.button(
                    title, key=f"gap-{number}-look", on_click=look, args=(gap.position,), type="tertiary",
                    icon=":material/visibility:", help=t("writing.gap_look"),
                )  # fmt: skip
            for rank, (one, word) in enumerate(zip(gap.candidates, gap.words, strict=True)):
                st.button(
                    f"{as_text(readable(one.text))} · {one.probability:.3f}", key=f"gap-{number}-{rank}", on_click=put,
                    args=(filled(text, mask, number, word),), disabled=not word,  # what is no text cannot be typed
                )  # fmt: skip
    st.caption(t("writing.gaps_note"))


def words_to_hide(checkpoint: Checkpoint, text: str, put: Put) -> None:
    """A button for each word of a text: a click hides it."""
    mask = mask_of(checkpoint)
    with st.container(horizontal=True, gap="xsmall", key="gap-words"):
        st.caption(t("writing.gaps_hide"), width="content")
        for place, word in enumerate(text.split()[:MOST_WORDS]):
            if mask not in word:
                st.button(as_text(word), key=f"hide-{place}", on_click=put, args=(hidden(text, mask, place),))


def lead_to_map(name: str, checkpoint: Checkpoint) -> None:
    """Of a model that writes on or fills gaps: where it does, for pages that show another side of it."""
    code = "on_map_continue" if continues(checkpoint) else "on_map_gaps" if mask_of(checkpoint) else ""
    if code:
        st.page_link(
            "pages/map.py", label=t(f"writing.{code}"), query_params={MODEL: name, KEY: language()},
            icon=":material/arrow_forward:",
        )  # fmt: skip


def token_strip(steps: Sequence[Step], current: int | None = None) -> None:
    """Draw the tokens of `steps`, the `current` one outlined; their texts enter the page escaped."""

    def likeliest(step: Step) -> str:
        shown = [(rank, one.text, one.probability) for rank, one in enumerate(step.likeliest[:RUNNERS_UP])]
        if step.rank >= RUNNERS_UP:
            shown.append((step.rank, step.text, step.probability))
        return "".join(
            f'<div class="{"chosen" if rank == step.rank else "other"}"><span>{rank + 1}. {_piece(text)}</span>'
            f"<span>{probability:.3f}</span></div>"
            for rank, text, probability in shown
        )

    tokens = "".join(
        f'<span class="token{" current" if place == current else ""}" tabindex="0"'
        + (' aria-current="step">' if place == current else ">")
        + f"<b>{_piece(step.text)}</b><small>{step.probability:.2f}</small>"
        f'<i class="bar" style="width:{100 * step.probability:.0f}%"></i>'
        f'<span class="others" role="tooltip">{as_html(t("translate.likeliest"))}{likeliest(step)}</span></span>'
        for place, step in enumerate(steps)
    )
    st.html(f'<div class="strip" data-testid="written-tokens">{tokens}</div>')


def _piece(text: str) -> str:
    """A piece with the mark of its leading space in the background."""
    if text.startswith(WORD_START) and len(text) > 1:
        return f'<i class="space">{WORD_START}</i>{as_html(text[1:])}'
    return as_html(text)
