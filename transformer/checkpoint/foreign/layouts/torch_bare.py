"""Torch's layers without embeddings: a bare nn.Transformer, and a decoder alone, with or without what stands around it.

What no file holds is drawn: vectors to read, and a memory for cross-attention. Attention follows from them, so that is
said, and vectors of one's own may be brought instead.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from transformer.checkpoint.foreign.layouts.base import Drawn, Fit, Source, linear, size
from transformer.checkpoint.foreign.layouts.roles import UNTOLD
from transformer.checkpoint.foreign.layouts.torch_ends import (
    bias_of,
    find_ends,
    position_table,
    projection,
    token_embedding,
)
from transformer.checkpoint.foreign.layouts.torch_layers import (
    Biases,
    Stack,
    layer,
    memory_width,
    norm_after,
    stacks,
    templates,
)
from transformer.checkpoint.foreign.questions import Answers, Question, choice, heads_question, norm_eps
from transformer.checkpoint.safe.contents import Contents
from transformer.messages import Message
from transformer.models.vectors import MEMORIES, VectorConfig

TEMPLATE = Message("ignored_template")
MEMORY_SEED = 1
"""So much is added to the seed for vectors of the other side, which are others."""


def drawn_vectors(answers: Answers) -> tuple[int, int]:
    """How many vectors can be read by number, and the seed that they are drawn with."""
    why = Message("why_vectors")
    count = answers.ask(Question("n_vectors", Message("question_n_vectors"), 16, why=why, least=1, rare=True))
    seed = answers.ask(Question("vector_seed", Message("question_vector_seed"), 0, why=why, rare=True))
    return min(count, 4096), seed


def bare_pair(contents: Contents, answers: Answers, encoder: Stack, decoder: Stack) -> Fit:
    """nn.Transformer alone: vectors on both sides."""
    shapes = contents.shapes
    biases = Biases.of(shapes, f"{encoder.path}0")
    ends = _norms((encoder, decoder), contents, answers)
    sources: dict[str, Source] = {}
    for ours, stack in (("encoder", encoder), ("decoder", decoder)):
        for i in range(stack.count):
            sources |= layer(f"{ours}.{i}", f"{stack.path}{i}", stack.decodes, biases)
        if stack in ends:
            sources |= linear(f"{ours}_norm", stack.norm, has_bias=biases.rest)
    unused = templates(contents, answers)
    count, seed = drawn_vectors(answers)
    sources |= {"source": Drawn(None, seed=seed), "target": Drawn(None, seed=seed + MEMORY_SEED)}
    config = VectorConfig(
        kind="pair",
        source_vocab=count,
        target_vocab=count,
        n_encoder_layers=encoder.count,
        n_decoder_layers=decoder.count,
        encoder_norm=encoder in ends,
        decoder_norm=decoder in ends,
        **_layer_options(contents, answers, encoder, biases),
    )
    reasons = (
        Message("reason_encoder_layers", count=encoder.count, path=encoder.path),
        Message("reason_decoder_layers", count=decoder.count, path=decoder.path),
        Message("reason_layers_alone"),
    )
    assumed = (Message("assumed_vectors", count=count, seed=seed),)
    ignored = {name: TEMPLATE for name in shapes if any(name.startswith(path) for path in unused)}
    doubts = dict.fromkeys(shapes, UNTOLD)
    return Fit("vectors", config, sources, reasons, ignored=ignored, doubts=doubts, assumed=assumed)


class TorchDecoder:
    """Layers of nn.TransformerDecoder without an encoder: what their cross-attention reads is asked."""

    name = "torch-decoder"
    title: str = Message("title_torch_decoder")

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Sizes from shapes; with an embedding, tokens are read, else vectors."""
        shapes = contents.shapes
        found = stacks(shapes)
        if not found or not all(stack.decodes for stack in found):
            return None
        stack = found[0]
        biases = Biases.of(shapes, f"{stack.path}0")
        d_model = size(shapes, (f"{stack.path}0.self_attn.in_proj_weight", 1))
        normed = _norms((stack,), contents, answers)
        sources: dict[str, Source] = {}
        for i in range(stack.count):
            sources |= layer(f"decoder.{i}", f"{stack.path}{i}", decodes=True, biases=biases)
        if normed:
            sources |= linear("decoder_norm", stack.norm, has_bias=biases.rest)
        unused = templates(contents, answers)
        ignored = {name: TEMPLATE for name in shapes if any(name.startswith(path) for path in unused)}
        used = {source.name for source in sources.values() if source.name} | ignored.keys()
        around, assumed, read = _around(contents, answers, stack, used, d_model)
        sources |= read
        why = Message("why_memory")
        width = memory_width(shapes, f"{stack.path}0")
        memory = choice(answers, "memory", [one for one in MEMORIES if one != "inputs" or not width], why)
        if memory == "vectors":
            asked = Question("memory_vectors", Message("question_memory_vectors"), 8, why=why, least=1, rare=True)
            around["memory_vectors"] = min(answers.ask(asked), 4096)
            _, seed = drawn_vectors(answers)
            sources["memory"] = Drawn(None, seed=seed + MEMORY_SEED)
            made = Message("assumed_memory", count=around["memory_vectors"], seed=seed + MEMORY_SEED)
            assumed = (*assumed, made)
        config = VectorConfig(
            kind="decoder",
            n_decoder_layers=stack.count,
            decoder_norm=bool(normed),
            memory=memory,
            d_memory=width,
            **around,
            **_layer_options(contents, answers, stack, biases),
        )
        alone = () if "positions" in around else (Message("reason_layers_alone"),)
        wide = (Message("reason_memory_width", width=width),) if width else ()
        reasons = (Message("reason_decoder_layers", count=stack.count, path=stack.path), *alone, *wide)
        doubts = dict.fromkeys(shapes, UNTOLD)
        return Fit("vectors", config, sources, reasons, ignored=ignored, doubts=doubts, assumed=assumed)

    def typical_names(self) -> Iterable[str]:
        """The names of nn.TransformerDecoder with one layer."""
        sources = layer("decoder.0", "layers.0", decodes=True, biases=Biases(True, True)).values()
        return [source.name for source in sources if source.name]


def _around(
    contents: Contents, answers: Answers, stack: Stack, used: set[str], d_model: int
) -> tuple[dict[str, Any], tuple[str, ...], dict[str, Source]]:
    """What a decoder alone reads and writes: its options, what is said of it, and where its tensors stand."""
    shapes = contents.shapes
    ends = find_ends(shapes, used, d_model)
    embedding = token_embedding(ends, answers)
    if embedding is None:
        count, seed = drawn_vectors(answers)
        said = (Message("assumed_vectors", count=count, seed=seed),)
        return {"source_vocab": count, "target_vocab": count}, said, {"source": Drawn(None, seed=seed)}
    rows = size(shapes, (embedding, 0))
    options: dict[str, Any] = {"source_vocab": rows, "target_vocab": rows}
    sources: dict[str, Source] = {"source": Source(embedding)}
    options["scale_embedding"] = choice(answers, "scale_embedding", (True, False), Message("why_tutorials"))
    table = position_table(ends, shapes, stack.path, answers, embedding)
    if table is not None:
        options |= {"positions": table.kind, "max_length": table.length}
        sources["positions.table"] = table.source
    else:
        formulas = ("sinusoidal", "doubled", "none")
        options["positions"] = choice(answers, "positions", formulas, Message("why_paper"))
    scores = projection(ends, {name: shape[0] for name, shape in shapes.items() if shape}, answers) or embedding
    options["writes"] = size(shapes, (scores, 0))
    sources["projection.weight"] = Source(scores)
    sources["projection.bias"] = Source(bias_of(scores) if scores in ends.biased else None)
    return options, (), sources


def _norms(found: Sequence[Stack], contents: Contents, answers: Answers) -> list[Stack]:
    """The stacks that have a norm after their last layer."""
    shapes = contents.shapes
    if not norm_after(found, shapes, answers):
        return []
    return [stack for stack in found if any(f"{stack.norm}.{part}" in shapes for part in ("weight", "bias"))]


def _layer_options(contents: Contents, answers: Answers, stack: Stack, biases: Biases) -> dict[str, Any]:
    """What the layers themselves are."""
    shapes, first = contents.shapes, f"{stack.path}0"
    d_model = size(shapes, (f"{first}.self_attn.in_proj_weight", 1))
    return {
        "d_model": d_model,
        "n_heads": answers.ask(heads_question(d_model)),
        "d_ff": size(shapes, (f"{first}.linear1.weight", 0)),
        "norm_first": choice(answers, "norm_first", (False, True), Message("why_torch")),
        "activation": choice(answers, "activation", ("relu", "gelu"), Message("why_torch")),
        "attention_bias": biases.attention,
        "norm_eps": norm_eps(answers, 1e-5),
        "causal": choice(answers, "causal", (True, False), Message("why_decoder")),
    }
