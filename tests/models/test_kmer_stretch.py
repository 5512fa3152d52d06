"""A stretch read at once gives what the model says of each of its windows alone, whatever the dialect."""

import numpy as np
import pytest
import torch

from tests.classifiers import sequence_checkpoint
from transformer.models.kmer import KmerClassifier
from transformer.models.kmer_stretch import StretchReader

WIDTH = 13
DIALECTS: tuple[dict[str, object], ...] = (
    {},
    {"norm_first": False, "positions": "learned", "max_length": 19, "d_ff": 61},  # more rows than queries, keys, values
    {"position_place": "after", "scale_embedding": True, "pooling": "mean", "widths": (2, 5, 7), "max_length": 40},
    {"norm_after_stack": False, "activation": "gelu", "n_questions": 2, "d_hidden": 5},
    {"norm_first": False, "norm_after_stack": False, "positions": "doubled", "n_layers": 1, "n_heads": 2},
)


def model_of(seed: int, double: bool = True, **options: object) -> KmerClassifier:
    """A model whose norms and biases are no identities, as those of a fresh one are."""
    model = sequence_checkpoint(seed, double, **options).model
    assert isinstance(model, KmerClassifier)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype), alpha=0.3)
    return model


def alone(model: KmerClassifier, ids: torch.Tensor, step: int) -> torch.Tensor:
    with torch.inference_mode():
        return torch.cat([model(ids[None, start : start + WIDTH]) for start in range(0, len(ids) - WIDTH + 1, step)])


@pytest.mark.parametrize("number", range(len(DIALECTS)))
def test_a_stretch_is_its_windows_one_by_one(number) -> None:
    model = model_of(number, **DIALECTS[number])
    reader = StretchReader(model, WIDTH, together=3)
    for step, length in ((1, 31), (4, WIDTH), (5, 47)):  # windows that fill no pass, one window, gaps between windows
        ids = torch.randint(5, (length,), generator=torch.Generator().manual_seed(step))
        with torch.inference_mode():
            found = reader.logits(ids, step)
        np.testing.assert_allclose(found, alone(model, ids, step), rtol=0, atol=1e-12)


def test_single_precision_errs_by_its_rounding() -> None:
    model = model_of(7, double=False, d_model=48, n_heads=4, d_ff=96)
    ids = torch.randint(5, (120,), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        found = StretchReader(model, WIDTH).logits(ids)
    np.testing.assert_allclose(found.softmax(-1), alone(model, ids, 1).softmax(-1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("factor", [0.0, 400.0, -400.0])
def test_scores_too_large_for_an_exponential_are_left_to_the_model(factor) -> None:
    model = model_of(9, double=False)
    ids = torch.randint(5, (40,), generator=torch.Generator().manual_seed(2))
    attention = model.encoder[1].self_attention
    asked: list[int] = []
    with torch.inference_mode():
        attention.key.bias.fill_(1.0)
        attention.query.bias.fill_(factor)  # moves all scores of a query alike: no weight of the model changes by it
        expected = alone(model, ids, 1)
        hook = model.register_forward_hook(lambda module, inputs, output: asked.append(len(output)))
        found = StretchReader(model, WIDTH).logits(ids)
        hook.remove()
    assert bool(asked) is (factor != 0)
    np.testing.assert_allclose(found.softmax(-1), expected.softmax(-1), rtol=0, atol=1e-5)


def test_padding_is_left_to_the_model() -> None:
    model = model_of(11, pad_id=3)
    ids = torch.randint(5, (33,), generator=torch.Generator().manual_seed(3))
    assert bool((ids == 3).any())
    with torch.inference_mode():
        found = StretchReader(model, WIDTH).logits(ids)
    np.testing.assert_allclose(found, alone(model, ids, 1), rtol=0, atol=1e-12)
