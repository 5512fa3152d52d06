"""What a record says of itself in English and in Chinese: axes, titles, notes, units and refusals."""

# ruff: noqa: RUF001 (Chinese has its own comma, colon and brackets)

import copy
import pickle

import numpy as np
import pytest
import torch

from tests.classifiers import sequence_checkpoint
from transformer import Translation, translate
from transformer.attention.alignment import compared
from transformer.attention.capture import recording, watch
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.lessons.toy import toy_recurrent, toy_transformer
from transformer.messages import Message, say, speaking
from transformer.nn.search import DecodingOptions
from transformer.plots.axes import pooling_queries
from transformer.plots.quantity import Quantity
from transformer.runs.sequences.classify import classify
from transformer.text.vocabulary import IdTokenizer, SpecialIds


def chinese(text: str) -> str:
    assert isinstance(text, Message), f"{text!r} is said in English only"
    return text.in_language("zh")


def translation() -> Translation:
    model = watch(toy_transformer(4, 2, seed=1))
    words = IdTokenizer(model.config.target_vocab, SpecialIds(0, 1, 2))
    checkpoint = Checkpoint("toy", model, words, languages=("English", "German"))
    return translate(checkpoint, "3 4 5", DecodingOptions(beam=1, max_length=4))


def test_a_translations_axes_are_named_in_both_languages() -> None:
    record = translation().record
    cross = record["decoder.0.cross"]
    assert (cross.queries.name, cross.keys.name) == ("token being written (German)", "source (English)")
    assert (chinese(cross.queries.name), chinese(cross.keys.name)) == ("正在写的词元（German）", "源句（English）")
    assert chinese(record["decoder.0.self"].keys.name) == "已读的词元（German）"
    assert chinese(cross.keys.merged().kept([0]).name) == "源句（English）"


def test_a_picture_says_what_it_shows_in_both_languages() -> None:
    cross = translation().record["decoder.0.cross"]
    mean, head = cross.picture("mean", words=True, special=False), cross.picture(1, words=True, scores=True)
    assert (mean.title, head.title) == ("decoder.0.cross · mean of 2 heads", "decoder.0.cross · head 1")
    assert (chinese(mean.title), chinese(head.title)) == ("decoder.0.cross · 2 个头的平均", "decoder.0.cross · 头 1")
    assert [chinese(note) for note in mean.notes] == [
        "词片已合并成词：对键求和，对查询取平均",
        "特殊词元已隐藏：各行之和不再是 1",
    ]
    assert [chinese(note) for note in head.notes] == ["分数属于词片：不合并成词"]
    assert (chinese(mean.unit), chinese(head.unit)) == ("注意力权重（概率）", "分数（缩放点积，掩码之前）")
    assert mean.unit == Quantity.WEIGHT.unit == "attention weight (probability)"
    assert chinese(mean.reduced(1).notes[-1]).startswith("每 ")
    assert chinese(compared(mean, mean).difference.unit) == "差（第一个权重减第二个）"
    with speaking("zh"):
        assert say(mean.title) == "decoder.0.cross · 2 个头的平均"


def test_copies_and_pickles_of_a_picture_still_know_their_words() -> None:
    picture = translation().record["encoder.0.self"].picture(0)
    for other in (copy.deepcopy(picture), pickle.loads(pickle.dumps(picture))):
        assert chinese(other.title) == "encoder.0.self · 头 0"
        assert chinese(other.queries.name) == "源句（English）"
        np.testing.assert_array_equal(other.values, picture.values)


def test_a_recurrent_models_unit_and_a_recordings_axes_are_named() -> None:
    model = watch(toy_recurrent(3, "location", 1))
    with recording() as seen:
        model(torch.tensor([[3, 4, 2]]), torch.tensor([[1, 3]]))
    found = seen["decoder.cross"]
    assert chinese(found.picture(0, scores=True).unit).startswith("分数（权重的对数")
    assert (chinese(found.queries.name), chinese(found.keys.name)) == ("查询位置", "键位置")


def test_a_classifiers_axes_and_the_letters_notes_are_named() -> None:
    run = classify(sequence_checkpoint(), "ACGUNNACGTAC")
    assert [chinese(note) for note in run.letters.notes] == [
        "U（1 个）读作 T",
        "N（2 个；可以是 A、C、G、T 中任何一个）读作未知字母",
    ]
    assert run.letters.notes[1] == "N (2; any of A, C, G, T) is read as an unknown letter"
    assert chinese(run.record["pooling"].queries.name) == "汇聚"
    assert [chinese(text) for text in pooling_queries(2).texts] == ["问题 1", "问题 2"]
    assert chinese(run.record["encoder.0.self"].keys.name) == "窗口"


def test_an_error_with_a_noun_is_said_in_both_languages() -> None:
    checkpoint = sequence_checkpoint()
    with pytest.raises(InputError) as refused:
        classify(checkpoint, "ACG!")
    assert str(refused.value) == "letter 4 is '!', which is no DNA code: use ACGT or the codes NRYSWKMBDHV"
    assert chinese(refused.value.message) == "第 4 个字母是 '!'，不是 DNA 代码：请用 ACGT 或代码 NRYSWKMBDHV"
    model = watch(toy_transformer(4, 2, seed=1))
    words = IdTokenizer(model.config.target_vocab, SpecialIds(0, 1, 2))
    with pytest.raises(InputError) as refused:
        translate(Checkpoint("toy", model, words), "3", forced=" ")
    assert chinese(refused.value.message).startswith("强制的译文是空的")
