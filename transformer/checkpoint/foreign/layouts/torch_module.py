"""A module around torch.nn.Transformer, or around stacks of its encoder and decoder layers, under any names.

Source: torch.nn.Transformer; "Language Translation with nn.Transformer" (PyTorch tutorials).
"""

from collections.abc import Sequence
from typing import Any

from transformer.checkpoint.foreign.layouts.base import Fit, Source, lengths, linear, size, two_tables
from transformer.checkpoint.foreign.layouts.roles import UNTOLD
from transformer.checkpoint.foreign.layouts.torch_ends import (
    FORMULAS,
    Ends,
    bias_of,
    find_ends,
    position_tables,
    projection,
    source_and_target,
)
from transformer.checkpoint.foreign.layouts.torch_layers import (
    TEMPLATE,
    Biases,
    Stack,
    layer,
    norm_after,
    stacks,
    templates,
)
from transformer.checkpoint.foreign.questions import (
    Answers,
    choice,
    heads_question,
    norm_eps,
    scaled_embedding,
    seq2seq_special_ids,
)
from transformer.checkpoint.safe.contents import Contents
from transformer.messages import Message
from transformer.models.seq2seq import preset


class TorchModule:
    """An encoder-decoder of torch's layers."""

    name = "torch"
    title: str = Message("title_torch")

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Sizes and depths from shapes; heads, activation, order of the norms and scaling are asked."""
        shapes = contents.shapes
        found = stacks(shapes)
        encoder = next((stack for stack in found if not stack.decodes), None)
        decoder = next((stack for stack in found if stack.decodes), None)
        if encoder is None or decoder is None:
            return None
        first = f"{encoder.path}0"
        biases = Biases.of(shapes, first)
        d_model = size(shapes, (f"{first}.self_attn.in_proj_weight", 1), (f"{decoder.path}0.norm1.weight", 0))
        normed = norm_after((encoder, decoder), shapes, answers)
        parts = ("weight", "bias")
        there = {stack: any(f"{stack.norm}.{part}" in shapes for part in parts) for stack in (encoder, decoder)}
        ends = [stack for stack in (encoder, decoder) if normed and there[stack]]
        sources = _layers(encoder, decoder, biases, ends)
        unused = templates(contents, answers)
        ignored = {name: TEMPLATE for name in shapes if any(name.startswith(path) for path in unused)}
        used = {source.name for source in sources.values() if source.name} | ignored.keys()
        around = find_ends(shapes, used, d_model)
        if not around.matrices:
            return None
        options, ends_sources, copies = _ends(contents, answers, around)
        config = preset(
            "torch",
            **options,
            d_model=d_model,
            n_heads=answers.ask(heads_question(d_model)),
            d_ff=size(shapes, (f"{first}.linear1.weight", 0)),
            n_encoder_layers=encoder.count,
            n_decoder_layers=decoder.count,
            norm_first=choice(answers, "norm_first", (False, True), Message("why_torch")),
            activation=choice(answers, "activation", ("relu", "gelu"), Message("why_torch")),
            scale_embedding=scaled_embedding(answers),
            norm_after_stack=normed,
            without_norm="" if len(ends) != 1 else "decoder" if ends[0] is encoder else "encoder",
            attention_bias=biases.attention,
            norm_eps=norm_eps(answers, 1e-5),
            **seq2seq_special_ids(answers),
        )
        return Fit(
            architecture="seq2seq",
            config=config,
            sources=sources | ends_sources,
            reasons=(
                Message("reason_encoder_layers", count=encoder.count, path=encoder.path),
                Message("reason_decoder_layers", count=decoder.count, path=decoder.path),
                *two_tables(config),
            ),
            copies=copies,
            ignored=ignored,
            doubts=dict.fromkeys(shapes, UNTOLD),
        )


def _layers(encoder: Stack, decoder: Stack, biases: Biases, normed: Sequence[Stack]) -> dict[str, Source]:
    """The layers, and the norms after those stacks that have one."""
    sources: dict[str, Source] = {}
    for ours, stack in (("encoder", encoder), ("decoder", decoder)):
        for i in range(stack.count):
            sources |= layer(f"{ours}.{i}", f"{stack.path}{i}", stack.decodes, biases)
        if stack in normed:
            sources |= linear(f"{ours}_norm", stack.norm, has_bias=biases.rest)
    return sources


def _ends(
    contents: Contents, answers: Answers, ends: Ends
) -> tuple[dict[str, Any], dict[str, Source], tuple[str, ...]]:
    """Embeddings, positions and projection: what the config says of them, their sources, and shared ones."""
    shapes, copies = contents.shapes, []
    scores = projection(ends, {name: shape[0] for name, shape in shapes.items() if shape}, answers)
    embeddings = {name: shapes[name][0] for name in ends.matrices if name != scores} or {"an embedding": 1}
    rows = shapes[scores][0] if scores else None
    source, target = source_and_target(embeddings, answers, rows, scores)
    shared = source == target or contents.same(source, target)
    tied = scores is None or contents.same(scores, target)
    sources = {"source_embedding.weight": Source(source)}
    if not shared:
        sources["target_embedding.weight"] = Source(target)
    elif source != target:
        copies.append(target)
    if not tied:
        sources["projection.weight"] = Source(scores)
    elif scores is not None and scores != target:
        copies.append(scores)
    has_bias = scores in ends.biased
    if has_bias:
        sources["projection.bias"] = Source(bias_of(str(scores)))
    options: dict[str, Any] = {
        "source_vocab": size(shapes, (source, 0)),
        "target_vocab": size(shapes, (target, 0)),
        "tie_embeddings": shared,
        "tie_projection": tied,
        "projection_bias": has_bias,
    }
    tables = position_tables(ends.tables, answers)
    if tables is not None:
        first, last = tables
        options |= {"positions": first.kind, **lengths(first.length, last.length)}
        sources |= {f"{side}_positions.table": one.source for side, one in (("source", first), ("target", last))}
    else:
        options["positions"] = choice(answers, "positions", FORMULAS, Message("why_paper"))
    return options, sources, tuple(copies)
