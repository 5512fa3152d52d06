"""The Align page: first paint, every choice, bad input; looking never runs a model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.recurrents import ADDITIVE, LOCATION, checkpoints_with_recurrents
from transformer import DecodingOptions
from transformer.models.recurrent import Recurrent
from transformer.models.seq2seq import Seq2Seq
from transformer.runs.translate import PAST_SOURCE
from ui.align import choices
from ui.components.shared.blob import unpack
from ui.store import cache, runs, store

APP = str(Path(__file__).parents[2] / "app.py")
PAGE = f"import runpy\nrunpy.run_path({str(Path(APP).parent / 'pages' / 'align.py')!r})"
"""The page alone: beside a folder `pages/`, AppTest lets each run start twice, and the second knows of no click."""
NAME = "multi30k-en-de"
EARLY = f"{NAME}@000800"
SENTENCE = "Two dogs run."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints_with_recurrents(tmp_path_factory.mktemp("align"))


@pytest.fixture(autouse=True)
def _checkpoints(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", folder)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every time that a model reads a source."""
    seen: list[str] = []

    def counted(name: str, original: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object) -> object:
            seen.append(name)
            return original(*args)

        return call

    monkeypatch.setattr(Seq2Seq, "encode", counted("encode", Seq2Seq.encode))
    monkeypatch.setattr(Recurrent, "start", counted("start", Recurrent.start))
    cache.clear()
    return seen


def opened(**address: str) -> AppTest:
    page = AppTest.from_string(PAGE, default_timeout=120)
    for name, value in ({"text": SENTENCE, "longest": "15", "beam": "2"} | address).items():
        page.query_params[name] = value
    page.run()
    assert not page.exception
    return page


def shown(page: AppTest, key: str = "alignments") -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the component was sent."""
    sent = next(part.proto for part in page.get("bidi_component") if part.key == key)
    return unpack(sent.bytes)


def options() -> DecodingOptions:
    return DecodingOptions(beam=2, max_length=15)


def test_first_paint_is_a_transformer_beside_a_recurrent_net_on_an_example() -> None:
    page = AppTest.from_file(APP, default_timeout=120)
    page.switch_page("pages/align.py").run()
    assert not page.exception
    assert not page.warning
    assert [page.selectbox(key=key).value for key in ("first", "second")] == [NAME, ADDITIVE]
    assert page.text_area(key="text").value == store.checkpoint(NAME).examples[0]
    header, _ = shown(page)
    assert [panel["title"] for panel in header["moments"][0]["panels"]] == [NAME, ADDITIVE]


def test_every_moment_of_the_training_can_be_chosen_and_only_models_that_share_the_tokenizer() -> None:
    page = opened()
    labels = page.selectbox(key="first").options
    assert len(labels) == 1 + 8 + 2
    assert "multi30k-en-de, update 800 (BLEU 8.4)" in labels
    assert NAME not in page.selectbox(key="second").options


def test_both_maps_are_slices_of_the_records_over_one_target() -> None:
    header, arrays = shown(opened(head1="2.3"))
    own = runs.translation(NAME, SENTENCE, options(), None)
    for place, (name, site, head) in enumerate([(NAME, "decoder.2.cross", 3), (ADDITIVE, "decoder.cross", 0)]):
        read = runs.translation(name, SENTENCE, options(), own.text)
        picture = read.record[site].picture(head, words=True)
        assert header["moments"][0]["panels"][place]["rows"] == list(picture.queries.labels)
        assert header["columns"] == list(picture.keys.labels)
        np.testing.assert_allclose(arrays[f"0.{place}"].reshape(picture.values.shape), picture.values, atol=1e-6)
    assert header["same_rows"]


def test_the_head_that_agrees_best_is_named() -> None:
    header, _ = shown(opened())
    note = header["moments"][0]["panels"][0]["note"]
    assert "agrees best with random-rnn (mean agreement 0." in note
    assert "its one attention" in header["moments"][0]["panels"][1]["note"]


def test_each_model_may_show_its_own_words() -> None:
    header, _ = shown(opened(target="own"))
    assert not header["same_rows"]
    rows = [panel["rows"] for panel in header["moments"][0]["panels"]]
    assert rows[0] != rows[1]


def test_mass_past_the_source_is_shown() -> None:
    header, arrays = shown(opened(second=LOCATION))
    n = len(header["columns"])
    assert header["columns"][-1] == PAST_SOURCE
    first, second = (arrays[f"0.{place}"].reshape(-1, n) for place in range(2))
    assert (first[:, -1] == -1).all()
    assert (second[:, -1] > 0.1).all()
    np.testing.assert_allclose(second.sum(axis=1), 1, atol=1e-4)


@pytest.mark.parametrize("screen", choices.SCREENS)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_screen_in_every_language(screen: str, lang: str) -> None:
    page = opened(screen=screen, lang=lang, second=EARLY)
    assert not page.warning
    assert not page.error
    assert page.button_group(key="screen").value == screen


def test_looking_never_runs_a_model(passes: list[str]) -> None:
    for screen in choices.SCREENS:
        opened(screen=screen)
    assert passes
    passes.clear()
    for screen in choices.SCREENS:
        for head in ("auto", "0.mean", "3.1"):
            opened(screen=screen, head1=head, mark="0-1", moment="2", emerging="1.2")
    page = opened()
    for name in choices.SCREENS:
        page.button_group(key="screen").set_value(name).run()
        assert not page.exception
    page.selectbox(key="head1").set_value("1.1").run()
    assert not page.exception
    assert passes == []


def test_the_training_is_one_message_of_all_moments() -> None:
    page = opened(screen="training", head1="3.0")
    header, arrays = shown(page, "training")
    assert len(header["moments"]) == 8 + 1
    assert "update 800 (epoch 3): BLEU 8.4" in header["moments"][4]["name"]
    own = runs.translation(NAME, SENTENCE, DecodingOptions(beam=1, max_length=15), None)
    for place, name in [(4, EARLY), (8, NAME)]:
        run = runs.translation(name, SENTENCE, DecodingOptions(beam=1, max_length=15), own.text)
        picture = run.record["decoder.3.cross"].picture(0, words=True)
        np.testing.assert_allclose(arrays[f"{place}.0"].reshape(picture.values.shape), picture.values, atol=1e-6)
    assert not np.allclose(arrays["0.0"], arrays["8.0"], atol=0.05)


def test_the_agreement_drawn_is_the_one_of_the_two_maps() -> None:
    page = opened(screen="agreement", head1="2.3")
    bars, difference = (json.loads(part.proto.spec)["data"][0] for part in page.get("plotly_chart"))
    assert len(bars["x"]) == len(json.loads(page.get("plotly_chart")[0].proto.spec)["layout"]["xaxis"]["ticktext"])
    assert difference["type"] == "heatmap"
    assert 0 < float(page.metric[0].value) < 1


def test_costs_are_of_this_sentence() -> None:
    page = opened(screen="changes")
    tokens = len(runs.translation(NAME, SENTENCE, options(), None).source_ids)
    table = page.dataframe[0].value
    assert table.iloc[0].tolist() == ["1", str(tokens - 1)]
    assert table.iloc[2].tolist() == ["4", str(tokens)]
    assert table.iloc[4, 0] == f"{256 * tokens**2 + 131072 * tokens:,}"
    spec = json.loads(page.get("plotly_chart")[0].proto.spec)
    assert spec["layout"]["shapes"][0]["x0"] == tokens


def test_times_are_measured_on_request_and_kept(monkeypatch: pytest.MonkeyPatch, passes: list[str]) -> None:
    page = opened(screen="changes")
    assert "Press the button" in page.info[0].value
    passes.clear()
    next(button for button in page.button if button.label == "Measure both encoders").click().run()
    assert not page.exception
    assert passes
    measured = json.loads(page.get("plotly_chart")[1].proto.spec)["data"]
    assert [trace["x"] for trace in measured] == [[16, 32, 64, 128, 256, 512]] * 2
    passes.clear()
    page.button_group(key="screen").set_value("side").run()
    page.button_group(key="screen").set_value("changes").run()
    assert len(page.get("plotly_chart")) == 2
    assert passes == []


def test_the_lesson_counts_no_padding() -> None:
    page = opened(screen="lesson", text="Two dogs are playing in the snow.", second=EARLY)
    right, wrong = (float(metric.value) for metric in page.metric)
    assert 2 * right < wrong
    assert any("a person's translation" in part.value for part in page.caption)
    total, count = next(part.value for part in page.caption if " / " in part.value).split(" / ")
    assert float(total) / int(count) == pytest.approx(right, abs=0.001)


def test_a_typed_target_is_what_both_read() -> None:
    page = opened(force="Drei Katzen schlafen.")
    header, _ = shown(page)
    for panel in header["moments"][0]["panels"]:
        assert panel["rows"] == ["Drei", "Katzen", "schlafen.", "</s>"]
    assert any("the target that you typed" in part.value for part in page.caption)


@pytest.mark.parametrize("text", ["", "   \n ", "x" * 10_000, "dog " * 400, "dog " * 45])
def test_what_cannot_be_read_gets_a_sentence(text: str) -> None:
    page = opened(text=SENTENCE, second=LOCATION)
    page.text_area(key="text").set_value(text)
    next(button for button in page.button if button.label == "Run").click()
    page.run()
    assert not page.exception
    assert len(page.warning) == 1
    assert page.warning[0].value[0].isupper()


def test_hostile_addresses_fall_back() -> None:
    page = opened(
        first="../../etc", second="nothing", screen="none", head1="99.1", head2="x", target="?", mark="9-999999",
        moment="-3", learner="?", trained="?",
    )  # fmt: skip
    assert page.selectbox(key="first").value == NAME
    assert not page.warning


def test_hostile_text_is_only_text() -> None:
    page = opened(text="<script>alert(1)</script> **dogs** $x$")
    assert all("<script" not in part.proto.body for part in page.get("html"))


def test_without_checkpoints_the_page_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    page = opened()
    assert "train one" in page.error[0].value


def test_without_a_recurrent_model_a_moment_of_the_training_stands_beside_it(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / NAME).symlink_to((folder / NAME).resolve())
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    page = opened()
    assert page.selectbox(key="second").value == EARLY
    header, _ = shown(page)
    assert "update 800" in header["moments"][0]["panels"][1]["title"]
