"""Masks as they are built, broken on purpose, and found out by the leak test."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from transformer.attention.capture import watch
from transformer.attention.masks_and_biases import MaskTable
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError, InputError
from transformer.lessons.breaking import AXES, BREAKS, Break, broken, broken_mask, damage
from transformer.lessons.leaks import (
    LeakReport,
    allowed_cells,
    allowed_in,
    largest_forbidden,
    leak_test,
    leaking,
)
from transformer.lessons.masks import KINDS, PAD, Batch, Reason, attended, batch_run, mask_view, reasons, table
from transformer.lessons.sentences import Sentence, source_sentence, target_sentence
from transformer.nn.common import log_probs
from transformer.nn.encoder import Encoder, EncoderConfig
from transformer.nn.kmer import KmerClassifier, KmerConfig
from transformer.nn.masks import Mask
from transformer.nn.recurrent import Recurrent, RecurrentConfig
from transformer.nn.seq2seq import Seq2Seq, Seq2SeqConfig
from transformer.sites import Site
from transformer.text.text import train_tokenizer

SOURCES = (Sentence.of((5, 6, 7, 8, 3), tuple("abcd.")), Sentence.of((6, 5, 3), tuple("ba.")))
TARGETS = (Sentence.of((2, 9, 10), ("<s>", "x", "y")), Sentence.of((2, 9, 10, 11), ("<s>", "x", "y", "z")))
BATCH = Batch.of(SOURCES, TARGETS, pad_id=0)
SENTENCES = ["A man rides a bicycle.", "Ein Mann fährt Fahrrad.", "Two dogs run.", "Zwei Hunde rennen."]


def model(**options: Any) -> Seq2Seq:
    sizes = dict(source_vocab=13, target_vocab=13, d_model=14, n_heads=2, d_ff=11, max_length=17)
    marks = dict(pad_id=0, bos_id=2, eos_id=3, n_encoder_layers=2, n_decoder_layers=2)
    return Seq2Seq(Seq2SeqConfig(**{**sizes, **marks, **options})).double().eval()


def checkpoint(made: Any, tokenizer: Any = None) -> Checkpoint:
    return Checkpoint(name="tiny", model=watch(made.eval()), tokenizer=tokenizer)


def translator(**options: Any) -> Checkpoint:
    tokenizer = train_tokenizer(SENTENCES * 5, 60)
    size = len(tokenizer)
    return checkpoint(model(source_vocab=size, target_vocab=size, max_length=50, **options), tokenizer)


@pytest.mark.parametrize(("kind", "row"), list(product(KINDS, (0, 1))))
def test_reasons_agree_with_the_mask_that_the_attention_gets(kind: str, row: int):
    view = mask_view(BATCH, kind, row)
    np.testing.assert_array_equal(view.reasons == Reason.VISIBLE, view.visible)
    assert view.visible.shape == (len(view.queries), len(view.keys))


def test_each_kind_hides_what_its_name_says():
    padding, causal, both, cross = (mask_view(BATCH, kind, 0) for kind in KINDS)
    assert padding.visible.all()
    np.testing.assert_array_equal(causal.visible, np.tri(4, dtype=bool))
    np.testing.assert_array_equal(both.visible, np.tri(4, dtype=bool) & np.array([1, 1, 1, 0], dtype=bool))
    assert cross.visible.shape == (4, 5)
    second = mask_view(BATCH, "cross", 1)
    assert second.visible[:, :3].all()
    assert not second.visible[:, 3:].any()
    assert second.keys[3:] == (f"{PAD} (1)", f"{PAD} (2)")


@pytest.mark.parametrize(("pad_id", "target_pad"), [(0, 12), (12, 1), (0, 0)])
def test_targets_are_padded_and_masked_with_their_own_padding(pad_id: int, target_pad: int):
    """The mask that is shown is the one that the model's attention gets, also where targets have another padding."""
    made = model(pad_id=pad_id, target_pad_id=target_pad)
    batch = Batch.for_model(SOURCES, TARGETS, made)
    assert [int(batch.source[1, -1]), int(batch.target[0, -1])] == [pad_id, target_pad]
    run = batch_run(made, batch)
    kinds = {Site("encoder.0.self"): "padding", Site("decoder.0.self"): "both", Site("decoder.0.cross"): "cross"}
    for (site, kind), row in product(kinds.items(), (0, 1)):
        shown, used = mask_view(batch, kind, row), attended(run, batch, site, 1, row)
        np.testing.assert_array_equal(shown.visible, used.visible)
        np.testing.assert_array_equal(shown.visible, used.weights > 0)


def test_padding_in_the_future_is_hidden_for_both_reasons():
    view = mask_view(BATCH, "both", 0)
    assert [Reason(code) for code in view.reasons[1]] == [Reason.VISIBLE, Reason.VISIBLE, Reason.FUTURE, Reason.BOTH]
    assert Reason(view.reasons[3, 3]) == Reason.PADDING


@pytest.mark.parametrize("site", ["encoder.1.self", "decoder.0.self", "decoder.1.cross"])
def test_scores_and_weights_are_those_of_torch(site: str):
    made = model()
    seen: list[Any] = []
    core = made.attention_sites()[Site(site)]
    handle = core.register_forward_hook(lambda module, inputs, output: seen.append(inputs))
    with torch.no_grad():
        made(BATCH.source, BATCH.target)
    handle.remove()
    q, k, _, mask = seen[0]
    run = batch_run(made, BATCH)
    for head, row in product((0, 1), (0, 1)):
        found = attended(run, BATCH, Site(site), head, row)
        scores = q[row, head] @ k[row, head].T / 7**0.5
        visible = torch.from_numpy(table(mask, len(scores), scores.shape[1], row))
        torch.testing.assert_close(torch.from_numpy(found.before), scores, rtol=0, atol=1e-9)
        masked = scores.masked_fill(~visible, -torch.inf)
        torch.testing.assert_close(torch.from_numpy(found.after), masked, rtol=0, atol=1e-9)
        torch.testing.assert_close(torch.from_numpy(found.weights), masked.softmax(-1), rtol=0, atol=1e-9)


@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_mask_shows_what_it_should_not(how: Break):
    keys = torch.tensor([[True, True, True, False]])
    found = table(broken_mask(Mask(keys, causal=True), how, 4, 4), 4, 4, 0)
    real, triangle = np.array([1, 1, 1, 0], dtype=bool), np.tri(4, dtype=bool)
    expected = {
        "right": triangle & real,
        "no_causal": np.ones((4, 4), dtype=bool) & real,
        "no_padding": triangle,
        "shift": np.tri(4, k=1, dtype=bool) & real,
        "transpose": triangle.T & real,
    }[how]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("how", BREAKS)
def test_the_leak_test_finds_every_break_and_no_other(how: Break):
    report = leak_test(broken(checkpoint(model()), how))
    assert report.leaks == (how != "right")
    leaking = {leak.site.group for leak in report.sites if leak.leaks}
    assert (
        leaking
        == {
            "right": set(),
            "no_causal": {"decoder.self"},
            "no_padding": {"encoder.self", "decoder.cross"},
            "shift": {"decoder.self"},
            "transpose": {"decoder.self"},
        }[how]
    )
    assert report.future is not None
    assert report.padding is not None
    assert (report.future > 1e-9) == (how in {"no_causal", "shift", "transpose"})
    assert (report.padding > 1e-9) == (how == "no_padding")


@pytest.mark.parametrize("lengths", [(5, 3), (4, 4), (2, 2)])
@torch.no_grad()
def test_axes_mixed_up_are_attention_across_sentences_and_found(lengths: tuple[int, int]):
    """As torch's own module without batch_first: the second sentence changes the first one's output only there."""
    right = checkpoint(model())
    batch = Batch.for_model(
        [Sentence.of(range(4 + row, 4 + row + n), [str(i) for i in range(n)]) for row, n in enumerate(lengths)],
        [Sentence.of((2, 7), ("a", "b")), Sentence.of((2, 9), ("a", "c"))], right.model_as(Seq2Seq),
    )  # fmt: skip
    other = batch.source.clone()
    other[1, 0] = 11
    changes = {}
    for how in ("right", AXES):
        made = broken(right, how)
        changes[how] = float((made.model(batch.source, batch.target) - made.model(other, batch.target))[0].abs().max())
        assert leak_test(made, batch).leaks == (how == AXES)
    assert changes["right"] < 1e-12
    assert changes[AXES] > 1e-6
    core = broken(right, AXES).model_as(Seq2Seq).encoder[0].self_attention
    theirs = nn.MultiheadAttention(core.query.in_features, core.n_heads, dtype=torch.float64)
    theirs.in_proj_weight.copy_(torch.cat([core.query.weight, core.key.weight, core.value.weight]))
    theirs.out_proj.weight.copy_(core.output.weight)
    biases = [core.query.bias, core.key.bias, core.value.bias]
    theirs.in_proj_bias.copy_(torch.zeros(len(theirs.in_proj_bias)) if biases[0] is None else torch.cat(biases))
    theirs.out_proj.bias.copy_(0.0 if core.output.bias is None else core.output.bias)
    x = torch.randn(*batch.source.shape, core.query.in_features, dtype=torch.float64)
    torch.testing.assert_close(core(x, core.keys_values(x), Mask()), theirs(x, x, x)[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("target_pad", [0, 1])
@torch.no_grad()
def test_the_leak_test_of_a_batch_is_of_its_own_sentences(how: Break, target_pad: int):
    """Every site, head, sentence and cell by brute force; outputs against a run with changed ends, and one by one."""
    made = broken(checkpoint(model(target_pad_id=target_pad)), how)
    batch = Batch.for_model(SOURCES, TARGETS, made.model_as(Seq2Seq))
    report = leak_test(made, batch)
    run = batch_run(made.model_as(Seq2Seq), batch)
    for leak in report.sites:
        found = {}
        for row, head in product((0, 1), (0, 1)):
            weights = attended(run, batch, leak.site, head, row).weights
            n_queries = len((SOURCES if leak.site.stack == "encoder" else TARGETS)[row].ids)
            n_keys = len((TARGETS if leak.site.group == "decoder.self" else SOURCES)[row].ids)
            for query, key in product(range(n_queries), range(weights.shape[1])):
                if key >= n_keys or (leak.site.group == "decoder.self" and key > query):
                    found[row, head, query, key] = weights[query, key]
        allowed = [allowed_in(batch, leak.site, row) for row in (0, 1)]
        forbidden = {(row, *cell) for row in (0, 1) for cell in np.argwhere(~allowed[row]).tolist()}
        assert {(row, query, key) for row, _, query, key in found} == forbidden
        where = max(found, key=lambda cell: found[cell])
        assert leak.largest == pytest.approx(found[where], abs=1e-12)
        if leak.leaks:
            assert leak.where == where
            row, head = where[:2]
            cells = leaking(attended(run, batch, leak.site, head, row).weights, allowed[row])
            assert cells.sum() == sum(weight > 1e-9 for (b, h, _, _), weight in found.items() if (b, h) == (row, head))
    assert report.future == pytest.approx(_future_by_hand(made, batch), abs=1e-9)
    alone = [log_probs(made.model(batch.source[1:, :3], batch.target[1:]))[0]]
    alone.append(log_probs(made.model(batch.source[:1], batch.target[:1, :3]))[0])
    together = log_probs(made.model(batch.source, batch.target))
    expected = max(float((alone[0] - together[1]).abs().max()), float((alone[1] - together[0, :3]).abs().max()))
    assert report.padding == pytest.approx(expected, abs=1e-9)


def _future_by_hand(made: Checkpoint, batch: Batch) -> float:
    """What another last word of each target changes before it; the test takes the first word that is another one."""
    other = batch.target.clone()
    other[0, 2], other[1, 3] = 1 if batch.target_pad_id == 0 else 4, 1 if batch.target_pad_id == 0 else 4
    before, after = (log_probs(made.model(batch.source, target)) for target in (batch.target, other))
    return float(max((before[0, :2] - after[0, :2]).abs().max(), (before[1, :3] - after[1, :3]).abs().max()))


def test_sentences_of_one_length_have_no_padding_to_test():
    batch = Batch.of(SOURCES[:1], TARGETS[:1], 0)
    report = leak_test(checkpoint(model()), batch)
    assert report.padding is None
    assert report.future is not None


def test_a_checkpoint_is_left_as_it_was():
    made = checkpoint(model())
    broken(made, "no_causal")
    leak_test(made)
    assert not any(module._forward_pre_hooks for module in made.model.modules())
    assert not leak_test(made).leaks


@pytest.mark.parametrize(
    ("made", "leaks"),
    [
        (lambda: Recurrent(RecurrentConfig(13, 13, hidden=7, dropout=0.0)), False),
        (lambda: Recurrent(RecurrentConfig(13, 13, hidden=7, dropout=0.0, attention="location", max_length=9)), True),
        (
            lambda: Encoder(EncoderConfig(vocab=13, d_model=14, n_heads=2, d_ff=5, n_layers=2, pad_id=0, causal=True)),
            False,
        ),
        (lambda: Encoder(EncoderConfig(vocab=13, d_model=14, n_heads=2, d_ff=5, n_layers=2)), False),
        (
            lambda: Encoder(EncoderConfig(vocab=13, d_model=14, n_heads=2, d_ff=5, n_layers=2, pad_id=0)),
            False,
        ),
    ],
)
def test_every_text_architecture_can_be_tested(made: Any, leaks: bool):
    """Location attention puts weight on places past the end: the test says so."""
    assert leak_test(checkpoint(made())).leaks == leaks


@pytest.mark.parametrize("vocab", [3, 4, 5])
def test_a_small_vocabulary_is_tested_too(vocab: int):
    """Where no other word is left, a special token is the other end; a leak is still found."""
    made = model(source_vocab=vocab, target_vocab=vocab, pad_id=0, bos_id=1, eos_id=2)
    assert not leak_test(checkpoint(made)).leaks
    assert leak_test(broken(checkpoint(made), "no_causal")).future > 1e-6


@pytest.mark.parametrize("causal", [True, False])
def test_an_encoder_of_one_word_is_tested_where_nothing_must_change(causal: bool):
    made = Encoder(EncoderConfig(vocab=2, d_model=14, n_heads=2, d_ff=11, n_layers=1, pad_id=0, causal=causal))
    if causal:
        with pytest.raises(CheckpointError, match="tiny has a vocabulary of 2, too small for two different tokens"):
            leak_test(checkpoint(made))
    else:
        assert not leak_test(checkpoint(made)).leaks


def test_a_translator_of_one_word_is_refused():
    made = model(source_vocab=2, target_vocab=2, pad_id=0, bos_id=1, eos_id=1)
    with pytest.raises(CheckpointError, match="vocabulary of 2"):
        leak_test(checkpoint(made))


def test_windows_have_no_mask_to_test():
    with pytest.raises(CheckpointError, match="windows of letters"):
        leak_test(
            checkpoint(KmerClassifier(KmerConfig(vocab=5, n_classes=2, d_model=8, n_heads=2, n_layers=1, d_ff=5)))
        )


def test_the_largest_forbidden_weight_is_found_where_it_is():
    weights = np.full((2, 3, 5, 5), 0.2)
    weights[1, 2, 0, 3] = 0.7
    allowed = allowed_cells(Site("decoder.0.self"), np.ones((2, 5), bool), np.ones((2, 5), bool), causal=False)
    leak = largest_forbidden(Site("decoder.0.self"), weights, allowed)
    assert (leak.largest, leak.where, leak.leaks) == (0.7, (1, 2, 0, 3), True)
    assert largest_forbidden(Site("x"), weights, np.ones((2, 5, 5), bool)).where is None
    weights[0, 0, 0, 1] = np.nan
    assert largest_forbidden(Site("x"), weights, allowed).largest == np.inf


@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("target_pad", [0, 1])
def test_damage_is_the_loss_of_the_tokens_that_the_matrices_show(how: Break, target_pad: int):
    """The loss token by token, of a model whose every mask is written here: its keys are those of the batch's run."""
    made = translator(target_pad_id=target_pad)
    sources = [source_sentence(made, text) for text in (SENTENCES[0], SENTENCES[2])]
    targets = [target_sentence(made, text) for text in (SENTENCES[1], SENTENCES[3])]
    batch = Batch.of(sources, targets, 0, target_pad)
    assert batch.target[:, -1].tolist().count(target_pad) == 1, "one of the targets is padded"
    read, written = (np.stack([np.arange(ids.shape[1]) < len(one.ids) for one in side])
                     for ids, side in ((batch.source, sources), (batch.target, targets)))  # fmt: skip
    if how == "no_padding":
        read, written = np.ones_like(read), np.ones_like(written)
    n = batch.target.shape[1]
    ones = np.ones((n, n), dtype=bool)
    past = {"no_causal": ones, "shift": np.tri(n, k=1, dtype=bool), "transpose": np.tri(n, dtype=bool).T}
    own = written[:, None] & past.get(how, np.tri(n, dtype=bool))
    handles = []
    for site, core in made.model_as(Seq2Seq).attention_sites().items():
        seen = MaskTable(visible=torch.from_numpy(own if site.group == "decoder.self" else read[:, None])[:, None])
        handles.append(core.register_forward_pre_hook(lambda _, args, seen=seen: (*args[:3], seen)))
    with torch.no_grad():
        scores = made.model(batch.source, batch.target).numpy()
    for handle in handles:
        handle.remove()
    losses = [
        np.log(np.exp(scores[row, at]).sum()) - scores[row, at, label]
        for row, target in enumerate(targets)
        for at, label in enumerate([*target.ids[1:], 3])
    ]
    found = damage(made, batch, how)
    assert found.loss == pytest.approx(np.mean(losses), abs=1e-9)
    assert len(found.translations) == 2


def test_a_right_mask_changes_nothing():
    made = checkpoint(model())
    copied = broken(made, "right")
    with torch.no_grad():
        assert torch.equal(copied.model(BATCH.source, BATCH.target), made.model(BATCH.source, BATCH.target))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Batch.of([], [], 0), "0 source sentences"),
        (lambda: Batch.of(SOURCES * 3, TARGETS * 3, 0), "6 source sentences"),
        (lambda: Batch.of(SOURCES, TARGETS[:1], 0), "as many of one"),
        (lambda: mask_view(BATCH, "nothing", 0), "mask='nothing'"),
        (lambda: mask_view(BATCH, "both", 2), "sentence=2"),
        (lambda: damage(checkpoint(model()), BATCH, "right"), "has no tokenizer"),
    ],
)
def test_mistakes_are_explained(call: Any, message: str):
    with pytest.raises((InputError, CheckpointError), match=message):
        call()


def test_reasons_of_a_table_with_more_keys_than_queries():
    found = reasons(2, np.array([True, True, False]), causal=True)
    assert found.tolist() == [[0, 1, 3], [0, 0, 3]]


def test_reports_without_hidden_keys_do_not_leak():
    assert not LeakReport((), None, None).leaks
    assert replace(LeakReport((), None, None), padding=0.1).leaks
    assert replace(LeakReport((), None, None), future=float("nan")).leaks
