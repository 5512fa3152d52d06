"""Records: every way to look at a map shows the same numbers, those of a softmax; a long map, too."""

import copy
import inspect
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from heedmap import intervening, recording, translate, watch
from heedmap.attention.interventions.value import Intervention
from heedmap.attention.record import MEAN, AttentionMap, HeadOrMean
from heedmap.attention.softmax_inputs import AttentionInputs, Weights
from heedmap.attention.tables import MaskTable
from heedmap.attention.zoom import CLOSE, SHOWN, SIDE, Zoom
from heedmap.errors import InputError, RecordError
from heedmap.plots.axes import Axis
from heedmap.plots.picture import block_length
from heedmap.runs.any_model import ModelRun
from heedmap.sites import Site
from tests.attention.maps import SCALE, attention, blocks, by_the_book, numbered, record_of
from tests.record_files.samples import Samples

HEADS = 3

shapes = st.fixed_dictionaries(
    dict(
        n_queries=st.integers(1, 23),
        n_keys=st.integers(1, 19),
        causal=st.booleans(),
        real=st.none() | st.integers(0, 19),
    )
)


@given(shapes, st.integers(1, 25), st.data())
def test_weights_are_the_softmax_and_every_other_way_to_look_shows_the_same(
    shape: dict[str, Any], size: int, data: st.DataObject
) -> None:
    found, every = attention(**shape), []
    fresh = copy.deepcopy(found)
    for head in range(HEADS):
        np.testing.assert_allclose(found.weights(head), by_the_book(found, head), rtol=0, atol=1e-12)
        q, k = found.source.q[1, head].numpy(), found.source.k[1, head].numpy()
        np.testing.assert_allclose(found.scores(head), q @ k.T * SCALE, rtol=0, atol=1e-12)
        every.append(found.weights(head))
    np.testing.assert_array_equal(found.all_weights(), every)
    np.testing.assert_array_equal(found.head_average(), np.mean(every, axis=0))
    ends = st.integers(-25, 25) | st.none()
    queries, keys = slice(data.draw(ends), data.draw(ends)), slice(data.draw(ends), data.draw(ends))
    for _ in range(2):
        np.testing.assert_allclose(fresh.tile(2, queries, keys), every[2][queries, keys], rtol=0, atol=1e-14)
    some: list[HeadOrMean] = [0, MEAN]
    for one in some:
        whole, overview, picture = found.weights(one), found.overview(one, size), found.picture(one).reduced(size)
        assert max(overview.shape) <= size
        np.testing.assert_allclose(overview, blocks(whole, size), rtol=0, atol=1e-12)
        np.testing.assert_allclose(picture.values, overview, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(found.overview_mask(size), blocks(found.mask(), size))
        np.testing.assert_array_equal(picture.visible, found.overview_mask(size))
        assert (len(picture.queries), len(picture.keys)) == overview.shape
        assert picture.queries.texts[-1] == f"q{(len(picture.queries) - 1) * block_length(found.shape[0], size)}"
        assert bool(picture.notes) == (max(found.shape) > size)


def test_nan_in_the_inputs_stays_nan() -> None:
    source = attention(5, 5, dtype=torch.float32).source
    source.q[0, 1, 2, 0] = torch.nan
    for _ in range(2):
        part = source.weights(0, 1, slice(1, 4), slice(0, 3))
        assert part.isnan().all(1).tolist() == [False, True, False]


def test_sharp_weights_are_exact_in_single_precision() -> None:
    source = attention(61, 53, True, dtype=torch.float32).source
    sharp = AttentionInputs(source.q * 9, source.k, source.mask, source.scale)
    exact = AttentionInputs(sharp.q.double(), sharp.k.double(), sharp.mask, sharp.scale)
    rows, keys = slice(0, 61), slice(11, 37)
    for _ in range(2):
        weights = sharp.weights(0, 0, rows, keys).double()
        torch.testing.assert_close(weights, exact.weights(0, 0, rows, keys), rtol=0, atol=1e-4)


@pytest.mark.parametrize("n", [512, 601])
@pytest.mark.parametrize("causal", [False, True])
def test_a_long_overview_joins_without_a_seam(n: int, causal: bool) -> None:
    found = attention(n, n, causal, real=n - 17)
    for size in (64, 256):
        np.testing.assert_allclose(found.overview(1, size), blocks(by_the_book(found, 1), size), rtol=0, atol=1e-12)


def test_block_lengths() -> None:
    assert [block_length(n, 4) for n in (0, 1, 4, 5, 8, 9)] == [1, 1, 1, 2, 2, 3]
    with pytest.raises(RecordError, match="size=0 is too small for an overview: choose at least 1"):
        block_length(5, 0)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n_queries", "n_keys"), [(13, 11), (13, 9), (13, 5), (5, 7)])
def test_padding_beyond_the_axes_is_left_out_from_the_end(causal: bool, n_queries: int, n_keys: int) -> None:
    """Only the last keys are padding here, so a mask that were cut from its other end would show them."""
    padded = attention(13, 11, causal, real=7)
    axes = numbered("q", n_queries), numbered("k", n_keys)
    found, whole = AttentionMap(Site("decoder.0.self"), *axes, padded.source, batch=1), by_the_book(padded, 0)
    whole = whole[:n_queries, :n_keys]
    assert found.shape == found.scores(0).shape == (n_queries, n_keys)
    expected = [[key < 7 and (not causal or key <= query - 2) for key in range(n_keys)] for query in range(n_queries)]
    np.testing.assert_array_equal(found.mask(), expected)
    np.testing.assert_allclose(found.weights(0), whole, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.overview(0, 3), blocks(whole, 3), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.tile(0, slice(None), slice(2, None)), whole[:, 2:], rtol=0, atol=1e-12)


def test_looking_inside_inference_mode_does_not_spoil_later_looks() -> None:
    found = attention()
    with torch.inference_mode():
        found.tile(0, slice(0, 3), slice(0, 5))
    np.testing.assert_allclose(found.tile(0, slice(0, 9), slice(0, 5)), found.weights(0)[:9, :5], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("what", "remedy"),
    [
        (lambda found: found.weights(3), "head=3 is not in decoder.0.cross: choose 0 to 2"),
        (lambda found: found.overview(-1), "head=-1 is not in decoder.0.cross: choose 0 to 2"),
        (lambda one: one.tile(0, slice(0, 9, 2), slice(0, 5)), "leaves out positions: ask for a tile without a step"),
        (lambda found: record_of(found)["b"], "site='b' is not in this record: choose one of decoder.0.cross"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(what, remedy: str) -> None:
    with pytest.raises(RecordError, match=remedy):
        what(attention())


def pieces(name: str, texts: str) -> Axis:
    parts = texts.split()
    return Axis.of_pieces(name, parts, [part.startswith("<") for part in parts])


def in_pieces() -> AttentionMap:
    """Queries `Fahr|rad fährt </s>`, keys `bi|cycle rid|es </s>`."""
    found = attention(4, 5)
    queries, keys = pieces("target", "▁Fahr rad ▁fährt </s>"), pieces("source", "▁bi cycle ▁rid es </s>")
    return AttentionMap(Site("decoder.0.cross"), queries, keys, found.source, batch=1)


def test_a_picture_and_a_figure_of_a_head_hold_its_weights() -> None:
    found = in_pieces()
    picture = found.picture(2)
    np.testing.assert_array_equal(picture.values, found.weights(2))
    assert (picture.title, picture.unit) == ("decoder.0.cross · head 2", "attention weight (probability)")
    assert (picture.queries, picture.keys, picture.notes) == (found.queries, found.keys, ())
    assert picture.visible.all()
    np.testing.assert_array_equal(found.figure(head=2).data[0].z, found.weights(2))
    np.testing.assert_array_equal(found.figure().data[0].z, found.head_average())


def test_words_sum_over_keys_and_average_over_queries() -> None:
    found = in_pieces()
    weights, picture = found.weights(1), found.picture(1, words=True)
    summed = np.stack([weights[:, :2].sum(axis=1), weights[:, 2:4].sum(axis=1), weights[:, 4]], axis=1)
    expected = np.stack([summed[:2].mean(axis=0), summed[2], summed[3]])
    np.testing.assert_allclose(picture.values, expected, rtol=0, atol=1e-15)
    assert picture.values.sum(axis=1) == pytest.approx(np.ones(3))
    assert picture.queries.texts == ("Fahrrad", "fährt", "</s>")
    assert picture.keys.texts == ("bicycle", "rides", "</s>")
    assert "merged to words" in picture.notes[0]


def test_a_word_sees_a_word_if_one_of_its_pieces_does() -> None:
    found = attention(4, 4, causal=True)
    axis = pieces("target", "▁Fahr rad ▁fährt </s>")
    picture = AttentionMap(Site("decoder.0.self"), axis, axis, found.source, batch=1).picture(0, words=True)
    assert picture.visible.tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_hidden_special_tokens_leave_rows_that_the_notes_explain() -> None:
    found = in_pieces()
    picture = found.picture(0, special=False)
    np.testing.assert_array_equal(picture.values, found.weights(0)[:3, :4])
    assert picture.queries.texts == ("▁Fahr", "rad", "▁fährt")
    assert picture.visible.shape == (3, 4)
    assert picture.notes == ("special tokens are hidden: rows no longer sum to 1",)
    assert found.picture(0, words=True, special=False).keys.texts == ("bicycle", "rides")


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("special", [False, True])
def test_all_pictures_at_once_are_those_of_each_head_and_of_the_mean(words: bool, special: bool) -> None:
    found = in_pieces()
    at_once = found.pictures(words, special)
    assert [str(one.head) for one in at_once] == ["head 0", "head 1", "head 2", "mean of 3 heads"]
    for head, picture in zip((0, 1, 2, "mean"), at_once, strict=True):
        alone = found.picture(head, words, special)
        np.testing.assert_array_equal(picture.values, alone.values)
        np.testing.assert_array_equal(picture.visible, alone.visible)
        assert (picture.queries, picture.keys, picture.notes) == (alone.queries, alone.keys, alone.notes)


@given(st.integers(0, 2**32 - 1))
def test_several_heads_in_one_step_are_what_each_is_by_itself(seed: int) -> None:
    """Of every kind of source; small pictures of them are the pictures in blocks."""
    of_each_kind = Samples(seed, torch.float64).record().values()
    for one in (one for one in of_each_kind if getattr(one.source, "known", None) is None):  # there drawn at random
        some = range(one.n_heads)[seed % 2 :: 2]
        expected = [one.weights(head) for head in some]
        np.testing.assert_allclose(one.some_weights(some), np.reshape(expected, (len(some), *one.shape)), atol=1e-12)
        words, special = seed % 3 > 0, seed % 5 > 0 or all(one.queries.special) or all(one.keys.special)
        values, visible = one.thumbnails(words, special, 3)
        pictures = [picture.reduced(3) for picture in one.pictures(words, special)[:-1]]
        np.testing.assert_allclose(values, [picture.values for picture in pictures], atol=1e-12)
        np.testing.assert_array_equal(visible, pictures[0].visible)


def test_scores_and_their_mean_have_their_own_unit_and_stay_in_pieces() -> None:
    found = in_pieces()
    every = [found.scores(head) for head in range(HEADS)]
    for head, expected in ((0, every[0]), ("mean", np.mean(every, axis=0))):
        picture = found.picture(head, words=True, scores=True)  # type: ignore[arg-type]
        np.testing.assert_allclose(picture.values, expected, rtol=0, atol=1e-15)
        assert picture.unit.startswith("score")
        assert picture.keys == found.keys
        assert "not merged" in picture.notes[0]


def test_a_row_that_sees_nothing_is_drawn_as_masked_zeros() -> None:
    picture = attention(real=0).picture(0)
    assert not picture.visible.any()
    assert not picture.values.any()
    assert not np.isnan(attention(real=0).overview(0, 3)).any()


def test_kept_weights_are_what_is_shown() -> None:
    values = torch.rand(2, 1, 7, 5)
    found = AttentionMap(Site("decoder.cross"), numbered("q", 7), numbered("k", 5), Weights(values), batch=1)
    np.testing.assert_array_equal(found.weights(0), values[1, 0])
    np.testing.assert_array_equal(found.tile(0, slice(2, 5), slice(1, 3)), values[1, 0, 2:5, 1:3])
    np.testing.assert_array_equal(found.overview(0, 3), blocks(values[1, 0].numpy(), 3))
    np.testing.assert_array_equal(found.scores(0), values[1, 0].log())
    assert found.mask().all()
    assert found.mask().shape == (7, 5)


@pytest.mark.parametrize("changed", [True, False])
def test_notes_count_rows_without_weight_and_rows_that_sum_to_less_apart(changed: bool) -> None:
    """Of seven rows two have no weight left, three sum to less than 1, one sees nothing: that was so before."""
    values = torch.full((1, 1, 7, 5), 0.2, dtype=torch.float64)
    values[..., [1, 4], :] = 0.0
    values[..., [0, 2, 5], 3] = 0.0
    values[..., 6, :] = 0.0
    visible = torch.ones(1, 1, 7, 5, dtype=torch.bool)
    visible[..., 6, :] = False
    done = (Intervention("encoder.0.self", "knock_out", keys=(3,)),) if changed else ()
    source = Weights(values, MaskTable(visible=visible))
    axes = numbered("q", 7), numbered("k", 5)
    picture = AttentionMap(Site("encoder.0.self"), *axes, source, interventions=done).picture(0)
    assert [str(note) for note in picture.notes if str(note).startswith("rows that")] == changed * [
        "rows that see nothing after the change: 2; their weights, and what the head gives on for them, are 0",
        "rows that sum to less than 1, since cells were cut: 3",
    ]


def test_a_record_is_a_mapping_in_the_order_of_the_run() -> None:
    found = record_of(attention(7, 7, site="encoder.0.self"), in_pieces())
    assert "encoder.0.self" in found
    assert "pooling" not in found
    assert found.sites == tuple(found) == ("encoder.0.self", "decoder.0.cross")
    assert len(found) == 2
    assert found.kept_bytes == sum(attention.source.kept_bytes for attention in found.values())


@pytest.mark.parametrize("names", [["encoder.0.self"], ["../x", "notes", "file", "a", "a.mask", "allow_pickle", "A"]])
def test_an_npz_holds_everything_under_names_of_files_and_reads_back_the_same(names: list[str]) -> None:
    found, are_safe = record_of(*(attention(7, 7, site=name) for name in names), in_pieces()), len(names) == 1
    with np.load(io.BytesIO(found.npz()), allow_pickle=False) as archive:
        files = archive.files
        assert len({name.casefold() for name in files}) == len(files) == 4 * len(found) + (not are_safe)
        assert not any(re.search(r"[/\\]|^\.", name) for name in files)
        assert are_safe or tuple(archive[files.pop(0)]) == found.sites
        for i, (site, one) in enumerate(found.items()):
            entries = files[4 * i :][:4]
            assert not are_safe or entries == [site, f"{site}.mask", f"{site}.queries", f"{site}.keys"]
            weights, mask, *labels = (archive[name] for name in entries)
            np.testing.assert_array_equal(weights, one.all_weights())
            np.testing.assert_array_equal(mask, one.mask())
            assert [tuple(axis) for axis in labels] == [one.queries.labels, one.keys.labels]


def test_a_record_behaves_as_pythons_own_things_do(tmp_path: Path) -> None:
    one, other = attention(5, 7, site="encoder.0.self"), attention(3, 11, site="decoder.0.cross")
    record = replace(record_of(one, other), text="long " * 5_000)
    assert record.get(Site("nope")) is None
    assert record.get(Site("nope"), one) is one
    with pytest.raises(KeyError) as refused:
        record["nope"]
    assert "nope" in str(refused.value).partition(":")[0], "a sentence, not its repr"
    assert np.asarray(one).shape == (3, 5, 7)
    np.testing.assert_array_equal(np.asarray(one, dtype=np.float32), one.all_weights().astype(np.float32))
    with pytest.raises(ValueError, match="computed anew"):
        np.array(one, copy=False)
    with recording(nn.TransformerEncoderLayer(4, 2)) as seen:
        seen.module(torch.zeros(3, 1, 4))
    run = ModelRun("m", "t", record)
    for shown in (record, one, seen, run, record_of(*(attention(1, 1, site=f"a.{i}.b") for i in range(600)))):
        assert len(repr(shown)) < 900
        assert "\n" not in repr(shown)
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / "no"))) as missing:
        record.save(tmp_path / "no" / "run.heedmap")
    assert missing.value.filename == str(tmp_path / "no")


def test_a_module_of_ones_own_is_told_how_it_is_changed_and_recorded() -> None:
    module, zero = nn.TransformerEncoderLayer(4, 2), Intervention("self_attn", "zero")
    with pytest.raises(InputError, match=r"with recording\(module\)"), intervening([zero]):
        module(torch.zeros(3, 1, 4))
    for function, more in ((watch, ()), (translate, ("a",))):
        with pytest.raises(InputError, match=r"TransformerEncoderLayer is no .* `with recording\(module\):`"):
            inspect.unwrap(function)(module, *more)
    with intervening(zero), recording(module) as seen:
        module(torch.zeros(3, 1, 4))
    assert seen.interventions == (zero,)


def test_a_picture_says_that_pieces_were_merged_where_some_were() -> None:
    notes = [one.picture(0, words=True).notes for one in (attention(5, 7), in_pieces())]
    assert [any("merged" in note for note in said) for said in notes] == [False, True]


LONG, SHORTER = 2_003, 1_951
"""Prime, and more than the finest level has blocks of one cell; the map has blocks of 2 x 2 there."""


@pytest.fixture(
    scope="module", params=[(LONG, LONG, True, None), (LONG, SHORTER, False, 1_777), (5, LONG, False, None)]
)
def mapped(request: pytest.FixtureRequest) -> tuple[AttentionMap, np.ndarray]:
    torch.manual_seed(11)
    n_queries, n_keys, causal, real = request.param
    found = attention(n_queries, n_keys, causal, real, "encoder.0.self", 2)
    return found, np.stack([by_the_book(found, head, np.nan) for head in range(2)])


@pytest.mark.parametrize("head", [1, MEAN])
def test_every_view_is_the_largest_of_its_cells(mapped: tuple[AttentionMap, np.ndarray], head: HeadOrMean) -> None:
    attention, expected = mapped
    whole = expected.mean(0) if head == MEAN else expected[head]
    zoom = Zoom.of(attention, head)
    named = "mean of 2 heads" if head == MEAN else "head 1"
    assert str(zoom.picture(zoom.whole()).head) == named
    assert zoom.largest == pytest.approx(np.nanmax(whole), rel=1e-12)
    n_queries, n_keys = whole.shape
    asked = [
        (0, n_queries, 0, n_keys), (311, 1_409, 5, 1_867), (1_200, 1_701, 1_190, 1_703), (1_009, 1_487, 967, 1_439),
        (1_500, 1_537, 1_490, 1_519), (n_queries - 3, n_queries + 90, n_keys - 7, n_keys + 90),
    ]  # fmt: skip
    kinds = set()
    for top, bottom, left, right in asked:
        view = zoom.view(slice(top, bottom), slice(left, right))
        first_row, last_row = min(top, n_queries - 1), min(max(bottom, min(top, n_queries - 1) + 1), n_queries)
        assert view.rows.start <= first_row < last_row <= view.rows.stop
        assert view.keys.start <= left < min(right, n_keys) <= view.keys.stop
        assert max(view.values.shape) <= SHOWN
        cells = whole[view.rows, view.keys]
        rows, keys = np.arange(0, cells.shape[0], view.tall), np.arange(0, cells.shape[1], view.wide)
        largest = np.fmax.reduceat(np.fmax.reduceat(cells, rows, axis=0), keys, axis=1)
        assert (view.visible == ~np.isnan(largest)).all()
        near = 1e-9 if (bottom - top) * (right - left) <= CLOSE**2 else 1.01 * zoom.largest / 65_000 / 2
        assert np.abs(view.values - largest)[view.visible].max(initial=0) <= near
        kinds.add((view.tall > 1, view.wide > 1, view.is_exact))
    assert (True, True, False) in kinds or n_queries < SHOWN
    assert (False, False, True) in kinds


def test_a_weight_that_is_no_number_is_none_in_every_block_that_holds_it() -> None:
    values = torch.rand(1, 1, SIDE + 7, 3, dtype=torch.float64) / 2
    values[0, 0, 1_234, 1] = torch.nan
    attention = AttentionMap(Site("encoder.0.self"), numbered("q", SIDE + 7), numbered("k", 3), Weights(values))
    zoom = Zoom.of(attention, 0)
    view = zoom.whole()
    assert zoom.largest == pytest.approx(float(values.nan_to_num().max()))
    (place,) = np.argwhere(np.isnan(view.values))
    assert place.tolist() == [1_234 // view.tall, 1]


def test_the_work_is_told_and_can_be_stopped() -> None:
    long, told = attention(LONG, 101, heads=2), list[float]()
    Zoom.of(long, 0, told.append)
    assert told == sorted(told)
    assert told[0] == 0
    assert 0.5 < told[-1] < 1

    def stop(done: float) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        Zoom.of(long, 0, stop)
    with pytest.raises(RecordError):
        Zoom.of(long, 2)
