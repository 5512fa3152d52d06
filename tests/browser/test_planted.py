"""Whatever a file, a name or an address says, the reader's browser asks no other server and shows no foreign link.

An image and a link are planted wherever one of them can reach; a listener counts who comes. The content policy, which
would stop a request on its way, is left out here. What others wrote is shown letter by letter, wherever Markdown is.
"""

import json
import re
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote, urlencode

import pytest
import torch
from playwright.sync_api import Browser, BrowserContext, Page, expect
from safetensors.torch import save_file

from tests.browser.hostile import TEXTS as HOSTILE
from tests.browser.hostile import planted, planted_name
from tests.browser.visiting import ROOT, Visit, start_server, until
from tests.checkpoint.huggingface.families import write_folder
from tests.checkpoint.originals.drawn import annotated_weights
from tests.pages.tiny import save_tiny
from tests.waiting import PATIENCE
from ui.texts import JOINER

pytestmark = pytest.mark.browser
FOREIGN = """own => {
  const leadsAway = to => !/^(data|blob):/.test(to) && new URL(to, document.baseURI).origin !== own;
  const found = [], look = root => {
    for (const element of root.querySelectorAll("*")) {
      if (element.shadowRoot) look(element.shadowRoot);
      const to = element.getAttribute("href") ?? element.getAttribute("xlink:href") ?? element.getAttribute("src");
      if (element.closest("[data-testid=stMarkdownContainer], [data-testid=stCaptionContainer]")
          && element.matches("img, a:not(.heedmap-term), iframe, object, embed, video, audio"))
        found.push(element.outerHTML);
      else if (to && leadsAway(to)) found.push(element.outerHTML);
    }
  };
  look(document);
  return found.map(text => text.slice(0, 300));
}"""
UNFOLD = (
    "() => document.querySelectorAll('[data-testid=stExpander] details:not([open]) summary').forEach(s => s.click())"
)
HELP = """() => [...document.querySelectorAll("[data-testid=stMain] [data-testid=stTooltipHoverTarget]")]
  .map(target => [target, target.getBoundingClientRect()])
  .map(([target, box]) => [target, box.left + box.width / 2, box.top + box.height / 2])
  .filter(([target, x, y]) => target.contains(document.elementFromPoint(x, y))).map(([, ...place]) => place)"""
"""Places at which a tooltip opens, where nothing lies over them."""
HF = ("model_type", "architectures", "hidden_act")
"""Strings of a Hugging Face config that are planted, each in a copy of its own."""

SOURCES = [file.read_text("utf-8") for file in [*(ROOT / "ui").rglob("*.py"), *(ROOT / "pages").glob("*.py")]]
KEYS = {key for text in SOURCES for key in re.findall(r'key="([a-z][a-z.-]*)"', text)} | {
    "lang", "text", "force", "sequence", "cell", "pair", "mark", "moment", "model", "node", "step", "draw", "word",
    "piece", "part", "at_word", "layers", "also", "by", "colour", "do", "donor", "example", "head", "heads", "kind",
    "map", "measure", "patch", "patch-heads", "screen", "site", "sweep", "tau", "written",
}  # fmt: skip
TEXTS = {
    "": ("text", "part"), "translate": ("text", "force"), "align": ("text", "force"), "sequences": ("sequence",),
    "your_model": ("token",),
    "what_if": ("text", "force", "do", "donor"), "atlas": ("kind",), "attention_steps": ("source", "target"),
    "inside_layer": ("text", "target"),
    "masks": ("sources", "targets"), "positions": ("text",),
}  # fmt: skip


@pytest.fixture(scope="module")
def listener() -> Iterator[tuple[str, list[str]]]:
    """A server's host and port, and every path that it was asked for."""
    asked: list[str] = []

    class Counting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Counting)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def own_checkpoints(folder: Path, host: str) -> None:
    """A folder of checkpoints whose every string is planted."""
    names = {what: planted_name(host, what) for what in ("folder", "classes", "tensors", "words", "bert", "broken")}
    folder.mkdir()
    save_tiny(folder)
    translator = (folder / "tiny").rename(folder / names["folder"])
    (translator / "CARD.md").write_text(planted(host, "card"))
    (translator / "examples.json").write_text(json.dumps([f"two dogs {planted(host, 'example')}"]))
    rewrite(translator / "config.json", {"languages": [planted(host, "from"), planted(host, "to")]})
    classifier = folder / names["classes"]
    shutil.copytree(ROOT / "checkpoints" / "splice-junctions", classifier)
    config = json.loads((classifier / "config.json").read_text())
    known = config["task"]["classes"]
    config["task"]["classes"] = [f"{name}{planted(host, f'class-{name}')}" for name in known]
    config["task"]["meanings"] = {name: planted(host, "meaning") for name in config["task"]["classes"]}
    for mark, name in zip(config["task"]["landmarks"], config["task"]["classes"], strict=False):
        mark |= {"label": name, "name": planted(host, "landmark")}
    (classifier / "config.json").write_text(json.dumps(config))
    examples = json.loads((classifier / "examples.json").read_text())
    headers = [text.replace(" ", f"{planted(host, 'header')} ", 1) for text in examples if isinstance(text, str)]
    change = {"text": headers[1], "change": "pooling~uniform", "name": {"en": planted(host, "change")}}
    (classifier / "examples.json").write_text(json.dumps([*headers, change]))
    torch.manual_seed(7)
    state = annotated_weights()
    odd = {planted(host, "nan"): torch.tensor([float("nan"), 1.0]), planted(host, "odd"): torch.ones(3)}
    odd[planted(host, "tied")] = odd[planted(host, "odd")]
    torch.save({**state, **odd}, folder / f"{names['tensors']}.pt")
    save_file({planted(host, "only"): torch.ones(2, 3)}, folder / f"{names['broken']}.safetensors")
    (folder / f"{names['broken']}.bin").write_bytes(b"nothing")
    worded = folder / names["words"]
    worded.mkdir()
    torch.save({"model": state, "args": {"n_heads": 3}}, worded / "model.pt")
    rows = [planted(host, f"token-{i}").replace(" ", "_") for i in range(23)]
    (worded / f"{planted_name(host, 'vocab')}vocab.txt").write_text("\n".join(rows))
    write_folder(folder / names["bert"], "bert")
    for what in HF:
        copy = folder / f"{names['bert']}{what}"
        shutil.copytree(folder / names["bert"], copy)
        rewrite(copy / "config.json", {what: [planted(host, what)] if what == "architectures" else planted(host, what)})
    (folder / f"{planted_name(host, 'link')}.pt").symlink_to(ROOT / "README.md")


def rewrite(path: Path, changes: dict[str, object]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


class Walk:
    """One window that goes from page to page, opens what is folded up, and looks at what is there."""

    def __init__(self, page: Page, address: str, host: str) -> None:
        self.page = page
        self.page.set_default_timeout(PATIENCE * 1000)
        self.visit, self.address, self.host = Visit(self.page), address, host
        self.found: list[str] = []
        self.seen = 0
        """How often a planted text was there to be read."""

    def load(self, page: str, **query: str) -> None:
        """Visit an address anew and look; a run that the last page asked for late is none of this one's."""
        self.page.goto("about:blank")
        with self.visit.run():
            self.page.goto(f"{self.address}/{page}?{urlencode(query, quote_via=quote)}")
        self.look()

    def go(self, page: str, told: bool = False, **query: str) -> None:
        """Go on to an address and look; `told` waits until it says what is planted."""
        self.visit.move(f"{self.address}/{page}?{urlencode(query, quote_via=quote)}")
        if told:
            expect(self.page.get_by_test_id("stMain")).to_contain_text(self.host)
        self.look()

    def look(self) -> None:
        """Open tooltips and folds, then count foreign elements and planted texts."""
        self.visit.idle()
        self.page.evaluate(UNFOLD)
        for place in self.page.evaluate(HELP)[:3]:
            self.page.mouse.move(*place)
            self.page.wait_for_timeout(80)
            self.visit.idle()
        self.found += self.page.evaluate(FOREIGN, self.address)
        self.seen += (self.page.locator("body").text_content() or "").count(self.host)  # cells of tables too

    def bring(self, *files: Path, told: bool = True, uploader: int = 0) -> None:
        """Give files to an uploader, and look at what the page says; `told` waits for it to name what is planted."""
        with self.visit.run():
            self.page.locator("input[type=file]").nth(uploader).set_input_files([str(file) for file in files])
        if told:
            expect(self.page.locator("body")).to_contain_text(self.host, timeout=PATIENCE * 1000)
        self.look()


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory, listener: tuple[str, list[str]]) -> Iterator[tuple[str, Path]]:
    """The address of a dashboard whose own folder is planted, and that folder."""
    folder = tmp_path_factory.mktemp("planted") / "mine"
    own_checkpoints(folder, listener[0])
    server, address = start_server(ROOT / "app.py", folder.parent / "app.log", HEEDMAP_CHECKPOINTS=str(folder))
    yield address, folder
    server.terminate()
    server.wait(timeout=PATIENCE)


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[BrowserContext]:
    """A window that keeps the app's scripts between tests."""
    with browser.new_context(bypass_csp=True, viewport={"width": 1400, "height": 1000}) as window:
        yield window


@pytest.fixture(scope="module")
def opened(window: BrowserContext, dashboard: tuple[str, Path], listener: tuple[str, list[str]]) -> Iterator[Walk]:
    """The planted dashboard, opened once: to load its scripts takes longer than to look at a page."""
    with window.new_page() as page:
        walk = Walk(page, dashboard[0], listener[0])
        walk.load("positions", screen="rotation")
        yield walk


@pytest.fixture
def walk(opened: Walk, listener: tuple[str, list[str]]) -> Iterator[Walk]:
    """The planted dashboard, from which nobody else may be asked."""
    opened.seen = 0
    yield opened
    found, asked = opened.found.copy(), listener[1].copy()
    opened.found.clear()
    listener[1].clear()
    assert found == []
    assert asked == []


@pytest.fixture
def mine(dashboard: tuple[str, Path]) -> dict[str, str]:
    """The dashboard's names for the planted checkpoints, by what they are."""
    names = [path.name for path in dashboard[1].iterdir() if not path.is_symlink()]
    return {name.rpartition("[")[2].replace("](x)", ""): f"mine/{name}" for name in names}


@pytest.mark.parametrize("page", TEXTS)
def test_every_parameter_of_an_address(walk: Walk, page: str) -> None:
    texts = TEXTS[page]
    walk.go(page, **{key: planted(walk.host, key) for key in sorted(KEYS) if key not in texts})
    walk.go(page, **{key: planted(walk.host, key) for key in texts})


def test_what_is_typed_and_refused(walk: Walk) -> None:
    walk.go("masks", sources=f"{planted(walk.host, 'many')} {'a ' * 41}", targets="x")
    walk.go("sequences", sequence=f">{planted(walk.host, 'header')} EI\n{'ACGT' * 12}")
    walk.go("sequences", sequence=f"ACGT{planted(walk.host, 'letters')}")
    walk.go("learning", text="two dogs run", force=planted(walk.host, "forced"), screen="lesson")
    before = walk.seen
    walk.go("what_if", do=f"{planted(walk.host, 'site').replace('~', '-')}~mean~h0")
    walk.go("what_if", do=planted(walk.host, "change"))
    walk.go("atlas", screen="head", kind=planted(walk.host, "head"), head=planted(walk.host, "number"))
    assert before > 3
    assert walk.seen > before + 1


BROKEN = ("broken.bin", "broken.safetensors")
VISITS = [
    *(("your_model", {"model": name, "show": "attention"}) for name in ("folder", "tensors.pt", "classes", "words")),
    *(("your_model", {"model": f"bert{key}", "show": "attention"}) for key in HF),
    *(("your_model", {"model": name, "show": "tensors"}) for name in ("folder", "tensors.pt", *BROKEN)),
    ("", {"model": "folder", "lang": "zh"}), ("", {"model": "classes"}), ("translate", {"model": "folder"}),
    ("translate", {"model": "folder", "view": "downloads", "lang": "zh"}), ("what_if", {"model": "folder"}),
    ("align", {"model": "folder"}), ("learning", {"learner": "folder", "screen": "lesson"}),
    ("align", {"model": "folder", "screen": "downloads"}), ("sequences", {"model": "classes"}),
    ("sequences", {"model": "classes", "view": "windows", "lang": "zh"}),
    ("attention_steps", {"made": "shipped", "source": "folder", "model": "folder"}),
    ("inside_layer", {"made": "shipped", "stage": "output", "model": "folder"}),
    ("masks", {"screen": "test", "tested": "folder", "model": "folder"}),
    ("positions", {"made": "shipped", "model": "folder"}),
]  # fmt: skip
"""Where planted checkpoints are shown; the page of checkpoints says what is planted."""


@pytest.mark.parametrize(("page", "query"), VISITS)
def test_planted_checkpoints(walk: Walk, mine: dict[str, str], page: str, query: dict[str, str]) -> None:
    walk.go(page, told=page == "your_model", **{key: mine.get(value, value) for key, value in query.items()})


def test_files_that_are_brought(walk: Walk, mine: dict[str, str], dashboard: tuple[str, Path]) -> None:
    walk.load("your_model", show="tensors")
    for what in ("tensors.pt", "broken.bin", "broken.safetensors", "words"):
        before, path = walk.seen, dashboard[1] / mine[what].removeprefix("mine/")
        walk.bring(*(path.iterdir() if path.is_dir() else [path]))
        assert walk.seen > before, what


def test_sequences_that_are_brought(walk: Walk, tmp_path: Path) -> None:
    fasta = tmp_path / f"{planted_name(walk.host, 'fasta')}.fa"
    header, bad = planted(walk.host, "record"), planted(walk.host, "bad")
    fasta.write_text(f">{header} EI\n{'ACGT' * 15}\n>{bad}\nACG!\n")
    before = walk.seen
    walk.load("sequences")
    walk.page.locator(".st-key-bring-sequence button").first.click()
    walk.bring(fasta, told=False)
    walk.page.keyboard.press("Escape")
    walk.page.locator(".st-key-sequence-row [data-testid=stSelectbox] input").click()
    second = walk.page.get_by_role("option").nth(1)
    expect(second).to_contain_text(walk.host)
    walk.look()
    with walk.visit.run():
        second.click()
    expect(walk.page.get_by_test_id("stMain")).to_contain_text("'!'")
    walk.look()
    assert walk.seen > before


PLACES = ("markdown", "middle", "bold", "message", "label", "title", "segment", "expander", "metric", "code")
BOXES = "[data-testid=stMarkdownContainer], [data-testid=stCaptionContainer]"
LETTERS = """([place, boxes]) => [...document.querySelectorAll(`[class*='st-key-${place}-']`)]
  .sort((a, b) => Number(a.className.match(/-(\\d+)/)[1]) - Number(b.className.match(/-(\\d+)/)[1]))
  .map(box => [...box.querySelectorAll(boxes)].map(text => text.textContent))"""


def letters(text: str) -> str:
    """What a reader sees of a text: white space in one piece, and no word joiners."""
    return re.sub(r"\s+", " ", text.replace(JOINER, "")).strip()


def test_every_text_is_shown_as_it_is_and_nothing_comes_of_it(serve, visit) -> None:
    here = visit(f"{serve(ROOT / 'tests' / 'browser' / 'pages' / 'markdown.py')}/")
    page = here.page
    for place in PLACES:
        expect(page.locator(f".st-key-{place}-{len(HOSTILE) - 1}").locator(BOXES).last).to_be_attached()
    here.at_rest()  # what turns names into emoji and formulas is loaded late

    def every_text() -> None:
        wrong = []
        for place in PLACES:
            found = page.evaluate(LETTERS, [place, BOXES])
            assert len(found) == len(HOSTILE)
            for text, seen in zip(HOSTILE, found, strict=True):
                said = letters(text.replace("`", "'") if place == "code" else text)
                said = f"before {said} after" if place == "middle" else said
                if said not in map(letters, seen):
                    wrong.append((place, said, seen))
        assert wrong == []
        for place, read in (("list", "input"), ("plain", "[data-testid=stText]")):
            boxes = page.locator(f"[class*='st-key-{place}-'] {read}")
            seen = boxes.evaluate_all("boxes => boxes.map(box => box.value ?? box.innerText)")
            assert ["".join(text.split()) for text in seen] == ["".join(text.split()) for text in HOSTILE]

    until(page, every_text)
    boxes = page.locator(BOXES)
    assert boxes.locator("img, a, em, del, .katex, h1, ul, ol, blockquote, hr, table, input").count() == 0
