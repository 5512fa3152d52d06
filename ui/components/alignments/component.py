"""Alignments side by side: point at a target word, and what it looked at is marked in every one, in the browser."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from heedmap.plots.canvas import blob
from heedmap.plots.canvas.views import MASKED, About
from ui.components.shared.mounting import CanvasComponent

component = CanvasComponent("alignments")


@dataclass(frozen=True, eq=False)
class Panel:
    """One alignment: `title` and `note` in words, target words (`rows`), and weights; False in `visible` is no key.

    `decided` is for each target word the source word that decides it (-1: none does); empty where that is not known.
    """

    title: str
    rows: tuple[str, ...]
    weights: Float[np.ndarray, "row column"]
    visible: Bool[np.ndarray, "row column"] | None = None
    note: str = ""
    decided: tuple[int, ...] = ()

    def message(self) -> dict[str, Any]:
        """What the browser is sent, besides the weights."""
        return dict(title=self.title, note=self.note, rows=self.rows, decided=[[key] for key in self.decided])


@dataclass(frozen=True, eq=False)
class Moment:
    """What is shown at one time: panels side by side, under a name."""

    name: str
    panels: tuple[Panel, ...]


Marked = tuple[int, int]
"""A target word: its panel and its row, from 0."""


def alignments(
    moments: Sequence[Moment],
    columns: Sequence[str],
    *,
    key: str,
    same_rows: bool,
    moment: int = 0,
    marked: Marked | None = None,
    file_name: str = "alignments",
    about: About | None = None,
    on_mark: Callable[[Marked | None], None] | None = None,
    on_moment: Callable[[int], None] | None = None,
) -> None:
    """Draw the panels of one moment over the same source words; several moments get a slider and a play button.

    Weights are drawn on a fixed scale from 0 to 1. `same_rows` says that row i is the same target word in all panels:
    pointing at it marks it in each, with that panel's own weights; otherwise the source words that it looked at are
    marked in all. Pointing and playing stay in the browser. `about` stands in the picture that is saved. `on_mark` is
    called with the word that was clicked (None when the mark was taken away), `on_moment` with the moment at which the
    slider came to rest.

    Raises:
        InputError: weights lie outside 0 to 1.
    """
    header, arrays = alignments_message(moments, columns, same_rows)

    def rest(value: Any) -> None:
        if on_moment and isinstance(value, int) and 0 <= value < len(moments):
            on_moment(value)

    component(
        key=key,
        header={**header, "file_name": file_name, "about": about or About()},
        arrays=arrays,
        options={"moment": moment, "marked": marked and dict(zip(("panel", "row"), marked, strict=True))},
        events={
            "marked": on_mark and (lambda value: on_mark(_marked(value, moments))),
            "moment": rest if on_moment else None,
        },
    )


def alignments_message(
    moments: Sequence[Moment], columns: Sequence[str], same_rows: bool
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the browser is sent: texts, and each panel's weights in 32 bits, `MASKED` where there is no such key.

    Raises:
        InputError: as `alignments`.
    """
    arrays, masked = dict[str, np.ndarray](), False
    for i, moment in enumerate(moments):
        for j, panel in enumerate(moment.panels):
            shown = np.broadcast_to(True if panel.visible is None else panel.visible, panel.weights.shape)
            blob.refuse_outside_unit(panel.title, panel.weights, shown)
            masked = masked or not bool(shown.all())
            arrays[f"{i}.{j}"] = np.where(shown, panel.weights, MASKED).astype(np.float32)
    header = {"columns": list(columns), "same_rows": same_rows, "masked": masked, "moments": list(moments)}
    return header, arrays


def _marked(value: Any, moments: Sequence[Moment]) -> Marked | None:
    """The browser's event as a word that is here; None for none, or for one that is gone."""
    match value:
        case {"panel": int(panel), "row": int(row)}:
            there = any(0 <= panel < len(m.panels) and 0 <= row < len(m.panels[panel].rows) for m in moments)
            return (panel, row) if there else None
    return None
