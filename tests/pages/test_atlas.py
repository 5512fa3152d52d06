"""The page Head atlas: what it shows is what the tables hold, in both languages, and each part has an address."""

import gzip
import json
import re
import shutil
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from heedmap.atlas.corpus import Corpus
from heedmap.atlas.run import make_atlas
from heedmap.checkpoint import load
from heedmap.plots.logo import logo
from heedmap.runs.sequences.classify import classify
from tests.pages.opening import (
    ROOT,
    Files,
    address_of,
    brought,
    figure,
    fine,
    is_whole,
    matrix_sent,
    moved,
    numbers,
    opened,
    put,
    said,
    sent,
)
from tests.pages.test_chinese import english
from tests.toy import write_checkpoint
from ui.store import user_folder

CHECKPOINTS = ROOT / "checkpoints"
TRANSLATOR = "multi30k-en-de"


def heads(name: str = TRANSLATOR) -> pd.DataFrame:
    return pd.read_parquet(CHECKPOINTS / name / "atlas" / "heads.parquet")


def html(page: AppTest) -> str:
    return "".join(part.proto.body for part in page.get("html"))


def words(name: str = TRANSLATOR) -> pd.DataFrame:
    return pd.read_parquet(CHECKPOINTS / name / "atlas" / "words.parquet")


LINK = r'href="atlas\?model=[\w-]+&screen=head&kind=([\w.]+)(?:&layer=(\d))?&head=(\d)'


def importance() -> pd.DataFrame:
    """What was measured of the translator's heads."""
    found = json.loads((CHECKPOINTS / TRANSLATOR / "importance.json").read_text(encoding="utf-8"))
    return pd.DataFrame(found["heads"]["final"])


def test_it_opens_with_the_heads_that_matter_most_or_have_a_role_of_all_kinds() -> None:
    page = fine(opened("atlas"))
    lost = importance()
    lost["lost"] = -lost["zero"]
    known = heads().merge(lost[["site", "head", "lost"]], on=["site", "head"]).sort_values("lost")
    first = [i < 6 or len(roles) > 0 for i, roles in enumerate(known["roles"])]
    order = pd.concat([known[first], known[[not one for one in first]]])
    shown = [(kind, int(layer), int(head)) for kind, layer, head in re.findall(LINK, html(page))]
    assert shown == list(zip(order["group"], order["layer"].astype(int), order["head"], strict=True))
    assert len({kind for kind, _, _ in shown[: sum(first)]}) == 3
    assert all("no single habit" not in card for card in html(page).split("<a ")[1:])


def test_a_card_draws_its_heads_profile_on_an_axis_round_its_own_position_and_names_its_words() -> None:
    page = fine(opened("atlas", kind="decoder.self"))
    known = heads().query("group == 'decoder.self'").set_index(["layer", "head"])
    text = html(page)
    cards = text.split("<a ")[1:]
    assert len(cards) == 16
    for card in cards:
        (_, layer, head), *_ = re.findall(LINK, card)
        row = known.loc[int(layer), int(head)]
        shown = [float(value) for value in re.findall(r'title="[+-]\d: ([\d.]+)"', card)]
        seen = row["offsets"][8:25]
        assert card.count('class="unseen"') == 8  # the future
        assert shown == pytest.approx(list(seen[~np.isnan(seen)]), abs=6e-4)
        assert "<span>\N{MINUS SIGN}8</span><span>0</span><span>+8</span>" in card
        best = words().query(f"site == '{row['site']}' and head == {head}")
        best = best[(best["share"] >= 1.5 * best["chance"]) & (best["share"] >= 0.001)]["word"].tolist()[:4]
        assert escape(f"looks most at: {' · '.join(best)}") in card
    assert any("29,000" in caption.value for caption in page.caption)


def test_a_classifiers_cards_have_classes_of_their_own_and_its_head_a_logo(files: Files) -> None:
    """A place in every sequence, letters of the window, width; offsets from one window to another are no habit."""
    page = fine(opened("atlas", model="splice-junctions", kind="pooling"))
    row = heads("splice-junctions").query("site == 'pooling' and head == 2").iloc[0]
    card = next(card for card in html(page).split("<a ") if "Pooling · head 2" in card)
    assert f"looks round letter {row['place']:.0f} of every sequence in {100 * row['place_share']:.0f}% of rows" in card
    assert f"{row['pattern']} at letter {row['pattern_at']:.0f} of 11: {100 * row['pattern_share']:.0f}%" in card
    assert f"width 11: {100 * row['widths'][1]:.0f}% of its weight" in card
    assert len(re.findall(r'title="\d+: ', card)) == 60
    page = fine(opened("atlas", model="splice-junctions", screen="head", kind="pooling", head="2"))
    assert len(re.findall(r'title="\d+: ', html(page))) == 60
    (picture,) = page.get("image")
    assert "width 11" in picture.proto.imgs[0].caption
    shares = np.reshape(row["columns"], (11, 4)).T
    surprise = np.where(shares > 0, shares * np.log2(np.where(shares > 0, shares, 1)), 0).sum(axis=0)
    bits = np.clip(shares * (2 + surprise), 0, None)
    name, drawn = files["svg"]
    assert name == "pooling_head-2-logo.svg"
    assert str(drawn) == logo("ACGT", bits, [str(i + 1) for i in range(11)])


def test_the_table_holds_the_measures_of_the_kind_in_the_address() -> None:
    page = fine(opened("atlas", screen="table", kind="encoder.self"))
    known = heads()
    chosen = known[known["group"] == "encoder.self"]
    assert page.dataframe[0].value["same"].tolist() == chosen["same"].tolist()
    assert len(put(page, kind="all").dataframe[0].value) == len(known)
    assert "kind" not in address_of(page)


def test_a_heads_page_shows_its_example_and_leads_to_it_in_translate() -> None:
    page = fine(opened("atlas", screen="head", kind="encoder.self", layer="2", head="3", example="best-1"))
    examples = pd.read_parquet(CHECKPOINTS / TRANSLATOR / "atlas" / "examples.parquet")
    (one,) = examples.query("site == 'encoder.2.self' and head == 3 and kind == 'best' and rank == 1").to_dict(
        "records"
    )
    link = next(part.proto for part in page.get("page_link") if "Translate," in part.proto.label)
    for part in ("layer=2", "head=3", "kind=encoder.self", "text="):
        assert part in link.query_string
    row = heads().query("site == 'encoder.2.self' and head == 3").iloc[0]
    profile, history = figure(page, 0), figure(page, 1)
    assert numbers(profile["data"][0]["y"]) == pytest.approx(row["offsets"])
    _, drawn = matrix_sent(page, "atlas-example")
    previous = np.mean([drawn[i, i - 1] for i in range(1, len(drawn))])
    assert previous == pytest.approx(one["score"], abs=2e-3)  # what is drawn has the score that it was chosen by
    assert len(history["data"][0]["x"]) == 9
    relative = next(button for button in page.button if str(button.key).startswith("relative-"))
    relative.click().run()
    _, site, head = str(relative.key).split("-")
    kind, layer, number = (page.selectbox(key=key).value for key in ("kind", "layer", "head"))
    assert kind.replace(".", f".{layer}.") == site
    assert number == head


def test_a_heads_words_stand_with_sentences_in_which_it_looks_at_them() -> None:
    page = fine(opened("atlas", screen="head", kind="decoder.cross", layer="0", head="2"))
    known = words().query("site == 'decoder.0.cross' and head == 2")
    text = html(page)
    best = known[(known["share"] >= 1.5 * known["chance"]) & (known["share"] >= 0.001)]
    assert re.findall(r"<tr><td><b>(.*?)</b>", text) == [escape(word) for word in best["word"]]
    one = best[best["contexts"].map(len) > 0].iloc[0]
    for context in one["contexts"][:2]:
        said = f"<mark>{escape(one['word'])}</mark> {escape(context['after'])} &larr; <b>{escape(context['query'])}</b>"
        assert said in text


def test_an_action_draws_the_screen_alone_and_an_example_its_map_alone() -> None:
    page = fine(opened("atlas", screen="head", kind="encoder.self", layer="2", head="1"))
    page.selectbox(key="head").set_value("2")
    page = fine(moved(page, "head"))
    assert not is_whole(page)
    assert page.markdown[0].value.startswith("**Encoder self · layer 2 · head 2")
    relative = next(button for button in page.button if str(button.key).startswith("relative-"))
    relative.click()
    page = fine(moved(page, str(relative.key)))
    assert not is_whole(page)
    assert address_of(page)["layer"] == str(relative.key).split(".")[1]
    page.selectbox(key="example").select_index(3)
    page = fine(moved(page, "example"))
    assert not page.get("plotly_chart")
    matrix_sent(page, "atlas-example")


def test_work_that_a_button_stops_is_drawn_by_the_page() -> None:
    page = fine(opened("atlas"))
    page.segmented_control(key="screen").set_value("own")
    page = fine(moved(page, "screen"))
    assert is_whole(page)
    assert address_of(page) == {"screen": "own"}
    page.segmented_control(key="screen").set_value("table")
    page = fine(page.run().run())  # by the first run nobody had left the screen
    page.selectbox(key="kind").set_value("decoder.cross")
    page = fine(moved(page, "kind"))
    assert not is_whole(page)
    assert all(name.startswith("Cross · layer") for name in page.dataframe[0].value["name"])


def test_the_screen_of_one_head_begins_with_the_head_of_the_most_telling_role() -> None:
    known = heads()
    first = known[known["roles"].map(lambda roles: "half_same" in roles)].iloc[0]  # no head has a role before this one
    assert (first["site"], first["head"]) == ("decoder.0.self", 3)
    page = fine(opened("atlas", screen="head"))
    assert page.markdown[0].value.startswith("**Decoder self · layer 0 · head 3: puts 70% of its weight")


def test_importance_stands_beside_what_a_head_does() -> None:
    """On its card, in the table, and on its page with a link to Align; numbers are those of the files."""
    lost = importance()
    ours = lost.query("site == 'decoder.2.cross' and head == 1")["zero"].item()
    place = 1 + int((lost["zero"] > ours).sum())
    cards = html(fine(opened("atlas", kind="decoder.cross"))).split("<a ")
    card = next(part for part in cards if "layer 2 · head 1" in part)
    assert f"without it (zero): {ours:+.4f} nats a token" in card
    table = fine(opened("atlas", screen="table")).dataframe[0].value
    row = table.query("name == 'Cross · layer 2 · head 1'").iloc[0]
    assert row["importance"] == pytest.approx(ours)
    page = fine(opened("atlas", screen="head", kind="decoder.cross", layer="2", head="1"))
    assert any(f"place {place} of 48" in one.value for one in page.caption)
    link = next(part.proto for part in page.get("page_link") if "alignment" in part.proto.label)
    assert "model=multi30k-en-de" in link.query_string
    assert "head1=2.1" in link.query_string
    page = fine(opened("atlas", screen="head", kind="decoder.self", layer="2", head="1"))
    assert not any("alignment" in part.proto.label for part in page.get("page_link"))


def test_an_own_text_is_measured_and_opened_and_its_numbers_are_those_of_the_command(tmp_path: Path) -> None:
    """The cost is told first; the finished atlas is an entry of the list, with the same heads as a pass over files."""
    sides = [(ROOT / "tools" / "alignments" / f"sentences.{end}").read_text("utf-8") for end in ("en", "de")]
    texts = ["\n".join(side.splitlines()[:19]) + "\n" for side in sides]
    page = fine(opened("atlas", screen="own"))
    assert "Paste or upload up to 2,000" in page.info[0].value
    assert "19 lines: the rest will take about" in said(put(page, text=texts[0], force=texts[1]))
    press(page, "Measure all heads")
    assert "All 19 lines" in fine(page).success[0].value
    press(page, "Open this atlas")
    assert "19 lines of your own text" in said(fine(page))
    assert address_of(page)["model"].startswith("own/")
    assert 'href="atlas?model' not in html(page)  # another page load would not find it
    for name, text in zip(("a.en", "a.de"), texts, strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    corpus = Corpus(tmp_path / "a.en", tmp_path / "a.de")
    make_atlas(CHECKPOINTS / TRANSLATOR, corpus, tmp_path / "out", chunk=16)
    known = pd.read_parquet(tmp_path / "out" / "heads.parquet")
    shown = put(page, screen="table").dataframe[0].value
    for column in ("entropy", "previous", "punctuation", "advance"):
        assert shown[column].to_numpy(float) == pytest.approx(known[column].to_numpy(), nan_ok=True, rel=1e-9)


def test_an_own_text_can_be_stopped_and_what_cannot_be_run_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened("atlas", screen="own", text="A man.\nTwo dogs.", force="Ein Mann.")
    assert "2 lines" in page.warning[0].value
    assert "unknown to the checkpoint" in opened("atlas", screen="own", text="狗在跑步。\n猫在睡觉。").warning[0].value
    monkeypatch.setattr("ui.atlas.own.MOST_LINES", 1)
    assert "More than 1 sentences" in opened("atlas", screen="own", text="A man.\nTwo dogs.").warning[0].value
    monkeypatch.undo()
    page = fine(opened("atlas", screen="own", text="A man.\n" * 40, force="Ein Mann.\n" * 40))
    page.button[-1].click()
    monkeypatch.setattr("ui.store.atlases.AtlasJob.advance", lambda job: job.cancel())
    assert "Stopped after 16 of 40 lines" in fine(page.run()).success[0].value
    assert "made in another session" in opened("atlas", model="own/0123456789ab").info[0].value


def test_a_file_is_measured_by_an_uploaded_checkpoint_and_fasta_by_a_classifier(tmp_path: Path) -> None:
    """What is opened has the numbers of a pass over the same file; a file that is no text is one sentence."""
    toy = write_checkpoint(tmp_path / "toy")
    page = brought(opened("your_model"), **{path.name: path.read_bytes() for path in sorted(toy.iterdir())})
    page.query_params.clear()
    page.query_params.update(screen="own", model="splice-junctions")
    page.switch_page("pages/atlas.py").run()
    put(page, of=next(name for name in page.selectbox(key="of").options if "upload/" in name))
    page.file_uploader(key="own-file").upload("some.txt", b"a dog\n\xff\xfe\n")
    assert "UTF-8" in page.run().warning[0].value
    text = tmp_path / "some.txt"
    text.write_bytes(b"the dog runs.\r\n\r\nthe cat and the man sleeps.\r\n")
    measured(page, toy, Corpus(text), "2 lines")
    page = fine(opened("atlas", screen="own", model="splice-junctions"))
    records = pd.read_parquet(CHECKPOINTS / "splice-junctions" / "atlas" / "examples.parquet")["source"].unique()[:3]
    fasta = tmp_path / "some.fa.gz"
    fasta.write_bytes(gzip.compress("".join(f">s{i}\n{record}\n" for i, record in enumerate(records)).encode()))
    measured(page, CHECKPOINTS / "splice-junctions", Corpus(fasta, fasta=True), "3 sequences")


def measured(page: AppTest, checkpoint: Path, corpus: Corpus, amount: str) -> None:
    """Upload a file, measure, open the atlas; its table holds what the command finds."""
    page.file_uploader(key="own-file").upload(corpus.source.name, corpus.source.read_bytes())
    fine(page.run())
    assert f"{amount}: this takes a moment" in page.markdown[-1].value  # all were read to tell how long it takes
    press(page, "Measure all heads")
    assert f"All {amount} were read" in fine(page).success[0].value
    press(page, "Open this atlas")
    shown = put(page, screen="table").dataframe[0].value
    out = corpus.source.with_suffix(".atlas")
    make_atlas(checkpoint, corpus, out)
    known = pd.read_parquet(out / "heads.parquet")
    for column in ("entropy", "confidence"):
        assert shown[column].to_numpy(float) == pytest.approx(known[column].to_numpy(), rel=1e-5)


def press(page: AppTest, label: str) -> None:
    next(button for button in page.button if button.label == label).click().run()


def test_an_example_of_a_classifier_is_drawn_over_its_windows_and_leads_to_sequences() -> None:
    name = "splice-junctions"
    page = fine(opened("atlas", model=name, screen="head", kind="encoder.self", layer="0", head="1"))
    rows = pd.read_parquet(CHECKPOINTS / name / "atlas" / "examples.parquet").query(
        "site == 'encoder.0.self' and head == 1 and kind == 'best' and rank == 0"
    )
    _, drawn = matrix_sent(page, "atlas-example")
    known = classify(load(CHECKPOINTS / name), rows["source"].item()).record["encoder.0.self"].weights(1)
    assert drawn == pytest.approx(known, abs=1e-5)
    assert any("sequence=" in part.proto.query_string for part in page.get("page_link"))


@pytest.mark.parametrize(
    "address",
    [
        {"model": "multi30k-en-de-rnn-location", "screen": "head"},
        {"model": "multi30k-en-de-rnn", "screen": "table"},
        {"model": "core-promoters"},
        {"model": "none", "screen": "nothing", "layer": "x", "head": "99", "kind": "?"},
    ],
)
def test_every_shipped_atlas_has_a_page_and_strange_addresses_do_too(address: dict[str, str]) -> None:
    fine(opened("atlas", **address))


@pytest.mark.parametrize("screen", ["cards", "table", "head", "own"])
def test_in_chinese_nothing_is_said_in_english(screen: str) -> None:
    page = fine(opened("atlas", lang="zh", screen=screen))
    captions = (CHECKPOINTS / TRANSLATOR / "atlas" / "examples.parquet").resolve()
    texts = set(pd.read_parquet(captions)["source"])
    for contexts in words()["contexts"]:
        texts |= {part for one in contexts for part in (one["before"], one["after"])}
    found = [said for said in english(page) if not any(said in text for text in texts)]
    assert found == []


def test_without_an_atlas_the_page_says_how_to_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", tmp_path)
    assert "python -m heedmap atlas" in opened("atlas").error[0].value


def test_an_atlas_beside_an_own_checkpoint_is_listed_and_one_that_is_missing_is_said(tmp_path, monkeypatch) -> None:
    shutil.copytree(CHECKPOINTS / "core-promoters", tmp_path / "mymotif")
    shutil.copytree(CHECKPOINTS / "core-promoters", tmp_path / "bare", ignore=lambda *_: ["atlas"])
    monkeypatch.setattr(user_folder, "own_folder", lambda: tmp_path)
    page = fine(opened("atlas", model="mine/mymotif"))
    assert page.selectbox(key="model").value == "mine/mymotif"
    assert "mine/bare" not in page.selectbox(key="model").options
    assert not page.info
    assert "mine/bare has no atlas here" in opened("atlas", model="mine/bare").info[0].value


def test_translate_says_what_the_chosen_head_usually_does_and_leads_to_its_page() -> None:
    page = fine(opened("translate", beam="1", kind="encoder.self", layer="2", head="3"))
    known = sent(page, "head-choice")[0]["known"]["encoder.2.self"][3]
    row = heads().query("site == 'encoder.2.self' and head == 3").iloc[0]
    said = next(text for text, _ in known["sentences"] if "29,000" in text)
    assert f"{100 * row['previous']:.0f}%" in said
    (link,) = known["links"]
    assert link["label"] == "This head in the atlas"
    assert [link["query"][key] for key in ("kind", "layer", "head")] == ["encoder.self", "2", "3"]


@pytest.mark.parametrize("file", ["heads.parquet", "examples.parquet", "run.json"])
def test_a_damaged_atlas_is_named_with_what_helps_and_the_menu_of_the_page_lives(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (TRANSLATOR, "splice-junctions"):
        shutil.copytree(CHECKPOINTS / name, tmp_path / name, ignore=shutil.ignore_patterns("history"))
    cut = tmp_path / TRANSLATOR / "atlas" / file
    cut.write_bytes(cut.read_bytes()[:-7])
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", tmp_path)
    page = opened("atlas", model=TRANSLATOR)
    (told,) = [one.value.replace("\\", "") for one in page.warning]
    assert told.startswith(f"{TRANSLATOR}/atlas/{file} is damaged or cut: copy it anew")
    page.selectbox(key="model").set_value("splice-junctions").run()
    assert not fine(page).warning
