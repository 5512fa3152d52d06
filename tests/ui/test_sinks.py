"""Where Streamlit reads Markdown, every text is ours or escaped: read off the syntax trees."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([ROOT / "app.py", *(ROOT / "pages").glob("*.py"), *(ROOT / "ui").rglob("*.py")])

MARKDOWN = {"body", "label", "help", "text", "title", "line", "tabs", "captions", "format_func", "show_spinner"}
"""Arguments that are Markdown, by their name."""

PLAIN = {("selectbox", "format_func"), ("multiselect", "format_func"), ("choice", "text")}
"""Arguments of these names that are plain text after all: entries of a list."""

FIRST = {
    "markdown", "caption", "title", "header", "subheader", "info", "warning", "error", "success", "toast", "button",
    "form_submit_button", "download_button", "popover", "expander", "toggle", "checkbox", "text_input", "text_area",
    "number_input", "slider", "select_slider", "selectbox", "multiselect", "file_uploader", "metric", "link_button",
    "page_link", "status", "segmented_control", "pills", "radio", "tabs", "spinner", "write", "dialog", "feedback",
    "choice", "whole", "tenths", "hundredths", "_decimals", "switch", "line", "lines", "heading", "camera_input",
    "date_input", "menu_button",
    "kept", "save_button", "uploader",
}  # fmt: skip
"""Calls whose first argument is Markdown: Streamlit's, and those of ours that hand it on."""

SAFE = {
    *("t", "as_text", "as_code", "sentence", "controls.sentence", "likelihood", "heads.likelihood"),
    *("len", "int", "controls.surest_note"),
}
"""Calls whose value may stand in Markdown."""

GIVEN = {
    ("ui/shared/address.py", "label"): "its callers' labels are looked at",
    ("ui/shared/files.py", "label"): "its callers' labels are looked at",
    ("ui/shared/subject.py", "one"): "a page, whose title is of the catalogue",
    ("ui/map/panel.py", "page"): "a script of ours",
    ("ui/align/views.py", "FORMULA"): "a formula of ours",
    ("ui/sequences/gene.py", "errors"): "made by t",
    ("ui/shared/controls.py", "named"): "it escapes",
    ("ui/shared/controls.py", "label"): "made by t, in its callers",
    ("ui/your_model/bring.py", "title"): "made by t, in its callers",
    ("ui/your_model/questions.py", "label"): "made by t, in its caller",
    ("ui/your_model/attention.py", "label"): "made by t, in its callers",
    ("ui/path/strip.py", "sentence_of(here)"): "made by t",
    ("ui/path/strip.py", "label"): "its callers' labels are made by t",
    ("ui/path/strip.py", "one.page"): "a script of ours",
    ("ui/path/views.py", "one.page"): "a script of ours",
    ("ui/path/views.py", "question.page"): "a script of ours",
    ("ui/path/views.py", "strip.sentence_of(one)"): "made by t",
    ("ui/shell.py", "title"): "its callers' titles are looked at",
    ("ui/shell.py", "line"): "its callers' lines are looked at",
    ("ui/lessons/attention_steps.py", "notes"): "made by t",
    ("ui/sequences/gene.py", "label"): "each is escaped where it is made",
    ("ui/lessons/watched_training.py", "_report(chosen, found)"): "made by t",
    ("ui/lessons/watched_training.py", "page"): "a script of ours",
    ("ui/lessons/watched_training.py", "said"): "made by t",
    ("ui/lessons/watched_training.py", "_said(look) or t(begins)"): "made by t",
    ("ui/lessons/leaks.py", "_changes(report, checkpoint)"): "made by t",
    ("ui/lessons/shared.py", "said.__getitem__"): "made by t",
    ("ui/lessons/shared.py", "' '.join(sentences[:count])"): "its callers' sentences are looked at",
    ("ui/lessons/shared.py", "' '.join(sentences[count:]) or None"): "its callers' sentences are looked at",
}
"""What is passed on unseen, in which file, and why that is safe."""

Named = dict[str, list[ast.expr | None]]


def wrong_in(source: str, file: str = "ui/some.py") -> list[str]:
    """What a file hands to places that read Markdown, without being ours or escaped."""
    found = []
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = {id(node) for function in functions for node in ast.walk(function)}
    for scope in (tree, *functions):
        named = _named(scope)
        for node in ast.walk(scope):
            if isinstance(node, ast.Call) and (scope is not tree or id(node) not in inside):
                found += [value for value in _handed(node) if not _is_safe(value, named, file)]
    return sorted({f"{file}:{value.lineno}: {ast.unparse(value)}" for value in found})


def _handed(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of a call that are Markdown."""
    name = ast.unparse(call.func)
    called = name.rpartition(".")[2]
    if called not in FIRST | {"progress"} or name.startswith("st.column_config"):
        return
    yield from (one.value for one in call.keywords if one.arg in MARKDOWN and (called, one.arg) not in PLAIN)
    yield from call.args[1:2] if called == "progress" else call.args[:1]


def _is_safe(value: ast.expr | None, named: Named, file: str, seen: tuple[str, ...] = ()) -> bool:
    if value is None or isinstance(value, ast.Constant) or (file, ast.unparse(value)) in GIVEN:
        return value is not None
    if isinstance(value, ast.Call) and ast.unparse(value.func) != "str":
        return ast.unparse(value.func) in SAFE
    if isinstance(value, ast.Name):
        values = named.get(value.id, [None])
        return value.id in seen or all(_is_safe(one, named, file, (*seen, value.id)) for one in values)
    if isinstance(value, ast.FormattedValue) and value.format_spec is not None:
        return ast.unparse(value.format_spec)[-2] in "defg%"
    parts = _parts(value)
    return bool(parts) and all(_is_safe(part, named, file, seen) for part in parts)


def _parts(value: ast.expr) -> list[ast.expr]:
    """What an expression's text is put together from; nothing where that is not known."""
    match value:
        case ast.JoinedStr(values=parts) | ast.BoolOp(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
            return parts
        case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, right=other):
            return [one, other]
        case ast.FormattedValue(value=part) | ast.ListComp(elt=part) | ast.Lambda(body=part):
            return [part]
        case ast.Call(args=[part]):
            return [part]
    return []


def _named(scope: ast.AST) -> Named:
    """Every name that a function or a page gives a value, and the values; None for one that is not known."""
    found: Named = {}
    for node in ast.walk(scope):
        for name, value in _assigned(node):
            found.setdefault(name, []).append(value)
    return found


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    match node:
        case ast.arg(arg=name):
            yield name, None
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            yield from ((ast.unparse(name), value) for name, value in zip(names, values, strict=True))
        case ast.Assign(targets=[target]):
            yield from _unknown(target)
        case ast.For(target=ast.Tuple(elts=[ast.Name(id=name), rest]), iter=ast.Call(func=ast.Name(id="enumerate"))):
            yield from ((name, ast.Constant(0)), *_unknown(rest))
        case ast.For(target=target) | ast.comprehension(target=target) | ast.NamedExpr(target=target):
            yield from _unknown(target)


def _unknown(target: ast.expr) -> list[tuple[str, ast.expr | None]]:
    return [(node.id, None) for node in ast.walk(target) if isinstance(node, ast.Name)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_markdown_is_ours_or_escaped(file: Path) -> None:
    assert wrong_in(file.read_text("utf-8"), str(file.relative_to(ROOT))) == []


def test_every_exception_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    for file, what in GIVEN.copy():
        with monkeypatch.context() as patch:
            patch.delitem(GIVEN, (file, what))
            assert wrong_in((ROOT / file).read_text("utf-8"), file), f"{file}: {what}"


FORGETFUL = (
    "st.markdown(name)", "st.caption(f'**{name}**')", "st.warning(str(error))", "st.button('1', help=name)",
    "place.info(body=name)", "st.metric(name, 1)", "st.progress(0.5, name)", "st.progress(0.5, text=name)",
    "st.expander(plain('a.b', name=name))", "st.segmented_control('a', names, format_func=str)",
    "st.tabs([name for name in names])", "st.error('a' + name)", "st.markdown(t('a.b') if ok else name)",
    "choice(name, names, key='k', text=str)", "st.toast(record.note)", "text = name\n    st.info(text)",
    "st.subheader(t('a.b'), help=name)", "st.popover(f'{t(\"a.b\")} {name}')", "st.success('a'.join(names))",
    "for one in names:\n        st.caption(one)", "st.sidebar.selectbox(name, names)",
)  # fmt: skip
OURS = (
    "st.markdown(t('a.b', name=name))", "st.caption(f'**{as_text(name)}** {n:.2f}')", "st.text(name)",
    "st.selectbox(t('a.b'), names)", "st.dataframe(name)", "st.button('1', help=as_text(name))",
    "label = t('a.b')\n    st.info(f'{label} {len(names)}')", "st.download_button(t('a.b'), name, name)",
)  # fmt: skip


def test_a_place_that_forgets_is_found_and_what_is_ours_passes() -> None:
    def found(call: str) -> bool:
        return bool(wrong_in(f"def panel(name, names, error, record, ok, n):\n    {call}\n"))

    assert [call for call in FORGETFUL if not found(call)] == []
    assert [call for call in OURS if found(call)] == []
