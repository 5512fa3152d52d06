"""What Translate sends to a browser that draws it by itself, and what it takes from what the browser then writes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.opening import address_of, chosen, fine, gone, opened, options, record_sent, sent
from tests.pages.tiny import save_tiny
from transformer import DecodingOptions, Record
from transformer.attention.measures import sites_of
from transformer.messages import Message
from transformer.pictures.axes import Axis
from ui.components.shared.record import TOLD
from ui.shared import controls, in_browser
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
    for kind, (told, weights) in found.items():
        for layer, site in enumerate(sites_of(record(), kind)):
            assert told["sites"][layer] == site
            for head in range(record()[site].n_heads):
                picture = record()[site].picture(head, not form, not form)
                expected = np.where(picture.visible, picture.values, -1).astype(np.float32)
                np.testing.assert_array_equal(weights[layer, head], expected)
            assert told["queries"]["labels"] == list(picture.queries.labels)
            assert told["keys"]["texts"] == list(picture.keys.texts)


def told(at: AppTest, **values: str) -> AppTest:
    """The page, once the browser has told it what stands behind # in its address."""
    at.session_state[TOLD] = values
    return fine(at.run())


def test_what_the_browser_told_is_taken_and_nothing_else_moves() -> None:
    at = page(view="steps", written="2")
    assert options(at, "head-choice")["asks"]  # this view follows the head, and the server draws it
    arrival = sent(at, "head-choice")[0]["local"]["arrival"]
    at = told(at, kind="encoder.self", head="mean", pair="encoder.self:two|dogs")
    assert chosen(at) == ("encoder.self", 0, None)
    assert sent(at, "head-choice")[0]["local"]["arrival"] == arrival
    at.toggle(key="words").set_value(False).run()
    chosen_here = {"kind": "encoder.self", "head": "mean", "pair": "encoder.self:two|dogs"}
    assert address_of(at) == {**TEXT, "view": "steps", "written": "2", "words": "False", **chosen_here}
    assert not at.query_params.keys() & chosen_here.keys()  # they stand behind #
    assert chosen(at) == ("encoder.self", 0, None)
    assert chosen(told(at))[0] == "decoder.cross"
    assert (address_of(at)["written"], at.toggle(key="words").value) == ("2", False)
    again = gone(at, text="dogs", written=None)  # another address altogether is another arrival
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


def test_larger_records_and_scores_are_drawn_by_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = 4 * sum(one.n_heads * one.shape[0] * one.shape[1] for one in record().values())
    monkeypatch.setattr(in_browser, "MOST_BYTES", numbers)
    at = page(head="1", relative="true")
    assert "record" in [part.key for part in at.get("bidi_component")]
    at.toggle(key="scores").set_value(True).run()
    fine(at)
    assert at.get("plotly_chart")
    assert (at.button_group(key="head").value, address_of(at)["scores"]) == ("1", "True")
    at.toggle(key="scores").set_value(False).run()
    assert chosen(fine(at)) == ("decoder.cross", 0, 1)
    monkeypatch.setattr(in_browser, "MOST_BYTES", numbers - 1)
    at = page(head="1")
    assert at.button_group(key="head").value == "1"


def test_layers_that_differ_in_what_is_known_of_them_are_drawn_by_the_server_and_in_tokens_each_by_itself() -> None:
    found = record()
    _, second = (found[site] for site in sites_of(found, "encoder.self"))
    assert in_browser.fits(found)
    noted = Record({**found.maps, second.site: replace(second, notes=(Message("note_merged_how"),))})
    assert not in_browser.fits(noted)
    assert list(controls.kinds(noted)) == ["decoder.cross", "decoder.self", "encoder.self"]
    keys = Axis.of_tokens(second.keys.name, [text.upper() for text in second.keys.texts])
    other = Record({**found.maps, second.site: replace(second, keys=keys)})
    assert in_browser.fits(other)
    assert list(controls.kinds(other)) == ["decoder.cross", "decoder.self", "encoder.0.self", "encoder.1.self"]


def test_a_first_layer_that_a_kind_lacks_is_its_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page begins at a head of the decoder, which may have more layers than the encoder."""
    save_tiny(tmp_path, n_encoder_layers=1, n_decoder_layers=3)
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    monkeypatch.setattr("ui.shared.heads.first_head", lambda *_: (2, 1))
    assert chosen(page()) == ("decoder.cross", 2, 1)
    assert chosen(page(kind="encoder.self")) == ("encoder.self", 0, 1)
