"""The door: a sentence goes in, a labelled record comes out; bad input is a sentence, not a traceback."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from heedmap import Checkpoint, DecodingOptions, attention_maps, follow, load, translate, watch
from heedmap.attention.interventions.edits import intervening
from heedmap.attention.interventions.value import Intervention
from heedmap.errors import AttributionError, InputError
from heedmap.explain.attribution.methods import METHODS
from heedmap.messages import Message
from heedmap.nn.seq2seq import Seq2Seq, Seq2SeqConfig
from heedmap.plots.axes import Axis
from heedmap.runs.any_model import run_any
from heedmap.runs.attribution import cost, word_losses
from heedmap.runs.translate import MAX_CHARACTERS, PAST_SOURCE, RUNNERS_UP, Translation, poor_match
from heedmap.sites import Site
from heedmap.text.base import LACKING
from heedmap.text.tokenizers import IdTokenizer, SpecialIds
from tests.recurrents import ADDITIVE, LOCATION, PLACES, checkpoints_with_recurrents

FOLDER = Path(__file__).parents[2] / "checkpoints" / "multi30k-en-de"
SENTENCE = "Two dogs are playing in the snow."


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return load(FOLDER)


def test_the_record_holds_every_site_with_its_axes(checkpoint: Checkpoint) -> None:
    run = translate(checkpoint, SENTENCE)
    layers = checkpoint.model.config.n_encoder_layers
    assert len(run.record.sites) == 3 * layers
    cross, past = run.record["decoder.0.cross"], run.record["decoder.0.self"]
    assert cross.queries.texts == past.queries.texts
    assert cross.queries.texts[-1] == "</s>"
    assert past.keys.texts == ("<s>", *cross.queries.texts[:-1])
    assert cross.keys.texts[-1] == "</s>"
    assert cross.keys.merged().texts[:3] == ("Two", "dogs", "are")
    assert cross.keys.name == "source (English)"
    for site in run.record.sites:
        attention = run.record[site]
        assert attention.shape == (len(attention.queries), len(attention.keys))
        for head in range(attention.n_heads):
            np.testing.assert_allclose(attention.weights(head).sum(1), 1.0, atol=1e-5)


def test_steps_are_the_probabilities_of_a_forced_pass(checkpoint: Checkpoint) -> None:
    run = translate(checkpoint, SENTENCE, DecodingOptions(beam=1))
    read = [[checkpoint.model.config.bos_id, *run.target_ids[:-1]]]
    expected = attention_maps(checkpoint, [list(run.source_ids)], read)["log_probs"][0]
    for step, token, row in zip(run.steps, run.target_ids, expected, strict=True):
        assert step.probability == pytest.approx(np.exp(row[token]), abs=1e-4)
        assert step.rank == 0
        assert len(step.likeliest) == RUNNERS_UP
        assert step.likeliest[0].probability == pytest.approx(np.exp(row.max()), abs=1e-4)
    total = sum(row[t] for row, t in zip(expected, run.target_ids, strict=True))
    assert run.log_prob == pytest.approx(total, abs=1e-3)


@pytest.mark.parametrize(("positions", "most"), [("learned", 7), ("stored", 10), ("sinusoidal", 9)])
def test_a_target_ends_where_the_models_positions_do(positions: str, most: int) -> None:
    """The options allow more tokens than the table has rows: the search stops in time, for greedy and beam alike."""
    torch.manual_seed(3)
    sizes = dict(d_model=8, n_heads=2, d_ff=11, n_encoder_layers=1, n_decoder_layers=1, pad_id=0, bos_id=1, eos_id=2)
    config = Seq2SeqConfig.of(source_vocab=23, target_vocab=23, positions=positions, max_length=most, **sizes)
    model = Seq2Seq(config).eval()
    with torch.no_grad():
        model.projection.weight[config.eos_id] = 0.0
        model.projection.weight[5] += model.decode(torch.tensor([[1]]), *model.encode(torch.tensor([[5]])))[0, 0]
    checkpoint = Checkpoint("short", watch(model), IdTokenizer(23, SpecialIds()))
    for beam in (1, 3):
        run = translate(checkpoint, "5 6 7", DecodingOptions(beam=beam, max_length=100))
        assert len(run.target_ids) == most
        assert run.tree.best.status == "cut"
        assert run.record["decoder.0.self"].shape == (most, most)
        assert run_any(checkpoint, "5 6 7", DecodingOptions(beam=beam)).translation.target_ids == run.target_ids
    with pytest.raises(InputError, match=f"target has {most + 1} tokens, this checkpoint reads at most {most}"):
        translate(checkpoint, "5 6 7", forced="5 " * most)


def test_a_forced_target_is_walked_through_as_typed(checkpoint: Checkpoint) -> None:
    run = translate(checkpoint, SENTENCE, forced="Zwei Katzen schlafen.")
    assert (run.text, run.tree, run.node) == ("Zwei Katzen schlafen.", None, None)
    assert any(step.rank > 0 for step in run.steps)
    with pytest.raises(InputError, match="no beam"):
        follow(checkpoint, run, 1)


def test_any_hypothesis_shows_its_own_attention(checkpoint: Checkpoint) -> None:
    run = translate(checkpoint, SENTENCE)
    pruned = next(node for node in run.tree.nodes if node.status == "pruned" and node.step == 3)
    other = follow(checkpoint, run, pruned.id)
    assert (other.node, list(other.target_ids)) == (pruned.id, run.tree.path(pruned.id))
    assert other.record["decoder.0.cross"].shape[0] == 3
    assert other.log_prob == pytest.approx(pruned.total, abs=1e-3)
    same = follow(checkpoint, run, run.tree.best.id)
    np.testing.assert_allclose(same.record["decoder.1.cross"].weights(0), run.record["decoder.1.cross"].weights(0))
    with pytest.raises(InputError, match="no token yet"):
        follow(checkpoint, run, 0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "type a sentence"), ("   \n\t ", "type a sentence"), ("\u200b", "type a sentence"),
        ("a" * 10_000, f"10,000 characters, at most {MAX_CHARACTERS:,}"),
        ("x y " * 200, "tokens, this checkpoint reads at most 256"), ("a \ud83d b", "half of a broken character"),
    ],
)  # fmt: skip
def test_what_is_no_sentence_or_too_long_is_refused(checkpoint: Checkpoint, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        translate(checkpoint, text)


@pytest.mark.parametrize(
    "text",
    ["🙂🙃 a dog", "كلب يركض في الثلج", "<script>alert(1)</script>", "a\x00b\x07c \x1b[31m", "dog " * 60, "ﬁﬂ ½ Ⅳ"],
)
def test_odd_text_runs_and_labels_match_positions(checkpoint: Checkpoint, text: str) -> None:
    run = translate(checkpoint, text, DecodingOptions(beam=2, max_length=10))
    attention = run.record["encoder.0.self"]
    assert attention.shape == (len(run.source_ids),) * 2
    assert attention.weights(0).shape == attention.shape


def test_an_unknown_word_is_shown_as_typed_and_named_as_what_is_read_and_counted(checkpoint: Checkpoint) -> None:
    run = translate(checkpoint, "a 🙂 dog 猫猫 runs", DecodingOptions(beam=1, max_length=5))
    unknown = checkpoint.tokenizer.labels([checkpoint.tokenizer.unknown_id])[0]
    texts = run.record["encoder.0.self"].keys.texts
    marked = [text for text, i in zip(texts, run.source_ids, strict=True) if i == checkpoint.tokenizer.unknown_id]
    assert marked == [text for text in texts if unknown in text] == [f"🙂{LACKING}{unknown}", f"猫猫{LACKING}{unknown}"]
    (note,) = run.record.notes
    assert note == f"2 of 5 words are unknown to its vocabulary: the model reads {unknown} in their place"
    assert note in run.record["decoder.0.cross"].picture(0).notes
    assert not translate(checkpoint, "a dog runs", DecodingOptions(beam=1, max_length=5)).record.notes


def test_attention_maps_are_float64_and_take_ids_in_any_usual_container(checkpoint: Checkpoint) -> None:
    source, target = [[5, 6, 7, 3], [8, 9, 3, 0]], [[2, 9, 10], [2, 11, 0]]
    maps = attention_maps(checkpoint, source, target)
    assert maps["decoder.2.cross"].shape == (2, 4, 3, 4)
    assert maps["decoder.2.cross"].dtype == maps["log_probs"].dtype == np.float64
    assert maps["decoder.2.cross"][1, :, :, 3].max() == 0.0
    np.testing.assert_allclose(np.exp(maps["log_probs"]).sum(-1), 1.0, atol=1e-12)
    assert next(checkpoint.model.parameters()).dtype == torch.float32
    for container in (np.array, torch.tensor, list[Any]):
        alone = attention_maps(checkpoint, container(source[0]), container(target[0]))
        for found, expected in ((attention_maps(checkpoint, container(source), container(target)), 2), (alone, 1)):
            assert found.keys() == maps.keys()
            assert all(np.allclose(found[site], maps[site][:expected], atol=1e-12) for site in maps)


SHORT = DecodingOptions(beam=3, max_length=11)


@pytest.fixture(scope="module")
def recurrents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints_with_recurrents(tmp_path_factory.mktemp("recurrent"))


@pytest.fixture(scope="module", params=[ADDITIVE, LOCATION])
def recurrent(recurrents: Path, request: pytest.FixtureRequest) -> Checkpoint:
    return load(recurrents / str(request.param))


def test_the_one_head_of_a_recurrent_model_has_the_weights_of_a_forced_pass(recurrent: Checkpoint) -> None:
    run = translate(recurrent, SENTENCE, SHORT)
    assert run.record.sites == ("decoder.cross",)
    attention = run.record["decoder.cross"]
    assert attention.n_heads == 1
    assert len(attention.queries) == len(run.target_ids) == len(run.steps)
    np.testing.assert_allclose(attention.weights(0).sum(1), 1.0, atol=1e-5)
    read = [[recurrent.model.config.bos_id, *run.target_ids[:-1]]]
    expected = attention_maps(recurrent, [list(run.source_ids)], read)
    n = len(run.source_ids)
    weights, whole = attention.weights(0), expected["decoder.cross"][0, 0]
    np.testing.assert_allclose(weights[:, :n], whole[:, :n], atol=1e-5)
    if recurrent.name == LOCATION:
        assert whole.shape[1] == PLACES
        np.testing.assert_allclose(weights[:, n], whole[:, n:].sum(axis=1), atol=1e-5)
    for step, token, row in zip(run.steps, run.target_ids, expected["log_probs"][0], strict=True):
        assert step.probability == pytest.approx(np.exp(row[token]), abs=1e-4)


def test_mass_past_the_source_has_a_key_that_no_view_hides(recurrents: Path) -> None:
    location, additive = (load(recurrents / name) for name in (LOCATION, ADDITIVE))
    attention = translate(location, SENTENCE, SHORT).record["decoder.cross"]
    assert attention.keys.texts[-1] == PAST_SOURCE
    for words in (False, True):
        picture = attention.picture(0, words=words, special=False)
        assert picture.keys.texts[-1] == PAST_SOURCE
        assert picture.values[:, -1].min() > 0.1
    assert translate(additive, SENTENCE, SHORT).record["decoder.cross"].keys.texts[-1] == "</s>"
    with pytest.raises(InputError, match=f"at most {PLACES}"):
        translate(location, "dog " * PLACES)


@pytest.fixture(scope="module")
def translation(checkpoint: Checkpoint) -> Translation:
    return translate(checkpoint, "Two dogs run.")


def test_a_word_needs_the_word_that_it_translates(checkpoint: Checkpoint, translation: Translation) -> None:
    for how in ("hidden", "removed"):
        found = word_losses(checkpoint, translation, how)
        assert found.source.texts[:2] == ("Two", "dogs")
        assert found.steps.texts[:2] == ("Zwei", "Hunde")
        np.testing.assert_array_equal(found.values[:2].argmax(1), [0, 1])


def test_a_translation_answers_in_a_notebook(checkpoint: Checkpoint, translation: Translation) -> None:
    """Every method on the shipped translator, gradients too although its passes keep none; in words, on one axis."""
    for method in METHODS:
        found = translation.attribution(checkpoint, method, words=True)
        assert found.source.texts[:3] == ("Two", "dogs", "run")
        assert np.isfinite(found.values).all()
        words = slice(-1) if method == "integrated_gradients" else slice(None)  # it moves the end token, too
        assert method == "rollout" or found.of_source[1, words].argmax() == 1  # "Hunde" comes from "dogs"
    np.testing.assert_allclose(translation.attribution(checkpoint, "contributions").values.sum(1), 1.0, atol=1e-5)


def test_windows_of_a_classifier_have_shares_too() -> None:
    checkpoint = load("checkpoints/splice-junctions")
    ids = IdTokenizer(5, SpecialIds())
    checkpoint = replace(checkpoint, tokenizer=ids)
    run = run_any(checkpoint, " ".join("01322103" * 3))
    for method in ("contributions", "norms", "rollout"):
        found = run.attribution(checkpoint, method)
        assert found.steps == run.record["encoder.0.self"].keys
        np.testing.assert_allclose(found.values.sum(1), 1.0, atol=1e-5)


def test_a_run_that_was_changed_is_refused(checkpoint: Checkpoint) -> None:
    """Methods ask the model as it is, which is not the one that wrote such a translation."""
    with intervening([Intervention(Site("decoder.2.cross"), "zero")]):
        changed = translate(checkpoint, "Two dogs run.")
    with pytest.raises(AttributionError) as refused:
        changed.attribution(checkpoint)
    assert refused.value.code == "attribution_of_a_changed_run"


def test_what_a_method_costs_is_told_in_passes(checkpoint: Checkpoint, translation: Translation) -> None:
    source, read = len(translation.source_ids), len(translation.target_ids)
    for method, passes in (
        ("deletion", source + read), ("deletion_removed", source), ("gradients", read),
        ("integrated_gradients", 256 * read),
    ):  # fmt: skip
        known = cost(checkpoint, translation, method)
        assert (known.passes, known.seconds > 0) == (passes, True)
    assert cost(checkpoint, translation, "rollout") is None


def noted(source: str, target: str, whole: bool = False) -> list[tuple[object, ...]]:
    """Code and fields of each note on these texts, in letters as pieces, or in whole words without a mark of spaces."""
    made = [Axis.of_tokens("", text.split()) if whole else Axis.of_text("", text) for text in (source, target)]
    return [(note.code, *note.fields.values()) for note in poor_match(*made)]


def test_what_is_mostly_dropped_or_loops_is_noted() -> None:
    """Nineteen words for fifty; punctuation is no word, and tokens count where spaces say nothing."""
    words = [f"w{i}" for i in range(50)]
    assert noted(" ".join(words), " ".join(words[:20])) == []
    assert noted(" ".join(words) + " .", " ".join(words[:19]) + " . . .") == [("note_dropped", 50, 19)]
    assert poor_match(Axis.of_tokens("", words[:7]), Axis.of_text("", "话很短。")) == ()
    assert noted("a b", "") == [("note_dropped", 2, 0)]
    assert noted("very very good , . . .", "sehr sehr gut", whole=True) == []
    assert noted("Dog, dog, dog!", "x y") == [("note_loop_read", "dog", 3)]
    assert noted("one two", "im Haus und im Haus und im Haus und im") == [("note_loop_written", "im Haus und", 3)]


def test_a_text_far_too_long_and_a_loop_are_told_by_the_translation(checkpoint: Checkpoint) -> None:
    """What a person forces, and a hypothesis that was pruned, are not what the model makes of the text."""
    long = "A woman in a red dress walks with a dog along the beach while two boys play with a ball. " * 7
    found = translate(checkpoint, long)
    assert [note.code for note in found.record.notes if isinstance(note, Message)] == ["note_dropped"]
    looping = translate(checkpoint, "dog dog dog dog dog dog")
    codes = [note.code for note in looping.record.notes if isinstance(note, Message)]
    assert codes == ["note_loop_read", "note_loop_written"]
    assert all(site.notes == looping.record.notes for site in looping.record.values())
    assert translate(checkpoint, SENTENCE, forced="Zwei").record.notes == ()
    assert found.tree is not None
    assert follow(checkpoint, found, 1).record.notes == ()
