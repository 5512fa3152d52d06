"""GPT-2 and its kin without their config: GPT-2 as the transformers library saves it, nanoGPT and minGPT.

They name alike. GPT-2 stores its linear maps with the inputs first; the other two as torch.nn.Linear does. Query, key
and value are one matrix, the norm stands before each sub-layer, and the future is hidden.
"""

from collections.abc import Mapping

import torch

from transformer.checkpoint.foreign.layouts.base import Fit, Source, layer_count, linear, root_of, size
from transformer.checkpoint.foreign.layouts.decoder_positions import decoder_positions, positioned, turned
from transformer.checkpoint.foreign.questions import (
    Answers,
    attention_scale,
    choice,
    heads_question,
    norm_eps,
    special_id,
)
from transformer.messages import Message
from transformer.nn.decoder import DecoderConfig
from transformer.safe.contents import Contents, Shape

_MASK, _MASKED = "attn.bias", "attn.masked_bias"


def gpt(contents: Contents, answers: Answers) -> Fit | None:
    """A decoder alone, as GPT-2, nanoGPT and minGPT save it.

    Sizes from shapes; heads are asked, and what forks change under the same names.
    """
    shapes = contents.shapes
    root = root_of(shapes, r"h\.\d+\.attn\.c_attn\.weight")
    if root is None:
        return None
    tokens, places = f"{root}wte.weight", f"{root}wpe.weight"
    d_model = size(shapes, (tokens, 1), (f"{root}ln_f.weight", 0))
    n_layers = max(1, layer_count(shapes, f"{root}h."))
    transposed = shapes.get(f"{root}h.0.attn.c_attn.weight", ())[:1] == (d_model,)
    masks = _masks(contents, root)
    bias = f"{root}h.0.attn.c_attn.bias" in shapes
    scores = f"{root.removesuffix('transformer.')}lm_head.weight"
    own = scores in contents.tensors and not contents.same(scores, tokens)
    usual = ("gelu_tanh", "gelu", "relu") if transposed or masks else ("gelu", "gelu_tanh", "relu")
    vocab = size(shapes, (tokens, 0))
    n_heads, kind = answers.ask(heads_question(d_model)), decoder_positions(places, shapes, answers)
    options, table = positioned(kind, places, shapes)
    config = DecoderConfig(
        vocab=vocab,
        d_model=d_model,
        n_heads=n_heads,
        d_ff=_d_ff(shapes, root, transposed),
        n_layers=n_layers,
        norm_eps=norm_eps(answers, 1e-5),
        norm_first=choice(answers, "norm_first", (True, False), Message("why_original")),
        norm_after_stack=True,
        attention_bias=bias,
        attention_scale=attention_scale(answers, d_model, Message("why_original")),
        activation=choice(answers, "activation", usual, Message("why_original")),
        **options,
        tie_projection=not own,
        pad_id=special_id(answers, "pad_id", -1),
    )
    sources = _sources(root, n_layers, transposed, bias) | table
    sources |= {"projection.weight": Source(scores)} if own else {}
    fit = Fit(
        architecture="decoder",
        config=config,
        sources=sources,
        reasons=(
            Message("reason_gpt", count=n_layers),
            Message("reason_inputs_first") if transposed else Message("reason_outputs_first"),
            Message("reason_not_tied" if own else "reason_tied_to_tokens"),
        ),
        ignored=dict.fromkeys(masks, Message("ignored_mask")),
        copies=() if own or scores not in shapes else (scores,),
    )
    return turned(fit, kind, answers)


def _d_ff(shapes: Mapping[str, Shape], root: str, transposed: bool) -> int:
    return size(shapes, (f"{root}h.0.mlp.c_fc.weight", 1 if transposed else 0))


def _masks(contents: Contents, root: str) -> list[str]:
    """The stored masks over the future (ones on and below the diagonal), and what stands in for hidden scores."""
    found = []
    for name, tensor in contents.tensors.items():
        if not name.startswith(f"{root}h."):
            continue
        if name.endswith(_MASKED) and not tensor.shape:
            found.append(name)
        square = tensor.dim() == 4 and tensor.shape[:2] == (1, 1) and tensor.shape[2] == tensor.shape[3]
        if (
            name.endswith(_MASK)
            and square
            and torch.equal(tensor[0, 0] != 0, torch.ones_like(tensor[0, 0]).tril() != 0)
        ):
            found.append(name)
    return found


def _sources(root: str, n_layers: int, transposed: bool, bias: bool) -> dict[str, Source]:
    """Where each of our tensors stands."""

    def map_(ours: str, theirs: str) -> dict[str, Source]:
        found = {f"{ours}.weight": Source(f"{theirs}.weight", transposed=transposed)}
        return found | {f"{ours}.bias": Source(f"{theirs}.bias" if bias else None)}

    sources = {
        "embedding.weight": Source(f"{root}wte.weight"),
        **linear("decoder_norm", f"{root}ln_f", has_bias=bias),
    }
    for i in range(n_layers):
        ours, theirs = f"decoder.{i}", f"{root}h.{i}"
        for part, name in enumerate(("query", "key", "value")):
            where, fused = f"{ours}.self_attention.{name}", f"{theirs}.attn.c_attn"
            sources[f"{where}.weight"] = Source(f"{fused}.weight", part, parts=3, transposed=transposed)
            if bias:
                sources[f"{where}.bias"] = Source(f"{fused}.bias", part, parts=3)
        output = map_(f"{ours}.self_attention.output", f"{theirs}.attn.c_proj")
        sources |= output if bias else {name: source for name, source in output.items() if source.name}
        sources |= linear(f"{ours}.self_residual.norm", f"{theirs}.ln_1", has_bias=bias)
        sources |= map_(f"{ours}.feed_forward.widen", f"{theirs}.mlp.c_fc")
        sources |= map_(f"{ours}.feed_forward.narrow", f"{theirs}.mlp.c_proj")
        sources |= linear(f"{ours}.feed_forward_residual.norm", f"{theirs}.ln_2", has_bias=bias)
    return sources
