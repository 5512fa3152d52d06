"""What the page Head atlas shows: of which checkpoint, in which form, which kind of attention, which head."""

import streamlit as st

from transformer.atlas.roles import ROLES
from transformer.messages import Message
from ui.shared import address, controls
from ui.shared.address import choice, parameter
from ui.store import atlases, own_atlases
from ui.store.atlases import Atlas, Row
from ui.texts import KEY, language, plain, said, t

SCREENS = ("cards", "head", "map", "table", "own")
"""The page's screens, in order."""

OF_THE_ATLAS = ("cards", "table", "map", "head")
"""Those that show the numbers of the atlas; the others say themselves what they are of."""

SCREEN, LAYER, HEAD, GROUP = "screen", "layer", "head", "kind"
"""The query parameters of the screen, and of a head's kind of attention, layer and number."""

ALL = "all"
"""Every kind of attention."""


def entry() -> str | None:
    """Which atlas is looked at, shipped or made in this session; None, with an explanation, where there is none."""
    names = [*atlases.names(), *own_atlases.names()]
    if not names:
        st.error(t("atlas.none"))
        return None
    asked = parameter("model") or ""
    with st.sidebar:
        name = choice(t("atlas.checkpoint"), names, key="model", form="list", width="stretch", text=label)
    if asked.startswith(own_atlases.PREFIX) and asked not in names:
        st.info(t("atlas.own_gone"))
    if atlas_of(name) is None:
        st.error(t("atlas.none"))
        return None
    return name


def atlas_of(name: str) -> tuple[str, Atlas] | None:
    """The checkpoint and the atlas of an entry of the list; None where it is no longer here."""
    mine = own_atlases.own(name)
    if mine is not None:
        return mine.checkpoint, mine.atlas
    found = atlases.atlas(name)
    return None if found is None else (name, found)


def is_own(atlas: Atlas) -> bool:
    """Whether this session made it: no link to another page load leads back to it, since it is kept nowhere else."""
    return any((one := own_atlases.own(name)) is not None and one.atlas is atlas for name in own_atlases.names())


def label(name: str) -> str:
    """What an entry of the list is called: a checkpoint's name, or the own text and its checkpoint."""
    mine = own_atlases.own(name)
    if mine is None:
        return name
    return plain("atlas.own_label", checkpoint=mine.checkpoint, what=_read(mine.atlas))


def amount(count: int, sequences: bool) -> str:
    """So many lines of a text, or sequences, in words."""
    return plain("atlas.own_sequences" if sequences else "atlas.own_lines", count=count)


def _read(atlas: Atlas) -> str:
    return amount(atlas.about["counts"]["sentences"], atlas.heads[0]["letters"] is not None)


def screen() -> str:
    """Which screen is open."""
    return choice(
        t("atlas.screen"), SCREENS, key=SCREEN, bare=True, old={"vectors": "head"},
        text=lambda one: plain(f"atlas.screen_{one}"),
    )  # fmt: skip


def group(atlas: Atlas, *, every: bool = False) -> str:
    """Which kind of attention is looked at, or `every` one: heads of one kind share their axes."""
    groups = [*([ALL] if every and len(atlas.groups) > 1 else []), *atlas.groups]
    return choice(t("atlas.kind"), groups, key=GROUP, form="list", width=190, text=kind_name)


def head(atlas: Atlas) -> Row:
    """The head whose page is open; at first one with a role, the most telling one."""
    _of_before(atlas)
    first = min(atlas.heads, key=lambda row: min(map(ROLES.index, row["roles"]), default=len(ROLES)))
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        kind = choice(
            t("atlas.kind"), list(atlas.groups), key=GROUP, form="list", width=190, text=kind_name,
            default=first["group"],
        )  # fmt: skip
        of_kind = atlas.groups[kind]
        usual = first if first in of_kind else of_kind[0]
        layers = list(dict.fromkeys(str(row["layer"]) for row in of_kind))
        layer = layers[0]
        if len(layers) > 1:
            layer = choice(
                t("atlas.layer_short"), layers, key=LAYER, form="list", width=110, text=str,
                default=str(usual["layer"]),
            )  # fmt: skip
        found = {str(row["head"]): row for row in of_kind if str(row["layer"]) == layer}
        default = str(usual["head"]) if layer == str(usual["layer"]) else None
        number = choice(t("atlas.head"), list(found), key=HEAD, form="list", width=110, text=str, default=default)
    return found[number]


def _of_before(atlas: Atlas) -> None:
    """An address of before names a head by its `site`."""
    row = next((row for row in atlas.heads if row["site"] == parameter("site")), None)
    if row is not None:
        address.put(**{GROUP: row["group"], LAYER: row["layer"], "site": None})


def open_head(row: Row) -> None:
    """Show a head's own page in the next run."""
    address.put(**{SCREEN: "head", GROUP: row["group"], LAYER: row["layer"], HEAD: row["head"]})


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
    return plain("atlas.all_kinds") if group == ALL else plain(f"atlas.kind_{group}")


def head_name(row: Row) -> str:
    """A head with its kind and layer: `Cross · layer 0 · head 2`; without a layer where its attention stands alone."""
    kind = kind_name(row["group"])
    return plain("atlas.head_alone" if row["layer"] is None else "atlas.head_name", kind=kind, **{
        "head": row["head"], **({} if row["layer"] is None else {"layer": row["layer"]})
    })  # fmt: skip


def short_name(row: Row) -> str:
    """A head within its kind: `layer 2 · head 0`."""
    return head_name(row).removeprefix(f"{kind_name(row['group'])} · ")


def source(atlas: Atlas) -> None:
    """Which text the numbers of an atlas are of."""
    if is_own(atlas):
        _own_source(atlas)
    else:
        _source(atlas)


def _own_source(atlas: Atlas) -> None:
    """That the numbers are of the reader's own text, and which lines were left out."""
    counts, skipped = atlas.about["counts"], atlas.about["skipped_lines"]
    st.caption(t("atlas.own_source", what=_read(atlas), tokens=counts["tokens"]))
    if skipped:
        st.caption(
            t("atlas.own_skipped", count=len(skipped), line=skipped[0]["line"], reason=said(skipped[0]["reason"]))
        )
    for note in atlas.about["notes"]:
        st.caption(controls.sentence(Message(f"atlas_note_{note['code']}", **note["fields"])))


def _source(atlas: Atlas) -> None:
    """Which corpus the numbers are of."""
    about, counts = atlas.about, atlas.about["counts"]
    files = " + ".join(about[name] for name in ("source", "target") if name in about)
    kind = (
        "sequences" if about["source"].endswith((".fa", ".fasta", ".gz")) else "pairs" if "target" in about else "lines"
    )
    more = {"digest": about["source_sha256"][:12], "torch": about["versions"]["torch"], "skipped": counts["skipped"]}
    st.caption(
        t(f"atlas.source_{kind}", sentences=counts["sentences"], files=files), help=t("atlas.source_help", **more)
    )
