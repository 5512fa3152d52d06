"""The choices of the Head atlas, and all heads at once as cards and as a table."""

from dataclasses import dataclass
from math import isnan, nan
from typing import Any

import pandas as pd
import streamlit as st

from heedmap.atlas.roles import ABOVE_CHANCE, ROLES, line_of
from heedmap.atlas.statistics import MEASURES, REACH
from heedmap.messages import Message
from heedmap.runs.measures.importance import WHOLE, CorpusInfo
from ui.shared import address, controls
from ui.shared.address import choice, named, parameter
from ui.shared.files import save_button, table
from ui.shared.heads import importance
from ui.store import atlases
from ui.store.atlases import Atlas, Row
from ui.texts import KEY, as_html, language, plain, said, t

SCREEN, LAYER, HEAD, GROUP = "screen", "layer", "head", "kind"
"""The query parameters of the screen, and of a head's kind of attention, layer and number."""

ALL = "all"
"""Every kind of attention."""


def entry() -> str:
    """Which atlas is looked at, of a checkpoint or this session; the page ends, with a reason, where there is none."""
    names = [*atlases.names(), *atlases.own()]
    asked, name = parameter("model") or "", ""
    if names:
        with st.sidebar:
            name = choice(t("atlas.checkpoint"), names, key="model", form="list", width="stretch", text=label)
        if asked.startswith(atlases.OWN) and asked not in names:
            st.info(t("atlas.own_gone"))
        elif asked and asked not in names:
            st.info(t("atlas.not_of", name=asked))
    if not names or atlas_of(name) is None:
        st.error(t("atlas.none"))
        address.stop()
    return name


def atlas_of(name: str) -> tuple[str, Atlas] | None:
    """The checkpoint and the atlas of an entry of the list; None where it is no longer here."""
    found = atlases.own().get(name) or atlases.atlas(name)
    return None if found is None else (found.checkpoint or name, found)


def is_own(atlas: Atlas) -> bool:
    """Whether this session made it: no link to another page load leads back to it, since no file holds it."""
    return not atlas.written


def label(name: str) -> str:
    """What an entry of the list is called: a checkpoint's name, or the own text and its checkpoint."""
    mine = atlases.own().get(name)
    return name if mine is None else plain("atlas.own_label", checkpoint=mine.checkpoint, what=_read(mine))


def amount(count: int, sequences: bool) -> str:
    """So many lines of a text, or sequences, in words."""
    return plain("atlas.own_sequences" if sequences else "atlas.own_lines", count=count)


def _read(atlas: Atlas) -> str:
    return amount(atlas.about["counts"]["sentences"], atlas.heads[0]["letters"] is not None)


def head(atlas: Atlas) -> Row:
    """The head whose page is open; at first one with a role, the most telling one."""
    first = min(atlas.heads, key=lambda row: min(map(ROLES.index, row["roles"]), default=len(ROLES)))
    form: dict[str, Any] = {"form": "list", "text": str, "width": 110}
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        groups = list(atlas.groups)
        kind = named("atlas.kind", groups, key=GROUP, form="list", width=190, default=first["group"])
        of_kind = atlas.groups[kind]
        usual = first if first in of_kind else of_kind[0]
        usual_layer = layer = str(usual["layer"])
        layers = list(dict.fromkeys(str(row["layer"]) for row in of_kind))
        if len(layers) > 1:
            layer = choice(t("atlas.layer_short"), layers, key=LAYER, default=usual_layer, **form)
        found = {str(row["head"]): row for row in of_kind if str(row["layer"]) == layer}
        default = str(usual["head"]) if layer == usual_layer else None
        return found[choice(t("atlas.head"), list(found), key=HEAD, default=default, **form)]


def head_name(row: Row, *, short: bool = False) -> str:
    """A head with its kind and layer: `Cross · layer 0 · head 2`; without a layer where its attention stands alone.

    A `short` name is that within its kind: `layer 2 · head 0`.
    """
    kind = plain(f"atlas.kind_{row['group']}")
    name = plain(
        f"atlas.head_{'alone' if row['layer'] is None else 'name'}", kind=kind, layer=row["layer"], head=row["head"]
    )
    return name.removeprefix(f"{kind} · ") if short else name


def source(atlas: Atlas) -> None:
    """Which text the numbers of an atlas are of; of the reader's own, which lines were left out."""
    about, counts = atlas.about, atlas.about["counts"]
    if not is_own(atlas):
        files = " + ".join(about[name] for name in ("source", "target") if name in about)
        is_fasta = about["source"].endswith((".fa", ".fasta", ".gz"))
        kind = "sequences" if is_fasta else "pairs" if "target" in about else "lines"
        more = {"digest": about["source_sha256"][:12], "torch": about["versions"]["torch"]}
        source = t(f"atlas.source_{kind}", sentences=counts["sentences"], files=files)
        st.caption(source, help=t("atlas.source_help", **more, skipped=counts["skipped"]))
        return
    skipped = about["skipped_lines"]
    st.caption(t("atlas.own_source", what=_read(atlas), tokens=counts["tokens"]))
    if skipped:
        line, reason = skipped[0]["line"], said(skipped[0]["reason"])
        st.caption(t("atlas.own_skipped", count=len(skipped), line=line, reason=reason))
    for note in about["notes"]:
        st.caption(controls.sentence(Message(f"atlas_note_{note['code']}", **note["fields"])))


SHOWN = 8
"""A card's profile leads from so many positions before the query to as many after it."""

N_FIRST = 6
"""Heads that stand first for what is lost without them, whether or not they have a role."""

TINY = 1e-9
"""A profile that is nothing everywhere is drawn against this."""

N_TOP, N_CONTEXTS = 4, 2
"""Words that a card names, and sentences that are shown of each word on the head's page."""

LEAST = 0.001
"""A word is named from this share of the rows on."""

PARTS = ("start", "end", "padding")
"""Shares that the table leaves to the file; `special` is the first two together."""

COLUMNS = (*(one for one in MEASURES if one not in PARTS), "effective_keys", "peak_offset", "peak_share")
"""The measures that the table shows; the file has all columns."""

IMPORTANCE = "importance"
"""The column of the table for it, which stands in no atlas: not every checkpoint has one."""

_DIGITS = {"peak_offset": 0, "importance": 4}
"""Digits after the point of a column that has another number of them than 3."""


@dataclass(frozen=True, eq=False)
class Measured:
    """By how many nats a token the loss rises without each head (zero in its place); `about` is where that was seen."""

    lost: dict[tuple[str, int], float]
    about: CorpusInfo | None = None

    def of(self, row: Row) -> float:
        """A head of the atlas; NaN for one that nobody measured."""
        return self.lost.get((row["site"], row["head"]), nan)

    def place(self, row: Row) -> int:
        """The place of a head among all by how much is lost without it, from 1."""
        return 1 + sum(other > self.of(row) for other in self.lost.values())


def measured(name: str) -> Measured:
    """What lies beside a checkpoint.

    Raises:
        CheckpointError: a file of it is damaged.
    """
    table = importance(name)
    if table is None:
        return Measured({})
    return Measured({(str(one.site), one.head): one.zero for one in table.heads.get(WHOLE, ())}, table.about)


def cards_panel(name: str, atlas: Atlas, kind: str) -> None:
    """A card a head of a kind, or of all kinds; a click opens the head's own page."""
    known, own = measured(name), is_own(atlas)
    cards = "".join(_card(None if own else name, atlas, row, known) for row in in_order(_of_kind(atlas, kind), known))
    with st.container(key="cards"):
        st.html(f'<div class="atlas">{cards}</div>')
    windows = atlas.heads[0]["letters"] is not None
    note = t("atlas.cards_note_letters" if windows else "atlas.cards_note", shown=SHOWN)
    st.caption(t("atlas.cards_own" if own else "atlas.cards_click"), help=note)
    if known.about is not None:
        st.caption(t("atlas.cards_importance", pairs=known.about.pairs, source=known.about.source))


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


def table_panel(name: str, atlas: Atlas, kind: str) -> None:
    """All measures of the heads of a kind, or of all kinds; columns sort by a click, and leave as a file."""
    rows, beside = _of_kind(atlas, kind), measured(name)
    whole = pd.DataFrame(
        [
            {key: value for key, value in row.items() if not isinstance(value, list)} | {IMPORTANCE: beside.of(row)}
            for row in rows
        ]
    )
    known = [column for column in (*COLUMNS, IMPORTANCE) if column in whole and whole[column].notna().any()]
    formats = {column: f"%.{_DIGITS.get(column, 3)}f" for column in known}
    named_ = {"name": list(map(head_name, rows)), "does": [said(line_of(row)) for row in rows]}
    form: dict[str, Any] = {
        column: st.column_config.NumberColumn(
            plain(f"atlas.measure_{column}"), format=formats[column], help=plain(f"atlas.measure_{column}_help")
        )
        for column in known
    }
    form["name"] = st.column_config.TextColumn(plain("atlas.head"), width="medium")
    form["does"] = st.column_config.TextColumn(plain("atlas.does"), width="large")
    table(pd.DataFrame(named_).join(whole[known]), formats=formats, column_config=form)
    save_button(t("atlas.download"), whole, f"{name}-heads.csv")
    st.caption(t("atlas.table_note"))


def words_panel(atlas: Atlas, row: Row) -> None:
    """The words that a head looks at most, each with its share, how many times chance that is, and its contexts."""
    found = _telling(atlas, row)
    if not found:
        return
    st.markdown(f"**{t('atlas.words')}**", help=t("atlas.words_note"))
    lines = []
    for one in found:
        times = f"{one['share'] / one['chance']:.1f} &times;" if one["chance"] else ""
        contexts = "".join(map(_context, one["contexts"][:N_CONTEXTS]))
        lines.append(
            f"<tr><td><b>{as_html(one['word'])}</b> {100 * one['share']:.1f} % · {times}{contexts}</td></tr>"
        )  # fmt: skip
    st.html(f'<table class="atlas-words">{"".join(lines)}</table>')


def places(row: Row) -> str:
    """The mean weight on each letter of a sequence of the trained length."""
    shares = row["places"]
    if shares is None:
        return ""
    names = [str(i + 1) for i in range(len(shares))]
    return _bars(shares, names, -1, ("1", str((len(shares) + 1) // 2), str(len(shares))))


def _of_kind(atlas: Atlas, kind: str) -> list[Row]:
    return [row for row in atlas.heads if kind in (ALL, row["group"])]


def _card(name: str | None, atlas: Atlas, row: Row, known: Measured) -> str:
    """A card; a link to the head's page of the checkpoint `name`, where it has one.

    `ui/patches/history.js` follows such a link of ours in the session that is open, without loading the app anew.
    """
    is_windows = row["letters"] is not None
    words = [] if is_windows else [one["word"] for one in _telling(atlas, row)[:N_TOP]]
    more = [_windows(row), plain("atlas.card_words", words=" · ".join(words)) if words else ""]
    if not isnan(known.of(row)):
        more.append(plain("atlas.card_importance", nats=known.of(row)))
    inside = (
        f'<b>{as_html(head_name(row))}</b><div class="does">{as_html(said(line_of(row)))}</div>'
        f"{places(row) if is_windows else _profile(row)}"
        + "".join(f'<div class="more">{as_html(line)}</div>' for line in more if line)
    )
    if name is None:
        return f'<div class="card">{inside}</div>'
    layer = "" if row["layer"] is None else f"&layer={row['layer']}"
    query = (
        f"model={as_html(name)}&screen=head&kind={as_html(row['group'])}{layer}&head={row['head']}&{KEY}={language()}"
    )
    return f'<a href="atlas?{query}" data-ours class="card">{inside}</a>'


def _windows(row: Row) -> str:
    """The classes of a classifier's head beside that of its line: letters of the key, width of the window."""
    if row["letters"] is None or row["pattern"] is None:
        return ""
    fields = {"letters": row["pattern"], "at": row["pattern_at"], "width": row["pattern_width"]}
    shares = {"percent": f"{100 * row['pattern_share']:.0f}", "chance": f"{100 * row['pattern_chance']:.0f}"}
    found = plain("atlas.card_letters", **fields, **shares)
    if len(row["widths"]) > 1:
        found += " · " + plain("atlas.card_width", width=row["width"], percent=f"{100 * row['width_share']:.0f}")
    return found


def _telling(atlas: Atlas, row: Row) -> list[Row]:
    """The words that a head looks at clearly more than by chance."""
    return [
        one
        for one in atlas.words
        if (one["site"], one["head"]) == (row["site"], row["head"])
        and one["share"] >= max(LEAST, ABOVE_CHANCE * one["chance"])
    ]


def _context(one: dict[str, object]) -> str:
    before, word, after, query = (as_html(str(one[key])) for key in ("before", "word", "after", "query"))
    return f"<div>{before} <mark>{word}</mark> {after} &larr; <b>{query}</b> {one['weight']:.2f}</div>"


def _profile(row: Row) -> str:
    """The profile of offsets as bars; each is as high as its share of the highest, and says its number.

    Where no row sees a key there is a grey dash and no bar.
    """
    if row["offsets"] is None:
        return ""
    shown = row["offsets"][REACH - SHOWN : REACH + SHOWN + 1]
    names = [f"{i - SHOWN:+d}" for i in range(len(shown))]
    return _bars(shown, names, SHOWN, (f"\N{MINUS SIGN}{SHOWN}", "0", f"+{SHOWN}"))


def _bars(values: list[float], names: list[str], here: int, below: tuple[str, str, str]) -> str:
    highest = max((value for value in values if not isnan(value)), default=0.0)
    bars = "".join(
        '<i class="unseen"></i>'
        if isnan(value)
        else f'<i class="{"here" if i == here else ""}" style="height:{100 * value / max(highest, TINY):.0f}%"'
        f' title="{names[i]}: {value:.3f}"></i>'
        for i, value in enumerate(values)
    )
    return f'<div class="profile">{bars}</div><div class="ends">{"".join(f"<span>{end}</span>" for end in below)}</div>'
