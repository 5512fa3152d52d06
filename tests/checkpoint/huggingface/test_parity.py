"""What is recorded lazily is what each family's own eager attention says, and recording changes nothing."""

import copy
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from heedmap import Axis, Checkpoint, load, recording
from heedmap.attention.softmax_inputs import AttentionInputs, Weights
from heedmap.checkpoint.huggingface.probe import check_heads
from heedmap.checkpoint.huggingface.tokenizer import read_tokenizer
from heedmap.errors import CheckpointError
from heedmap.nn import fused
from heedmap.runs.any_model import run_any
from heedmap.sites import Site
from heedmap.text.base import Tokenizer, labels_as_typed
from heedmap.text.tokenizers import train_tokenizer
from tests.checkpoint.huggingface.families import (
    AUTO,
    CONFIGS,
    TEXT,
    TOKENIZERS,
    eager,
    library_inputs,
    native,
    pieces,
    save_random,
    write_folder,
)  # fmt: skip
from tests.checkpoint.huggingface.table import (
    FAMILIES,
    GPT,
    MEASURED,
    PAGE,
    READS,
    WRITES,
    measured,
    on_page,
    table,
)  # fmt: skip

SOURCE, TARGET, PADDED = 7, 5, 3

SINGLE = {"llama"}
"""Families whose own code computes part of attention in single precision, whatever precision the model has."""


def inputs(checkpoint: Checkpoint, padded: int = PADDED) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Two rows of ids, the second padded at its end; and what a decoder reads."""
    drawn = torch.Generator().manual_seed(1)
    source = torch.randint(70, 300, (2, SOURCE), generator=drawn)
    if padded and checkpoint.model.config.pad_id >= 0:
        source[1, SOURCE - padded :] = checkpoint.model.config.pad_id
    target = torch.randint(70, 300, (2, TARGET), generator=drawn)
    return source, target if checkpoint.translates else None


@pytest.mark.parametrize("family", CONFIGS)
def test_recorded_weights_are_those_of_eager_attention(checkpoints: dict[str, Checkpoint], family: str) -> None:
    checkpoint = checkpoints[family]
    source, target = inputs(checkpoint)
    expected, output = eager(checkpoint, source, target, torch.float64)
    model: Any = copy.deepcopy(checkpoint.model).double()
    with torch.inference_mode(), recording() as seen:
        found = model.run(source, target)
    assert set(seen.sites) == set(expected) == set(model.sites)
    assert all(isinstance(seen.source(site), AttentionInputs) for site in seen.sites)
    assert not model.note
    has_padding = model.config.pad_id >= 0
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
    rows = slice(0, SOURCE - PADDED) if family == "bert" else slice(None)
    torch.testing.assert_close(found[0][:, rows], output[0][:, rows], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", CONFIGS)
def test_recording_leaves_the_output_bit_equal_and_keeps_no_table_of_all_queries_and_keys(
    checkpoints: dict[str, Checkpoint], family: str
) -> None:
    checkpoint = checkpoints[family]
    source, target = inputs(checkpoint)
    arguments = (source,) if target is None else (source, target)
    with torch.inference_mode():
        alone = checkpoint.model(*arguments)
        with recording() as seen:
            watched = checkpoint.model(*arguments)
        net = native(checkpoint.folder, AUTO[checkpoint.model.config.kind], "sdpa")
        theirs = net(**library_inputs(checkpoint, source, target))
    assert torch.equal(alone, watched)
    if checkpoint.model.config.forced_first_id < 0:
        assert torch.equal(alone, theirs[0])
    for site in seen.sites:
        kept = seen.source(site)
        beside = 0 if kept.bias is None else kept.n_heads * (kept.n_queries + kept.n_keys) * 4
        assert kept.kept_bytes <= kept.q.nbytes + kept.k.nbytes + 2 * kept.n_keys + beside, site
        for tensor in (kept.q, kept.k):
            assert tensor.untyped_storage().nbytes() == tensor.nbytes, site
        if family == "llama":  # grouped queries share their keys
            assert (kept.q.shape[1], kept.k.shape[1], kept.n_heads) == (6, 2, 6)


@pytest.mark.parametrize("family", CONFIGS)
def test_a_run_leaves_the_sums_of_its_rows(
    checkpoints: dict[str, Checkpoint], family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With padding and without, a bias and without, heads that share keys: the same bits, and no pass over rows."""
    monkeypatch.setattr(fused, "FROM", 1)
    checkpoint = checkpoints[family]
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


KNOWN: dict[str, dict[str, Any]] = json.loads(MEASURED.read_text(encoding="utf-8"))
AGAIN = (
    "BERT to BERT", "BigBird, full attention", "Bloom", "DeBERTa v2, v3", "Falcon, a key for a group", "Gemma 2",
    "gpt-oss", "GPT-Neo", "Mistral, in a window", "ModernBERT", "MVP", "Qwen 2, with its usual config", "RoFormer",
    "Switch", "XLM",
    *(name for name, one in KNOWN.items() if one["recorded"] == "refused"),
)  # fmt: skip


def test_the_page_holds_the_table_on_record() -> None:
    assert KNOWN.keys() == FAMILIES.keys()
    assert on_page() == table(KNOWN)
    assert PAGE.name == "hugging-face.md"
    assert all(float(one["difference"]) < 1e-5 for one in KNOWN.values() if one["recorded"] != "refused")


@pytest.mark.parametrize("family", AGAIN)
def test_what_is_on_record_still_holds(family: str) -> None:
    again, known = measured(family), KNOWN[family]
    assert again.keys() == known.keys()
    assert (again["recorded"], again.get("code")) == (known["recorded"], known.get("code"))
    assert float(again.get("difference", 0)) <= 10 * float(known.get("difference", 0)) + 1e-7


@pytest.fixture
def tokenizers(checkpoints: dict[str, Checkpoint]) -> dict[str, Tokenizer]:
    return {family: found.tokenizer for family, found in checkpoints.items() if found.tokenizer is not None}


@pytest.mark.parametrize("family", TOKENIZERS)
def test_words_marks_and_text_come_back(tokenizers: dict[str, Tokenizer], family: str) -> None:
    tokenizer = tokenizers[family]
    text = "the dog and the bird eats."
    ids = tokenizer.source_ids(text)
    labels = tokenizer.labels(ids)
    special = [tokenizer.is_special(i) for i in ids]
    words = Axis.of_pieces("source", labels, special).merged().texts
    inner = [word for word in words if word not in {"<s>", "</s>", "[CLS]", "[SEP]"}]
    assert " ".join(inner).replace(" .", ".") == text
    assert [i for i, mark in zip(ids, special, strict=True) if not mark] == tokenizer.encode(text)
    assert tokenizer.decode(ids).replace(" .", ".") == text
    assert tokenizer.labels([9_999]) == ["<9999>"]


def test_what_the_vocabulary_lacks_is_shown_as_itself(tokenizers: dict[str, Tokenizer]) -> None:
    text = "the dög 🙂 runs"
    shown = {
        family: Axis.of_pieces("source", labels_as_typed(tokenizer, text, ids), [False] * len(ids)).merged().texts
        for family, tokenizer in tokenizers.items()
        for ids in [tokenizer.encode(text)]
    }
    for family in ("marian", "t5"):
        assert shown[family] == ("the", "dög\u00a0<unk>", "🙂\u00a0<unk>", "runs"), family
    assert shown["bert"] == ("the", "dog", "🙂\u00a0[UNK]", "runs"), "BERT reads letters without their accents"
    assert shown["gpt2"] == ("the", "d\\xc3\\xb6g", "\\xf0\\x9f\\x99\\x82", "runs"), "bytes that are no whole letter"


def test_the_marks_of_a_family_stand_where_it_puts_them(tokenizers: dict[str, Tokenizer]) -> None:
    around = {family: tokenizer.labels(tokenizer.source_ids("dog")) for family, tokenizer in tokenizers.items()}
    assert (around["bart"][0], around["bart"][-1]) == ("<s>", "</s>")
    assert (around["bert"][0], around["bert"][-1]) == ("[CLS]", "[SEP]")
    assert around["t5"][-1] == around["marian"][-1] == "</s>"
    assert around["t5"][0].startswith("▁")
    assert len(tokenizers["marian"]) == len(pieces())


def test_sessions_do_not_turn_each_other_s_language(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "marian", "marian")
    (folder / "target.spm").write_bytes(train_tokenizer(TEXT, 41).model)
    reader = read_tokenizer(folder)
    writer = reader.as_target()
    text = "the dog runs"
    expected = reader.encode(text), writer.encode(text)
    assert expected[0] != expected[1]
    with ThreadPoolExecutor(8) as sessions:
        found = list(sessions.map(lambda i: (reader, writer)[i % 2].encode(text), range(200)))
    assert all(ids == expected[i % 2] for i, ids in enumerate(found))


IDS = torch.tensor([[5, 7, 11, 13, 17, 19, 23]])


def originals(folder: Path) -> tuple[torch.Tensor, ...]:
    with torch.inference_mode():
        return native(folder)(IDS, output_attentions=True).attentions


def test_eager_weights_are_kept_with_a_note(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save_random(folder, "OpenAIGPTLMHeadModel", GPT)
    checkpoint = load(folder)
    model: Any = checkpoint.model
    assert model.note
    assert "has no fused attention" in model.note
    found = run_any(checkpoint, " ".join(map(str, IDS[0].tolist())))
    assert found.record.notes == (model.note,)
    assert model.note in checkpoint.assumptions
    expected = originals(folder)
    assert len(expected) == len(found.record.sites) == 2
    for site, weights in zip(found.record.sites, expected, strict=True):
        np.testing.assert_allclose(found.record[site].all_weights(), weights[0].numpy(), atol=1e-6)
        assert found.record[site].picture(0).notes == (model.note,)
        assert found.record[site].mask().all() == site.startswith("encoder")
    with torch.inference_mode(), recording() as seen:
        watched = checkpoint.model(IDS)
    assert isinstance(seen.source(found.record.sites[0]), Weights)
    with torch.inference_mode():
        assert torch.equal(checkpoint.model(IDS), watched)


def test_a_sink_takes_part_of_each_row(tmp_path: Path) -> None:
    save_random(tmp_path / "sinks", *FAMILIES["gpt-oss"])
    checkpoint = load(tmp_path / "sinks")
    found = run_any(checkpoint, "5 7 9").record["decoder.0.self"]
    assert isinstance(found.source, Weights)
    assert found.keys.texts == ("5", "7", "9")
    assert found.weights(0).sum(1).max() < 1.0
    for notes in (found.picture(0).notes, run_any(checkpoint, "5 7 9").record.notes):
        assert ["attention sink" in note for note in notes] == [True]


@pytest.mark.parametrize("kind", ["SqueezeBertForMaskedLM", "ConvBertForMaskedLM"])
def test_what_is_returned_and_not_seen_as_it_runs_is_refused(kind: str, tmp_path: Path) -> None:
    """SqueezeBERT returns scores in the place of weights; ConvBERT's weights mix what a convolution mixes, too."""
    save_random(tmp_path / "model", kind, READS | dict(embedding_size=24))
    with pytest.raises(CheckpointError, match=r"bert is not seen as it runs .*: choose a model"):
        load(tmp_path / "model")


def test_a_lost_mask_function_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the library hands over no mask, and padding would be looked at in silence."""
    folder = write_folder(tmp_path / "bert", "bert", tokenizer=False)
    assert not load(folder).model.note
    masks = transformers.AttentionMaskInterface._global_mapping
    monkeypatch.delitem(masks, "sdpa")
    found = load(folder)
    assert found.model.note
    assert "differs by" in found.model.note


def test_a_sliding_window_is_drawn_as_masked(tmp_path: Path) -> None:
    save_random(tmp_path / "mistral", "MistralForCausalLM", WRITES | dict(sliding_window=3))
    checkpoint = load(tmp_path / "mistral")
    assert not checkpoint.model.note
    attention_map = run_any(checkpoint, "5 7 11 13 17 19 23").record["decoder.1.self"]
    assert isinstance(attention_map.source, AttentionInputs)
    apart = np.subtract.outer(np.arange(7), np.arange(7))
    np.testing.assert_array_equal(attention_map.mask(), (apart >= 0) & (apart < 3))
    np.testing.assert_allclose(attention_map.all_weights(), originals(tmp_path / "mistral")[1][0], rtol=1e-5, atol=1e-6)
    whole = attention_map.weights(2)
    np.testing.assert_allclose(attention_map.tile(2, slice(2, 6), slice(1, 5)), whole[2:6, 1:5], atol=1e-6)


def test_layers_of_unlike_heads_are_refused_by_name() -> None:
    even = {"encoder.0.self": 4, "encoder.1.self": 4, "decoder.0.self": 2, "decoder.0.cross": 3}
    check_heads({Site(site): count for site, count in even.items()}, "even")
    with pytest.raises(CheckpointError, match="openelm has layers with 2 and 4 heads"):
        check_heads({Site("decoder.0.self"): 4, Site("decoder.1.self"): 2}, "openelm")
