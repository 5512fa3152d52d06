"""The Align page: first paint, every choice, bad input; looking never runs a model."""

import csv
import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.opening import PATIENCE, ROOT, bars_of, figure, matrix_sent, ran, sent
from tests.recurrents import ADDITIVE, LOCATION, checkpoints_with_recurrents
from transformer import DecodingOptions
from transformer.errors import InputError
from transformer.messages import Message
from transformer.nn.recurrent import Recurrent
from transformer.nn.seq2seq import Seq2Seq
from transformer.runs.measures.head_agreement import read_agreement
from transformer.runs.translate import PAST_SOURCE
from ui.align import choices
from ui.store import runs, store

PAGE = f"""
import runpy
from ui.shared import address
with address.run() as show:
    show("align")
    runpy.run_path({str(ROOT / "pages" / "align.py")!r})
"""
"""Without a menu: beside a folder `pages/`, AppTest lets each run start twice, and the second knows of no click."""
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
    return seen


def opened(**address: str) -> AppTest:
    page = AppTest.from_string(PAGE, default_timeout=PATIENCE)
    page.query_params.update({"text": SENTENCE, "longest": "15", "beam": "2"} | address)
    page.run()
    assert not page.exception
    return page


shown = partial(sent, key="alignments")


@pytest.fixture
def handed_out(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, Callable[[], Any]]]:
    """The files of the page by their labels: each one's name, and what makes it."""
    found: dict[str, tuple[str, Callable[[], Any]]] = {}

    def button(label: str, data: Callable[[], Any], file_name: str, *_: object, **__: object) -> bool:
        found[label] = file_name, data
        return False

    monkeypatch.setattr("streamlit.download_button", button)
    return found


def options() -> DecodingOptions:
    return DecodingOptions(beam=2, max_length=15)


def test_first_paint_is_a_transformer_beside_a_recurrent_net_on_an_example() -> None:
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE)
    page.switch_page("pages/align.py").run()
    assert not page.exception
    assert not page.warning
    assert [page.selectbox(key=key).value for key in ("model", "second")] == [NAME, ADDITIVE]
    header, _ = shown(page)
    panels = header["moments"][0]["panels"]
    assert [panel["title"] for panel in panels] == ["Transformer", "RNN with attention"]
    assert [panel["note"].split(" · ")[0] for panel in panels] == [NAME, ADDITIVE]


def test_every_snapshot_of_the_training_can_be_chosen_and_only_models_that_share_the_tokenizer() -> None:
    page = opened()
    labels = page.selectbox(key="model").options
    assert len(labels) == 1 + 8 + 2
    assert "multi30k-en-de, update 800 (BLEU 8.4)" in labels
    assert NAME not in page.selectbox(key="second").options


def test_the_line_above_the_maps_is_made_from_the_run() -> None:
    """A word that the RNN forgets, found by deletion in both; where nothing is forgotten, what the two write."""
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ui.store.shipped.CHECKPOINTS", ROOT / "checkpoints")
        page.switch_page("pages/align.py").run()
        assert page.text_area(key="text").value == "Someone is cooking dinner in a small kitchen."
        assert page.subheader[0].value == "RNN with attention forgets “dinner”"
        answer = runs.attribution("multi30k-en-de-rnn", page.text_area(key="text").value, DecodingOptions(), None, None,
                                  "deletion_removed")  # fmt: skip
        words = [i for i, special in enumerate(answer.steps.special) if not special]
        most = answer.of_source[words, answer.source.texts.index("dinner")].max()
        assert most < 1
        said = next(one.value for one in page.caption if "Without" in one.value)
        assert f"more than {max(most, 0):.2f} nats" in said
        assert "Transformer needs it for “ein Abendessen”" in said
        page.text_area(key="text").set_value("Two dogs are playing in the snow.")
        next(button for button in page.button if button.label == "Run").click().run()
        assert page.subheader[0].value == "Both write the same sentence"
        header, _ = shown(page)
        written = header["moments"][0]["panels"][0]
        decided = runs.deciding(
            NAME, page.text_area(key="text").value, DecodingOptions(), "Zwei Hunde spielen im Schnee.", None
        )
        assert written["decided"] == [[key] for key in decided.columns.tolist()]
        assert len(written["decided"]) == len(written["rows"])


def test_the_marked_word_is_found_by_its_name() -> None:
    """Of older addresses too, which had the panel and the word in one; a word that nobody wrote is forgotten."""
    for given in ({"word": "Hunde"}, {"mark": "0:Hunde"}):
        page = opened(**given)
        assert page.query_params["word"] == "Hunde"
        assert "mark" not in page.query_params
    assert "word" not in opened(word="Katzen").query_params


def test_both_maps_are_slices_of_the_records_over_one_target() -> None:
    header, arrays = shown(opened(head1="2.3"))
    own = runs.translation(NAME, SENTENCE, options(), None)
    for side, (name, site, head) in enumerate([(NAME, "decoder.2.cross", 3), (ADDITIVE, "decoder.cross", 0)]):
        read = runs.translation(name, SENTENCE, options(), own.text)
        picture = read.record[site].picture(head, words=True)
        assert header["moments"][0]["panels"][side]["rows"] == list(picture.queries.labels)
        assert header["columns"] == list(picture.keys.labels)
        np.testing.assert_allclose(arrays[f"0.{side}"].reshape(picture.values.shape), picture.values, atol=1e-6)
    assert header["same_rows"]


def test_a_model_begins_with_its_truest_head_and_the_second_with_the_one_that_agrees_best() -> None:
    truest = read_agreement(ROOT / "checkpoints" / NAME / "heads.json").best
    place = f"layer {truest.layer}, head {truest.head}"
    header, _ = shown(opened())
    notes = [panel["note"] for panel in header["moments"][0]["panels"]]
    assert notes[0].startswith(f"{NAME} · {place}: on the deciding word in {truest.agreement:.0%} of rows")
    assert "its one attention" in notes[1]
    header, _ = shown(opened(second=EARLY))
    notes = [panel["note"] for panel in header["moments"][0]["panels"]]
    assert notes[0].startswith(f"{NAME} · {place}: ")
    assert "agrees best with Transformer (mean agreement 0." in notes[1]
    assert [panel["title"] for panel in header["moments"][0]["panels"]] == ["Transformer", "Transformer, update 800"]


def test_each_model_may_show_its_own_words() -> None:
    header, _ = shown(opened(target="own"))
    assert not header["same_rows"]
    rows = [panel["rows"] for panel in header["moments"][0]["panels"]]
    assert rows[0] != rows[1]


def test_mass_past_the_source_is_shown() -> None:
    header, arrays = shown(opened(second=LOCATION))
    n = len(header["columns"])
    assert header["columns"][-1] == PAST_SOURCE
    first, second = (arrays[f"0.{side}"].reshape(-1, n) for side in range(2))
    assert np.isneginf(first[:, -1]).all()
    assert (second[:, -1] > 0.1).all()
    np.testing.assert_allclose(second.sum(axis=1), 1, atol=1e-4)


def test_looking_never_runs_a_model(passes: list[str]) -> None:
    unread = "A cat sleeps on a chair."  # no other test reads it, so its first runs are here
    for screen in choices.SCREENS:
        opened(text=unread, screen=screen)
    assert passes
    passes.clear()
    looks = [*zip(choices.SCREENS, ("auto", "0.mean", "3.1", "auto"), strict=True), ("agreement", "3.1")]
    for screen, head in looks:
        opened(text=unread, screen=screen, head1=head, mark="0-1")
    page = opened(text=unread)
    for name in choices.SCREENS:
        page.button_group(key="screen").set_value(name).run()
        assert not page.exception
    page.selectbox(key="head1").set_value("1.1").run()
    assert not page.exception
    assert passes == []


def test_the_agreement_drawn_is_the_one_of_the_two_maps() -> None:
    page = opened(screen="agreement", head1="2.3")
    drawn = bars_of(page, "agreement")
    difference, _ = matrix_sent(page, "difference")
    assert [row.look for row in drawn] == [""] * (len(drawn) - 1) + ["faint"], "the end mark is set apart"
    assert float(page.metric[0].value) == pytest.approx(np.mean([row.value for row in drawn[:-1]]), abs=1e-3)
    assert all("looks more at" in row.note for row in drawn)
    assert difference["centred"]
    assert 0 < float(page.metric[0].value) < 1


def test_costs_are_of_this_sentence() -> None:
    page = opened(screen="changes")
    tokens = len(runs.translation(NAME, SENTENCE, options(), None).source_ids)
    table = page.dataframe[0].value
    assert table.iloc[0].tolist() == ["1", str(tokens - 1)]
    assert table.iloc[2].tolist() == ["4", str(tokens)]
    assert table.iloc[4, 0] == f"{256 * tokens**2 + 131072 * tokens:,}"
    spec = figure(page)
    assert spec["layout"]["shapes"][0]["x0"] == tokens


def test_a_typed_target_is_what_both_read() -> None:
    page = opened(force="Drei Katzen schlafen.")
    header, _ = shown(page)
    for panel in header["moments"][0]["panels"]:
        assert panel["rows"] == ["Drei", "Katzen", "schlafen", ".", "</s>"]
    said = [part.value for part in page.caption]
    assert any("the target that you typed" in one for one in said)
    own, typed = (runs.translation(NAME, SENTENCE, options(), target) for target in (None, "Drei Katzen schlafen."))
    likely = next(one for one in said if "which it is made to read" in one)
    assert f"{own.log_prob:.2f}" in likely
    assert f"{typed.log_prob:.2f}" in likely
    assert typed.log_prob < own.log_prob


@pytest.mark.parametrize(("language", "said"), [("en", "neither model wrote a word"), ("zh", "两个模型都没有")])
@pytest.mark.parametrize("words", choices.WORDS)
def test_two_silent_models_are_refused_in_every_language(words: choices.Words, language: str, said: str) -> None:
    silent = runs.translation(NAME, SENTENCE, options(), None)
    silent = replace(silent, text=" ")
    with pytest.raises(InputError) as refused:
        choices.common_target(None, [silent, silent], (NAME, ADDITIVE), words)
    assert isinstance(refused.value.message, Message)
    assert refused.value.message.in_language(language).startswith(said)


@pytest.mark.parametrize(("words", "whose"), [("first", 0), ("own", 0), ("second", 1)])
def test_a_silent_model_reads_what_the_other_wrote(words: choices.Words, whose: int) -> None:
    titles = ["Transformer", "RNN with attention"]
    wrote = runs.translation(NAME, SENTENCE, options(), None)
    for own in ([replace(wrote, text=""), wrote], [wrote, replace(wrote, text="")]):
        target, origin = choices.common_target(None, own, (NAME, ADDITIVE), words)
        assert target == wrote.text
        assert origin.endswith(titles[0 if own[0].text else 1])
    assert choices.common_target(None, [wrote, wrote], (NAME, ADDITIVE), words)[1].endswith(titles[whose])


def test_what_cannot_be_read_gets_a_sentence() -> None:
    page = opened(text=SENTENCE, second=LOCATION)
    for text in ("   \n ", "x" * 10_000, "dog " * 400, "dog " * 45):
        ran(page, text=text)
        assert len(page.warning) == 1
        assert page.warning[0].value[0].isupper()


def test_hostile_addresses_fall_back() -> None:
    page = opened(
        first="../../etc", second="nothing", screen="none", head1="99.1", head2="x", target="?", mark="9-999999",
        moment="-3", learner="?", trained="?",
    )  # fmt: skip
    assert page.selectbox(key="model").value == NAME
    assert not [one for one in page.warning if one.icon != ":material/travel_explore:"]


def test_without_checkpoints_the_page_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    page = opened()
    assert "train one" in page.error[0].value


def test_without_a_recurrent_model_a_snapshot_of_the_training_stands_beside_it(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / NAME).symlink_to((folder / NAME).resolve())
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    page = opened()
    assert page.selectbox(key="second").value == EARLY
    header, _ = shown(page)
    assert "update 800" in header["moments"][0]["panels"][1]["title"]


def test_saved_maps_say_sentence_models_and_heads() -> None:
    header, _ = shown(opened(head1="2.3"))
    assert header["file_name"] == f"Two-dogs-run_{NAME}_{ADDITIVE}_alignments"
    assert header["about"]["title"] == f"Alignments: {NAME} and {ADDITIVE}"
    assert header["about"]["lines"][0] == f"Sentence: {SENTENCE}"
    assert header["about"]["lines"][1].startswith("Both models read: ")
    assert header["moments"][0]["panels"][0]["note"] == f"{NAME} · layer 2, head 3", "the head stands above its map"


def test_every_table_leaves_in_one_zip_and_alone_under_names_that_say_what_they_are(
    handed_out: dict[str, tuple[str, Callable[[], Any]]],
) -> None:
    target = '=HYPERLINK("x") Hunde, rennen'
    opened(screen="downloads", head1="2.3", force=target)
    name, make = handed_out["All tables (ZIP)"]
    assert name == f"Two-dogs-run_{NAME}_{ADDITIVE}_alignments.zip"
    with zipfile.ZipFile(io.BytesIO(make())) as archive:
        tables = {entry: list(csv.reader(io.StringIO(archive.read(entry).decode()))) for entry in archive.namelist()}
    first = runs.translation(NAME, SENTENCE, options(), target).record["decoder.2.cross"].picture(3, words=True)
    header, *rows = tables["first.csv"]
    assert header[0].endswith(f"{ADDITIVE}: its one attention")
    assert f"{NAME} reading the target that you typed" in header[0]
    np.testing.assert_array_equal(np.array([row[1:] for row in rows], float), first.values.astype(float))
    files = {row[0] for row in tables["contents.csv"]}
    assert set(tables) - {"contents.csv"} <= files
    assert len(tables) == 7
    own = runs.translation(NAME, SENTENCE, options(), None).record["decoder.2.cross"].picture(3, words=True)
    assert len(tables["first-own-words.csv"]) == 1 + len(own.queries)
    for rows in tables.values():
        assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "@"))]
    assert any(row[0].startswith("'=") for row in tables["agreement.csv"]), "a word of the user's runs nothing"


def test_a_method_can_stand_for_a_transformer_and_is_held_against_a_recurrent_net() -> None:
    page = opened(head1="contributions")
    header, arrays = shown(page)
    own = runs.translation(NAME, SENTENCE, options(), None)
    read = runs.translation(NAME, SENTENCE, options(), own.text)
    expected = read.attribution(store.checkpoint(NAME), "contributions", words=True).of_source
    np.testing.assert_allclose(arrays["0.0"].reshape(expected.shape), expected, atol=1e-6)
    assert "attribution: layer contributions (ALTI+)" in header["moments"][0]["panels"][0]["note"]
    assert sum(option.startswith("attribution") for option in page.selectbox(key="head1").options) == 5
    header, _ = shown(opened(head1="rollout", target="own"))
    assert "roll-out" in header["moments"][0]["panels"][0]["note"]
