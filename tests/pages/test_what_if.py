"""The page What if: what its address says is done, no more and no less; bad input; other models; in Chinese too."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from heedmap import Intervention
from heedmap.attention.interventions.value import from_text, to_text
from heedmap.errors import InputError
from tests.pages.changing import OFF, SENTENCE, asked, changed, distributions, done, keyed, translator, unchanged, words
from tests.pages.opening import address_of, bars_of, fine, is_whole, moved, opened, pressed, said, sent
from ui.shared.changes import Changes, in_force

HEAD = {"text": SENTENCE, "kind": "decoder.cross", "layer": "1", "head": "2", "cell": "3-2"}
"""A head with a picked cell."""


def chips(page: AppTest) -> list[str]:
    return [button.label for button in page.button if str(button.key).startswith("chip-")]


def row_of(page: AppTest) -> list[float]:
    """The weights of the bars of the picked row."""
    header, arrays = sent(page, "row-bars")
    assert len(header["labels"]) == len(arrays["weights"])
    found: list[float] = arrays["weights"].tolist()
    return found


def bars(page: AppTest) -> list[float]:
    """The change of log p of each token, as it is drawn."""
    return [row.value for row in bars_of(page, "effects")]


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
    assert "whole sentence (nats): none." in said(page)
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
    assert page.slider(key="written").value == largest + 1
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
    page.slider(key="written").set_value(2)
    page = fine(moved(page, "written"))
    assert [part.key for part in page.slider] == ["written"]
    assert address_of(page)["written"] == "2"
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
