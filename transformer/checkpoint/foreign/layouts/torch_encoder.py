"""A stack of nn.TransformerEncoderLayer without a decoder: embeddings in, one vector for each position out.

Two layouts: any module around nn.TransformerEncoder, and the published net that keeps its layers in a plain list and
adds positions along the batch. Linear maps after the layers (a classifier, a language model's head) are run as well
where they follow one another; what they read is asked. Anything else there is not run. What might act before the
layers, and is neither the embedding nor a positional table, is refused by name (see `roles`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

from transformer.checkpoint.foreign.layouts.base import Fit, Source, linear, root_of, size
from transformer.checkpoint.foreign.layouts.roles import (
    ANSWERED,
    SECOND,
    UNTOLD,
    module_of,
    name_words,
    places,
    some,
)
from transformer.checkpoint.foreign.layouts.torch_ends import (
    FORMULAS,
    NONE,
    Ends,
    bias_of,
    find_ends,
    head_maps,
    head_options,
    position_table,
    token_embedding,
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
    special_id,
)
from transformer.checkpoint.safe.contents import Contents, Shape
from transformer.messages import Message
from transformer.models.decoder import DecoderConfig
from transformer.models.encoder import EncoderConfig

_AFTER = Message("ignored_after_layers")
_CLASS = re.compile(r"cls|class")


class TorchEncoder:
    """Any module around nn.TransformerEncoder."""

    name = "torch-encoder"
    title: str = Message("title_torch_encoder")

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Sizes and depth from shapes; heads, activation, order of the norms and scaling are asked."""
        shapes = contents.shapes
        found = stacks(shapes)
        if not found or any(stack.decodes for stack in found) or _published(shapes) is not None:
            return None
        why = Message("why_tutorials")
        return _fit(contents, answers, found[0], axes=("sequence", "batch"), why=why)


class PublishedEncoder:
    """The published encoder-only net: `embeding` (spelt so), `pos_encoder.pe`, layers in a plain list."""

    name = "encoder-only"
    title: str = Message("title_encoder_only")

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """As published: positions lie along the batch."""
        root = _published(contents.shapes)
        if root is None:
            return None
        found = [stack for stack in stacks(contents.shapes) if stack.path == f"{root}transformer_encoder."]
        if not found:
            return None
        return _fit(contents, answers, found[0], axes=("batch", "sequence"), why=Message("why_published"))


def _published(shapes: Mapping[str, Shape]) -> str | None:
    return root_of(shapes, r"embeding\.weight")


@dataclass
class _Around:
    """What stands around a stack: options of our config, and where tensors stand."""

    sources: dict[str, Source]
    options: dict[str, Any] = field(default_factory=dict)

    def add(self, sources: Mapping[str, Source], options: Mapping[str, Any]) -> None:
        """One more part."""
        self.sources |= sources
        self.options |= options

    def without(self, free: Mapping[str, Shape]) -> dict[str, Shape]:
        """What of `free` has no part."""
        used = {name for source in self.sources.values() for name in source.names}
        return {name: shape for name, shape in free.items() if name not in used}


def _fit(contents: Contents, answers: Answers, stack: Stack, axes: tuple[str, str], why: str) -> Fit | None:
    """The stack, its embedding and its positions; the first of `axes` is the default. None without an embedding."""
    shapes = contents.shapes
    first = f"{stack.path}0"
    biases = Biases.of(shapes, first)
    d_model = size(shapes, (f"{first}.self_attn.in_proj_weight", 1))
    normed = norm_after((stack,), shapes, answers)
    sources: dict[str, Source] = {}
    for i in range(stack.count):
        sources |= layer(f"encoder.{i}", f"{stack.path}{i}", decodes=False, biases=biases)
    if normed:
        sources |= linear("encoder_norm", stack.norm, has_bias=biases.rest)
    unused = templates(contents, answers)
    ignored = {name: TEMPLATE for name in shapes if any(name.startswith(path) for path in unused)}
    used = {source.name for source in sources.values() if source.name} | ignored.keys()
    ends = find_ends(shapes, used, d_model)
    embedding = token_embedding(ends, answers)
    if embedding is None:
        return None
    around = _Around(sources)
    _read(contents, answers, stack, around, ends, embedding, axes, why)
    free = around.without(
        {
            name: shapes[name]
            for name, tensor in contents.tensors.items()
            if name not in used and not name.startswith(stack.path) and tensor.is_floating_point()
        }
    )
    found, doubts = _places(free, shapes, stack, d_model, answers)
    after = {name: free[name] for name in free if name in found}
    has_class_token = "cls_id" in around.options
    vocab = around.options["vocab"] - (1 if has_class_token else 0)
    head = head_options(after, d_model, vocab, answers, has_class_token)
    writes = any(after[name][0] == vocab for name in head_maps(after, d_model)[-1:])
    if head:
        names = head_maps(after, d_model)
        for i, name in enumerate(names):
            sources |= linear(f"head.{i}", name.removesuffix(".weight"), has_bias=bias_of(name) in after)
        after = {name: shape for name, shape in after.items() if name not in _with_biases(names)}
    ignored |= dict.fromkeys(after, _AFTER)
    config = EncoderConfig(
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
        **around.options,
        **head,
    )
    reasons = (Message("reason_encoder_layers", count=stack.count, path=stack.path), Message("reason_no_decoder"))
    fit = Fit("encoder", config, around.sources, reasons, ignored=ignored, doubts=doubts)
    return _as_decoder(fit)


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


def _read(
    contents: Contents,
    answers: Answers,
    stack: Stack,
    around: _Around,
    ends: Ends,
    embedding: str,
    axes: tuple[str, str],
    why: str,
) -> None:
    """What the first layer reads: tokens, with their positions, after a class token where there is one."""
    shapes = contents.shapes
    around.add({"embedding.weight": Source(embedding)}, {"vocab": size(shapes, (embedding, 0))})
    table = position_table(ends, shapes, stack.path, answers, embedding)
    if table is not None:
        around.add({"positions.table": table.source}, {"positions": table.kind, "max_length": table.length})
        if table.source.extra_axis == 1:
            around.options["position_axis"] = choice(answers, "position_axis", axes, why)
    else:
        around.options["positions"] = choice(answers, "positions", FORMULAS, Message("why_paper"))
    around.options["scale_embedding"] = scaled_embedding(answers)
    around.add(*_class_token(around.without(shapes), embedding, shapes, answers))


@dataclass(frozen=True)
class WithClassToken(Source):
    """An embedding, and below its rows a vector of its own: the class token, a parameter of any number of axes."""

    token: str = ""
    token_shape: Shape = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The table and the vector."""
        return (str(self.name), self.token)

    def needs(self, ours: Shape) -> dict[str, Shape]:
        """The table has a row less than ours."""
        return {str(self.name): (ours[0] - 1, *ours[1:]), self.token: self.token_shape}

    def take(self, tensors: Mapping[str, Tensor], ours: Shape) -> Tensor:
        """The vector as the last row."""
        return torch.cat([tensors[str(self.name)], tensors[self.token].reshape(1, ours[1])])


def _class_token(
    free: Mapping[str, Shape], embedding: str, shapes: Mapping[str, Shape], answers: Answers
) -> tuple[dict[str, Source], dict[str, Any]]:
    """A learned vector before every text, if a lone parameter is called so; where its position comes from is asked."""
    rows, d_model = shapes[embedding]
    found = [
        name
        for name, shape in free.items()
        if shape and shape[-1] == d_model and all(one == 1 for one in shape[:-1])
        and not _is_of_module(name, shapes)
        and any(map(_CLASS.fullmatch, name_words(name.rpartition(".")[2])))
    ]  # fmt: skip
    if len(found) != 1:
        return {}, {}
    text, why = Message("question_cls_token", token=found[0]), Message("why_name_says")
    place = choice(answers, "cls_token", ("before_positions", "after_positions", NONE), why, text)
    if place == NONE:
        return {}, {}
    table = WithClassToken(embedding, token=found[0], token_shape=shapes[found[0]])
    options = {"vocab": rows + 1, "cls_id": rows, "cls_positioned": place == "before_positions"}
    return {"embedding.weight": table}, options


def _is_of_module(name: str, shapes: Mapping[str, Shape]) -> bool:
    """Whether a tensor is the weight or the bias of a module, and so no parameter by itself."""
    return name.rpartition(".")[2] in {"weight", "bias"} or f"{name}.weight" in shapes


def _causal(contents: Contents, answers: Answers, *, writes: bool) -> bool:
    """Whether the future is hidden; a stored mask above the diagonal says that it is.

    One that `writes` scores every token of its vocabulary: a language model, which may hide it or not.
    """
    stored = [tensor for name, tensor in contents.tensors.items() if name.endswith("mask") and tensor.ndim == 2]
    square = [tensor != tensor[0, 0] for tensor in stored if tensor.shape[0] == tensor.shape[1] > 1]
    upper = any(bool(one.triu(1).sum() == one.sum()) and bool(one[0, 1:].all()) for one in square)
    why = Message("why_stored_mask" if upper else "why_writes" if writes else "why_encoder")
    return bool(choice(answers, "causal", (upper, not upper), why, is_open=writes and not upper))


def _places(
    free: Mapping[str, Shape], shapes: Mapping[str, Shape], stack: Stack, d_model: int, answers: Answers
) -> tuple[set[str], dict[str, str]]:
    """What of the `free` tensors stands after the layers; and what might not, each with the reason."""
    paths = tuple(other.path for other in stacks(shapes) if other.path != stack.path)
    second = {name: SECOND for name in free if paths and name.startswith(paths)}
    norm = {name: UNTOLD for name in free if name.startswith(f"{stack.norm}.")}
    rest = {name: shape for name, shape in free.items() if name not in second and name not in norm}
    found = places(rest, shapes, stack.path, d_model)
    after, untold, early = set(found.after), {**found.untold, **second}, dict(found.early)
    if found.named:
        text = Message("question_named_after", some=tuple(dict.fromkeys(map(module_of, found.named))))
        if not choice(answers, "named_after", (True, False), Message("why_name_says"), text):
            after, early = after - set(found.named), {**early, **dict.fromkeys(found.named, ANSWERED)}
    if untold:
        text = Message("question_others_after", some=some(untold))
        if choice(answers, "others_after", (False, True), Message("why_nothing_tells"), text):
            after, untold = after | set(untold), {}
    return after, {**untold, **early, **norm}


def _with_biases(names: Iterable[str]) -> set[str]:
    return {tensor for name in names for tensor in (name, bias_of(name))}
