"""The map: every checkpoint that can be loaded is drawn whole, from its own numbers, and every part of it opens."""

import copy
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pandas as pd
import pytest
import torch

from heedmap import DecodingOptions, Translation, load, translate
from heedmap.explain.diagram import architecture
from heedmap.explain.flow import activity, scale, share, tracing, watch_flow
from heedmap.plots.axes import WORD_START
from heedmap.runs.any_model import run_any
from tests.checkpoint.huggingface.families import write_folder
from tests.checkpoint.references import REFERENCE, weights
from tests.pages.opening import address_of, fine, is_whole, matrix_sent, moved, opened, sent
from tests.pages.tiny import save_tiny
from ui.store import store, user_folder

ROOT = Path(__file__).parents[2]
SHIPPED = sorted(file.parent.name for file in (ROOT / "checkpoints").glob("*/config.json"))
NAME = "multi30k-en-de"
SENTENCE = "Two dogs are playing in the snow."
FAMILIES = ("marian", "gpt2", "llama")
DEEP = {"bert": 12, "tiny": 9}
"""Layers of those that are folded: of another library, and our own."""

FOREIGN = ("encoder-only", "jadore-emb")
LARGEST = 150_000
"""Bytes of a run."""


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders and files of other people's models, one of them deep."""
    place = tmp_path_factory.mktemp("mine")
    for family in FAMILIES:
        write_folder(place / family, family)
    write_folder(place / "bert", "bert", num_hidden_layers=DEEP["bert"])
    save_tiny(place, n_encoder_layers=DEEP["tiny"])
    for name in FOREIGN:
        shutil.copytree(REFERENCE / name, place / name, ignore=shutil.ignore_patterns("*.json", "expected*"))
    known = {"n_heads": 4, "scale_embedding": False}  # nothing can be answered on this page
    torch.save({"model": weights("encoder-only"), "args": known}, place / "encoder-only" / "model.pt")
    return place


@pytest.fixture(scope="module")
def run() -> Translation:
    """The shipped model's translation of the sentence, without the page."""
    return translate(load(ROOT / "checkpoints" / NAME), SENTENCE, DecodingOptions())


def traced(source: tuple[int, ...], *written: int) -> Any:
    """What the parts of the shipped model give, once it reads these ids and has written those."""
    model = load(ROOT / "checkpoints" / NAME).model
    twin = watch_flow(model)
    with torch.no_grad(), tracing() as seen:
        twin(torch.tensor([list(source)]), torch.tensor([[model.config.bos_id, *written]]))
    return seen


def names_of(header: dict[str, Any]) -> list[str]:
    """The names of the parts, which their facts end with."""
    return [part["facts"][-1].split(": ")[1] for part in header["parts"]]


def drawn(**address: str) -> tuple[Any, dict[str, Any], dict[str, np.ndarray]]:
    """The page at an address, and what its map was sent."""
    at = fine(opened("map", **address))
    header, arrays = sent(at, "map")
    return at, header, arrays


def as_table(at: Any) -> pd.DataFrame:
    """The map as a table, which is made once it is unfolded."""
    folded = len(at.dataframe)
    at.session_state["parts-open"] = True
    tables = fine(at.run()).dataframe
    assert len(tables) == folded + 1
    found: pd.DataFrame = tables[-1].value
    return found


def message(at: Any) -> bytes:
    """The bytes that the map was sent."""
    return next(bytes(part.proto.bytes) for part in at.get("bidi_component") if part.key == "map" and part.proto.bytes)


def stands(header: dict[str, Any]) -> list[int]:
    """The numbers of all parts that stand in the towers, in their order."""
    found = []
    for tower in header["towers"]:
        found.append(tower["reads"])
        for row in tower["rows"]:
            found += row["boxes"] if row["slim"] else [*row["before"], *row["boxes"], *row["sums"], *row["after"]]
    return found


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_checkpoint_is_drawn_whole(name: str) -> None:
    at, header, _ = drawn(model=name)
    diagram = architecture(load(ROOT / "checkpoints" / name).model)
    assert stands(header) == list(range(len(diagram.nodes)))
    assert sorted(names_of(header)) == sorted(node.name for node in diagram.nodes)
    assert f"{diagram.parameters:,}" in header["about"]
    assert len(message(at)) < LARGEST


@pytest.mark.parametrize("name", [*FAMILIES, *DEEP, *FOREIGN])
def test_other_peoples_models_are_drawn_whole_and_deep_ones_folded(
    name: str, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slim(header: dict[str, Any]) -> int:
        return sum(row["slim"] for row in header["towers"][0]["rows"])

    monkeypatch.setattr(user_folder, "own_folder", lambda: mine)
    at, header, _ = drawn(model=f"mine/{name}")
    model = load(mine / name).model
    diagram = architecture(model)
    assert stands(header) == list(range(len(diagram.nodes)))
    assert len(message(at)) < LARGEST
    deep = DEEP.get(name, 0)
    assert slim(header) == max(deep - 2, 0)
    assert bool(header["folds"]) == bool(deep)
    if name == "tiny":
        part = next(one.name for one in diagram.nodes if one.layer == "encoder.5" and one.kind == "attention")
        assert slim(drawn(model=f"mine/{name}", part=part)[1]) == deep - 3
        assert slim(drawn(model=f"mine/{name}", layers="all")[1]) == 0
    if name == "gpt2":  # what a whole layer adds, and the likeliest next token
        _, header, arrays = drawn(model="mine/gpt2", text="the dog runs.", word="dog")
        odds = torch.from_numpy(next(iter(run_any(load(mine / name), "the dog runs.").outputs.values()))[1])
        assert header["steps"]["next"][1][0][1] == pytest.approx(float(odds.double().softmax(-1).max()), abs=1e-4)
        first = next(values for key, values in arrays.items() if key.startswith("found"))
        layer = next(node.name for node in diagram.nodes if node.layer and node.kind == "other")
        table = drawn(model="mine/gpt2", text="the dog runs.", part=layer)[0].dataframe[0].value
        assert table.iloc[:, 3].tolist() == pytest.approx(first.tolist(), abs=1e-3)


def test_the_numbers_are_the_librarys(run: Translation) -> None:
    _, header, arrays = drawn(text=SENTENCE)
    seen, names = traced(run.source_ids, *run.target_ids[:-1]), names_of(header)
    sums = [i for i, part in enumerate(header["parts"]) if part["kind"] == "sum"]
    assert len(sums) == 4 * 2 + 4 * 3
    for i in sums:
        expected = share(seen, names[i])
        np.testing.assert_allclose(arrays[f"found{i}"], expected.found, rtol=1e-5)
        np.testing.assert_allclose(arrays[f"state{i}"], expected.state, rtol=1e-5)
    norm = names.index("decoder.3.cross_residual.norm")
    np.testing.assert_allclose(arrays[f"scale{norm}"], scale(seen, names[norm]), rtol=1e-5)
    rows = {names[row["boxes"][0]]: row for tower in header["towers"] for row in tower["rows"]}
    net = rows["encoder.2.feed_forward"]
    np.testing.assert_allclose(arrays[f"active{net['name']}"], activity(seen, "encoder.2.feed_forward").active)
    cross = rows["decoder.1.cross_attention"]
    weights = run.record["decoder.1.cross"].all_weights()
    np.testing.assert_array_equal(arrays[f"codes{cross['name']}"], np.rint(254 * weights).ravel())
    sure = arrays[f"sure{cross['name']}"].reshape(-1, 3)
    for query, (head, key, weight) in enumerate(sure):
        assert weights[:, query].max() == pytest.approx(weight)
        assert weights[int(head), query, int(key)] == pytest.approx(weight)
    assert header["steps"]["next"][2][0][1] == pytest.approx(run.steps[2].likeliest[0].probability, abs=1e-5)


SPLICE = "ATTCCTTTCAACTCTACCAACAAGTACCAGGTCTGCTTGGGTTGCCAGGACAGAGGAAGA"
"""A donor site whose class the model holds likeliest before its first layer, loses, and finds again."""


def test_a_class_has_one_probability_on_the_page_and_leads_since_the_last_change() -> None:
    at, header, _ = drawn(model="splice-junctions", text=SPLICE)
    checkpoint = load(ROOT / "checkpoints" / "splice-junctions")
    model: Any = copy.deepcopy(checkpoint.model).double()
    assert checkpoint.task is not None
    ids = torch.tensor([checkpoint.task.alphabet.ids(SPLICE)])
    rows, blocks = [], list(model.encoder)
    for count in range(len(blocks) + 1):
        model.encoder = torch.nn.ModuleList(blocks[:count])
        with torch.no_grad():
            logits = model(ids)[0].numpy() / checkpoint.task.temperature
        rows.append(np.exp(logits) / np.exp(logits).sum())
    top = [checkpoint.task.classes[int(row.argmax())] for row in rows]
    final = top[-1]
    said, by_layer = at.dataframe[0].value, at.dataframe[1].value
    assert list(by_layer.loc[range(len(rows)), "likeliest"]) == top
    np.testing.assert_allclose(by_layer.loc[range(len(rows)), "probability"], [row.max() for row in rows], rtol=1e-5)
    entropies = [-(row * np.log(row)).sum() for row in rows]
    np.testing.assert_allclose(by_layer.loc[range(len(rows)), "entropy"], entropies, rtol=1e-5)
    assert by_layer["probability"].loc[len(rows) - 1] == pytest.approx(said["probability"].max(), rel=1e-6)
    assert header["steps"]["next"][0][0][1] == pytest.approx(said["probability"].max(), abs=1e-5)
    since = max(i for i in range(len(rows)) if top[i] != final) + 1
    assert final in top[: since - 1], "it led before"
    told = [one.value for one in at.caption]
    assert f"“{final}” is the likeliest from layer {since - 1} on." in told
    assert "It was the likeliest earlier too (after: embedding), until another took the lead." in told


def test_an_action_draws_what_follows_from_it_and_the_map_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    before = message(drawn(text=SENTENCE)[0])
    at, *_ = drawn(text=SENTENCE, part="decoder.1.cross_attention", at_head="0")
    at.segmented_control(key="at_head").set_value("2")
    at = fine(moved(at, "at_head"))
    assert not is_whole(at)
    assert "head 2" in matrix_sent(at, "part-heatmap")[0]["title"]
    monkeypatch.setattr("ui.map.drawing._drawing", lambda *_: pytest.fail("the map is made anew"))
    at.button(key="close-part").click()
    at = fine(moved(at, "close-part"))
    assert not is_whole(at)
    assert message(at) == before
    assert "part" not in address_of(at)


@pytest.mark.parametrize(("page", "asks", "text"), [("map", "model", "text"), ("what_if", "model", "sequence")])
def test_a_sequence_that_is_too_long_here_leads_to_where_it_is_seen(page: str, asks: str, text: str) -> None:
    for count, carried in ((8_000, True), (16_384, False)):
        letters = "ACGTTGCA" * (count // 8)
        at = opened(page, **{asks: "splice-junctions", text: letters})
        (told,) = at.warning
        assert f"{count:,} letters, at most" in told.value
        link = next(one.proto for one in at.get("page_link") if "all of it" in one.proto.label)
        assert parse_qs(link.query_string).get("sequence") == ([letters] if carried else None)
    assert link.page == "sequences"


PARTS = {
    "encoder.1.self_attention": "heatmap", "decoder.2.feed_forward": "units above zero", "output": "probability",
    "decoder.0.cross_residual": "length of what is added", "encoder_norm": "multiplies by",
    "source_positions": "first numbers", "source_embedding": "nearest in the table", "source": "'id'",
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_a_part_opens_with_its_numbers_and_leads_on(part: str) -> None:
    at, _, _ = drawn(part=part)
    told = " ".join([*(one.value for one in at.caption), *(str(list(one.value)) for one in at.dataframe)])
    if PARTS[part] == "heatmap":
        matrix_sent(at, "part-heatmap")
    else:
        assert PARTS[part] in told
    at.button(key="close-part").click()
    assert "part" not in address_of(fine(at.run()))


def test_the_links_of_an_attention_are_set_to_this_sentence_and_head() -> None:
    at, _, _ = drawn(part="decoder.2.cross_attention", at_head="3", text=SENTENCE)
    links = {one.proto.label: one.proto.query_string for one in at.get("page_link") if "=" in one.proto.query_string}
    assert "kind=decoder.cross" in links["This head on Translate"]
    assert {"layer=2", "head=3"} <= set(links["This head on Translate"].split("&"))
    lesson = set(links["Attention, step by step"].split("&"))
    assert {"attention=cross", "at_layer=2", "at_head=3", "made=shipped"} <= lesson


def test_a_temperature_changes_the_second_column_and_decodes_nothing(
    run: Translation, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, _, _ = drawn(text=SENTENCE)
    monkeypatch.setattr("ui.store.runs.translate", lambda *_: pytest.fail("decoded again"))
    at.slider(key="temperature").set_value(2.0)
    at = fine(moved(at, "temperature"))
    assert not at.get("bidi_component")  # the map neither
    table = at.dataframe[0].value
    step = (len(run.steps) - 1) // 2
    before = np.array([one.probability for one in run.steps[step].likeliest])
    np.testing.assert_allclose(table["probability"], before, rtol=1e-4)
    ratio = table["at temperature 2.0"].to_numpy()
    np.testing.assert_allclose(ratio / ratio[0], np.sqrt(before / before[0]), rtol=1e-3)  # p^(1/T), up to their sum
    assert ratio.sum() < 1
    assert address_of(at)["temperature"] == "2.0"


def test_the_table_says_what_the_map_shows_and_an_example_is_taken_whole() -> None:
    at, header, arrays = drawn(text=SENTENCE, word="spielen")
    table, parts = as_table(at), header["parts"]
    assert list(table["part"]) == [part["title"] for part in parts]
    last = max(i for i, part in enumerate(parts) if part["kind"] == "sum")
    found, state = arrays[f"found{last}"][2], arrays[f"state{last}"][2]
    assert table["share"][last] == pytest.approx(found / (found + state), rel=1e-5)
    example = load(store.CHECKPOINTS / NAME).examples[1]
    at.menu_button(key="examples").click(example)
    assert address_of(fine(at.run())) == {"text": example}


def test_the_encoder_speaks_of_the_word_that_is_looked_at_most_or_was_clicked(run: Translation) -> None:
    """No mean is shown: a sum's share, and the detectors that fire, are those of one word."""
    step, lights = 1, np.zeros(len(run.source_ids))
    for layer in range(4):
        row = run.record[f"decoder.{layer}.cross"].all_weights()[:, step]
        lights[np.unravel_index(row.argmax(), row.shape)[1]] += row.max() / 4
    seen = traced(run.source_ids)
    expected = share(seen, "encoder.1.feed_forward_residual").share
    active = activity(seen, "encoder.1.feed_forward").active
    labels = [text.replace(WORD_START, "") for text in run.axes.source.texts]
    for clicked in (None, 0):
        address = {} if clicked is None else {"from": run.axes.source.texts[clicked]}
        chosen = int(lights.argmax()) if clicked is None else clicked
        at, header, _ = drawn(text=SENTENCE, word=run.axes.written.merged().labels[step], **address)
        number = names_of(header).index("encoder.1.feed_forward_residual")
        assert as_table(at)["share"][number] == pytest.approx(expected[chosen], rel=1e-5)
        at, header, _ = drawn(text=SENTENCE, word="Hunde", part="encoder.1.feed_forward", **address)
        size = load(ROOT / "checkpoints" / NAME).model.config.block.d_ff
        told = f"At “{labels[chosen]}”, {round(active[chosen] * size)} of {size} detectors fire."
        assert told in [one.value.replace("\\", "") for one in at.markdown]
    assert header["headline"] == "English goes in, German comes out: a Transformer writing “{word}”"


def test_the_source_word_whose_removal_costs_most_has_a_dotted_frame_in_a_short_sentence() -> None:
    """What was measured by hand: *einer* follows the gender of *Küche*, *in* its own word; the full stop needs none."""
    _, header, _ = drawn(text="Someone is cooking dinner in a small kitchen.")
    words = ["".join(header["towers"][0]["words"][at] for at in places) for places in header["steps"]["decided"]]
    found = dict(zip(header["steps"]["labels"], words, strict=True))
    assert found | {"in": "in", "einer": "kitchen", "ein": "dinner", "Küche": "kitchen", ".": "", "</s>": ""} == found
    assert "dotted frame" in header["legend"]
    _, header, _ = drawn(text=" ".join(["A man in a red hat looks at a small dog."] * 5))
    assert len(header["towers"][0]["words"]) > 40
    assert not header["steps"]["decided"]
    assert "at most 40 source tokens" in header["legend"]
    assert "dotted frame" not in header["legend"]
