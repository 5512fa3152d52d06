"""Sites: the names of attention, their parts, and what models of each architecture say of themselves."""

import pickle
from typing import Any

import pytest

from heedmap.checkpoint.checkpoint import ARCHITECTURES, Checkpoint
from heedmap.errors import CheckpointError
from heedmap.lessons.sentences import toy_recurrent, toy_transformer
from heedmap.nn.kmer import KmerClassifier
from heedmap.nn.protocols import Decodable
from heedmap.nn.recurrent import Recurrent
from heedmap.nn.seq2seq import Seq2Seq
from heedmap.nn.stacks import Encoder, EncoderConfig
from heedmap.runs.sequences.classify import classify
from heedmap.sites import Site
from tests.classifiers import sequence_checkpoint


def test_a_site_knows_its_parts_and_stays_a_name() -> None:
    for name, parts in (
        ("decoder.12.cross", ("decoder", 12, "cross", "decoder.cross")),
        ("encoder.0.self", ("encoder", 0, "self", "encoder.self")),
        ("decoder.cross", ("decoder", None, "cross", "decoder.cross")),
        ("layers.1", ("layers", 1, "", "layers")),
        ("net.h.3#2", ("net.h", 3, "#2", "net.h#2")),
        ("h.0.attn.heads.5", ("h.0.attn.heads", 5, "", "h.0.attn.heads")),
        ("h.5.attn#2", ("h", 5, "attn#2", "h.attn#2")),
        ("pooling", ("pooling", None, "pooling", "pooling")),
    ):
        site = Site(name)
        assert (site.stack, site.layer, site.kind, site.group) == parts
        assert site == name
        assert {site: 1}[name] == 1  # type: ignore[index]
        assert isinstance(pickle.loads(pickle.dumps(site)), Site)
    assert Site.of("decoder", 3, "self") == "decoder.3.self"
    assert [Site(name).named_group("0-3") for name in ("a.2.b", "a.2", "a.2#1")] == ["a.0-3.b", "a.0-3", "a.0-3#1"]


def test_the_sites_of_a_classifier_are_grouped_like_all_others() -> None:
    record = classify(sequence_checkpoint(), "ACGTACGTAC").record
    assert record.sites == ("encoder.0.self", "encoder.1.self", "pooling")
    assert all(isinstance(site, Site) for site in [*record.sites, *record, *(record[s].site for s in record)])


MODELS = (
    toy_transformer(4, 2, seed=1),
    toy_recurrent(3, "additive", 1),
    Encoder(EncoderConfig.of(vocab=5, d_model=4, n_heads=2)),
    sequence_checkpoint().model,
)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_says_what_it_can_do_and_can_do_it(model: Seq2Seq | Recurrent | Encoder | KmerClassifier) -> None:
    checkpoint = Checkpoint("it", model)
    assert checkpoint.translates == isinstance(model, Decodable)
    windows = model.windows(40) if isinstance(model, KmerClassifier) else None
    assert model.abilities.reads_windows == (windows is not None)
    assert ARCHITECTURES[checkpoint.architecture][0] is type(model)
    assert isinstance(model.config, ARCHITECTURES[checkpoint.architecture][1])
    kind: Any = type(model)
    assert checkpoint.model_as(kind) is model
    other: Any = Encoder if isinstance(model, Seq2Seq) else Seq2Seq
    wanted = "Transformer encoder" if other is Encoder else "encoder-decoder Transformer"
    with pytest.raises(CheckpointError, match=f"it is no {wanted}: choose another checkpoint"):
        checkpoint.model_as(other)
