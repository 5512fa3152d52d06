"""What if does what its address says, no more and no less; what is said of it, recomputed from other runs and files."""

import json
from collections.abc import Sequence
from csv import reader
from dataclasses import replace

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from tests.pages.opening import address_of, bars_of, fine, opened
from tests.pages.what_if import NAME, SENTENCE, chips, translator, unchanged, words
from transformer import DecodingOptions, Intervention, intervening, translate
from transformer.attention.interventions.text import from_text, to_text
from transformer.errors import InputError
from transformer.runs.what_if import same_target
from ui.shared.changes import Changes, in_force
from ui.shared.files import Origin
from ui.store.shipped import CHECKPOINTS
from ui.what_if.views import effects_csv


def distributions(changes: Sequence[Intervention], text: str = SENTENCE) -> np.ndarray:
    """log p of every token at every step of what is written without changes."""
    model, _, _ = translator().translator()
    run = unchanged(text)
    read = torch.tensor([[model.config.bos_id, *run.target_ids[:-1]]])
    with torch.inference_mode(), intervening(changes):
        logits = model(torch.tensor([run.source_ids]), read)[0].double().numpy()
    found: np.ndarray = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return found


def effects(changes: Sequence[Intervention], text: str = SENTENCE) -> np.ndarray:
    """The change of log p of each written token."""
    steps, ids = range(len(unchanged(text).target_ids)), list(unchanged(text).target_ids)
    found: np.ndarray = (distributions(changes, text) - distributions([], text))[steps, ids]
    return found


def bars(page: AppTest) -> list[float]:
    """The change of log p of each token, as it is drawn."""
    return [row.value for row in bars_of(page, "effects")]


def test_a_layer_is_switched_off_and_on_and_the_choice_is_what_new_switches_write() -> None:
    page = fine(opened("what_if", text=SENTENCE, do="decoder.3.cross~mean~h3"))
    page.button(key="switch-3").click().run()
    assert address_of(fine(page))["do"] == "decoder.3.cross~mean~h0-3"
    page.button_group(key="off").set_value("zero").run()
    assert chips(fine(page)) == ["decoder.3.cross (heads 0-3) off (mean)"]
    np.testing.assert_allclose(bars(page), effects([Intervention("decoder.3.cross", "mean")]), atol=1e-4)
    page.button(key="switch-1").click().run()
    assert address_of(fine(page))["do"] == "decoder.3.cross~mean~h0-3~~decoder.1.cross~zero~h0-3"
    page.button(key="switch-3").click().run()
    assert address_of(page)["do"] == "decoder.1.cross~zero~h0-3"


@pytest.mark.parametrize("way", [{}, {"off": "zero"}])
def test_what_an_address_says_is_done_as_it_stands(way: dict[str, str]) -> None:
    """Zero is zero and mean is mean, beside each other too; so a notebook's interventions are the same run here."""
    mixed = [Intervention("decoder.2.cross", "zero", heads=(1,)), Intervention("decoder.1.self", "mean", heads=(0, 3)),
             Intervention("decoder.2.cross", "mean", heads=(0,))]  # fmt: skip
    with intervening(mixed):
        expected = translate(translator(), SENTENCE, DecodingOptions())
    page = fine(opened("what_if", text=SENTENCE, do=to_text(mixed), **way))
    assert words(page, "now") == expected.text
    np.testing.assert_allclose(bars(page), effects(mixed), atol=1e-4)
    assert np.abs(effects(mixed) - effects([replace(one, action="mean") for one in mixed])).max() > 0.01
    assert chips(page) == [
        "decoder.2.cross (head 1) off (zero)", "decoder.1.self (heads 0, 3) off (mean)",
        "decoder.2.cross (head 0) off (mean)",
    ]  # fmt: skip
    assert address_of(page)["do"] == to_text(mixed)
    page.button(key="switch-2").click().run()
    written = "zero" if way else "mean"
    turned = from_text(address_of(fine(page))["do"])
    assert {head: one.action for one in turned if one.site == "decoder.2.cross" for head in one.heads} == {
        0: "mean", 1: "zero", 2: written, 3: written,
    }  # fmt: skip


def test_of_changes_that_do_not_fit_the_others_act() -> None:
    """They look like none that act, and it is said why; a part that cannot be read is passed over too."""
    fits = [Intervention("encoder.1.self", "zero", heads=(0,)), Intervention("decoder.0.cross", "uniform", heads=(2,))]
    do = "encoder.1.self~zero~h0~~pooling~uniform~h1~~decoder.0.cross~uniform~h2~~encoder.0.self~knock_out~k99~~<b>~cut"
    page = opened("what_if", text=SENTENCE, do=do)
    told = " ".join(one.value for one in page.warning)
    assert all(one in told for one in ("'pooling'", "past the end of encoder.0.self", "is no name of an attention"))
    assert len(page.warning) == 3
    np.testing.assert_allclose(bars(page), effects(fits), atol=1e-4)
    assert np.abs(bars(page)).max() > 0.01
    with intervening(fits):
        assert words(page, "now") == translate(translator(), SENTENCE, DecodingOptions()).text
    assert chips(page) == [
        "encoder.1.self (head 0) off (zero)", "decoder.0.cross (head 2) made uniform",
        "~~pooling (head 1) made uniform~~", "~~encoder.0.self (key 99) knocked out~~",
    ]  # fmt: skip
    assert address_of(page)["do"] == do, "what stands there stays"
    page.button(key="chip-2").click().run()
    assert "pooling" not in address_of(page)["do"]
    assert len(page.warning) == 1


@pytest.mark.parametrize("draw", range(20))
def test_what_is_in_force_is_all_that_no_run_refuses(draw: int) -> None:
    rng = np.random.default_rng(draw)
    every = tuple(Intervention(f"encoder.{i}.self", "zero") for i in range(rng.integers(0, 9)))
    refused = {one for one in every if rng.random() < 0.4}
    runs = []

    def run(some: Changes) -> None:
        runs.append(some)
        for one in some:
            if one in refused:
                raise InputError("no_positions", name=one.site)

    found = in_force(every, run)
    assert found.changes == tuple(one for one in every if one not in refused)
    assert {one: error.fields["name"] for one, error in found.void} == {one: one.site for one in refused}
    assert len(runs) <= max(1, 2 * len(every))


def test_what_zero_and_mean_cost_is_counted_from_what_was_measured() -> None:
    rows = json.loads((CHECKPOINTS / NAME / "importance.json").read_text(encoding="utf-8"))["heads"]["final"]
    zero, mean = (np.array([row[name] for row in rows]) for name in ("zero", "mean"))
    assert ((mean > zero).sum(), len(rows)) == (39, 48)
    assert not fine(opened("what_if")).get("plotly_chart"), "until it is asked for"
    page = fine(opened("what_if", measure="bleu"))  # as older addresses ask
    assert page.get("plotly_chart")
    told = " ".join(one.value for one in page.caption)
    more, less = int((mean > zero).sum()), int((mean < zero).sum())
    assert f"each of its {len(rows)} heads off alone" in told
    assert f"the mean costs more than zero for {more}, less for {less}" in told
    assert f"{mean.mean():.4f} nats a token with the mean, {zero.mean():.4f} with zero" in told
    assert "found on the same pairs" in told
    for name in ("splice-junctions", "multi30k-en-de-rnn"):
        told = " ".join(one.value for one in fine(opened("what_if", model=name)).caption)
        assert "costs more" not in told, "nothing was measured of it"


def test_a_margin_names_the_best_other_token_of_each_run() -> None:
    """Of a step at which another token takes the lead: the sentence, the file and the pictures say the same."""
    text, do = translator().changed_examples[0].text, translator().changed_examples[0].change
    changes = from_text(do)
    runs = [distributions((), text), distributions(changes, text)]
    ids, (_, _, writer) = unchanged(text).target_ids, translator().translator()
    step = 1
    others = [max(set(range(run.shape[1])) - {ids[step]}, key=run[step].__getitem__) for run in runs]
    margins = [run[step, ids[step]] - run[step, other] for run, other in zip(runs, others, strict=True)]
    names = [writer.labels([other])[0] for other in others]
    assert margins[0] > 0 > margins[1]
    assert names[0] != names[1]
    page = fine(opened("what_if", text=text, do=do, step=str(step)))
    said = next(one.value for one in page.caption if "logits" in one.value)
    assert f"rank 1, {margins[0]:.2f} logits ahead of “{names[0]}”" in said
    assert f"rank 2, {-margins[1]:.2f} logits behind “{names[1]}”" in said
    for key, name in zip(("before_top", "after_top"), names, strict=True):
        rivals = [(row.value, row.name) for row in bars_of(page, key)[:-1] if "written" not in row.text]
        assert max(rivals)[1] == name, "the likeliest other token of its picture"
    file = effects_csv(same_target(translator(), unchanged(text), changes).steps, Origin(NAME, text, changes))
    row = list(reader(file.splitlines()))[1 + step]
    assert [row[2], row[4]] == names
    assert [float(row[3]), float(row[5])] == pytest.approx(margins, abs=1e-4)


def test_the_key_of_other_pages_names_the_checkpoint_too() -> None:
    page = fine(opened("what_if", checkpoint="multi30k-en-de-rnn", do="decoder.cross~uniform"))
    assert chips(page) == ["decoder.cross made uniform"]
    assert address_of(page) == {"model": "multi30k-en-de-rnn", "do": "decoder.cross~uniform"}
    page = fine(opened("what_if", checkpoint="splice-junctions", model="multi30k-en-de-rnn"))
    assert address_of(page) == {"model": "multi30k-en-de-rnn"}
    page = fine(opened("map", checkpoint="splice-junctions"))
    assert address_of(page) == {"model": "splice-junctions"}
