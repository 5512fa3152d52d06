"""Every layout at random sizes: made by the original, saved, loaded, compared to 1e-9 in float64."""

from argparse import Namespace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor, nn

from tests.checkpoint.originals import rnn
from tests.checkpoint.originals.annotated import EncoderDecoder
from tests.checkpoint.originals.common import Maps, scramble
from tests.checkpoint.originals.jadore import Transformer
from tests.checkpoint.originals.kmer import KmerEncoder
from tests.checkpoint.originals.torch_modules import Classifier, EncoderOnly, Translator
from transformer import attention_maps, load

HEADS, WIDTH = st.integers(1, 5), st.integers(2, 7)
DEPTH, FEATURES = st.integers(1, 2), st.integers(3, 43)
VOCAB = st.integers(11, 53)
SEED = st.integers(0, 999)
few = settings(max_examples=8)


def _ids(vocab: int, length: int, padded: int = 0, pad_id: int = 0) -> Tensor:
    ids = torch.randint(1, vocab, (2, length))
    ids[ids == pad_id] = pad_id + 1
    if padded:
        ids[1, length - padded :] = pad_id
    return ids


def _same(found: dict[str, np.ndarray], expected: Maps) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].shape == tuple(values.shape), name
        assert abs(torch.from_numpy(found[name]) - values).max() < 1e-9, name


def _check(saved: object, original: nn.Module, inputs: tuple[Tensor, ...], name: str = "model.pt", **answers) -> None:
    """Save, load, and run both in float64."""
    with TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder) / name
        torch.save(saved, path)
        found = attention_maps(load(path, **answers), inputs[0], inputs[1] if len(inputs) > 1 else None)
        _same(found, original.double()(*inputs))


@few
@given(n=DEPTH, h=HEADS, width=WIDTH, d_ff=FEATURES, source=VOCAB, target=VOCAB, seed=SEED)
def test_annotated(n, h, width, d_ff, source, target, seed):
    torch.manual_seed(seed)
    original = scramble(EncoderDecoder(source, target, n, h * width, h, d_ff))
    _check(original.state_dict(), original, (_ids(source, 11, 3), _ids(target, 7, 2)), n_heads=h)


@few
@given(
    n=DEPTH, h=HEADS, d_k=WIDTH, d_v=WIDTH, d_model=st.integers(3, 29), vocab=VOCAB, target=VOCAB,
    shared=st.booleans(), projection=st.booleans(), scale=st.sampled_from(["emb", "prj", "none"]),
    pads=st.tuples(st.sampled_from([0, 2]), st.sampled_from([0, 5])), seed=SEED,
)  # fmt: skip
def test_jadore(n, h, d_k, d_v, d_model, vocab, target, shared, projection, scale, pads, seed):
    torch.manual_seed(seed)
    options = Namespace(
        d_model=d_model, d_inner_hid=31, n_layers=n, n_head=h, d_k=d_k, d_v=d_v, embs_share_weight=shared,
        proj_share_weight=projection, scale_emb_or_prj=scale, src_pad_idx=pads[0], trg_pad_idx=pads[1],
        src_vocab_size=vocab, trg_vocab_size=vocab if shared else target,
    )  # fmt: skip
    original = scramble(Transformer(options))
    saved = {"epoch": 3, "settings": options, "model": original.state_dict()}
    inputs = (_ids(vocab, 11, 3, pads[0]), _ids(options.trg_vocab_size, 7, 2, pads[1]))
    _check(saved, original, inputs, name="best.chkpt")


@few
@given(scale=st.sampled_from(["emb", "prj", "none"]), h=HEADS, seed=SEED)
def test_jadore_without_its_settings_asks_for_them(scale, h, seed):
    torch.manual_seed(seed)
    options = Namespace(
        d_model=13, d_inner_hid=31, n_layers=1, n_head=h, d_k=3, d_v=5, embs_share_weight=True, proj_share_weight=True,
        scale_emb_or_prj=scale, src_vocab_size=17, trg_vocab_size=17,
    )  # fmt: skip
    original = scramble(Transformer(options))
    inputs = (_ids(17, 11, 3), _ids(17, 7, 2))
    _check(original.state_dict(), original, inputs, n_heads=h, scale_emb_or_prj=scale)


@few
@given(
    n=st.tuples(DEPTH, DEPTH), h=HEADS, half=st.integers(1, 4), d_ff=FEATURES, source=VOCAB, target=VOCAB,
    activation=st.sampled_from(["relu", "gelu"]), norm_first=st.booleans(), bias=st.booleans(), stored=st.booleans(),
    names=st.sampled_from([
        ("src_embed", "tgt_embed", "transformer", "generator"),
        ("source_tok_emb", "target_tok_emb", "net", "fc_out"),
        ("emb_in", "emb_out", "core", "to_vocab"),
        ("words", "words", "t", "o"),
    ]),
    seed=SEED,
)  # fmt: skip
def test_torch_module(n, h, half, d_ff, source, target, activation, norm_first, bias, stored, names, seed):
    torch.manual_seed(seed)
    target = source if names[0] == names[1] else target
    options = dict(activation=activation, norm_first=norm_first, bias=bias, stored=stored, names=names)
    original = scramble(Translator(source, target, n, 2 * h * half, h, d_ff, **options))
    inputs = (_ids(source, 11, 3), _ids(target, 7, 2))
    answers = dict(n_heads=h, activation=activation, norm_first=norm_first, scale_embedding=True)
    _check(original.state_dict(), original, inputs, **answers)


@few
@given(n=DEPTH, h=HEADS, half=st.integers(1, 4), d_ff=FEATURES, vocab=VOCAB, seed=SEED)
def test_encoder_only(n, h, half, d_ff, vocab, seed):
    torch.manual_seed(seed)
    original = scramble(EncoderOnly(vocab, n, 2 * h * half, h, d_ff))
    _check(original.state_dict(), original, (_ids(vocab, 13),), n_heads=h, scale_embedding=False)


@few
@given(
    n=DEPTH, h=HEADS, width=WIDTH, d_ff=FEATURES, vocab=VOCAB, norm_first=st.booleans(),
    reads=st.sampled_from(["each", "mean", "first", "last"]), seed=SEED,
)  # fmt: skip
def test_torch_encoder(n, h, width, d_ff, vocab, norm_first, reads, seed):
    torch.manual_seed(seed)
    original = scramble(Classifier(vocab, n, h * width, h, d_ff, norm_first, reads))
    answers = dict(n_heads=h, activation="gelu", norm_first=norm_first, scale_embedding=False, pad_id=0)
    answers |= dict(head=reads, head_activation="tanh", others_after=True)
    with TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder) / "net.pth"
        torch.save(original.state_dict(), path)
        ids = _ids(vocab, 13, 4)
        _same(attention_maps(load(path, **answers), ids), original.double()(ids))


@few
@given(
    n=DEPTH, h=HEADS, half=st.integers(1, 4), d_ff=FEATURES, vocab=VOCAB, classes=st.integers(1, 8),
    kmers=st.lists(st.integers(1, 7), min_size=1, max_size=4), seed=SEED,
)  # fmt: skip
def test_kmer(n, h, half, d_ff, vocab, classes, kmers, seed):
    torch.manual_seed(seed)
    original = scramble(KmerEncoder(vocab, classes, n, 2 * h * half, h, d_ff, tuple(kmers)))
    _check(original.state_dict(), original, (_ids(vocab, 13),), n_heads=h)


@few
@given(hidden=st.integers(2, 19), source=VOCAB, target=VOCAB, spare=st.integers(0, 5), seed=SEED)
@pytest.mark.parametrize("one_file", [False, True])
@pytest.mark.parametrize("generation", [1, 2])
def test_rnn(one_file, generation, hidden, source, target, spare, seed):
    torch.manual_seed(seed)
    encoder = scramble(rnn.EncoderRNN(source, hidden))
    decoder = (
        rnn.LocationDecoder(target, hidden, 11 + spare) if generation == 1 else rnn.AdditiveDecoder(target, hidden)
    )
    scramble(decoder)
    source_ids, target_ids = _ids(source, 11), _ids(target, 7)
    with TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder)
        if one_file:
            path = path / "pair.pt"
            torch.save({"encoder": encoder.state_dict(), "decoder": decoder.state_dict()}, path)
        else:
            torch.save(encoder.state_dict(), path / "encoder.pt")
            save_file(decoder.state_dict(), path / "decoder.safetensors")
        found = attention_maps(load(path), source_ids, target_ids)
        _same(found, rnn.run(encoder.double(), decoder.double(), source_ids, target_ids))
