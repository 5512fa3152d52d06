"""How tests of pages open one, and read what it sends to the browser."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import streamlit as st
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData
from streamlit.runtime.state.common import user_key_from_element_id
from streamlit.testing.v1 import AppTest

from heedmap.plots.canvas.blob import unpack
from ui.components.shared.mounting import REPORTED
from ui.shared.state import STATE, PageState
from ui.store import progress, runs

ROOT = Path(__file__).parents[2]
UNSURE = (":material/quiz:", ":material/warning:")
"""The icons of what is said in amber: what is asked, and what is assumed."""

Files = dict[str, tuple[str, Callable[[], Any]]]
"""Files that a page hands out, by their endings: each one's name, and what makes it."""

PATIENCE = 120
"""Seconds that one run of a page may take on a busy machine."""


def opened(name: str, **address: str) -> AppTest:
    """The page called `name` in a new session that begins at this address, and did not fail."""
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE)
    at.query_params.update(address)
    at.switch_page(f"pages/{name}.py").run()
    assert not at.exception
    return at


def fine(at: AppTest) -> AppTest:
    """The page again, which neither failed nor warned."""
    assert not at.exception
    assert not problems(at)
    return at


def silent(at: AppTest) -> AppTest:
    """The page again, which neither failed nor said anything in red or amber."""
    assert not at.exception
    assert not at.error
    assert not at.warning
    return at


def ran(at: AppTest, **typed: str) -> AppTest:
    """The page once these texts were typed into its fields by their keys, and Run pressed."""
    for one in (*at.text_area, *at.text_input):
        if one.key in typed:
            one.set_value(typed[one.key])
    next(button for button in at.button if button.label in {"Run", "运行"}).click()
    at.run()
    assert not at.exception
    return at


def pressed(at: AppTest, key: str) -> AppTest:
    """The page once a button was pressed."""
    at.button(key=key).click()
    return fine(at.run())


def put(at: AppTest, /, **values: Any) -> AppTest:
    """The page once its controls were set, by their keys."""
    kinds = ("button_group", "selectbox", "slider", "number_input", "toggle", "text_input", "text_area", "multiselect")
    for key, value in values.items():
        next(one for kind in kinds for one in at.get(kind) if one.key == key).set_value(value)
    return fine(at.run())


@contextmanager
def stopped_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Inside, someone presses Stop as soon as a bar moves; gives what the bars said."""
    told, names, name_of = list[str](), list[str](), progress.name_of

    def named(kind: str, key: tuple[Any, ...]) -> str:
        names.append(name_of(kind, key))
        return names[-1]

    def moved_to(_done: float, says: str) -> None:
        told.append(says)
        st.session_state[progress.STOPPED].add(names[-1])
        st.rerun()

    with monkeypatch.context() as impatient:
        impatient.setattr(runs, "WORTH_A_BAR", 0.0)
        impatient.setattr(progress, "name_of", named)
        impatient.setattr("streamlit.progress", lambda *_: SimpleNamespace(progress=moved_to))
        yield told


def brought(at: AppTest, uploader: int = 0, /, **files: bytes) -> AppTest:
    """The page once these files were dropped on one of its uploaders, all at once."""
    at.file_uploader[uploader].set_value([(name, data, "application/octet-stream") for name, data in files.items()])
    at.run()
    assert not at.exception
    return at


def table(at: AppTest, *columns: str) -> pd.DataFrame:
    """The first table of the page that has these columns."""
    found: pd.DataFrame = next(one.value for one in at.dataframe if set(columns) <= set(one.value.columns))
    return found


def problems(at: AppTest) -> list[str]:
    """What a page warns of, but for what is said in amber."""
    return [warning.value for warning in at.warning if warning.icon not in UNSURE]


def with_heads(at: AppTest, count: int) -> AppTest:
    """The page Your model, once it is answered how many heads there are and, where that is asked, what is scaled."""
    widgets = [one for kind in ("button_group", "selectbox") for one in at.get(kind)]
    next(one for one in widgets if str(one.key).endswith(".n_heads")).set_value(count)
    for one in widgets:
        if str(one.key).endswith(".scale_embedding") and one.value is None:
            one.set_value(True)
    return at.run()


def moved(at: AppTest, key: str) -> AppTest:
    """What a browser gets once a control was moved: the run of its part of the page alone, where it stands in one."""
    known = at._session_state._state._new_widget_state.widget_metadata
    fragments = [one.fragment_id for name, one in known.items() if user_key_from_element_id(name) == key]
    begun, pages = PagesManager.__init__, at._registered_pages

    def with_pages(manager: PagesManager, *args: Any, **options: Any) -> None:
        begun(manager, *args, **options)
        manager.set_pages_and_resolve(pages)  # a server keeps them from run to run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PagesManager, "__init__", with_pages)
        asked = "streamlit.testing.v1.local_script_runner.RerunData"
        patch.setattr(asked, partial(RerunData, fragment_id=fragments[0]))
        return at.run()


def is_whole(at: AppTest) -> bool:
    """Whether the last run drew the whole page, with its heading."""
    return bool(at.title)


def address_of(at: AppTest) -> dict[str, str]:
    """The page's address, one value a name: its query, and what is known of keys that stand behind #."""
    here: PageState = at.session_state[STATE]
    behind = {key: here.values[key] for key in here.owned if key in here.values}
    return {key: value if isinstance(value, str) else value[0] for key, value in at.query_params.items()} | behind


def sent(at: AppTest, key: str | None = None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a component got, the first one without a `key`: its header, and its arrays by name."""
    parts = (part for part in at.get("bidi_component") if part.proto.bytes)  # what gets no arrays is no picture
    found = next(part.proto for part in parts if key is None or part.key == key)
    header, arrays = unpack(found.bytes)
    return header, arrays


def record_sent(at: AppTest) -> dict[str, tuple[dict[str, Any], np.ndarray]]:
    """The record that the browser draws from, by kind: what is said of it, and all heads' weights, -1 where masked."""
    header, arrays = sent(at, "record")
    found = {}
    for order, kind in enumerate(header["kinds"]):
        layers = len(kind.get("there", kind["sites"]))
        shape = (layers, kind["heads"], len(kind["queries"]["texts"]), len(kind["keys"]["texts"]))
        found[kind["name"]] = kind, arrays[f"weights_{order}"].reshape(shape)
    return found


def options(at: AppTest, key: str) -> dict[str, Any]:
    """The options that a component got."""
    found: dict[str, Any] = json.loads(
        next(part.proto.json for part in at.get("bidi_component") if part.key == f"{key}.options")
    )
    return found


def chosen(at: AppTest) -> tuple[str, int, int | None]:
    """The kind, layer and head (None: the mean) that the address chooses of the record, as the server reads it."""
    kind, layer, head = options(at, "head-choice")["drawn"]
    return kind, layer, head


def head_shown(at: AppTest) -> tuple[str, np.ndarray]:
    """The map that the browser draws large: its title, and the weights as they were sent, -1 where masked."""
    kind, layer, head = chosen(at)
    told, weights = record_sent(at)[kind]
    found = weights[told["there"].index(layer) if "there" in told else layer]
    title = sent(at, "heatmap")[0]["sites"][told["sites"][layer]]["titles"][-1 if head is None else head]
    return title, found.mean(axis=0) if head is None else found[head]


def matrix_sent(at: AppTest, key: str) -> tuple[dict[str, Any], np.ndarray]:
    """A picture that is drawn: what is said of it, and its numbers, -infinity where masked."""
    header, arrays = sent(at, key)
    header = header.get("scores", header)
    return header, arrays["weights"].reshape(len(header["queries"]["texts"]), len(header["keys"]["texts"]))


def told(at: AppTest, **values: str) -> AppTest:
    """The page, once the browser has told it what stands behind # in its address."""
    at.session_state[REPORTED] = values
    return fine(at.run())


def gone(at: AppTest, **address: str | None) -> AppTest:
    """The same session, once the browser has put these values into the address (None: taken them away)."""
    now = address_of(at) | address
    at.query_params.clear()
    at.query_params.update({key: value for key, value in now.items() if value is not None})
    return fine(at.run())


def said(at: AppTest) -> str:
    """All that a page says: its Markdown, captions and boxes."""
    return "\n".join(str(one.value) for one in (*at.markdown, *at.caption, *at.info, *at.warning, *at.error))


def words_of(at: AppTest) -> str:
    """All that a page says in Markdown, and what stands behind its question marks."""
    return " ".join(f"{part.value} {part.proto.help}".strip() for part in at.markdown)


def text(at: AppTest) -> str:
    """The same, as it is read: without backslashes."""
    return words_of(at).replace("\\", "")


def matrices(at: AppTest) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the matrices component got: each matrix by name, and its numbers."""
    found = next(part for part in at.get("bidi_component") if b'"matrices"' in part.proto.bytes)
    header, arrays = unpack(found.proto.bytes)
    return {matrix["name"]: matrix for matrix in header["matrices"]}, arrays


def marked(at: AppTest) -> dict[str, Any]:
    """What the matrices were told to mark."""
    sent = next(part.proto.json for part in at.get("bidi_component") if '"selected"' in part.proto.json)
    found: dict[str, Any] = json.loads(sent)
    return found


class DrawnBar(NamedTuple):
    """A row of bars as the page gets it: its classes, what is said on hover, the name, the value, what is written."""

    look: str
    note: str
    name: str
    value: float
    text: str


def bars_of(at: AppTest, key: str) -> list[DrawnBar]:
    """The rows of one of the page's bar charts."""
    bodies = (part.proto.body for part in at.get("html"))
    return bar_rows(next(one for one in bodies if f'data-testid="bars-{key}"' in one))


def bar_rows(body: str) -> list[DrawnBar]:
    """The rows of a bar chart's HTML."""
    rows = re.findall(
        '<tr class="(.*?)" title="(.*?)".*?<bdi>(.*?)</bdi>.*?<data value="(.*?)">(.*?)</td></tr>', body, re.DOTALL
    )
    return [
        DrawnBar(look, unescape(note), unescape(name), float(value), unescape(text.replace("</data>", "")).strip())
        for look, note, name, value, text in rows
    ]


def figure(at: AppTest, number: int = 0) -> dict[str, Any]:
    """One of the page's figures, as Plotly gets it."""
    made: dict[str, Any] = json.loads(at.get("plotly_chart")[number].proto.spec)
    return made


def numbers(packed: Any) -> np.ndarray:
    """Numbers as Plotly sends them: a list, or base64 with its type and shape."""
    if isinstance(packed, list):
        return np.array(packed)
    flat = np.frombuffer(base64.b64decode(packed["bdata"]), dtype=packed["dtype"])
    return flat.reshape([int(n) for n in packed["shape"].split(",")]) if "shape" in packed else flat
