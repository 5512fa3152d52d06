"""A decoder alone that a state dict holds answers as the same model of the transformers library does."""

import numpy as np
import pytest
import torch
import transformers

from tests.checkpoint.originals.common import scramble
from transformer import load
from transformer.errors import NotDefinedError
from transformer.runs.any_model import ModelRun, run_ids

IDS = [5, 17, 2, 30, 17, 9, 11]
N_HEADS = 3


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[ModelRun, object]]:
    folder = tmp_path_factory.mktemp("decoder")
    torch.manual_seed(5)
    config = transformers.GPT2Config(
        vocab_size=31, n_embd=15, n_layer=2, n_head=N_HEADS, n_inner=23, n_positions=29, initializer_range=0.4
    )
    original = scramble(transformers.GPT2LMHeadModel(config)).eval()
    original.save_pretrained(folder / "theirs")
    torch.save(original.state_dict(), folder / "model.bin")
    found = [load(folder / "theirs"), load(folder / "model.bin", n_heads=N_HEADS, activation="gelu_tanh")]
    pieces = [str(one) for one in IDS]
    return [(run_ids(one, "ids", IDS, pieces), one) for one in found]


@pytest.mark.parametrize("method", ["deletion", "gradients", "integrated_gradients"])
def test_each_method_says_the_same_of_both(runs, method: str) -> None:
    theirs, ours = (run.attribution(checkpoint, method) for run, checkpoint in runs)
    assert ours.values.shape == theirs.values.shape == (len(IDS) - 1, len(IDS) - 1)
    assert np.abs(np.tril(ours.values, -1)).max() > 0.01, "it is no table of nothing"
    np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-3, atol=1e-4)


def test_a_token_that_is_hidden_is_seen_by_nobody(runs) -> None:
    """By hand: the scores of what follows, with the hidden token's key masked in every layer."""
    run, checkpoint = runs[1]
    values = run.attribution(checkpoint, "deletion").values
    model = checkpoint.model
    ids = torch.tensor([IDS[:-1]])
    shown = torch.ones(1, len(IDS) - 1, dtype=torch.bool)
    with torch.no_grad():
        before = torch.log_softmax(model(ids)[0], -1)
        shown[0, 2] = False
        after = torch.log_softmax(model(ids, shown)[0], -1)
    expected = [float(before[t, IDS[t + 1]] - after[t, IDS[t + 1]]) for t in range(3, len(IDS) - 1)]
    np.testing.assert_allclose(values[3:, 2], expected, atol=1e-5)


def test_a_refusal_names_what_the_decoder_has(runs) -> None:
    """It has no source that words could be taken out of, and no cross-attention; each method named does answer."""
    for run, checkpoint in runs:
        with pytest.raises(NotDefinedError, match="has no source") as refused:
            run.attribution(checkpoint, "deletion_removed")
        named = refused.value.fields["methods"]
        assert isinstance(named, tuple)
        assert {"deletion", "gradients", "integrated_gradients"} <= set(named)
        assert "deletion_removed" not in named
        for method in named:
            assert run.attribution(checkpoint, method).values.shape == (len(IDS) - 1, len(IDS) - 1)
