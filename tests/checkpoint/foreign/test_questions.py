"""What shapes cannot tell is asked, with defaults; answers that cannot be right are refused."""

import ast
import math
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn

from tests.checkpoint.originals import annotated
from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.torch_modules import Translator
from tests.checkpoint.references import REFERENCE, model, reference_file, weights
from transformer import attention_maps, recording
from transformer.checkpoint import load, report
from transformer.checkpoint.foreign.questions import heads_question
from transformer.checkpoint.foreign.report import Report
from transformer.errors import CheckpointError
from transformer.lessons.leaks import leak_test
from transformer.runs.check import check


def _names(path, **answers):
    return {question.name for question in report(path, **answers).questions if not (question.rare or question.told)}


def test_only_what_shapes_cannot_tell_is_asked():
    marks = {"pad_id", "bos_id", "eos_id"}
    options = {"n_heads", "activation", "norm_first", "scale_embedding"}
    assert _names(REFERENCE / "annotated") == {"n_heads"} | marks
    assert _names(REFERENCE / "jadore-emb") == {"bos_id", "eos_id"}
    assert _names(REFERENCE / "rnn-tutorial-1") == marks
    assert _names(REFERENCE / "torch-prenorm") == options | {"positions"} | marks
    assert _names(REFERENCE / "encoder-only") == options | {"position_axis", "causal", "pad_id"}
    assert _names(REFERENCE / "kmer") == options | {"pad_id"}


def test_heads_are_offered_as_every_divisor():
    question = next(q for q in report(REFERENCE / "annotated").questions if q.name == "n_heads")
    assert question.options == (1, 2, 3, 4, 6, 8, 12, 24)
    assert question.is_open


@pytest.mark.parametrize(
    ("d_model", "expected"), [(512, 8), (768, 12), (128, 2), (64, 8), (24, 8), (18, 6), (13, 1), (7, 7)]
)
def test_a_usual_number_of_heads_is_proposed(d_model, expected):
    assert heads_question(d_model).default == expected


def test_a_width_that_only_one_number_of_heads_divides_asks_nothing():
    assert not heads_question(1).is_open


def test_heads_are_asked_first_and_nothing_is_run_before():
    found = report(reference_file("annotated"), pad_id=0)
    assert (found.fits, found.is_ready, found.questions[0].name) == (True, False, "n_heads")
    assert "to be answered before it can be run: n_heads (How many" in found.text
    with pytest.raises(CheckpointError, match=r"page Your model, by keyword in load\(\), .*: n_heads \(How many"):
        load(reference_file("annotated"))
    assert report(reference_file("annotated"), n_heads=3).is_ready


def test_what_is_assumed_is_said_and_whether_attention_depends_on_it():
    found = load(reference_file("annotated"), n_heads=3, pad_id=0)
    said = "eos_id=2 is assumed; no attention depends on it"
    assert found.assumptions == ("bos_id=1 is assumed (a common choice)", said)
    assert found.guesses == ("assumed, since the file does not say: bos_id=1",)


@pytest.mark.parametrize("name", ["n_heads", "heads", "nhead", "n_head"])
def test_other_words_for_heads_are_understood(name):
    assert model(reference_file("annotated"), **{name: 3}).config.n_heads == 3


@pytest.mark.parametrize(
    ("reference", "answers", "message"),
    [
        ("annotated", {"n_heads": 5}, r"n_heads=5 does not fit: choose one of 1, 2, 3"),
        ("annotated", {"n_heads": True}, "n_heads=True does not fit"),
        ("annotated", {"n_heads": "3"}, "n_heads='3' does not fit"),
        ("annotated", {"n_heads": 3, "heads": 4}, "n_heads is answered twice"),
        ("annotated", {"colour": "blue"}, r"colour='blue' answers nothing.*n_heads, pad_id"),
        ("annotated", {"d_model": 512}, "d_model=512 contradicts the file, which says 24"),
        ("annotated", {"pad_id": -2}, "pad_id=-2 does not fit: give a whole number of at least -1"),
        ("annotated", {"pad_id": 2.0}, "pad_id=2.0 does not fit"),
        ("annotated", {"eos_id": 29}, "eos_id=29 is no token: the vocabulary has ids 0 to 28"),
        ("torch-prenorm", {"activation": "tanh"}, "'relu', 'gelu'"),
        ("torch-prenorm", {"norm_first": 1}, "False, True"),
        ("jadore-emb", {"n_heads": 4}, "n_heads=4 does not fit: choose one of 1, 2, 3, 6, 9, 18"),
        ("rnn-tutorial-1", {"attention": "additive"}, "attention='additive' contradicts the file"),
    ],
)
def test_answers_that_cannot_be_right_are_refused(reference, answers, message):
    with pytest.raises(CheckpointError, match=message):
        load(REFERENCE / reference, **answers)


def test_answers_that_repeat_the_file_are_welcome():
    config = model(reference_file("annotated"), n_heads=3, d_model=24, source_vocab=31).config
    assert (config.n_heads, config.d_model) == (3, 24)


def _torch_module(tmp_path, source_vocab, target_vocab):
    original = scramble(Translator(source_vocab, target_vocab, (1, 1), 6, 2, 5, names=("a", "b", "t", "o")))
    path = tmp_path / "model.pt"
    torch.save(original.state_dict(), path)
    return path, original


def test_which_embedding_reads_what_is_asked_where_nothing_tells(tmp_path):
    path, original = _torch_module(tmp_path, 13, 13)
    heads = {"n_heads": 2, "scale_embedding": True}
    asked = {question.name: question for question in report(path).questions}
    assert asked["source_embedding"].options == ("a.weight", "b.weight")
    assert torch.equal(model(path, **heads).source_embedding.weight, original.a.weight)
    assert torch.equal(model(path, **heads, source_embedding="b.weight").source_embedding.weight, original.b.weight)


def test_which_embedding_reads_what_is_told_by_the_projection(tmp_path):
    path, _ = _torch_module(tmp_path, 13, 11)
    assert "source_embedding" not in _names(path)
    assert report(path).config.source_vocab == 13


def test_settings_that_do_not_divide_are_not_believed(tmp_path):
    from argparse import Namespace

    path = tmp_path / "model.chkpt"
    torch.save({"settings": Namespace(n_head=7), "model": weights("jadore-emb")}, path)
    with pytest.raises(CheckpointError, match=r"n_heads \(How many"):
        load(path)


def test_source_and_target_may_be_padded_differently():
    checkpoint = load(reference_file("annotated"), n_heads=3, pad_id=0, target_pad_id=7)
    assert (checkpoint.model.config.pad_id, checkpoint.model.config.written_pad_id) == (0, 7)
    assert (checkpoint.tokenizer.pad_id, checkpoint.writer.pad_id) == (0, 7)
    source, target = [[5, 6, 0]], [[1, 7, 9]]
    maps = attention_maps(checkpoint, source, target)
    assert (maps["decoder.0.self"][..., 1] == 0).all()
    assert (maps["decoder.0.self"][:, :, 2, 2] > 0).all()
    assert (maps["encoder.0.self"][..., 2] == 0).all()
    assert leak_test(checkpoint).padding <= 1e-9


def _with_options(path, **options):
    torch.save({"state_dict": {f"model.{n}": t for n, t in weights("annotated").items()}} | options, path)
    return path


@pytest.mark.parametrize(
    ("options", "place", "told"),
    [
        ({"hyper_parameters": {"nhead": 4, "pad_idx": 3}}, "hyper_parameters", {"n_heads": 4, "pad_id": 3}),
        ({"args": Namespace(num_heads=12, eos_idx=7)}, "args", {"n_heads": 12, "eos_id": 7}),
        ({"config": {"n_head": 5, "pad_idx": "none"}}, "config", {}),  # no possible answers
        ({"hparams": {"heads": True}}, "hparams", {}),
        ({"model_args": {"n_head": 4}, "config": {"n_head": 5}}, "model_args", {"n_heads": 4}),
        ({"model_kwargs": {"n_head": 4}, "cfg": {"heads": 4, "pad_idx": 3}}, "model_kwargs", {"n_heads": 4}),
    ],
)
def test_options_beside_the_weights_are_believed_where_they_are_possible_answers(options, place, told, tmp_path):
    path = _with_options(tmp_path / "epoch.ckpt", **options)
    found = report(path)
    asked = {question.name: question for question in found.questions}
    assert {name: asked[name].default for name in told} == told
    assert all(asked[name].told == place and f"{place} beside the weights" in asked[name].why for name in told)
    assert not any(assumption.startswith(tuple(told)) for assumption in found.assumptions if told)
    assert found.is_ready == ("n_heads" in told)
    assert report(path, n_heads=3).config.n_heads == 3  # an answer counts for more


def test_options_that_differ_are_asked_and_not_decided(tmp_path):
    made, flags = {"num_heads": 2, "eos_idx": 4, "bos_idx": 5}, {"n_head": 8, "eos_idx": 6, "bos_idx": 5}
    path = _with_options(tmp_path / "ckpt.pt", model_args=made, config=flags)
    found = report(path)
    assert [question.name for question in found.open] == ["n_heads"]
    assert "model_args says 2, config says 8" in found.open[0].why
    with pytest.raises(CheckpointError, match="model_args says 2, config says 8"):
        load(path)
    asked = {question.name: question for question in found.questions}
    assert (asked["bos_id"].told, asked["bos_id"].default) == ("model_args", 5)
    assert asked["eos_id"].default == 4  # no attention depends on it: the first place counts
    assert load(path, n_heads=2).guesses == ("assumed, since the file does not say: pad_id=0",)


SOURCE, TARGET, HEADS, D, D_FF = 31, 29, 3, 12, 17
sources = torch.tensor([[7, 5, 9, 3, 4], [0, 0, 0, 0, 0]])
targets = torch.tensor([[0, 0, 6, 0, 8, 2, 3], [5, 6, 7, 0, 0, 0, 0]])


def _attend(q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None) -> tuple[Tensor, Tensor]:
    """As it is published: hidden scores are -1e9."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    weights = (scores if visible is None else scores.masked_fill(~visible, -1e9)).softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(2), weights


@pytest.fixture
def path(monkeypatch, tmp_path):
    torch.manual_seed(3)
    monkeypatch.setattr(annotated, "attend", _attend)
    original = scramble(annotated.EncoderDecoder(SOURCE, TARGET, 2, D, HEADS, D_FF))
    torch.save(original.state_dict(), tmp_path / "model.pt")
    with torch.no_grad():
        expected = original.double()(sources, targets)
    return tmp_path / "model.pt", {name: values.numpy() for name, values in expected.items()}


def test_a_model_that_hides_with_a_large_number_looks_everywhere_from_a_row_that_sees_nothing(path):
    file, expected = path
    found = attention_maps(load(file, n_heads=HEADS), sources, targets)
    for name, values in expected.items():
        assert abs(found[name] - values).max() < 1e-9, name
    assert np.allclose(expected["decoder.0.self"][0, :, :2], 1 / 7)  # two rows that see padding alone
    assert np.allclose(expected["decoder.1.cross"][1], 1 / 5)  # a source of padding alone


def test_the_record_shows_them_and_says_so(path):
    file, expected = path
    checkpoint = load(file, n_heads=HEADS)
    checkpoint.model.double()
    with torch.no_grad(), recording() as seen:
        checkpoint.model(sources, targets)
    attention = seen.map("decoder.0.self")
    assert abs(attention.all_weights() - expected["decoder.0.self"][0]).max() < 1e-9
    assert abs(attention.tile(1, slice(0, 3), slice(4, 7)) - expected["decoder.0.self"][0, 1, :3, 4:7]).max() < 1e-9
    assert attention.mask()[:2].all()
    assert not attention.mask()[2, :2].any()
    assert "looks at all of them alike" in " ".join(map(str, attention.picture(0).notes))
    assert check(checkpoint, sources, expected, targets).agrees
    assert all(one.unseen == 0 for one in check(checkpoint, sources, expected, targets).differences)


TINY: dict[str, Any] = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 17}
T5: dict[str, Any] = {"d_model": 12, "d_kv": 5, "d_ff": 14, "num_layers": 1, "num_heads": 2, "vocab_size": 17}
GPTJ: dict[str, Any] = {"vocab_size": 17, "n_embd": 12, "n_layer": 1, "n_head": 2, "rotary_dim": 2}
BLOOM: dict[str, Any] = {"vocab_size": 17, "hidden_size": 12, "n_layer": 1, "n_head": 2}
STATES: dict[str, tuple[Any, str]] = {
    "t5's decoder": (
        lambda: nn.ModuleDict({"decoder": transformers.T5Model(transformers.T5Config(**T5)).decoder}),
        "T5",
    ),
    "llama": (lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**TINY, intermediate_size=14)), "Llama"),
    "albert": (lambda: transformers.AlbertModel(transformers.AlbertConfig(**TINY, embedding_size=8)), "ALBERT"),
    "deberta": (lambda: transformers.DebertaV2Model(transformers.DebertaV2Config(**TINY)), "DeBERTa"),
    "bloom": (lambda: transformers.BloomModel(transformers.BloomConfig(**BLOOM)), "Bloom"),
    "gpt-j": (
        lambda: transformers.GPTJModel(transformers.GPTJConfig(**GPTJ)),
        "GPT-J",
    ),
    "vit": (lambda: transformers.CLIPVisionModel(transformers.CLIPVisionConfig(hidden_size=12, intermediate_size=14,
            num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4)), "images"),
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_a_file_is_told_by_its_names(name, tmp_path):
    make, called = STATES[name]
    torch.save(make().state_dict(), tmp_path / "model.pt")
    found = report(tmp_path / "model.pt")
    assert (found.layout, found.fits) == (None, False)
    assert called in str(found.title)
    assert found.changes == (found.remedy,)
    with pytest.raises(CheckpointError, match="bring"):
        load(tmp_path / "model.pt")


def test_lora_and_consolidated_llama_and_other_families_are_told_too(tmp_path):
    for name, called in (
        ("base_model.model.layers.0.q.lora_A.weight", "adapter"),
        ("layers.0.attention.wq.weight", "Llama"),
        ("bert.encoder.layer.0.attention.self.query.weight", "BERT, RoBERTa or ELECTRA"),
        ("transformer.layer.0.attention.q_lin.weight", "DistilBERT"),
        ("model.encoder.layers.0.self_attn.q_proj.weight", "BART, mBART, Marian or Pegasus"),
        ("blocks.0.layernorm_before.weight", "images"),
        ("patch_embed.proj.weight", "images"),
    ):
        torch.save({name: torch.ones(3, 5)}, tmp_path / "model.pt")
        assert called in str(report(tmp_path / "model.pt").title)


def _report(folder: Path, **beside: Any) -> Report:
    """A ViT of one's own: three blocks around nn.MultiheadAttention."""
    block = {"attn": nn.MultiheadAttention(12, 3), "mlp": nn.Linear(12, 12)}
    blocks = nn.ModuleList(nn.ModuleDict(block) for _ in range(3))
    torch.save({"model": nn.ModuleDict({"blocks": blocks}).state_dict(), **beside}, folder / "my vit.pt")
    return report(folder / "my vit.pt")


def test_a_refusal_names_what_was_found_and_gives_three_lines_that_are_python(tmp_path):
    found = _report(tmp_path)
    assert found.layout is None
    assert {"3 layers at blocks", "the number of heads is not told"} <= set(found.reasons)
    assert "attention is torch.nn.MultiheadAttention (in_proj_weight)" in found.reasons
    first, second, third = found.record
    assert first == "from transformer import recording"
    assert second == "with recording(model) as seen: model(inputs)"
    assert third == "seen.record(model='my vit').save(\"run.heedmap\")"
    assert ast.parse("\n".join(found.record))
    assert found.text.endswith("\n".join(found.record))
    assert "drop run.heedmap here" in found.text
    told = _report(tmp_path, args={"num_heads": 3}).reasons
    assert "3 heads: args.num_heads beside the weights says so" in told


def test_a_file_with_a_map_a_head_says_how_many(tmp_path):
    names = [f"blocks.{i}.sa.heads.{j}.key.weight" for i in range(2) for j in range(5)]
    torch.save({name: torch.ones(3, 15) for name in names}, tmp_path / "model.pt")
    found = report(tmp_path / "model.pt").reasons
    assert {"2 layers at blocks", "5 heads, each with maps of its own at blocks.0.sa.heads"} <= set(found)
    assert "no torch.nn.MultiheadAttention (no in_proj_weight)" in found


def test_what_attends_to_nothing_is_not_to_be_recorded_and_what_is_read_neither(tmp_path):
    net = nn.ModuleDict({"embedding": nn.Embedding(37, 13), "gru": nn.GRU(13, 13), "out": nn.Linear(13, 37)})
    torch.save(net.state_dict(), tmp_path / "model.pt")
    assert report(tmp_path / "model.pt").record == ()
    assert report(REFERENCE / "annotated").record == ()
