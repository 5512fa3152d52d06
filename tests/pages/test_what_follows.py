"""The page What if: what is said of a change, recomputed from other runs: sweeps, donors, margins, files, classes."""

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from heedmap import Intervention, intervening, load, translate
from heedmap.attention.interventions.value import from_text
from heedmap.errors import InputError
from heedmap.plots.export import csv
from heedmap.plots.labels import readable
from heedmap.runs.sequences.classify import classify
from heedmap.runs.what_if import donor_odds, donor_of, same_target, source_sweep
from tests.pages.changing import (
    NAME,
    OFF,
    SENTENCE,
    asked,
    changed,
    distributions,
    done,
    keyed,
    translator,
    unchanged,
    words,
)
from tests.pages.opening import address_of, bars_of, fine, opened, pressed, problems, said, sent
from tests.pages.opening import table as table_with
from ui.shared.changes import DONOR
from ui.shared.files import Provenance
from ui.store import cache as results
from ui.store.store import CHECKPOINTS
from ui.what_if import changed as changed_runs
from ui.what_if.changed import Sweep
from ui.what_if.views import effects_table


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
    page = asked(text=text, do=do, written=str(step + 1))
    told = next(one.value for one in page.caption if "logits" in one.value)
    assert f"rank 1, {margins[0]:.2f} logits ahead of “{readable(names[0])}”" in told
    assert f"rank 2, {-margins[1]:.2f} logits behind “{readable(names[1])}”" in told
    for key, name in zip(("before_top", "after_top"), names, strict=True):
        rivals = [(row.value, row.name) for row in bars_of(page, key)[:-1] if "written" not in row.text]
        assert max(rivals)[1] == readable(name), "the likeliest other token of its picture"
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
