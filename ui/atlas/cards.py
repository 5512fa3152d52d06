"""Heads as cards, first those that matter most or have a role: what one usually does, where it looks, what it costs."""

from html import escape
from math import isnan

import streamlit as st

from transformer.atlas.roles import line_of
from transformer.atlas.statistics import REACH
from ui.atlas import choices
from ui.atlas.measured import Measured, measured
from ui.atlas.words import top_words
from ui.store.atlases import Atlas, Row
from ui.texts import KEY, language, plain, said, t

SHOWN = 8
"""A card's profile leads from so many positions before the query to as many after it."""

N_FIRST = 6
"""Heads that stand first for what is lost without them, whether or not they have a role."""

TINY = 1e-9
"""A profile that is nothing everywhere is drawn against this."""


def cards_panel(name: str, atlas: Atlas, kind: str) -> None:
    """A card a head of a kind, or of all kinds; a click opens the head's own page."""
    known, own = measured(name), choices.is_own(atlas)
    words = "".join(
        _card(None if own else name, atlas, row, known)
        for row in in_order([row for row in atlas.heads if kind in (choices.ALL, row["group"])], known)
    )
    with st.container(key="cards"):
        st.html(f'<div class="atlas">{words}</div>')
    windows = atlas.heads[0]["letters"] is not None
    note = t("atlas.cards_note_letters" if windows else "atlas.cards_note", shown=SHOWN)
    st.caption(t("atlas.cards_own" if own else "atlas.cards_click"), help=note)
    if known.about is not None:
        st.caption(t("atlas.cards_importance", pairs=known.about.pairs, source=known.about.source))
    if "linked" in atlas.about:
        st.caption(t("atlas.cards_error", sentences=atlas.about["linked"]))


def in_order(rows: list[Row], known: Measured) -> list[Row]:
    """First the heads without which most is lost and those with a role, then the others; each by what is lost.

    Where nobody measured that, the surest heads stand first: those of the least entropy.
    """

    def weight(row: Row) -> float:
        lost = known.of(row)
        return row["normalised_entropy"] if isnan(lost) else -lost

    by_loss = sorted(rows, key=weight)
    first = [row for i, row in enumerate(by_loss) if i < N_FIRST or row["roles"]]
    return [*first, *(row for row in by_loss if row not in first)]


def _card(name: str | None, atlas: Atlas, row: Row, known: Measured) -> str:
    """A card; a link to the head's page of the checkpoint `name`, where it has one.

    `ui/patches/history.js` follows such a link of ours in the session that is open, without loading the app anew.
    """
    more = [_windows(row)] if row["letters"] is not None else [top_words(atlas, row)]
    if not isnan(known.of(row)):
        more.append(plain("atlas.card_importance", nats=known.of(row)))
    inside = (
        f'<b>{escape(choices.head_name(row))}</b><div class="does">{escape(said(line_of(row)))}</div>'
        f"{places(row) if row['letters'] is not None else _profile(row)}"
        + "".join(f'<div class="more">{escape(line)}</div>' for line in more if line)
    )
    if name is None:
        return f'<div class="card">{inside}</div>'
    layer = "" if row["layer"] is None else f"&layer={row['layer']}"
    query = f"model={escape(name)}&screen=head&kind={escape(row['group'])}{layer}&head={row['head']}&{KEY}={language()}"
    return f'<a href="atlas?{query}" data-ours class="card">{inside}</a>'


def _windows(row: Row) -> str:
    """The classes of a classifier's head beside that of its line: letters of the key, width of the window."""
    if row["pattern"] is None:
        return ""
    fields = {"letters": row["pattern"], "at": row["pattern_at"], "width": row["pattern_width"]}
    shares = {"percent": f"{100 * row['pattern_share']:.0f}", "chance": f"{100 * row['pattern_chance']:.0f}"}
    found = plain("atlas.card_letters", **fields, **shares)
    if len(row["widths"]) > 1:
        found += " · " + plain("atlas.card_width", width=row["width"], percent=f"{100 * row['width_share']:.0f}")
    return found


def _profile(row: Row) -> str:
    """The profile of offsets as bars; each is as high as its share of the highest, and says its number.

    Where no row sees a key there is a grey dash and no bar.
    """
    if row["offsets"] is None:
        return ""
    shown = row["offsets"][REACH - SHOWN : REACH + SHOWN + 1]
    names = [f"{i - SHOWN:+d}" for i in range(len(shown))]
    return _bars(shown, names, SHOWN, (f"\N{MINUS SIGN}{SHOWN}", "0", f"+{SHOWN}"))


def places(row: Row) -> str:
    """The mean weight on each letter of a sequence of the trained length."""
    shares = row["places"]
    if shares is None:
        return ""
    names = [str(i + 1) for i in range(len(shares))]
    return _bars(shares, names, -1, ("1", str((len(shares) + 1) // 2), str(len(shares))))


def _bars(values: list[float], names: list[str], here: int, ends: tuple[str, str, str]) -> str:
    highest = max((value for value in values if not isnan(value)), default=0.0)
    bars = "".join(
        '<i class="unseen"></i>'
        if isnan(value)
        else f'<i class="{"here" if i == here else ""}" style="height:{100 * value / max(highest, TINY):.0f}%"'
        f' title="{names[i]}: {value:.3f}"></i>'
        for i, value in enumerate(values)
    )
    return f'<div class="profile">{bars}</div><div class="ends">{"".join(f"<span>{end}</span>" for end in ends)}</div>'
