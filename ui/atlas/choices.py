"""What the page Head atlas shows: of which checkpoint, in which form, which kind of attention, which head."""

import streamlit as st

from ui.shared import address
from ui.shared.address import choice
from ui.store import atlases
from ui.store.atlases import Atlas, Row
from ui.texts import KEY, language, plain, t

SCREENS = ("cards", "table", "map", "head", "vectors", "compare")
"""The page's screens, in order."""

SCREEN, SITE, HEAD, GROUP = "screen", "site", "head", "kind"
"""The query parameters of the screen, a head's site and number, and the kind of attention."""


def checkpoint() -> tuple[str, Atlas] | None:
    """The checkpoint and its atlas; None, with an explanation, where none has one."""
    names = atlases.names()
    if not names:
        st.error(t("atlas.none"))
        return None
    with st.sidebar:
        name = choice(t("atlas.checkpoint"), names, key="model", form="list", width="stretch", text=str)
    found = atlases.atlas(name)
    if found is None:
        st.error(t("atlas.none"))
        return None
    _source(found)
    return name, found


def screen() -> str:
    """Which screen is open."""
    return choice(
        t("atlas.screen"), list(SCREENS), key=SCREEN, text=lambda one: plain(f"atlas.screen_{one}"), bare=True
    )


def group(atlas: Atlas) -> str:
    """Which kind of attention is looked at: heads of one kind share their axes."""
    groups = list(atlas.groups)
    return choice(t("atlas.kind"), groups, key=GROUP, text=kind_name)


def head(atlas: Atlas) -> Row:
    """The head whose page is open."""
    sites = list(dict.fromkeys(row["site"] for row in atlas.heads))
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        site = choice(t("atlas.site"), sites, key=SITE, form="list", width=220, text=str)
        numbers = [str(row["head"]) for row in atlas.heads if row["site"] == site]
        number = choice(t("atlas.head"), numbers, key=HEAD, text=str)
    return atlas.of(site, int(number))


def open_head(row: Row) -> None:
    """Show a head's own page in the next run."""
    address.put(**{SCREEN: "head", SITE: row["site"], HEAD: row["head"]})


def open_vectors(row: Row) -> None:
    """Show a head's queries and keys in the next run."""
    address.put(**{SCREEN: "vectors", SITE: row["site"], HEAD: row["head"]})


def open_in_translate(name: str, row: Row, text: str, target: str) -> None:
    """A link to a sentence with its reference in Translate, at exactly this head."""
    layer = {} if row["layer"] is None else {"layer": str(row["layer"])}
    st.page_link(
        "pages/translate.py",
        label=t("atlas.open_translate"),
        query_params={
            "model": name, "text": text, "force": target, "kind": row["group"], **layer,
            "head": str(row["head"]), KEY: language(),
        },
    )  # fmt: skip


def kind_name(group: str) -> str:
    """A kind of attention in words."""
    return plain(f"atlas.kind_{group}")


def head_name(row: Row) -> str:
    """A head in a few characters: `L2 H0`, or `H0` where its attention stands alone."""
    return f"H{row['head']}" if row["layer"] is None else f"L{row['layer']} H{row['head']}"


def _source(atlas: Atlas) -> None:
    """Which corpus the numbers are of."""
    about, counts = atlas.about, atlas.about["counts"]
    files = " + ".join(about[name] for name in ("source", "target") if name in about)
    st.caption(
        t("atlas.source", sentences=counts["sentences"], files=files, skipped=counts["skipped"]),
        help=t("atlas.source_help", digest=about["source_sha256"][:12], torch=about["versions"]["torch"]),
    )
