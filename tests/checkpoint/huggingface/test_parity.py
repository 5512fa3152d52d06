"""What is recorded lazily is what each family's own eager attention says, and recording changes nothing."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.checkpoint.huggingface.families import CONFIGS, TEXT, TOKENIZERS, pieces, random_model, write_folder
from tests.checkpoint.huggingface.table import FAMILIES, MEASURED, PAGE, measured, on_page, table
from transformer import Axis, Checkpoint, attention_maps, load, recording
from transformer.attention.softmax_inputs import AttentionInputs, Weights
from transformer.checkpoint.huggingface.library import library, quiet
from transformer.checkpoint.huggingface.probing import check_heads
from transformer.checkpoint.huggingface.tokenizer import HuggingFaceTokenizer, read_tokenizer
from transformer.errors import CheckpointError
from transformer.nn import fused
from transformer.runs.any_model import run_any
from transformer.sites import Site
from transformer.text.base import Tokenizer, labels_as_typed
from transformer.text.text import train_tokenizer

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


KNOWN: dict[str, dict[str, Any]] = json.loads(MEASURED.read_text(encoding="utf-8"))
AGAIN = (
    "BERT to BERT", "BigBird, full attention", "DeBERTa v2, v3", "Falcon, a key for a group", "Gemma 2", "gpt-oss",
    "GPT-Neo",
    "Mistral, in a window", "ModernBERT", "MVP", "Qwen 2, with its usual config", "RoFormer", "Switch", "XLM",
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


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, HuggingFaceTokenizer]:
    place = tmp_path_factory.mktemp("tokenizers")
    return {family: read_tokenizer(write_folder(place / family, family)) for family in CONFIGS}


@pytest.mark.parametrize("family", TOKENIZERS)
def test_words_marks_and_text_come_back(tokenizers: dict[str, HuggingFaceTokenizer], family: str) -> None:
    tokenizer = tokenizers[family]
    assert isinstance(tokenizer, Tokenizer)
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


def test_what_the_vocabulary_lacks_is_shown_as_itself(tokenizers: dict[str, HuggingFaceTokenizer]) -> None:
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


def test_the_marks_of_a_family_stand_where_it_puts_them(tokenizers: dict[str, HuggingFaceTokenizer]) -> None:
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


SMALL: dict[str, Any] = dict(vocab_size=97, hidden_size=24, num_hidden_layers=2, max_position_embeddings=41)
SMALL |= dict(num_attention_heads=6, intermediate_size=11, initializer_range=0.4)
GROUPED: dict[str, Any] = SMALL | dict(num_key_value_heads=2, head_dim=4, intermediate_size=12)
MODELS: dict[str, tuple[str, dict[str, Any], str]] = {
    "own code": (
        "OpenAIGPTLMHeadModel",
        dict(vocab_size=97, n_positions=41, n_embd=24, n_layer=2, n_head=6, initializer_range=0.4),
        "has no fused attention",
    ),
}
IDS = torch.tensor([[5, 7, 11, 13, 17, 19, 23]])


def saved(folder: Path, name: str) -> Path:
    class_name, options, _ = MODELS[name]
    with quiet():
        random_model(class_name, options).save_pretrained(folder)
    return folder


def originals(folder: Path, checkpoint: Checkpoint) -> tuple[torch.Tensor, ...]:
    kind = transformers.AutoModelForCausalLM if checkpoint.model.config.kind == "decoder" else transformers.AutoModel
    with quiet(), torch.inference_mode():
        net = kind.from_pretrained(folder, attn_implementation="eager", local_files_only=True, dtype=torch.float32)
        return net.eval()(IDS, output_attentions=True).attentions


@pytest.mark.parametrize("name", MODELS)
def test_eager_weights_are_kept_with_a_note(tmp_path: Path, name: str) -> None:
    folder = saved(tmp_path / "model", name)
    checkpoint = load(folder)
    model: Any = checkpoint.model
    assert model.eager
    assert MODELS[name][2] in model.note
    found = run_any(checkpoint, " ".join(map(str, IDS[0].tolist())))
    assert found.record.notes == (model.note,)
    assert model.note in checkpoint.assumptions
    expected = originals(folder, checkpoint)
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
    options = GROUPED | dict(num_local_experts=2, num_experts_per_tok=1, layer_types=["full_attention"] * 2)
    with quiet():
        random_model("GptOssForCausalLM", options).save_pretrained(tmp_path / "sinks")
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
    with quiet():
        options = SMALL | dict(embedding_size=24, intermediate_size=12)
        random_model(kind, options).save_pretrained(tmp_path / "model")
    with pytest.raises(CheckpointError, match=r"bert is not seen as it runs .*: choose a model"):
        load(tmp_path / "model")


def test_a_lost_mask_function_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the library hands over no mask, and padding would be looked at in silence."""
    folder = write_folder(tmp_path / "bert", "bert", tokenizer=False)
    assert not load(folder).model.eager
    masks = transformers.AttentionMaskInterface._global_mapping
    monkeypatch.delitem(masks, "sdpa")
    found = load(folder)
    assert found.model.eager
    assert "differs by" in found.model.note


def test_a_sliding_window_is_drawn_as_masked(tmp_path: Path) -> None:
    options = GROUPED | dict(sliding_window=3)
    with quiet():
        random_model("MistralForCausalLM", options).save_pretrained(tmp_path / "mistral")
    checkpoint = load(tmp_path / "mistral")
    assert not checkpoint.model.eager
    attention_map = run_any(checkpoint, "5 7 11 13 17 19 23").record["decoder.1.self"]
    assert isinstance(attention_map.source, AttentionInputs)
    apart = np.subtract.outer(np.arange(7), np.arange(7))
    np.testing.assert_array_equal(attention_map.mask(), (apart >= 0) & (apart < 3))
    np.testing.assert_allclose(
        attention_map.all_weights(), originals(checkpoint.folder, checkpoint)[1][0], rtol=1e-5, atol=1e-6
    )
    whole = attention_map.weights(2)
    np.testing.assert_allclose(attention_map.tile(2, slice(2, 6), slice(1, 5)), whole[2:6, 1:5], atol=1e-6)


def test_layers_of_unlike_heads_are_refused_by_name() -> None:
    even = {"encoder.0.self": 4, "encoder.1.self": 4, "decoder.0.self": 2, "decoder.0.cross": 3}
    check_heads({Site(site): count for site, count in even.items()}, "even")
    with pytest.raises(CheckpointError, match="openelm has layers with 2 and 4 heads"):
        check_heads({Site("decoder.0.self"): 4, Site("decoder.1.self"): 2}, "openelm")
