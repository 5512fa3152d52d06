"""The scripts that the browser gets: one module each, complete, and with no door for markup."""

import re

import pytest

from ui.components.shared.bundle import HERE, LinkError, library, script, stylesheet

SCRIPTS = sorted(path.relative_to(HERE).as_posix() for path in HERE.rglob("*.js"))
ENTRIES = [name for name in SCRIPTS if "export default" in (HERE / name).read_text(encoding="utf-8")]


def modules(text):
    """The names of the modules in a linked script, in order."""
    return re.findall(r"^const module\d+_(\w+) = ", text, re.MULTILINE)


def test_every_component_has_a_script_of_its_name():
    folders = [path.parent.name for path in HERE.glob("*/component.py")]
    shared = [f"shared/{name}.js" for name in ("mount", "options", "part", "record")]
    assert sorted([*(f"{name}/{name}.js" for name in folders), *shared]) == ENTRIES


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_needs_nothing_from_outside(entry):
    text = script(entry)
    assert not re.search(r"^import\b", text, re.MULTILINE)
    assert re.findall(r"^export .*?(?=\(|\{)", text, re.MULTILINE) in (
        ["export default component"],
        ["export default function "],
    )
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_a_module_that_two_others_import_is_there_once():
    found = modules(script("head_view/head_view.js"))
    assert found.count("page") == 1
    assert found.index("page") < found.index("tokens")


def test_a_library_brings_script_and_styles_and_draws_nothing():
    text = library("cells")
    assert re.findall(r"^export .*", text, re.MULTILINE) == [text.splitlines()[-1]]
    assert text.splitlines()[-1].startswith("export default () => { module")
    assert '.arrived("heedmap.cells", drawn_cells, styles)' in text.splitlines()[-1]
    assert "const drawn = component(" in text


def test_what_travels_with_numbers_is_short():
    assert max(len(script("shared/mount.js")), len(script("shared/options.js"))) < 800
    assert "//" not in script("shared/mount.js"), "comments are for readers of the file"


def test_every_module_is_used():
    used = {name for entry in ENTRIES for name in modules(script(entry))} | set(modules(library("cells")))
    others = [name for name in SCRIPTS if name not in ENTRIES]
    assert used == {name.rpartition("/")[2].removesuffix(".js") for name in others}


@pytest.mark.parametrize("name", SCRIPTS)
def test_text_never_becomes_markup_or_code(name):
    dangerous = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\("
    assert not re.search(dangerous, (HERE / name).read_text(encoding="utf-8"))


def test_the_style_fetches_nothing():
    assert "url(" not in stylesheet()
    assert "@import" not in stylesheet()


@pytest.fixture
def linked(tmp_path):
    """`linked({path: text})` writes modules and links `a/main.js`."""

    def link(texts):
        for name, text in texts.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        return script("a/main.js", tmp_path)

    return link


def test_paths_lead_across_folders_and_files_of_one_name_stay_apart(linked):
    text = linked(
        {
            "a/main.js": 'import { one } from "./same.js";\nimport {\n  two,\n} from "../b/same.js";\n'
            "\nexport default one + two;\n",
            "a/same.js": 'import { two } from "../b/same.js";\nexport const one = two - 1;\n',
            "b/same.js": "export const two = 2;\n",
        }
    )
    assert modules(text) == ["same", "same"]
    assert len(set(re.findall(r"^const (module\w+) = ", text, re.MULTILINE))) == 2
    assert text.count("const two = 2;") == 1
    assert text.endswith("export default one + two;\n")


GOOD = "export const one = 1;\n"


@pytest.mark.parametrize(
    ("main", "other", "message"),
    [
        ('import { one as two } from "./other.js";', GOOD, r"main.js: “import \{ one as two \}.* cannot be linked"),
        ('import * as all from "./other.js";', GOOD, "cannot be linked"),
        ('import one from "./other.js";', GOOD, "cannot be linked"),
        ('import "./other.js";', GOOD, "cannot be linked"),
        ('import { one } from "other";', GOOD, "cannot be linked"),
        ("import { one } from './other.js';", GOOD, "cannot be linked"),
        ('const late = () => import("./other.js");', GOOD, "cannot be linked"),
        ('import { one } from "./other.js";', "const one = 1;\nexport { one };\n", "other.js: “export {"),
        ('import { one } from "./other.js";', GOOD + "export default one;\n", "other.js: “export default one;”"),
        ('import { one } from "./other.js";', GOOD + "export let two = 2;\n", "other.js: “export let two"),
        ('import { one } from "./other.js";', GOOD + 'export { three } from "./three.js";\n', "other.js: “export {"),
        ('import { two } from "./other.js";', GOOD, "main.js imports two, which other.js does not export"),
        ('import { one } from "./gone.js";', GOOD, "main.js imports .*gone.js, which is not there"),
    ],
)
def test_what_cannot_be_linked_is_refused(linked, main, other, message):
    with pytest.raises(LinkError, match=message):
        linked({"a/main.js": f"{main}\nexport default 1;\n", "a/other.js": other})


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_circle_is_refused(linked, length):
    """Modules that import each other, or one that imports itself."""
    texts = {
        f"a/m{i}.js": f'import {{ m{(i + 1) % length} }} from "./m{(i + 1) % length}.js";\n' for i in range(length)
    }
    texts["a/main.js"] = 'import { m0 } from "./m0.js";\nexport default m0;\n'
    with pytest.raises(LinkError, match=r"circle \(main.js > m0.js > .*m0.js\)"):
        linked(texts)


def test_a_comment_may_speak_of_imports(linked):
    text = linked({"a/main.js": '// import x from "y"\n/**\n * {import("./z.js").Z}\n */\nexport default 1;\n'})
    assert "export default 1;" in text
