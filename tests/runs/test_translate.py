"""The door: a sentence goes in, a labelled record comes out; bad input is a sentence, not a traceback."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transformer import Checkpoint, DecodingOptions, attention_maps, follow, load, translate, watch
from transformer.errors import CheckpointError, InputError
from transformer.nn.seq2seq import Seq2Seq, Seq2SeqConfig
from transformer.runs.any_model import run_any
from transformer.runs.translate import MAX_CHARACTERS, RUNNERS_UP
from transformer.text.base import LACKING
from transformer.text.vocabulary import IdTokenizer, SpecialIds

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
    assert run.log_prob == pytest.approx(
        float(sum(row[t] for row, t in zip(expected, run.target_ids, strict=True))), abs=1e-3
    )


@pytest.mark.parametrize(("positions", "most"), [("learned", 7), ("stored", 10), ("sinusoidal", 9)])
def test_a_target_ends_where_the_models_positions_do(positions: str, most: int) -> None:
    """The options allow more tokens than the table has rows: the search stops in time, for greedy and beam alike."""
    torch.manual_seed(3)
    sizes = dict(d_model=8, n_heads=2, d_ff=11, n_encoder_layers=1, n_decoder_layers=1, pad_id=0, bos_id=1, eos_id=2)
    config = Seq2SeqConfig(source_vocab=23, target_vocab=23, positions=positions, max_length=most, **sizes)
    model = Seq2Seq(config).eval()
    with torch.no_grad():
        model.projection.weight[config.eos_id] = 0.0
        model.projection.weight[5] += model.decode(torch.tensor([[1]]), *model.encode(torch.tensor([[5]])))[0, 0]
    checkpoint = Checkpoint("short", watch(model), IdTokenizer(23, SpecialIds()))
    for beam in (1, 3):
        run = translate(checkpoint, "5 6 7", DecodingOptions(beam=beam, max_length=100))
        assert len(run.target_ids) == most
        assert run.tree is not None
        assert run.tree.best.status == "cut"
        assert run.record["decoder.0.self"].shape == (most, most)
        assert run_any(checkpoint, "5 6 7", DecodingOptions(beam=beam)).translation.target_ids == run.target_ids
    with pytest.raises(InputError, match=f"target has {most + 1} tokens, this checkpoint reads at most {most}"):
        translate(checkpoint, "5 6 7", forced="5 " * most)


def test_a_forced_target_is_walked_through_as_typed(checkpoint: Checkpoint) -> None:
    run = translate(checkpoint, SENTENCE, forced="Zwei Katzen schlafen.")
    assert run.text == "Zwei Katzen schlafen."
    assert run.tree is None
    assert run.node is None
    assert any(step.rank > 0 for step in run.steps)


def test_any_hypothesis_shows_its_own_attention(checkpoint: Checkpoint) -> None:
    run = translate(checkpoint, SENTENCE)
    assert run.tree is not None
    pruned = next(node for node in run.tree.nodes if node.status == "pruned" and node.step == 3)
    other = follow(checkpoint, run, pruned.id)
    assert other.node == pruned.id
    assert list(other.target_ids) == run.tree.path(pruned.id)
    assert other.record["decoder.0.cross"].shape[0] == 3
    assert other.log_prob == pytest.approx(pruned.total, abs=1e-3)
    same = follow(checkpoint, run, run.tree.best.id)
    np.testing.assert_allclose(same.record["decoder.1.cross"].weights(0), run.record["decoder.1.cross"].weights(0))


def test_following_needs_a_tree_and_a_token(checkpoint: Checkpoint) -> None:
    with pytest.raises(InputError, match="no beam"):
        follow(checkpoint, translate(checkpoint, SENTENCE, forced="Ja."), 1)
    with pytest.raises(InputError, match="no token yet"):
        follow(checkpoint, translate(checkpoint, SENTENCE), 0)


@pytest.mark.parametrize("text", ["", "   \n\t ", "\u200b"])
def test_empty_text_gets_an_instruction(checkpoint: Checkpoint, text: str) -> None:
    with pytest.raises(InputError, match="type a sentence"):
        translate(checkpoint, text)


def test_long_text_states_the_limit(checkpoint: Checkpoint) -> None:
    with pytest.raises(InputError, match=f"10,000 characters, at most {MAX_CHARACTERS:,}"):
        translate(checkpoint, "a" * 10_000)
    with pytest.raises(InputError, match="tokens, this checkpoint reads at most 256"):
        translate(checkpoint, "x y " * 200)
    with pytest.raises(InputError, match="half of a broken character"):
        translate(checkpoint, "a \ud83d b")


@pytest.mark.parametrize(
    "text",
    [
        "🙂🙃 a dog",
        "كلب يركض في الثلج",
        "<script>alert(1)</script>",
        "a\x00b\x07c \x1b[31m",
        "שלום dog",
        "dog " * 60,
        "ﬁﬂ ½ Ⅳ",
    ],
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


def test_sessions_see_their_own_records(checkpoint: Checkpoint) -> None:
    sentences = [f"{count} dogs run." for count in ("Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")]
    options = DecodingOptions(beam=1, max_length=12)
    alone = [translate(checkpoint, sentence, options).record["decoder.3.cross"].all_weights() for sentence in sentences]
    with ThreadPoolExecutor(8) as sessions:
        together = list(sessions.map(lambda i: translate(checkpoint, sentences[i % 8], options), range(80)))
    for i, run in enumerate(together):
        assert run.input == sentences[i % 8]
        np.testing.assert_array_equal(run.record["decoder.3.cross"].all_weights(), alone[i % 8])


def test_attention_maps_are_float64_whatever_the_checkpoint(checkpoint: Checkpoint) -> None:
    maps = attention_maps(checkpoint, [[5, 6, 7, 3], [8, 9, 3, 0]], [[2, 9, 10], [2, 11, 0]])
    assert maps["decoder.2.cross"].shape == (2, 4, 3, 4)
    assert maps["decoder.2.cross"].dtype == maps["log_probs"].dtype == np.float64
    assert maps["decoder.2.cross"][1, :, :, 3].max() == 0.0
    np.testing.assert_allclose(np.exp(maps["log_probs"]).sum(-1), 1.0, atol=1e-12)
    assert next(checkpoint.model.parameters()).dtype == torch.float32


@pytest.mark.parametrize("container", [np.array, torch.tensor, list])
def test_attention_maps_take_ids_in_any_usual_container(checkpoint: Checkpoint, container: Any) -> None:
    source, target = [[5, 6, 7, 3]], [[2, 9]]
    expected = attention_maps(checkpoint, source, target)
    found = attention_maps(checkpoint, container(source), container(target))
    alone = attention_maps(checkpoint, container(source[0]), container(target[0]))
    assert expected.keys() == found.keys() == alone.keys()
    assert all(np.array_equal(expected[site], maps[site]) for maps in (found, alone) for site in expected)


def test_a_model_without_tokenizer_says_so(checkpoint: Checkpoint) -> None:
    bare = Checkpoint(name="bare", model=checkpoint.model)
    with pytest.raises(CheckpointError, match="bare has no tokenizer"):
        translate(bare, SENTENCE)
