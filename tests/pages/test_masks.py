"""The page "Masks": first paint, every screen and control, the leak test, hostile input."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.pages.opening import fine, matrices, opened, sent, words_of
from tests.pages.tiny import save_tiny, save_tiny_recurrent
from transformer.checkpoint.ours.folder import save_folder
from transformer.lessons.breaking import BREAKS
from transformer.lessons.conventions import CONVENTIONS, conversion
from transformer.lessons.masks import KINDS, mask_view
from transformer.lessons.module import Call
from transformer.lessons.toy import toy_batch
from transformer.nn.kmer import KmerClassifier, KmerConfig
from transformer.nn.seq2seq import Seq2Seq
from ui.lessons.masks.controls import TRY
from ui.lessons.masks.example import TrainedModel
from ui.markdown import as_text
from ui.store import user_folder
from ui.store.cache import is_private
from ui.store.refs import CheckpointRef, Origin, Revision

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


@pytest.mark.parametrize("origin", Origin)
def test_results_of_an_upload_are_known_by_its_revision(origin: Origin):
    """Caches keep what belongs to an upload in its session: they must find its owner in the key."""
    ref = CheckpointRef(origin, "model")
    key = (TrainedModel(str(ref), Revision(ref, 3)), (("a",), ("b",)), "right")
    assert is_private(key) == (origin in {Origin.UPLOAD, Origin.RECORD})


@pytest.mark.parametrize("at", ["encoder", "decoder", "cross"])
def test_scores_before_and_after_and_the_weights(at: str):
    drawn, arrays = matrices(fine(page(screen="scores", at=at)))
    shape = len(drawn["before"]["rows"]), len(drawn["before"]["columns"])
    before, after, weights = (arrays[name].reshape(shape) for name in ("before", "after", "weights"))
    visible = ~np.isneginf(after)
    np.testing.assert_array_equal(before[visible], after[visible])
    assert (~visible).any()
    np.testing.assert_allclose(weights.sum(1), 1.0, rtol=1e-5)
    assert (weights[~visible] == 0).all()


@pytest.mark.parametrize("kind", ["padding", "both"])
def test_the_conventions_stand_side_by_side_on_the_same_mask_in_their_own_shapes(kind: str):
    at = fine(page(screen="conventions", mask=kind, row="1"))
    drawn, arrays = matrices(at)
    assert list(drawn) == list(CONVENTIONS)
    views = [
        mask_view(toy_batch(("two dogs run", SECOND[0]), ("zwei Hunde rennen", SECOND[1]))[0], kind, i) for i in (0, 1)
    ]
    visible = np.stack([view.visible for view in views])
    queries, keys = visible.shape[1:]
    shown = {name: arrays[name].reshape(-1, keys) for name in CONVENTIONS}
    for name in ("annotated_target", "jadore", "sdpa"):
        np.testing.assert_array_equal(shown[name], visible[0])
    np.testing.assert_array_equal(shown["annotated_source"], visible[0].any(0)[None])
    np.testing.assert_array_equal(shown["key_padding"], ~visible.any(1))
    np.testing.assert_array_equal(shown["attn_2d"], ~visible.any(0))
    np.testing.assert_array_equal(shown["attn_3d"], ~visible[0])
    np.testing.assert_array_equal(shown["additive"], np.where(visible[0], 0, -np.inf))
    sizes = {
        "annotated_source": (2, 1, keys), "annotated_target": (2, queries, keys), "jadore": (2, queries, keys),
        "key_padding": (2, keys), "attn_2d": (queries, keys), "attn_3d": (4, queries, keys),
        "sdpa": (2, 1, queries, keys), "additive": (2, 1, queries, keys),
    }  # fmt: skip
    assert all(drawn[name]["title"].endswith(str(size)) for name, size in sizes.items())
    held = dict(zip(CONVENTIONS, at.dataframe[0].value["holds this mask"], strict=True))
    cannot = {"attn_2d"} if kind == "padding" else {"annotated_source", "key_padding", "attn_2d"}
    assert {name for name, answer in held.items() if answer != "yes"} == cannot


@pytest.mark.parametrize("given", ["visible", "sdpa"])
def test_the_converter_has_code_for_both_conventions(given: str):
    """The code of every pair runs in tests/lessons."""
    at = page(screen="conventions", given=given, row="2")
    wanted = next(name for name in CONVENTIONS if name != given)
    at.selectbox(key="convention").set_value(wanted).run()
    assert fine(at).code[0].value == conversion(given, wanted)


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
    weights, outlined = arrays["broken"].reshape(shape), np.unpackbits(arrays["broken.outlined"])[: np.prod(shape)]
    cell = labels[0].index(query), labels[1].index(key)
    assert f"{weights[cell]:.3f}" == weight
    assert outlined.reshape(shape)[cell]
    assert (weights[outlined.reshape(shape) == 1] > 0).all()
    assert "right.outlined" not in arrays
    text = words_of(at)
    count = int(outlined.sum())
    assert f"{count} of" in text or count == 1
    assert f"“{query}” on “{key}”: {weight}" in text or count == 1
    assert "nats" in text


def test_outlines_are_forbidden_cells_and_no_others():
    """Without a causal mask: every later word that is none of the padding, in rows of words."""
    _, arrays = matrices(fine(page(screen="break", how="no_causal", row="1")))
    outlined = np.unpackbits(arrays["broken.outlined"])[:49].reshape(7, 7)
    expected = np.zeros((7, 7))
    expected[:4, :4] = 1 - np.tri(4)
    np.testing.assert_array_equal(outlined, expected)


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
    at = fine(page(screen="module", mask_form="attn_3d", weights=weights, own_widths="True", batch_first="False"))
    shapes = dict(zip(at.dataframe[0].value["tensor"], at.dataframe[0].value["type and shape"], strict=True))
    assert shapes["key"] == "float32 (5, 2, 6)"
    assert shapes["attn_mask"] == "bool (4, 3, 5)"
    assert shapes.get("weights") == {"mean": "float32 (2, 3, 5)", "heads": "float32 (2, 2, 3, 5)"}.get(weights)
    assert Call("attn_3d", False, weights != "none", weights == "mean", True).code == at.code[0].value
    if weights != "none":
        assert len(matrices(at)[0]) == (2 if weights == "heads" else 1)
    arguments, blind, filled = (table.value for table in at.dataframe[1:])
    assert arguments.iloc[:, 3].tolist() == ["3, 2, 1", "3, 3, 1", "3, 2, 1, 0, 0", "3, 3, 3, 0, 0"]
    assert blind.iloc[:, 1].tolist() == ["NaN", "0"]
    overflowed = filled[filled.iloc[:, 2].str.contains("overflow")]
    assert overflowed.iloc[:, :2].to_numpy().tolist() == [["float16", "-1e9"]]


def test_any_checkpoint_can_be_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    save_tiny(tmp_path)
    save_tiny_recurrent(tmp_path, "additive")
    save_tiny_recurrent(tmp_path, "location")
    at = fine(page(screen="test"))
    assert at.selectbox(key="tested").options == ["additive", "location", "tiny"]
    for name in ("tiny", "additive"):
        at.selectbox(key="tested").set_value(name).run()
        assert fine(at).success
        assert at.dataframe[0].value["largest forbidden weight"].max() == 0
    at.selectbox(key="tested").set_value("location").run()
    assert "Location attention covers" in words_of(fine(at))
    assert [button.label for button in at.get("download_button")] == ["leaks as CSV"]


@pytest.mark.usefixtures("shipped")
def test_checkpoints_of_ones_own_can_be_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save_tiny(tmp_path / "own")
    monkeypatch.setattr(user_folder, "own_folder", lambda: tmp_path / "own")
    at = fine(page(screen="test", tested="mine/tiny"))
    assert at.selectbox(key="tested").options == ["tiny", "mine/tiny"]
    assert at.selectbox(key="tested").value == "mine/tiny"
    assert at.success


def test_only_what_can_be_tested_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    save_tiny(tmp_path)
    model = KmerClassifier(KmerConfig(vocab=7, n_classes=3, d_model=8, n_heads=2, d_ff=5, n_layers=1))
    save_folder(tmp_path / "windows", "kmer", model, half=False)
    at = fine(page(screen="test", tested="windows"))
    assert at.selectbox(key="tested").options == ["tiny"]
    assert at.selectbox(key="tested").value == "tiny"


@pytest.mark.usefixtures("shipped")
def test_looking_elsewhere_never_runs_the_model_again(monkeypatch: pytest.MonkeyPatch):
    batch = dict(made="shipped", sources="two dogs run\na man", targets="zwei\nein Mann rennen")
    page(screen="break", **batch)
    monkeypatch.setattr(Seq2Seq, "encode", None)
    for screen, head, row, site in (
        ("break", "1", "2", "cross"),
        ("scores", "1", "1", "encoder"),
        ("build", "0", "2", "cross"),
    ):
        fine(page(screen=screen, at_head=head, row=row, at=site, **batch))


def test_without_checkpoints_the_leak_test_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    assert "No checkpoint" in fine(page(screen="test")).info[0].value
    assert "train one" in page(made="shipped").error[0].value


@pytest.mark.parametrize("name", TRY)
@pytest.mark.usefixtures("shipped")
def test_try_this_sets_the_controls(name: str):
    at = page(screen="conventions", mask="cross")
    at.menu_button(key="masks.try").click(name).run()
    fine(at)
    assert at.session_state["screen"] == TRY[name].get("screen", "build")


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        ("", "", "0 source sentences"),
        ("   \n ", "x", "0 source sentences"),
        ("a\nb\nc\nd\ne", "a\nb\nc\nd\ne", "5 source sentences"),
        ("a", "b\nc", "as many of one"),
        ("word " * 30, "b", "30 words"),
        ("x" * 10_000, "b", "2,000 characters"),
    ],
)
def test_a_batch_that_cannot_be_read_gets_a_sentence(sources: str, targets: str, message: str):
    at = page()
    at.text_area(key="sources").set_value(sources)
    at.text_area(key="targets").set_value(targets).run()
    assert not at.exception
    assert message in at.warning[0].value


def test_strange_words_are_words():
    at = page()
    for text in ("<script>alert(1)</script>\n{row} {0} %s", "🚲 🚲\n好", "a\u0007b"):
        at.text_area(key="sources").set_value(text)
        at.text_area(key="targets").set_value(text).run()
        fine(at)
