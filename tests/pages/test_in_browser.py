"""What Translate sends to a browser that draws it by itself, and what it takes from what the browser then writes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from heedmap import DecodingOptions, Record
from heedmap.attention.measures import sites_of
from heedmap.messages import Message
from heedmap.plots.axes import Axis
from tests.pages.opening import (
    address_of,
    chosen,
    fine,
    gone,
    head_shown,
    matrix_sent,
    opened,
    options,
    record_sent,
    sent,
    told,
)
from tests.pages.tiny import save_tiny
from ui.shared import controls, record_views
from ui.store import runs

TEXT = {"text": "two dogs", "longest": "10"}


pytestmark = pytest.mark.usefixtures("shipped")


def page(**address: str) -> AppTest:
    return fine(opened("translate", **TEXT, **address))


def record() -> Record:
    return runs.translation("tiny", TEXT["text"], DecodingOptions(max_length=10), None).record


@pytest.mark.parametrize("form", [{}, {"words": "False", "special": "False"}])
def test_all_heads_of_every_kind_are_sent_as_the_page_shows_them(form: dict[str, str]) -> None:
    found = record_sent(page(**form))
    assert list(found) == ["decoder.cross", "decoder.self", "encoder.self"]
    for kind, (said, weights) in found.items():
        for layer, site in enumerate(sites_of(record(), kind)):
            assert said["sites"][layer] == site
            for head in range(record()[site].n_heads):
                picture = record()[site].picture(head, not form, not form)
                expected = np.where(picture.visible, picture.values, -np.inf).astype(np.float32)
                np.testing.assert_array_equal(weights[layer, head], expected)
            assert said["queries"]["labels"] == list(picture.queries.labels)
            assert said["keys"]["texts"] == list(picture.keys.texts)


def test_what_the_browser_told_is_taken_and_nothing_else_moves() -> None:
    at = page(view="downloads", beam="2")
    assert options(at, "head-choice")["asks"]  # this view follows the head, and the server draws it
    arrival = sent(at, "head-choice")[0]["local"]["arrival"]
    at = told(at, kind="encoder.self", head="mean", pair="encoder.self:two|dogs")
    assert chosen(at) == ("encoder.self", 0, None)
    assert sent(at, "head-choice")[0]["local"]["arrival"] == arrival
    at.toggle(key="words").set_value(False).run()
    chosen_here = {"kind": "encoder.self", "head": "mean", "pair": "encoder.self:two|dogs"}
    assert address_of(at) == {**TEXT, "view": "downloads", "beam": "2", "words": "False", **chosen_here}
    assert not at.query_params.keys() & chosen_here.keys()  # they stand behind #
    assert chosen(at) == ("encoder.self", 0, None)
    assert chosen(told(at))[0] == "decoder.cross"
    assert (address_of(at)["beam"], at.toggle(key="words").value) == ("2", False)
    again = gone(at, text="dogs")  # another address altogether is another arrival
    assert sent(again, "head-choice")[0]["local"]["arrival"] > arrival


def test_keys_that_a_link_names_before_the_hash_are_handed_over_and_leave_the_query() -> None:
    at = page(head="mean")
    assert (chosen(at)[2], at.query_params.keys()) == (None, TEXT.keys())
    assert sent(at, "head-choice")[0]["local"]["values"] == {"head": "mean"}


def test_views_that_the_browser_draws_ask_for_nothing_and_no_number_is_sent_twice() -> None:
    at = page()
    assert not options(at, "head-choice")["asks"]
    for part in at.get("bidi_component"):
        if part.key in ("bitext", "all-heads", "heatmap", "head-choice"):
            assert sent(at, part.key)[0]["arrays"] == []
    before = {part.key: part.proto.bytes for part in at.get("bidi_component")}
    at.toggle(key="special").set_value(False).run()
    at.toggle(key="special").set_value(True).run()
    assert {part.key: part.proto.bytes for part in at.get("bidi_component")} == before


def test_of_a_larger_record_the_chosen_layer_is_sent_and_all_heads_of_its_kind_in_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers = 4 * sum(one.n_heads * one.shape[0] * one.shape[1] for one in record().values())
    monkeypatch.setattr(record_views, "MOST_BYTES", numbers)
    assert all("there" not in kind for kind, _ in record_sent(page()).values())
    monkeypatch.setattr(record_views, "MOST_BYTES", numbers - 1)
    at = page(kind="encoder.self", layer="1", head="1")
    assert options(at, "head-choice")["asks"]
    found = record_sent(at)
    assert found["encoder.self"][0]["there"] == [1]
    assert found["decoder.cross"][1].shape[0] == found["decoder.self"][1].shape[0] == 0
    _, weights = head_shown(at)
    picture = record()["encoder.1.self"].picture(1, words=True)
    np.testing.assert_array_equal(weights, picture.values.astype(np.float32))
    header, arrays = sent(at, "all-heads")
    assert list(header["grids"]) == ["encoder.self"]
    assert header["grids"]["encoder.self"]["size"] == list(picture.values.shape)
    codes = arrays["codes"].reshape(2, -1, *picture.values.shape)
    np.testing.assert_array_equal(codes[1, 1], np.rint(254 * picture.values))
    assert record_sent(told(at, kind="encoder.self", layer="0", head="1"))["encoder.self"][0]["there"] == [0]


def test_scores_are_the_servers_to_send_and_follow_the_head() -> None:
    at = page(head="1")
    at.toggle(key="scores").set_value(True).run()
    fine(at)
    expected = record()["decoder.0.cross"].picture(1, words=True, scores=True)
    header, values = matrix_sent(at, "heatmap")
    np.testing.assert_allclose(values, np.where(expected.visible, expected.values, -np.inf), rtol=1e-5)
    assert header["centred"]
    assert header["axis"]["notes"].startswith("Orange: score above 0")
    assert (header["site"], header["head"]) == ("decoder.0.cross", 1)
    assert options(at, "head-choice")["asks"]
    at.toggle(key="scores").set_value(False).run()
    assert not options(fine(at), "head-choice")["asks"]


def test_what_is_to_be_known_of_a_layer_alone_is_said_of_its_heads_and_tokens_that_differ_part_a_kind() -> None:
    found = record()
    _, second = (found[site] for site in sites_of(found, "encoder.self"))
    plain = {site: replace(one, notes=()) for site, one in found.maps.items()}  # random weights write in a loop
    noted = Record({**plain, second.site: replace(second, notes=(Message("note_merged_how"),))})
    form = record_views.form_of(noted, (0, 0), False, True, None)
    assert not form.first["encoder.self"].notes
    assert form.sites["encoder.0.self"].notes[0] == "Each row sums to 1 over the keys."
    assert form.sites["encoder.1.self"].notes[0] != form.sites["encoder.0.self"].notes[0]
    keys = Axis.of_tokens(second.keys.name, [text.upper() for text in second.keys.texts])
    other = Record({**found.maps, second.site: replace(second, keys=keys)})
    assert list(controls.kinds(other)) == ["decoder.cross", "decoder.self", "encoder.0.self", "encoder.1.self"]


def test_a_first_layer_that_a_kind_lacks_is_its_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page begins at a head of the decoder, which may have more layers than the encoder."""
    save_tiny(tmp_path, n_encoder_layers=1, n_decoder_layers=3)
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", tmp_path)
    monkeypatch.setattr("ui.shared.heads.first_head", lambda *_: (2, 1))
    assert chosen(page()) == ("decoder.cross", 2, 1)
    assert chosen(page(kind="encoder.self")) == ("encoder.self", 0, 1)
