"""A module around torch.nn.Transformer, or around stacks of its encoder and decoder layers, under any names.

Source: torch.nn.Transformer; "Language Translation with nn.Transformer" (PyTorch tutorials).
"""

from typing import Any

from transformer.checkpoint.foreign.layouts.base import Fit, Source, lengths, size, two_tables
from transformer.checkpoint.foreign.layouts.torch_layers import Biases, layers, norm_after, stacks, templates
from transformer.checkpoint.foreign.layouts.torch_roles import UNTOLD, OuterTensors, bias_of
from transformer.checkpoint.foreign.questions import (
    Answers,
    choice,
    heads_question,
    norm_eps,
    scaled_embedding,
    seq2seq_special_ids,
)
from transformer.messages import Message
from transformer.nn.positions import FORMULAS
from transformer.nn.seq2seq import preset
from transformer.safe.contents import Contents


def torch_module(contents: Contents, answers: Answers) -> Fit | None:
    """An encoder-decoder of torch's layers.

    Sizes and depths from shapes; heads, activation, order of the norms and scaling are asked.
    """
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
    ends = [s for s in (encoder, decoder) if normed and {f"{s.norm}.weight", f"{s.norm}.bias"} & shapes.keys()]
    sources = layers("encoder", encoder, biases, has_norm=encoder in ends)
    sources |= layers("decoder", decoder, biases, has_norm=decoder in ends)
    ignored = templates(contents)
    used = {source.name for source in sources.values() if source.name} | ignored.keys()
    outer = OuterTensors.of(shapes, used, d_model)
    if not outer.matrices:
        return None
    options, around, copies = _around(contents, answers, outer)
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
    reasons = (
        Message("reason_encoder_layers", count=encoder.count, path=encoder.path),
        Message("reason_decoder_layers", count=decoder.count, path=decoder.path),
        *two_tables(config),
    )
    doubts = dict.fromkeys(shapes, UNTOLD)
    return Fit("seq2seq", config, sources | around, reasons, copies=copies, ignored=ignored, doubts=doubts)


def _around(
    contents: Contents, answers: Answers, outer: OuterTensors
) -> tuple[dict[str, Any], dict[str, Source], tuple[str, ...]]:
    """Embeddings, positions and projection: what the config says of them, their sources, and shared ones."""
    scores = outer.projection(answers)
    source, target = outer.source_and_target(scores, answers)
    shared = source == target or contents.same(source, target)
    tied = scores is None or contents.same(scores, target)
    sources, copies = {"source_embedding.weight": Source(source)}, []
    if not shared:
        sources["target_embedding.weight"] = Source(target)
    elif source != target:
        copies.append(target)
    if not tied:
        sources["projection.weight"] = Source(scores)
    elif scores is not None and scores != target:
        copies.append(scores)
    if scores in outer.biased:
        sources["projection.bias"] = Source(bias_of(str(scores)))
    options: dict[str, Any] = {
        "source_vocab": size(contents.shapes, (source, 0)),
        "target_vocab": size(contents.shapes, (target, 0)),
        "tie_embeddings": shared,
        "tie_projection": tied,
        "projection_bias": scores in outer.biased,
    }
    tables = outer.position_tables(answers)
    if tables is None:
        options["positions"] = choice(answers, "positions", tuple(FORMULAS), Message("why_paper"))
    else:
        first, last = tables
        options |= {"positions": first.kind, **lengths(first.length, last.length)}
        sources |= {f"{side}_positions.table": one.source for side, one in (("source", first), ("target", last))}
    return options, sources, tuple(copies)
