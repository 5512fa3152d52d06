"""Modules become one script, and what is written in another form than the linker knows is refused."""

import re

import pytest

from transformer.plots.canvas.linker import LinkError, script


def modules(text):
    """The names of the modules in a linked script, in order."""
    return re.findall(r"^const module\d+_(\w+) = ", text, re.MULTILINE)


@pytest.fixture
def linked(tmp_path):
    """`linked({path: text})` writes modules and links `a/main.js`."""

    def link(texts):
        for name, text in texts.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        return script(tmp_path / "a" / "main.js")

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
