"""What components say: every sentence comes from the catalogue, in each language, and none is written in a script."""

import re
from pathlib import Path
from string import Formatter

import pytest

from tests.ui.components.test_bundle import CANVAS, MODULES
from tests.ui.components.test_bundle import COMPONENTS as HERE
from transformer.messages import LANGUAGES, catalogue, speaking
from transformer.plots.canvas.sentences import sentences

COMPONENTS = sorted(path.parent.name for path in HERE.glob("*/component.py"))
COMMENT = re.compile(r"/\*.*?\*/|^\s*//[^\n]*", re.MULTILINE | re.DOTALL)
CONTROLS = {"row_bars", "head_choice"}
"""Components that are moved and not looked at: there is no picture to save."""

STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
KEYS = {"Enter", "Escape", "Home", "End", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"}
"""What `event.key` can be."""
FONTS = '"Latin Modern Math", "STIX Two Math", Cambria, Georgia, serif'
PLAIN = r"^import\b|throw new Error\(|^\s*\*"
"""Lines whose strings nobody reads on the page."""
SHOWN = re.compile(r'(?:textContent = |title = |"aria-label": ?|"aria-label", |say\([\w.]+, |button\()["`]([^"`]*)')
"""Strings that are shown whatever they look like."""


def entry(component: str) -> Path:
    """The module of a component, which stands beside its Python, or with the views that notebooks show too."""
    beside = HERE / component / f"{component}.js"
    return beside if beside.is_file() else CANVAS / component / f"{component}.js"


def declared(component: str) -> set[str]:
    """The names of the sentences that a component's header declares to have."""
    text = entry(component).read_text("utf-8")
    union = re.search(r"@property \{Record<((?:[^>]|\n)*?), string>\} words", text)
    assert union
    return set(re.findall(r'"(\w+)"', union[1]))


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_is_sent_the_sentences_that_its_scripts_declare_and_use(component):
    names = set(sentences(component)) - ({"save_png"} if component in CONTROLS else set())
    assert names == declared(component)
    texts = "".join(path.read_text("utf-8") for path in entry(component).parent.glob("*.js"))
    used = set(re.findall(r"\b(?:words|said)\.(\w+)", texts))
    used |= {"query", "key"} if "words[side]" in texts else set()
    used |= {"picked", "example", "sources", "targets", "further"} if "words[named]" in texts else set()
    assert names - used == set()  # the type checker knows of those that are used and not declared


@pytest.mark.parametrize("component", COMPONENTS)
def test_sentences_are_in_the_language_of_the_context_with_their_fields_open(component):
    def fields(text):
        return {name for _, name, _, _ in Formatter().parse(text) if name}

    english = sentences(component)
    with speaking("zh"):
        chinese = sentences(component)
    assert english.keys() == chinese.keys()
    assert {name: fields(text) for name, text in english.items()} == {name: fields(t) for name, t in chinese.items()}
    assert (english["save_png"], chinese["save_png"]) == ("Save PNG", "保存 PNG")
    for name in english:
        codes = [f"{prefix}_{name}" for prefix in ("canvas", "decided", component)]
        code = next(code for code in codes if code in catalogue("en"))
        assert [english[name], chinese[name]] == [catalogue(language)[code] for language in LANGUAGES]


def literal_english(text):
    """The strings of a script that look like English on the page, but for class names, fonts, keys and SVG."""
    found = []
    for line in COMMENT.sub("", text).splitlines():
        if re.search(PLAIN, line):
            continue
        shown = [match[1] for match in SHOWN.finditer(line)]
        found += [one for one in shown if re.search(r"[A-Za-z]", re.sub(r"\$\{[^}]*\}?", "", one))]
        rest = re.sub(r'element\("\w+", ["`][^"`]*["`]', "", line).replace(FONTS, "")
        for match in STRING.finditer(rest):
            words = re.sub(r"\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", " ", match[1] or match[2] or "")
            if re.search(r"[A-Za-z]{3,} [A-Za-z]{2,}|^[A-Z][a-z]+\b", words) and words not in KEYS:
                found.append(words)
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_no_script_holds_a_sentence(path):
    assert literal_english(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        'made.textContent = "masked";',
        'button("Save", act);',
        'const text = "There is nothing to show";',
        "const text = `mean of ${count} heads shown`;",
        'element("p", "empty", "Nothing here");',
        'element("div", "chips", null, { role: "group", "aria-label": "heads" });',
        'write("Weight, linear", 3);',
        "chip.title = `click ${name}`;",
    ],
)
def test_a_sentence_in_a_script_is_found(line):
    assert literal_english(f"  {line}\n")


@pytest.mark.parametrize(
    "line",
    [
        'const root = element("div", `heedmap ${className}`);',
        'if (event.key === "Escape") stop();',
        "context.font = `600 ${FONT}px ${theme.font}`;",
        "made.textContent = `${row} / ${column}`;",
        "// Save the picture\n",
        'throw new Error("a field is not given");',
    ],
)
def test_what_nobody_reads_is_no_sentence(line):
    assert literal_english(f"  {line}\n") == []
