"""The page "Learning": recordings at first, a run of one's own, its model on other pages, and what stood on Align."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from heedmap import DecodingOptions
from heedmap.training.snapshots import Learning, unpacked
from heedmap.training.tasks import Settings, noam
from tests.pages.opening import address_of, figure, fine, is_whole, moved, numbers, opened, sent
from tests.ui.store.test_trainings import InPlace
from tests.waiting import until
from ui.lessons.learning import SCREENS
from ui.lessons.watched_training import EVERY, TRY
from ui.store import runs, trainings
from ui.store.trainings import Trainings

page = partial(opened, "learning")
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "checkpoints" / "learning"
NAME = "multi30k-en-de"
SMALL = {"d_model": "16", "n_heads": "1"}


@pytest.fixture(autouse=True)
def _in_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Trainings of this test alone, in this process."""
    monkeypatch.setattr(trainings, "Child", InPlace)
    monkeypatch.setattr(trainings, "IDLE", 0.2)
    monkeypatch.setattr(trainings, "AWAY", 600.0)  # nobody is taken for gone
    monkeypatch.setattr("ui.lessons.watched_training.TRAININGS", Trainings())
    InPlace.made, InPlace.slow = [], False
    yield
    until(lambda: all(one.ended for one in InPlace.made))


def trained(at: AppTest) -> AppTest:
    """The page, once its run does not go on any more."""
    until(lambda: not any(button.key == "pause" for button in at.run().button))
    return fine(at)


def pressed(at: AppTest, key: str) -> AppTest:
    return at.button(key=key).click().run()


def test_the_first_paint_is_a_recording_and_trains_nothing() -> None:
    at = fine(page())
    header, arrays = sent(at, "learning-map")
    settings, snapshots = unpacked((FOLDER / "reverse.safetensors").read_bytes())
    assert settings == Settings()
    assert header["moments"][0]["name"] == "update 0: 0% right"
    last = snapshots[-1].measures
    site, head, _ = last.sharpest or ("", 0, 0.0)
    assert header["moments"][-1]["panels"][0]["title"] == f"{site}, head {head}"
    for number, one in enumerate(snapshots):
        np.testing.assert_allclose(arrays[f"{number}.0"].reshape(9, 9), one.maps[site][head], atol=1e-6)
    np.testing.assert_allclose(numbers(figure(at)["data"][0]["y"]), [one.measures.accuracy for one in snapshots])
    said = at.markdown[0].value
    first = next(one.measures for one in snapshots if one.measures.accuracy >= 0.99)
    assert f"{first.accuracy:.1%} of 200 unseen sequences are right after {first.update:,} updates" in said
    assert InPlace.made == []


def test_the_recordings_are_what_their_commands_make_and_small() -> None:
    files = sorted(FOLDER.glob("*.safetensors"))
    assert sum(file.stat().st_size for file in files) < 4_000_000
    told = (FOLDER / "README.md").read_text().replace("\\\n", " ")
    commands = re.findall(r"train task(.*?)--updates ([\d,]+) --out checkpoints/learning/(\w+)\.safetensors", told)
    assert {name for *_, name in commands} == {file.stem for file in files}
    wanted = [Settings.of({k: str(v).lower() for k, v in item.items()}) for item in TRY.values()]
    assert len(files) == len(wanted) == 6
    for said, updates, name in commands:
        settings, snapshots = unpacked((FOLDER / f"{name}.safetensors").read_bytes())
        options = said.split()
        assert Settings.of(dict(one.split("=") for one in options if "=" in one)) == settings
        assert settings in wanted
        assert [str(one.measures.update) for one in snapshots] == updates.split(",")
        assert len(snapshots) == 12
        kept = [bool(one.weights) for one in snapshots]
        assert kept == [("--last-weights" not in options) or one == 11 for one in range(12)]
    again = Learning(Settings())
    for one in unpacked((FOLDER / "reverse.safetensors").read_bytes())[1][:2]:
        again.advance(one.measures.update)
        for site, values in again.snapshot().maps.items():
            np.testing.assert_allclose(values, one.maps[site], atol=2e-3)


def test_training_draws_as_it_goes_and_the_address_makes_it_again() -> None:
    at = fine(page(**SMALL))
    assert "press Train" in at.info[0].value
    at = pressed(at, "step")
    assert address_of(at)["to"] == "10"
    at = trained(at)
    header, _ = sent(at, "learning-map")
    assert [one["name"].split(":")[0] for one in header["moments"]] == ["update 0", "update 10"]
    at = pressed(at, "step")
    assert address_of(at)["to"] == "20"
    assert len(sent(trained(at), "learning-map")[0]["moments"]) == 3
    at.query_params.clear()
    link = trained(page(**SMALL, to="20", moment="10"))
    header, arrays = sent(link, "learning-map")
    here = Learning(Settings.of(SMALL))
    here.advance(20)
    site, head = header["moments"][0]["panels"][0]["title"].split(", head ")
    np.testing.assert_allclose(arrays["2.0"].reshape(9, 9), here.snapshot().maps[site][int(head)], atol=1e-6)
    begun = next(part.proto for part in link.get("bidi_component") if part.key == "learning-map.options")
    assert json.loads(begun.json)["moment"] == 1
    assert sum(len(one.asked) for one in InPlace.made) == 3, "one run, whoever looks at it"


def test_of_many_trainings_each_page_says_one_thing_and_it_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainings, "KEPT_RUNS", 2)
    InPlace.slow = True
    pages = [page(**SMALL, seed=str(seed), to="0") for seed in (1, 2, 3, 5)]
    said = ["The training begins.", "It is trained in turn with 1 other.", "It waits until 1 other training has ended."]
    said.append("It waits until 2 other trainings have ended.")
    for at, one in zip(pages, said, strict=True):
        assert [info.value for info in at.info] == [one]
        assert one not in [caption.value for caption in at.caption]
    InPlace.slow = False
    assert all(is_whole(trained(at)) for at in pages)


def test_pause_wants_no_more_and_another_setting_is_another_run() -> None:
    InPlace.slow = True
    at = pressed(fine(page(**SMALL)), "train")
    assert address_of(at)["to"] == "1000"
    assert at.button(key="pause").label == "Pause"
    at = pressed(at, "pause")
    assert address_of(at)["to"] == "0"
    InPlace.slow = False
    at = trained(at.run())
    at.selectbox(key="task").set_value("copy").run()
    assert "to" not in address_of(at)
    assert "press Train" in at.info[0].value


def test_the_page_looks_again_by_itself_while_a_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float | None] = []
    fragment = st.fragment

    def noted(*, run_every: float | None = None) -> Any:
        asked.append(run_every)
        return fragment(run_every=run_every)

    monkeypatch.setattr(st, "fragment", noted)
    InPlace.slow = True
    at = fine(page(**SMALL))
    assert asked[-1] is None
    at.button(key="train").click()
    moved(at, "train")  # as in a browser: its part of the page alone, which asks for the page
    assert asked[-1] == EVERY
    assert is_whole(at)
    at = pressed(at, "pause")
    InPlace.slow = False  # the untrained model is shown as well
    trained(at)
    assert asked[-1] is None


def test_a_trained_model_is_an_upload_of_the_session_and_opens_on_the_other_pages() -> None:
    at = pressed(fine(page()), "take")
    assert not at.exception
    held = at.session_state["session_resources"]
    (ref,) = held.uploads
    assert str(ref) == "upload/reverse-1000"
    assert held.n_bytes > 10_000
    links = [one.proto for one in at.get("page_link") if "upload" in one.proto.query_string]
    assert len(links) == 2
    text = "f+j+e+i+d+d+b+b"
    assert all(f"text={text}" in one.query_string for one in links)
    read = unpacked((FOLDER / "reverse.safetensors").read_bytes())[1][-1].maps["decoder.0.cross"]
    at.switch_page("pages/translate.py")
    at.query_params.update({"model": str(ref), "text": text.replace("+", " ")})
    at.run()
    fine(at)
    header, arrays = sent(at, "record")
    order = next(i for i, one in enumerate(header["kinds"]) if one["name"] == "decoder.cross")
    np.testing.assert_allclose(arrays[f"weights_{order}"].reshape(1, 9, 9), read, atol=1e-5)


@pytest.mark.parametrize("tried", TRY)
def test_every_recording_says_what_happened(tried: str) -> None:
    said = fine(page(**{key: str(value) for key, value in TRY[tried].items()})).markdown[0].value
    expected = {
        "try_reverse": "Attention is sharp only later",
        "try_repeat": "an induction head",
        "try_future": "In training the decoder saw the answer",
        "try_deep": "After 1,000 updates 0.0% of 200 unseen sequences are right",
        "try_warm": "of 200 unseen sequences are right after",
        "try_add": "of 200 unseen sequences are right after",
    }
    assert expected[tried] in said


def test_every_screen_opens_and_the_schedule_drawn_is_the_paper_s() -> None:
    for screen in SCREENS.keys() - {"watch", "lesson", "training"}:
        assert fine(page(screen=screen, lang="zh")).caption
    at = fine(page(screen="rate", width="128", rising="300"))
    line = figure(at)["data"][0]
    expected = [128**-0.5 * min(n**-0.5, n * 300**-1.5) for n in numbers(line["x"])]
    np.testing.assert_allclose(numbers(line["y"]), expected, atol=1e-12)
    assert f"{(128 * 300) ** -0.5:.2e}" in at.caption[-1].value
    assert noam(300, 300) == 1.0
    at = fine(page(task="<b>", d_model="1e9", seed="-4", to="99999999999", moment="<i>", rate="nan"))
    assert len(sent(at, "learning-map")[0]["moments"]) == 12, "a hostile address is a recording"
    assert InPlace.made == []


def test_the_training_of_a_translator_is_one_message_of_all_snapshots() -> None:
    at = fine(page(screen="training", text="Two dogs run.", emerging="3.0", word="Hunde"))
    header, arrays = sent(at, "training")
    assert len(header["moments"]) == 8 + 1
    assert "update 800 (epoch 3): BLEU 8.4" in header["moments"][4]["name"]
    greedy = DecodingOptions(beam=1)
    own = runs.translation(NAME, "Two dogs run.", greedy, None)
    for number, name in [(4, f"{NAME}@000800"), (8, NAME)]:
        run = runs.translation(name, "Two dogs run.", greedy, own.text)
        picture = run.record["decoder.3.cross"].picture(0, words=True)
        np.testing.assert_allclose(arrays[f"{number}.0"].reshape(picture.values.shape), picture.values, atol=1e-6)
    assert header["about"]["title"] == f"Training of {NAME}: layer 3, head 0"
    assert header["file_name"] == f"Two-dogs-run_{NAME}_training_layer-3-head-0"


def test_the_training_pair_counts_no_padding() -> None:
    at = fine(page(screen="lesson", text="Two dogs are playing in the snow."))
    right, wrong = (float(metric.value) for metric in at.metric)
    assert 2 * right < wrong
    assert any("a person's translation" in part.value for part in at.caption)
    total, count = next(part.value for part in at.caption if " / " in part.value).split(" / ")
    assert float(total) / int(count) == pytest.approx(right, abs=0.001)
    typed = fine(page(screen="lesson", text="Two dogs run.", force="Drei Katzen schlafen."))
    assert any("the target that you typed" in part.value for part in typed.caption)
