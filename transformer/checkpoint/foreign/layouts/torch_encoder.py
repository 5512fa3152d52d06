"""A stack of nn.TransformerEncoderLayer without a decoder: embeddings in, one vector for each position out.

Two layouts: any module around nn.TransformerEncoder, and the published net that keeps its layers in a plain list and
adds positions along the batch. Linear maps after the layers (a classifier, a language model's head) are run as well
where they follow one another; what they read is asked. Anything else there is not run.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from transformer.checkpoint.foreign.layouts.base import Fit, Source, linear, root_of, size
from transformer.checkpoint.foreign.layouts.torch_ends import bias_of, find_ends, head_maps, head_options
from transformer.checkpoint.foreign.layouts.torch_layers import Stack, layer, stacks, templates
from transformer.checkpoint.foreign.layouts.torch_module import TEMPLATE
from transformer.checkpoint.foreign.questions import Answers, choice, heads_question, mark, norm_eps
from transformer.checkpoint.safe.contents import Contents, Shape
from transformer.models.encoder import EncoderConfig

_AFTER = "it comes after the encoder's layers, and is not run"


class TorchEncoder:
    """Any module around nn.TransformerEncoder."""

    name = "torch-encoder"
    title = "a module around torch.nn.TransformerEncoder"

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Sizes and depth from shapes; heads, activation, order of the norms and scaling are asked."""
        shapes = contents.shapes
        found = stacks(shapes)
        if not found or any(stack.decodes for stack in found) or _published(shapes) is not None:
            return None
        why = "as in PyTorch's tutorials"
        return _fit(contents, answers, found[0], scaled=(True, False), axes=("sequence", "batch"), why=why)

    def typical_names(self) -> Iterable[str]:
        """The names of nn.TransformerEncoder with one layer, and its embedding."""
        return _typical("transformer_encoder.layers.0", "embedding.weight")


class PublishedEncoder:
    """The published encoder-only net: `embeding` (spelt so), `pos_encoder.pe`, layers in a plain list."""

    name = "encoder-only"
    title = "the encoder-only net with a plain list of layers"

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """As published: embeddings are not scaled, and positions lie along the batch."""
        root = _published(contents.shapes)
        if root is None:
            return None
        found = [stack for stack in stacks(contents.shapes) if stack.path == f"{root}transformer_encoder."]
        if not found:
            return None
        return _fit(contents, answers, found[0], scaled=(False, True), axes=("batch", "sequence"), why="as published")

    def typical_names(self) -> Iterable[str]:
        """The names of a model with one layer."""
        return [*_typical("transformer_encoder.0", "embeding.weight"), "pos_encoder.pe"]


def _published(shapes: Mapping[str, Shape]) -> str | None:
    return root_of(shapes, r"embeding\.weight")


def _typical(first: str, embedding: str) -> list[str]:
    return [embedding, *(s.name for s in layer("encoder.0", first, decodes=False, bias=True).values() if s.name)]


def _fit(
    contents: Contents, answers: Answers, stack: Stack, scaled: tuple[bool, bool], axes: tuple[str, str], why: str
) -> Fit:
    """The stack, its embedding and its positions; the first of `scaled` and of `axes` is the default."""
    shapes = contents.shapes
    first = f"{stack.path}0"
    bias = f"{first}.self_attn.in_proj_bias" in shapes
    d_model = size(shapes, (f"{first}.self_attn.in_proj_weight", 1))
    normed = f"{stack.norm}.weight" in shapes and stack.path.endswith("layers.")
    sources: dict[str, Source] = {}
    for i in range(stack.count):
        sources |= layer(f"encoder.{i}", f"{stack.path}{i}", decodes=False, bias=bias)
    if normed:
        sources |= linear("encoder_norm", stack.norm, has_bias=bias)
    unused = templates(shapes)
    ignored = {name: TEMPLATE for name in shapes if any(name.startswith(path) for path in unused)}
    used = {source.name for source in sources.values() if source.name} | ignored.keys()
    ends = find_ends(shapes, used, d_model)
    embedding = ends.matrices[0] if ends.matrices else "an embedding"
    sources["embedding.weight"] = Source(embedding)
    options: dict[str, Any] = {}
    if ends.tables:
        table = ends.tables[0]
        options = {"positions": table.kind, "max_length": table.length}
        sources["positions.table"] = table.source
        if table.source.extra_axis == 1:
            text = "Along which axis are rows of the table added?"
            options["position_axis"] = choice(answers, "position_axis", text, axes, why)
    else:
        text = "By which formula are positions computed?"
        options["positions"] = choice(answers, "positions", text, ("sinusoidal", "doubled", "none"), "as in the paper")
    taken = used | {source.name for source in sources.values()}
    after = {name: shape for name, shape in shapes.items() if name not in taken and not name.startswith(stack.path)}
    head = head_options(after, d_model, size(shapes, (embedding, 0)), answers)
    if head:
        names = head_maps(after, d_model)
        for i, name in enumerate(names):
            sources |= linear(f"head.{i}", name.removesuffix(".weight"), has_bias=bias_of(name) in after)
        after = {name: shape for name, shape in after.items() if name not in _with_biases(names)}
    ignored |= dict.fromkeys(after, _AFTER)
    config = EncoderConfig(
        vocab=size(shapes, (embedding, 0)),
        d_model=d_model,
        n_heads=answers.ask(heads_question(d_model)),
        d_ff=size(shapes, (f"{first}.linear1.weight", 0)),
        n_layers=stack.count,
        norm_first=choice(
            answers, "norm_first", "Does the norm stand before each sub-layer?", (False, True), "torch's default"
        ),
        norm_after_stack=normed,
        activation=choice(
            answers, "activation", "What bends the feed-forward net?", ("relu", "gelu"), "torch's default"
        ),
        attention_bias=bias,
        norm_eps=norm_eps(answers, 1e-5),
        scale_embedding=choice(
            answers, "scale_embedding", "Are embeddings multiplied by the root of d_model?", scaled, why
        ),
        causal=choice(
            answers, "causal", "Is the future hidden, as in a language model?", (False, True), "an encoder's way"
        ),
        pad_id=mark(answers, "pad_id", "Which id is padding (-1: none)?", -1),
        **options,
        **head,
    )
    reasons = (f"{stack.count} x nn.TransformerEncoderLayer at {stack.path}", "no decoder")
    return Fit("encoder", config, sources, reasons, ignored=ignored)


def _with_biases(names: Iterable[str]) -> set[str]:
    return {tensor for name in names for tensor in (name, bias_of(name))}
