"""Every layout at sizes drawn at random: made by the original, saved, loaded, equal within 1e-9 in float64."""

import io
import json
import random
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor, nn

from tests.checkpoint.originals import rnn
from tests.checkpoint.originals.annotated import EncoderDecoder
from tests.checkpoint.originals.common import Maps, scramble
from tests.checkpoint.originals.gpt import Gpt
from tests.checkpoint.originals.jadore import Transformer
from tests.checkpoint.originals.kmer import KmerEncoder
from tests.checkpoint.originals.torch_modules import Classifier, EncoderOnly, Translator
from tests.checkpoint.references import REFERENCE, heads, reference_file
from transformer import attention_maps, load, translate
from transformer.checkpoint import report
from transformer.checkpoint.foreign.bundle import bundle
from transformer.checkpoint.ours.folder import save_folder
from transformer.errors import CheckpointError, InputError
from transformer.nn.decoder import Decoder, DecoderConfig
from transformer.nn.encoder import Encoder, EncoderConfig
from transformer.nn.kmer import KmerClassifier, KmerConfig
from transformer.nn.recurrent import Recurrent, RecurrentConfig
from transformer.nn.search import DecodingOptions
from transformer.nn.seq2seq import Seq2Seq, Seq2SeqConfig
from transformer.runs.corpus import translate_lines
from transformer.text.vocabulary import IdTokenizer, SpecialIds, VocabularyTokenizer

Made = tuple[Any, nn.Module, tuple[Tensor, ...], dict[str, Any]]
"""What is saved, the original, what it reads, and the answers about it."""


class Sizes:
    """Sizes of a small model, different in every draw."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.heads, self.layers = self.draw.choice([1, 2, 3, 5]), self.draw.choice([1, 2])
        self.half, self.d_ff = self.draw.randint(1, 4), self.draw.randint(3, 43)
        self.source, self.target = self.draw.sample(range(11, 53), 2)
        self.d_model = 2 * self.heads * self.half


def ids(vocab: int, length: int, padded: int = 0, pad_id: int = 0) -> Tensor:
    found = torch.randint(1, vocab, (2, length))
    found[found == pad_id] = pad_id + 1
    if padded:
        found[1, length - padded :] = pad_id
    return found


def annotated(s: Sizes) -> Made:
    original = scramble(EncoderDecoder(s.source, s.target, s.layers, s.d_model, s.heads, s.d_ff))
    return original.state_dict(), original, (ids(s.source, 11, 3), ids(s.target, 7, 2)), {"n_heads": s.heads}


def jadore(s: Sizes, settings: bool = True) -> Made:
    shared, scale = s.draw.random() < 0.5 or not settings, s.draw.choice(["emb", "prj", "none"])
    pads = (s.draw.choice([0, 2]), s.draw.choice([0, 5])) if settings else (0, 0)
    options = Namespace(
        d_model=s.draw.randint(3, 29), d_inner_hid=31, n_layers=s.layers, n_head=s.heads, d_k=s.draw.randint(2, 7),
        d_v=s.draw.randint(2, 7), embs_share_weight=shared, proj_share_weight=not settings or s.draw.random() < 0.5,
        scale_emb_or_prj=scale, src_pad_idx=pads[0], trg_pad_idx=pads[1], src_vocab_size=s.source,
        trg_vocab_size=s.source if shared else s.target,
    )  # fmt: skip
    original = scramble(Transformer(options))
    state: Any = original.state_dict()
    inputs = ids(s.source, 11, 3, pads[0]), ids(options.trg_vocab_size, 7, 2, pads[1])
    if settings:
        return {"epoch": 3, "settings": options, "model": state}, original, inputs, {}
    return state, original, inputs, {"n_heads": s.heads, "scale_emb_or_prj": scale}


def jadore_without_settings(s: Sizes) -> Made:
    return jadore(s, settings=False)


NAMES = (
    ("src_embed", "tgt_embed", "transformer", "generator"), ("source_tok_emb", "target_tok_emb", "net", "fc_out"),
    ("emb_in", "emb_out", "core", "to_vocab"), ("words", "words", "t", "o"),
)  # fmt: skip


def torch_module(s: Sizes) -> Made:
    names, norm_first, activation = s.draw.choice(NAMES), s.draw.random() < 0.5, s.draw.choice(["relu", "gelu"])
    target = s.source if names[0] == names[1] else s.target
    options = dict(activation=activation, norm_first=norm_first, names=names)
    options |= dict(bias=s.draw.random() < 0.5, stored=s.draw.random() < 0.5)
    depths = (s.layers, s.draw.choice([1, 2]))
    original = scramble(Translator(s.source, target, depths, s.d_model, s.heads, s.d_ff, **options))
    answers = dict(n_heads=s.heads, activation=activation, norm_first=norm_first, scale_embedding=True)
    return original.state_dict(), original, (ids(s.source, 11, 3), ids(target, 7, 2)), answers


def encoder_only(s: Sizes) -> Made:
    original = scramble(EncoderOnly(s.source, s.layers, s.d_model, s.heads, s.d_ff))
    return original.state_dict(), original, (ids(s.source, 13),), {"n_heads": s.heads, "scale_embedding": False}


def classifier(s: Sizes) -> Made:
    norm_first, reads = s.draw.random() < 0.5, s.draw.choice(["each", "mean", "first", "last"])
    original = scramble(Classifier(s.source, s.layers, s.d_model, s.heads, s.d_ff, norm_first, reads))
    answers = dict(n_heads=s.heads, activation="gelu", norm_first=norm_first, scale_embedding=False, pad_id=0)
    answers |= dict(head=reads, head_activation="tanh", others_after=True)
    return original.state_dict(), original, (ids(s.source, 13, 4),), answers


def kmer(s: Sizes) -> Made:
    widths = tuple(s.draw.randint(1, 7) for _ in range(s.draw.randint(1, 4)))
    original = scramble(KmerEncoder(s.source, s.draw.randint(1, 8), s.layers, s.d_model, s.heads, s.d_ff, widths))
    return original.state_dict(), original, (ids(s.source, 13),), {"n_heads": s.heads}


def gpt(s: Sizes) -> Made:
    original = scramble(Gpt(s.source, 17, s.layers, s.d_model, s.heads, s.draw.random() < 0.5, s.draw.random() < 0.5))
    state = {"model": {f"_orig_mod.{name}": tensor for name, tensor in original.state_dict().items()}}
    return state | {"best_val_loss": torch.tensor(1.5)}, original, (ids(s.source, 11),), {"n_heads": s.heads}


MAKERS = (annotated, jadore, jadore_without_settings, torch_module, encoder_only, classifier, kmer, gpt)


def same(path: Path, expected: Maps, inputs: tuple[Tensor, ...], **answers: Any) -> None:
    found = attention_maps(load(path, **answers), *inputs)
    assert expected.keys() <= found.keys()
    for name, values in expected.items():
        assert found[name].shape == tuple(values.shape), name
        assert abs(torch.from_numpy(found[name]) - values).max() < 1e-9, name


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_a_layout_is_the_original(make: Any, seed: int, tmp_path: Path) -> None:
    torch.manual_seed(seed)
    saved, original, inputs, answers = make(Sizes(seed))
    torch.save(saved, tmp_path / "model.pt")
    with torch.no_grad():
        same(tmp_path / "model.pt", original.double()(*inputs), inputs, **answers)


@pytest.mark.parametrize("one_file", [False, True])
@pytest.mark.parametrize("generation", [1, 2])
def test_a_recurrent_pair_is_the_original(one_file: bool, generation: int, tmp_path: Path) -> None:
    torch.manual_seed(3)
    encoder = scramble(rnn.EncoderRNN(31, 13))
    decoder = scramble(rnn.LocationDecoder(29, 13, 16) if generation == 1 else rnn.AdditiveDecoder(29, 13))
    path = tmp_path / "pair.pt" if one_file else tmp_path
    if one_file:
        torch.save({"encoder": encoder.state_dict(), "decoder": decoder.state_dict()}, path)
    else:
        torch.save(encoder.state_dict(), path / "encoder.pt")
        save_file(decoder.state_dict(), path / "decoder.safetensors")
    inputs = ids(31, 11), ids(29, 7)
    with torch.no_grad():
        same(path, rnn.run(encoder.double(), decoder.double(), *inputs), inputs)


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
    same(path, expected, (read,), n_heads=3)
    torch.save(dict(original.float().state_dict()) | {"h.0.attn.bias": torch.ones(1, 1, 29, 29)}, path)
    if kind is transformers.GPT2Model:  # every token would see all
        assert list(report(path).unexpected) == ["h.0.attn.bias"]


MODELS = {
    "seq2seq": Seq2Seq(
        Seq2SeqConfig(
            source_vocab=11, target_vocab=13,
            d_model=6, n_heads=2, d_k=5, d_v=7, d_ff=10, n_encoder_layers=2, n_decoder_layers=1,
            positions="learned", max_length=17, bos_id=1, eos_id=2, norm_after_stack=True,
            without_norm="encoder", activation="silu",
        )
    ),
    "encoder": Encoder(
        EncoderConfig(
            vocab=11, d_model=6, n_heads=2, d_ff=10, n_layers=2, head=(5, 3), head_reads="first",
            attention_scale=6**-0.5,
        )
    ),
    "decoder": Decoder(
        DecoderConfig(
            vocab=11, d_model=6, n_heads=2, d_ff=10, n_layers=3, max_length=7, rotary=1, projection_bias=True,
            norm_after_embedding=True, attention_bias=False,
        )
    ),
    "kmer": KmerClassifier(
        KmerConfig(
            vocab=11, n_classes=3, d_model=6, n_heads=2, d_ff=10, n_layers=1, widths=(2,), pooling="attention",
            n_questions=5, d_hidden=9,
        )
    ),
    "recurrent": Recurrent(RecurrentConfig(11, 13, hidden=6, d_embedding=5, bidirectional=True, deep_output=True)),
}  # fmt: skip


@pytest.fixture(params=MODELS)
def folder(request, tmp_path: Path) -> Path:
    model = scramble(MODELS[request.param])
    save_folder(tmp_path / request.param, request.param, model, languages=("old", "new"), half=False)
    return tmp_path / request.param


def test_without_its_config_it_is_refused_by_name(folder):
    (folder / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"of Heedmap\.\s+because its config\.json, which says"):
        load(folder)


def test_brought_with_its_config_nothing_is_asked(folder):
    files = {name: io.BytesIO((folder / name).read_bytes()) for name in ("model.safetensors", "config.json")}
    brought = bundle(files)
    assert not brought.recognised({}).report.questions
    made = brought.checkpoint({})
    assert made.model.config == load(folder).model.config
    assert made.languages == ("old", "new")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"architecture": "seq2seq", "config": {"d_model": 10**9}}, "does not describe a known model|the weights hold"),
        ({"architecture": "nothing", "config": {}}, "does not describe a known model"),
        ([1, 2], "no table of names"),
    ],
)
def test_a_config_that_the_weights_cannot_be_is_refused(folder, config, message):
    files = {
        "config.json": json.dumps(config).encode(),
        "model.safetensors": (folder / "model.safetensors").read_bytes(),
    }
    with pytest.raises(CheckpointError, match=message):
        bundle({name: io.BytesIO(data) for name, data in files.items()}).checkpoint({})


def test_double_precision_stays_what_it_is(tmp_path):
    model = scramble(MODELS["seq2seq"]).double()
    save_folder(tmp_path, "seq2seq", model, half=False)
    again = load(tmp_path).model
    assert {p.dtype for p in again.parameters()} == {torch.float64}
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True))


SHORT = DecodingOptions(max_length=5, beam=2)


def test_ids_are_typed_and_read():
    found = translate(load(REFERENCE / "jadore-separate"), "5 7 9", SHORT)
    assert found.source_ids == (5, 7, 9, 2)
    assert found.record["encoder.0.self"].queries.labels == ("5", "7", "9", "2")
    assert [step.text for step in found.steps] == [str(i) for i in found.target_ids]
    assert found.text == " ".join(str(i) for i in found.target_ids if i > 2)


def test_a_forced_target_has_the_target_s_vocabulary():
    checkpoint = load(reference_file("annotated"), n_heads=3)
    words = [f"w{i}" for i in range(29)]
    named = replace(checkpoint, target_tokenizer=VocabularyTokenizer(words, SpecialIds()))
    found = translate(named, "30 7", forced="w5 w28")
    assert found.target_ids == (5, 28, 2)
    assert found.record["decoder.0.cross"].queries.labels == ("w5", "w28", "w2")
    assert found.record["decoder.0.cross"].keys.labels == ("30", "7", "2")
    with pytest.raises(InputError, match="'29' is no id: type whole numbers from 0 to 28"):
        translate(checkpoint, "30 7", forced="29")


def test_without_an_end_mark_nothing_is_added():
    checkpoint = load(reference_file("annotated"), n_heads=3, eos_id=-1)
    found = translate(checkpoint, "5 7", forced="9 11 13")
    assert (found.source_ids, found.target_ids) == ((5, 7), (9, 11, 13))
    with pytest.raises(InputError, match="the text is empty"):
        translate(checkpoint, " ")


@pytest.mark.parametrize("name", ["rnn-tutorial-1", "rnn-tutorial-2", "torch-postnorm"])
def test_whole_files_of_ids_are_translated(name):
    checkpoint = load(REFERENCE / name, **heads(name))
    model, tokenizer, _ = checkpoint.translator()
    assert isinstance(checkpoint.writer, IdTokenizer)
    lines = translate_lines(model, tokenizer, ["5 7 9", "", "11"], SHORT, writer=checkpoint.writer)
    assert lines[1].text == ""
    assert all(int(word) < len(checkpoint.writer) for line in lines for word in line.text.split())


def test_an_encoder_reads_ids_and_writes_none():
    checkpoint = load(reference_file("encoder-only"), **heads("encoder-only"))
    assert isinstance(checkpoint.tokenizer, IdTokenizer)
    assert (len(checkpoint.tokenizer), checkpoint.target_tokenizer) == (20, None)
    assert checkpoint.tokenizer.source_ids("3 4") == [3, 4]
