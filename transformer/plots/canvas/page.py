"""The views of a record as one page of HTML that needs nothing else: saved as a file, or in a notebook's cell.

The page fetches nothing. Its policy lets no script run but the one that stands in it, and all texts of a record
(tokens, sites, titles) travel inside the base64 of one message, so that nothing in them is ever markup. In a notebook
it is the `srcdoc` of a sandboxed frame: it cannot read the notebook around it, and two of it do not meet.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from transformer.messages import language, words
from transformer.plots.canvas import blob
from transformer.plots.canvas.about import About
from transformer.plots.canvas.record import Kind, header_and_arrays
from transformer.plots.canvas.sentences import sentences
from transformer.plots.canvas.views import (
    Axes,
    Grid,
    Picker,
    Sides,
    Site,
    all_heads_header,
    head_choice_header,
    head_view_header,
    heatmap_header,
)
from transformer.plots.file_names import file_name

FRAME = 640
"""The height of a frame in pixels until its page says how high it is, and where it cannot say so."""


@dataclass(frozen=True, eq=False)
class Page:
    """Kinds of attention with what is said of them: `sites` by site, `axes` by kind.

    `first` is the kind, layer and head (None: the mean) that are shown until the reader chooses.
    """

    title: str
    facts: Sequence[str]
    kinds: Sequence[Kind]
    sites: Mapping[str, Site]
    axes: Mapping[str, Axes]
    first: tuple[int, int, int | None] = (0, 0, None)

    def document(self) -> str:
        """The page, complete."""
        code, style = _text("built/document.js"), f"{_text('canvas.css')}\n{_text('page/page.css')}"
        policy = f"default-src 'none'; script-src {_hashed(code)}; style-src {_hashed(style)}; img-src data: blob:"
        return (
            f'<!DOCTYPE html>\n<html lang="{language()}">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(' '.join(self.title.split()))}</title>\n<style>{style}</style>\n</head>\n<body>\n"
            f'<script type="application/octet-stream" id="record">{b64encode(self._message()).decode()}</script>\n'
            f"<script>{code}</script>\n</body>\n</html>\n"
        )

    def frame(self) -> str:
        """The page in a frame, for a notebook's cell."""
        follow = f"{_text('built/frame.js')} heedmap.follow(this)"  # once the frame has loaded
        inside = self.document().replace("&", "&amp;").replace("'", "&#39;")
        return (
            f'<iframe class="heedmap" sandbox="allow-scripts allow-downloads" title="{escape(self.title)}" '
            f'style="display:block;width:100%;height:{FRAME}px;border:0" onload="{escape(follow)}" '
            f"srcdoc='{inside}'></iframe>"
        )

    def _message(self) -> bytes:
        """All that the page is told, and the numbers."""
        kind, layer, head = self.first
        record, arrays = header_and_arrays(self.kinds, (layer, head), {}, kind)
        local = {"record": "record", "arrival": 0, "values": {}}
        views = {
            name: {"instance": name, "words": sentences(name), "local": local, **header}
            for name, header in self._headers().items()
        }
        said = {"map": words("page_map"), "lines": words("page_lines"), "views": words("page_views")}
        header = {"title": self.title, "facts": list(self.facts), "views": views, "words": said}
        return blob.pack({**header, "record": {**record, "id": "record"}}, arrays)

    def _headers(self) -> dict[str, dict[str, Any]]:
        """What each view is told; one map alone has no grid of all."""
        if not self.kinds:
            return {}
        most = max(one.weights.shape[1] for one in self.kinds)
        names = [*(words("page_head_name", head=head) for head in range(most)), words("page_mean")]
        pickers = (
            Picker(words("page_attention"), "", {}),
            Picker(words("page_layer"), "", {}),
            Picker(words("page_head"), "", {"mean": words("page_mean")}),
        )
        headers = {
            "head_choice": head_choice_header(pickers),
            "heatmap": heatmap_header(self.sites, self.axes, dense=True, save_csv=words("page_csv")),
            "head_view": head_view_header({one.name: self._sides(one) for one in self.kinds}, names),
        }
        if len(self.kinds) > 1 or self.kinds[0].weights.shape[:2] != (1, 1):
            headers["all_heads"] = all_heads_header({one.name: self._grid(one) for one in self.kinds})
        return headers

    def _grid(self, kind: Kind) -> Grid:
        layers, heads = kind.weights.shape[:2]
        about = About(words("page_all_heads", kind=kind.name), self.facts)
        return Grid(file_name(self.title, kind.name), about, [[""] * heads] * layers)

    def _sides(self, kind: Kind) -> Sides:
        axes = self.axes[kind.name]
        return Sides(
            axes.queries,
            axes.keys,
            [file_name(self.title, str(site), "lines") for site in kind.sites],
            [About(words("page_lines_of", site=site), self.facts) for site in kind.sites],
        )


@cache
def _text(name: str) -> str:
    """A file of the views: a style, or a script that `make scripts` has built."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


@cache
def _hashed(text: str) -> str:
    """How a policy names a script or style that it lets in."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
