"""Models: what they refuse by name, what influences what, steps and whole passes. Parity is tested with the readers."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heedmap import Checkpoint, Intervention, intervening, run_any
from heedmap.attention.capture import recording, watch
from heedmap.checkpoint.checkpoint import ARCHITECTURES
from heedmap.checkpoint.ours.config import RETIRED
from heedmap.errors import ConfigError, InputError
from heedmap.nn.attention import AttentionConfig
from heedmap.nn.blocks import AnnotatedLayerNorm
from heedmap.nn.common import Config
from heedmap.nn.kmer import KmerClassifier, KmerConfig, Window, windows
from heedmap.nn.masks import Mask
from heedmap.nn.recurrent import Recurrent, RecurrentConfig
from heedmap.nn.seq2seq import Seq2Seq, Seq2SeqConfig, preset
from heedmap.nn.stacks import Decoder, DecoderConfig, Encoder, EncoderConfig
from heedmap.text.tokenizers import id_tokenizers

CHECKPOINTS = Path(__file__).resolve().parents[2] / "checkpoints"
CONFIGS: dict[type[Config], dict[str, Any]] = {
    Seq2SeqConfig: dict(source_vocab=9, target_vocab=9),
    EncoderConfig: dict(vocab=9, d_model=12, n_heads=3),
    DecoderConfig: dict(vocab=9, d_model=14, n_heads=2),
    KmerConfig: dict(vocab=5, n_classes=3, d_model=12, n_heads=3),
    RecurrentConfig: dict(source_vocab=23, target_vocab=29, hidden=7),
}


@pytest.mark.parametrize(
    ("config", "wrong", "words"),
    [
        (Seq2SeqConfig, dict(d_model=30, n_heads=4), "d_model=30 cannot be split into n_heads=4"),
        (Seq2SeqConfig, dict(d_model=0), "d_model=0 is too small"),
        (Seq2SeqConfig, dict(norm="batch"), "norm='batch' is not known: .*torch, annotated"),
        (Seq2SeqConfig, dict(activation="tanh"), "activation='tanh' is not known: .*relu, gelu"),
        (Seq2SeqConfig, dict(positions="rotary"), "positions='rotary' is not known: .*sinusoidal"),
        (Seq2SeqConfig, dict(dropout=1.0), "dropout=1.0 is not a probability"),
        (Seq2SeqConfig, dict(d_k=-1), "d_k=-1"),
        (Seq2SeqConfig, dict(tie_embeddings=True, target_vocab=4), "source_vocab=9 and target_vocab=4"),
        (EncoderConfig, dict(vocab=0), "vocab=0"),
        (EncoderConfig, dict(position_axis="head"), "sequence, batch"),
        (DecoderConfig, dict(vocab=0), "vocab=0"),
        (KmerConfig, dict(widths=()), "widths"),
        (KmerConfig, dict(widths=(3, 0)), "widths"),
        (KmerConfig, dict(n_classes=0), "n_classes=0"),
        (KmerConfig, dict(n_heads=5), "n_heads=5"),
        (KmerConfig, dict(pooling="max"), "mean, attention"),
        (KmerConfig, dict(positions="none"), "doubled"),
        (RecurrentConfig, dict(hidden=0), "hidden=0"),
        (RecurrentConfig, dict(attention="cosine"), "location, additive"),
        (RecurrentConfig, dict(dropout=1.0), "dropout=1.0"),
        (RecurrentConfig, dict(d_embedding=-1), "d_embedding=-1"),
        (RecurrentConfig, dict(tie_embeddings=True), "needs one vocabulary, but source_vocab=23 and target_vocab=29"),
        (RecurrentConfig, dict(d_embedding=5, tie_projection=True), "output as wide .* hidden=7 and d_embedding=5"),
    ],
)
def test_a_config_refuses_what_does_not_fit_by_name(config: type[Config], wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config.of(**(CONFIGS[config] | wrong))


def test_a_block_has_the_head_sizes_of_its_config() -> None:
    assert AttentionConfig(n_heads=5, d_k=11).head_sizes(30) == (11, 6)
    attention = Encoder(EncoderConfig.of(vocab=3, d_model=30, n_heads=5, d_v=7, attention_bias=False)).encoder[0]
    assert attention.self_attention.query.weight.shape == (5 * 6, 30)
    assert attention.self_attention.value.weight.shape == (5 * 7, 30)
    assert attention.self_attention.output.bias is None


@pytest.mark.parametrize("path", sorted(CHECKPOINTS.glob("*/config.json")), ids=lambda path: path.parent.name)
def test_the_config_of_a_shipped_checkpoint_is_written_as_it_was_read(path: Path) -> None:
    about = json.loads(path.read_text(encoding="utf-8"))
    _, config_type = ARCHITECTURES[about["architecture"]]
    options = {name: value for name, value in about["config"].items() if name not in RETIRED}
    assert set(options) <= config_type.flat().keys()
    written = json.loads(json.dumps(config_type.of(**options).options))
    assert {name: written[name] for name in options} == options


PAIR = dict(source_vocab=31, target_vocab=29, d_model=12, n_heads=3, d_ff=17)
PAIR |= dict(n_encoder_layers=2, n_decoder_layers=1, max_length=23)
SOURCE = torch.tensor([[5, 9, 4, 30, 2, 0, 0], [8, 7, 6, 5, 4, 3, 2]])
TARGET = torch.tensor([[1, 28, 4, 5, 0], [1, 9, 9, 3, 7]])


def pair(name: str = "torch", **options: object) -> Seq2Seq:
    return Seq2Seq(preset(name, **{**PAIR, **options})).double().eval()


def test_preset_dialects_are_the_published_ones() -> None:
    vocabularies = {"source_vocab": 5, "target_vocab": 5}
    annotated, jadore, torch_like = (preset(name, **vocabularies) for name in ("annotated", "jadore", "torch"))
    assert isinstance(Seq2Seq(preset("annotated", **PAIR)).encoder_norm, AnnotatedLayerNorm)
    assert (annotated.block.norm_first, annotated.norm_after_stack, annotated.projection_bias) == (True, True, True)
    assert (jadore.block.attention.bias, jadore.norm_after_embedding, jadore.tie_projection) == (False, True, True)
    assert jadore.projection_scale == 512**-0.5
    assert preset("jadore", source_vocab=5, target_vocab=5, scale_embedding=True).projection_scale == 1.0
    assert (torch_like.block.norm_first, torch_like.norm_after_stack, torch_like.block.norm_eps) == (False, True, 1e-5)
    with pytest.raises(ConfigError, match="annotated, jadore, torch"):
        preset("bert")


def test_annotated_norm_is_unbiased_with_eps_outside() -> None:
    x = torch.randn(3, 7, dtype=torch.float64)
    norm = AnnotatedLayerNorm(7, eps=0.1).double()
    expected = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=True, keepdim=True).sqrt() + 0.1)
    torch.testing.assert_close(norm(x), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_cached_steps_equal_the_whole_pass(positions: str, norm_first: bool) -> None:
    model = pair(positions=positions, norm_first=norm_first, d_k=5, d_v=2)
    with torch.inference_mode():
        whole = model(SOURCE, TARGET[1:].expand(2, -1))
        cache = model.start(SOURCE)
        steps = [model.step(TARGET[1:, i : i + 1].expand(2, -1), cache) for i in range(5)]
        together = model.start(SOURCE)
        at_once = model.step(TARGET[1:, :3].expand(2, -1), together)
    torch.testing.assert_close(torch.stack(steps, 1), whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(at_once, whole[:, 2], rtol=0, atol=1e-12)


def encoder(**options) -> Encoder:
    sizes: dict[str, Any] = dict(vocab=23, d_model=12, n_heads=3, d_ff=17, n_layers=2, dropout=0.0, max_length=13)
    return Encoder(EncoderConfig.of(**(sizes | options))).double().eval()


@pytest.mark.kernels
@given(position=st.integers(1, 4), token=st.integers(3, 22))
def test_changing_the_future_leaves_the_past(position: int, token: int) -> None:
    for model, source in ((pair(), (SOURCE[1:],)), (encoder(causal=True), ())):
        changed = TARGET[1:].clone()
        changed[0, position] = token
        before, after = (model(*source, ids) for ids in (TARGET[1:], changed))
        assert torch.equal(before[:, :position], after[:, :position])
        assert torch.equal(before, after) == (token == int(TARGET[1, position]))


def test_positions_along_the_batch_hide_order():
    model, swapped = encoder(position_axis="batch"), [1, 0, 2, 3]
    ids = torch.tensor([[3, 4, 5, 6], [3, 4, 5, 6]])
    hidden = model(ids)
    torch.testing.assert_close(hidden[:, swapped], model(ids[:, swapped]))
    assert (hidden[0] - hidden[1]).abs().max() > 1e-3


GPT2: dict[str, Any] = dict(activation="gelu_tanh", tie_projection=True)
"""What GPT-2 is, beside its sizes."""


def drawn(config: DecoderConfig, seed: int = 5) -> Decoder:
    """A decoder in float64 whose every number is random."""
    torch.manual_seed(seed)
    model = Decoder(config).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    watch(model)
    return model


def decoder_config(**options: Any) -> DecoderConfig:
    sizes: dict[str, Any] = dict(vocab=23, d_model=14, n_heads=2, d_ff=11, n_layers=3, max_length=19)
    return DecoderConfig.of(**(sizes | options))


DECODERS: dict[str, dict[str, Any]] = {
    "GPT-2": GPT2,
    "norm after, a formula, scaled": dict(
        norm_first=False, norm_after_stack=False, positions="sinusoidal", scale_embedding=True, activation="relu",
    ),
    "no positions, padding": dict(positions="none", pad_id=0, projection_bias=True),
    "a scale of its own": dict(attention_scale=0.7, attention_bias=False, norm="annotated"),
}  # fmt: skip
CHANGES = [
    Intervention("decoder.0.self", "zero", heads=(1,)),
    Intervention("decoder.1.self", "knock_out", queries=(5, 8, 11), keys=(1, 4, 8)),
    Intervention("decoder.2.self", "uniform", heads=(0,), queries=(7, 12)),
    Intervention("decoder.2.self", "temperature", heads=(1,), value=0.3),
]


@pytest.mark.parametrize("changes", [[], CHANGES], ids=["unchanged", "changed"])
@pytest.mark.parametrize("kind", DECODERS)
def test_what_a_cache_reads_on_is_what_one_pass_over_all_reads(kind: str, changes: list[Intervention]) -> None:
    """In pieces of several tokens and of one, rows kept, dropped and doubled on the way, under changes by rows."""
    model = drawn(decoder_config(**DECODERS[kind]))
    ids = torch.randint(1, 23, (3, 13), generator=torch.Generator().manual_seed(2))
    ids[1, :2] = 0  # padding, where there is any
    ids[1, 2] = 7
    with torch.no_grad(), intervening(changes):
        whole = model(ids)
        found, cache = {}, model.begin()
        for start, stop in ((0, 5), (5, 6), (6, 9), (9, 10), (10, 11), (11, 12), (12, 13)):
            found[stop] = model.read_on(ids[:, start:stop], cache)
        for stop, logits in found.items():
            assert (logits - whole[:, stop - 1]).abs().max() < 1e-12
        again = model.begin()
        model.read_on(ids[:, :6], again)
        again.reorder(torch.tensor([2, 0, 2, 1]))
        assert (model.read_on(ids[[2, 0, 2, 1], 6:], again) - whole[[2, 0, 2, 1], -1]).abs().max() < 1e-12
    with torch.no_grad():
        assert ((model(ids) - whole).abs().max() > 1e-3) == bool(changes)


def test_hidden_positions_are_seen_by_none_and_a_failed_step_leaves_the_cache() -> None:
    model = drawn(decoder_config(max_length=7))
    ids = torch.tensor([[3, 5, 7, 11, 13]])
    shown = torch.tensor([[True, False, True, True, True]])
    other = ids.clone()
    other[0, 1] = 2
    with torch.no_grad():
        rows = [model(one, shown)[0, [0, 2, 3, 4]] for one in (ids, other)]
        assert torch.equal(rows[0], rows[1])
        cache = model.begin()
        model.read_on(ids, cache)
        with pytest.raises(InputError, match="7"):
            model.read_on(torch.tensor([[1, 2, 3]]), cache)
        with pytest.raises(InputError, match="id 23"):
            model.read_on(torch.tensor([[23]]), cache)
        assert cache.length == 5
        expected = model(torch.tensor([[3, 5, 7, 11, 13, 17]]))[:, -1]
        assert (model.read_on(torch.tensor([[17]]), cache) - expected).abs().max() < 1e-12


def test_its_run_is_recorded_with_labels_and_attributed_to_what_was_read() -> None:
    model = drawn(decoder_config())
    checkpoint = Checkpoint("own", model, id_tokenizers(model.config)[0])
    run = run_any(checkpoint, "3 5 7 11 2")
    assert run.outputs.keys() == {"log_probs"}
    assert run.record["decoder.1.self"].keys.texts == ("3", "5", "7", "11", "2")
    found = run.attribution(checkpoint, "deletion")
    with torch.no_grad():  # the last token, where no attention sees the second
        shown = torch.tensor([[True, False, True, True]])
        less = model(torch.tensor([[3, 5, 7, 11]]), shown).log_softmax(-1)[0, -1, 2]
    assert found.values[3, 1] == pytest.approx(float(run.outputs["log_probs"][3, 2] - less), abs=1e-9)
    for method in ("norms", "contributions", "rollout", "weights"):
        assert run.attribution(checkpoint, method).values.shape == (5, 5)


def kmer(**options) -> KmerClassifier:
    sizes: dict[str, Any] = dict(
        vocab=5, n_classes=3, d_model=12, n_heads=3, d_ff=17, widths=(2, 5), dropout=0.0, max_length=31
    )
    return KmerClassifier(KmerConfig.of(**(sizes | options))).double().eval()


def test_windows_stand_in_the_order_of_the_positions():
    assert windows(5, (4, 3)) == [Window(0, 4), Window(1, 4), Window(0, 3), Window(1, 3), Window(2, 3)]
    assert len(windows(10, (3, 4))) == 15


@given(length=st.integers(7, 31), widths=st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_each_window_is_a_convolution_of_its_letters(length, widths):
    model = kmer(widths=tuple(widths), norm_first=True)
    embedded = torch.randn(2, length, 12, dtype=torch.float64)
    gathered = model.kmers(embedded)
    spans = windows(length, widths)
    assert gathered.shape == (2, len(spans), 12)
    kinds = [i for i, width in enumerate(widths) for _ in range(length - width + 1)]
    for position in (0, len(spans) // 2, len(spans) - 1):
        convolution: Any = model.kmers.convolutions[kinds[position]]
        window = spans[position]
        letters = embedded[:, window.start : window.start + window.width]
        alone = torch.einsum("bld,odl->bo", letters, convolution.weight) + convolution.bias
        torch.testing.assert_close(model.kmers.norm(alone), gathered[:, position])


def test_attention_pooling_is_watched_and_is_the_average_that_it_says():
    model = kmer(pooling="attention", n_heads=3)
    x = torch.randn(2, 13, 12, dtype=torch.float64)
    with recording() as seen:
        watch(model)
        pooled = model.pooling(x, Mask())
    for head in range(3):
        weights = torch.from_numpy(seen.map("pooling", batch=1).weights(head)[0])
        assert weights.sum().item() == pytest.approx(1)
        torch.testing.assert_close(weights @ x[1, :, 4 * head : 4 * head + 4], pooled[1, 4 * head : 4 * head + 4])


ATTENTIONS = ("location", "additive")


def recurrent(**options) -> Recurrent:
    sizes: dict[str, Any] = dict(source_vocab=23, target_vocab=29, hidden=7, max_length=13, dropout=0.0)
    return Recurrent(RecurrentConfig.of(**(sizes | options))).double().eval()


YES_NO = (False, True)


@pytest.mark.parametrize(
    "model",
    [
        pair(),
        *(kmer(pooling=pooling, norm_first=first, activation="gelu", pad_id=0, widths=(3,), positions="sinusoidal")
          for pooling, first in product(("mean", "attention"), YES_NO)),
        *(recurrent(attention=attention, bidirectional=both, deep_output=deep, d_embedding=5)
          for attention, both, deep in product(ATTENTIONS, YES_NO, YES_NO)),
    ],
)  # fmt: skip
def test_padding_changes_nothing(model: Any) -> None:
    """A window that touches padding is hidden too."""
    vocab = 5 if isinstance(model, KmerClassifier) else 23
    rows = [torch.randint(2, vocab, (1, length)) for length in (11, 5)]
    targets = [] if vocab == 5 else [torch.randint(2, 29, (2, 3))]
    together = model(torch.cat([rows[0], torch.nn.functional.pad(rows[1], (0, 6))]), *targets)
    for i, row in enumerate(rows):
        torch.testing.assert_close(together[i : i + 1], model(row, *(target[i : i + 1] for target in targets)))


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_a_step_moves_on_as_torchs_own_unit(attention):
    model = recurrent(attention=attention, bidirectional=True, d_embedding=5)
    cache = model.start(torch.randint(1, 23, (3, 11)))
    embedded = model.target_embedding(torch.tensor([2, 3, 5]))
    context, _ = model.attention(embedded, cache.state, cache.source)
    expected = model.decoder(model.combine(torch.cat([embedded, context], dim=-1)), cache.state)
    logits = model.step(torch.tensor([[2], [3], [5]]), cache)
    torch.testing.assert_close(cache.state, expected)
    torch.testing.assert_close(logits, model.projection(expected))


def test_tied_weights_are_one() -> None:
    """The embedding of either side, and the projection."""
    both = dict(tie_embeddings=True, tie_projection=True)
    for tied in (pair("jadore", source_vocab=29), recurrent(source_vocab=29, d_embedding=5, deep_output=True, **both)):
        assert tied.projection.weight is tied.target_embedding.weight is tied.source_embedding.weight
        assert not any(name.startswith(("projection.w", "target_e")) for name, _ in tied.named_parameters())
        hidden = tied.hidden(torch.tensor([[3, 7]]), torch.tensor([[1, 11, 2]]))
        scale = getattr(tied.config, "projection_scale", 1.0)
        expected = hidden @ tied.source_embedding.weight.T + (
            0 if tied.projection.bias is None else tied.projection.bias
        )
        torch.testing.assert_close(tied.logits(hidden), expected * scale)


@given(length=st.integers(1, 13), steps=st.integers(1, 5), seed=st.integers(0, 99))
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_recorded_rows_sum_to_one(attention, length, steps, seed):
    torch.manual_seed(seed)
    model = watch(recurrent(attention=attention))
    source, target = torch.randint(0, 23, (2, length)), torch.randint(0, 29, (2, steps))
    source[:, 0] = 3
    with torch.no_grad(), recording() as seen:
        model(source, target)
    weights = seen["decoder.cross"].all_weights()
    assert weights.shape == (1, steps, 13 if attention == "location" else length)
    assert abs(weights.sum(-1) - 1).max() < 1e-12


def test_a_source_of_padding_alone_runs_and_without_a_padding_id_every_token_is_read() -> None:
    nothing = torch.zeros(1, 5, dtype=torch.long)
    for attention in ATTENTIONS:
        assert recurrent(attention=attention).start(nothing).state.isfinite().all()
    assert recurrent(pad_id=-1).start(nothing).source.real is None


@pytest.mark.parametrize(
    ("model", "inputs", "words"),
    [
        (pair(), (SOURCE, torch.tensor([[1, 29], [1, 29]])), "targets hold id 29"),
        (pair(), (SOURCE,), "targets=None"),
        (pair(positions="learned", max_length=6), (SOURCE, TARGET), "7 positions are more than the 6"),
        (encoder(), (torch.tensor([[22, 23]]),), "id 23"),
        (kmer(), (torch.tensor([[1, 2, 3, 4]]),), "4 letters, the widest window needs 5"),
        (kmer(), (torch.tensor([[1, 2, 3, 4, 5, 1]]),), "id 5"),
        (recurrent(attention="location"), (torch.ones(2, 14, dtype=torch.long), TARGET), r"14 tokens.*13 positions"),
        (recurrent(), (SOURCE % 23,), "targets=None"),
    ],
)
def test_input_is_refused_by_name(model: Any, inputs: tuple[torch.Tensor, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        model.outputs(*inputs)
