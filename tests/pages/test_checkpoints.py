"""The page Your model: files in, questions, attention and tensors out; refusals are sentences; sessions stay apart."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from tests.checkpoint.references import REFERENCE, reference_file
from tests.pages import opening
from tests.pages.opening import (
    brought,
    chosen,
    gone,
    head_shown,
    matrix_sent,
    problems,
    ran,
    record_sent,
    sent,
    with_heads,
)
from tests.safe.hostile import corpus, saved
from transformer import attention_maps, load
from ui.store.upload_quota import LEDGER, UploadLimits

ANNOTATED = reference_file("annotated").read_bytes()


pytestmark = pytest.mark.usefixtures("shipped")
"""A tiny checkpoint stands in for the shipped ones."""


def opened(**address: str) -> AppTest:
    page = opening.opened("your_model", **address)
    assert not page.exception
    return page


def fine(page: AppTest) -> AppTest:
    assert not page.exception
    return page


def asked(page: AppTest, kind: str, question: str):
    return next(widget for widget in page.get(kind) if widget.key.endswith(f".{question}") and "ask." in widget.key)


def open_panel(page: AppTest, panel: str) -> AppTest:
    return fine(page.button_group(key="show").set_value(panel).run())


def test_first_paint_shows_a_shipped_checkpoint():
    page = opened()
    assert page.selectbox(key="model").options == ["tiny"]
    assert not page.warning
    assert not page.error


def test_an_upload_is_recognised_asked_about_and_shown():
    page = brought(opened(), **{"model.pt": ANNOTATED})
    assert page.selectbox(key="model").value == "upload/model"
    assert "The Annotated Transformer" in page.warning[0].value
    assert "100%" in page.warning[0].value
    assert page.button_group(key="show").options == ["Tensors", "Check"]  # no maps before an answer
    heads = asked(page, "button_group", "n_heads")
    assert heads.value is None
    fine(with_heads(page, 3))
    assert not page.success  # what starts a target is assumed
    assert "assumed, since the file does not say: pad\\_id=0, bos\\_id=1" in page.warning[0].value
    fine(page.button(key="confirm-answers").click().run())
    assert "100%" in page.success[0].value
    assert not page.warning
    page.text_input(key="input").set_value("5 6 7")
    page.text_input(key="forced").set_value("4 9")
    ran(page)
    gone(page, kind="encoder.self", layer="0", head="1")
    title, drawn = head_shown(page)
    assert title == "encoder.0.self · head 1"
    expected = attention_maps(load(reference_file("annotated"), n_heads=3), [[5, 6, 7, 2]], [[1, 4, 9]])
    np.testing.assert_allclose(drawn, expected["encoder.0.self"][0, 1], atol=1e-5)
    assert record_sent(page)["encoder.self"][1].shape[1] == 3


def test_scores_are_drawn_by_the_server_and_come_back_to_the_browser():
    page = gone(opened(), head="1")
    page.toggle(key="scores").set_value(True)
    fine(page.run())
    picture, scores = matrix_sent(page, "heatmap")
    assert "decoder.0.cross · head 1" in picture["title"]
    assert np.nanmin(scores) < 0
    assert chosen(page)[2] == 1
    page.toggle(key="scores").set_value(False)
    assert head_shown(fine(page.run()))[0] == "decoder.0.cross · head 1"
    assert "scores" not in sent(page, "heatmap")[0]


def test_answers_are_kept_for_the_file_and_can_be_taken_back():
    page = brought(opened(), **{"model.pt": ANNOTATED})
    asked(page, "button_group", "n_heads").set_value(3)
    fine(page.run())
    asked(page, "number_input", "bos_id").set_value(7)
    fine(page.run())
    page.button(key="remove").click()
    fine(page.run())
    assert "upload/model" not in page.selectbox(key="model").options
    page = brought(page, **{"again.pt": ANNOTATED})
    assert page.selectbox(key="model").value == "upload/again"
    assert asked(page, "button_group", "n_heads").value == 3
    assert asked(page, "number_input", "bos_id").value == 7
    page.button(key="forget-answers").click()
    fine(page.run())
    assert asked(page, "button_group", "n_heads").value is None


def test_a_rare_answer_is_taken():
    page = brought(opened(), **{"model.pt": ANNOTATED})
    page.session_state["rare-questions"] = True
    fine(page.run())
    assert asked(page, "text_input", "norm_eps").value == "1e-06"
    assert asked(page, "number_input", "target_pad_id").value == 0
    asked(page, "text_input", "norm_eps").set_value("0.001")
    fine(page.run())
    assert not problems(page)
    asked(page, "text_input", "norm_eps").set_value("many")
    assert asked(fine(page.run()), "text_input", "norm_eps").value == "1e-06"


def test_an_impossible_answer_is_a_sentence_and_not_the_end():
    page = brought(opened(), **{"model.pt": ANNOTATED})
    asked(page, "number_input", "bos_id").set_value(7)
    fine(page.run())
    asked(page, "number_input", "eos_id").set_value(4_000)
    fine(page.run())
    assert problems(page)[0] == r"eos\_id=4000 is no token: the vocabulary has ids 0 to 28."
    assert asked(page, "number_input", "eos_id").value == 4_000  # the questions stay, with what was answered
    assert asked(page, "number_input", "bos_id").value == 7
    asked(page, "number_input", "eos_id").set_value(5)
    assert not problems(fine(page.run()))


def test_a_file_that_does_not_fit_gets_a_report():
    weights = dict(torch.load(io.BytesIO(ANNOTATED), weights_only=True))
    weights["generator.proj.weight"] = torch.zeros(3, 7)
    del weights["decoder.norm.a_2"]
    weights["extra.weight"] = torch.ones(2, 2)
    page = brought(opened(), **{"odd.pt": saved(weights)})
    assert "The Annotated Transformer" in page.error[0].value
    tables = " ".join(frame.value.to_string() for frame in page.dataframe)
    assert all(name in tables for name in ("decoder.norm.a_2", "generator.proj.weight", "extra.weight", "3 x 7"))
    assert any("take out the 1 unexpected" in text.value for text in page.text)
    assert page.button_group(key="show").options == ["Tensors"]


def test_after_a_file_that_does_not_fit_a_good_one_opens_with_its_attention():
    page = brought(opened(), **{"odd.pt": saved({"other.weight": torch.zeros(3, 3)})})
    assert page.button_group(key="show").value == "tensors"
    page = with_heads(brought(page, **{"good.pt": ANNOTATED}), 3)
    assert page.selectbox(key="model").value == "upload/good"
    assert page.button_group(key="show").value == "attention"


def test_what_no_layout_explains_is_still_inspected():
    page = brought(
        opened(), **{"net.pt": saved({"conv1.weight": torch.ones(2, 3), "bn.weight": torch.full((4,), torch.nan)})}
    )
    assert "no known layout" in page.error[0].value
    assert any("bn.weight" in error.value for error in page.error[1:])


def test_hostile_files_are_sentences_and_nothing_is_kept(tmp_path: Path):
    page = opened()
    for trick, data, reason in list(corpus(str(tmp_path / "marker")))[::40]:
        page = brought(page, **{"model.pt": data})
        assert reason in problems(page)[0], trick
        assert page.selectbox(key="model").options == ["tiny"]
    assert not (tmp_path / "marker").exists()
    assert "The Annotated Transformer" in brought(page, **{"model.pt": ANNOTATED}).warning[0].value


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"file_bytes": 1000}, "at most 0.0 MB are taken here"),
        ({"session_bytes": 1000}, "remove a checkpoint first"),
        ({"server_bytes": 1000}, "server holds"),
        ({"checkpoints": 0}, "which is all it may"),
    ],
)
def test_more_than_the_limits_is_refused(monkeypatch: pytest.MonkeyPatch, limits, message):
    narrow = UploadLimits(**limits)
    monkeypatch.setattr(UploadLimits, "of", classmethod(lambda cls, environment: narrow))
    page = brought(opened(), **{"model.pt": ANNOTATED})
    assert message in page.warning[0].value
    assert page.selectbox(key="model").options == ["tiny"]


def test_what_all_sessions_hold_is_counted_and_struck_off():
    import gc

    gc.collect()
    before = LEDGER.held
    page = brought(opened(), **{"model.pt": ANNOTATED})
    assert LEDGER.held == before + len(ANNOTATED)
    page.button(key="remove").click()
    fine(page.run())
    page = fine(page.run())
    gc.collect()
    assert LEDGER.held == before


def test_another_session_sees_nothing_of_an_upload():
    mine = brought(opened(), **{"secret.pt": ANNOTATED})
    assert mine.selectbox(key="model").value == "upload/secret"
    theirs = opened(model="upload/secret")
    assert theirs.selectbox(key="model").options == ["tiny"]
    assert theirs.selectbox(key="model").value == "tiny"
    theirs.session_state["chosen"] = "upload/secret"
    assert theirs.run().selectbox(key="model").options == ["tiny"]
    elsewhere = opening.opened("translate", model="upload/secret")
    assert fine(elsewhere).selectbox(key="model").options == ["tiny"]


def test_an_upload_can_be_chosen_on_translate():
    page = brought(opened(), **{"model.chkpt": (REFERENCE / "jadore-separate" / "model.chkpt").read_bytes()})
    page.switch_page("pages/translate.py").run()
    fine(page)
    assert page.selectbox(key="model").options == ["tiny", "upload/model"]
    assert page.selectbox(key="model").value == "upload/model"
    page.text_area(key="text").set_value("5 6 7")
    ran(page)
    assert [warning.value for warning in page.warning] == [  # on top of the page, once
        r"Assumed, since the file does not say: bos\_id=1. Answer it on the page Your model."
    ]


def test_a_pair_with_a_vocabulary_each():
    folder = REFERENCE / "rnn-tutorial-2"
    files = {name: (folder / name).read_bytes() for name in ("encoder.pt", "decoder.pt")}
    page = brought(opened(), **files)
    config = load(folder).model.config
    assert page.selectbox(key="model").value == "upload/decoder-encoder"
    words = "\n".join(f"w{i}" for i in range(config.source_vocab)).encode()
    page = brought(page, **{"wrong.txt": b"a\nb", "source.txt": words})
    assert "wrong.txt has 2 tokens" in problems(page)[0].replace("\\", "")
    page = fine(brought(page, **{"source.txt": words}))
    page.text_input(key="input").set_value("w3 w4")
    ran(page)
    assert not problems(page)
