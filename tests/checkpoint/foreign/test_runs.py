"""Other people's checkpoints run like our own: text is ids until a vocabulary is brought."""

from dataclasses import replace

import pytest

from tests.checkpoint.references import REFERENCE, heads, reference_file
from transformer import load, translate
from transformer.errors import InputError
from transformer.nn.search import DecodingOptions
from transformer.runs.corpus import translate_lines
from transformer.text.vocabulary import IdTokenizer, SpecialIds, VocabularyTokenizer

SHORT = DecodingOptions(max_length=5, beam=2)


def test_ids_are_typed_and_read():
    found = translate(load(REFERENCE / "jadore-separate"), "5 7 9", SHORT)
    assert found.source_ids == (5, 7, 9, 2)
    assert found.record["encoder.0.self"].queries.labels == ("5", "7", "9", "2")
    assert [step.text for step in found.steps] == [str(i) for i in found.target_ids]
    assert found.text == " ".join(str(i) for i in found.target_ids if i > 2)


def test_a_forced_target_has_the_target_s_vocabulary():
    checkpoint = load(reference_file("annotated"), n_heads=3)
    words = [f"w{i}" for i in range(29)]
    named = replace(checkpoint, target_tokenizer=VocabularyTokenizer(words, SpecialIds()))
    found = translate(named, "30 7", forced="w5 w28")
    assert found.target_ids == (5, 28, 2)
    assert found.record["decoder.0.cross"].queries.labels == ("w5", "w28", "w2")
    assert found.record["decoder.0.cross"].keys.labels == ("30", "7", "2")
    with pytest.raises(InputError, match="'29' is no id: type whole numbers from 0 to 28"):
        translate(checkpoint, "30 7", forced="29")


def test_without_an_end_mark_nothing_is_added():
    checkpoint = load(reference_file("annotated"), n_heads=3, eos_id=-1)
    found = translate(checkpoint, "5 7", forced="9 11 13")
    assert (found.source_ids, found.target_ids) == ((5, 7), (9, 11, 13))
    with pytest.raises(InputError, match="the text is empty"):
        translate(checkpoint, " ")


@pytest.mark.parametrize("name", ["rnn-tutorial-1", "rnn-tutorial-2", "torch-postnorm"])
def test_whole_files_of_ids_are_translated(name):
    checkpoint = load(REFERENCE / name, **heads(name))
    model, tokenizer, _ = checkpoint.translator()
    assert isinstance(checkpoint.writer, IdTokenizer)
    lines = translate_lines(model, tokenizer, ["5 7 9", "", "11"], SHORT, writer=checkpoint.writer)
    assert lines[1].text == ""
    assert all(int(word) < len(checkpoint.writer) for line in lines for word in line.text.split())


def test_an_encoder_reads_ids_and_writes_none():
    checkpoint = load(reference_file("encoder-only"), **heads("encoder-only"))
    assert isinstance(checkpoint.tokenizer, IdTokenizer)
    assert (len(checkpoint.tokenizer), checkpoint.target_tokenizer) == (20, None)
    assert checkpoint.tokenizer.source_ids("3 4") == [3, 4]
