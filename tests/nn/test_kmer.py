"""The k-mer classifier: windows, padding, poolings and positional formulas."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer.attention.capture import recording, watch
from transformer.errors import ConfigError, InputError
from transformer.nn.kmer import KmerClassifier, KmerConfig
from transformer.nn.kmers import Window, whole_windows, windows
from transformer.nn.masks import Mask
from transformer.nn.positions import doubled_table


def _model(**options) -> KmerClassifier:
    sizes: dict[str, Any] = dict(
        vocab=5, n_classes=3, d_model=12, n_heads=3, d_ff=17, widths=(2, 5), dropout=0.0, max_length=31
    )
    return KmerClassifier(KmerConfig(**(sizes | options))).double().eval()


def test_windows_stand_in_the_order_of_the_positions():
    assert windows(5, (4, 3)) == [Window(0, 4), Window(1, 4), Window(0, 3), Window(1, 3), Window(2, 3)]
    assert len(windows(10, (3, 4))) == 15


@given(length=st.integers(7, 31), widths=st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_each_window_is_a_convolution_of_its_letters(length, widths):
    model = _model(widths=tuple(widths), norm_first=True)
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


@pytest.mark.parametrize("pooling", ["mean", "attention"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_padding_changes_nothing(pooling, norm_first):
    options = dict(pooling=pooling, norm_first=norm_first, activation="gelu", pad_id=0, widths=(3,))
    model = _model(positions="sinusoidal", **options)
    long, short = torch.randint(1, 5, (1, 23)), torch.randint(1, 5, (1, 11))
    together = model(torch.cat([long, torch.nn.functional.pad(short, (0, 12))]))
    torch.testing.assert_close(together, torch.cat([model(long), model(short)]))


def test_each_question_of_a_head_pools_by_its_own_weights():
    model = watch(_model(pooling="attention", n_questions=5, norm_first=True))
    letters = torch.randint(1, 5, (2, 23))
    with recording() as seen:
        logits = model(letters)
    weights = torch.as_tensor(seen.map("pooling", batch=1).all_weights(), dtype=torch.float64)
    assert weights.shape[1] == 5
    assert logits.shape == (2, model.config.n_classes)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]), rtol=0, atol=1e-6)
    assert (weights[:, 0] - weights[:, 1]).abs().max() > 1e-3
    assert model.hidden.in_features == 5 * model.config.d_model


def test_windows_that_touch_padding_are_hidden():
    real = torch.tensor([[True, True, True, False]])
    assert whole_windows(real, (2, 3)).tolist() == [[True, True, False, True, False]]


def test_the_doubled_table_turns_by_the_published_formula():
    table = doubled_table(7, 6)
    assert table[5, 2] == pytest.approx(math.sin(5 / 10_000 ** (4 / 6)))
    assert table[5, 3] == pytest.approx(math.cos(5 / 10_000 ** (6 / 6)))


def test_a_list_of_widths_is_a_tuple():
    assert KmerConfig(vocab=5, n_classes=2, widths=[3, 4]).widths == (3, 4)


@pytest.mark.parametrize(
    ("letters", "message"),
    [([[1, 2, 3, 4]], "4 letters, the widest window needs 5"), ([[1, 2, 3, 4, 5, 1]], "id 5")],
)
def test_input_is_refused(letters, message):
    with pytest.raises(InputError, match=message):
        _model().outputs(torch.tensor(letters))


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("widths", (), "widths"),
        ("widths", (3, 0), "widths"),
        ("n_classes", 0, "n_classes=0"),
        ("n_heads", 5, "n_heads=5"),
        ("pooling", "max", "mean, attention"),
        ("positions", "none", "doubled"),
        ("activation", "tanh", "relu, gelu"),
        ("dropout", 2.0, "dropout=2.0"),
    ],
)
def test_config_refuses(option, value, message):
    with pytest.raises(ConfigError, match=message):
        _model(**{option: value})


def test_attention_pooling_is_watched_and_is_the_average_that_it_says():
    model = _model(pooling="attention", n_heads=3)
    x = torch.randn(2, 13, 12, dtype=torch.float64)
    with recording() as seen:
        watch(model)
        pooled = model.pooling(x, Mask())
    for head in range(3):
        weights = torch.from_numpy(seen.map("pooling", batch=1).weights(head)[0])
        assert weights.sum().item() == pytest.approx(1)
        torch.testing.assert_close(weights @ x[1, :, 4 * head : 4 * head + 4], pooled[1, 4 * head : 4 * head + 4])


def test_mean_pooling_has_no_site():
    assert list(_model(n_layers=2).attention_sites()) == ["encoder.0.self", "encoder.1.self"]
