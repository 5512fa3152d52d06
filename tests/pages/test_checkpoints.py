"""The page Your model: files in, questions, attention, tensors and Check out; limits; sessions stay apart."""

import io
import json
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save
from streamlit.testing.v1 import AppTest
from torch import nn

from heedmap import attention_maps, load
from heedmap.checkpoint.ours.folder import save_folder
from heedmap.safe import zips
from heedmap.safe.contents import shape_text
from heedmap.safe.limits import MEGABYTE
from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.drawn import fork
from tests.checkpoint.originals.torch_modules import Around
from tests.checkpoint.references import REFERENCE, reference_file
from tests.classifiers import sequence_checkpoint
from tests.pages import opening
from tests.pages.opening import address_of, brought, gone, head_shown, problems, ran, record_sent, with_heads
from tests.pages.tiny import save_tiny
from tests.safe.hostile import corpus, saved, zip_of
from ui.store import upload_guard, user_folder

SHIPPED = Path(__file__).parents[2] / "checkpoints"
ANNOTATED = reference_file("annotated").read_bytes()

opened = partial(opening.opened, "your_model")
pytestmark = pytest.mark.usefixtures("shipped")
"""A tiny checkpoint stands in for the shipped ones."""


def fine(page: AppTest) -> AppTest:
    """The page again; what it warns of is looked at where it matters."""
    assert not page.exception
    return page


def asked(page: AppTest, question: str) -> Any:
    """The widget of a question."""
    every = (one for kind in ("button_group", "number_input", "text_input") for one in page.get(kind))
    return next(one for one in every if one.key.endswith(f".{question}") and "ask." in one.key)


def answered(page: AppTest, **answers: Any) -> AppTest:
    """The page once each of these questions was answered."""
    for question, answer in answers.items():
        asked(page, question).set_value(answer)
        fine(page.run())
    return page


def pressed(page: AppTest, key: str) -> AppTest:
    return fine(page.button(key=key).click().run())


def shown_as(data: bytes = ANNOTATED, name: str = "model.pt", heads: int = 0) -> AppTest:
    """The page with a file that was dropped, once it is known how many heads there are."""
    page = brought(opened(), **{name: data})
    return fine(with_heads(page, heads)) if heads else page


def open_panel(page: AppTest, panel: str) -> AppTest:
    return fine(page.button_group(key="show").set_value(panel).run())


def test_an_upload_is_recognised_asked_about_and_shown():
    page = shown_as()
    assert page.selectbox(key="model").value == "upload/model"
    assert "The Annotated Transformer" in page.warning[0].value
    assert "100%" in page.warning[0].value
    assert page.button_group(key="show").options == ["Tensors"]  # no maps before an answer
    heads = asked(page, "n_heads")
    assert heads.value is None
    fine(with_heads(page, 3))
    assert not page.success  # what starts a target is assumed
    assert "assumed, since the file does not say: pad\\_id=0, bos\\_id=1" in page.warning[0].value
    pressed(page, "confirm-answers")
    assert "100%" in page.success[0].value
    assert not page.warning
    ran(page, input="5 6 7")
    gone(page, kind="encoder.self", layer="0", head="1")
    title, drawn = head_shown(page)
    assert title == "encoder.0.self · head 1"
    expected = attention_maps(load(reference_file("annotated"), n_heads=3), [[5, 6, 7, 2]], [[1]])
    np.testing.assert_allclose(drawn, expected["encoder.0.self"][0, 1], atol=1e-5)
    assert record_sent(page)["encoder.self"][1].shape[1] == 3


def test_answers_are_kept_for_the_file_and_can_be_taken_back():
    page = shown_as()
    page.session_state["rare-questions"] = True
    fine(page.run())
    assert (asked(page, "norm_eps").value, asked(page, "target_pad_id").value) == ("1e-06", 0)
    assert not problems(answered(page, norm_eps="0.001"))
    assert asked(answered(page, norm_eps="many"), "norm_eps").value == "1e-06"
    answered(page, n_heads=3, bos_id=7, eos_id=4_000)
    assert problems(page)[0] == r"eos\_id=4000 is no token: the vocabulary has ids 0 to 28."
    assert asked(page, "eos_id").value == 4_000  # the questions stay, with what was answered
    assert not problems(answered(page, eos_id=5))
    pressed(page, "remove")
    assert "upload/model" not in page.selectbox(key="model").options
    page = brought(page, **{"again.pt": ANNOTATED})
    assert page.selectbox(key="model").value == "upload/again"
    assert [asked(page, name).value for name in ("n_heads", "bos_id", "eos_id")] == [3, 7, 5]
    assert asked(pressed(page, "forget-answers"), "n_heads").value is None


def test_a_file_that_does_not_fit_gets_a_report_one_of_no_layout_its_numbers_and_a_good_one_opens_after_them():
    weights = dict(torch.load(io.BytesIO(ANNOTATED), weights_only=True))
    weights["generator.proj.weight"] = torch.zeros(3, 7)
    del weights["decoder.norm.a_2"]
    weights["extra.weight"] = torch.ones(2, 2)
    page = shown_as(saved(weights), "odd.pt")
    assert "The Annotated Transformer" in page.error[0].value
    tables = " ".join(frame.value.to_string() for frame in page.dataframe)
    assert all(name in tables for name in ("decoder.norm.a_2", "generator.proj.weight", "extra.weight", "3 x 7"))
    assert any("take the 1 unexpected out of the file" in text.value for text in page.text)
    assert page.button_group(key="show").options == ["Tensors"]
    strange = {"conv1.weight": torch.ones(2, 3), "bn.weight": torch.full((4,), torch.nan)}
    page = brought(page, **{"net.pt": saved(strange)})
    assert "no known layout" in page.error[0].value
    assert any("bn.weight" in error.value for error in page.error[1:])
    assert page.button_group(key="show").value == "tensors"
    page = with_heads(brought(page, **{"good.pt": ANNOTATED}), 3)
    assert page.selectbox(key="model").value == "upload/good"
    assert page.button_group(key="show").value == "attention"


def test_hostile_files_are_sentences_and_nothing_is_kept(tmp_path: Path):
    page = opened()
    for trick, data, reason in list(corpus(str(tmp_path / "marker")))[::40]:
        page = brought(page, **{"model.pt": data})
        assert reason in problems(page)[0], trick
        assert page.selectbox(key="model").options == ["tiny"]
    assert not (tmp_path / "marker").exists()
    assert "The Annotated Transformer" in brought(page, **{"model.pt": ANNOTATED}).warning[0].value


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


def test_a_norm_that_no_name_places_is_refused_with_the_lines_that_record_it():
    layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 3, 17, 0.0), 2, enable_nested_tensor=False)
    parts = {"embedding": nn.Embedding(23, 12), "transformer_encoder": layers}
    for name, said in (
        ("embedding", "its name does not say how"),
        ("words", "the names around these layers (d_model=12)"),
    ):
        state = scramble(Around(parts | {"norm": nn.LayerNorm(12)}, ["norm"])).state_dict()
        page = shown_as(saved({key.replace("embedding.", f"{name}."): tensor for key, tensor in state.items()}))
        assert page.error
        assert not page.success
        assert "norm.weight" in {name for one in page.dataframe for name in one.value.iloc[:, 0]}
        assert any(said in text.value for text in page.text)
        assert any("with recording(model) as seen" in code.value for code in page.code)


def forked(**beside: Any) -> bytes:
    """A decoder of another hand; what is saved `beside` it may answer questions."""
    torch.manual_seed(1)
    return saved({"model": fork(2).state, **beside})


def test_a_file_whose_options_say_all_is_green_and_asks_nothing():
    told = {"n_head": 2, "norm_first": True, "scores_divided_by": "d_head"}
    page = shown_as(forked(model_args=told | {"activation": "relu", "pad_id": -1}))
    assert "100%" in page.success[0].value
    assert not page.warning
    assert "The file says all that is asked" in [one.label for one in page.expander]
    assert pressed(page, "open-check").button_group(key="show").value == "check", "a fork may differ: prove it"


def test_options_that_differ_are_named_in_the_banner_and_asked():
    page = shown_as(forked(model_args={"n_head": 2}, config={"n_head": 4}))
    assert "no maps before this is answered" in page.warning[0].value
    assert "model\\_args says 2, config says 4" in page.warning[0].value
    page = fine(with_heads(page, 2))
    assert not page.success
    assert "scores\\_divided\\_by='d\\_head'" in page.warning[0].value
    assert "norm\\_first" not in answered(page, norm_first=False).warning[0].value


def test_every_tensor_has_its_numbers():
    weights = dict(torch.load(io.BytesIO(ANNOTATED), weights_only=True))
    weights["generator.proj.bias"] = weights["generator.proj.bias"] + 1
    page = open_panel(shown_as(saved(weights), heads=3), "tensors")
    shown = page.dataframe[0].value
    assert dict(zip(shown["tensor"], shown["shape"], strict=True)) == {
        name: shape_text(tuple(tensor.shape)) for name, tensor in weights.items()
    }
    row = shown[shown["tensor"] == "generator.proj.bias"].iloc[0]
    assert row["norm"] == pytest.approx(float(weights["generator.proj.bias"].norm()), rel=1e-5)
    page = open_panel(opened(), "tensors")
    assert "source_embedding.weight" in set(page.dataframe[0].value["tensor"])  # of shipped ones too


def test_a_classifier_of_sequences_leads_to_its_page_and_one_without_a_task_runs_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = sequence_checkpoint()
    save_folder(tmp_path / "letters", "kmer", small.model, task=small.task, examples=("ACGTTGCAAGTGTCAGTTGACGTACC",))
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", tmp_path)
    page = opened(model="letters")
    assert not page.warning
    assert "needs no tokenizer" in page.info[0].value
    files = {file: (SHIPPED / "splice-junctions" / file).read_bytes() for file in ("model.safetensors", "config.json")}
    page = brought(page, **files)
    assert any("classifies DNA sequences (EI, IE, N)" in one.value for one in page.info)
    left = list[str]()
    monkeypatch.setattr("streamlit.switch_page", left.append)
    pressed(page, "to-sequences")
    assert left == ["pages/sequences.py"]
    page = fine(with_heads(brought(page, **{"model.pt": reference_file("kmer").read_bytes()}), 4))
    assert not problems(page)
    assert head_shown(page)[1].size


def test_text_and_open_view_stand_in_the_address_and_another_checkpoint_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", tmp_path)
    save_tiny(tmp_path)
    (tmp_path / "tiny").rename(tmp_path / "other")
    save_tiny(tmp_path)
    first = opened(model="tiny").text_input(key="input").value
    assert address_of(ran(opened(model="tiny"), input="two dogs"))["input"] == "two dogs"
    link = opened(model="tiny", input="two dogs", map="downloads")
    assert link.text_input(key="input").value == "two dogs"
    assert "CSV" in " ".join(button.proto.label for button in link.get("download_button"))
    assert address_of(link)["map"] == "downloads"
    assert "input" not in address_of(ran(link, input=first))
    page = ran(opened(model="tiny"), input="two dogs")
    page.selectbox(key="model").set_value("other")
    assert fine(page.run()).text_input(key="input").value == first
    assert "input" not in address_of(page)


@pytest.mark.parametrize(
    ("full", "megabytes", "said"),
    [("arriving", 3, "at most 3 MB can arrive"), ("unpacked", 2, "may have at most 2 MB together")],
)
def test_a_server_that_is_nearly_full_says_so_before_a_file_is_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, full: str, megabytes: int, said: str
):
    """What arrives has room, or what is unpacked of it has."""
    assert not opened().warning
    monkeypatch.setattr(zips, "MEMORY", tmp_path)
    real = shutil.disk_usage

    def usage(place: Any) -> Any:
        is_full = (place == tmp_path) == (full == "unpacked")
        return SimpleNamespace(free=megabytes * MEGABYTE + 5) if is_full else real(place)

    monkeypatch.setattr("shutil.disk_usage", usage)
    assert said in opened().warning[0].value


def test_a_folder_of_ones_own_stands_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "mine"
    (folder / "paper").mkdir(parents=True)
    (folder / "paper" / "model.pt").write_bytes(ANNOTATED)
    (folder / "broken.pt").write_bytes(b"nothing")
    save_tiny(folder)
    outside = tmp_path / "outside.pt"
    outside.write_bytes(ANNOTATED)
    (folder / "link.pt").symlink_to(outside)
    monkeypatch.setattr(user_folder, "own_folder", lambda: folder)
    page = opened(model="mine/paper")
    assert page.selectbox(key="model").options == ["mine/broken.pt", "mine/paper", "mine/tiny", "tiny"]
    assert page.selectbox(key="model").value == "mine/paper"
    assert "link that leads out" in page.warning[0].value
    assert "The Annotated Transformer" in page.warning[1].value
    page.selectbox(key="model").set_value("mine/broken.pt")
    page.run()
    assert any("neither safetensors nor" in warning.value for warning in page.warning)
    page.switch_page("pages/translate.py").run()
    assert page.selectbox(key="model").options == ["tiny", "mine/paper", "mine/tiny"]


def test_a_folder_of_images_is_refused_with_the_lines_that_record_it(tmp_path: Path):
    config = {"model_type": "vit", "image_size": 12, "patch_size": 4}
    files = ("config.json", json.dumps(config).encode()), ("model.safetensors", save({"weight": torch.ones(2, 3)}))
    page = brought(opened(), **{"seer.zip": zip_of(*((f"seer/{name}", data) for name, data in files))})
    assert "vit is no model of text" in page.warning[0].value
    first, second, third = next(code.value for code in page.code if "grid" in code.value).splitlines()
    assert (first, second) == ("from heedmap import recording", "with recording(model) as seen: model(**inputs)")
    assert third == "seen.record(model='seer', grid=(3, 3)).save(\"run.heedmap\")"


EXPECTED = REFERENCE / "torch-prenorm" / "expected.safetensors"

LATER = {*(f"decoder.{i}.cross" for i in range(3)), "decoder.1.self", "decoder.2.self", "log_probs"}
"""What reads a feed-forward net of a model with one encoder and three decoder layers."""


def arrays_of(**arrays: np.ndarray) -> bytes:
    held = io.BytesIO()
    np.savez_compressed(held, **arrays)
    return held.getvalue()


def _row(page: AppTest) -> dict[str, object]:
    table = next(one for one in page.dataframe if "largest difference" in one.value)
    return dict(zip(table.value["array"], table.value["agrees"], strict=True))


def test_an_answer_is_right_when_the_maps_agree(monkeypatch):
    own = upload_guard.Ledger()  # sessions of other tests may let go at any moment
    monkeypatch.setattr(upload_guard, "LEDGER", own)
    page = open_panel(shown_as(reference_file("torch-prenorm").read_bytes(), heads=3), "check")
    assert any("seen.expected(" in code.value and "recording(model)" in code.value for code in page.code)
    page = brought(page, 1, **{"expected.safetensors": EXPECTED.read_bytes()})
    assert any("answer 4 heads" in one.value for one in page.warning)
    assert asked(pressed(page, "use-heads"), "n_heads").value == 4
    answered(page, norm_first=True)
    assert any("does not compute what was expected" in error.value for error in page.error)
    assert _row(page) == {name: name not in LATER for name in _row(page)}
    assert not answered(page, activation="gelu").error
    assert page.warning  # it agrees, and nobody has said so of the marks
    assert any("computes what was expected" in one.value for one in page.success)
    assert all(_row(page).values())
    assert own.n_bytes > reference_file("torch-prenorm").stat().st_size
    pressed(page, "remove")
    assert not own.n_bytes


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.npz", arrays_of(x=np.zeros(3)), "holds no ids to run"),
        ("a.npz", arrays_of(source=np.ones((1, 3), int), target=np.ones((1, 2), int), out=np.zeros(1)), "in the shape"),
        ("<img>.npz", b"", "is refused: it is empty"),
    ],
)
def test_what_cannot_be_compared_gets_a_sentence(name, data, said):
    """A shipped checkpoint can be checked, too."""
    page = brought(open_panel(opened(), "check"), 1, **{name: data})
    sentences = [one.value.replace("\\", "") for one in (*page.warning, *page.error)]
    assert any(said in one for one in sentences), sentences
