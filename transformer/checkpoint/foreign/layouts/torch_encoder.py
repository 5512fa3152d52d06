"""A stack of nn.TransformerEncoderLayer without a decoder: embeddings in, one vector for each position out.

Two layouts: any module around nn.TransformerEncoder, and the published net that keeps its layers in a plain list and
adds positions along the batch. Linear maps after the layers (a classifier, a language model's head) are run as well
where they follow one another; what they read is asked.
"""

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from transformer.checkpoint.foreign.layouts.base import Fit, Source, linear, root_of, size
from transformer.checkpoint.foreign.layouts.torch_layers import (
    Biases,
    Stack,
    layers,
    lone_layers,
    norm_after,
    stacks,
    templates,
)
from transformer.checkpoint.foreign.layouts.torch_roles import (
    OuterTensors,
    after_layers,
    bias_of,
    head_maps,
    head_options,
    with_biases,
)
from transformer.checkpoint.foreign.questions import (
    Answers,
    choice,
    heads_question,
    norm_eps,
    scaled_embedding,
    special_id,
)
from transformer.messages import Message
from transformer.nn.decoder import DecoderConfig
from transformer.nn.encoder import EncoderConfig
from transformer.nn.positions import FORMULAS
from transformer.safe.contents import Contents, Shape


def torch_encoder(contents: Contents, answers: Answers) -> Fit | None:
    """Any module around nn.TransformerEncoder.

    Sizes and depth from shapes; heads, activation, order of the norms and scaling are asked.
    """
    found = stacks(contents.shapes)
    if not found or any(stack.decodes for stack in found) or _published(contents.shapes) is not None:
        return None
    return _fit(contents, answers, found[0], axes=("sequence", "batch"), why=Message("why_tutorials"))


def published_encoder(contents: Contents, answers: Answers) -> Fit | None:
    """The published encoder-only net: `embeding` (spelt so), `pos_encoder.pe`, layers in a plain list.

    As published: positions lie along the batch.
    """
    root = _published(contents.shapes)
    found = [stack for stack in stacks(contents.shapes) if stack.path == f"{root}transformer_encoder."]
    if root is None or not found:
        return None
    return _fit(contents, answers, found[0], axes=("batch", "sequence"), why=Message("why_published"))


def _published(shapes: Mapping[str, Shape]) -> str | None:
    return root_of(shapes, r"embeding\.weight")


def _fit(contents: Contents, answers: Answers, stack: Stack, axes: tuple[str, str], why: str) -> Fit | None:
    """The stack, its embedding and its positions; the first of `axes` is the default. None without an embedding."""
    shapes = contents.shapes
    first = f"{stack.path}0"
    biases = Biases.of(shapes, first)
    d_model = size(shapes, (f"{first}.self_attn.in_proj_weight", 1))
    normed = norm_after((stack,), shapes, answers)
    sources = layers("encoder", stack, biases, has_norm=normed)
    ignored = templates(contents)
    used = {source.name for source in sources.values() if source.name} | ignored.keys()
    outer = OuterTensors.of(shapes, used, d_model)
    embedding = outer.token_embedding(answers)
    if embedding is None:
        return None
    vocab = size(shapes, (embedding, 0))
    sources["embedding.weight"] = Source(embedding)
    options: dict[str, Any] = {}
    table = outer.position_table(embedding, answers)
    if table is None:
        options["positions"] = choice(answers, "positions", tuple(FORMULAS), Message("why_paper"))
    else:
        options |= {"positions": table.kind, "max_length": table.length}
        sources["positions.table"] = table.source
        if table.source.extra_axis == 1:
            options["position_axis"] = choice(answers, "position_axis", axes, why)
    scale = scaled_embedding(answers)
    used |= {name for source in sources.values() for name in source.names}
    free = {name: shape for name, shape in shapes.items() if name not in used and not name.startswith(stack.path)}
    after, doubts = after_layers(contents, free, d_model, answers)
    alone = lone_layers(shapes)
    maps = {name: shape for name, shape in after.items() if not name.startswith(alone)}
    head = head_options(maps, d_model, vocab, answers)
    names = head_maps(maps, d_model)
    writes = any(after[name][0] == vocab for name in names[-1:])
    if head:
        for i, name in enumerate(names):
            sources |= linear(f"head.{i}", name.removesuffix(".weight"), has_bias=bias_of(name) in after)
        after = {name: shape for name, shape in after.items() if name not in with_biases(names)}
    config = EncoderConfig(
        vocab=vocab,
        d_model=d_model,
        n_heads=answers.ask(heads_question(d_model)),
        d_ff=size(shapes, (f"{first}.linear1.weight", 0)),
        n_layers=stack.count,
        norm_first=choice(answers, "norm_first", (False, True), Message("why_torch")),
        norm_after_stack=normed,
        activation=choice(answers, "activation", ("relu", "gelu"), Message("why_torch")),
        attention_bias=biases.attention,
        norm_eps=norm_eps(answers, 1e-5),
        causal=_causal(contents, answers, writes=writes),
        pad_id=special_id(answers, "pad_id", -1),
        scale_embedding=scale,
        **options,
        **head,
    )
    reasons = (Message("reason_encoder_layers", count=stack.count, path=stack.path), Message("reason_no_decoder"))
    ignored |= dict.fromkeys(after, Message("ignored_after_layers"))
    return _as_decoder(Fit("encoder", config, sources, reasons, ignored=ignored, doubts=doubts))


def _as_decoder(fit: Fit) -> Fit:
    """A stack that hides the future and scores the vocabulary from each position is a decoder alone.

    One with more than such a decoder has (several linear maps at its end, positions along the
    batch) stays an encoder.
    """
    config: EncoderConfig = fit.config
    known = {field.name for field in fields(DecoderConfig)} & {field.name for field in fields(EncoderConfig)}
    options = {name: getattr(config, name) for name in known}
    if config != EncoderConfig(**options, causal=True, head=(config.vocab,)):
        return fit
    sources = {name: source for name, source in fit.sources.items() if name != "head.0.bias" or source.name}
    has_bias = "head.0.bias" in sources
    named = {re.sub("^encoder", "decoder", re.sub(r"^head\.0", "projection", name)): sources[name] for name in sources}
    return replace(
        fit, architecture="decoder", config=DecoderConfig(**options, projection_bias=has_bias), sources=named
    )


def _causal(contents: Contents, answers: Answers, *, writes: bool) -> bool:
    """Whether the future is hidden; a stored mask above the diagonal says that it is.

    One that `writes` scores every token of its vocabulary: a language model, which may hide it or not.
    """
    stored = [tensor for name, tensor in contents.tensors.items() if name.endswith("mask") and tensor.ndim == 2]
    square = [tensor != tensor[0, 0] for tensor in stored if tensor.shape[0] == tensor.shape[1] > 1]
    upper = any(bool(one.triu(1).sum() == one.sum()) and bool(one[0, 1:].all()) for one in square)
    why = Message("why_stored_mask" if upper else "why_writes" if writes else "why_encoder")
    return bool(choice(answers, "causal", (upper, not upper), why, is_open=writes and not upper))
