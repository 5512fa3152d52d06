"""All heads of a kind as cards in their layer grid: profile, largest shares against chance, what each usually does."""

from html import escape
from itertools import groupby
from math import isnan

import streamlit as st

from transformer.atlas.roles import largest_shares, line_of, share_name
from transformer.atlas.statistics import REACH
from ui.atlas import choices
from ui.atlas.measured import Measured, measured, short_line
from ui.store.atlases import Atlas, Row
from ui.texts import KEY, language, plain, said, t

SHOWN = 8
"""A card's profile leads from so many positions before the query to as many after it."""

N_SHARES = 3

TINY = 1e-9
"""A profile that is nothing everywhere is drawn against this."""

_STYLE = """
<style>
.atlas { display: grid; gap: .6rem; grid-template-columns: repeat(auto-fill, minmax(11.25rem, 1fr)); margin: 0 0 1rem; }
.atlas-layer { font-weight: 600; margin: .4rem 0 .3rem; }
.atlas .card { display: block; text-decoration: none; color: inherit; border-radius: .5rem; padding: .55rem .7rem .6rem;
  border: 1px solid color-mix(in srgb, currentColor 22%, transparent); }
.atlas a:hover, .atlas a:focus-visible { border-color: #0b6e7f; outline: 2px solid #0b6e7f; }
.atlas b { display: block; font-variant-numeric: tabular-nums; }
.atlas .does { font-size: .85rem; min-height: 2.6em; }
.atlas .profile { display: flex; align-items: flex-end; gap: 1px; height: 3rem; margin: .35rem 0 .1rem; }
.atlas .profile i { flex: 1; min-width: 0; background: #2f8fa0; }
.atlas .profile i.here { background: #c4672c; }
.atlas .profile i.unseen { height: 2px; background: color-mix(in srgb, currentColor 25%, transparent); }
.atlas .ends { display: flex; justify-content: space-between; font-size: .72rem; opacity: .75; }
.atlas .more { font-size: .78rem; margin: .3rem 0 0; }
.atlas table { width: 100%; font-size: .78rem; border-collapse: collapse; margin: .35rem 0 0; }
.atlas td { padding: 0; border: 0; vertical-align: top; }
.atlas td + td { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; padding-left: .5rem; }
</style>
"""


def cards_panel(name: str, atlas: Atlas, group: str) -> None:
    """A card a head, a row of cards a layer; a click opens the head's own page."""
    rows = atlas.groups[group]
    known, own = measured(name, atlas), choices.is_own(atlas)
    parts = [_STYLE]
    for layer, heads in groupby(rows, key=lambda row: row["layer"]):
        title = plain("atlas.alone") if layer is None else plain("atlas.layer", layer=layer)
        cards = "".join(_card(None if own else name, row, known) for row in heads)
        parts.append(f'<div class="atlas-layer">{escape(title)}</div><div class="atlas">{cards}</div>')
    with st.container(key="cards"):
        st.html("".join(parts))
    st.caption(t("atlas.cards_note", shown=SHOWN))
    st.caption(t("atlas.cards_own" if own else "atlas.cards_click"))
    if known.about is not None:
        st.caption(t("atlas.cards_importance", pairs=known.about["pairs"], source=known.about["source"]))
    if known.sentences is not None and not all(isnan(known.of(row).error_read) for row in rows):
        st.caption(t("atlas.cards_error", sentences=known.sentences))


def _card(name: str | None, row: Row, known: Measured) -> str:
    """A card; a link to the head's page of the checkpoint `name`, where it has one.

    `ui/patches/history.js` follows such a link of ours in the session that is open, without loading the app anew.
    """
    shares = "".join(
        f"<tr><td>{escape(said(share_name(row, share)))}</td><td>{100 * value:.0f} % · {ratio:.1f} &times;</td></tr>"
        for share, value, ratio in largest_shares(row, N_SHARES)
    )
    more = short_line(known, row)
    measures = f'<div class="more">{escape(more)}</div>' if more else ""
    inside = (
        f"<b>{escape(choices.head_name(row))}</b>"
        f'<div class="does">{escape(said(line_of(row)))}</div>{_profile(row)}<table>{shares}</table>{measures}'
    )
    if name is None:
        return f'<div class="card">{inside}</div>'
    query = f"model={escape(name)}&screen=head&site={escape(row['site'])}&head={row['head']}&{KEY}={language()}"
    return f'<a href="atlas?{query}" data-ours class="card">{inside}</a>'


def _profile(row: Row) -> str:
    """The profile of offsets as bars; each is as high as its share of the highest, and says its number.

    Where no row sees a key there is a grey dash and no bar.
    """
    if row["offsets"] is None:
        return ""
    shown = row["offsets"][REACH - SHOWN : REACH + SHOWN + 1]
    highest = max((value for value in shown if not isnan(value)), default=0.0)
    bars = "".join(
        '<i class="unseen"></i>'
        if isnan(value)
        else f'<i class="{"here" if i == SHOWN else ""}" style="height:{100 * value / max(highest, TINY):.0f}%"'
        f' title="{i - SHOWN:+d}: {value:.3f}"></i>'
        for i, value in enumerate(shown)
    )
    ends = f"<span>&minus;{SHOWN}</span><span>{highest:.2f}</span><span>+{SHOWN}</span>"
    return f'<div class="profile">{bars}</div><div class="ends">{ends}</div>'
