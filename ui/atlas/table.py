"""All heads as a table that sorts, filters, and leaves as a file."""

import pandas as pd
import streamlit as st

from transformer.atlas.roles import ROLES, line_of
from transformer.atlas.statistics import MEASURES
from ui.atlas import choices
from ui.atlas.measured import IMPORTANCE, measured
from ui.shared.address import choice
from ui.shared.files import frame_csv
from ui.shared.numbers import as_written
from ui.store.atlases import Atlas
from ui.texts import plain, said, t

PARTS = ("start", "end", "padding")
"""Shares that the table leaves to the file; `special` is the first two together."""

COLUMNS = (*(one for one in MEASURES if one not in PARTS), "effective_keys", "peak_offset", "peak_share")
"""The measures that the table shows; the file has all columns."""

MORE = (IMPORTANCE, "error_written", "error_read")
"""Columns that not every atlas has."""

_DIGITS = {"peak_offset": 0, "importance": 4}
"""Digits after the point of a column that has another number of them than 3."""


def table_panel(name: str, atlas: Atlas) -> None:
    """The table; its columns sort by a click, and two filters stand in the address."""
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        groups = [choices.ALL, *atlas.groups]
        group = choice(
            t("atlas.kind"), groups, key="only", form="list", width=220,
            text=choices.kind_name,
        )  # fmt: skip
        roles = [choices.ALL, *(role for role in ROLES if any(role in row["roles"] for row in atlas.heads))]
        role = choice(
            t("atlas.role"), roles, key="role", form="list", width=260,
            text=lambda one: plain("atlas.all") if one == choices.ALL else plain(f"atlas.role_{one}"),
        )  # fmt: skip
    rows = [
        row
        for row in atlas.heads
        if group in {choices.ALL, row["group"]} and (role == choices.ALL or role in row["roles"])
    ]
    beside = measured(name)
    whole = pd.DataFrame(
        [
            {key: value for key, value in row.items() if not isinstance(value, list)} | {IMPORTANCE: beside.of(row)}
            for row in rows
        ]
    )
    known = [column for column in (*COLUMNS, *MORE) if column in whole and whole[column].notna().any()]
    shown = pd.DataFrame(
        {
            "name": list(map(choices.head_name, rows)),
            "does": [said(line_of(row)) for row in rows],
            **{column: as_written(whole[column], _DIGITS.get(column, 3)) for column in known},
        }
    )
    st.dataframe(
        shown,
        hide_index=True,
        placeholder="-",
        column_config={
            "name": st.column_config.TextColumn(plain("atlas.head"), width="medium"),
            "does": st.column_config.TextColumn(plain("atlas.does"), width="large"),
            **{
                column: st.column_config.NumberColumn(
                    plain(f"atlas.measure_{column}"), format=f"%.{_DIGITS.get(column, 3)}f",
                    help=plain(f"atlas.measure_{column}_help"),
                )
                for column in known
            },
        },
    )  # fmt: skip
    st.download_button(t("atlas.download"), frame_csv(whole), f"{name}-heads.csv", "text/csv", on_click="ignore")
    st.caption(t("atlas.table_note"))
