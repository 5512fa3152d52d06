"""Two alignments side by side: one axis, one measure, and the head that agrees best is found."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.classifiers import sequence_checkpoint
from tests.recurrents import ADDITIVE, LOCATION, checkpoints_with_recurrents
from transformer import Axis, Record, Translation, load, translate
from transformer.attention.alignment import (
    Head,
    alignment,
    best_agreeing,
    compared,
    further_apart,
    heads_of,
    on_one_axis,
)
from transformer.attention.capture import recording, watch
from transformer.attention.measures import agreement
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError, RecordError
from transformer.lessons.toy import toy_recurrent, toy_transformer
from transformer.messages import Message, say, speaking
from transformer.nn.search import DecodingOptions
from transformer.plots.axes import pooling_queries
from transformer.plots.picture import Picture
from transformer.plots.quantity import Quantity
from transformer.runs.sequences.classify import classify
from transformer.runs.translate import PAST_SOURCE
from transformer.text.vocabulary import IdTokenizer, SpecialIds

SENTENCE = "Two dogs are playing in the snow."
TARGET = "Zwei Hunde spielen im Schnee."


def picture(rows: list[list[float]], keys: tuple[str, ...], queries: tuple[str, ...], special: int = 0) -> Picture:
    """A map whose last `special` queries are marks."""
    values = np.array(rows, dtype=float)
    marks = tuple(i >= len(queries) - special for i in range(len(queries)))
    return Picture(
        "decoder.cross", "head 0", values, np.ones(values.shape, dtype=bool),
        Axis("target", queries, tuple(range(len(queries))), marks), Axis.of_tokens("source", keys),
    )  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Translation]:
    """Three models that read one target."""
    folder = checkpoints_with_recurrents(tmp_path_factory.mktemp("aligned"))
    names = ("multi30k-en-de", ADDITIVE, LOCATION)
    return {name: translate(load(Path(folder) / name), SENTENCE, forced=TARGET) for name in names}


@pytest.fixture
def record(runs: dict[str, Translation]) -> Record:
    return runs["multi30k-en-de"].record


def test_every_head_and_every_layers_mean_can_stand_for_a_model(runs: dict[str, Translation]) -> None:
    heads = heads_of(runs["multi30k-en-de"].record)
    assert heads[:6] == (Head(0, 0), Head(0, 1), Head(0, 2), Head(0, 3), Head(0, "mean"), Head(1, 0))
    assert len(heads) == 4 * 5
    assert heads_of(runs[ADDITIVE].record) == (Head(0, 0),)


def test_an_alignment_is_the_records_map_in_words(record: Record) -> None:
    found = alignment(record, Head(2, 3))
    expected = record["decoder.2.cross"].picture(3, words=True)
    np.testing.assert_array_equal(found.values, expected.values)
    assert found.keys.texts[:3] == ("Two", "dogs", "are")
    assert found.queries.texts[0] == "Zwei"
    np.testing.assert_allclose(found.values.sum(axis=1), 1.0, atol=1e-5)
    with pytest.raises(RecordError, match="layer=4"):
        alignment(record, Head(4, 0))


def test_the_best_agreeing_head_is_the_best_of_all(runs: dict[str, Translation], record: Record) -> None:
    other = alignment(runs[ADDITIVE].record, Head(0, 0))
    best, mean = best_agreeing(record, other)
    means = {
        (layer, head): agreement(
            record[f"decoder.{layer}.cross"].picture(head, words=True).values[:-1], other.values[:-1]
        ).mean()
        for layer in range(4)
        for head in range(4)
    }
    assert mean == pytest.approx(max(means.values()))
    assert means[best.layer, best.head] == pytest.approx(mean)


def test_a_head_agrees_best_with_itself(record: Record) -> None:
    for head in (Head(1, 2), Head(3, 0)):
        best, mean = best_agreeing(record, alignment(record, head))
        assert best == head
        assert mean == pytest.approx(1.0)


def test_mass_past_the_source_has_a_place_in_both_maps(runs: dict[str, Translation]) -> None:
    first, second = (alignment(runs[name].record, Head(0, 0)) for name in (ADDITIVE, LOCATION))
    one, other = on_one_axis(first, second)
    assert one.keys.texts == other.keys.texts
    assert one.keys.texts[-1] == PAST_SOURCE
    assert not one.visible[:, -1].any()
    assert other.visible.all()
    np.testing.assert_array_equal(one.values[:, :-1], first.values)
    np.testing.assert_array_equal(other.values, second.values)
    comparison = compared(first, second)
    np.testing.assert_allclose(comparison.difference.values[:, -1], -second.values[:, -1])
    assert comparison.difference.visible.all()


def test_agreement_counted_by_hand() -> None:
    keys, queries = ("a", "b"), ("x", "y", "z", "</s>")
    first = picture([[1, 0], [1, 0], [0.5, 0.5], [1, 0]], keys, queries, special=1)
    second = picture([[1, 0], [0, 1], [1, 0], [0, 1]], keys, queries, special=1)
    found = compared(first, second)
    divergence = (0.5 * np.log2(0.5 / 0.75) + 0.5 * np.log2(0.5 / 0.25)) / 2 + np.log2(1 / 0.75) / 2
    np.testing.assert_allclose(found.agreement, [1, 0, 1 - np.sqrt(divergence), 0], atol=1e-12)
    assert found.mean == pytest.approx(found.agreement[:3].mean())
    np.testing.assert_array_equal(found.difference.values, first.values - second.values)
    assert list(further_apart(found))[1:3] == [(0, 1), (1, 0)]


@given(st.integers(0, 2**32 - 1))
def test_agreement_does_not_depend_on_the_order_of_the_two(seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.dirichlet(np.ones(5), size=(2, 3))
    keys, queries = tuple("abcde"), tuple("xyz")
    first, second = (picture(rows[i].tolist(), keys, queries) for i in range(2))
    forth, back = compared(first, second), compared(second, first)
    np.testing.assert_allclose(forth.agreement, back.agreement, atol=1e-12)
    assert ((forth.agreement >= 0) & (forth.agreement <= 1)).all()


def test_other_targets_and_other_sources_are_refused() -> None:
    row = [[0.5, 0.5]]
    with pytest.raises(RecordError, match="different targets"):
        compared(picture(row, ("a", "b"), ("x",)), picture(row, ("a", "b"), ("y",)))
    with pytest.raises(RecordError, match="different sources"):
        compared(picture(row, ("a", "b"), ("x",)), picture(row, ("a", "c"), ("x",)))


# ruff: noqa: RUF001 (Chinese has its own comma, colon and brackets)


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
