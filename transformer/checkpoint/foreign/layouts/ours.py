"""Our own names, without the config.json that should stand beside them: sizes come from shapes, the rest is asked.

Where the config came along (an upload of a whole folder), it answers everything.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from transformer.checkpoint.checkpoint import ARCHITECTURES
from transformer.checkpoint.foreign.layouts.base import Fit, Source, layer_count, size
from transformer.checkpoint.foreign.layouts.torch_roles import head_options
from transformer.checkpoint.foreign.questions import (
    Answers,
    attention_scale,
    choice,
    heads_question,
    norm_eps,
    seq2seq_special_ids,
    special_id,
    special_id_questions,
)
from transformer.checkpoint.meta_shapes import meta_shapes
from transformer.checkpoint.ours.folder import ASSUMED, assumed_by
from transformer.checkpoint.ours.validate import checked_config
from transformer.checkpoint.safe.contents import Contents, Shape
from transformer.errors import ConfigError
from transformer.layers.blocks import ACTIVATIONS
from transformer.layers.positions import FORMULAS
from transformer.messages import Message
from transformer.models.decoder import DecoderConfig
from transformer.models.encoder import EncoderConfig
from transformer.models.kmer import KmerConfig
from transformer.models.recurrent import RecurrentConfig
from transformer.models.seq2seq import Seq2SeqConfig

_SIGNS = {
    "kmer": "kmers.convolutions.0.weight",
    "recurrent": "decoder.weight_hh",
    "seq2seq": "decoder.0.cross_attention.query.weight",
    "encoder": "encoder.0.self_attention.query.weight",
    "decoder": "decoder.0.self_attention.query.weight",
}
"""A name that one architecture has, the most telling one first."""

_BLOCK = "encoder.0.self_attention"
_USUAL = Message("why_ours")


class Ours:
    """A `model.safetensors` of this project."""

    name = "ours"
    title: str = Message("title_ours")

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Everything from the config if it came along; else sizes from shapes, and questions."""
        shapes = contents.shapes
        architecture = next((name for name, sign in _SIGNS.items() if sign in shapes), None)
        if architecture is None:
            return None
        if {"architecture", "config"} <= contents.settings.keys():
            architecture, config = checked_config(contents.settings, "config.json", shapes)
            reasons: tuple[str, ...] = (Message("reason_config"),)
            assumed = assumed_by(contents.settings.get(ASSUMED, []), "config.json")
        else:
            config = _CONFIGS[architecture](shapes, answers)
            reasons = (Message("reason_ours", architecture=architecture), Message("reason_no_config"))
            assumed = ()
        model_type, _ = ARCHITECTURES[architecture]
        needed = meta_shapes(model_type, config)
        return Fit(architecture, config, {name: Source(name) for name in needed}, reasons, assumed=assumed)


def _seq2seq(shapes: Mapping[str, Shape], answers: Answers) -> Seq2SeqConfig:
    d_model = size(shapes, ("source_embedding.weight", 1))
    rows_k, rows_v = size(shapes, (f"{_BLOCK}.query.weight", 0)), size(shapes, (f"{_BLOCK}.value.weight", 0))
    n_heads = answers.ask(heads_question(rows_k))
    source_vocab = size(shapes, ("source_embedding.weight", 0))
    options = (1.0, d_model**-0.5)
    return Seq2SeqConfig(
        source_vocab=source_vocab,
        target_vocab=size(shapes, ("target_embedding.weight", 0), ("source_embedding.weight", 0)),
        d_k=0 if rows_k == d_model else rows_k // n_heads,
        d_v=0 if rows_v == d_model else rows_v // n_heads,
        n_encoder_layers=max(1, layer_count(shapes, "encoder.")),
        n_decoder_layers=max(1, layer_count(shapes, "decoder.")),
        norm=choice(answers, "norm", ("torch", "annotated"), _USUAL),
        norm_after_embedding="source_norm.weight" in shapes,
        tie_embeddings="target_embedding.weight" not in shapes,
        tie_projection="projection.weight" not in shapes,
        projection_bias="projection.bias" in shapes,
        projection_scale=choice(answers, "projection_scale", options, _USUAL),
        attention_bias=f"{_BLOCK}.query.bias" in shapes,
        **_stack(shapes, answers, d_model, n_heads, scaled=True, first=True),
        without_norm=_without_norm(shapes),
        **_positions(shapes, answers, "source_positions.table", tuple(FORMULAS)),
        **seq2seq_special_ids(answers, 0, 2, 3),
    )


def _without_norm(shapes: Mapping[str, Shape]) -> str:
    """The stack that has no norm after it where the other one has."""
    there = {stack for stack in ("encoder", "decoder") if f"{stack}_norm.weight" in shapes}
    if len(there) != 1:
        return ""
    return "decoder" if "encoder" in there else "encoder"


def _encoder(shapes: Mapping[str, Shape], answers: Answers) -> EncoderConfig:
    vocab, d_model = size(shapes, ("embedding.weight", 0)), size(shapes, ("embedding.weight", 1))
    return EncoderConfig(
        vocab=vocab,
        n_layers=max(1, layer_count(shapes, "encoder.")),
        norm=choice(answers, "norm", ("torch", "annotated"), _USUAL),
        attention_bias=f"{_BLOCK}.query.bias" in shapes,
        causal=choice(answers, "causal", (False, True), _USUAL),
        attention_scale=attention_scale(answers, d_model, _USUAL),
        pad_id=special_id(answers, "pad_id", -1),
        **head_options({n: s for n, s in shapes.items() if n.startswith("head.")}, d_model, vocab, answers),
        **_stack(shapes, answers, d_model, answers.ask(heads_question(d_model)), scaled=False, first=False),
        **_positions(shapes, answers, "positions.table", ("sinusoidal", "doubled", "none")),
    )


def _decoder(shapes: Mapping[str, Shape], answers: Answers) -> DecoderConfig:
    vocab, d_model = size(shapes, ("embedding.weight", 0)), size(shapes, ("embedding.weight", 1))
    turned: dict[str, Any] = {}
    if "rotary.rates" in shapes:
        text = Message("question_rotary_pairs_of")
        pairs = choice(
            answers, "rotary_pairs", ("halves", "neighbours"), Message("why_nothing_tells"), text, is_open=True
        )
        turned = {"rotary": size(shapes, ("rotary.rates", 0)), "rotary_halves": pairs == "halves"}
    return DecoderConfig(
        vocab=vocab,
        n_layers=max(1, layer_count(shapes, "decoder.")),
        norm_after_embedding="embedding_norm.weight" in shapes,
        norm=choice(answers, "norm", ("torch", "annotated"), _USUAL),
        attention_bias="decoder.0.self_attention.query.bias" in shapes,
        attention_scale=attention_scale(answers, d_model, _USUAL),
        tie_projection="projection.weight" not in shapes,
        projection_bias="projection.bias" in shapes,
        pad_id=special_id(answers, "pad_id", -1),
        **_stack(shapes, answers, d_model, answers.ask(heads_question(d_model)), scaled=False, first=True),
        **_positions(shapes, answers, "positions.table", ("sinusoidal", "doubled", "none")),
        **turned,
    )


def _kmer(shapes: Mapping[str, Shape], answers: Answers) -> KmerConfig:
    d_model = size(shapes, ("embedding.weight", 1))
    n_widths = layer_count(shapes, "kmers.convolutions.")
    d_hidden = size(shapes, ("classifier.weight", 1))
    places = ("before", "after")
    return KmerConfig(
        vocab=size(shapes, ("embedding.weight", 0)),
        n_classes=size(shapes, ("classifier.weight", 0)),
        n_layers=max(1, layer_count(shapes, "encoder.")),
        widths=tuple(size(shapes, (f"kmers.convolutions.{i}.weight", 2)) for i in range(n_widths)),
        d_hidden=0 if d_hidden == d_model else d_hidden,
        pooling="attention" if "pooling.question" in shapes else "mean",
        n_questions=size(shapes, ("pooling.question", 1)),
        position_place=choice(answers, "position_place", places, _USUAL),
        pad_id=special_id(answers, "pad_id", -1),
        **_stack(shapes, answers, d_model, answers.ask(heads_question(d_model)), scaled=True, first=False),
        **_positions(shapes, answers, "positions.table", ("sinusoidal", "doubled")),
    )


def _recurrent(shapes: Mapping[str, Shape], answers: Answers) -> RecurrentConfig:
    hidden, embedding = size(shapes, ("decoder.weight_hh", 1)), size(shapes, ("source_embedding.weight", 1))
    location = "attention.where.weight" in shapes
    _refuse_other_peoples(shapes, hidden)
    ties: dict[str, Any] = {
        "tie_embeddings": "target_embedding.weight" not in shapes,
        "tie_projection": "projection.weight" not in shapes,
    }
    known = {field.name for field in fields(RecurrentConfig)}
    special_ids: dict[str, Any] = special_id_questions(answers, 0, 2, 3)
    return RecurrentConfig(
        source_vocab=size(shapes, ("source_embedding.weight", 0)),
        target_vocab=size(shapes, ("projection.bias", 0), ("target_embedding.weight", 0)),
        hidden=hidden,
        d_embedding=0 if embedding == hidden else embedding,
        attention="location" if location else "additive",
        bidirectional="encoder.weight_ih_l0_reverse" in shapes,
        deep_output="deepen.0.weight" in shapes,
        max_length=size(shapes, ("attention.where.weight", 0)) if location else 512,
        **{name: tied for name, tied in ties.items() if name in known},
        **special_ids,
    )


def _refuse_other_peoples(shapes: Mapping[str, Shape], hidden: int) -> None:
    """Recurrent models that were read from other people's files have more dialects than their tensors tell.

    Raises:
        ConfigError: this is one of them, and its config.json is not there.
    """
    more = any(name.startswith(("upper.", "encoder.weight_ih_l1")) for name in shapes)
    features = hidden * (2 if "encoder.weight_ih_l0_reverse" in shapes else 1)
    deep = size(shapes, ("deepen.0.weight", 1)) == hidden + features
    wide = size(shapes, ("projection.weight", 1)) > max(hidden, size(shapes, ("target_embedding.weight", 1)))
    product = not {"attention.where.weight", "attention.query.weight"} & shapes.keys()
    lstm = size(shapes, ("decoder.weight_hh", 0)) == 4 * hidden
    copied = "encoder.weight_ih_l0_reverse" in shapes and "bridge.0.weight" not in shapes
    other_width = size(shapes, ("encoder.weight_hh_l0", 1)) != hidden
    if more or deep or wide or product or lstm or copied or other_width:
        raise ConfigError("recurrent_needs_config")


def _stack(
    shapes: Mapping[str, Shape], answers: Answers, d_model: int, n_heads: int, *, scaled: bool, first: bool
) -> dict[str, Any]:
    """What every stack of blocks has; `scaled` and `first` are the usual answers."""
    return {
        "d_model": d_model,
        "n_heads": n_heads,
        "d_ff": size(shapes, *((f"{stack}.0.feed_forward.widen.weight", 0) for stack in ("encoder", "decoder"))),
        "norm_first": choice(answers, "norm_first", (first, not first), _USUAL),
        "norm_after_stack": bool({"encoder_norm.weight", "decoder_norm.weight"} & shapes.keys()),
        "activation": choice(answers, "activation", tuple(ACTIVATIONS), _USUAL),
        "scale_embedding": choice(answers, "scale_embedding", (scaled, not scaled), _USUAL),
        "norm_eps": norm_eps(answers, 1e-5),
    }


def _positions(shapes: Mapping[str, Shape], answers: Answers, table: str, formulas: tuple[str, ...]) -> dict[str, Any]:
    """A table that lies in the file, or the formula that is asked for."""
    if table in shapes:
        return {"positions": "learned", "max_length": size(shapes, (table, 0))}
    return {"positions": choice(answers, "positions", formulas, _USUAL)}


_CONFIGS = {"seq2seq": _seq2seq, "encoder": _encoder, "decoder": _decoder, "kmer": _kmer, "recurrent": _recurrent}
