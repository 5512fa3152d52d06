"""Every page in Chinese holds no English sentence: not in Streamlit's elements, nor in figures, nor in components."""

import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.opening import opened
from tests.views import VIEWS
from ui.your_model import bring, inspection

pytestmark = pytest.mark.usefixtures("models")

SENTENCE = re.compile(r"(?<![-\w./])[A-Za-z]{2,}(?: [a-z]{2,}){2,}")
"""Three words in a row, apart by spaces."""

OURS = re.compile(r"<style>.*?</style>|\\[a-z]+(\{[a-z ]+\})?", re.DOTALL)
"""What is no text: styles, and commands of formulas."""

TYPED = "two dogs run"
CODE = (
    bring.RECORD_IT,
    bring.RUN_IT,
    bring.SAVE_IT,
    bring.EXAMPLE,
    inspection.RECIPE,
    "python -m heedmap measure faithfulness",
)
ALLOWED = (TYPED, "A man is riding a bicycle", "the cat sat on a mat", "the sat cat mat on", "Elhage et al", *CODE)
"""The user's text, examples of it, names, and lines of Python."""

SOURCES = {"js_content", "css_content", "html_content"}
"""The parts of a component that are its program."""

MISTAKES: list[tuple[str, dict[str, str]]] = [
    ("map", {"text": TYPED, "temperature": "2.0"}),
    *(("map", {"text": TYPED, "part": part}) for part in ("decoder.0.self_attention", "encoder.0.feed_forward")),
    ("translate", {"kind": "decoder.self", "head": "mean", "scores": "true", "pair": "0-0"}),
    ("translate", {"text": " "}),
    ("sequences", {"variant": "568 G>A"}),
    ("sequences", {"sequence": "ACXX"}),
    *(("your_model", {"model": "tiny", "show": show}) for show in ("attention", "tensors")),
    ("your_model", {"model": "letters"}),
    ("inside_layer", {"stage": "feed_forward", "gelu": "true"}),
    ("inside_layer", {"stage": "residual", "norm_first": "true"}),
    *(("masks", {"screen": "break", "made": "shipped", "how": how}) for how in ("no_padding", "transpose")),
    ("masks", {"screen": "conventions", "given": "key_padding", "convention": "attn_3d"}),
    ("masks", {"screen": "module", "mask_form": "attn_3d", "weights": "none", "own_widths": "True"}),
    *(("positions", {"screen": screen}) for screen in ("table", "end")),
    *(("positions", {"screen": "distance", "variant": name}) for name in ("learned", "none")),
]
"""Settings and mistakes that no listed view has."""

VISITS = [(page or "map", dict(parse_qsl(view))) for page, views in VIEWS.items() for view in views] + MISTAKES


def strings(value: Any) -> Iterator[str]:
    """Every text in a message that a page sends to the browser."""
    if isinstance(value, str):
        yield value
    elif hasattr(value, "ListFields"):
        for field, part in value.ListFields():
            if field.name not in SOURCES:
                yield from strings(part)
    elif hasattr(value, "values"):
        for part in value.values():
            yield from strings(part)
    elif isinstance(value, Iterable) and not isinstance(value, bytes):
        for part in value:
            yield from strings(part)


def protos(block: Any) -> Iterator[Any]:
    """The messages of a page's elements."""
    children = getattr(block, "children", {})
    for child in children.values():
        yield from protos(child)
    if getattr(block, "proto", None) is not None:
        yield block.proto


def english(page: AppTest) -> list[str]:
    """The English sentences of a page."""
    found = []
    for proto in protos(page._tree):
        for text in strings(proto):
            said = OURS.sub("", text)
            for typed in ALLOWED:
                said = said.replace(typed, "")
            found += SENTENCE.findall(said)
    return sorted(set(found))


@pytest.mark.parametrize(
    ("page", "address"), VISITS, ids=lambda part: part if isinstance(part, str) else "-".join(part.values())
)
def test_a_page_in_chinese_holds_no_english_sentence(page: str, address: dict[str, str]) -> None:
    text = {"text": TYPED, "longest": "5"} if page in {"translate", "align"} else {}
    session = opened(page, **{"lang": "zh", **text, **address})
    assert english(session) == []


def test_english_would_be_found_wherever_it_stands() -> None:
    def script() -> None:
        import plotly.graph_objects as go
        import streamlit as st

        st.caption("one is said here")
        st.button("press", help="two is said here")
        st.plotly_chart(go.Figure(layout={"title": "three is said here"}))
        st.html("<p title='four is said here'></p>")

    page = AppTest.from_function(script, default_timeout=60).run()
    assert [text.partition(" ")[0] for text in english(page)] == ["four", "one", "three", "two"]
