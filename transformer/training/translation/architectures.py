"""The models that a translation run can train, and what their cards say of them."""

from typing import Any

from transformer.models.recurrent import Recurrent, RecurrentConfig
from transformer.models.seq2seq import Seq2Seq, Seq2SeqConfig
from transformer.tokens.text import TextTokenizer
from transformer.training.translation.options import TrainingOptions

Translator = Seq2Seq | Recurrent
"""A model with a loss to learn by: `hidden(source, target)`, and the `logits` of that."""


def new_model(options: TrainingOptions, tokenizer: TextTokenizer) -> Translator:
    """The untrained model that `options` describe, with one vocabulary for both languages."""
    shared: dict[str, Any] = dict(
        source_vocab=len(tokenizer),
        target_vocab=len(tokenizer),
        dropout=options.dropout,
        tie_embeddings=True,
        tie_projection=True,
        max_length=options.max_tokens,
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
    )
    kind, _, attention = options.architecture.partition("-")
    if kind == "rnn":
        return Recurrent(_recurrent_config(options, attention, shared))
    return Seq2Seq(_transformer_config(options, shared))


def _transformer_config(options: TrainingOptions, shared: dict[str, Any]) -> Seq2SeqConfig:
    """Norm before each sub-layer."""
    return Seq2SeqConfig(
        d_model=options.d_model,
        n_heads=options.n_heads,
        d_ff=options.d_ff,
        n_encoder_layers=options.n_layers,
        n_decoder_layers=options.n_layers,
        positions=options.positions,
        norm_first=True,
        norm_after_stack=True,
        **shared,
    )


def _recurrent_config(options: TrainingOptions, attention: str, shared: dict[str, Any]) -> RecurrentConfig:
    """As in Bahdanau et al. 2015, with either attention, so that two runs differ in nothing else."""
    return RecurrentConfig(
        hidden=options.d_model,
        d_embedding=options.d_embedding,
        attention=attention,
        bidirectional=True,
        deep_output=True,
        **shared,
    )


def folder_name(model: Translator) -> str:
    """What the model's architecture is called in the `config.json` of its folder."""
    return "recurrent" if isinstance(model, Recurrent) else "seq2seq"


def described(model: Translator) -> str:
    """The model in a few words."""
    config = model.config
    if isinstance(config, Seq2SeqConfig):
        return (
            f"A Transformer of {config.n_encoder_layers} encoder and {config.n_decoder_layers} decoder layers "
            f"(d_model {config.d_model}, {config.n_heads} heads, d_ff {config.d_ff})"
        )
    return (
        f"A recurrent encoder-decoder with {config.attention} attention (GRU: one layer that reads both ways, one that "
        f"writes; hidden {config.hidden}, embeddings {config.embedding_size})"
    )


def limits(model: Translator) -> str:
    """What this architecture cannot do; empty if nothing needs saying."""
    config = model.config
    if isinstance(config, Seq2SeqConfig) or config.attention != "location":
        return ""
    return (
        f" The decoder decides where to look without seeing the source, on {config.max_length} positions: weights past "
        f"the end of a sentence fall on zero vectors, and more than {config.max_length} tokens are refused."
    )
