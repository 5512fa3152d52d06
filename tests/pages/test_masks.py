"""The page "Masks": first paint, every screen and control, the leak test, hostile input."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from heedmap.checkpoint.ours.folder import save_folder
from heedmap.lessons.conventions import CONVENTIONS, Call, conversion, converted, holds, part_of
from heedmap.lessons.masks import BREAKS, KINDS, mask_view, toy_batch
from heedmap.nn.kmer import KmerClassifier, KmerConfig
from heedmap.nn.seq2seq import Seq2Seq
from tests.pages.opening import fine, matrices, opened, sent, words_of
from tests.pages.tiny import save_tiny, save_tiny_recurrent
from ui.texts import as_text

page = partial(opened, "masks")
SECOND = ("a man rides a red bicycle", "ein Mann fährt ein rotes Fahrrad")
TYPED = dict(sources="two dogs run\na man", targets="zwei\nein Mann rennen")


def test_the_first_paint_builds_the_decoder_mask_of_a_worked_example():
    drawn, arrays = matrices(fine(page()))
    assert list(drawn) == ["real", "triangle", "result"]
    real, past = arrays["real"], arrays["triangle"].reshape(7, 7)
    np.testing.assert_array_equal(arrays["result"].reshape(7, 7), past * real)
    np.testing.assert_array_equal(real, [1, 1, 1, 1, 0, 0, 0])


@pytest.mark.parametrize(("kind", "lang"), [*((kind, "zh") for kind in KINDS), ("causal", "en")])
def test_the_words_in_formulas_are_of_the_language(kind: str, lang: str):
    formula = fine(page(mask=kind, lang=lang)).latex[0].value
    words = re.findall(r"[a-z]{2,}|[\u4e00-\u9fff]+", " ".join(re.findall(r"\\text\{(.*?)\}", formula)))
    assert all(word.isascii() == (lang == "en") for word in words)
    assert bool(words) == (kind in {"padding", "causal"})
    assert formula.count("{") == formula.count("}")


@pytest.mark.parametrize("kind", ["padding", "both"])
def test_the_conventions_stand_side_by_side_on_the_same_mask_in_their_own_shapes(kind: str):
    """What each holds is tested in tests/lessons: here it is what is drawn of the first sentence."""
    at = fine(page(screen="conventions", mask=kind, row="1"))
    drawn, arrays = matrices(at)
    batch, _ = toy_batch(("two dogs run", SECOND[0]), ("zwei Hunde rennen", SECOND[1]))
    visible = np.stack([mask_view(batch, kind, i).visible for i in (0, 1)])
    assert list(drawn) == list(CONVENTIONS)
    for name in CONVENTIONS:
        made = converted(visible, name, 2)
        np.testing.assert_array_equal(arrays[name].reshape(-1, visible.shape[2]), part_of(made, 0, name, 2)[0])
        assert drawn[name]["title"].endswith(str(made.shape))
    held = dict(zip(CONVENTIONS, at.dataframe[0].value["holds this mask"], strict=True))
    assert {name: answer == "yes" for name, answer in held.items()} == {name: holds(visible, name) for name in held}
    at.selectbox(key="given").set_value("sdpa")
    at.selectbox(key="convention").set_value("attn_2d").run()
    assert fine(at).code[0].value == conversion("sdpa", "attn_2d"), "the code of every pair runs in tests/lessons"


@pytest.mark.parametrize(
    ("how", "made"), [*((how, "toy") for how in BREAKS), ("transpose", "shipped"), ("no_padding", "shipped")]
)
@pytest.mark.usefixtures("shipped")
def test_a_break_is_found_in_the_sentences_that_are_shown(how: str, made: str):
    """The banner names a cell; its button shows that cell, with the weight that the banner says, and an outline."""
    at = fine(page(screen="break", how=how, made=made, **TYPED))
    assert bool(at.error) == (how != "right")
    assert bool(at.success) == (how == "right")
    if how == "right":
        assert not [name for name in sent(at)[1] if name.endswith(".outlined")]
        return
    said = re.search(
        r"“(.*?)” sees “(.*?)” with weight ([\d.]+) \(sentence (\d); (.*), layer (\d), head (\d)", at.error[0].value
    )
    assert said is not None
    query, key, weight, row, kind, _, head = said.groups()
    if [button for button in at.button if button.key == "masks.worst"]:
        at.button(key="masks.worst").click().run()
        assert not [button for button in fine(at).button if button.key == "masks.worst"]
    kinds = {"Encoder self": "encoder", "Decoder self": "decoder", "Cross": "cross"}
    chosen = [at.session_state[name] for name in ("at", "at_head", "row")]
    assert chosen == [kinds[kind], head, row]
    drawn, arrays = matrices(at)
    labels = [[as_text(label) for label in drawn["broken"][side]] for side in ("rows", "columns")]
    shape = len(labels[0]), len(labels[1])
    weights = arrays["broken"].reshape(shape)
    outlined = np.unpackbits(arrays["broken.outlined"])[: weights.size].reshape(shape) == 1
    cell = labels[0].index(query), labels[1].index(key)
    assert f"{weights[cell]:.3f}" == weight
    assert outlined[cell]
    assert (weights[outlined] > 0).all()
    assert "right.outlined" not in arrays
    text, count = words_of(at), int(outlined.sum())
    assert count == 1 or (f"{count} of" in text and f"“{query}” on “{key}”: {weight}" in text)
    assert "nats" in text


@pytest.mark.parametrize("how", ["no_causal", "shift", "right"])
@pytest.mark.usefixtures("shipped")
def test_the_translator_is_shown_beside_the_right_one(how: str):
    at = fine(page(screen="break", how=how, made="shipped", **TYPED))
    table = at.dataframe[0].value
    assert list(table.columns) == ["translation, broken mask", "translation, right mask"]
    text = words_of(at)
    right, broken, more = map(
        float, re.search(r"\*\*([\d.]+)\*\* .*?\*\*([\d.]+)\*\* nats .*?\((.*?)\)", text).groups()
    )
    assert broken - right == pytest.approx(more, abs=2e-3)
    same = (table.iloc[:, 0] == table.iloc[:, 1]).all()
    assert ("The translations are the same" in text) == (same and how != "right")
    assert ("The translations have changed" in text) == (not same)


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize("made", ["toy", "shipped"])
def test_mixed_up_axes_show_sentences_that_look_at_each_other(made: str):
    at = fine(page(screen="break", how="axes", made=made))
    drawn, arrays = matrices(at)
    assert len(drawn) > 3
    for name in drawn:
        weights, outlined = arrays[name].reshape(2, 2), np.unpackbits(arrays[f"{name}.outlined"])[:4].reshape(2, 2)
        np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)
        np.testing.assert_array_equal(outlined, [[0, 1], [1, 0]])
    leaked = max(float(arrays[name].reshape(2, 2)[[0, 1], [1, 0]].max()) for name in drawn)
    assert f"with weight {leaked:.3f}." in at.error[0].value
    assert ("nats a token" in words_of(at)) == (made == "shipped")


@pytest.mark.parametrize("weights", ["mean", "heads", "none"])
def test_the_module_is_called_as_its_code_says(weights: str):
    at = fine(page(screen="module", mask_form="attn_3d", weights=weights, batch_first="False"))
    shapes = dict(zip(at.dataframe[0].value["tensor"], at.dataframe[0].value["type and shape"], strict=True))
    assert shapes["key"] == "float32 (5, 2, 8)"
    assert shapes["attn_mask"] == "bool (4, 3, 5)"
    assert shapes.get("weights") == {"mean": "float32 (2, 3, 5)", "heads": "float32 (2, 2, 3, 5)"}.get(weights)
    assert Call("attn_3d", False, weights != "none", weights == "mean").code == at.code[0].value
    if weights != "none":
        assert len(matrices(at)[0]) == (2 if weights == "heads" else 1)
    arguments, blind, filled = (table.value for table in at.dataframe[1:])
    assert arguments.iloc[:, 3].tolist() == ["3, 2, 1", "3, 3, 1", "3, 2, 1, 0, 0", "3, 3, 3, 0, 0"]
    assert blind.iloc[:, 1].tolist() == ["NaN", "0"]
    overflowed = filled[filled.iloc[:, 2].str.contains("overflow")]
    assert overflowed.iloc[:, :2].to_numpy().tolist() == [["float16", "-1e9"]]


def test_every_checkpoint_that_has_masks_can_be_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", tmp_path)
    assert "No checkpoint" in fine(page(screen="test")).info[0].value
    assert "train one" in page(made="shipped").error[0].value
    save_tiny(tmp_path)
    save_tiny_recurrent(tmp_path, "additive")
    save_tiny_recurrent(tmp_path, "location")
    model = KmerClassifier(KmerConfig.of(vocab=7, n_classes=3, d_model=8, n_heads=2, d_ff=5, n_layers=1))
    save_folder(tmp_path / "windows", "kmer", model, half=False)
    at = fine(page(screen="test", tested="windows"))
    assert at.selectbox(key="tested").options == ["additive", "location", "tiny"]
    for name in ("tiny", "additive"):
        at.selectbox(key="tested").set_value(name).run()
        assert fine(at).success
        assert at.dataframe[0].value["largest forbidden weight"].max() == 0
    at.selectbox(key="tested").set_value("location").run()
    assert "Location attention covers" in words_of(fine(at))
    assert [button.label for button in at.get("download_button")] == ["leaks as CSV"]


@pytest.mark.usefixtures("shipped")
def test_looking_elsewhere_never_runs_the_model_again(monkeypatch: pytest.MonkeyPatch):
    batch = dict(made="shipped", **TYPED)
    page(screen="break", **batch)
    monkeypatch.setattr(Seq2Seq, "encode", None)
    for screen, head, row, site in (("break", 1, 2, "cross"), ("scores", 1, 1, "encoder"), ("build", 0, 2, "cross")):
        fine(page(screen=screen, at_head=str(head), row=str(row), at=site, **batch))


UNREADABLE = {
    "0 source sentences": ("   \n ", "x"),
    "5 source sentences": ("a\nb\nc\nd\ne", "a\nb\nc\nd\ne"),
    "as many of one": ("a", "b\nc"),
    "30 words": ("word " * 30, "b"),
    "2,000 characters": ("x" * 10_000, "b"),
}


def test_a_batch_that_cannot_be_read_gets_a_sentence_and_strange_words_are_words():
    at = page()
    for message, (sources, targets) in UNREADABLE.items():
        at.text_area(key="sources").set_value(sources)
        at.text_area(key="targets").set_value(targets).run()
        assert not at.exception
        assert message in at.warning[0].value
    for text in ("<script>alert(1)</script>\n{row} {0} %s", "🚲 🚲\n好", "a\u0007b"):
        at.text_area(key="sources").set_value(text)
        at.text_area(key="targets").set_value(text).run()
        fine(at)
