"""What a folder of ours says of itself may be anything: each wrong word is refused with its file, its key and why."""

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from heedmap import load
from heedmap.checkpoint.load import convert
from heedmap.checkpoint.ours.folder import described_architecture
from heedmap.errors import CheckpointError, ConfigError
from heedmap.sequences.task import SequenceTask
from tests.checkpoint.references import REFERENCE, heads
from tests.fuzzing import other_json
from tests.imports import ROOT

SHIPPED = ROOT / "checkpoints"
FAMILIES = {"kmer": None, "recurrent": "rnn-tutorial-1", "seq2seq": "torch-prenorm", "encoder": "encoder-only"}
"""Each with the foreign file that a small folder is made from; the classifier is the shipped one, for its task."""

TASK = json.loads((SHIPPED / "splice-junctions" / "config.json").read_text(encoding="utf-8"))["task"]
MUTANTS = 100
HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 7, 1.5, -0.0, 10**18, -(10**18), 10**400, float("nan"), float("inf"), "", "x", "A", "7",
    "\ud800".encode("utf-16", "surrogatepass").decode("utf-16", "replace"), "![x](http://x)", "y" * 5000, [], {}, [7],
    ["x"], ["x", "x"], [["x", "y"]], [None], {"x": 7}, {"": ""}, {"x": {"x": []}}, {"A": "T", "T": "AA"},
    [[[[[]]]]], [0] * 3000, ["EI", "IE"], ["EI", "IE", "N", "M"], {"label": 1},
)  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One folder of each family, without what a wrong word could not spoil."""
    made = {}
    for family, name in FAMILIES.items():
        path = tmp_path_factory.mktemp(family) / "ours"
        if name is not None:
            convert(REFERENCE / name, path, **heads(name))
        else:
            path.mkdir()
            for file in ("config.json", "model.safetensors"):
                shutil.copy(SHIPPED / "splice-junctions" / file, path / file)
        (path / "examples.json").write_text(json.dumps(["a", "b"]), encoding="utf-8")
        made[family] = path
    return made


@pytest.fixture
def ours(folders: dict[str, Path], tmp_path: Path) -> Path:
    """A folder of the classifier that may be spoiled."""
    return Path(shutil.copytree(folders["kmer"], tmp_path / "ours"))


def described(folder: Path, **changes: Any) -> None:
    """Write its config with other values."""
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | changes), encoding="utf-8")


@pytest.mark.parametrize("file", ["config.json", "examples.json"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_wrong_description_is_refused_by_name_or_harmless(family, file, folders, tmp_path):
    folder = tmp_path / "ours"
    shutil.copytree(folders[family], folder)
    about, draw = json.loads((folder / file).read_text(encoding="utf-8")), random.Random(family + file)
    refused = 0
    for _ in range(MUTANTS if file == "config.json" else 30):
        (folder / file).write_text(json.dumps(other_json(draw, about, HOSTILE)), encoding="utf-8")
        found, said = None, ""
        try:
            found = load(folder)
        except CheckpointError as error:
            said = str(error)
        if found is not None and found.left_out:
            (said,), found = found.left_out, None
        if found is None:
            refused += 1
            assert said.startswith("ours/"), said
            assert len(said) < 2000
            continue
        assert all(isinstance(text, str) for text in (*found.languages, *found.examples))
        if found.task is not None:
            found.task.alphabet.read(found.task.alphabet.letters.upper())
    assert refused > (MUTANTS // 3 if file == "config.json" else 10)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("languages", 7, r"ours/config\.json is refused: its `languages` \(int\)"),
        ("languages", ["English"], "are not the names of two languages"),
        ("languages", ["English", 7], "are not the names of two languages"),
        ("languages", {"a": "b"}, "are not the names of two languages"),
        ("task", 7, r"ours/config\.json is refused: task=7"),
        ("assumed", 7, "`assumed` is no list of assumptions"),
        ("assumed", [{"code": "refused", "source": "a"}], "`assumed` is no list of assumptions"),
        ("assumed", [{"code": "assumed", "name": "norm_first", "default": {}}], "`assumed` is no list of assumptions"),
        ("assumed", [{"code": "assumed", "name": "norm_first", "default": "a" * 1_001}], "no list of assumptions"),
        ("task", TASK | {"classes": ["EI", "N"]}, "its task has 2 classes and 5 ids, its model 3 and 5"),
        ("task", {}, "task is not complete: it needs `alphabet`, `classes`, `length`"),
    ],
)
def test_a_wrong_word_is_named(key, value, message, ours):
    described(ours, **{key: value})
    with pytest.raises(CheckpointError, match=message):
        load(ours)


@pytest.mark.parametrize(
    "found",
    [7, "text", {"a": "b"}, [7], [["a"]], None, [None], [{"text": 7}], [{"text": "a", "name": "b"}], [{"name": {}}],
     [{"text": "a", "change": 7}], [{"text": "a", "donor": "b"}], [{"change": "pooling~zero"}]],
)  # fmt: skip
def test_examples_that_are_no_texts_are_named_and_alone_left_out(found, ours):
    (ours / "examples.json").write_text(json.dumps(found), encoding="utf-8")
    assert_left_out(ours, r"ours/examples\.json is refused: it is no list of texts.* runs, without its examples")


@pytest.mark.parametrize("data", [b'["a", "b', b"", b"\xff", b"[" * 100_000])
def test_a_file_of_examples_that_is_cut_costs_the_examples_alone(data, ours):
    (ours / "examples.json").write_bytes(data)
    assert_left_out(ours, r"ours/examples\.json is refused")


def assert_left_out(folder, said):
    found = load(folder)
    assert (found.examples, found.changed_examples) == ((), ())
    assert re.search(said, str(*found.left_out))


@pytest.mark.parametrize("value", [None, 7, [], [["x"]], {"x": 7}, float("nan"), True, 10**400])
@pytest.mark.parametrize("key", list(TASK["alphabet"]))
def test_every_field_of_an_alphabet_is_checked(key, value):
    alphabet = {**TASK["alphabet"], key: value}
    with pytest.raises(ConfigError, match=rf"task\.alphabet\.{key}"):
        SequenceTask.of({**TASK, "alphabet": alphabet})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alphabet": 7}, "task.alphabet=7 is wrong"),
        ({"alphabet": {**TASK["alphabet"], "aliases": {"UU": "T"}}}, "one character for each code"),
        ({"alphabet": {**TASK["alphabet"], "complement": {"A": "TT"}}}, "one character for each code"),
        ({"alphabet": {**TASK["alphabet"], "aliases": {"U": "?"}}}, "letters or codes of the alphabet"),
        ({"classes": "EI"}, "task.classes='EI' is wrong"),
        ({"classes": ["EI", 7]}, "task.classes=7"),
        ({"length": "60"}, "task.length='60'"),
        ({"length": True}, "task.length=True"),
        ({"length": 0}, "task.length=0"),
        ({"temperature": "1"}, "task.temperature='1'"),
        ({"temperature": float("nan")}, "task.temperature=nan"),
        ({"temperature": -1}, "temperature=-1"),
        ({"meanings": ["x"]}, "task.meanings=a list of 1"),
        ({"meanings": {"EI": 7}}, "task.meanings.EI=7"),
        ({"landmarks": {}}, "task.landmarks=a table of 0"),
        ({"landmarks": [7]}, "task.landmarks=7"),
        ({"landmarks": [{"label": "EI"}]}, "task.landmarks is not complete"),
        ({"landmarks": [{**TASK["landmarks"][0], "start": 10**9}]}, "task.landmarks.start=1000000000"),
        ({"translations": {"zh": 7}}, "task.translations.zh=7"),
        ({"translations": {"zh": {"neither": 7}}}, "task.translations.zh.neither=7"),
        ({"colour": "blue"}, "task holds 'colour'"),
    ],
)
def test_every_field_of_a_task_is_checked(change, message):
    with pytest.raises(ConfigError) as refused:
        SequenceTask.of({**TASK, **change})
    assert message in str(refused.value)


@pytest.mark.parametrize("name", ["splice-junctions", "core-promoters"])
def test_shipped_tasks_say_everything_in_chinese(name):
    task = SequenceTask.of(json.loads((SHIPPED / name / "config.json").read_text(encoding="utf-8"))["task"])
    written = {*task.meanings.values(), *(mark.name for mark in task.landmarks)}
    assert task.translations["zh"].keys() == written


@pytest.mark.parametrize("data", [b"\xff\xfe{", b"[" * 10_000, b"7", b"", b'{"architecture": ["kmer"]}', b'{"x": 1}'])
def test_an_architecture_that_cannot_be_read_is_named(data, tmp_path):
    folder = tmp_path / "ours"
    folder.mkdir()
    (folder / "config.json").write_bytes(data)
    with pytest.raises(CheckpointError, match=r"ours/config\.json is refused"):
        described_architecture(folder)


def test_examples_may_be_named(ours):
    changed = {"text": "d", "change": "pooling~zero", "name": {"en": "D"}}
    entries = ["a", {"text": "b", "name": {"en": "B", "zh": "乙"}}, {"text": "c"}]
    entries += [changed, {"text": "a", "change": "x", "donor": "b"}]
    (ours / "examples.json").write_text(json.dumps(entries), encoding="utf-8")
    found = load(ours)
    assert found.examples == ("a", "b", "c")
    assert found.example_names == {"b": {"en": "B", "zh": "乙"}}
    assert [(one.text, one.change, one.donor, one.names) for one in found.changed_examples] == [
        ("d", "pooling~zero", "", {"en": "D"}), ("a", "x", "b", {}),
    ]  # fmt: skip
