"""The page What if: first paint, heads switched off and on, the address, bad input; in both languages."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.opening import address_of, fine, is_whole, moved, opened, problems, sent
from tests.pages.what_if import NAME, SENTENCE, chips, translator, unchanged, words
from transformer import DecodingOptions, Intervention, intervening, load, translate
from transformer.attention.interventions.text import from_text
from transformer.errors import InputError
from transformer.plots.canvas.blob import unpack
from transformer.plots.export import csv
from transformer.runs.donors import donor_of, log_odds
from transformer.runs.sequences.classify import classify
from transformer.runs.what_if import same_target, source_sweep
from ui.shared.changes import DONOR
from ui.shared.files import Origin
from ui.store import cache
from ui.store.shipped import CHECKPOINTS
from ui.what_if import runs
from ui.what_if.runs import Sweep

OFF = "decoder.3.cross~mean~h3~~decoder.2.cross~mean~h1"


def bars_of(page: AppTest) -> list[float]:
    """The weights of the bars of the picked row."""
    parts = [unpack(part.proto.bytes) for part in page.get("bidi_component") if part.proto.bytes]
    header, arrays = next(part for part in parts if part[0]["instance"] == "row-bars")
    assert len(header["labels"]) == len(arrays["weights"])
    found: list[float] = arrays["weights"].tolist()
    return found


def test_the_page_opens_with_a_change_done_which_one_chip_takes_back() -> None:
    """The change is that of the checkpoint's file, and both sentences are those of two runs."""
    page = fine(opened("what_if"))
    first = translator().changed_examples[0]
    with intervening(from_text(first.change)):
        assert words(page, "now") == translate(translator(), first.text).text
    assert words(page, "was") == unchanged(first.text).text
    assert words(page, "was").startswith("Eine Frau")
    assert words(page, "now").startswith("Eine Straße")
    assert address_of(page) == {}
    assert chips(page) == ["“woman” hidden"]
    assert page.button_group(key="hidden-words").value == [1]
    page.button(key="chip-0").click().run()
    assert words(fine(page), "was") == words(page, "now")
    assert address_of(page) == {"do": "none"}
    assert not chips(page)
    assert "Nothing is changed" in " ".join(part.value for part in page.caption)
    assert "+0.00 nats" in " ".join(part.value for part in page.caption)
    page.button_group(key="hidden-words").set_value([1]).run()
    assert address_of(fine(page)) == {}, "as it was at first"
    page.button_group(key="hidden-words").set_value([1, 8]).run()
    assert chips(fine(page)) == ["“woman” hidden", "“street” hidden"]
    page.button_group(key="hidden-words").set_value([8]).run()
    assert chips(fine(page)) == ["“street” hidden"]
    assert words(page, "now") == "Eine Frau spielt auf einer Gitarre."


def test_an_address_shows_its_changes_and_a_chip_takes_one_away() -> None:
    page = fine(opened("what_if", text=SENTENCE, do=OFF))
    checkpoint = translator()
    with intervening(from_text(OFF)):
        expected = translate(checkpoint, SENTENCE, DecodingOptions())
    assert words(page, "now") == expected.text
    before = unchanged(SENTENCE)
    with intervening(from_text(OFF)):
        after = translate(checkpoint, SENTENCE, forced=before.text)
    changes = [np.log(now.probability / was.probability) for now, was in zip(after.steps, before.steps, strict=True)]
    largest = int(np.argmax(np.abs(changes)))
    assert changes[largest] < 0 < max(changes), "so the largest change is not the largest rise"
    assert page.slider(key="step").value == largest
    assert chips(page) == ["decoder.3.cross (head 3) off (mean)", "decoder.2.cross (head 1) off (mean)"]
    page.button(key="chip-0").click().run()
    assert address_of(page)["do"] == "decoder.2.cross~mean~h1"
    page.button(key="chip-0").click().run()
    assert "do" not in address_of(page)


@pytest.mark.parametrize(
    ("do", "told"),
    [
        ("~~".join(["a~zero"] * 10**4), "holds 10000 interventions"),
        ("<b>~zero", "is no name of an attention"),
        ("decoder.9.cross~zero", "model has no attention 'decoder.9.cross'"),
        ("encoder.0.self~knock_out~k99", "past the end of encoder.0.self"),
        ("decoder.0.self~force~q0~v0.5_0.5", "which a row there may not see"),
    ],
)
def test_what_cannot_be_done_is_told_and_nothing_is_lost(do: str, told: str) -> None:
    page = opened("what_if", text=SENTENCE, do=do)
    assert not page.exception
    assert told in page.warning[0].value.replace("\\", "")
    assert words(page, "was") == words(page, "now") != ""
    assert address_of(page)["do"] == do


def test_other_checkpoints_and_chinese() -> None:
    page = fine(opened("what_if", model="multi30k-en-de-rnn", do="decoder.cross~uniform", lang="zh"))
    assert chips(page) == ["decoder.cross 设为均匀"]
    assert "假如" in page.title[0].value
    forced = fine(opened("what_if", text=SENTENCE, force="Ein Mann.", do=OFF))
    assert "A target is forced" in " ".join(part.value for part in forced.caption)


def test_a_picked_cell_its_row_and_its_column_can_be_changed() -> None:
    """Each button writes the intervention that it names; the map, before and after, is the run's."""
    address = dict(text=SENTENCE, kind="decoder.cross", layer="1", head="2", cell="3-2")
    page = fine(opened("what_if", **address))
    site = "decoder.1.cross"
    for button, expected in {
        "do-knock_out_cell": f"{site}~knock_out~h2~q3~k2",
        "do-cut_cell": f"{site}~cut~h2~q3~k2",
        "do-knock_out_column": f"{site}~knock_out~h2~k2",
        "do-only_here": f"{site}~force~h2~q3~k2~v1.0",
        "do-uniform": f"{site}~uniform~h2~q3",
        "do-soften_head": f"{site}~temperature~h2~v1.0",
    }.items():
        page.button(key=button).click().run()
        assert address_of(fine(page))["do"].split("~~")[-1] == expected
    page.button(key="clear").click().run()
    page.button(key="do-for_nobody").click().run()
    nobody = from_text(address_of(fine(page))["do"])
    assert {one.site for one in nobody} == {
        f"{stack}.{i}.{kind}" for i in range(4) for stack, kind in (("encoder", "self"), ("decoder", "cross"))
    }
    assert chips(page) == ["“in” hidden"], "one chip takes all of them away"
    page.button(key="chip-0").click().run()
    assert "do" not in address_of(fine(page))
    before = unchanged(SENTENCE).record[site].weights(2)[3]
    np.testing.assert_allclose(bars_of(page), before, atol=1e-6)


def test_a_change_of_the_same_row_takes_the_place_of_the_last_one() -> None:
    """Of several whole rows the last wins, so the others would be chips that do nothing."""
    row = "decoder.1.cross~{}~h2~q3"
    there = f"{row.format('uniform')}~~{row.format('temperature')}~v0.5"
    page = fine(opened("what_if", text=SENTENCE, kind="decoder.cross", layer="1", head="2", cell="3-2", do=there))
    page.button(key="do-sharpest").click().run()
    assert address_of(fine(page))["do"] == f"{row.format('temperature')}~v0.5~~{row.format('sharpest')}"
    assert sorted(bars_of(page)) == [0.0] * 10 + [1.0]
    page.button(key="do-soften_row").click().run()
    assert address_of(fine(page))["do"] == f"{row.format('sharpest')}~~{row.format('temperature')}~v1.0"


def test_an_action_draws_what_follows_from_it_and_no_more() -> None:
    """The map or a step alone; a change everything below the sentence; a sweep, which a button stops, the page."""
    page = fine(opened("what_if", text="Two dogs run.", kind="decoder.cross", layer="1", head="2", cell="1-1"))
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
    assert not [button for button in page.button if button.key == "sweep-cancel"]


def test_of_a_sequence_an_action_draws_what_follows_from_it() -> None:
    page = fine(opened("what_if", model="splice-junctions", layer="1", head="1", cell="3-4", do="none"))
    page.button(key="switch-0").click()
    page = fine(moved(page, "switch-0"))
    assert not is_whole(page)
    assert address_of(page)["do"] == "encoder.0.self~mean~h0-3"
    page.segmented_control(key="map").set_value("difference")
    page = fine(moved(page, "map"))
    assert not page.dataframe
    assert sent(page, "map-of-head")[0]["centred"]


def test_a_sweep_shows_every_head_and_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """It grows by slices; cancelled, it keeps what it has and can go on; its table holds what was computed."""
    page = fine(opened("what_if", text="Two dogs run.", sweep="heads", map="difference", head="mean"))
    assert "Change of log p of the whole target" in " ".join(part.value for part in page.caption)
    assert any("Choose one head above" in part.value for part in page.info)
    table = next(frame.value for frame in page.dataframe if len(frame.value) == 48 and frame.value.shape[1] == 2)
    checkpoint = translator()
    before = translate(checkpoint, "Two dogs run.", DecodingOptions())
    alone = same_target(checkpoint, before, [Intervention("decoder.3.cross", "mean", heads=(1,))]).total
    assert dict(zip(*table.values.T, strict=True))["decoder.3.cross H1"] == pytest.approx(alone, abs=1e-4)

    def one_alone(sweep: Sweep, _seconds: float = 0) -> None:
        sweep.done += next(sweep.steps)
        sweep.cancel()

    with monkeypatch.context() as patched:
        patched.setattr(Sweep, "advance", one_alone)
        page = fine(opened("what_if", text="Two dogs run.", sweep="source", do=OFF))
        assert any("Cancelled after 1 of 5" in part.value for part in page.caption)
    page.button(key="sweep-resume").click().run()
    assert not [button for button in fine(page).button if str(button.key).startswith("sweep-")], "it is done"
    header, arrays = sent(page, "sweep-grid")
    assert header["queries"]["labels"][1] == "dogs"
    table = next(frame.value for frame in page.dataframe if frame.value.iloc[0, 0] == "Two")
    np.testing.assert_allclose(table.iloc[:, 1], table.iloc[:, 2:].sum(axis=1))
    np.testing.assert_allclose(arrays["weights"], table.iloc[:, 2:].to_numpy(float).ravel(), rtol=1e-6)


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
    for one in changes:
        with intervening([one]):
            assert translate(translator(), example.text).text == before.text
    assert same_target(translator(), before, changes).total < -3.5


def test_the_list_of_what_is_worth_trying_draws_what_each_does_and_closes_on_a_choice() -> None:
    page = fine(opened("what_if"))
    assert not [button for button in page.button if str(button.key).startswith("try-")], "nothing ran for it"
    page.session_state["try-this"] = True
    page.run()
    drawn = [part.proto.body for part in page.get("html") if "words-read" in part.proto.body]
    assert len(drawn) == 3
    tried = translator().changed_examples[2]
    assert "Eine" in drawn[2]
    page.button(key="try-2").click().run()
    assert words(fine(page), "now").startswith("Eine Frau")
    assert (address_of(page)["text"], address_of(page)["donor"]) == (tried.text, tried.donor)
    assert page.session_state["try-this"] is False
    assert not [button for button in page.button if str(button.key).startswith("try-")]


def test_a_donor_stands_beside_the_sentence_and_can_be_put_in() -> None:
    """The button writes what its controls say; the odds are those of two runs; other lengths are refused with both."""
    rider, woman = SENTENCE, "A woman in a red shirt rides a bicycle."
    page = fine(opened("what_if", text=rider, donor=woman, layer="3", head="1"))
    pairs = [re.findall(r'data-testid="words-(one|two)">(.*?)</p>', part.proto.body) for part in page.get("html")]
    (read, wrote) = [[re.sub(r"</?mark>", "*", text) for _, text in pair] for pair in pairs if pair]
    assert read == [rider.replace("man", "*man*"), woman.replace("woman", "*woman*")], "words that differ are marked"
    assert wrote == [
        "*Ein* *Mann* in einem roten Hemd fährt Fahrrad.",
        "*Eine* *Frau* in einem roten Hemd fährt Fahrrad.",
    ]
    labels = sent(page, "donor-map-difference")[0]["queries"]["labels"]
    assert any("\u2192" in label for label in labels), "cells stand for cells"
    page.button_group(key="patch").set_value("output").run()
    page.button_group(key="patch-heads").set_value("layer").run()
    page.button_group(key="patch-rows").set_value("all").run()
    page.button(key="do-patch").click().run()
    assert address_of(fine(page))["do"] == "decoder.3.cross~patch_output~q0-9~vdonor"
    assert words(page, "now").startswith("Eine Frau")
    table = next(frame.value for frame in page.dataframe if "odds" in frame.value)
    checkpoint = translator()
    parted = next(i for i, pair in enumerate(zip(unchanged(rider).target_ids, unchanged(woman).target_ids, strict=True))
                  if pair[0] != pair[1])  # fmt: skip
    assert any(f"at step {parted}, where" in part.value for part in page.markdown), "counted as the slider does"
    first, other = (translate(checkpoint, text) for text in (rider, woman))
    changes = from_text(address_of(page)["do"], {DONOR: donor_of(checkpoint, other, DONOR)})
    found = log_odds(checkpoint, first, other, changes)
    assert found is not None
    assert table["odds"].tolist() == pytest.approx([found.base, found.changed, found.donor])
    longer = opened("what_if", text=rider, donor="A tall man in a red shirt rides a bicycle.", layer="3")
    told = next(one.value for one in longer.warning if "keys" in one.value or "rows" in one.value)
    assert "12" in told
    assert "11" in told
    assert not [button for button in longer.button if button.key == "do-patch"]
    lost = opened("what_if", text=rider, do="decoder.3.cross~patch_output~vdonor")
    assert "donor" in lost.warning[0].value
    assert address_of(lost)["do"], "what stands there stays"


def test_a_sequence_is_classified_before_and_after() -> None:
    """Probabilities are those of two runs; a head of the pooling has a switch; a window is hidden from everybody."""
    name, site = "splice-junctions", "encoder.0.self"
    page = fine(opened("what_if", model=name, layer="0", head="1", cell="2-5"))
    assert "do" not in address_of(page)
    assert "The class was IE, and is now N" in " ".join(part.value for part in page.markdown), "it opens with a change"
    page.button(key="chip-0").click().run()
    page.button(key="switch-pooling-2").click().run()
    page.button(key="do-window_for_nobody").click().run()
    changes = from_text(address_of(fine(page))["do"])
    assert {(one.site, one.action, one.heads, one.keys) for one in changes} == {
        ("pooling", "mean", (2,), None),
        *((other, "knock_out", None, (5,)) for other in (site, "encoder.1.self", "pooling")),
    }
    checkpoint = load(CHECKPOINTS / name)
    letters = checkpoint.changed_examples[0].text.split("\n", 1)[1]
    before = classify(checkpoint, letters)
    with intervening(changes):
        after = classify(checkpoint, letters)
    table = next(frame.value for frame in page.dataframe if "change" in frame.value)
    np.testing.assert_allclose(table["before"], before.probabilities)
    np.testing.assert_allclose(table["after"], after.probabilities)
    odds = [np.log(run.probabilities / (1 - run.probabilities)) for run in (before, after)]
    np.testing.assert_allclose(table["change"], odds[1] - odds[0], atol=1e-9)
    assert after.record["pooling"].all_weights()[:, :, 5].max() == 0
    wrong = opened("what_if", model=name, do="decoder.0.cross~zero", lang="zh")
    assert "decoder.0.cross" in wrong.warning[0].value
    assert not wrong.exception


def test_files_of_a_changed_run_name_what_was_changed() -> None:
    """The grid that is saved, the maps' files and their tables; a file of an unchanged run says nothing of it."""
    page = fine(opened("what_if", text=SENTENCE, do=OFF))
    header, _ = sent(page, "switchboard")
    name = "A-man-in-a-red_multi30k-en-de_all-heads_decoder.cross_changed-decoder.3.cross-mean-h3_and-1-more"
    assert header["file_name"] == name
    named = ["Changed: decoder.3.cross (head 3) off (mean)", "Changed: decoder.2.cross (head 1) off (mean)"]
    assert header["about"]["lines"][2:4] == named
    record = translate(translator(), SENTENCE).record
    with intervening(from_text(OFF)):
        changed = translate(translator(), SENTENCE).record
    origin = Origin(NAME, SENTENCE, changed.interventions)
    corner = csv(changed["decoder.0.cross"].picture(0), origin.facts()).split("\n", 1)[0]
    assert all(one in corner for one in named)
    assert "Changed" not in csv(record["decoder.0.cross"].picture(0), Origin(NAME, SENTENCE).facts())
    assert "changed" not in Origin(NAME, SENTENCE).stem("record")
    header, _ = sent(fine(opened("what_if", text=SENTENCE)), "switchboard")
    assert "changed" not in header["file_name"]


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


@pytest.mark.parametrize(("page", "names"), [("what_if", 1), ("align", 1), ("translate", 1)])
def test_a_sentence_unlike_the_training_is_announced(page: str, names: int) -> None:
    """On every page with a sentence of one's own, in the same words; none of an example."""
    at = opened(page, text="I love you", **({"do": "none"} if page == "what_if" else {}))
    told = [one.value for one in at.warning if one.icon == ":material/travel_explore:"]
    assert len(told) == names
    assert "captions" in told[0]
    known = opened(page, text="Two dogs are playing in the snow.").warning
    assert not [one for one in known if one.icon == ":material/travel_explore:"]


def test_a_sweep_that_fails_says_why_keeps_what_it_has_and_goes_on_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(checkpoint: Any, before: Any) -> Iterator[Any]:
        yield next(iter(source_sweep(checkpoint, before)))
        raise InputError("no_tokens")

    monkeypatch.setattr(runs, "source_sweep", failing)
    cache.clear()
    page = opened("what_if", text="Two dogs run.", sweep="source", do=OFF)
    for _ in range(2):  # it is said again, and nothing begins anew
        page = page.run()
        assert not page.exception
        assert "divided by spaces" in problems(page)[-1]
        assert not [button for button in page.button if str(button.key).startswith("sweep-")]
        assert any(frame.value.iloc[0, 0] == "Two" for frame in page.dataframe)
