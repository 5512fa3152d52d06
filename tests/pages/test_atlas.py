"""The page Head atlas: what it shows is what the tables hold, in both languages, and each part has an address."""

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.opening import ROOT, address_of, figure, fine, is_whole, matrix_sent, moved, numbers, opened, sent
from tests.pages.test_chinese import english
from tests.toy import write_checkpoint
from transformer.atlas.corpus import Corpus
from transformer.atlas.executors import Serial
from transformer.atlas.run import Request, make_atlas
from transformer.checkpoint import load
from transformer.runs.sequences.classify import classify

CHECKPOINTS = ROOT / "checkpoints"
TRANSLATOR = "multi30k-en-de"


def heads(name: str = TRANSLATOR) -> pd.DataFrame:
    return pd.read_parquet(CHECKPOINTS / name / "atlas" / "heads.parquet")


def html(page: AppTest) -> str:
    return "".join(part.proto.body for part in page.get("html"))


def test_there_is_a_card_for_each_head_with_its_profile_and_a_link_to_its_page() -> None:
    page = fine(opened("atlas", kind="decoder.self"))
    known = heads().query("group == 'decoder.self'")
    text = html(page)
    links = re.findall(r'href="atlas\?model=([\w-]+)&screen=head&site=([\w.]+)&head=(\d)', text)
    assert [(site, int(head)) for _, site, head in links] == list(zip(known["site"], known["head"], strict=True))
    cards = text.split("<a ")[1:]
    for card, (_, row) in zip(cards, known.iterrows(), strict=True):
        shown = [float(value) for value in re.findall(r'title="[+-]\d: ([\d.]+)"', card)]
        seen = row["offsets"][8:25]
        assert card.count('class="unseen"') == 8  # the future
        assert shown == pytest.approx(list(seen[~np.isnan(seen)]), abs=6e-4)
    assert "29,000" in page.caption[1].value


def test_the_table_holds_the_measures_and_filters_stand_in_the_address() -> None:
    page = fine(opened("atlas", screen="table", role="half_same"))
    known = heads()
    chosen = known[["half_same" in roles for roles in known["roles"]]]
    assert 0 < len(chosen) < len(known)
    shown = page.dataframe[0].value
    assert shown["site"].tolist() == chosen["site"].tolist()
    assert shown["same"].tolist() == chosen["same"].tolist()
    page.selectbox(key="role").set_value("all")
    page.run()
    assert len(fine(page).dataframe[0].value) == len(known)
    assert "role" not in address_of(page)


def test_the_map_and_the_tree_are_made_of_the_distances_and_the_cut_is_the_readers() -> None:
    page = fine(opened("atlas", screen="map", kind="encoder.self", cut="0.45"))
    points, tree = figure(page, 0)["data"][0], figure(page, 1)
    assert len(numbers(points["x"])) == 16
    assert len(tree["data"]) == 16  # 15 joins, and the leaves
    pairs = pd.read_parquet(CHECKPOINTS / TRANSLATOR / "atlas" / "pairs.parquet").query("group == 'encoder.self'")
    lowest = min(max(numbers(join["x"])) for join in tree["data"][:-1])
    assert lowest == pytest.approx(pairs["distance"].min())
    groups = len(set(zip(points["marker"]["color"], points["marker"]["symbol"], strict=True)))
    assert f"{groups} groups" in page.caption[-1].value


def test_a_heads_page_shows_its_example_and_leads_to_it_in_translate() -> None:
    page = fine(opened("atlas", screen="head", site="encoder.2.self", head="3", example="best-1"))
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
    assert address_of(page)["site"] == site
    assert address_of(page).get("head", "0") == head


def test_an_action_draws_the_screen_alone_and_an_example_or_a_pair_its_maps_alone() -> None:
    page = fine(opened("atlas", screen="head", site="encoder.2.self", head="1"))
    page.segmented_control(key="head").set_value("2")
    page = fine(moved(page, "head"))
    assert not is_whole(page)
    assert page.subheader[0].value == "encoder.2.self, head 2"
    relative = next(button for button in page.button if str(button.key).startswith("relative-"))
    relative.click()
    page = fine(moved(page, str(relative.key)))
    assert not is_whole(page)
    assert address_of(page)["site"] == str(relative.key).split("-")[1]
    page.selectbox(key="example").select_index(3)
    page = fine(moved(page, "example"))
    assert not page.get("plotly_chart")
    matrix_sent(page, "atlas-example")
    assert not page.subheader
    page = fine(opened("atlas", screen="compare", second=f"{TRANSLATOR}@006400"))
    page.selectbox(key="pair").select_index(3)
    page = fine(moved(page, "pair"))
    for model in (TRANSLATOR, f"{TRANSLATOR}@006400"):
        matrix_sent(page, f"atlas-pair-{model}")
    assert not page.dataframe
    assert address_of(page)["pair"] == "encoder.0.self.3"


def test_work_that_a_button_stops_is_drawn_by_the_page() -> None:
    page = fine(opened("atlas"))
    page.segmented_control(key="screen").set_value("own")
    page = fine(moved(page, "screen"))
    assert is_whole(page)
    assert address_of(page) == {"screen": "own"}
    page.segmented_control(key="screen").set_value("table")
    page = fine(page.run().run())  # by the first run nobody had left the screen
    page.selectbox(key="only").set_value("decoder.cross")
    page = fine(moved(page, "only"))
    assert not is_whole(page)
    assert set(page.dataframe[0].value["site"]) == {f"decoder.{layer}.cross" for layer in range(4)}


def test_importance_and_alignment_errors_stand_beside_what_a_head_does() -> None:
    """On its card, in the table, and on its page with a link to Align; numbers are those of the files."""
    folder = CHECKPOINTS / TRANSLATOR
    lost = pd.read_csv(folder / "importance" / "heads.csv").query("snapshot == 'final'")
    ours = lost.query("site == 'decoder.2.cross' and head == 1")["zero"].item()
    place = 1 + int((lost["zero"] > ours).sum())
    counts = json.loads((folder / "alignment_error.json").read_text())["methods"]["weights.2.1"]

    def error(row: str) -> float:
        one = counts[row]
        return 1 - (one["found_sure"] + one["found_possible"]) / (one["found"] + one["sure"])

    card = next(part for part in html(fine(opened("atlas", kind="decoder.cross"))).split("<a ") if "L2 H1" in part)
    best = min(("read", "written"), key=error)
    assert f"{ours:+.4f} nats with it off (zero) · alignment error {error(best):.0%}" in card
    assert {"read": "(row that reads)", "written": "(row that writes)"}[best] in card
    table = fine(opened("atlas", screen="table")).dataframe[0].value
    row = table.query("site == 'decoder.2.cross' and head == 1").iloc[0]
    assert row["importance"] == pytest.approx(ours)
    assert [row["error_written"], row["error_read"]] == pytest.approx([error("written"), error("read")])
    assert table.query("site == 'encoder.2.self'")["error_read"].isna().all()
    page = fine(opened("atlas", screen="head", site="decoder.2.cross", head="1"))
    assert any(f"place {place} of 48" in one.value for one in page.caption)
    link = next(part.proto for part in page.get("page_link") if "alignment" in part.proto.label)
    assert "first=multi30k-en-de" in link.query_string
    assert "head1=2.1" in link.query_string


def test_two_checkpoints_stand_side_by_side_with_their_heads_in_pairs() -> None:
    """What is said, drawn and listed is one and the same pairing; another pair shows its own two maps."""
    page = fine(opened("atlas", screen="compare", second=f"{TRANSLATOR}@006400", kind="decoder.cross"))
    said = next(part.value for part in page.markdown if "apart on average" in part.value)
    mean, chance = (float(value) for value in re.findall(r"0\.\d+", said.replace("\\", "")))
    table = page.dataframe[0].value
    assert len(table) == 16
    assert table["distance"].mean() == pytest.approx(mean, abs=6e-4)
    cells, rings = figure(page, 0)["data"]
    drawn = numbers(cells["z"])
    assert drawn.mean() == pytest.approx(chance, abs=6e-4)
    assert [drawn[y, x] for x, y in zip(rings["x"], rings["y"], strict=True)] == pytest.approx(table["distance"])
    kept = int((table["first"] == table["second"]).sum())
    assert any(f"{kept} of 16 are paired with the head of the same layer" in part.value for part in page.markdown)
    assert kept > 8
    page.selectbox(key="pair").set_value("decoder.2.cross.1")
    page.run()
    assert address_of(fine(page))["pair"] == "decoder.2.cross.1"
    assert "decoder.2.cross" in next(part.value for part in page.markdown if "head 1" in part.value)
    page.toggle(key="within").set_value(True)
    page.run()
    layers = fine(page).dataframe[0].value
    assert (layers["first"].str[:2] == layers["second"].str[:2]).all()
    assert "translators" in opened("atlas", screen="compare", model="splice-junctions").info[0].value


def test_queries_and_keys_are_drawn_with_their_sentences_and_a_kept_point_shows_its_map() -> None:
    page = fine(opened("atlas", screen="vectors", site="decoder.2.cross", head="1", point="query.3.1"))
    queries, keys, *lines, ends = figure(page)["data"]
    said = next(part.value for part in page.caption if "of the variance" in part.value)
    counts = [f"{len(side['customdata']):,}" for side in (queries, keys)]
    assert f"{counts[0]} queries and {counts[1]} keys" in said
    assert set(queries["marker"]["symbol"]) == {"circle"}
    assert set(keys["marker"]["symbol"]) == {"square"}
    _, weights = matrix_sent(page, "atlas-vectors-map")
    assert weights.sum(1) == pytest.approx(1, abs=1e-4)
    largest = sorted(weights[1][weights[1] >= 0.05], reverse=True)[:6]
    assert [line["line"]["width"] for line in lines] == pytest.approx([1 + 3 * weight for weight in largest], abs=1e-3)
    asked, *joined = zip(numbers(ends["x"]), numbers(ends["y"]), ends["text"], strict=True)
    at_point = queries["customdata"].index("query.3.1")
    assert asked[:2] == (numbers(queries["x"])[at_point], numbers(queries["y"])[at_point])
    assert [(x, y) for x, y, _ in joined] == [(line["x"][1], line["y"][1]) for line in map(unpacked, lines)]
    hover = queries["hovertext"][at_point]
    assert asked[2].replace("<b>", "<b>[").replace("</b>", "]</b>") in hover
    assert f"{largest[0]:.2f}" in hover
    assert "Circles are queries" in " ".join(part.value for part in page.caption)


def unpacked(line: dict[str, object]) -> dict[str, list[float]]:
    return {axis: numbers(line[axis]).tolist() for axis in ("x", "y")}


@pytest.mark.parametrize(("colour", "traces"), [("side", 2), ("position", 3), ("class", 5)])
def test_points_are_coloured_by_what_is_chosen_and_a_token_stands_out(colour: str, traces: int) -> None:
    page = fine(opened("atlas", screen="vectors", site="decoder.2.cross", head="1", colour=colour, word="MANN"))
    data = figure(page)["data"]
    assert len(data) == traces
    clear = [text for trace in data for text, clear in zip(trace["hovertext"], opacities(trace), strict=True) if clear]
    assert len(clear) > 3
    assert all("[▁Mann]" in text or "[▁mann]" in text for text in clear)
    fine(opened("atlas", screen="vectors", point="query.9999.0", model="multi30k-en-de"))
    refused = opened("atlas", screen="vectors", model="multi30k-en-de-rnn")
    assert "its scores are made otherwise" in refused.warning[0].value


def opacities(trace: dict[str, dict[str, object]]) -> list[bool]:
    return [value > 0.5 for value in numbers(trace["marker"]["opacity"]).tolist()]


def test_an_own_text_is_measured_and_opened_and_its_numbers_are_those_of_the_command(tmp_path: Path) -> None:
    """The cost is told first; the finished atlas is an entry of the list, with the same heads as a pass over files."""
    sides = [(CHECKPOINTS / TRANSLATOR / "alignments" / f"sentences.{end}").read_text("utf-8") for end in ("en", "de")]
    texts = ["\n".join(side.splitlines()[:19]) + "\n" for side in sides]
    page = fine(opened("atlas", screen="own"))
    assert "Paste or upload up to 2,000" in page.info[0].value
    page.text_area(key="text").set_value(texts[0])
    page.text_area(key="force").set_value(texts[1])
    fine(page.run())
    assert any("19 lines: the rest will take about" in part.value for part in page.markdown)
    press(page, "Measure all heads")
    assert "All 19 lines" in fine(page).success[0].value
    press(page, "Open this atlas")
    assert "19 lines of your own text" in " ".join(part.value for part in fine(page).caption)
    assert address_of(page)["model"].startswith("own/")
    assert 'href="atlas?model' not in html(page)  # another page load would not find it
    for name, text in zip(("a.en", "a.de"), texts, strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    request = Request(
        CHECKPOINTS / TRANSLATOR, Corpus(tmp_path / "a.en", tmp_path / "a.de"), tmp_path / "out", chunk=16
    )
    make_atlas(request, Serial())
    known = pd.read_parquet(tmp_path / "out" / "heads.parquet")
    page.segmented_control(key="screen").set_value("table")
    shown = fine(page.run()).dataframe[0].value
    for column in ("entropy", "previous", "punctuation", "advance"):
        assert shown[column].to_numpy(float) == pytest.approx(known[column].to_numpy(), nan_ok=True, rel=1e-9)


def test_an_own_text_can_be_stopped_and_what_cannot_be_run_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened("atlas", screen="own", text="A man.\nTwo dogs.", force="Ein Mann.")
    assert "2 lines" in page.warning[0].value
    assert "unknown to the checkpoint" in opened("atlas", screen="own", text="狗在跑步。\n猫在睡觉。").warning[0].value
    monkeypatch.setattr("ui.atlas.own.MOST_LINES", 1)
    assert "More than 1 sentences" in opened("atlas", screen="own", text="A man.\nTwo dogs.").warning[0].value
    monkeypatch.undo()
    monkeypatch.setattr("ui.store.own_atlases.SLICE_SECONDS", 0.0)
    page = fine(opened("atlas", screen="own", text="A man.\n" * 40, force="Ein Mann.\n" * 40))
    page.button[-1].click()
    monkeypatch.setattr("ui.store.own_atlases.Job.advance", lambda job: job.cancel())
    assert "Stopped after 16 of 40 lines" in fine(page.run()).success[0].value
    assert "made in another session" in opened("atlas", model="own/0123456789ab").info[0].value


def test_a_file_is_measured_by_an_uploaded_checkpoint_and_fasta_by_a_classifier(tmp_path: Path) -> None:
    """What is opened has the numbers of a pass over the same file; a file that is no text is one sentence."""
    toy = write_checkpoint(tmp_path / "toy")
    page = opened("your_model")
    page.file_uploader[0].set_value([(path.name, path.read_bytes(), "") for path in sorted(toy.iterdir())])
    fine(page.run())
    page.query_params.clear()
    page.query_params.update(screen="own", model="splice-junctions")
    page.switch_page("pages/atlas.py").run()
    page.selectbox(key="of").set_value(next(name for name in page.selectbox(key="of").options if "upload/" in name))
    fine(page.run())
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
    page.segmented_control(key="screen").set_value("table")
    shown = fine(page.run()).dataframe[0].value
    out = corpus.source.with_suffix(".atlas")
    make_atlas(Request(checkpoint, corpus, out), Serial())
    known = pd.read_parquet(out / "heads.parquet")
    assert shown["site"].tolist() == known["site"].tolist()
    for column in ("entropy", "confidence"):
        assert shown[column].to_numpy(float) == pytest.approx(known[column].to_numpy(), rel=1e-5)


def press(page: AppTest, label: str) -> None:
    next(button for button in page.button if button.label == label).click().run()


def test_an_example_of_a_classifier_is_drawn_over_its_windows_and_leads_to_sequences() -> None:
    name = "splice-junctions"
    page = fine(opened("atlas", model=name, screen="head", site="encoder.0.self", head="1"))
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
        {"model": "splice-junctions", "screen": "head", "site": "encoder.0.self", "head": "1"},
        {"model": "multi30k-en-de-rnn-location", "screen": "head"},
        {"model": "multi30k-en-de-rnn", "screen": "map"},
        {"model": "core-promoters"},
        {"model": "none", "screen": "nothing", "site": "x", "head": "99", "kind": "?", "cut": "9"},
    ],
)
def test_every_shipped_atlas_has_a_page_and_strange_addresses_do_too(address: dict[str, str]) -> None:
    fine(opened("atlas", **address))


@pytest.mark.parametrize("screen", ["cards", "map", "head", "compare", "own"])
def test_in_chinese_nothing_is_said_in_english(screen: str) -> None:
    page = fine(opened("atlas", lang="zh", screen=screen))
    captions = (CHECKPOINTS / TRANSLATOR / "atlas" / "examples.parquet").resolve()
    texts = set(pd.read_parquet(captions)["source"])
    found = [said for said in english(page) if not any(said in text for text in texts)]
    assert found == []


def test_without_an_atlas_the_page_says_how_to_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    assert "python -m transformer atlas" in opened("atlas").error[0].value


def test_translate_says_what_the_chosen_head_usually_does_and_leads_to_its_page() -> None:
    page = fine(opened("translate", beam="1", kind="encoder.self", layer="2", head="3"))
    known = sent(page, "head-choice")[0]["known"]["encoder.2.self"][3]
    row = heads().query("site == 'encoder.2.self' and head == 3").iloc[0]
    said = next(text for text, _ in known["sentences"] if "29,000" in text)
    assert f"{100 * row['previous']:.0f} %" in said
    (link,) = known["links"]
    assert link["label"] == "This head in the atlas"
    assert (link["query"]["site"], link["query"]["head"]) == ("encoder.2.self", "3")
