"""Models of one text: heads of classes and words by name; a decoder writes on, an encoder fills gaps; their address."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from streamlit.testing.v1 import AppTest

from heedmap import Continuation, ContinueOptions, Intervention, continue_text, fill, intervening, load, run_any
from heedmap.attention.interventions.value import from_text, to_text
from heedmap.checkpoint.huggingface.library import quiet
from heedmap.checkpoint.ours.folder import save_folder
from heedmap.nn.stacks import Decoder, DecoderConfig
from heedmap.runs.what_if import logit_effects, read_under
from heedmap.safe import zips
from tests.checkpoint.huggingface.families import (
    CONFIGS,
    random_model,
    write_bert_tokenizer,
    write_folder,
    write_gpt2_tokenizer,
)
from tests.pages.opening import (
    address_of,
    bars_of,
    brought,
    chosen,
    fine,
    head_shown,
    is_whole,
    matrix_sent,
    moved,
    opened,
    pressed,
    put,
    said,
    sent,
    stopped_at_once,
    table,
)
from tests.pages.tiny import tiny_tokenizer
from tests.safe.hostile import zip_of
from ui.map import shown as map_runs
from ui.shared.subject import word_at
from ui.store import runs, store, user_folder
from ui.store.upload_guard import LEDGER

TEXT, READ = "the dog runs.", "two dogs run"
GAP, GAPS = "the dog runs and the cat [MASK].", "the [MASK] runs and the cat [MASK]."
DRAWN = ContinueOptions(6, temperature=1.4, top_k=7, seed=3)
HOW = {"more": "6", "way": "draw", "temperature": "1.4", "top-k": "7", "seed": "3"}
LABELS = {0: "sad", 1: "so *so*", 2: "glad"}
NAMED: dict[str, Any] = dict(id2label=LABELS, label2id={word: i for i, word in LABELS.items()}, pad_token_id=0)
ONE_NUMBER = dict(id2label={0: "stars"}, label2id={"stars": 0}, pad_token_id=0)
HEADS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "classes": ("SequenceClassification", "Bert", NAMED),
    "many": ("SequenceClassification", "Bert", NAMED | dict(problem_type="multi_label_classification")),
    "number": ("SequenceClassification", "Bert", ONE_NUMBER),
    "tokens": ("TokenClassification", "Bert", NAMED),
    "words": ("MaskedLM", "Bert", dict(vocab_size=30, pad_token_id=0)),
    "decoder": ("SequenceClassification", "GPT2", NAMED),
    "answers": ("QuestionAnswering", "Bert", {}),
}
"""By name: the head of the library's class, its family, and what its config says of the head."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("mine")
    for family in ("gpt2", "llama"):
        write_folder(place / family, family)
    write_folder(place / "bert", "bert", vocab_size=30)  # as many words as its tokenizer knows
    torch.manual_seed(2)
    tokenizer = tiny_tokenizer()
    model = Decoder(DecoderConfig.of(vocab=len(tokenizer), d_model=9, n_heads=3, d_ff=7, n_layers=2, max_length=40))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.8)
    save_folder(place / "writer", "decoder", model, tokenizer, examples=(READ,), half=False)  # of our own definition
    with quiet():
        for name, (head, family, options) in HEADS.items():
            sizes = CONFIGS[family.lower()][1] | options
            random_model(f"{family}For{head}", sizes, seed=3).save_pretrained(place / name)
            (write_gpt2_tokenizer if family == "GPT2" else write_bert_tokenizer)(place / name)
    return place


@pytest.fixture(autouse=True)
def _own(shipped: None, folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_folder, "own_folder", lambda: folders)


def expected(folders: Path, name: str) -> np.ndarray:
    """What the library's own model says of the text, in double precision."""
    with quiet():
        net = getattr(transformers, f"AutoModelFor{HEADS[name][0]}").from_pretrained(folders / name).eval().double()
    ids = torch.tensor([list(run_any(load(folders / name), TEXT).ids)])
    with torch.inference_mode():
        found: np.ndarray = net(input_ids=ids).logits[0].numpy()
    return found


def softmax(logits: np.ndarray) -> np.ndarray:
    odds: np.ndarray = np.exp(logits - logits.max(-1, keepdims=True))
    return odds / odds.sum(-1, keepdims=True)


def looked_at(name: str) -> tuple[AppTest, AppTest, AppTest]:
    """The pages Your model, Map and What if with the text."""
    do = f"{'decoder' if name == 'decoder' else 'encoder'}.0.self~zero~h1"
    first, second, third = (
        fine(opened(page, model=f"mine/{name}", **address))
        for page, address in (
            ("your_model", {"input": TEXT}), ("map", {"text": TEXT}), ("what_if", {"text": TEXT, "do": do})
        )
    )  # fmt: skip
    return first, second, third


@pytest.mark.parametrize("name", ["many", "decoder"])
def test_classes_of_a_text(folders: Path, name: str) -> None:
    logits = expected(folders, name)
    odds = 1 / (1 + np.exp(-logits)) if name == "many" else softmax(logits)
    checkpoints, of_map, what_if = looked_at(name)
    np.testing.assert_allclose(table(checkpoints, *LABELS.values()).iloc[0], odds, atol=1e-5)
    if name == "many":
        assert "\\[CLS\\] … \\[SEP\\]" in said(checkpoints)
    found = table(of_map, "output", "probability")
    assert list(found["output"]) == [LABELS[i] for i in np.argsort(-odds)]
    np.testing.assert_allclose(found["probability"], np.sort(odds)[::-1], atol=1e-5)
    found = table(what_if, "class", "before", "now")
    assert list(found["class"]) == list(LABELS.values())
    np.testing.assert_allclose(found["before"], odds, atol=1e-5)


def test_a_number_is_no_probability(folders: Path) -> None:
    stars = float(expected(folders, "number")[0])
    checkpoints, of_map, what_if = looked_at("number")
    for page in (checkpoints, of_map):
        assert float(table(page, "stars")["stars"][0]) == pytest.approx(stars, abs=1e-5)
        assert "no probabilities" in said(page)
    name, was, now, difference = table(what_if, "number", "difference").iloc[0]
    assert (name, was) == ("stars", pytest.approx(stars, abs=1e-5))
    assert difference == pytest.approx(now - was, abs=1e-6)


def test_classes_of_tokens(folders: Path) -> None:
    odds = softmax(expected(folders, "tokens"))
    checkpoints, of_map, what_if = looked_at("tokens")
    found = table(checkpoints, "class", "probability")
    assert list(found["class"]) == [LABELS[i] for i in odds.argmax(-1)]
    np.testing.assert_allclose(found["p(glad)"], odds[:, 2], atol=1e-5)
    last = table(of_map, "output", "probability")
    np.testing.assert_allclose(last["probability"], np.sort(odds[-1])[::-1], atol=1e-5)
    drawn = [row.name for row in bars_of(what_if, "effects")]
    assert all(name.endswith(f"→ {LABELS[i]}") for name, i in zip(drawn, odds.argmax(-1), strict=True))


def test_words_that_fill_a_place(folders: Path) -> None:
    """Each position has its own words on the map; what a change does to them is followed on What if."""
    odds = softmax(expected(folders, "words"))
    _, of_map, what_if = looked_at("words")
    np.testing.assert_allclose(table(of_map, "output")["probability"], np.sort(odds[-1])[::-1][:10], atol=1e-5)
    assert "stands beside its layers" in said(of_map)
    assert "would put here" in said(of_map)
    assert "At each position" in said(what_if)


def test_a_head_that_is_not_shown_is_named(folders: Path) -> None:
    assert any("BertForQuestionAnswering" in str(one) for one in load(folders / "answers").assumptions)


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where archives are unpacked: nothing is there at first."""
    place = tmp_path / "memory"
    place.mkdir()
    monkeypatch.setattr(zips, "MEMORY", place)
    gc.collect()  # what tests before this one let go of
    return place


def continued(*changes: Intervention) -> Continuation:
    with intervening(changes):
        return continue_text(store.checkpoint("mine/llama"), TEXT, DRAWN)


def assert_likeliest(shown: Any, likeliest: Any) -> None:
    """A table's probabilities are those of a step, and so are the chances that it is drawn with."""
    np.testing.assert_allclose(shown["probability"], [one.probability for one in likeliest], atol=1e-5)
    for named in (name for name in shown if "1.4" in name):
        assert "top 7" in named
        np.testing.assert_allclose(shown[named], [one.chance for one in likeliest], atol=1e-5)


def test_a_text_is_continued_and_every_view_shows_the_step() -> None:
    page = fine(opened("your_model", model="mine/gpt2", input=TEXT, words="false"))
    checkpoint = store.checkpoint("mine/gpt2")
    assert_likeliest(table(page, "next token"), continue_text(checkpoint, TEXT, ContinueOptions(0)).steps[0])
    assert pressed(page, "continue").query_params["more"] == "20"
    put(page, more=6, way="draw")
    put(page, temperature=1.4, seed=3, **{"top-k": 7})
    found = continue_text(checkpoint, TEXT, DRAWN)
    assert found.texts[-1].replace("\x05", "␅") in [part.value for part in page.text]
    address = dict(put(page, at=2).query_params)
    assert {**HOW, "at": "2"}.items() <= address.items()
    for one in (page, fine(opened("your_model", **address))):  # the page as it was clicked, and its address opened anew
        assert any("1.4" in name for name in table(one, "next token"))
        assert_likeliest(table(one, "next token"), found.steps[2])
        (_, layer, head), (_, drawn) = chosen(one), head_shown(one)
        assert drawn.shape == (found.prompt + 2,) * 2
        assert head is not None
        seen = found.at(2).record[f"decoder.{layer}.self"]
        np.testing.assert_allclose(drawn, np.where(seen.mask(), seen.weights(head), -np.inf), atol=1e-6)


def test_writing_on_is_stopped_and_the_text_alone_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "QUICK", 1)
    with stopped_at_once(monkeypatch) as told:
        page = fine(opened("your_model", model="mine/gpt2", input="the dog", more="3"))
    assert [one.value for one in page.info if "stopped" in one.value] == ["Writing on: stopped by you."]
    assert len(told) == 1
    assert not [part for part in page.get("html") if "written-tokens" in part.proto.body]
    alone = continue_text(store.checkpoint("mine/gpt2"), "the dog", ContinueOptions(0))
    assert_likeliest(table(page, "next token"), alone.steps[0])


def test_hidden_words_are_filled_in_by_a_click() -> None:
    page = fine(opened("your_model", model="mine/bert", input="the dog runs and the cat eats."))
    assert not [button for button in page.button if (button.key or "").startswith("gap-")]
    assert pressed(page, "hide-1").text_input(key="input").value == "the [MASK] runs and the cat eats."
    assert pressed(page, "hide-6").query_params["input"] == GAPS
    gaps = fill(store.checkpoint("mine/bert"), GAPS)
    for number, gap in enumerate(gaps):
        for rank, one in enumerate(gap.candidates):
            assert f"{one.probability:.3f}" in page.button(key=f"gap-{number}-{rank}").label
    filled = pressed(page, "gap-1-2").text_input(key="input").value
    assert filled == f"the [MASK] runs and the cat {gaps[1].words[2]}."


def test_a_zipped_folder_is_brought_looked_at_and_gone_when_removed(folders: Path, memory: Path) -> None:
    before = LEDGER.n_bytes
    files = {file.name: file.read_bytes() for file in (folders / "gpt2").iterdir()}
    page = fine(opened("your_model", model="tiny"))
    archive = zip_of(*((f"my-gpt2/{name}", data) for name, data in files.items()))
    page = fine(brought(page, **{"my-gpt2.zip": archive}))
    assert page.selectbox(key="model").value == "upload/my-gpt2"
    assert LEDGER.n_bytes - before == sum(map(len, files.values()))
    assert len(list(memory.iterdir())) == 1
    typed = page.text_input(key="input").value
    alone = continue_text(store.checkpoint("mine/gpt2"), typed, ContinueOptions(0))
    assert_likeliest(table(page, "next token"), alone.steps[0])
    pressed(put(page, show="tensors"), "remove")
    assert (LEDGER.n_bytes, list(memory.iterdir())) == (before, [])
    page = brought(page, **files)  # side by side, as they lie in the folder
    assert page.selectbox(key="model").value == "upload/gpt2"
    assert len(list(memory.iterdir())) == 1
    held = page.session_state["session_resources"]
    assert held.let_go()
    del held
    gc.collect()
    assert (LEDGER.n_bytes, list(memory.iterdir())) == (before, [])


def test_an_archive_that_is_refused_leaves_nothing(memory: Path) -> None:
    before, page = LEDGER.n_bytes, fine(opened("your_model", model="tiny"))
    bad = zip_of(("config.json", b'{"model_type": "gpt2"}'), ("model.safetensors", b"no weights"))
    for name, data, reason in (
        ("bad.zip", bad, "bad/model.safetensors"), ("worse.zip", b"PK" * 99, "no table of contents")
    ):  # fmt: skip
        page = brought(page, **{name: data})
        assert reason in page.warning[0].value.replace("\\", "")
        assert (LEDGER.n_bytes, list(memory.iterdir())) == (before, [])
        assert page.selectbox(key="model").value == "tiny"


def test_the_map_writes_on_and_steps_through_it_without_running_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert address_of(pressed(fine(opened("map", model="mine/llama", text=TEXT)), "continue"))["more"] == "20"
    found = continued()
    page = fine(opened("map", model="mine/llama", text=TEXT, **HOW))
    axis = map_runs.continued("mine/llama", TEXT, DRAWN).axis
    for module, name in ((runs, "continue_text"), (map_runs, "run_any"), (map_runs, "flow")):
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("it runs again"))
    for step in (0, 4):
        if step:
            at = found.prompt - 1 + step
            page.query_params["word"] = word_at(axis, at)
            page.query_params["piece"] = str(at - axis.words.index(axis.words[at]) + 1)
            page.run()
        header, arrays = sent(fine(page), "map")
        assert len(header["steps"]["labels"]) == found.prompt + len(found.written)
        for place, likeliest in enumerate(found.steps):
            shown = header["steps"]["next"][found.prompt - 1 + place]
            first = [one.probability for one in likeliest[: len(shown)]]
            assert [p for _, p in shown] == pytest.approx(first, abs=1e-4)
        assert_likeliest(table(page, "output"), found.steps[step])
        assert f"number {found.tokens[step].rank + 1} of all" in said(page)
        assert arrays
    nodes = map_runs.continued("mine/llama", TEXT, DRAWN).flow.diagram.nodes
    page.query_params["part"] = next(node.name for node in nodes if node.site is not None)
    link = next(one for one in fine(page.run()).get("page_link") if "more=6" in one.proto.query_string)
    assert "seed=3" in link.proto.query_string


def test_the_map_fills_gaps_and_looks_at_each() -> None:
    page = pressed(fine(opened("map", model="mine/bert", text=GAP)), "hide-1")
    assert address_of(page)["text"] == GAPS
    gaps = fill(store.checkpoint("mine/bert"), GAPS)
    header, _ = sent(page, "map")
    for number, gap in enumerate(gaps):
        assert header["steps"]["next"][gap.position][0][1] == pytest.approx(gap.candidates[0].probability, abs=1e-4)
        pressed(page, f"gap-{number}-look")
        assert number == 0 or address_of(page)["word"].startswith("[MASK]")
        assert_likeliest(table(page, "probability"), gap.candidates)
    assert address_of(pressed(page, "gap-1-2"))["text"] == f"the [MASK] runs and the cat {gaps[1].words[2]}."


def test_what_if_shows_what_it_would_have_written() -> None:
    off = Intervention("decoder.1.self", "zero", heads=(2,))
    was, now = continued(), continued(off)
    apart = next(i for i, (one, other) in enumerate(zip(was.written, now.written, strict=False)) if one != other)
    page = fine(opened("what_if", model="mine/llama", text=TEXT, do=to_text([off]), **HOW))
    assert page.slider(key="at").value == apart
    assert "seed 3" in said(page)
    assert f"first {apart} written" in said(page) or (apart == 0 and "part at the first" in said(page))
    for step in (apart, 5):
        put(page, at=step)
        for shown, found in zip(
            [frame.value for frame in page.dataframe if "next token" in frame.value], (was, now), strict=True
        ):
            assert_likeliest(shown, found.steps[step])
    assert opened("what_if", **address_of(page)).slider(key="at").value == 5
    ids = list(was.run.ids)  # on the same text, both read what the unchanged model wrote
    with intervening([off]), torch.inference_mode():
        changed = store.checkpoint("mine/llama").model.outputs(torch.tensor([ids]))["log_probs"][0].double()
    plain = torch.from_numpy(was.run.outputs["log_probs"]).double()
    change = [float(changed[i, token] - plain[i, token]) for i, token in enumerate(ids[1:])]
    np.testing.assert_allclose([row.value for row in bars_of(page, "effects")][:-1], change, atol=1e-5)
    assert len(change) == was.prompt + len(was.written) - 1
    row = Intervention("decoder.0.self", "knock_out", queries=(was.prompt + 1,), keys=(0,))
    assert fine(opened("what_if", model="mine/llama", text=TEXT, do=to_text([row]), **HOW)).slider(key="at")


def test_what_if_shows_gaps_before_and_after() -> None:
    change = Intervention("encoder.0.self", "zero", heads=(1,))
    page = pressed(fine(opened("what_if", model="mine/bert", text=GAP, do=to_text([change]))), "hide-1")
    assert address_of(page)["text"] == GAPS
    checkpoint = store.checkpoint("mine/bert")
    with intervening([change]):
        after = fill(checkpoint, GAPS)
    shown = [frame.value for frame in page.dataframe if "word" in frame.value.columns]
    for one, was, now in zip(shown, fill(checkpoint, GAPS), after, strict=True):
        np.testing.assert_allclose(one.iloc[:10, 1], [word.probability for word in was.candidates], atol=1e-5)
        assert one.iloc[:, 2].max() == pytest.approx(now.candidates[0].probability, abs=1e-5)
        np.testing.assert_allclose(one.iloc[:, 3], np.log(one.iloc[:, 2] / one.iloc[:, 1]), atol=1e-9)


def test_a_decoder_of_ours_writes_on_and_an_old_link_to_its_heads_shows_them() -> None:
    old = dict(kind="encoder.self", layer="1", head="2")
    page = fine(opened("your_model", model="mine/writer", input=READ, more="4", words="false", **old))
    found = continue_text(store.checkpoint("mine/writer"), READ, ContinueOptions(4))
    assert_likeliest(table(page, "next token"), found.steps[4])
    (_, layer, head), (_, drawn) = chosen(page), head_shown(page)
    assert (layer, head) == (1, 2)
    seen = found.run.record["decoder.1.self"]
    np.testing.assert_allclose(drawn, np.where(seen.mask(), seen.weights(2), -np.inf), atol=1e-6)


def test_the_map_opens_the_attention_of_a_decoder_of_ours_and_its_mask_leaks_nothing() -> None:
    page = fine(opened("map", model="mine/writer", text=READ, part="decoder.1.self_attention", at_head="2"))
    assert "decoder.1.self \N{MIDDLE DOT} head 2" in matrix_sent(page, "part-heatmap")[0]["title"]
    page = fine(opened("masks", screen="test", tested="mine/writer"))
    assert page.success
    assert "nats" in said(page)


def test_classes_before_and_after_and_a_head_is_switched(folders: Path) -> None:
    off = "encoder.0.self~zero~h1"
    page = fine(opened("what_if", model="mine/classes", text=READ))
    assert "Nothing is changed" in said(page)
    page.button(key="switch-0").click()
    page = fine(moved(page, "switch-0"))
    assert not is_whole(page)
    assert address_of(page).get("do") == "encoder.0.self~zero~h0-2"
    assert "brings no mean outputs" in said(page)
    page = opened("what_if", model="mine/classes", text=READ, do=off.replace("zero", "mean"))
    assert any("mean" in one.value for one in page.warning), "no means are known"
    page = fine(opened("what_if", model="mine/classes", text=READ, do=off, cell="1-2", layer="0", head="1"))
    checkpoint = load(folders / "classes")
    both = run_any(checkpoint, READ), read_under(checkpoint, READ, from_text(off))
    found = logit_effects("abc", *(run.outputs["logits"] for run in both))
    shown = table(page, "log-odds")
    np.testing.assert_allclose(shown[["before", "now"]], [one.probabilities for one in found], atol=1e-6)
    np.testing.assert_allclose(shown["log-odds"], [one.change for one in found], atol=1e-5)
    added = from_text(address_of(pressed(page, "do-token_for_nobody")).get("do") or "")[1:]
    hidden = {(f"encoder.{layer}.self", "knock_out", (2,)) for layer in (0, 1)}
    assert {(one.site, one.action, one.keys) for one in added} == hidden
