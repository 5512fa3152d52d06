"""The Align page: first paint, every choice, bad input; looking never runs a model."""

import csv
import io
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from heedmap import DecodingOptions, Translation
from heedmap.errors import InputError
from heedmap.explain.attribution.deletion import Deciding, deciding
from heedmap.messages import Message
from heedmap.plots.axes import Axis
from heedmap.runs.attribution import forgotten
from heedmap.runs.measures.head_agreement import FILE
from heedmap.runs.translate import PAST_SOURCE, Axes
from tests.pages import opening
from tests.pages.opening import PATIENCE, ROOT, Files, bars_of, figure, matrix_sent, ran, sent, silent
from tests.recurrents import ADDITIVE, LOCATION, checkpoints_with_recurrents
from ui.align import choices, views
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
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", folder)


def opened(**address: str) -> AppTest:
    page = AppTest.from_string(PAGE, default_timeout=PATIENCE)
    page.query_params.update({"text": SENTENCE, "longest": "15", "beam": "2"} | address)
    page.run()
    assert not page.exception
    return page


shown = partial(sent, key="alignments")


def options() -> DecodingOptions:
    return DecodingOptions(beam=2, max_length=15)


def test_first_paint_is_a_transformer_beside_a_recurrent_net_on_an_example() -> None:
    page = silent(opening.opened("align"))
    assert [page.selectbox(key=key).value for key in ("model", "second")] == [NAME, ADDITIVE]
    header, _ = shown(page)
    panels = header["moments"][0]["panels"]
    assert [panel["title"] for panel in panels] == ["Transformer", "RNN with attention"]
    assert [panel["note"].split(" · ")[0] for panel in panels] == [NAME, ADDITIVE]


def test_the_line_above_the_maps_is_made_from_the_run() -> None:
    """A word that the RNN forgets, found by deletion in both; where nothing is forgotten, what the two write."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ui.store.store.CHECKPOINTS", ROOT / "checkpoints")
        page = opening.opened("align")
        assert page.text_area(key="text").value == "Someone is cooking dinner in a small kitchen."
        assert page.subheader[0].value == "RNN with attention forgets “dinner”"
        run = runs.translation("multi30k-en-de-rnn", page.text_area(key="text").value, DecodingOptions(), None)
        answer = run.attribution(store.checkpoint("multi30k-en-de-rnn"), "deletion_removed", words=True)
        words = [i for i, special in enumerate(answer.steps.special) if not special]
        most = answer.of_source[words, answer.source.texts.index("dinner")].max()
        assert most < 1
        said = next(one.value for one in page.caption if "costs" in one.value)
        assert said.startswith("“dinner” taken out costs RNN with attention at most")
        assert f"at most {max(most, 0):.2f} nats a word. “dinner” hidden costs Transformer: " in said
        own = runs.translation(NAME, page.text_area(key="text").value, DecodingOptions(), None)
        hidden = own.attribution(store.checkpoint(NAME), "deletion", words=True)
        losses = hidden.of_source[:, hidden.source.texts.index("dinner")]
        for word in ("ein", "Abendessen"):  # each with its own loss
            assert f"“{word}” {losses[hidden.steps.texts.index(word)]:.1f}" in said
        ran(page, text="Two dogs are playing in the snow.")
        assert page.subheader[0].value == "Both write the same sentence"
        header, _ = shown(page)
        written = header["moments"][0]["panels"][0]
        decided = runs.deciding(
            NAME, page.text_area(key="text").value, DecodingOptions(), "Zwei Hunde spielen im Schnee.", None
        )
        assert written["decided"] == [[key] for key in decided.columns.tolist()]
        assert len(written["decided"]) == len(written["rows"])


@pytest.mark.parametrize(
    ("one", "two", "said"),
    [
        ("Sie spielt auf der Straße Gitarre", "Sie spielt Gitarre auf der Straße", "the same words in another order"),
        ("Ein Hund rennt mit einem Hund", "Ein Hund rennt", "T writes more than R: “mit”, “einem”, “Hund”"),
        ("der Hund", "der kleine Hund der", "R writes more than T: “kleine”, “der”"),
        ("ein Hund", "", "T writes “ein”, “Hund”, R (nothing)"),
        ("ein Hund", "ein Ball", "T writes “Hund”, R “Ball”"),
    ],
)
def test_where_two_translations_part_is_said_truly(
    one: str, two: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words that only moved are no difference, and a model that wrote less did not write nothing."""
    monkeypatch.setattr("ui.align.views.forgotten", lambda *_: ())
    monkeypatch.setattr("ui.store.runs.deciding", lambda *_: None)
    told: list[str] = []
    monkeypatch.setattr("streamlit.subheader", lambda text, **_: told.append(text))
    names = zip("TR", (one, two), strict=True)
    sides = [SimpleNamespace(name=name, title=name, own=SimpleNamespace(text=text)) for name, text in names]
    shown: Any = SimpleNamespace(sides=sides, text="", options=None, titles=lambda: {"first": "T", "second": "R"})
    views.finding(shown)
    assert said in told[0]


def test_what_is_of_some_use_is_not_forgotten_and_punctuation_is_no_word() -> None:
    """Loss by loss: a word of the one needs `b` alone, which the other needs by more or less than half a nat."""
    whole = runs.translation(NAME, SENTENCE, options(), None)

    def run(target: str) -> Translation:
        axes = [Axis.of_tokens("", text.split()) for text in ("a b ;", target, target)]
        return replace(whole, axes=Axes(*axes))

    def losses(*rows: list[float]) -> Deciding:
        return deciding(np.array(rows), [False] * len(rows), [False] * 3)

    runs_ = [run("x y !"), run("x")]
    kept = losses([5.0, 0.1, 0.0], [0.0, 3.25, 0.0], [0.0, 0.0, 7.0])
    for other, found in ((0.49, [("b", {"y": 3.25}, 0.49)]), (0.89, [])):
        got = forgotten(runs_, [kept, losses([2.0, other, 0.3])])
        assert [(one.word, dict(one.written), one.lost) for one in got] == found


def test_the_marked_word_is_found_by_its_name() -> None:
    """A word that nobody wrote is forgotten."""
    page = opened(word="Hunde")
    assert page.query_params["word"] == "Hunde"
    assert "mark" not in page.query_params
    assert "word" not in opened(word="Katzen").query_params


def test_both_maps_are_slices_of_the_records_over_one_target_and_a_saved_picture_says_so() -> None:
    header, arrays = shown(opened(head1="2.3"))
    own = runs.translation(NAME, SENTENCE, options(), None)
    for side, (name, site, head) in enumerate([(NAME, "decoder.2.cross", 3), (ADDITIVE, "decoder.cross", 0)]):
        read = runs.translation(name, SENTENCE, options(), own.text)
        picture = read.record[site].picture(head, words=True)
        assert header["moments"][0]["panels"][side]["rows"] == list(picture.queries.labels)
        assert header["columns"] == list(picture.keys.labels)
        np.testing.assert_allclose(arrays[f"0.{side}"].reshape(picture.values.shape), picture.values, atol=1e-6)
    assert header["same_rows"]
    assert header["file_name"] == f"Two-dogs-run_{NAME}_{ADDITIVE}_alignments"
    assert header["about"]["title"] == f"Alignments: {NAME} and {ADDITIVE}"
    assert header["about"]["lines"][0] == f"Sentence: {SENTENCE}"
    assert header["about"]["lines"][1].startswith("Both models read: ")
    assert header["moments"][0]["panels"][0]["note"] == f"{NAME} · layer 2, head 3", "the head stands above its map"
    header, _ = shown(opened(target="own"))  # each model may show its own words
    assert not header["same_rows"]
    rows = [panel["rows"] for panel in header["moments"][0]["panels"]]
    assert rows[0] != rows[1]


def test_a_model_begins_with_its_truest_head_and_the_second_with_the_one_that_agrees_best() -> None:
    measured = FILE.read(ROOT / "checkpoints" / NAME / "heads.json")
    truest, rows = measured.best, measured.rows
    place = f"layer {truest.layer}, head {truest.head}"
    page = opened()
    labels = page.selectbox(key="model").options  # every snapshot of the training, and who shares the tokenizer
    assert len(labels) == 1 + 8 + 2
    assert "multi30k-en-de, update 800 (BLEU 8.4)" in labels
    assert NAME not in page.selectbox(key="second").options
    header, _ = shown(page)
    notes = [panel["note"] for panel in header["moments"][0]["panels"]]
    assert notes[0].startswith(f"{NAME} · {place}: on the deciding word in {truest.agreement:.0%} of {rows:,} rows")
    assert "its one attention" in notes[1]
    header, _ = shown(opened(second=EARLY))
    notes = [panel["note"] for panel in header["moments"][0]["panels"]]
    assert notes[0].startswith(f"{NAME} · {place}: ")
    assert "agrees best with Transformer (mean agreement 0." in notes[1]
    assert [panel["title"] for panel in header["moments"][0]["panels"]] == ["Transformer", "Transformer, update 800"]


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
    for screen in views.PANELS:
        opened(text=unread, screen=screen)
    assert passes
    passes.clear()
    page = opened(text=unread, head1="0.mean")
    for name in views.PANELS:
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


def test_both_read_what_the_first_wrote_and_a_silent_one_what_the_other_wrote_and_two_silent_ones_are_refused() -> None:
    titles, wrote = choices.titles((NAME, ADDITIVE)), runs.translation(NAME, SENTENCE, options(), None)
    mute = replace(wrote, text=" ")
    with pytest.raises(InputError) as refused:
        choices.common_target(None, [mute, mute], titles)
    assert isinstance(refused.value.message, Message)
    for language, said in (("en", "neither model wrote a word"), ("zh", "两个模型都没有")):
        assert refused.value.message.in_language(language).startswith(said)
    empty = replace(wrote, text="")
    for first, second, whose in ((wrote, wrote, 0), (wrote, empty, 0), (empty, wrote, 1)):
        target, origin = choices.common_target(None, [first, second], titles)
        assert target == wrote.text
        assert origin.endswith(titles[whose])


def test_without_checkpoints_the_page_says_what_to_do_and_without_a_recurrent_one_a_snapshot_stands_beside_it(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", tmp_path)
    assert "train one" in opened().error[0].value
    (tmp_path / NAME).symlink_to((folder / NAME).resolve())
    page = opened()
    assert page.selectbox(key="second").value == EARLY
    header, _ = shown(page)
    assert "update 800" in header["moments"][0]["panels"][1]["title"]


def test_every_table_leaves_in_one_zip_and_alone_under_names_that_say_what_they_are(files: Files) -> None:
    target = '=HYPERLINK("x") Hunde, rennen'
    opened(screen="downloads", head1="2.3", force=target)
    name, make = files["zip"]
    assert name == f"Two-dogs-run_{NAME}_{ADDITIVE}_alignments.zip"
    with zipfile.ZipFile(io.BytesIO(make())) as archive:
        tables = {entry: list(csv.reader(io.StringIO(archive.read(entry).decode()))) for entry in archive.namelist()}
    first = runs.translation(NAME, SENTENCE, options(), target).record["decoder.2.cross"].picture(3, words=True)
    header, *rows = tables["first.csv"]
    assert header[0].endswith(f"{ADDITIVE}: its one attention")
    assert f"{NAME} reading the target that you typed" in header[0]
    np.testing.assert_array_equal(np.array([row[1:] for row in rows], float), first.values.astype(float))
    listed = {row[0] for row in tables["contents.csv"]}
    assert set(tables) - {"contents.csv"} <= listed
    assert len(tables) == 7
    own = runs.translation(NAME, SENTENCE, options(), None).record["decoder.2.cross"].picture(3, words=True)
    assert len(tables["first-own-words.csv"]) == 1 + len(own.queries)
    for rows in tables.values():
        assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "@"))]
    assert any(row[0].startswith("'=") for row in tables["agreement.csv"]), "a word of the user's runs nothing"
