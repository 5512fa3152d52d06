"""Every layout at sizes drawn at random: made by the original, saved, loaded, and equal to it in float64.

Models under the names of nanoGPT may compute something else, and names and shapes cannot tell these forks apart:
without an answer their maps are refused, or say on what they rest.
"""

import io
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor, nn

from heedmap import attention_maps, load, report, translate
from heedmap.errors import CheckpointError, InputError
from heedmap.nn.search import DecodingOptions
from heedmap.plots.charts import heatmap
from heedmap.plots.export import csv
from heedmap.plots.picture import UNSURE
from heedmap.plots.theme import LIGHT
from heedmap.runs.any_model import run_any
from heedmap.runs.corpus import translate_lines
from heedmap.text.tokenizers import IdTokenizer, SpecialIds, VocabularyTokenizer
from tests.checkpoint.originals import drawn, torch_modules
from tests.checkpoint.originals.common import Maps, same, scramble, table
from tests.checkpoint.originals.drawn import IDS, Drawn, Fork, Sizes, fork
from tests.checkpoint.originals.torch_modules import Around, translator
from tests.checkpoint.references import REFERENCE, heads, reference_file

Made = tuple[Any, Maps, tuple[Tensor, ...], dict[str, Any]]
"""What is saved, what the original computes, what it reads, and the answers about it."""


def ids(vocab: int, length: int, padded: int = 0) -> Tensor:
    found = torch.randint(1, vocab, (2, length))
    if padded:
        found[1, length - padded :] = 0
    return found


def ran(original: Any, *inputs: Tensor) -> tuple[Any, Maps]:
    """The weights of a module, and what it computes."""
    state = {name: one.clone() for name, one in scramble(original).state_dict().items()}
    with torch.no_grad():
        return state, original.double()(*inputs)


def annotated(s: Sizes) -> Made:
    w, inputs = Drawn(), (ids(s.source, 11, 3), ids(s.target, 7, 2))
    return w.state, drawn.annotated(w, s, *inputs), inputs, {"n_heads": s.heads}


def jadore(s: Sizes) -> Made:
    w, inputs = Drawn(), (ids(s.source, 11, 3), ids(s.target, 7, 2))
    scale = s.draw.choice(["none", "emb", "prj"])
    maps = drawn.jadore(w, s, *inputs, tied=scale != "none", scale=scale)
    return w.state, maps, inputs, {"n_heads": s.heads} | ({} if scale == "none" else {"scale_emb_or_prj": scale})


def kmer(s: Sizes) -> Made:
    w, letters = Drawn(), ids(s.source, 13)
    return w.state, drawn.kmer(w, s, letters), (letters,), {"n_heads": s.heads}


def gpt(s: Sizes) -> Made:
    w, read = Drawn(), ids(s.source, 11)
    maps = drawn.gpt(w, s, read, bias=s.draw.random() < 0.5, mini=s.draw.random() < 0.5)
    state = {f"_orig_mod.{name}": tensor for name, tensor in w.state.items()}
    return {"model": state, "best_val_loss": torch.tensor(1.5)}, maps, (read,), {"n_heads": s.heads}


NAMES = (
    ("src_embed", "tgt_embed", "transformer", "generator"), ("src_emb", "tgt_emb", "net", "to_vocab"),
    ("src_tok_emb.embedding", "tgt_tok_emb.embedding", "transformer", "generator"),
)  # fmt: skip
"""Those of the references, those of PyTorch's tutorial, and some whose scores are told by their bias."""

TABLE = "positional_encoding.pos_embedding"


def torch_module(s: Sizes) -> Made:
    names, norm_first, activation = s.draw.choice(NAMES), s.draw.random() < 0.5, s.draw.choice(["relu", "gelu"])
    options = dict(activation=activation, norm_first=norm_first, names=names)
    options |= dict(bias=names[3] == "to_vocab" or s.draw.random() < 0.5)
    options |= dict(stored=s.draw.choice(["", TABLE]) if "tok" not in names[0] else TABLE)
    depths, inputs = (s.layers, s.draw.choice([1, 2])), (ids(s.source, 11, 3), ids(s.target, 7, 2))
    made = ran(translator(s.source, s.target, depths, s.d_model, s.heads, s.d_ff, **options), *inputs)
    return *made, inputs, dict(n_heads=s.heads, activation=activation, norm_first=norm_first, scale_embedding=True)


def encoder_only(s: Sizes) -> Made:
    read = ids(s.source, 13)
    made = ran(torch_modules.encoder_only(s.source, s.layers, s.d_model, s.heads, s.d_ff), read)
    return *made, (read,), {"n_heads": s.heads, "scale_embedding": False}


LANGUAGE_MODELS = (("embedding", "linear"), ("encoder", "decoder"), ("input_emb", "to_words"))
"""What embeds and what scores in PyTorch's tutorial, now and before, and in a module of one's own."""


def language_model(s: Sizes) -> Made:
    norm_first, causal, (token, scores) = s.draw.random() < 0.5, s.draw.random() < 0.5, s.draw.choice(LANGUAGE_MODELS)
    layer = nn.TransformerEncoderLayer(s.d_model, s.heads, s.d_ff, 0.0, "gelu", batch_first=True, norm_first=norm_first)
    norm, rows = nn.LayerNorm(s.d_model) if s.draw.random() < 0.5 else None, table(30, s.d_model)[:, None].float()
    parts: dict[str, Any] = {token: nn.Embedding(s.source, s.d_model), scores: nn.Linear(s.d_model, s.source)}
    parts["transformer_encoder"] = nn.TransformerEncoder(layer, s.layers, norm, enable_nested_tensor=False)
    options: dict[str, Any] = dict(token=token, scores=scores, scaled=True, causal=causal, padded=True)
    read = ids(s.source, 13, 4)
    made = ran(Around(parts | {"pos_encoder.pe": rows}, ["pos_encoder.pe"], **options), read)
    answers = dict(n_heads=s.heads, activation="gelu", norm_first=norm_first, scale_embedding=True, pad_id=0)
    return *made, (read,), answers | dict(causal=causal)


MAKERS = (annotated, jadore, kmer, gpt, torch_module, encoder_only, language_model)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_a_layout_is_the_original(make: Any, seed: int, tmp_path: Path) -> None:
    torch.manual_seed(seed)
    saved, expected, inputs, answers = make(Sizes.drawn(seed))
    torch.save(saved, tmp_path / "model.pt")
    same(load(tmp_path / "model.pt", **answers), expected, *inputs, within=1e-12)


ANSWERS = ("n_heads", "activation", "norm_first", "pad_id", "bos_id", "eos_id", "scale_embedding")


def _answers(folder: Path) -> dict[str, Any]:
    """At most what is asked, out of what the fixture says of itself."""
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    about |= heads(folder.name)
    about["bos_id"] = about.get("sos_id", about.get("bos_id"))
    return {name: about[name] for name in ANSWERS if about.get(name) is not None}


@pytest.mark.parametrize("folder", sorted(REFERENCE.iterdir()), ids=lambda folder: folder.name)
def test_every_map_and_output_is_the_original_s(folder):
    expected = load_file(folder / "expected.safetensors")
    inputs = [expected.pop(name) for name in ("input", "source", "target") if name in expected]
    checkpoint = load(folder, **_answers(folder))
    if "weights" in expected:  # a recurrent pair: one sentence, no axis for the batch
        expected = {"decoder.cross": expected["weights"][None, None], "log_probs": expected["log_probs"][None]}
    assert same(checkpoint, expected, *inputs).keys() == expected.keys()


def test_jadore_s_settings_say_what_pads_and_without_them_its_scale_is_asked(tmp_path: Path) -> None:
    """The published files are compared with the originals above; here one is told otherwise."""
    path, own = tmp_path / "model.pt", torch.load(reference_file("jadore-emb"), weights_only=False)
    own["settings"].src_pad_idx, own["settings"].trg_pad_idx = 2, 5
    torch.save(own, path)
    config = load(path).model.config
    assert (config.pad_id, config.written_pad_id) == (2, 5)
    torch.save(own["model"], path)
    inputs = ids(35, 11), ids(35, 7)
    expected = attention_maps(load(REFERENCE / "jadore-emb"), *inputs)
    for scale, equal in (("emb", True), ("prj", False), ("none", False)):
        found = attention_maps(load(path, n_heads=3, scale_emb_or_prj=scale), *inputs)
        assert all((found[name] == expected[name]).all() for name in expected) == equal


GPT2: dict[str, Any] = dict(vocab_size=31, initializer_range=0.4, n_embd=15, n_layer=2, n_head=3, n_inner=23)
GPT2 |= dict(n_positions=29, attn_implementation="eager")


@pytest.mark.parametrize("kind", [transformers.GPT2LMHeadModel, transformers.GPT2Model])
def test_gpt_2_without_its_config(kind: Any, tmp_path: Path) -> None:
    torch.manual_seed(11)
    original, path, read = scramble(kind(transformers.GPT2Config(**GPT2))), tmp_path / "model.bin", ids(31, 11)
    torch.save(original.state_dict(), path)
    with torch.no_grad():
        run = original.double()(read, output_attentions=True, output_hidden_states=True)
        table = original.get_input_embeddings().weight
        expected = {f"decoder.{i}.self": weights for i, weights in enumerate(run.attentions)}
        expected["log_probs"] = (run.hidden_states[-1] @ table.T).log_softmax(-1)
    same(load(path, n_heads=3), expected, read, within=1e-12)
    torch.save(dict(original.float().state_dict()) | {"h.0.attn.bias": torch.ones(1, 1, 29, 29)}, path)
    if kind is transformers.GPT2Model:  # every token would see all
        assert list(report(path).unexpected) == ["h.0.attn.bias"]


SHORT = DecodingOptions(max_length=5, beam=2)


def test_ids_are_typed_and_read():
    found = translate(load(REFERENCE / "jadore-separate"), "5 7 9", SHORT)
    assert found.source_ids == (5, 7, 9, 2)
    assert found.record["encoder.0.self"].queries.labels == ("5", "7", "9", "2")
    assert [step.text for step in found.steps] == [str(i) for i in found.target_ids]
    assert found.text == " ".join(str(i) for i in found.target_ids if i > 2)


def test_a_forced_target_has_the_target_s_vocabulary_and_without_an_end_mark_nothing_is_added():
    checkpoint = load(reference_file("annotated"), n_heads=3)
    words = [f"w{i}" for i in range(29)]
    named = replace(checkpoint, target_tokenizer=VocabularyTokenizer(words, SpecialIds()))
    found = translate(named, "30 7", forced="w5 w28")
    assert found.target_ids == (5, 28, 2)
    assert found.record["decoder.0.cross"].queries.labels == ("w5", "w28", "w2")
    assert found.record["decoder.0.cross"].keys.labels == ("30", "7", "2")
    with pytest.raises(InputError, match="'29' is no id: type whole numbers from 0 to 28"):
        translate(checkpoint, "30 7", forced="29")
    endless = load(reference_file("annotated"), n_heads=3, eos_id=-1)
    found = translate(endless, "5 7", forced="9 11 13")
    assert (found.source_ids, found.target_ids) == ((5, 7), (9, 11, 13))
    with pytest.raises(InputError, match="the text is empty"):
        translate(endless, " ")


def test_each_side_has_the_positions_of_its_own_table(tmp_path: Path) -> None:
    rows = {"src_embed.1.pe": table(19, 12)[None].float(), "tgt_embed.1.pe": table(21, 12)[None].float()}
    torch.manual_seed(1)
    torch.save(drawn.annotated_weights() | rows, tmp_path / "model.pt")
    checkpoint = load(tmp_path / "model.pt", n_heads=3, eos_id=-1)
    with pytest.raises(InputError, match="the text has 20 tokens, this checkpoint reads at most 19"):
        translate(checkpoint, " ".join("1" * 20))
    assert len(translate(checkpoint, "1 2", DecodingOptions(beam=1, max_length=40)).steps) == 21


@pytest.mark.parametrize("name", ["rnn-tutorial-1", "rnn-tutorial-2", "torch-postnorm"])
def test_whole_files_of_ids_are_translated(name):
    checkpoint = load(REFERENCE / name, **heads(name))
    model, tokenizer, _ = checkpoint.translator()
    assert isinstance(checkpoint.writer, IdTokenizer)
    lines = translate_lines(model, tokenizer, ["5 7 9", "", "11"], SHORT, writer=checkpoint.writer)
    assert lines[1].text == ""
    assert all(int(word) < len(checkpoint.writer) for line in lines for word in line.text.split())


ATTENTION = {"n_heads", "norm_first", "scores_divided_by", "activation", "pad_id"}
"""What is asked of every such file, and what its attention depends on."""

TYPED = " ".join(map(str, IDS[0].tolist()))
FORKS: dict[str, dict[str, Any]] = {
    "as published": {},
    "no 1/sqrt(d)": {"divided_by": "nothing"},
    "divided by the model's width": {"divided_by": "d_model", "bias": False},
    "norm after": {"norm_first": False},
}


def _saved(folder: Path, made: Fork) -> Path:
    torch.save({"model": made.state}, folder / "ckpt.pt")
    return folder / "ckpt.pt"


def _fork(seed: int, **choices: Any) -> Fork:
    torch.manual_seed(seed)
    return fork(random.Random(seed).choice([2, 3, 5]), **choices)


@pytest.mark.parametrize("name", FORKS)
def test_a_fork_is_read_right_once_its_questions_are_answered(name, tmp_path):
    made = _fork(len(name), **FORKS[name])
    path = _saved(tmp_path, made)
    assert {question.name for question in report(path).questions if not question.rare} == ATTENTION
    with pytest.raises(CheckpointError, match="n_heads"):
        load(path)
    found = report(path, **made.answers)
    assert (found.confidence, found.is_ready, found.guesses) == (1.0, True, ())
    checkpoint = load(path, **made.answers)
    same(checkpoint, made.maps, IDS, within=1e-12)
    assert run_any(checkpoint, TYPED).record.notes == ()


def test_no_map_of_a_fork_is_shown_as_if_it_were_sure(tmp_path):
    """With heads alone, each default that is assumed is named on every map."""
    made = _fork(3, norm_first=False)
    run = run_any(load(_saved(tmp_path, made), n_heads=made.answers["n_heads"]), TYPED)
    expected = made.maps["decoder.1.self"][0].numpy()
    assert abs(run.record["decoder.1.self"].all_weights() - expected).max() > 1e-3  # the defaults are not this fork's
    for picture in run.record["decoder.0.self"].pictures():
        assert UNSURE[0] in {getattr(note, "code", "") for note in picture.notes}
        assert "scores_divided_by='d_head'" in " ".join(picture.notes)
        assert "assumed, since the file does not say: " in csv(picture)
        said = heatmap(picture).layout.title.subtitle
        assert (said.font.color, "norm_first=True" in said.text) == (LIGHT.second, True)
    assert "norm_first=True" in str(np.load(io.BytesIO(run.record.npz()))["notes"])


def test_a_fork_without_a_table_of_positions_is_to_be_recorded_and_nobody_is_told_to_add_one(tmp_path):
    made = _fork(5)
    state = {name: tensor for name, tensor in made.state.items() if "wpe" not in name}
    torch.save(state, tmp_path / "ckpt.pt")
    found = report(tmp_path / "ckpt.pt", **made.answers)
    assert list(found.missing) == ["transformer.wpe.weight"]
    assert "rotary positions, ALiBi and no positions at all leave none" in found.changes[0]
    assert "with recording(model)" in found.text


@pytest.mark.parametrize("causal", [True, False])
def test_whether_a_language_model_hides_the_future_is_asked_without_a_default(causal, tmp_path):
    """The one of PyTorch's tutorial: an embedding, nn.TransformerEncoder, the embedding as scores."""
    torch.manual_seed(9)
    layer = nn.TransformerEncoderLayer(18, 3, 37, 0.0, batch_first=True)
    parts: dict[str, Any] = {"encoder": nn.Embedding(31, 18), "decoder": nn.Linear(18, 31)}
    parts["decoder"].weight = parts["encoder"].weight
    parts["transformer_encoder"] = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    state, expected = ran(Around(parts, token="encoder", scores="decoder", causal=causal), IDS)
    torch.save(state, tmp_path / "lm.pt")
    answers = {"n_heads": 3, "scale_embedding": False, "norm_first": False, "activation": "relu", "pad_id": -1}
    answers |= {"positions": "none"}
    found = report(tmp_path / "lm.pt", **answers)
    assert [question.name for question in found.open] == ["causal"]
    with pytest.raises(CheckpointError, match="causal"):
        load(tmp_path / "lm.pt", **answers)
    same(load(tmp_path / "lm.pt", **answers, causal=causal), expected, IDS)
