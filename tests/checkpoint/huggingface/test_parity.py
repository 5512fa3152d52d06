"""What is recorded lazily is what each family's own eager attention says, and recording changes nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.checkpoint.huggingface.families import CONFIGS, write_folder
from transformer import Checkpoint, attention_maps, load, recording
from transformer.attention.softmax_inputs import AttentionInputs
from transformer.checkpoint.huggingface.library import library, quiet
from transformer.nn import fused

SOURCE, TARGET, PADDED = 7, 5, 3
KINDS = {"bert": "encoder", "gpt2": "decoder", "llama": "decoder"}

SINGLE = {"llama"}
"""Families whose own code computes part of attention in single precision, whatever precision the model has."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("families")
    return {family: write_folder(place / family, family, tokenizer=False) for family in CONFIGS}


def original(folder: Path, attention: str) -> Any:
    """The same folder as the library itself loads it."""
    kind = {"encoder": "AutoModel", "decoder": "AutoModelForCausalLM"}.get(KINDS.get(folder.name, ""))
    with quiet():
        maker = getattr(library(), kind or "AutoModelForSeq2SeqLM")
        return maker.from_pretrained(folder, attn_implementation=attention, local_files_only=True).eval()


def inputs(checkpoint: Checkpoint, padded: int = PADDED) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Two rows of ids, the second padded at its end; and what a decoder reads."""
    drawn = torch.Generator().manual_seed(1)
    source = torch.randint(70, 300, (2, SOURCE), generator=drawn)
    if padded and checkpoint.model.config.pad_id >= 0:
        source[1, SOURCE - padded :] = checkpoint.model.config.pad_id
    target = torch.randint(70, 300, (2, TARGET), generator=drawn)
    return source, target if checkpoint.model.config.kind == "seq2seq" else None


def eager(checkpoint: Checkpoint, source: torch.Tensor, target: torch.Tensor | None) -> tuple[dict[str, Any], Any]:
    """The library's own maps by site, and its output, in double precision."""
    options = {} if target is None else {"decoder_input_ids": target}
    real = (source != checkpoint.model.config.pad_id).long()
    with torch.inference_mode():
        output = original(checkpoint.folder, "eager").double()(
            input_ids=source, attention_mask=real, output_attentions=True, **options
        )
    if target is None:
        stack = checkpoint.model.config.kind
        return {f"{stack}.{i}.self": w for i, w in enumerate(output.attentions)}, output
    kinds = {"encoder.{}.self": output.encoder_attentions, "decoder.{}.self": output.decoder_attentions}
    kinds["decoder.{}.cross"] = output.cross_attentions
    return {kind.format(i): w for kind, layers in kinds.items() for i, w in enumerate(layers)}, output


@pytest.mark.parametrize("family", CONFIGS)
def test_recorded_weights_are_those_of_eager_attention(folders: dict[str, Path], family: str) -> None:
    checkpoint = load(folders[family])
    source, target = inputs(checkpoint)
    expected, output = eager(checkpoint, source, target)
    checkpoint.model.double()
    with torch.inference_mode(), recording() as seen:
        found = checkpoint.model.run(source, target)
    assert set(seen.sites) == set(expected) == set(checkpoint.model.sites)
    assert all(isinstance(seen.source(site), AttentionInputs) for site in seen.sites)
    assert not checkpoint.model.eager
    has_padding = checkpoint.model.config.pad_id >= 0
    closest = 1e-6 if family in SINGLE else 1e-12
    for site, weights in expected.items():
        for batch in range(2):
            ours = seen.map(site, batch=batch).all_weights()
            real = SOURCE - PADDED if has_padding and batch and not site.startswith("decoder") else ours.shape[1]
            np.testing.assert_allclose(ours[:, :real], weights[batch, :, :real].numpy(), atol=closest, rtol=0)
        if has_padding and site.startswith("encoder"):
            assert not seen.map(site, batch=1).mask()[:, SOURCE - PADDED :].any()
    sharp = np.concatenate([weights.flatten().numpy() for weights in expected.values()])
    assert sharp.std() > 0.1, "even attention would hide a wrong scale or bias"
    name = "last_hidden_state" if family == "bert" else "logits"
    rows = slice(0, SOURCE - PADDED) if family == "bert" else slice(None)
    torch.testing.assert_close(found[name][:, rows], output[name][:, rows], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", CONFIGS)
def test_recording_leaves_the_output_bit_equal(folders: dict[str, Path], family: str) -> None:
    checkpoint = load(folders[family])
    source, target = inputs(checkpoint)
    arguments = (source,) if target is None else (source, target)
    with torch.inference_mode():
        alone = checkpoint.model(*arguments)
        with recording():
            watched = checkpoint.model(*arguments)
        options = {} if target is None else {"decoder_input_ids": target}
        real = (source != checkpoint.model.config.pad_id).long()
        theirs = original(folders[family], "sdpa")(input_ids=source, attention_mask=real, **options)
    assert torch.equal(alone, watched)
    if checkpoint.model.config.forced_first_id < 0:
        assert torch.equal(alone, theirs.last_hidden_state if family == "bert" else theirs.logits)


@pytest.mark.parametrize("family", CONFIGS)
def test_a_run_leaves_the_sums_of_its_rows(
    folders: dict[str, Path], family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With padding and without, a bias and without, heads that share keys: the same bits, and no pass over rows."""
    monkeypatch.setattr(fused, "FROM", 1)
    checkpoint = load(folders[family])
    for padded in (0, PADDED):
        source, target = inputs(checkpoint, padded)
        arguments = (source,) if target is None else (source, target)
        with torch.inference_mode():
            alone = checkpoint.model(*arguments)
            with recording() as seen:
                watched = checkpoint.model(*arguments)
        assert torch.equal(alone, watched)
        for site in seen.sites:
            kept = seen.source(site)
            assert isinstance(kept, AttentionInputs)
            assert kept.known is not None, (site, padded)
            unknown = replace(kept, known=None)
            rows, keys, every = slice(1, 4), slice(1, 3), slice(0, kept.n_keys)
            for batch in range(2):
                expected = unknown.weights(batch, 2, rows, every)[:, keys]
                torch.testing.assert_close(kept.weights(batch, 2, rows, keys), expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("family", CONFIGS)
def test_attention_maps_are_those_of_eager_attention_in_double_precision(folders: dict[str, Path], family: str) -> None:
    checkpoint = load(folders[family])
    source, target = inputs(checkpoint, padded=0)
    net = original(folders[family], "eager").double()
    options = {} if target is None else {"decoder_input_ids": target}
    with torch.inference_mode():
        output = net(input_ids=source, output_attentions=True, **options)
    maps = attention_maps(checkpoint, source, target)
    if target is None:
        expected = output.attentions[-1]
        site = f"{checkpoint.model.config.kind}.{len(output.attentions) - 1}.self"
    else:
        expected, site = output.cross_attentions[-1], f"decoder.{len(output.cross_attentions) - 1}.cross"
    np.testing.assert_allclose(maps[site], expected.numpy(), atol=1e-6 if family in SINGLE else 1e-12)
    assert maps["hidden" if family == "bert" else "log_probs"].dtype == np.float64


def test_no_table_of_all_queries_and_keys_is_kept(folders: dict[str, Path]) -> None:
    for family in CONFIGS:
        checkpoint = load(folders[family])
        source, target = inputs(checkpoint)
        with torch.inference_mode(), recording() as seen:
            checkpoint.model.run(source, target)
        for site in seen.sites:
            kept = seen.source(site)
            rows = kept.n_queries + kept.n_keys
            beside = 0 if kept.bias is None else kept.n_heads * rows * 4
            assert kept.kept_bytes <= kept.q.nbytes + kept.k.nbytes + 2 * kept.n_keys + beside, (family, site)
            for tensor in (kept.q, kept.k):
                assert tensor.untyped_storage().nbytes() == tensor.nbytes, (family, site)


def test_grouped_queries_share_their_keys(folders: dict[str, Path]) -> None:
    checkpoint = load(folders["llama"])
    with torch.inference_mode(), recording() as seen:
        checkpoint.model(inputs(checkpoint)[0])
    kept = seen.source("decoder.0.self")
    assert (kept.q.shape[1], kept.k.shape[1], kept.n_heads) == (6, 2, 6)
