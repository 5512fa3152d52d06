"""What flows through a run, against the blocks computed by hand, and against models that end early."""

import copy
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.checkpoint.huggingface.families import write_folder
from transformer import load
from transformer.attention.capture import watch
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError, RecordError
from transformer.explain.flow.capture import tracing, watch_flow
from transformer.explain.flow.lens import Lens, lens
from transformer.explain.flow.quantities import activity, between, scale, share
from transformer.nn.decoder import Decoder, DecoderConfig
from transformer.nn.encoder import Encoder, EncoderConfig
from transformer.nn.kmer import KmerClassifier, KmerConfig
from transformer.nn.recurrent import Recurrent, RecurrentConfig
from transformer.nn.seq2seq import Seq2Seq, preset
from transformer.runs.flow import flow

SIZES: dict[str, Any] = dict(
    source_vocab=29, target_vocab=31, d_model=15, n_heads=3, d_ff=13, n_encoder_layers=2, n_decoder_layers=3
)
SOURCE, TARGET = torch.tensor([[3, 5, 4, 6, 2]]), torch.tensor([[1, 6, 4]])


def seq2seq(name: str, **options: Any) -> Seq2Seq:
    torch.manual_seed(3)
    sizes = SIZES | (dict(target_vocab=29) if name == "jadore" else {})
    model = Seq2Seq(preset(name, **sizes, **options)).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def normed(x: np.ndarray, gain: np.ndarray, shift: np.ndarray, eps: float, annotated: bool) -> np.ndarray:
    """Layer norm as published: the unbiased deviation + eps, or the root of (biased variance + eps)."""
    centred = x - x.mean(-1, keepdims=True)
    deviation = x.std(-1, ddof=1, keepdims=True) + eps if annotated else np.sqrt(x.var(-1, keepdims=True) + eps)
    return gain * centred / deviation + shift


@pytest.mark.parametrize("name", ["annotated", "jadore"])
def test_shares_scales_and_activity_are_those_of_the_formulas(name: str) -> None:
    model = watch_flow(seq2seq(name))
    with torch.no_grad(), tracing() as seen:
        model(SOURCE, TARGET)
        block = model.encoder[0]
        x = model.source_norm(model.source_positions(model.embed(model.source_embedding, SOURCE)))
    entry, annotated = x[0].numpy(), name == "annotated"
    assert np.allclose(seen.at("encoder.0.before", torch.Tensor)[0], entry, atol=1e-12)
    norm = block.self_residual.norm
    gain, shift = norm.weight.detach().numpy(), norm.bias.detach().numpy()
    read = normed(entry, gain, shift, 1e-6, True) if annotated else entry
    attention = block.self_attention
    with torch.no_grad():
        q, k, v = (
            linear(torch.from_numpy(read)).numpy().reshape(5, 3, 5).transpose(1, 0, 2)
            for linear in (attention.query, attention.key, attention.value)
        )
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(5)
        weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        found = attention.output(torch.from_numpy((weights @ v).transpose(1, 0, 2).reshape(5, 15))).numpy()
    measured = share(seen, "encoder.0.self_residual")
    assert np.allclose(measured.state, np.linalg.norm(entry, axis=-1), atol=1e-9)
    assert np.allclose(measured.found, np.linalg.norm(found, axis=-1), atol=1e-9)
    lengths = np.linalg.norm(found, axis=-1), np.linalg.norm(entry, axis=-1)
    assert np.allclose(measured.share, lengths[0] / (lengths[0] + lengths[1]), atol=1e-9)
    total = entry + found
    centred = (entry if annotated else total) - (entry if annotated else total).mean(-1, keepdims=True)
    one = normed((entry if annotated else total), np.ones(15), np.zeros(15), 1e-6, annotated)
    assert np.allclose(scale(seen, "encoder.0.self_residual.norm")[:, None] * centred, one, atol=1e-9)
    state = total if annotated else normed(total, gain, shift, 1e-6, False)
    net, second = block.feed_forward, block.feed_forward_residual.norm
    if annotated:
        state = normed(state, second.weight.detach().numpy(), second.bias.detach().numpy(), 1e-6, True)
    hidden = np.maximum(state @ net.widen.weight.detach().numpy().T + net.widen.bias.detach().numpy(), 0)
    counted = activity(seen, "encoder.0.feed_forward", strongest=4)
    assert np.allclose(counted.active, (hidden > 0).mean(-1))
    assert np.allclose(counted.values, -np.sort(-hidden, axis=-1)[:, :4], atol=1e-9)
    assert np.allclose(np.take_along_axis(hidden, counted.units, -1), counted.values, atol=1e-9)


@pytest.mark.parametrize("draw", range(3))
def test_a_flow_sums_up_hidden_units_in_groups_and_says_what_whole_layers_add(draw: int) -> None:
    rng = np.random.default_rng(draw)
    d_model, d_ff, groups, n_source, n_target = (int(n) for n in rng.permutation([8, 17, 5, 6, 3]))
    sizes = SIZES | dict(d_model=3 * d_model, d_ff=d_ff)
    torch.manual_seed(draw)
    model: Any = Seq2Seq(preset("annotated", **sizes)).double().eval()
    source, read = (rng.integers(4, 29, n).tolist() for n in (n_source, n_target))
    found = flow(Checkpoint("random", model), source, read, groups=groups)
    twin = watch_flow(model)
    ids = torch.tensor([source])
    with torch.no_grad(), tracing() as seen:
        twin(ids, torch.tensor([read]))
        state = model.source_norm(model.source_positions(model.embed(model.source_embedding, ids)))
        for number, block in enumerate(model.encoder):
            before = state[0].numpy()
            h = block.self_residual.norm(state)
            q, k, v = (
                linear(h)[0].unflatten(-1, (3, d_model)).transpose(0, 1)
                for linear in (block.self_attention.query, block.self_attention.key, block.self_attention.value)
            )
            mixed = (q @ k.transpose(1, 2) / d_model**0.5).softmax(-1) @ v
            state = state + block.self_attention.output(mixed.transpose(0, 1).flatten(1))
            net, h = block.feed_forward, block.feed_forward_residual.norm(state)
            hidden = (h @ net.widen.weight.T + net.widen.bias).clamp(min=0)[0].numpy()
            state = state + torch.from_numpy(hidden) @ net.narrow.weight.T + net.narrow.bias
            counts = [d_ff // min(groups, d_ff) + (i < d_ff % min(groups, d_ff)) for i in range(min(groups, d_ff))]
            starts = [sum(counts[:i]) for i in range(len(counts))]
            largest = [hidden[:, start : start + n].max(axis=1) for start, n in zip(starts, counts, strict=True)]
            assert np.allclose(found.strengths[f"encoder.{number}.feed_forward"], np.stack(largest, 1), atol=1e-9)
            added = between(seen, f"encoder.{number}.before", f"encoder.{number}")
            assert np.allclose(added.state, np.linalg.norm(before, axis=-1), atol=1e-9)
            assert np.allclose(added.found, np.linalg.norm(state[0].numpy() - before, axis=-1), atol=1e-9)


@pytest.mark.parametrize("name", ["annotated", "jadore", "torch"])
def test_the_lens_reads_what_a_shorter_model_would_write(name: str) -> None:
    model = seq2seq(name)
    seen = lens(model, SOURCE, TARGET, written=[7, 4, 2], top=31)
    assert len(seen.ids) == 4
    assert bool(seen.note) == (name != "annotated")
    for row in range(4):
        short = copy.deepcopy(model)
        short.decoder = short.decoder[:row]  # type: ignore[index]
        with torch.no_grad():
            expected = short(SOURCE, TARGET)[0].softmax(-1).numpy()
        assert np.allclose(np.take_along_axis(expected, seen.ids[row], -1), seen.probabilities[row], atol=1e-12)
        assert np.allclose(-(expected * np.log(expected)).sum(-1), seen.entropy[row], atol=1e-9)
        assert np.allclose(expected[range(3), [7, 4, 2]], seen.final_probabilities[row], atol=1e-12)


def test_what_is_written_where_nothing_says_it_is_the_last_layer_s_likeliest() -> None:
    model = seq2seq("annotated")
    seen = lens(model, SOURCE, TARGET)
    with torch.no_grad():
        written = model(SOURCE, TARGET)[0].argmax(-1)
    assert list(seen.final) == written.tolist()
    assert list(seen.ids[0, :, 0]) != written.tolist(), "before the first layer another token leads somewhere"
    for position, final in enumerate(seen.final):
        others = [row for row in range(4) if seen.ids[row, position, 0] != final]
        assert seen.leads_from[position] == max(others, default=-1) + 1
    never = lens(seq2seq("annotated"), SOURCE, TARGET, written=[30, 30, 30])
    assert all(never.ids[..., 0].ravel() != 30)
    assert list(never.leads_from) == [4, 4, 4]


def test_the_row_since_which_a_word_leads_is_the_last_change_of_the_lead() -> None:
    """Among drawn leads there are words that led before, words that lost it, and words that never had it."""
    rng = np.random.default_rng(7)
    shape = (5, 200)
    ids, final = rng.integers(0, 2, shape), rng.integers(0, 3, 200)
    kinds = set()
    found = Lens(ids[..., None], np.ones((*shape, 1)), np.zeros(shape), final, np.ones(shape)).leads_from
    for position in range(200):
        leads = [bool(ids[row, position] == final[position]) for row in range(5)]
        row = 5
        while row and leads[row - 1]:
            row -= 1
        assert found[position] == row
        kinds.add((row == 5, any(leads[:row])))
    assert len(kinds) == 4


def test_logits_are_divided_by_a_temperature() -> None:
    model = seq2seq("annotated")
    seen = lens(model, SOURCE, TARGET, written=[7, 4, 2], top=31, temperature=1.7)
    with torch.no_grad():
        logits = model(SOURCE, TARGET)[0].numpy() / 1.7
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert np.allclose(np.take_along_axis(expected, seen.ids[-1], -1), seen.probabilities[-1], atol=1e-12)
    assert np.allclose(-(expected * np.log(expected)).sum(-1), seen.entropy[-1], atol=1e-9)
    assert np.allclose(expected[range(3), [7, 4, 2]], seen.final_probabilities[-1], atol=1e-12)


@pytest.mark.parametrize("pooling", ["mean", "attention"])
def test_a_classifier_by_depth(pooling: str) -> None:
    torch.manual_seed(5)
    config = KmerConfig(
        vocab=7, n_classes=5, d_model=14, n_heads=2, n_layers=3, d_ff=11, widths=(2, 3), pooling=pooling
    )
    model = KmerClassifier(config).double().eval()
    seen = lens(model, SOURCE, top=5)
    for row in range(4):
        short = copy.deepcopy(model)
        short.encoder = short.encoder[:row]  # type: ignore[index]
        with torch.no_grad():
            expected = short(SOURCE)[0].softmax(-1).numpy()
        assert np.allclose(expected[seen.ids[row, 0]], seen.probabilities[row, 0], atol=1e-12)


def test_an_encoder_by_depth() -> None:
    torch.manual_seed(5)
    model = Encoder(EncoderConfig(vocab=7, d_model=14, n_heads=2, n_layers=2, d_ff=11, head=(6, 3), head_reads="mean"))
    model = model.double().eval()
    seen = lens(model, SOURCE, top=3)
    with torch.no_grad():
        assert np.allclose(model.outputs(SOURCE)["logits"][0].softmax(-1)[seen.ids[-1, 0]], seen.probabilities[-1, 0])


def test_a_decoder_alone_by_depth() -> None:
    """Each row is what the model writes that has so many layers."""
    torch.manual_seed(5)
    config = DecoderConfig(vocab=7, d_model=14, n_heads=2, n_layers=3, d_ff=11)
    model = Decoder(config).double().eval()
    found = flow(Checkpoint("toy", watch(model)), SOURCE[0].tolist())
    assert found.lens is not None
    for row in range(4):
        short = Decoder(config).double().eval()
        short.load_state_dict(model.state_dict())
        short.decoder = torch.nn.ModuleList(list(short.decoder)[:row])  # type: ignore[assignment, arg-type]
        with torch.no_grad():
            odds = short(SOURCE)[0].softmax(-1).numpy()
        assert np.allclose(np.take_along_axis(odds, found.lens.ids[row], -1), found.lens.probabilities[row], atol=1e-12)
    assert found.logits is not None
    assert np.allclose(found.logits, model(SOURCE)[0].detach())


@pytest.mark.parametrize("reads", ["mean", "first", "each"])
def test_an_encoder_with_a_head_ends_with_its_scores(reads: str) -> None:
    torch.manual_seed(5)
    config = EncoderConfig(vocab=7, d_model=14, n_heads=2, n_layers=2, d_ff=11, head=(6, 3), head_reads=reads)
    checkpoint = Checkpoint("toy", watch(Encoder(config).eval()))
    found = flow(checkpoint, SOURCE[0].tolist())
    expected = checkpoint.model.outputs(SOURCE)["logits"][0].detach()
    assert found.logits is not None
    assert np.allclose(found.logits, expected.reshape(-1, 3))
    assert found.lens is not None
    assert found.lens.ids.shape[1] == len(found.logits)


@pytest.mark.parametrize("family", ["gpt2", "llama", "t5", "bart", "marian"])
def test_another_librarys_last_row_is_its_own_output(tmp_path: Path, family: str) -> None:
    model: Any = load(write_folder(tmp_path / family, family, tokenizer=False)).model
    target = TARGET if model.config.kind == "seq2seq" else None
    seen = lens(model, SOURCE, target, top=7)
    with torch.inference_mode():
        output = model(SOURCE) if target is None else model(SOURCE, target)
    free = slice(1 if family == "bart" else 0, None)  # its first token is forced, whatever its layers say
    expected = output[0, free].double().softmax(-1).numpy()
    assert np.allclose(np.take_along_axis(expected, seen.ids[-1, free], -1), seen.probabilities[-1, free], atol=1e-4)
    layers = 3 if model.config.kind == "seq2seq" else 2
    assert len(seen.ids) == layers + 1
    assert np.abs(seen.probabilities[0] - seen.probabilities[-1]).max() > 0.01


def test_what_has_no_layers_or_no_output_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="recurrent has no layers"):
        lens(Recurrent(RecurrentConfig(source_vocab=7, target_vocab=7, hidden=5)), SOURCE, TARGET)
    with pytest.raises(CheckpointError, match="encoder has no output layer"):
        lens(Encoder(EncoderConfig(vocab=7, d_model=14, n_heads=2, n_layers=2, d_ff=11)).eval(), SOURCE)
    bert: Any = load(write_folder(tmp_path / "bert", "bert", tokenizer=False)).model
    with pytest.raises(CheckpointError, match="the head of bert stands beside its layers"):
        lens(bert, SOURCE)


def test_following_changes_nothing_and_belongs_to_its_thread() -> None:
    model = seq2seq("annotated")
    with torch.no_grad():
        before = model(SOURCE, TARGET)
        twin = watch_flow(model)
        other: list[torch.Tensor] = []
        with tracing() as seen:
            assert torch.equal(twin(SOURCE, TARGET), before)
            thread = Thread(target=lambda: other.append(twin(SOURCE[:, :3], TARGET)))
            thread.start()
            thread.join()
    assert len(other) == 1
    assert seen.at("encoder.0", torch.Tensor).shape == (1, 5, 15)  # the other thread's run would be a second one
    with pytest.raises(RecordError, match=r"nothing of this kind flowed at 'encoder.9'"):
        seen.at("encoder.9", torch.Tensor)
    assert {id(p) for p in twin.parameters()} == {id(p) for p in model.parameters()}
    assert not any(module._forward_hooks for module in model.modules())
    with torch.no_grad(), tracing() as seen:
        twin(SOURCE, TARGET)
        twin(SOURCE, TARGET)
    with pytest.raises(RecordError, match="ran 2 times"):
        seen.at("encoder.0", torch.Tensor)
