"""What Sequences sends to a browser that draws its heads by itself, and which runs draw a part of the page alone."""

import numpy as np
import pytest

from tests.pages.opening import is_whole, moved, opened, options, record_sent, sent, told
from tests.pages.test_sequences import fine, page, passes, shipped
from transformer import Checkpoint
from transformer.runs.sequences.classify import classify
from ui.components.shared.record import TOLD
from ui.sequences import in_browser

__all__ = ["passes", "shipped"]  # fixtures that tests here take

LETTERS = "ACGTTGCANGTGTCAGTTGACGT"


def test_all_heads_over_windows_are_sent_once_with_what_the_address_calls_them(shipped: Checkpoint) -> None:
    at = fine(page(view="windows"))
    run = classify(shipped, LETTERS)
    found = record_sent(at)
    assert {name: kind["layers"] for name, (kind, _) in found.items()} == {
        "encoder.self": ["0", "1"],
        "pooling": ["pooling"],
    }
    for kind, weights in found.values():
        for layer, site in enumerate(kind["sites"]):
            expected = [run.record[site].weights(head) for head in range(run.record[site].n_heads)]
            np.testing.assert_array_equal(weights[layer], np.float32(expected))
    assert sent(at, "record")[0]["usual"] == {"kind": 1, "layer": 0, "head": None}
    axes = sent(at, "windows")[0]["axes"]
    first = next(i for i, span in enumerate(run.spans) if span.width != run.spans[0].width)
    assert (axes["encoder.self"]["edges"], axes["pooling"]["edges"]) == ([[first], [first]], [[], [first]])
    assert not options(at, "sequence-head-choice")["asks"]  # nothing here follows a choice but what the browser draws
    assert options(fine(page()), "sequence-head-choice")["asks"]  # letters do, and the server draws them


@pytest.mark.parametrize(
    ("said", "drawn", "kept"),
    [
        ({}, ["pooling", 0, None], {}),
        ({"layer": "pooling", "head": "mean"}, ["pooling", 0, None], {}),
        ({"layer": "0", "head": "2"}, ["encoder.self", 0, 2], {"layer": "0", "head": "2"}),
        ({"layer": "7", "head": "x"}, ["pooling", 0, None], {}),
        ({"relative-windows": "True"}, ["pooling", 0, None], {"relative": "True"}),
    ],
)
def test_older_addresses_and_wrong_ones_mean_what_they_say(
    said: dict[str, str], drawn: list[object], kept: dict[str, str]
) -> None:
    at = fine(page(view="windows", **said))
    assert options(at, "sequence-head-choice")["drawn"] == drawn
    local = sent(at, "windows")[0]["local"]
    assert local["values"].get("relative") == kept.get("relative")


def test_a_choice_that_the_server_draws_runs_its_part_alone_once_its_work_is_done(
    passes: list[int],
) -> None:
    at = page()  # the run that computes effects, which a button stops, is the page's own
    assert is_whole(at)
    assert passes
    at = fine(at.run())
    ran = len(passes)
    at.session_state[TOLD] = {"layer": "1"}
    at = moved(at, "view")
    assert not is_whole(at)
    assert not at.text_area
    assert options(at, "sequence-head-choice")["drawn"] == ["encoder.self", 1, None]
    assert "encoder.1.self, mean" in " ".join(part.value for part in at.markdown)
    assert len(passes) == ran
    at = fine(at.run())
    target = next(one for one in at.button_group if (one.key or "").startswith("target-"))
    target.set_value(next(name for name in target.options if name != target.value))
    assert is_whole(moved(at, target.key))  # the effects on another class are work that a button stops
    assert len(passes) > ran


def test_of_records_that_are_too_large_the_chosen_site_is_sent(
    shipped: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = classify(shipped, LETTERS).record
    size = 4 * sum(one.n_heads * one.shape[0] * one.shape[1] for one in record.values())
    monkeypatch.setattr(in_browser, "MOST_BYTES", size - 1)
    at = fine(page(view="windows", layer="0", head="2", relative="true"))
    found = record_sent(at)
    assert (found["encoder.self"][0]["there"], found["pooling"][0]["there"]) == ([0], [])
    np.testing.assert_array_equal(found["encoder.self"][1][0, 2], np.float32(record["encoder.0.self"].weights(2)))
    assert options(at, "sequence-head-choice")["asks"]
    assert record_sent(told(at, layer="pooling"))["pooling"][1].shape[0] == 1


@pytest.mark.parametrize(
    ("name", "query", "key", "absent"),
    [
        ("align", {"text": "Two dogs are playing in the snow.", "beam": "1"}, "screen", "text"),
        ("masks", {"screen": "scores"}, "at_head", "sources"),
        ("positions", {"screen": "waves"}, "dim", "n_rows"),
        ("inside_layer", {}, "next", "seed"),
        ("attention_steps", {"screen": "rows"}, "temperature", "seed"),
    ],
)
def test_align_and_the_lessons_draw_what_a_choice_changes_and_nothing_else(
    name: str, query: dict[str, str], key: str, absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the shipped checkpoints
    at = fine(opened(name, **query))
    assert is_whole(at)
    at = fine(moved(at, key))
    assert not is_whole(at)
    drawn = [one.key for one in (*at.text_area, *at.slider, *at.number_input)]
    assert absent not in drawn
