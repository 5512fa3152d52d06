"""What shows itself in a notebook's cell, and saves itself as a page."""

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformer.attention.record import Record
    from transformer.plots.canvas.page import Page


class InNotebook:
    """The dashboard's views in a cell: all heads, one head large, and its lines."""

    @abstractmethod
    def _as_record(self) -> "Record":
        """The record that is shown."""

    def html(self, path: str | Path | None = None) -> str:
        """The dashboard's views as a page for any browser, which needs no network; saved where a path is given.

        What travels rounded or in blocks, the page says (`attention.notebook`).
        """
        text = self._page().document()
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def _repr_html_(self) -> str:
        """In a notebook: the same views in the cell."""
        return self._page().frame()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The same, with a short text for where there is no HTML: `repr` names every token."""
        short = f"{type(self).__name__}({', '.join(self._as_record().sites)})"
        return {"text/html": self._repr_html_(), "text/plain": short}

    def _page(self) -> "Page":
        from transformer.attention.notebook import page  # which draws what takes its methods from here

        record = self._as_record()
        return page(list(record.values()), record.model, record.text)
