"""The word that is marked in a page's pictures, where the browser owns the marks: what the server hears of them."""

import streamlit as st

from ui.shared import subject

_MARKS = st.components.v2.component(
    "heedmap.marks",
    js="""
let told = "", send = null;
const tell = () => {
  const pair = globalThis.heedmapAddress.values().pair ?? "";
  if (send && pair !== told) send("pair", (told = pair));
};
addEventListener("heedmap-address", tell);
export default ({ setTriggerValue }) => {
  send = setTriggerValue;
  tell();
  return () => ([told, send] = ["", null]);
};
""",
)
"""Tells which pair of a written and a source word the address marks behind #; that it marks none, only after one."""


def listen() -> None:
    """Remember which word the browser marks, so that it is marked on the page that is opened next. Draws nothing."""
    _MARKS(key="marks", on_pair_change=_mark)


def _mark() -> None:
    kind, _, pair = str(st.session_state["marks"].pair or "").partition(":")
    subject.mark(pair.partition("|")[0] or None if kind.startswith("decoder.") else None)
