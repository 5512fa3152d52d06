"""The page What if: what its address says is done, no more and no less; bad input; each kind of model; in Chinese too.

What is said of a change is recomputed here from other runs and files.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from tests.pages.opening import address_of, bars_of, fine, is_whole, moved, opened, problems, said, sent
from transformer import Checkpoint, DecodingOptions, Intervention, Translation, intervening, load, translate
from transformer.attention.interventions.value import from_text, to_text
from transformer.errors import InputError
from transformer.plots.canvas.blob import unpack
from transformer.plots.export import csv
from transformer.runs.sequences.classify import classify
from transformer.runs.what_if import (
    donor_odds,
    donor_of,
    same_target,
    source_sweep,
)
from ui.shared.changes import DONOR, Changes, in_force
from ui.shared.files import Provenance
from ui.store import cache as results
from ui.store.store import CHECKPOINTS
from ui.what_if import changed as changed_runs
from ui.what_if.changed import Sweep
from ui.what_if.views import effects_table

NAME = "multi30k-en-de"
SENTENCE = "A man in a red shirt rides a bicycle."
OFF = "decoder.3.cross~mean~h3~~decoder.2.cross~mean~h1"
HEAD = {"text": SENTENCE, "kind": "decoder.cross", "layer": "1", "head": "2", "cell": "3-2"}
"""A head with a picked cell."""


@cache
def translator() -> Checkpoint:
    """The checkpoint of most of these tests, apart from the pages' own."""
    return load(CHECKPOINTS / NAME)


@cache
def unchanged(text: str) -> Translation:
    """What it writes where nothing is changed."""
    return translate(translator(), text, DecodingOptions())


def changed(text: str, changes: Sequence[Intervention]) -> str:
    """What it writes under changes."""
    with intervening(changes):
        return translate(translator(), text, DecodingOptions()).text


def asked(**address: str) -> AppTest:
    """The page at an address, which neither failed nor warned."""
    return fine(opened("what_if", **address))


def pressed(page: AppTest, key: str) -> AppTest:
    page.button(key=key).click().run()
    return fine(page)


def done(page: AppTest) -> str | None:
    """The changes in the address."""
    return address_of(page).get("do")


def words(page: AppTest, side: str) -> str:
    """What stands on one side of the two sentences: of the page itself, not of a list of what to try."""
    every = (part.proto.body for part in page.get("html"))
    shown = next(body for body in every if f"words-{side}" in body and "words-read" not in body)
    (found,) = re.findall(rf'data-testid="words-{side}">(.*?)</p>', shown)
    return re.sub(r"<[^>]+>", "", found)


def chips(page: AppTest) -> list[str]:
    return [button.label for button in page.button if str(button.key).startswith("chip-")]


def keyed(page: AppTest, start: str) -> list[Any]:
    return [button for button in page.button if str(button.key).startswith(start)]


def table_with(page: AppTest, column: str) -> Any:
    return next(frame.value for frame in page.dataframe if column in frame.value)


def row_of(page: AppTest) -> list[float]:
    """The weights of the bars of the picked row."""
    parts = [unpack(part.proto.bytes) for part in page.get("bidi_component") if part.proto.bytes]
    header, arrays = next(part for part in parts if part[0]["instance"] == "row-bars")
    assert len(header["labels"]) == len(arrays["weights"])
    found: list[float] = arrays["weights"].tolist()
    return found


def bars(page: AppTest) -> list[float]:
    """The change of log p of each token, as it is drawn."""
    return [row.value for row in bars_of(page, "effects")]


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
    ids = list(unchanged(text).target_ids)
    found: np.ndarray = (distributions(changes, text) - distributions([], text))[range(len(ids)), ids]
    return found


def test_the_page_opens_with_a_change_done_which_one_chip_takes_back() -> None:
    """The change is that of the checkpoint's file, and both sentences are those of two runs."""
    page, first = asked(), translator().changed_examples[0]
    assert words(page, "now") == changed(first.text, from_text(first.change))
    assert words(page, "was") == unchanged(first.text).text
    assert (words(page, "was")[:9], words(page, "now")[:11]) == ("Eine Frau", "Eine Straße")
    assert (address_of(page), chips(page)) == ({}, ["“woman” hidden"])
    assert page.button_group(key="hidden-words").value == [1]
    pressed(page, "chip-0")
    assert words(page, "was") == words(page, "now")
    assert (address_of(page), chips(page)) == ({"do": "none"}, [])
    assert "Nothing is changed" in said(page)
    assert "+0.00 nats" in said(page)
    for hidden, shown in (([1], ["woman"]), ([1, 8], ["woman", "street"]), ([8], ["street"])):
        page.button_group(key="hidden-words").set_value(hidden).run()
        assert chips(fine(page)) == [f"“{word}” hidden" for word in shown]
        assert (address_of(page) == {}) == (hidden == [1]), "as it was at first"
    assert words(page, "now") == "Eine Frau spielt auf einer Gitarre."


def test_an_address_shows_its_changes_and_a_chip_takes_one_away() -> None:
    page = asked(text=SENTENCE, do=OFF)
    assert words(page, "now") == changed(SENTENCE, from_text(OFF))
    changes = effects(from_text(OFF))
    largest = int(np.argmax(np.abs(changes)))
    assert changes[largest] < 0 < max(changes), "so the largest change is not the largest rise"
    assert page.slider(key="step").value == largest
    assert chips(page) == ["decoder.3.cross (head 3) off (mean)", "decoder.2.cross (head 1) off (mean)"]
    assert done(pressed(page, "chip-0")) == "decoder.2.cross~mean~h1"
    assert done(pressed(page, "chip-0")) is None


@pytest.mark.parametrize(
    ("do", "told"),
    [
        ("~~".join(["a~zero"] * 10**4), "holds 10000 interventions"),
        ("decoder.9.cross~zero", "model has no attention 'decoder.9.cross'"),
        ("decoder.0.self~force~q0~v0.5_0.5", "which a row there may not see"),
    ],
)
def test_what_cannot_be_done_is_told_and_nothing_is_lost(do: str, told: str) -> None:
    page = opened("what_if", text=SENTENCE, do=do)
    assert not page.exception
    assert told in page.warning[0].value.replace("\\", "")
    assert words(page, "was") == words(page, "now") != ""
    assert done(page) == do


def test_of_changes_that_do_not_fit_the_others_act() -> None:
    """They look like none that act, and it is said why; a part that cannot be read is passed over too."""
    fits = [Intervention("encoder.1.self", "zero", heads=(0,)), Intervention("decoder.0.cross", "uniform", heads=(2,))]
    do = "encoder.1.self~zero~h0~~pooling~uniform~h1~~decoder.0.cross~uniform~h2~~encoder.0.self~knock_out~k99~~<b>~cut"
    page = opened("what_if", text=SENTENCE, do=do)
    assert len(page.warning) == 3
    for told in ("'pooling'", "past the end of encoder.0.self", "is no name of an attention"):
        assert told in said(page)
    np.testing.assert_allclose(bars(page), effects(fits), atol=1e-4)
    assert np.abs(bars(page)).max() > 0.01
    assert words(page, "now") == changed(SENTENCE, fits)
    assert chips(page) == [
        "encoder.1.self (head 0) off (zero)", "decoder.0.cross (head 2) made uniform",
        "~~pooling (head 1) made uniform~~", "~~encoder.0.self (key 99) knocked out~~",
    ]  # fmt: skip
    assert done(page) == do, "what stands there stays"
    page.button(key="chip-2").click().run()
    assert "pooling" not in address_of(page)["do"]
    assert len(page.warning) == 1


@pytest.mark.parametrize("draw", range(20))
def test_what_is_in_force_is_all_that_no_run_refuses(draw: int) -> None:
    rng = np.random.default_rng(draw)
    every = tuple(Intervention(f"encoder.{i}.self", "zero") for i in range(rng.integers(0, 9)))
    refused = {one for one in every if rng.random() < 0.4}
    asked_for = []

    def run(some: Changes) -> None:
        asked_for.append(some)
        for one in some:
            if one in refused:
                raise InputError("no_positions", name=one.site)

    found = in_force(every, run)
    assert found.changes == tuple(one for one in every if one not in refused)
    assert {one: error.fields["name"] for one, error in found.void} == {one: one.site for one in refused}
    assert len(asked_for) <= max(1, 2 * len(every))


def test_other_checkpoints_and_chinese() -> None:
    page = asked(model="multi30k-en-de-rnn", do="decoder.cross~uniform", lang="zh")
    assert chips(page) == ["decoder.cross 设为均匀"]
    assert "假如" in page.title[0].value
    assert "A target is forced" in said(asked(text=SENTENCE, force="Ein Mann.", do=OFF))


def test_a_picked_cell_its_row_and_its_column_can_be_changed() -> None:
    """Each button writes the intervention that it names; the map, before and after, is the run's."""
    page, site = asked(**HEAD), "decoder.1.cross"
    for button, expected in {
        "knock_out_cell": "knock_out~h2~q3~k2",
        "cut_cell": "cut~h2~q3~k2",
        "knock_out_column": "knock_out~h2~k2",
        "only_here": "force~h2~q3~k2~v1.0",
        "uniform": "uniform~h2~q3",
        "soften_head": "temperature~h2~v1.0",
    }.items():
        assert address_of(pressed(page, f"do-{button}"))["do"].split("~~")[-1] == f"{site}~{expected}"
    pressed(page, "clear")
    nobody = from_text(done(pressed(page, "do-for_nobody")) or "")
    kinds = (("encoder", "self"), ("decoder", "cross"))
    assert {one.site for one in nobody} == {f"{stack}.{i}.{kind}" for i in range(4) for stack, kind in kinds}
    assert chips(page) == ["“in” hidden"], "one chip takes all of them away"
    assert done(pressed(page, "chip-0")) is None
    np.testing.assert_allclose(row_of(page), unchanged(SENTENCE).record[site].weights(2)[3], atol=1e-6)


def test_a_change_of_the_same_row_takes_the_place_of_the_last_one() -> None:
    """Of several whole rows the last wins, so the others would be chips that do nothing."""
    row = "decoder.1.cross~{}~h2~q3".format
    page = asked(**HEAD, do=f"{row('uniform')}~~{row('temperature')}~v0.5")
    assert done(pressed(page, "do-sharpest")) == f"{row('temperature')}~v0.5~~{row('sharpest')}"
    assert sorted(row_of(page)) == [0.0] * 10 + [1.0]
    assert done(pressed(page, "do-soften_row")) == f"{row('sharpest')}~~{row('temperature')}~v1.0"


def test_an_action_draws_what_follows_from_it_and_no_more() -> None:
    """The map or a step alone; a change everything below the sentence; a sweep, which a button stops, the page."""
    page = asked(text="Two dogs run.", kind="decoder.cross", layer="1", head="2", cell="1-1")
    page.slider(key="tau").set_value(2.0)
    page = fine(moved(page, "tau"))
    assert [part.key for part in page.slider] == ["tau"]
    page.button(key="do-soften_row").click()  # the page, since more than the map follows it
    page = fine(moved(page, "do-soften_row"))
    assert is_whole(page)
    assert chips(page) == ["decoder.1.cross (head 2, row 1) at temperature 2"]
    page.slider(key="step").set_value(2)
    page = fine(moved(page, "step"))
    assert [part.key for part in page.slider] == ["step"]
    assert address_of(page)["step"] == "2"
    page = page.run()
    page.button(key="chip-0").click()
    page = fine(moved(page, "chip-0"))
    assert not is_whole(page)
    assert words(page, "now") == words(page, "was")
    page.segmented_control(key="sweep").set_value("source")
    page = fine(moved(page, "sweep"))
    assert is_whole(page)
    assert not keyed(page, "sweep-cancel")
    page = asked(model="splice-junctions", layer="1", head="1", cell="3-4", do="none")
    page.button(key="switch-0").click()
    page = fine(moved(page, "switch-0"))
    assert not is_whole(page)
    assert done(page) == "encoder.0.self~mean~h0-3"
    page.segmented_control(key="map").set_value("difference")
    page = fine(moved(page, "map"))
    assert not page.dataframe
    assert sent(page, "map-of-head")[0]["centred"]


def test_a_layer_is_switched_off_and_on_and_the_choice_is_what_new_switches_write() -> None:
    page = asked(text=SENTENCE, do="decoder.3.cross~mean~h3")
    assert done(pressed(page, "switch-3")) == "decoder.3.cross~mean~h0-3"
    page.button_group(key="off").set_value("zero").run()
    assert chips(fine(page)) == ["decoder.3.cross (heads 0-3) off (mean)"]
    np.testing.assert_allclose(bars(page), effects([Intervention("decoder.3.cross", "mean")]), atol=1e-4)
    assert done(pressed(page, "switch-1")) == "decoder.3.cross~mean~h0-3~~decoder.1.cross~zero~h0-3"
    assert done(pressed(page, "switch-3")) == "decoder.1.cross~zero~h0-3"


@pytest.mark.parametrize("way", [{}, {"off": "zero"}])
def test_what_an_address_says_is_done_as_it_stands(way: dict[str, str]) -> None:
    """Zero is zero and mean is mean, beside each other too; so a notebook's interventions are the same run here."""
    mixed = [Intervention("decoder.2.cross", "zero", heads=(1,)), Intervention("decoder.1.self", "mean", heads=(0, 3)),
             Intervention("decoder.2.cross", "mean", heads=(0,))]  # fmt: skip
    page = asked(text=SENTENCE, do=to_text(mixed), **way)
    assert words(page, "now") == changed(SENTENCE, mixed)
    np.testing.assert_allclose(bars(page), effects(mixed), atol=1e-4)
    assert np.abs(effects(mixed) - effects([replace(one, action="mean") for one in mixed])).max() > 0.01
    assert chips(page) == [
        "decoder.2.cross (head 1) off (zero)", "decoder.1.self (heads 0, 3) off (mean)",
        "decoder.2.cross (head 0) off (mean)",
    ]  # fmt: skip
    assert done(page) == to_text(mixed)
    turned = from_text(done(pressed(page, "switch-2")) or "")
    written = "zero" if way else "mean"
    assert {head: one.action for one in turned if one.site == "decoder.2.cross" for head in one.heads} == {
        0: "mean", 1: "zero", 2: written, 3: written,
    }  # fmt: skip


def test_what_zero_and_mean_cost_is_counted_from_what_was_measured() -> None:
    rows = json.loads((CHECKPOINTS / NAME / "importance.json").read_text(encoding="utf-8"))["heads"]["final"]
    zero, mean = (np.array([row[name] for row in rows]) for name in ("zero", "mean"))
    assert ((mean > zero).sum(), len(rows)) == (39, 48)
    assert not asked().get("plotly_chart"), "until it is asked for"
    page = asked(corpus="true")
    assert page.get("plotly_chart")
    for told in (
        f"each of its {len(rows)} heads off alone",
        f"the mean costs more than zero for {(mean > zero).sum()}, less for {(mean < zero).sum()}",
        f"{mean.mean():.4f} nats a token with the mean, {zero.mean():.4f} with zero",
        "found on the same pairs",
    ):
        assert told in said(page)
    for name in ("splice-junctions", "multi30k-en-de-rnn"):
        assert "costs more" not in said(asked(model=name)), "nothing was measured of it"


def test_a_sweep_shows_every_head_and_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """It grows by slices; cancelled, it keeps what it has and can go on; its table holds what was computed."""
    page = asked(text="Two dogs run.", sweep="heads", map="difference", head="mean")
    assert "Change of log p of the whole target" in said(page)
    assert "Choose one head above" in said(page)
    table = next(frame.value for frame in page.dataframe if len(frame.value) == 48 and frame.value.shape[1] == 2)
    off = [Intervention("decoder.3.cross", "mean", heads=(1,))]
    alone = same_target(translator(), unchanged("Two dogs run."), off).total
    assert dict(zip(*table.values.T, strict=True))["decoder.3.cross H1"] == pytest.approx(alone, abs=1e-4)

    def one_alone(sweep: Sweep, _seconds: float = 0) -> None:
        sweep.done += next(sweep.steps)
        sweep.cancel()

    with monkeypatch.context() as patched:
        patched.setattr(Sweep, "advance", one_alone)
        page = asked(text="Two dogs run.", sweep="source", do=OFF)
        assert "Cancelled after 1 of 5" in said(page)
    assert not keyed(pressed(page, "sweep-resume"), "sweep-"), "it is done"
    header, arrays = sent(page, "sweep-grid")
    assert header["queries"]["labels"][1] == "dogs"
    table = next(frame.value for frame in page.dataframe if frame.value.iloc[0, 0] == "Two")
    np.testing.assert_allclose(table.iloc[:, 1], table.iloc[:, 2:].sum(axis=1))
    np.testing.assert_allclose(arrays["weights"], table.iloc[:, 2:].to_numpy(float).ravel(), rtol=1e-6)


def test_a_sweep_that_fails_says_why_keeps_what_it_has_and_goes_on_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(checkpoint: Any, before: Any) -> Iterator[Any]:
        yield next(iter(source_sweep(checkpoint, before)))
        raise InputError("no_tokens")

    monkeypatch.setattr(changed_runs, "source_sweep", failing)
    results.clear()
    page = opened("what_if", text="Two dogs run.", sweep="source", do=OFF)
    for _ in range(2):  # it is said again, and nothing begins anew
        page = page.run()
        assert not page.exception
        assert "divided by spaces" in problems(page)[-1]
        assert not keyed(page, "sweep-")
        assert any(frame.value.iloc[0, 0] == "Two" for frame in page.dataframe)


@pytest.mark.parametrize("name", [one.parent.name for one in CHECKPOINTS.glob("*/config.json")])
def test_what_a_checkpoint_says_is_worth_changing_changes_its_answer(name: str) -> None:
    """By live runs: another sentence, or another class; the first one is no donor's, so the page can open with it."""
    checkpoint = load(CHECKPOINTS / name)
    assert checkpoint.changed_examples
    assert not checkpoint.changed_examples[0].donor
    for example in checkpoint.changed_examples:
        if not checkpoint.translates:
            letters = example.text.split("\n")[-1]
            was = classify(checkpoint, letters)
            with intervening(from_text(example.change)):
                assert classify(checkpoint, letters).predicted != was.predicted
            continue
        other = translate(checkpoint, example.donor) if example.donor else None
        donors = {DONOR: donor_of(checkpoint, other, DONOR)} if other else {}
        with intervening(from_text(example.change, donors)):
            now = translate(checkpoint, example.text).text
        assert now != translate(checkpoint, example.text).text


def test_two_heads_that_replace_one_another_are_missed_only_together() -> None:
    example = translator().changed_examples[1]
    before, changes = unchanged(example.text), from_text(example.change)
    assert [changed(example.text, [one]) for one in changes] == [before.text] * len(changes)
    assert same_target(translator(), before, changes).total < -3.5


def test_the_list_of_what_is_worth_trying_draws_what_each_does_and_closes_on_a_choice() -> None:
    page = asked()
    assert not keyed(page, "try-"), "nothing ran for it"
    page.session_state["try-this"] = True
    page.run()
    drawn = [part.proto.body for part in page.get("html") if "words-read" in part.proto.body]
    assert len(drawn) == 3
    assert "Eine" in drawn[2]
    assert words(pressed(page, "try-2"), "now").startswith("Eine Frau")
    tried = translator().changed_examples[2]
    assert (address_of(page)["text"], address_of(page)["donor"]) == (tried.text, tried.donor)
    assert page.session_state["try-this"] is False
    assert not keyed(page, "try-")


def test_a_donor_stands_beside_the_sentence_and_can_be_put_in() -> None:
    """The button writes what its controls say; the odds are those of two runs; other lengths are refused with both."""
    rider, woman = SENTENCE, "A woman in a red shirt rides a bicycle."
    page = asked(text=rider, donor=woman, layer="3", head="1")
    pairs = [re.findall(r'data-testid="words-(one|two)">(.*?)</p>', part.proto.body) for part in page.get("html")]
    (read, wrote) = [[re.sub(r"</?mark>", "*", text) for _, text in pair] for pair in pairs if pair]
    assert read == [rider.replace("man", "*man*"), woman.replace("woman", "*woman*")], "words that differ are marked"
    rest = "in einem roten Hemd fährt Fahrrad."
    assert wrote == [f"*Ein* *Mann* {rest}", f"*Eine* *Frau* {rest}"]
    labels = sent(page, "donor-map-difference")[0]["queries"]["labels"]
    assert any("\u2192" in label for label in labels), "cells stand for cells"
    page.button_group(key="patch").set_value("output").run()
    page.button_group(key="patch-heads").set_value("layer").run()
    assert done(pressed(page, "do-patch")) == "decoder.3.cross~patch_output~q0-9~vdonor"
    assert words(page, "now").startswith("Eine Frau")
    ids = zip(unchanged(rider).target_ids, unchanged(woman).target_ids, strict=True)
    parted = next(i for i, (one, other) in enumerate(ids) if one != other)
    assert f"at step {parted}, where" in said(page), "counted as the slider does"
    changes = from_text(done(page) or "", {DONOR: donor_of(translator(), unchanged(woman), DONOR)})
    found = donor_odds(translator(), unchanged(rider), unchanged(woman), changes)
    assert found is not None
    odds = table_with(page, "log-odds (nats)")["log-odds (nats)"].tolist()
    assert odds == pytest.approx([found.base, found.changed, found.donor])
    longer = opened("what_if", text=rider, donor="A tall man in a red shirt rides a bicycle.", layer="3")
    told = next(one.value for one in longer.warning if "keys" in one.value or "rows" in one.value)
    assert {"11", "12"} <= set(re.findall(r"\d+", told))
    assert not keyed(longer, "do-patch")
    lost = opened("what_if", text=rider, do="decoder.3.cross~patch_output~vdonor")
    assert "donor" in lost.warning[0].value
    assert done(lost), "what stands there stays"


def test_a_margin_names_the_best_other_token_of_each_run() -> None:
    """Of a step at which another token takes the lead: the sentence, the file and the pictures say the same."""
    text, do = translator().changed_examples[0].text, translator().changed_examples[0].change
    both = [distributions((), text), distributions(from_text(do), text)]
    ids, (_, _, writer) = unchanged(text).target_ids, translator().translator()
    step = 1
    others = [max(set(range(run.shape[1])) - {ids[step]}, key=run[step].__getitem__) for run in both]
    margins = [run[step, ids[step]] - run[step, other] for run, other in zip(both, others, strict=True)]
    names = [writer.labels([other])[0] for other in others]
    assert margins[0] > 0 > margins[1]
    assert names[0] != names[1]
    page = asked(text=text, do=do, step=str(step))
    told = next(one.value for one in page.caption if "logits" in one.value)
    assert f"rank 1, {margins[0]:.2f} logits ahead of “{names[0]}”" in told
    assert f"rank 2, {-margins[1]:.2f} logits behind “{names[1]}”" in told
    for key, name in zip(("before_top", "after_top"), names, strict=True):
        rivals = [(row.value, row.name) for row in bars_of(page, key)[:-1] if "written" not in row.text]
        assert max(rivals)[1] == name, "the likeliest other token of its picture"
    row = effects_table(same_target(translator(), unchanged(text), from_text(do)).steps).iloc[step]
    assert [row.iloc[2], row.iloc[4]] == names
    assert [row.iloc[3], row.iloc[5]] == pytest.approx(margins, abs=1e-4)


def test_files_of_a_changed_run_name_what_was_changed() -> None:
    """The grid that is saved, the maps' files and their tables; a file of an unchanged run says nothing of it."""
    header, _ = sent(asked(text=SENTENCE, do=OFF), "switchboard")
    name = "A-man-in-a-red_multi30k-en-de_all-heads_decoder.cross_changed-decoder.3.cross-mean-h3_and-1-more"
    assert header["file_name"] == name
    named = ["Changed: decoder.3.cross (head 3) off (mean)", "Changed: decoder.2.cross (head 1) off (mean)"]
    assert header["about"]["lines"][2:4] == named
    with intervening(from_text(OFF)):
        record = translate(translator(), SENTENCE).record
    origin, plain = Provenance(NAME, SENTENCE, record.interventions), Provenance(NAME, SENTENCE)
    corner = csv(record["decoder.0.cross"].picture(0), origin.facts()).split("\n", 1)[0]
    assert all(one in corner for one in named)
    assert "Changed" not in csv(unchanged(SENTENCE).record["decoder.0.cross"].picture(0), plain.facts())
    assert "changed" not in plain.stem("record")
    assert "changed" not in sent(asked(text=SENTENCE), "switchboard")[0]["file_name"]


@pytest.mark.parametrize(("page", "address"), [
    ("translate", {"text": SENTENCE, "kind": "encoder.self", "layer": "1", "head": "3", "lang": "zh"}),
    ("sequences", {"model": "splice-junctions", "layer": "0", "head": "2", "sequence": ">x\nACGTACGTACGT"}),
])  # fmt: skip
def test_what_is_shown_elsewhere_can_be_changed_here(page: str, address: dict[str, str]) -> None:
    at = fine(opened(page, **address))
    (link,) = sent(at, "sequence-head-choice" if page == "sequences" else "head-choice")[0]["links"]
    assert link["path"] == "what_if"
    there = link["query"] | {key: address[key] for key in link["along"] if key in address}
    assert there == {"model": NAME, **address}


@pytest.mark.parametrize("page", ["translate", "what_if", "align", "map"])
def test_words_that_the_vocabulary_lacks_are_counted(page: str) -> None:
    """On every page with a sentence of one's own, in the same words and once; none where all are known."""
    for text, language, told in (
        ("A 狗 runs.", "en", ["1 of 4 words are unknown to its vocabulary: the model reads <unk> in their place"]),
        ("A 狗 runs.", "zh", ["4 个词中有 1 个不在词表中"]),
        ("Two dogs are playing in the snow.", "en", []),
    ):
        at = fine(opened(page, text=text, do="none", lang=language))
        counted = [one.value.replace("\\", "") for one in at.info if one.icon == ":material/info:"]
        assert len(counted) == len(told)
        assert all(one in found for one, found in zip(told, counted, strict=True)), counted


def test_a_sequence_is_classified_before_and_after() -> None:
    """Probabilities are those of two runs; a head of the pooling has a switch; a window is hidden from everybody."""
    name, site = "splice-junctions", "encoder.0.self"
    page = asked(model=name, layer="0", head="1", cell="2-5")
    assert done(page) is None
    assert "The class was IE, and is now N" in said(page), "it opens with a change"
    for key in ("chip-0", "switch-pooling-2", "do-window_for_nobody"):
        pressed(page, key)
    changes = from_text(done(page) or "")
    assert {(one.site, one.action, one.heads, one.keys) for one in changes} == {
        ("pooling", "mean", (2,), None),
        *((other, "knock_out", None, (5,)) for other in (site, "encoder.1.self", "pooling")),
    }
    checkpoint = load(CHECKPOINTS / name)
    letters = checkpoint.changed_examples[0].text.split("\n", 1)[1]
    before = classify(checkpoint, letters)
    with intervening(changes):
        after = classify(checkpoint, letters)
    table = table_with(page, "log-odds")
    odds = [np.log(run.probabilities / (1 - run.probabilities)) for run in (before, after)]
    for column, expected in zip(
        ("before", "now", "log-odds"), (before.probabilities, after.probabilities, odds[1] - odds[0]), strict=True
    ):
        np.testing.assert_allclose(table[column], expected, atol=1e-9)
    assert after.record["pooling"].all_weights()[:, :, 5].max() == 0
    wrong = opened("what_if", model=name, do="decoder.0.cross~zero", lang="zh")
    assert "decoder.0.cross" in wrong.warning[0].value
    assert not wrong.exception
