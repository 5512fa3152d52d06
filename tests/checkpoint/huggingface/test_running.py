"""Other people's models go through the same doors: text in, labelled attention and translations out."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache

from heedmap import Checkpoint, DecodingOptions, attention_maps, follow, load, run_any, translate  # fmt: skip
from heedmap.errors import AttributionError, CheckpointError, InputError, NotDefinedError
from heedmap.explain.attribution.integrated_gradients import integrated_gradients
from heedmap.nn.search import decode
from heedmap.runs.corpus import translate_lines
from tests.checkpoint.huggingface.families import AUTO, LONGEST, native, write_folder

TEXT = "the dog runs."
SEQ2SEQ = ("marian", "bart", "t5")
READERS = ("bert", "gpt2", "llama")


@pytest.mark.parametrize("family", SEQ2SEQ)
def test_a_translation_has_every_site_with_its_labels(checkpoints: dict[str, Checkpoint], family: str) -> None:
    found = translate(checkpoints[family], TEXT, DecodingOptions(beam=2, max_length=6))
    self_sites = [f"encoder.{i}.self" for i in range(2)]
    assert set(found.record.sites) == {*self_sites, *(f"decoder.{i}.{k}" for i in range(3) for k in ("self", "cross"))}
    source = found.record["encoder.0.self"].keys
    assert source.merged().texts[-4:] == ("dog", "runs", ".", "</s>")
    assert source.special[-1]
    assert source.special[0] == (family == "bart")
    cross = found.record["decoder.2.cross"]
    assert cross.shape == (len(found.target_ids), len(found.source_ids))
    np.testing.assert_allclose(cross.weights(0).sum(1), 1.0, atol=1e-5)
    assert found.log_prob == pytest.approx(found.tree.best.total, abs=1e-3)
    assert {getattr(note, "code", note) for note in found.record.notes} <= {"note_loop_written"}


@pytest.mark.parametrize("family", SEQ2SEQ)
def test_greedy_search_writes_what_the_library_generates(checkpoints: dict[str, Checkpoint], family: str) -> None:
    checkpoint = checkpoints[family]
    ids = checkpoint.tokenizer.source_ids(TEXT)
    source = torch.tensor([ids, [*ids[-2::-1], ids[-1]]])
    never = [[checkpoint.model.config.pad_id]]
    theirs = native(checkpoint.folder, AUTO["seq2seq"], "sdpa").generate(
        source, max_new_tokens=9, num_beams=1, do_sample=False, bad_words_ids=never, forced_eos_token_id=None,
        attention_mask=torch.ones_like(source), cache=EncoderDecoderCache(DynamicCache(), DynamicCache()),
    )  # fmt: skip
    for row, found in enumerate(decode(checkpoint.model, source, DecodingOptions(beam=1, max_length=9))):
        assert list(found.ids) == theirs[row, 1 : 1 + len(found.ids)].tolist()
        assert len(found.ids) > 1


@pytest.mark.parametrize("family", SEQ2SEQ)
def test_cached_decoding_is_uncached_decoding(checkpoints: dict[str, Checkpoint], family: str) -> None:
    checkpoint = checkpoints[family]
    pad = checkpoint.model.config.pad_id
    source = torch.tensor([[70, 71, 72, 73, 74], [80, 81, 82, pad, pad]])
    options = DecodingOptions(beam=3, max_length=7)
    cached, uncached = (decode(checkpoint.model, source, options, cached=way) for way in (True, False))
    alone = decode(checkpoint.model, source[1:, :3], options)[0]
    for one, other in zip([*cached, cached[1]], [*uncached, alone], strict=True):
        assert one.ids == other.ids
        assert one.best.total == pytest.approx(other.best.total, abs=1e-3)


def test_a_forced_first_token_is_written_with_certainty(checkpoints: dict[str, Checkpoint]) -> None:
    found = translate(checkpoints["bart"], TEXT, DecodingOptions(beam=2, max_length=5))
    assert (found.steps[0].text, found.steps[0].probability) == ("<s>", 1.0)
    assert found.steps[1].probability < 1.0
    raw = attention_maps(checkpoints["bart"], found.source_ids, [2, *found.target_ids[:-1]])["log_probs"]
    assert np.exp(raw[0, 0, 0]) < 1.0, "maps for comparison hold what the model itself says"


@pytest.mark.parametrize("family", SEQ2SEQ)
def test_a_target_of_the_reader_s_own_is_walked_through(checkpoints: dict[str, Checkpoint], family: str) -> None:
    found = translate(checkpoints[family], TEXT, forced="der Hund läuft.")
    assert found.text == "der Hund läuft."
    assert found.record["decoder.0.cross"].queries.merged().texts[-1] == "</s>"
    other = translate(checkpoints[family], TEXT, DecodingOptions(beam=2, max_length=4))
    pruned = next(node for node in other.tree.nodes if node.status == "pruned")
    assert list(follow(checkpoints[family], other, pruned.id).target_ids) == other.tree.path(pruned.id)


def test_whole_files_are_translated(checkpoints: dict[str, Checkpoint]) -> None:
    for family in SEQ2SEQ:
        model, tokenizer, _ = checkpoints[family].translator()
        options = DecodingOptions(beam=1, max_length=5)
        lines = ["the dog runs.", "", "the cat and the man eats. " * LONGEST]
        found = translate_lines(model, tokenizer, lines, options, writer=checkpoints[family].writer)
        assert found[0].text == translate(checkpoints[family], lines[0], options).text
        assert (found[1].text, found[0].unread) == ("", 0)
        tokens = len(tokenizer.source_ids(lines[2]))
        assert found[2].unread == max(0, tokens - model.config.max_length)
        assert (found[2].unread > 0) == (family != "t5")


@pytest.mark.parametrize("family", READERS)
def test_a_model_of_one_stack_reads_a_text(checkpoints: dict[str, Checkpoint], family: str) -> None:
    found = run_any(checkpoints[family], TEXT)
    stack = "encoder" if family == "bert" else "decoder"
    assert found.record.sites == (f"{stack}.0.self", f"{stack}.1.self")
    attention = found.record[f"{stack}.1.self"]
    words = {"bert": ("[CLS]", "the", "dog", "runs", ".", "[SEP]"), "gpt2": ("the", "dog", "runs", ".")}
    assert attention.keys.merged().texts == words.get(family, ("the", "dog", "runs", "."))
    assert attention.queries is attention.keys
    assert attention.mask().all() == (family == "bert")
    np.testing.assert_allclose(attention.weights(0).sum(1), 1.0, atol=1e-5)
    values = found.outputs["hidden" if family == "bert" else "log_probs"]
    assert len(values) == len(attention.keys)
    rolled = found.attribution(checkpoints[family], "rollout")
    np.testing.assert_allclose(rolled.values.sum(1), 1.0, atol=1e-5)
    assert (len(rolled.source) == 0) == (family != "bert")
    with pytest.raises(CheckpointError, match="is no encoder-decoder"):
        translate(checkpoints[family], TEXT)


def test_bad_input_gets_a_sentence(checkpoints: dict[str, Checkpoint]) -> None:
    with pytest.raises(InputError, match=f"made for {LONGEST}: choose a shorter text"):
        run_any(checkpoints["gpt2"], "the dog and the cat runs. " * 9)
    with pytest.raises(InputError, match="half of a broken character"):
        run_any(checkpoints["bert"], "a \ud83d b")
    with pytest.raises(InputError, match="hold id 307, the vocabulary has ids 0 to 306"):
        attention_maps(checkpoints["llama"], [[1, 307]])
    with pytest.raises(InputError, match="bert reads no target"):
        attention_maps(checkpoints["bert"], [[1, 2]], [[3]])
    with pytest.raises(InputError, match="marian needs the target ids"):
        attention_maps(checkpoints["marian"], [[1, 2]])


def test_a_folder_without_a_tokenizer_reads_ids(tmp_path: Path) -> None:
    checkpoint = load(write_folder(tmp_path / "bare", "bert", tokenizer=False))
    assert run_any(checkpoint, "5 7 9").record["encoder.0.self"].keys.texts == ("5", "7", "9")
    assert "the folder brings no tokenizer: type ids" in checkpoint.assumptions
    assert checkpoint.examples == ()


@pytest.mark.parametrize("family", SEQ2SEQ)
def test_a_hidden_word_is_hidden_as_the_library_hides_it(checkpoints: dict[str, Checkpoint], family: str) -> None:
    """And what is asked of weights and of slopes answers; what takes layers apart is refused by name."""
    checkpoint = checkpoints[family]
    run = run_any(checkpoint, TEXT, DecodingOptions(beam=1, max_length=6))
    shown = run.translation
    assert shown is not None
    found = run.attribution(checkpoint, "deletion")
    source = torch.tensor([shown.source_ids])
    read = torch.tensor([[checkpoint.model.config.bos_id, *shown.target_ids[:-1]]])
    written = torch.tensor(shown.target_ids)

    def theirs(hidden: list[int], hidden_read: list[int]) -> np.ndarray:
        mask, past = torch.ones_like(source), torch.ones_like(read)
        mask[0, hidden], past[0, hidden_read] = 0, 0
        inputs = dict(input_ids=source, attention_mask=mask, decoder_input_ids=read, decoder_attention_mask=past)
        with torch.no_grad():
            logits = checkpoint.model.net(**inputs, use_cache=False).logits[0].double()
        return logits.log_softmax(-1)[torch.arange(len(written)), written].numpy()

    whole = theirs([], [])
    forced = checkpoint.model.config.forced_first_id >= 0
    rows = slice(1 if forced else 0, None)  # a forced first token is certain whatever is hidden
    np.testing.assert_allclose(found.of_source[rows, 1], (whole - theirs([1], []))[rows], atol=1e-5)
    np.testing.assert_allclose(found.of_prefix[rows, 1], (whole - theirs([], [1]))[rows], atol=1e-5)
    assert not forced or not found.values[0].any()
    rolled = run.attribution(checkpoint, "rollout")
    np.testing.assert_allclose(rolled.values.sum(1), 1.0, atol=1e-5)
    assert run.attribution(checkpoint, "weights").values.shape == (len(written), source.shape[1])
    assert run.attribution(checkpoint, "gradients").values.shape[0] == len(written)
    with pytest.raises(NotDefinedError, match="choose one of"):
        run.attribution(checkpoint, "contributions")


@pytest.mark.parametrize("family", [*SEQ2SEQ, "gpt2", "llama"])
def test_slopes_reach_the_embeddings_that_the_library_takes(checkpoints: dict[str, Checkpoint], family: str) -> None:
    """Integrated gradients, one point half way, against the library's own door for embeddings, in double precision."""
    checkpoint = checkpoints[family]
    model = copy.deepcopy(checkpoint.model).double()
    run = run_any(checkpoint, TEXT, DecodingOptions(beam=1, max_length=5))
    sequence = replace(run.scored_sequence(checkpoint), model=model)
    found = integrated_gradients(sequence, points=1)
    tables = model.token_interface().embeddings
    ids = [torch.tensor([part]) for part in (sequence.source_ids, sequence.read_ids) if part]
    ends = [table(part).detach() for table, part in zip(tables, ids, strict=True)]
    every = [table(torch.arange(table.num_embeddings)).detach().mean(0) for table in tables]
    if family == "marian":  # scales what it looked up; the door takes what is scaled
        ends, every = ([part * model.net.model.encoder.embed_scale for part in parts] for parts in (ends, every))
    half = [((end + begin) / 2).requires_grad_() for end, begin in zip(ends, every, strict=True)]
    names = ("inputs_embeds", "decoder_inputs_embeds")[: len(half)]
    log_probs = model.net(**dict(zip(names, half, strict=True)), use_cache=False).logits[0].log_softmax(-1)
    forced = model.config.forced_first_id >= 0
    for t, token in enumerate(sequence.written_ids):
        slopes = torch.autograd.grad(log_probs[t, token], half, retain_graph=True)
        added = [(slope * (end - begin)).sum(-1)[0] for slope, end, begin in zip(slopes, ends, every, strict=True)]
        expected = torch.cat(added).numpy() * (0.0 if forced and t == 0 else 1.0)
        np.testing.assert_allclose(found.values[t], expected, atol=1e-9)
    assert not found.values[~found.visible].any()


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_decoder_alone_loses_what_is_hidden_from_it(checkpoints: dict[str, Checkpoint], family: str) -> None:
    checkpoint = checkpoints[family]
    run = run_any(checkpoint, TEXT)
    found = run.attribution(checkpoint, "deletion")
    ids = torch.tensor([run.ids])

    def theirs(*hidden: int) -> np.ndarray:
        mask = torch.ones_like(ids)
        mask[0, list(hidden)] = 0
        with torch.no_grad():
            logits = checkpoint.model.net(input_ids=ids, attention_mask=mask, use_cache=False).logits[0].double()
        return logits.log_softmax(-1)[torch.arange(len(run.ids) - 1), ids[0, 1:]].numpy()

    for i in (1, 2):
        np.testing.assert_allclose(found.of_prefix[i:, i], (theirs() - theirs(i))[i:], atol=1e-5)
    assert found.steps.texts == run.record["decoder.0.self"].keys.texts[1:]
    assert len(found.source) == 0
    with pytest.raises(AttributionError, match="has no source"):
        run.attribution(checkpoint, "deletion_removed")


def test_an_encoder_alone_writes_nothing_that_could_be_lost(checkpoints: dict[str, Checkpoint]) -> None:
    run = run_any(checkpoints["bert"], TEXT)
    for method in ("deletion", "integrated_gradients"):
        with pytest.raises(AttributionError, match="none whose loss could be measured"):
            run.attribution(checkpoints["bert"], method)
