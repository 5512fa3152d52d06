"""Masks as they are built, broken on purpose, and found out by the leak test."""

from contextlib import ExitStack
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from heedmap.attention.capture import watch
from heedmap.attention.tables import MaskTable
from heedmap.checkpoint.checkpoint import Checkpoint
from heedmap.errors import CheckpointError, InputError
from heedmap.lessons import leakage, masks
from heedmap.lessons.sentences import Sentence, source_sentence, target_sentence
from heedmap.nn.common import log_probs
from heedmap.nn.masks import Mask
from heedmap.nn.recurrent import Recurrent, RecurrentConfig
from heedmap.nn.seq2seq import Seq2Seq, Seq2SeqConfig
from heedmap.nn.stacks import Encoder, EncoderConfig
from heedmap.sites import Site
from heedmap.text.tokenizers import train_tokenizer

SOURCES = (Sentence.of((5, 6, 7, 8, 3), tuple("abcd.")), Sentence.of((6, 5, 3), tuple("ba.")))
TARGETS = (Sentence.of((2, 9, 10), ("<s>", "x", "y")), Sentence.of((2, 9, 10, 11), ("<s>", "x", "y", "z")))
BATCH = masks.Batch.of(SOURCES, TARGETS, pad_id=0)
TWO_WORDS = dict(source_vocab=2, target_vocab=2, pad_id=0, bos_id=1, eos_id=1)
SENTENCES = ["A man rides a bicycle.", "Ein Mann fährt Fahrrad.", "Two dogs run.", "Zwei Hunde rennen."]


def model(**options: Any) -> Seq2Seq:
    sizes = dict(source_vocab=13, target_vocab=13, d_model=14, n_heads=2, d_ff=11, max_length=17)
    marks = dict(pad_id=0, bos_id=2, eos_id=3, n_encoder_layers=2, n_decoder_layers=2)
    return Seq2Seq(Seq2SeqConfig.of(**{**sizes, **marks, **options})).double().eval()


def checkpoint(made: Any, tokenizer: Any = None) -> Checkpoint:
    return Checkpoint(name="tiny", model=watch(made.eval()), tokenizer=tokenizer)


def translator(**options: Any) -> Checkpoint:
    tokenizer = train_tokenizer(SENTENCES * 5, 60)
    size = len(tokenizer)
    return checkpoint(model(source_vocab=size, target_vocab=size, max_length=50, **options), tokenizer)


def test_each_kind_hides_what_its_name_says_and_gives_the_reason():
    for kind, row in product(masks.KINDS, (0, 1)):
        view = masks.mask_view(BATCH, kind, row)
        np.testing.assert_array_equal(view.reasons == masks.Reason.VISIBLE, view.visible)
        assert view.visible.shape == (len(view.queries), len(view.keys))
    padding, causal, both, cross = (masks.mask_view(BATCH, kind, 0) for kind in masks.KINDS)
    assert padding.visible.all()
    np.testing.assert_array_equal(causal.visible, np.tri(4, dtype=bool))
    np.testing.assert_array_equal(both.visible, np.tri(4, dtype=bool) & np.array([1, 1, 1, 0], dtype=bool))
    assert [masks.Reason(code).name for code in both.reasons[1]] == ["VISIBLE", "VISIBLE", "FUTURE", "BOTH"]
    assert masks.Reason(both.reasons[3, 3]) == masks.Reason.PADDING
    assert cross.visible.shape == (4, 5)
    second = masks.mask_view(BATCH, "cross", 1)
    np.testing.assert_array_equal(second.visible, np.arange(5)[None].repeat(4, axis=0) < 3)
    assert second.keys[3:] == (f"{masks.PAD} (1)", f"{masks.PAD} (2)")
    assert masks.reasons(2, np.array([True, True, False]), causal=True).tolist() == [[0, 1, 3], [0, 0, 3]]


@pytest.mark.parametrize(("pad_id", "target_pad"), [(0, 12), (12, 1), (0, 0)])
def test_targets_are_padded_and_masked_with_their_own_padding(pad_id: int, target_pad: int):
    """The mask that is shown is the one that the model's attention gets, also where targets have another padding."""
    made = model(pad_id=pad_id, target_pad_id=target_pad)
    batch = masks.Batch.for_model(SOURCES, TARGETS, made)
    assert [int(batch.source[1, -1]), int(batch.target[0, -1])] == [pad_id, target_pad]
    run = masks.batch_run(made, batch)
    kinds = {Site("encoder.0.self"): "padding", Site("decoder.0.self"): "both", Site("decoder.0.cross"): "cross"}
    for (site, kind), row in product(kinds.items(), (0, 1)):
        shown, used = masks.mask_view(batch, kind, row), masks.attended(run, batch, site, 1, row)
        np.testing.assert_array_equal(shown.visible, used.visible)
        np.testing.assert_array_equal(shown.visible, used.weights > 0)


@pytest.mark.parametrize("site", ["encoder.1.self", "decoder.0.self", "decoder.1.cross"])
def test_scores_and_weights_are_those_of_torch(site: str):
    made = model()
    seen: list[Any] = []
    core = made.attention_sites()[Site(site)]
    with core.register_forward_hook(lambda module, inputs, output: seen.append(inputs)), torch.no_grad():
        made(BATCH.source, BATCH.target)
    q, k, _, mask = seen[0]
    run = masks.batch_run(made, BATCH)
    for head, row in product((0, 1), (0, 1)):
        found = masks.attended(run, BATCH, Site(site), head, row)
        scores = q[row, head] @ k[row, head].T / 7**0.5
        visible = torch.from_numpy(masks.table(mask, len(scores), scores.shape[1], row))
        torch.testing.assert_close(torch.from_numpy(found.before), scores, rtol=0, atol=1e-9)
        masked = scores.masked_fill(~visible, -torch.inf)
        torch.testing.assert_close(torch.from_numpy(found.after), masked, rtol=0, atol=1e-9)
        torch.testing.assert_close(torch.from_numpy(found.weights), masked.softmax(-1), rtol=0, atol=1e-9)


@pytest.mark.parametrize("how", masks.BREAKS)
def test_a_broken_mask_shows_what_it_should_not_and_the_leak_test_finds_it_and_nothing_else(how: masks.Break):
    keys = torch.tensor([[True, True, True, False]])
    found = masks.table(masks.broken_mask(Mask(keys, causal=True), how, 4, 4), 4, 4, 0)
    real, triangle = np.array([1, 1, 1, 0], dtype=bool), np.tri(4, dtype=bool)
    expected, sites, changed = {
        "right": (triangle & real, set(), set()),
        "no_causal": (np.ones((4, 4), dtype=bool) & real, {"decoder.self"}, {"future"}),
        "no_padding": (triangle, {"encoder.self", "decoder.cross"}, {"padding"}),
        "shift": (np.tri(4, k=1, dtype=bool) & real, {"decoder.self"}, {"future"}),
        "transpose": (triangle.T & real, {"decoder.self"}, {"future"}),
    }[how]
    np.testing.assert_array_equal(found, expected)
    report = leakage.leak_test(masks.broken(checkpoint(model()), how))
    assert report.leaks == (how != "right")
    assert {leak.site.group for leak in report.sites if leak.leaks} == sites
    assert {name for name in ("future", "padding") if getattr(report, name) > 1e-9} == changed


@pytest.mark.parametrize("lengths", [(5, 3), (4, 4), (2, 2)])
@torch.no_grad()
def test_axes_mixed_up_are_attention_across_sentences_and_found(lengths: tuple[int, int]):
    """As torch's own module without batch_first: the second sentence changes the first one's output only there."""
    right = checkpoint(model())
    batch = masks.Batch.for_model(
        [Sentence.of(range(4 + row, 4 + row + n), [str(i) for i in range(n)]) for row, n in enumerate(lengths)],
        [Sentence.of((2, 7), ("a", "b")), Sentence.of((2, 9), ("a", "c"))], right.model_as(Seq2Seq),
    )  # fmt: skip
    other = batch.source.clone()
    other[1, 0] = 11
    changes = {}
    for how in ("right", masks.AXES):
        made = masks.broken(right, how)
        changes[how] = float((made.model(batch.source, batch.target) - made.model(other, batch.target))[0].abs().max())
        assert leakage.leak_test(made, batch).leaks == (how == masks.AXES)
    assert changes["right"] < 1e-12
    assert changes[masks.AXES] > 1e-6
    core = masks.broken(right, masks.AXES).model_as(Seq2Seq).encoder[0].self_attention
    theirs = nn.MultiheadAttention(core.query.in_features, core.n_heads, dtype=torch.float64)
    theirs.in_proj_weight.copy_(torch.cat([core.query.weight, core.key.weight, core.value.weight]))
    theirs.out_proj.weight.copy_(core.output.weight)
    biases = [core.query.bias, core.key.bias, core.value.bias]
    theirs.in_proj_bias.copy_(torch.zeros(len(theirs.in_proj_bias)) if biases[0] is None else torch.cat(biases))
    theirs.out_proj.bias.copy_(0.0 if core.output.bias is None else core.output.bias)
    x = torch.randn(*batch.source.shape, core.query.in_features, dtype=torch.float64)
    torch.testing.assert_close(core(x, core.keys_values(x), Mask()), theirs(x, x, x)[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("how", masks.BREAKS)
@pytest.mark.parametrize("target_pad", [0, 1])
@torch.no_grad()
def test_the_leak_test_of_a_batch_is_of_its_own_sentences(how: masks.Break, target_pad: int):
    """Every site, head, sentence and cell by brute force; outputs against a run with changed ends, and one by one."""
    made = masks.broken(checkpoint(model(target_pad_id=target_pad)), how)
    batch = masks.Batch.for_model(SOURCES, TARGETS, made.model_as(Seq2Seq))
    report = leakage.leak_test(made, batch)
    run = masks.batch_run(made.model_as(Seq2Seq), batch)
    for leak in report.sites:
        found = {}
        for row, head in product((0, 1), (0, 1)):
            weights = masks.attended(run, batch, leak.site, head, row).weights
            n_queries = len((SOURCES if leak.site.stack == "encoder" else TARGETS)[row].ids)
            n_keys = len((TARGETS if leak.site.group == "decoder.self" else SOURCES)[row].ids)
            for query, key in product(range(n_queries), range(weights.shape[1])):
                if key >= n_keys or (leak.site.group == "decoder.self" and key > query):
                    found[row, head, query, key] = weights[query, key]
        allowed = [leakage.allowed_in(batch, leak.site, row) for row in (0, 1)]
        forbidden = {(row, *cell) for row in (0, 1) for cell in np.argwhere(~allowed[row]).tolist()}
        assert {(row, query, key) for row, _, query, key in found} == forbidden
        where = max(found, key=lambda cell: found[cell])
        assert leak.largest == pytest.approx(found[where], abs=1e-12)
        if leak.leaks:
            assert leak.where == where
            row, head = where[:2]
            cells = leakage.leaking(masks.attended(run, batch, leak.site, head, row).weights, allowed[row])
            assert cells.sum() == sum(weight > 1e-9 for (b, h, _, _), weight in found.items() if (b, h) == (row, head))
    other, last = batch.target.clone(), 1 if target_pad == 0 else 4  # the first word that is another one
    other[0, 2], other[1, 3] = last, last
    before, after = (log_probs(made.model(batch.source, target)) for target in (batch.target, other))
    future = max((before[0, :2] - after[0, :2]).abs().max(), (before[1, :3] - after[1, :3]).abs().max())
    assert report.future == pytest.approx(float(future), abs=1e-9)
    alone = [log_probs(made.model(batch.source[1:, :3], batch.target[1:]))[0]]
    alone.append(log_probs(made.model(batch.source[:1], batch.target[:1, :3]))[0])
    together = log_probs(made.model(batch.source, batch.target))
    expected = max(float((alone[0] - together[1]).abs().max()), float((alone[1] - together[0, :3]).abs().max()))
    assert report.padding == pytest.approx(expected, abs=1e-9)


def test_sentences_of_one_length_have_no_padding_to_test_and_a_checkpoint_is_left_as_it_was():
    made = checkpoint(model())
    report = leakage.leak_test(made, masks.Batch.of(SOURCES[:1], TARGETS[:1], 0))
    assert report.padding is None
    assert report.future is not None
    masks.broken(made, "no_causal")
    assert not any(module._forward_pre_hooks for module in made.model.modules())
    assert not leakage.leak_test(made).leaks
    with torch.no_grad():
        right = masks.broken(made, "right").model(BATCH.source, BATCH.target)
        assert torch.equal(right, made.model(BATCH.source, BATCH.target))


def encoder(vocab: int = 13, pad_id: int = -1, causal: bool = False) -> Encoder:
    return Encoder(
        EncoderConfig.of(vocab=vocab, d_model=14, n_heads=2, d_ff=5, n_layers=2, pad_id=pad_id, causal=causal)
    )


def recurrent(**options: Any) -> Recurrent:
    return Recurrent(RecurrentConfig.of(source_vocab=13, target_vocab=13, hidden=7, dropout=0.0, **options))


TIGHT = (recurrent, *(partial(encoder, **options) for options in (
    dict(pad_id=0, causal=True), {}, dict(pad_id=0), dict(vocab=2, pad_id=0)  # one word: nothing that must not change
)))  # fmt: skip


def test_every_text_architecture_can_be_tested():
    """Location attention puts weight on places past the end: the test says so."""
    assert not any(leakage.leak_test(checkpoint(made())).leaks for made in TIGHT)
    assert leakage.leak_test(checkpoint(recurrent(attention="location", max_length=9))).leaks


@pytest.mark.parametrize("vocab", [3, 4, 5])
def test_a_small_vocabulary_is_tested_too(vocab: int):
    """Where no other word is left, a special token is the other end; a leak is still found."""
    made = model(source_vocab=vocab, target_vocab=vocab, pad_id=0, bos_id=1, eos_id=2)
    assert not leakage.leak_test(checkpoint(made)).leaks
    assert leakage.leak_test(masks.broken(checkpoint(made), "no_causal")).future > 1e-6


def test_a_weight_that_is_no_number_leaks_and_where_nothing_is_forbidden_nothing_does():
    """Largest weights and their places are held against brute force above."""
    site, weights = Site("decoder.0.self"), np.full((2, 3, 5, 5), 0.2)
    weights[0, 0, 0, 1] = np.nan
    leak = leakage.largest_forbidden(site, weights, np.broadcast_to(np.tri(5, dtype=bool), (2, 5, 5)))
    assert (leak.largest, leak.where, leak.leaks) == (np.inf, (0, 0, 0, 1), True)
    assert leakage.largest_forbidden(site, weights, np.ones((2, 5, 5), bool)).where is None
    assert not leakage.LeakReport((), None, None).leaks
    assert leakage.LeakReport((), 0.1, None).leaks
    assert leakage.LeakReport((), None, float("nan")).leaks


@pytest.mark.parametrize("how", masks.BREAKS)
@pytest.mark.parametrize("target_pad", [0, 1])
def test_damage_is_the_loss_of_the_tokens_that_the_matrices_show(how: masks.Break, target_pad: int):
    """The loss token by token, of a model whose every mask is written here: its keys are those of the batch's run."""
    made = translator(target_pad_id=target_pad)
    sources = [source_sentence(made, text) for text in (SENTENCES[0], SENTENCES[2])]
    targets = [target_sentence(made, text) for text in (SENTENCES[1], SENTENCES[3])]
    batch = masks.Batch.of(sources, targets, 0, target_pad)
    assert batch.target[:, -1].tolist().count(target_pad) == 1, "one of the targets is padded"
    read, written = (np.stack([np.arange(ids.shape[1]) < len(one.ids) for one in side])
                     for ids, side in ((batch.source, sources), (batch.target, targets)))  # fmt: skip
    if how == "no_padding":
        read, written = np.ones_like(read), np.ones_like(written)
    n = batch.target.shape[1]
    ones = np.ones((n, n), dtype=bool)
    past = {"no_causal": ones, "shift": np.tri(n, k=1, dtype=bool), "transpose": np.tri(n, dtype=bool).T}
    own = written[:, None] & past.get(how, np.tri(n, dtype=bool))
    with ExitStack() as hooks, torch.no_grad():
        for site, core in made.model_as(Seq2Seq).attention_sites().items():
            seen = MaskTable(visible=torch.from_numpy(own if site.group == "decoder.self" else read[:, None])[:, None])
            hooks.enter_context(core.register_forward_pre_hook(lambda _, args, seen=seen: (*args[:3], seen)))
        scores = made.model(batch.source, batch.target).numpy()
    losses = [
        np.log(np.exp(scores[row, at]).sum()) - scores[row, at, label]
        for row, target in enumerate(targets)
        for at, label in enumerate([*target.ids[1:], 3])
    ]
    found = masks.damage(made, batch, how)
    assert found.loss == pytest.approx(np.mean(losses), abs=1e-9)
    assert len(found.translations) == 2


MISTAKES = {
    "has a vocabulary of 2, too small": lambda: leakage.leak_test(checkpoint(encoder(vocab=2, pad_id=0, causal=True))),
    "vocabulary of 2": lambda: leakage.leak_test(checkpoint(model(**TWO_WORDS))),
    "6 source sentences": lambda: masks.Batch.of(SOURCES * 3, TARGETS * 3, 0),
    "as many of one": lambda: masks.Batch.of(SOURCES, TARGETS[:1], 0),
    "has no tokenizer": lambda: masks.damage(checkpoint(model()), BATCH, "right"),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_explained(message: str):
    with pytest.raises((InputError, CheckpointError), match=message):
        MISTAKES[message]()
