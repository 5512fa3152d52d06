"""Encoder-decoders that are known by the names of their parts, each a table of names and what its own code does.

Sources, as of 2026: BART, Marian, mBART and Pegasus of the transformers library;
fairseq's `transformer`; OpenNMT-py 2; bentrevett/pytorch-seq2seq, "Attention is All You Need"; hyunwoongko/transformer;
SamLynnEvans/Transformer; jadore801120/attention-is-all-you-need-pytorch before its edition of 2019.
"""

from collections.abc import Mapping

import torch

from transformer.checkpoint.foreign.layouts.named import ATTENTION, Dialect, Family
from transformer.checkpoint.safe.contents import Contents
from transformer.layers.positions import halved_table
from transformer.messages import Message

_COUNTER = Message("ignored_counter")


def _attention(ours: str, theirs: str, names: tuple[str, ...]) -> dict[str, str]:
    """The four maps of one attention: `names` are those of query, key, value and output."""
    return {f"{ours}.{part}": f"{theirs}.{name}" for part, name in zip(ATTENTION, names, strict=True)}


def _net(widen: str, narrow: str) -> dict[str, str]:
    return {"feed_forward.widen": widen, "feed_forward.narrow": narrow}


def _norms(own: str, cross: str, net: str) -> dict[str, str]:
    """Norms of the sub-layers; an encoder's has no `cross`."""
    found = {"self_residual.norm": own, "cross_residual.norm": cross, "feed_forward_residual.norm": net}
    return {ours: theirs for ours, theirs in found.items() if theirs}


def _bart_dialect(contents: Contents, root: str) -> Dialect:
    """BART and mBART have a norm on their embeddings, mBART, Pegasus and some of fairseq's one after the layers.

    Marian's and Pegasus's tables are waves; BART's are learned, and their first two rows stand for no position.
    Blenderbot's have no such rows, so that their number is a round one; Blenderbot Small's decoder adds positions after
    the norm on its embeddings, and is refused.
    """
    shapes = contents.shapes
    after = f"{root}encoder.layer_norm.weight" in shapes
    on_embedding = f"{root}encoder.layernorm_embedding.weight" in shapes
    library = any(name.endswith("final_logits_bias") for name in shapes)
    waves = _waves(contents, f"{root}encoder.embed_positions.weight")
    marian = (library or waves) and not on_embedding and not after
    rows = shapes.get(f"{root}encoder.embed_positions.weight", (0,))[0]
    usual_rows = (0, 2) if rows and rows & (rows - 1) == 0 else (2, 0)
    usual = "gelu" if on_embedding else "silu" if marian else "relu"
    vocab = shapes.get(f"{root}decoder.embed_tokens.weight", shapes.get(f"{root}shared.weight", (1,)))[0]
    ids = (vocab - 1, vocab - 1, 0) if marian else (0, 0, 1) if (library or waves) and not on_embedding else (1, 2, 2)
    formulas = ("halved", "fairseq", "tensor2tensor", "sinusoidal")
    return Dialect(
        activations=tuple(dict.fromkeys((usual, "relu", "gelu", "silu"))),
        norm_first=(after, not after),
        scaled=(False, True) if on_embedding and not after else (True, False),
        formulas=formulas if library else ("fairseq", "tensor2tensor", "halved", "sinusoidal"),
        first_rows=(0,) if waves else usual_rows,
        norm_needs_row=2 if on_embedding else None,
        ids=ids,
    )


def _waves(contents: Contents, name: str) -> bool:
    """Whether a table is the paper's, all sines before all cosines."""
    table = contents.tensors.get(name)
    if table is None or table.dim() != 2 or table.numel() > 2**26:
        return False
    return torch.allclose(table.double(), halved_table(*table.shape), atol=1e-2)


_PROJ = ("q_proj", "k_proj", "v_proj", "out_proj")
BART = Family(
    name="bart",
    title=Message("title_bart"),
    reason=Message("reason_bart"),
    sign=r"decoder\.layers\.\d+\.encoder_attn\.q_proj\.weight",
    stacks=("encoder.layers.", "decoder.layers."),
    encoder={
        **_attention("self_attention", "self_attn", _PROJ),
        **_net("fc1", "fc2"),
        **_norms("self_attn_layer_norm", "", "final_layer_norm"),
    },
    decoder={
        **_attention("self_attention", "self_attn", _PROJ),
        **_attention("cross_attention", "encoder_attn", _PROJ),
        **_net("fc1", "fc2"),
        **_norms("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
    },
    source=("encoder.embed_tokens.weight", "shared.weight"),
    target=("decoder.embed_tokens.weight", "shared.weight"),
    scores=("^lm_head.weight", "decoder.output_projection.weight"),
    source_positions=("encoder.embed_positions.weight",),
    target_positions=("decoder.embed_positions.weight",),
    ends=("encoder.layer_norm", "decoder.layer_norm"),
    starts=("encoder.layernorm_embedding", "decoder.layernorm_embedding"),
    score_bias=("^final_logits_bias",),
    unused={
        "encoder.version": _COUNTER,
        "decoder.version": _COUNTER,
        "encoder.embed_positions._float_tensor": _COUNTER,
        "decoder.embed_positions._float_tensor": _COUNTER,
    },
    dialect=_bart_dialect,
)

_ONMT = ("linear_query", "linear_keys", "linear_values", "final_linear")
OPENNMT = Family(
    name="opennmt",
    title=Message("title_opennmt"),
    reason=Message("reason_opennmt"),
    sign=r"encoder\.transformer\.\d+\.self_attn\.linear_query\.weight",
    stacks=("encoder.transformer.", "decoder.transformer_layers."),
    encoder={
        **_attention("self_attention", "self_attn", _ONMT),
        **_net("feed_forward.w_1", "feed_forward.w_2"),
        **_norms("layer_norm", "", "feed_forward.layer_norm"),
    },
    decoder={
        **_attention("self_attention", "self_attn", _ONMT),
        **_attention("cross_attention", "context_attn", _ONMT),
        **_net("feed_forward.w_1", "feed_forward.w_2"),
        **_norms("layer_norm_1", "layer_norm_2", "feed_forward.layer_norm"),
    },
    source=("encoder.embeddings.make_embedding.emb_luts.0.weight",),
    target=("decoder.embeddings.make_embedding.emb_luts.0.weight",),
    scores=("generator.0.weight", "generator.weight"),
    source_positions=("encoder.embeddings.make_embedding.pe.pe",),
    target_positions=("decoder.embeddings.make_embedding.pe.pe",),
    ends=("encoder.layer_norm", "decoder.layer_norm"),
    score_bias=("generator.0.bias", "generator.bias"),
    dialect=lambda contents, root: Dialect(norm_first=(True, False), eps=1e-6, ids=(1, 2, 3), spreads=True),  # noqa: ARG005
)

_FC = ("fc_q", "fc_k", "fc_v", "fc_o")
BENTREVETT = Family(
    name="bentrevett",
    title=Message("title_bentrevett"),
    reason=Message("reason_bentrevett"),
    sign=r"encoder\.layers\.\d+\.self_attention\.fc_q\.weight",
    stacks=("encoder.layers.", "decoder.layers."),
    encoder={
        **_attention("self_attention", "self_attention", _FC),
        **_net("positionwise_feedforward.fc_1", "positionwise_feedforward.fc_2"),
        **_norms("self_attn_layer_norm", "", "ff_layer_norm"),
    },
    decoder={
        **_attention("self_attention", "self_attention", _FC),
        **_attention("cross_attention", "encoder_attention", _FC),
        **_net("positionwise_feedforward.fc_1", "positionwise_feedforward.fc_2"),
        **_norms("self_attn_layer_norm", "enc_attn_layer_norm", "ff_layer_norm"),
    },
    source=("encoder.tok_embedding.weight",),
    target=("decoder.tok_embedding.weight",),
    scores=("decoder.fc_out.weight",),
    source_positions=("encoder.pos_embedding.weight",),
    target_positions=("decoder.pos_embedding.weight",),
    score_bias=("decoder.fc_out.bias",),
    dialect=lambda contents, root: Dialect(ids=(1, 2, 3), spreads=True),  # noqa: ARG005
)

_W = ("w_q", "w_k", "w_v", "w_concat")
HYUNWOONGKO = Family(
    name="hyunwoongko",
    title=Message("title_hyunwoongko"),
    reason=Message("reason_hyunwoongko"),
    sign=r"encoder\.layers\.\d+\.attention\.w_concat\.weight",
    stacks=("encoder.layers.", "decoder.layers."),
    encoder={
        **_attention("self_attention", "attention", _W),
        **_net("ffn.linear1", "ffn.linear2"),
        **_norms("norm1", "", "norm2"),
    },
    decoder={
        **_attention("self_attention", "self_attention", _W),
        **_attention("cross_attention", "enc_dec_attention", _W),
        **_net("ffn.linear1", "ffn.linear2"),
        **_norms("norm1", "norm2", "norm3"),
    },
    source=("encoder.emb.tok_emb.weight",),
    target=("decoder.emb.tok_emb.weight",),
    scores=("decoder.linear.weight",),
    source_positions=("encoder.emb.pos_emb.encoding",),
    target_positions=("decoder.emb.pos_emb.encoding",),
    gain="gamma",
    shift="beta",
    score_bias=("decoder.linear.bias",),
    dialect=lambda contents, root: Dialect(scaled=(False, True), eps=1e-12, ids=(1, 2, 3), spreads=True),  # noqa: ARG005
)

_LINEAR = ("q_linear", "k_linear", "v_linear", "out")
SAM_LYNN_EVANS = Family(
    name="sam-lynn-evans",
    title=Message("title_sam"),
    reason=Message("reason_sam"),
    sign=r"encoder\.layers\.\d+\.attn\.q_linear\.weight",
    stacks=("encoder.layers.", "decoder.layers."),
    encoder={
        **_attention("self_attention", "attn", _LINEAR),
        **_net("ff.linear_1", "ff.linear_2"),
        **_norms("norm_1", "", "norm_2"),
    },
    decoder={
        **_attention("self_attention", "attn_1", _LINEAR),
        **_attention("cross_attention", "attn_2", _LINEAR),
        **_net("ff.linear_1", "ff.linear_2"),
        **_norms("norm_1", "norm_2", "norm_3"),
    },
    source=("encoder.embed.embed.weight",),
    target=("decoder.embed.embed.weight",),
    scores=("out.weight",),
    source_positions=("encoder.pe.pe",),
    target_positions=("decoder.pe.pe",),
    ends=("encoder.norm", "decoder.norm"),
    gain="alpha",
    score_bias=("out.bias",),
    dialect=lambda contents, root: Dialect(  # noqa: ARG005
        norm_first=(True, False), norm="annotated", eps=1e-6, ids=(1, 2, 3), spreads=True
    ),
)

_WS = ("w_qs", "w_ks", "w_vs", "fc")
_OLD_JADORE: Mapping[str, str] = {
    **_attention("self_attention", "slf_attn", _WS),
    **_net("pos_ffn.w_1", "pos_ffn.w_2"),
    **_norms("slf_attn.layer_norm", "", "pos_ffn.layer_norm"),
}
OLD_JADORE = Family(
    name="jadore-2018",
    title=Message("title_jadore_2018"),
    reason=Message("reason_jadore_2018"),
    sign=r"decoder\.tgt_word_emb\.weight",
    stacks=("encoder.layer_stack.", "decoder.layer_stack."),
    encoder=_OLD_JADORE,
    decoder={
        **_OLD_JADORE,
        **_attention("cross_attention", "enc_attn", _WS),
        **_norms("slf_attn.layer_norm", "enc_attn.layer_norm", "pos_ffn.layer_norm"),
    },
    source=("encoder.src_word_emb.weight",),
    target=("decoder.tgt_word_emb.weight",),
    scores=("tgt_word_prj.weight",),
    source_positions=("encoder.position_enc.weight",),
    target_positions=("decoder.position_enc.weight",),
    dialect=lambda contents, root: Dialect(  # noqa: ARG005
        scaled=(False, True), first_rows=(1,), ids=(0, 2, 3), tied_is_scaled=True
    ),
)

FAMILIES = (BART, OPENNMT, BENTREVETT, HYUNWOONGKO, SAM_LYNN_EVANS, OLD_JADORE)
"""All of them."""
