"""What flows through a run, against the blocks computed by hand, and against models that end early."""

import copy
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from heedmap import load
from heedmap.attention.capture import watch
from heedmap.checkpoint.checkpoint import Checkpoint
from heedmap.errors import CheckpointError, RecordError
from heedmap.explain.flow import Lens, activity, lens, scale, share, tracing, watch_flow
from heedmap.nn.kmer import KmerClassifier, KmerConfig
from heedmap.nn.recurrent import Recurrent, RecurrentConfig
from heedmap.nn.seq2seq import Seq2Seq, preset
from heedmap.nn.stacks import Decoder, DecoderConfig, Encoder, EncoderConfig
from heedmap.runs.flow import flow
from tests.checkpoint.huggingface.families import write_folder
from tests.explain.attribution.reference import array, attend, deviation, normed

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


@pytest.mark.parametrize("name", ["annotated", "jadore"])
def test_shares_scales_and_activity_are_those_of_the_formulas(name: str) -> None:
    model = watch_flow(seq2seq(name))
    with torch.no_grad(), tracing() as seen:
        model(SOURCE, TARGET)
        block: Any = model.encoder[0]
        entry = model.source_norm(model.source_positions(model.embed(model.source_embedding, SOURCE)))[0].numpy()
    assert np.allclose(seen.at("encoder.0").read[0], entry, atol=1e-12)
    kept = attend(block.self_attention, block.self_residual, entry, None, np.ones((5, 5), dtype=bool))
    found = kept.bias + np.einsum("htj,hjd->td", kept.weights, kept.values)
    measured = share(seen, "encoder.0.self_residual")
    lengths = np.linalg.norm(found, axis=-1), np.linalg.norm(entry, axis=-1)
    for number, expected in zip((measured.found, measured.state), lengths, strict=True):
        assert np.allclose(number, expected, atol=1e-9)
    assert np.allclose(measured.share, lengths[0] / (lengths[0] + lengths[1]), atol=1e-9)
    read, norm = entry if kept.norm_first else entry + found, block.self_residual.norm
    expected = [1 / deviation(norm, row) for row in read]
    assert np.allclose(scale(seen, "encoder.0.self_residual.norm"), expected, atol=1e-9)
    net, second = block.feed_forward, block.feed_forward_residual
    state = normed(second.norm, kept.output) if second.norm_first else kept.output
    hidden = np.maximum(state @ array(net.widen.weight).T + array(net.widen.bias), 0)
    counted = activity(seen, "encoder.0.feed_forward", strongest=4)
    assert np.allclose(counted.active, (hidden > 0).mean(-1))
    assert np.allclose(counted.values, -np.sort(-hidden, axis=-1)[:, :4], atol=1e-9)
    assert np.allclose(np.take_along_axis(hidden, counted.units, -1), counted.values, atol=1e-9)


def test_a_flow_holds_what_a_traced_run_does_and_what_whole_layers_add() -> None:
    model = seq2seq("annotated")
    found = flow(Checkpoint("random", model), SOURCE[0].tolist(), TARGET[0].tolist())
    twin = watch_flow(model)
    with torch.no_grad(), tracing() as seen:
        twin(SOURCE, TARGET)
    for name, measured in found.shares.items():
        np.testing.assert_array_equal(measured.share, share(seen, name).share)
    for name, active in found.activity.items():
        np.testing.assert_array_equal(active.active, activity(seen, name).active)
    assert (len(found.shares), len(found.activity)) == (2 * 2 + 3 * 3, 2 + 3)
    for number in range(2):
        before, after = (state[0].numpy() for state in seen.states(["encoder.0", "encoder.1"])[number : number + 2])
        added = share(seen, f"encoder.{number}")
        assert np.allclose(added.state, np.linalg.norm(before, axis=-1), atol=1e-9)
        assert np.allclose(added.found, np.linalg.norm(after - before, axis=-1), atol=1e-9)


def small(kind: str) -> Any:
    """A model that writes, classifies or reads on, in double precision."""
    if kind in {"annotated", "jadore", "torch"}:
        return seq2seq(kind)
    torch.manual_seed(5)
    sizes: dict[str, Any] = dict(vocab=7, d_model=14, n_heads=2, n_layers=3, d_ff=11)
    made: dict[str, Callable[[], nn.Module]] = {
        "decoder": lambda: Decoder(DecoderConfig.of(**sizes)),
        "encoder": lambda: Encoder(EncoderConfig.of(**sizes, head=(6, 3))),
        "mean": lambda: KmerClassifier(KmerConfig.of(**sizes, n_classes=5, widths=(2, 3))),
        "attention": lambda: KmerClassifier(KmerConfig.of(**sizes, n_classes=5, widths=(2, 3), pooling="attention")),
    }
    return made[kind]().double().eval()


@pytest.mark.parametrize("kind", ["annotated", "jadore", "torch", "decoder", "encoder", "mean", "attention"])
@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_the_lens_reads_what_a_shorter_model_would_write(kind: str, temperature: float) -> None:
    """Each row is what the model ends with that has so many layers."""
    model = small(kind)
    target, written = (TARGET, [7, 4, 2]) if isinstance(model, Seq2Seq) else (None, None)
    seen = lens(model, SOURCE, target, written, 31, temperature)
    assert len(seen.ids) == 4
    assert bool(seen.note) == (kind not in {"annotated", "decoder"})  # which norm before a sub-layer
    for row in range(4):
        short = copy.deepcopy(model)
        name = "decoder" if isinstance(model, Seq2Seq | Decoder) else "encoder"
        setattr(short, name, getattr(short, name)[:row])
        with torch.no_grad():
            output = short(SOURCE) if target is None else short(SOURCE, target)
            logits = short.logits(output) if kind == "encoder" else output
        expected = (logits[0] / temperature).softmax(-1).reshape(seen.ids.shape[1], -1).numpy()
        assert np.allclose(np.take_along_axis(expected, seen.ids[row], -1), seen.probabilities[row], atol=1e-12)
        assert np.allclose(-(expected * np.log(expected)).sum(-1), seen.entropy[row], atol=1e-9)
        chosen = written or seen.final.tolist()
        assert np.allclose(expected[range(len(chosen)), chosen], seen.final_probabilities[row], atol=1e-12)


def test_what_is_written_where_nothing_says_it_is_the_last_layer_s_likeliest() -> None:
    model = seq2seq("annotated")
    seen = lens(model, SOURCE, TARGET)
    with torch.no_grad():
        written = model(SOURCE, TARGET)[0].argmax(-1)
    assert list(seen.final) == written.tolist()
    assert list(seen.ids[0, :, 0]) != written.tolist(), "before the first layer another token leads somewhere"
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


def test_a_decoder_alone_ends_with_log_probabilities() -> None:
    model = small("decoder")
    found = flow(Checkpoint("toy", watch(model)), SOURCE[0].tolist())
    assert np.allclose(found.scores, model(SOURCE)[0].log_softmax(-1).detach())


def test_an_encoder_with_a_head_ends_with_its_scores() -> None:
    torch.manual_seed(5)
    config = EncoderConfig.of(vocab=7, d_model=14, n_heads=2, n_layers=2, d_ff=11, head=(6, 3))
    checkpoint = Checkpoint("toy", watch(Encoder(config).eval()))
    found = flow(checkpoint, SOURCE[0].tolist())
    expected = checkpoint.model.outputs(SOURCE)["logits"][0].detach()
    assert np.allclose(found.scores, expected)
    assert found.lens.ids.shape[1] == len(found.scores)


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
    assert bool(seen.note) == (family in {"bart", "marian"})  # which norm each sum
    assert np.abs(seen.probabilities[0] - seen.probabilities[-1]).max() > 0.01


def test_what_has_no_layers_or_no_output_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="recurrent has no layers"):
        lens(Recurrent(RecurrentConfig.of(source_vocab=7, target_vocab=7, hidden=5)), SOURCE, TARGET)
    with pytest.raises(CheckpointError, match="encoder has no output layer"):
        lens(Encoder(EncoderConfig.of(vocab=7, d_model=14, n_heads=2, n_layers=2, d_ff=11)).eval(), SOURCE)
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
    assert seen.at("encoder.0").read.shape == (1, 5, 15)  # the other thread's run would be a second one
    with pytest.raises(RecordError, match=r"nothing of this kind flowed at 'encoder.9'"):
        seen.at("encoder.9")
    assert {id(p) for p in twin.parameters()} == {id(p) for p in model.parameters()}
    assert not any(module._forward_hooks for module in model.modules())
    with torch.no_grad(), tracing() as seen:
        twin(SOURCE, TARGET)
        twin(SOURCE, TARGET)
    with pytest.raises(RecordError, match="ran 2 times"):
        seen.at("encoder.0")
