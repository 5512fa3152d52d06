"""jadore801120/attention-is-all-you-need-pytorch: `{'epoch', 'settings', 'model'}`, or its weights alone.

The settings (an argparse.Namespace) answer what shapes cannot; without them it is asked.
"""

from math import gcd

from transformer.checkpoint.foreign.layouts.base import Fit, Source, layer_count, linear, root_of, size
from transformer.checkpoint.foreign.questions import Answers, choice, heads_question, norm_eps, seq2seq_special_ids
from transformer.messages import Message
from transformer.nn.seq2seq import preset
from transformer.safe.contents import Contents

_ATTENTION = {"query": "w_qs", "key": "w_ks", "value": "w_vs", "output": "fc"}


def jadore(contents: Contents, answers: Answers) -> Fit | None:
    """A `Transformer` of jadore801120/attention-is-all-you-need-pytorch.

    Sizes from shapes; heads, padding and scaling are asked, and told by the settings if they came along.
    """
    shapes = contents.shapes
    root = root_of(shapes, r"(?:encoder|decoder)\.layer_stack\.\d+\.(?:slf_attn|enc_attn)\.w_qs\.weight")
    if root is None:
        return None
    source_table, target_table = f"{root}encoder.src_word_emb.weight", f"{root}decoder.trg_word_emb.weight"
    projection, positions = f"{root}trg_word_prj.weight", f"{root}encoder.position_enc.pos_table"
    attention = f"{root}encoder.layer_stack.0.slf_attn"
    d_model = size(shapes, (source_table, 1), (f"{attention}.w_qs.weight", 1))
    rows_k, rows_v = size(shapes, (f"{attention}.w_qs.weight", 0)), size(shapes, (f"{attention}.w_vs.weight", 0))
    n_heads = answers.ask(heads_question(gcd(rows_k, rows_v)))
    tied = contents.same(projection, target_table)
    options = ("prj", "emb", "none")
    scale = choice(answers, "scale_emb_or_prj", options, Message("why_original_default")) if tied else "none"
    config = preset(
        "jadore",
        source_vocab=size(shapes, (source_table, 0)),
        target_vocab=size(shapes, (target_table, 0)),
        d_model=d_model,
        n_heads=n_heads,
        d_k=rows_k // n_heads,
        d_v=rows_v // n_heads,
        d_ff=size(shapes, (f"{root}encoder.layer_stack.0.pos_ffn.w_1.weight", 0)),
        n_encoder_layers=max(1, layer_count(shapes, f"{root}encoder.layer_stack.")),
        n_decoder_layers=max(1, layer_count(shapes, f"{root}decoder.layer_stack.")),
        positions="stored",
        max_length=size(shapes, (positions, 1)),
        tie_embeddings=contents.same(source_table, target_table),
        tie_projection=tied,
        scale_embedding=scale == "emb",
        projection_scale=d_model**-0.5 if scale == "prj" else 1.0,
        norm_eps=norm_eps(answers, 1e-6),
        **seq2seq_special_ids(answers),
    )
    sources = _sources(root, config.n_encoder_layers, config.n_decoder_layers)
    copies = []
    if config.tie_embeddings:
        copies.append(sources.pop("target_embedding.weight").name)
    if config.tie_projection:
        copies.append(sources.pop("projection.weight").name)
    return Fit(
        architecture="seq2seq",
        config=config,
        sources=sources,
        reasons=(
            Message("reason_jadore_attention"),
            Message("reason_tied") if tied else Message("reason_not_tied"),
        ),
        copies=tuple(name for name in copies if name),
    )


def _sources(root: str, n_encoder: int, n_decoder: int) -> dict[str, Source]:
    """Where each of our tensors stands."""
    sources = {
        "source_embedding.weight": Source(f"{root}encoder.src_word_emb.weight"),
        "target_embedding.weight": Source(f"{root}decoder.trg_word_emb.weight"),
        "source_positions.table": Source(f"{root}encoder.position_enc.pos_table", extra_axis=0),
        "target_positions.table": Source(f"{root}decoder.position_enc.pos_table", extra_axis=0),
        **linear("source_norm", f"{root}encoder.layer_norm"),
        **linear("target_norm", f"{root}decoder.layer_norm"),
        "projection.weight": Source(f"{root}trg_word_prj.weight"),
    }
    for i in range(n_encoder):
        sources |= _block(f"encoder.{i}", f"{root}encoder.layer_stack.{i}", {"self": "slf_attn"})
    for i in range(n_decoder):
        attentions = {"self": "slf_attn", "cross": "enc_attn"}
        sources |= _block(f"decoder.{i}", f"{root}decoder.layer_stack.{i}", attentions)
    return sources


def _block(ours: str, theirs: str, attentions: dict[str, str]) -> dict[str, Source]:
    """One encoder or decoder layer; each sub-layer holds its own norm."""
    sources: dict[str, Source] = {}
    for kind, attention in attentions.items():
        for name, foreign in _ATTENTION.items():
            sources[f"{ours}.{kind}_attention.{name}.weight"] = Source(f"{theirs}.{attention}.{foreign}.weight")
        sources |= linear(f"{ours}.{kind}_residual.norm", f"{theirs}.{attention}.layer_norm")
    sources |= linear(f"{ours}.feed_forward.widen", f"{theirs}.pos_ffn.w_1")
    sources |= linear(f"{ours}.feed_forward.narrow", f"{theirs}.pos_ffn.w_2")
    return sources | linear(f"{ours}.feed_forward_residual.norm", f"{theirs}.pos_ffn.layer_norm")
