"""Recognising layouts from names and shapes, through wrappers and formats; and reports where something does not fit."""

import io
import json
import pickle
import re
from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.torch_modules import Translator
from tests.checkpoint.references import LAYOUTS, ONE_FILE, REFERENCE, heads, model, reference_file, weights
from tests.safe import hostile
from transformer import attention_maps, load
from transformer.checkpoint import report
from transformer.checkpoint.foreign.bundle import read_vocabulary
from transformer.checkpoint.foreign.layouts.torch_roles import UNTOLD
from transformer.checkpoint.foreign.vocabularies import with_ids
from transformer.errors import CheckpointError, InputError
from transformer.messages import say, speaking
from transformer.text.base import Tokenizer
from transformer.text.text import train_tokenizer
from transformer.text.vocabulary import IdTokenizer, SpecialIds, VocabularyTokenizer, find_special_ids

IDS = [[3, 4, 1, 2, 4, 1, 3]]


def _maps(checkpoint):
    targets = None if checkpoint.model.__class__.__name__ in {"Encoder", "KmerClassifier"} else [[1, 4, 3]]
    return attention_maps(checkpoint, torch.tensor(IDS), None if targets is None else torch.tensor(targets))


def _same(first, second):
    _equal(_maps(first), _maps(second))


def _equal(one, other):
    assert one.keys() == other.keys()
    assert all((one[name] == other[name]).all() for name in one)


@cache
def _maps_of_reference(name):
    return _maps(load(reference_file(name), **heads(name)))


@pytest.mark.parametrize(("name", "layout"), LAYOUTS.items())
def test_each_reference_is_recognised_surely_and_says_why(name, layout):
    found = report(REFERENCE / name)
    assert (found.layout, found.confidence, found.fits) == (layout, 1.0, True)
    assert found.reasons[0].startswith(f"{len(found.matched)} of {len(found.matched)} names and shapes")
    assert len(found.reasons) > 1
    assert found.title in found.text


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_size_that_shapes_tell_is_inferred(name):
    about = json.loads((REFERENCE / name / "about.json").read_text(encoding="utf-8"))
    config = (
        report(REFERENCE / name, n_heads=about["heads"]).config if "heads" in about else report(REFERENCE / name).config
    )
    told = {
        "layers": ("n_layers", "n_encoder_layers", "n_decoder_layers"), "encoder_layers": ("n_encoder_layers",),
        "decoder_layers": ("n_decoder_layers",), "heads": ("n_heads",), "vocab": ("vocab",), "classes": ("n_classes",),
        "kmers": ("widths",), "sos_id": ("bos_id",), "share_projection": ("tie_projection",),
        "share_embeddings": ("tie_embeddings",),
    }  # fmt: skip
    same = ("d_model", "d_ff", "d_k", "d_v", "source_vocab", "target_vocab", "hidden", "max_length", "pad_id", "bos_id")
    for key, fields in (told | {name: (name,) for name in same}).items():
        value = tuple(about[key]) if key == "kmers" and key in about else about.get(key)
        assert value is None or {getattr(config, f, value) for f in fields} == {value}, key


@pytest.mark.parametrize("name", ONE_FILE)
@pytest.mark.parametrize(
    "wrapped", ["module.{}", "_orig_mod.{}", "module._orig_mod.{}", "model.{}", "net.module.core.{}"]
)
def test_prefixes_of_wrappers_change_nothing(name, wrapped, tmp_path):
    path = tmp_path / "model.pt"
    torch.save({wrapped.format(key): tensor for key, tensor in weights(name).items()}, path)
    assert report(path).confidence == 1.0
    if name != "jadore-emb":  # its settings answer what its shapes cannot
        _equal(_maps(load(path, **heads(name))), _maps_of_reference(name))


@pytest.mark.parametrize("name", ONE_FILE)
@pytest.mark.parametrize("place", ["state_dict", "model_state_dict", "model", "net"])
def test_trainers_files_hold_weights_at_known_places(name, place, tmp_path):
    path = tmp_path / "last.ckpt"
    optimiser = {"state": {0: {"step": torch.tensor(1.0), "exp_avg": torch.ones(3)}}, "param_groups": [{"lr": 0.1}]}
    torch.save({"epoch": 3, "optimizer": optimiser, place: weights(name), "best": 0.5}, path)
    found = report(path)
    assert (found.layout, found.confidence) == (LAYOUTS[name], 1.0)


def test_lightning_s_extras_are_left_out_and_named(tmp_path):
    path = tmp_path / "epoch=3.ckpt"
    inside = {f"model.{key}": tensor for key, tensor in weights("annotated").items()}
    inside |= {"criterion.weight": torch.ones(29), "val_loss.total": torch.tensor(0.5)}
    torch.save({"state_dict": inside, "hyper_parameters": {"lr": 1e-3}, "pytorch-lightning_version": "2.0.0"}, path)
    found = report(path)
    assert found.fits
    assert found.ignored.keys() == {"criterion.weight", "val_loss.total"}
    _equal(_maps(load(path, n_heads=3)), _maps_of_reference("annotated"))


def test_weight_averaging_s_counter_is_left_out(tmp_path):
    path = tmp_path / "swa.pt"
    averaged = torch.optim.swa_utils.AveragedModel(scramble(nn.ModuleDict({"t": Translator(11, 13, (1, 1), 6, 2, 5)})))
    torch.save(averaged.state_dict(), path)
    assert report(path).ignored == {"n_averaged": "a counter"}


@pytest.mark.parametrize("name", ONE_FILE)
def test_safetensors_and_the_old_format_are_the_same_checkpoint(name, tmp_path):
    tensors = weights(name)
    save_file({key: tensor.contiguous().clone() for key, tensor in tensors.items()}, tmp_path / "new.safetensors")
    torch.save(tensors, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    torch.save(tensors, tmp_path / "now.pt")
    now = load(tmp_path / "now.pt", **heads(name))
    for other in ("new.safetensors", "old.pt"):
        _same(load(tmp_path / other, **heads(name)), now)


def test_doubles_stay_doubles(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({key: tensor.double() + 1e-12 for key, tensor in weights("encoder-only").items()}, path)
    assert {p.dtype for p in model(path, **heads("encoder-only")).parameters()} == {torch.float64}


def test_a_shared_matrix_that_safetensors_stores_once_is_found(tmp_path):
    original = scramble(Translator(11, 11, (1, 1), 6, 2, 5))
    original.generator.weight = original.tgt_embed.weight
    from safetensors.torch import save_model

    save_model(original, str(tmp_path / "model.safetensors"))
    config = model(tmp_path / "model.safetensors", n_heads=2, scale_embedding=True).config
    assert (config.tie_projection, config.tie_embeddings) == (True, False)


def _broken(tmp_path, change):
    tensors = weights("annotated")
    change(tensors)
    path = tmp_path / "model.pt"
    torch.save(tensors, path)
    return path


def test_what_is_missing_unexpected_or_of_another_shape_is_reported(tmp_path):
    def change(tensors):
        del tensors["encoder.norm.a_2"]
        tensors["encoder.layers.1.self_attn.rotary"] = torch.ones(3, 5)
        tensors["generator.proj.weight"] = torch.ones(29, 23)

    path = _broken(tmp_path, change)
    found = report(path)
    assert found.layout == "annotated"
    assert not found.fits
    assert found.missing == {"encoder.norm.a_2": (24,)}
    assert found.unexpected == {"encoder.layers.1.self_attn.rotary": (3, 5)}
    assert found.wrong_shape == {"generator.proj.weight": ((29, 24), (29, 23))}
    assert 0.9 < found.confidence < 1
    with pytest.raises(CheckpointError) as refused:
        load(path)
    text = str(refused.value)
    for part in ("The Annotated Transformer", "encoder.norm.a_2 24", "rotary 3 x 5", "should be 29 x 24, is 29 x 23"):
        assert part in text
    assert "bring the file that holds the 1 missing: trained weights cannot be made up" in text


def test_an_unexpected_tensor_can_be_left_out(tmp_path):
    path = _broken(tmp_path, lambda tensors: tensors.update({"aux.weight": torch.ones(3, 5)}))
    with pytest.raises(CheckpointError, match=r"unexpected: aux\.weight 3 x 5"):
        load(path)
    without = load(path, n_heads=3, ignore="aux.*")
    _equal(_maps(without), _maps_of_reference("annotated"))
    assert "1 tensor left out by you: aux.weight" in without.guesses
    found = report(path, ignore=("aux.*", "other.*"))
    assert found.ignored == {"aux.weight": "left out as asked"}
    assert (found.left_out, found.confidence < 1) == (("aux.weight",), True)


def test_long_lists_are_cut_in_the_text_only(tmp_path):
    def change(tensors):
        tensors.update({f"encoder.extra.{i}": torch.ones(2) for i in range(50)})

    found = report(_broken(tmp_path, change))
    assert len(found.unexpected) == 50
    assert "and 42 more" in found.text


def test_a_strange_file_is_reported_with_what_its_names_tell(tmp_path):
    path = tmp_path / "resnet.pt"
    torch.save({"conv1.weight": torch.ones(3, 5, 7, 7), "layer1.0.bn1.weight": torch.ones(3)}, path)
    found = report(path)
    assert found.layout is None
    assert "conv1.weight" in found.text
    with pytest.raises(CheckpointError, match="no known layout"):
        load(path)


def test_nan_is_refused_by_name(tmp_path):
    def change(tensors):
        tensors["generator.proj.bias"][3] = torch.nan

    with pytest.raises(CheckpointError, match="NaN"):
        load(_broken(tmp_path, change), n_heads=3)


def test_a_norm_missing_at_the_end_of_one_stack_is_reported(tmp_path):
    tensors = weights("torch-prenorm")
    del tensors["transformer.decoder.norm.weight"]
    torch.save(tensors, tmp_path / "model.pt")
    assert report(tmp_path / "model.pt").missing == {"transformer.decoder.norm.weight": (24,)}


def test_a_report_is_said_in_chinese_and_no_word_of_it_stays_english():
    found = report(REFERENCE / "torch-prenorm", ignore="nothing.*")
    nothing_fits = replace(found, unexpected={"norm.weight": (3,)}, doubts={"norm.weight": UNTOLD}, wrong_shape={})
    with speaking("zh"):
        for shown in (found, nothing_fits):
            lines = [*shown.reasons, *shown.assumptions, *shown.changes, *shown.ignored.values(), shown.text]
            lines += [question.text for question in shown.questions]
            lines += [question.why for question in shown.questions if question.why]
            for line in lines:
                said = say(line)
                assert re.search("[\u4e00-\u9fff]", said), line
                assert not re.search(r"\b(is|are|of|the|which|does|and)\b", said), said


WORDS = ["<blank>", "<s>", "</s>", "<unk>", "a", "man", "rides"]


def _read(data: bytes, name: str, special_ids: SpecialIds | None = None) -> Tokenizer:
    return with_ids(read_vocabulary(io.BytesIO(data), name), special_ids or SpecialIds())


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("words.txt", "\n".join(WORDS).encode()),
        ("words.txt", ("\r\n".join(WORDS) + "\r\n").encode("utf-8-sig")),
        ("pieces.vocab", "\n".join(f"{word}\t-{i}.5" for i, word in enumerate(WORDS)).encode()),
        ("words.json", json.dumps(WORDS).encode()),
        ("words.json", json.dumps({word: WORDS.index(word) for word in reversed(WORDS)}).encode()),
    ],
)
def test_a_list_of_tokens_is_read_with_its_marks(name, data):
    tokenizer = _read(data, name)
    assert isinstance(tokenizer, VocabularyTokenizer)
    assert tokenizer.tokens == tuple(WORDS)
    assert tokenizer.special_ids == SpecialIds(pad_id=0, bos_id=1, eos_id=2, unknown_id=3)
    assert tokenizer.source_ids("A man  flies") == [4, 5, 3, 2]
    assert tokenizer.target_ids("man") == [1, 5, 2]
    assert tokenizer.pieces("A man  flies") == ["A", "man", "flies"]
    assert tokenizer.decode([1, 4, 5, 6, 2, 0]) == "a man rides"
    assert tokenizer.labels([1, 5]) == ["<s>", "man"]


def test_marks_that_the_list_does_not_name_are_those_that_were_answered():
    tokenizer = _read(b"x\ny\nz\nw", "words.txt", SpecialIds(pad_id=-1, bos_id=3, eos_id=2))
    assert (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id) == (-1, 3, 2)
    with pytest.raises(InputError, match="'flies' is not in the vocabulary"):
        tokenizer.encode("x flies")


def test_a_sentencepiece_model_is_read_as_one():
    original = train_tokenizer(["a man rides a bicycle", "two men ride"] * 3, 40)
    tokenizer = _read(original.model, "tokenizer.model")
    assert tokenizer.encode("a man") == original.encode("a man")
    assert isinstance(original, Tokenizer)


class Vocab:
    """Stands for torchtext's class, which is not installed here."""


@pytest.mark.parametrize("save", [pickle.dumps, hostile.saved, lambda v: hostile.saved(v, pickle_protocol=4)])
def test_a_pickled_vocabulary_is_refused_with_the_remedy(save, monkeypatch):
    monkeypatch.setattr(Vocab, "__module__", __name__)
    with pytest.raises(
        CheckpointError, match=r"asks to import '.*Vocab'.*write its tokens as text.*get_itos"
    ) as refused:
        _read(save((Vocab(), Vocab())), "vocab.pt")
    assert "save its weights" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("words.txt", b"", "holds no token"),
        ("words.txt", b"a\n\nb", "token 1 is empty"),
        ("words.txt", b"\xff\xfe", "byte 0 is no UTF-8"),
        ("words.txt", b"a\nb\na", "'a' twice"),
        ("words.txt", b"a" * 2000, "2,000 characters"),
        ("words.json", b"{", "no JSON"),
        ("words.json", b"[" * 100_000, "no JSON"),
        ("words.json", b'["a", 3]', "neither a list"),
        ("words.json", b'{"a": 0, "b": 2}', "not 0, 1, 2"),
        ("words.json", b'{"a": [0]}', "neither a list"),
        ("tokenizer.model", b"no model", "not a SentencePiece model"),
    ],
)
def test_broken_vocabularies_are_refused(name, data, message):
    with pytest.raises(CheckpointError, match=message):
        _read(data, name)


@pytest.mark.parametrize(
    ("piece", "message"),
    [
        ("▁".encode()[:2] + b"\xff", "spm.model is refused: the tokenizer is damaged: its piece .* is no UTF-8 text"),
        (b"", "spm.model is refused: the tokenizer is not a SentencePiece model"),
    ],
)
def test_a_sentencepiece_model_that_is_damaged_is_refused_by_its_name(piece, message):
    model = train_tokenizer(["a man rides a bicycle", "two men ride"] * 3, 40).model
    with pytest.raises(CheckpointError, match=message):
        _read(model.replace("▁".encode(), piece, 1), "spm.model")


def test_a_vocabulary_has_a_largest_size():
    from dataclasses import replace

    from transformer.safe.limits import DEFAULT_LIMITS

    with pytest.raises(CheckpointError, match="at most 10 are read"):
        read_vocabulary(io.BytesIO(b"a\n" * 9), "words.txt", replace(DEFAULT_LIMITS, vocabulary_bytes=10))


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("twice.txt", b"a\nb\nc\nb\n", "holds 'b' twice"),
        ("twice.json", b'["a", "b", "b", "c"]', "holds 'b' twice"),
        ("empty.model", b"", "not a SentencePiece model"),
        ("torn.model", b"\x0a\x00", "not a SentencePiece model"),
    ],
)
def test_a_refusal_names_the_file(name, data, says):
    with pytest.raises(CheckpointError, match=f"^{name} is refused: .*{says}.* Remedy: "):
        _read(data, name)


@given(st.lists(st.integers(3, 96), max_size=9))
def test_ids_are_their_own_text(ids):
    tokenizer = IdTokenizer(97, SpecialIds())
    text = tokenizer.decode(ids)
    assert tokenizer.encode(text) == ids
    assert tokenizer.labels(ids) == tokenizer.pieces(text)
    assert tokenizer.source_ids(text) == [*ids, 2]
    assert isinstance(tokenizer, Tokenizer)


@pytest.mark.parametrize("text", ["7 x", "97", "-1", "1.5", "٣", "9" * 400, "²"])
def test_what_is_no_id_is_refused(text):
    with pytest.raises(InputError, match="is no id: type whole numbers from 0 to 96"):
        IdTokenizer(97, SpecialIds()).encode(text)


def test_without_marks_nothing_is_added():
    tokenizer = IdTokenizer(9, SpecialIds(pad_id=-1, bos_id=-1, eos_id=-1))
    assert tokenizer.target_ids("1 2") == [1, 2]
    assert not tokenizer.is_special(0)


def test_a_mark_that_is_no_token_is_refused():
    with pytest.raises(CheckpointError, match="eos_id=9 is no token: the vocabulary has ids 0 to 8"):
        IdTokenizer(9, SpecialIds(eos_id=9))


@pytest.mark.parametrize("saved", [WORDS, {"weight": torch.ones(3)}])
def test_a_harmless_pickle_is_refused_as_well(saved):
    with pytest.raises(CheckpointError, match="read from text only"):
        _read(hostile.saved(saved), "vocab.pt")


def test_marks_are_found_under_usual_names():
    found = find_special_ids(["[CLS]", "x", "[SEP]", "[UNK]", "[PAD]"])
    assert found == {"pad_id": 4, "bos_id": 0, "eos_id": 2, "unknown_id": 3}
    assert find_special_ids(["x", "y"]) == {}
