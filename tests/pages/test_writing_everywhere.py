"""Map and What if let a decoder write on and an encoder fill gaps, as Checkpoints does: all of it in the address."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.checkpoint.huggingface.families import CONFIGS, random_model, write_bert_tokenizer, write_folder
from tests.pages.opening import address_of, bars_of, fine, opened, sent, table
from transformer import Continuation, ContinueOptions, Intervention, continue_text, fill, intervening, run_any
from transformer.attention.interventions.text import to_text
from transformer.checkpoint.huggingface.library import quiet
from transformer.runs.class_reasons import class_reasons
from ui.map import runs as map_runs
from ui.store import runs, store, user_folder

TEXT = "the dog runs."
GAPS = "the [MASK] runs and the cat [MASK]."
LABELS = {0: "noun", 1: "so *so*", 2: "verb"}
DRAWN = ContinueOptions(6, temperature=1.4, top_k=7, seed=3)
HOW = {"more": "6", "way": "draw", "temperature": "1.4", "top-k": "7", "seed": "3"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("mine")
    write_folder(place / "llama", "llama")
    write_folder(place / "bert", "bert", vocab_size=30)  # as many words as its tokenizer knows
    config = CONFIGS["bert"][1] | dict(id2label=LABELS, label2id={word: i for i, word in LABELS.items()})
    with quiet():
        random_model("BertForTokenClassification", config).save_pretrained(place / "tokens")
        random_model("BertForSequenceClassification", config).save_pretrained(place / "classes")
    for name in ("tokens", "classes"):
        write_bert_tokenizer(place / name)
    return place


@pytest.fixture(autouse=True)
def _own(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_folder, "own_folder", lambda: folders)


def continued(*changes: Intervention) -> Continuation:
    with intervening(changes):
        return continue_text(store.checkpoint("mine/llama"), TEXT, DRAWN)


def test_the_map_writes_on_and_steps_through_it_without_running_again(monkeypatch: pytest.MonkeyPatch) -> None:
    page = fine(opened("map", model="mine/llama", text=TEXT))
    page.button(key="continue").click()
    assert address_of(fine(page.run()))["more"] == "20"
    found = continued()
    page = fine(opened("map", model="mine/llama", text=TEXT, **HOW))

    def refused(*_: Any) -> Any:
        raise AssertionError("it runs again")

    for module, name in ((runs, "continue_text"), (map_runs, "run_any"), (map_runs, "flow")):
        monkeypatch.setattr(module, name, refused)
    for step in (0, 4):
        at = found.prompt + step
        if step:
            page.query_params["at_word"] = str(at)
            page.run()
        header, arrays = sent(fine(page), "map")
        assert len(header["steps"]["labels"]) == found.prompt + len(found.written)
        for place, likeliest in enumerate(found.steps):
            shown = header["steps"]["next"][found.prompt - 1 + place]
            first = [one.probability for one in likeliest[: len(shown)]]
            assert [p for _, p in shown] == pytest.approx(first, abs=1e-4)
        likeliest = found.steps[step]
        shown = table(page, "output")
        np.testing.assert_allclose(shown["probability"], [one.probability for one in likeliest], atol=1e-5)
        chance = next(name for name in shown if "1.4" in name)
        np.testing.assert_allclose(shown[chance], [one.chance for one in likeliest], atol=1e-5)
        token = found.tokens[step]
        assert any(f"number {token.rank + 1} of all" in one.value for one in page.caption)
        assert arrays
    nodes = map_runs.continued("mine/llama", TEXT, DRAWN).flow.diagram.nodes
    page.query_params["part"] = next(node.name for node in nodes if node.site is not None)
    link = next(one for one in fine(page.run()).get("page_link") if "more=6" in one.proto.query_string)
    assert "seed=3" in link.proto.query_string


def test_the_map_fills_gaps_and_looks_at_each() -> None:
    page = fine(opened("map", model="mine/bert", text="the dog runs and the cat [MASK]."))
    page.button(key="hide-1").click()
    page = fine(page.run())
    assert address_of(page)["text"] == GAPS
    gaps = fill(store.checkpoint("mine/bert"), GAPS)
    header, _ = sent(page, "map")
    for number, gap in enumerate(gaps):
        assert header["steps"]["next"][gap.position][0][1] == pytest.approx(gap.candidates[0].probability, abs=1e-4)
        page.button(key=f"gap-{number}-look").click()
        page = fine(page.run())
        assert number == 0 or address_of(page)["word"].startswith("[MASK]")
        likeliest = [one.probability for one in gap.candidates]
        np.testing.assert_allclose(table(page, "probability")["probability"], likeliest, atol=1e-5)
    page.button(key="gap-1-2").click()
    assert address_of(fine(page.run()))["text"] == f"the [MASK] runs and the cat {gaps[1].words[2]}."


def test_what_if_shows_what_it_would_have_written() -> None:
    off = Intervention("decoder.1.self", "zero", heads=(2,))
    was, now = continued(), continued(off)
    apart = next(i for i, (one, other) in enumerate(zip(was.written, now.written, strict=False)) if one != other)
    page = fine(opened("what_if", model="mine/llama", text=TEXT, do=to_text([off]), **HOW))
    assert page.slider(key="at").value == apart
    said = " ".join(one.value for one in page.caption)
    assert "seed 3" in said
    assert f"first {apart} written" in said or (apart == 0 and "part at the first" in said)
    for step in (apart, 5):
        page.slider(key="at").set_value(step)
        page = fine(page.run())
        before, after = [frame.value for frame in page.dataframe if "next token" in frame.value.columns]
        for shown, found in ((before, was), (after, now)):
            np.testing.assert_allclose(shown["probability"], [one.probability for one in found.steps[step]], atol=1e-5)
            np.testing.assert_allclose(shown.iloc[:, 2], [one.chance for one in found.steps[step]], atol=1e-5)
    again = opened("what_if", **address_of(page))
    assert again.slider(key="at").value == 5
    ids = list(was.run.ids)  # on the same text, both read what the unchanged model wrote
    with intervening([off]), torch.inference_mode():
        changed = store.checkpoint("mine/llama").model.outputs(torch.tensor([ids]))["log_probs"][0].double()
    plain = torch.from_numpy(was.run.outputs["log_probs"]).double()
    expected = [float(changed[i, token] - plain[i, token]) for i, token in enumerate(ids[1:])]
    np.testing.assert_allclose([row.value for row in bars_of(page, "effects")][:-1], expected, atol=1e-5)
    assert len(expected) == was.prompt + len(was.written) - 1
    row = Intervention("decoder.0.self", "knock_out", queries=(was.prompt + 1,), keys=(0,))
    assert fine(opened("what_if", model="mine/llama", text=TEXT, do=to_text([row]), **HOW)).slider(key="at")


def test_what_if_shows_gaps_and_named_classes_of_tokens_before_and_after() -> None:
    change = Intervention("encoder.0.self", "zero", heads=(1,))
    page = fine(opened("what_if", model="mine/bert", text="the dog runs and the cat [MASK].", do=to_text([change])))
    page.button(key="hide-1").click()
    page = fine(page.run())
    assert address_of(page)["text"] == GAPS
    checkpoint = store.checkpoint("mine/bert")
    shown = [frame.value for frame in page.dataframe if "word" in frame.value.columns]
    with intervening([change]):
        after = fill(checkpoint, GAPS)
    for one, was, now in zip(shown, fill(checkpoint, GAPS), after, strict=True):
        np.testing.assert_allclose(one.iloc[:10, 1], [word.probability for word in was.candidates], atol=1e-5)
        assert one.iloc[:, 2].max() == pytest.approx(now.candidates[0].probability, abs=1e-5)
        np.testing.assert_allclose(one.iloc[:, 3], np.log(one.iloc[:, 2] / one.iloc[:, 1]), atol=1e-9)
    tokens = fine(opened("what_if", model="mine/tokens", text=TEXT, do=to_text([change])))
    held = run_any(store.checkpoint("mine/tokens"), TEXT).outputs["logits"].argmax(1)
    drawn = [row.name for row in bars_of(tokens, "effects")]
    assert all(name.endswith(f"→ {LABELS[i]}") for name, i in zip(drawn, held, strict=True))


def test_a_class_is_explained_by_its_words() -> None:
    page = fine(opened("your_model", model="mine/classes", input=TEXT))
    assert not [part for part in page.get("html") if "bars-" in part.proto.body]
    page.toggle(key="why").set_value(True)
    page = fine(page.run())
    checkpoint = store.checkpoint("mine/classes")
    run = run_any(checkpoint, TEXT)
    likeliest = int(run.outputs["logits"].argmax())
    other = (likeliest + 1) % len(LABELS)
    for way, target in (("deletion_removed", likeliest), ("deletion_unknown", other)):
        if target == other:
            page.selectbox(key="reasons").set_value(way)
            page.button_group(key="class").set_value(str(other))
            page = fine(page.run())
            assert {"why": "True", "class": str(other), "reasons": way}.items() <= address_of(page).items()
        found = class_reasons(checkpoint, run, target, way)  # type: ignore[arg-type]
        for one in (page, fine(opened("your_model", **address_of(page)))):
            bars = bars_of(one, "reasons")
            np.testing.assert_allclose([row.value for row in bars], found.added, atol=1e-4)
            assert [row.name for row in bars] == ["the", "dog", "runs", "."]
            (drawn,) = (part.proto.body for part in one.get("html") if "bars-reasons" in part.proto.body)
            assert f"log-odds of {LABELS[target]} (nats)" in drawn
