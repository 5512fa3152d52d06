"""The Annotated Transformer, both editions: 2018 (often in torch's old file format) and 2022; they name alike.

Source: Rush 2018; Huang, Subramanian, Sum, Almubarak and Biderman 2022, "The Annotated Transformer".
"""

from transformer.checkpoint.foreign.layouts.base import Fit, Source, layer_count, linear, root_of, size
from transformer.checkpoint.foreign.questions import Answers, heads_question, norm_eps, seq2seq_special_ids
from transformer.messages import Message
from transformer.nn.seq2seq import preset
from transformer.safe.contents import Contents

_ATTENTION = ("query", "key", "value", "output")


def annotated(contents: Contents, answers: Answers) -> Fit | None:
    """An `EncoderDecoder` of The Annotated Transformer.

    Everything but the number of heads and the special ids stands in names and shapes.
    """
    shapes = contents.shapes
    root = root_of(shapes, r"(?:encoder|decoder)\.layers\.\d+\.(?:self_attn|src_attn)\.linears\.\d\.weight")
    if root is None:
        return None
    n_encoder = layer_count(shapes, f"{root}encoder.layers.")
    n_decoder = layer_count(shapes, f"{root}decoder.layers.")
    source_table, target_table = f"{root}src_embed.0.lut.weight", f"{root}tgt_embed.0.lut.weight"
    table = f"{root}src_embed.1.pe"
    d_model = size(shapes, (source_table, 1), (f"{root}encoder.layers.0.self_attn.linears.0.weight", 0))
    stored = table in shapes
    config = preset(
        "annotated",
        source_vocab=size(shapes, (source_table, 0)),
        target_vocab=size(shapes, (target_table, 0)),
        d_model=d_model,
        n_heads=answers.ask(heads_question(d_model)),
        d_ff=size(shapes, (f"{root}encoder.layers.0.feed_forward.w_1.weight", 0)),
        n_encoder_layers=max(1, n_encoder),
        n_decoder_layers=max(1, n_decoder),
        positions="stored" if stored else "sinusoidal",
        max_length=size(shapes, (table, 1)) if stored else 5000,
        norm_eps=norm_eps(answers, 1e-6),
        **seq2seq_special_ids(answers),
    )
    sources = {
        "source_embedding.weight": Source(source_table),
        "target_embedding.weight": Source(target_table),
        **linear("encoder_norm", f"{root}encoder.norm", *_NORM),
        **linear("decoder_norm", f"{root}decoder.norm", *_NORM),
        **linear("projection", f"{root}generator.proj"),
    }
    if stored:
        sources["source_positions.table"] = Source(table, extra_axis=0)
        sources["target_positions.table"] = Source(f"{root}tgt_embed.1.pe", extra_axis=0)
    for i in range(config.n_encoder_layers):
        sources |= _block(f"encoder.{i}", f"{root}encoder.layers.{i}", ("self",))
    for i in range(config.n_decoder_layers):
        sources |= _block(f"decoder.{i}", f"{root}decoder.layers.{i}", ("self", "cross"))
    return Fit(
        architecture="seq2seq",
        config=config,
        sources=sources,
        reasons=(Message("reason_annotated_attention"), Message("reason_annotated_norm")),
    )


_NORM = ("a_2", "b_2")


def _block(ours: str, theirs: str, attentions: tuple[str, ...]) -> dict[str, Source]:
    """One encoder or decoder layer: attention, then the feed-forward net, each with the norm of its sub-layer."""
    sources: dict[str, Source] = {}
    for i, kind in enumerate(attentions):
        attention = f"{theirs}.{'self_attn' if kind == 'self' else 'src_attn'}"
        for j, name in enumerate(_ATTENTION):
            sources |= linear(f"{ours}.{kind}_attention.{name}", f"{attention}.linears.{j}")
        sources |= linear(f"{ours}.{kind}_residual.norm", f"{theirs}.sublayer.{i}.norm", *_NORM)
    sources |= linear(f"{ours}.feed_forward.widen", f"{theirs}.feed_forward.w_1")
    sources |= linear(f"{ours}.feed_forward.narrow", f"{theirs}.feed_forward.w_2")
    return sources | linear(f"{ours}.feed_forward_residual.norm", f"{theirs}.sublayer.{len(attentions)}.norm", *_NORM)
