"""A stack of nn.TransformerEncoderLayer without a decoder: embeddings in, one vector for each position out.

Two layouts: any module around nn.TransformerEncoder, and the published net that keeps its layers in a plain list and
adds positions along the batch. Linear maps after the layers (a classifier, a language model's head) are run as well
where they follow one another; what they read is asked. Anything else there is not run. What might act before the
layers, and is neither the embedding nor a positional table, is refused by name (see `roles`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from transformer.checkpoint.foreign.layouts.base import Fit, Source, linear, root_of, size
from transformer.checkpoint.foreign.layouts.roles import (
    ANSWERED,
    SECOND,
    UNTOLD,
    is_second_embedding,
    module_of,
    name_words,
    names_tokens,
    places,
    says_after,
)
from transformer.checkpoint.foreign.layouts.torch_ends import Ends, Table, bias_of, find_ends, head_maps, head_options
from transformer.checkpoint.foreign.layouts.torch_layers import Biases, Stack, layer, norm_after, stacks, templates
from transformer.checkpoint.foreign.layouts.torch_module import TEMPLATE
from transformer.checkpoint.foreign.questions import Answers, choice, heads_question, norm_eps, special_id
from transformer.checkpoint.safe.contents import Contents, Shape
from transformer.messages import Message
from transformer.models.encoder import EncoderConfig

NONE = "none"
"""The answer that no tensor of the file plays a part."""

FEW_SEGMENTS = 8
"""So many rows at most has a table of segments that is not called one."""

_AFTER = Message("ignored_after_layers")


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
        return _fit(contents, answers, found[0], scaled=(True, False), axes=("sequence", "batch"), why=why)

    def typical_names(self) -> Iterable[str]:
        """The names of nn.TransformerEncoder with one layer, and its embedding."""
        return _typical("transformer_encoder.layers.0", "embedding.weight")


class PublishedEncoder:
    """The published encoder-only net: `embeding` (spelt so), `pos_encoder.pe`, layers in a plain list."""

    name = "encoder-only"
    title: str = Message("title_encoder_only")

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """As published: embeddings are not scaled, and positions lie along the batch."""
        root = _published(contents.shapes)
        if root is None:
            return None
        found = [stack for stack in stacks(contents.shapes) if stack.path == f"{root}transformer_encoder."]
        if not found:
            return None
        return _fit(
            contents, answers, found[0], scaled=(False, True), axes=("batch", "sequence"), why=Message("why_published")
        )

    def typical_names(self) -> Iterable[str]:
        """The names of a model with one layer."""
        return [*_typical("transformer_encoder.0", "embeding.weight"), "pos_encoder.pe"]


def _published(shapes: Mapping[str, Shape]) -> str | None:
    return root_of(shapes, r"embeding\.weight")


def _typical(first: str, embedding: str) -> list[str]:
    return [
        embedding,
        *(s.name for s in layer("encoder.0", first, decodes=False, biases=Biases(True, True)).values() if s.name),
    ]


def _fit(
    contents: Contents, answers: Answers, stack: Stack, scaled: tuple[bool, bool], axes: tuple[str, str], why: str
) -> Fit:
    """The stack, its embedding and its positions; the first of `scaled` and of `axes` is the default."""
    shapes = contents.shapes
    first = f"{stack.path}0"
    biases = Biases.of(shapes, first)
    bias = biases.rest
    d_model = size(shapes, (f"{first}.self_attn.in_proj_weight", 1))
    normed = norm_after((stack,), shapes, answers)
    sources: dict[str, Source] = {}
    for i in range(stack.count):
        sources |= layer(f"encoder.{i}", f"{stack.path}{i}", decodes=False, biases=biases)
    if normed:
        sources |= linear("encoder_norm", stack.norm, has_bias=bias)
    unused = templates(contents, answers)
    ignored = {name: TEMPLATE for name in shapes if any(name.startswith(path) for path in unused)}
    used = {source.name for source in sources.values() if source.name} | ignored.keys()
    ends = find_ends(shapes, used, d_model)
    embedding = _embedding(ends, answers)
    sources["embedding.weight"] = Source(embedding)
    options: dict[str, Any] = {}
    table = _table(ends, shapes, stack, answers)
    if table is not None:
        options = {"positions": table.kind, "max_length": table.length}
        sources["positions.table"] = table.source
        if table.source.extra_axis == 1:
            options["position_axis"] = choice(answers, "position_axis", axes, why)
    else:
        formulas = ("sinusoidal", "doubled", "none")
        options["positions"] = choice(answers, "positions", formulas, Message("why_paper"))
    taken = used | {source.name for source in sources.values()}
    free = {
        name: shapes[name]
        for name, tensor in contents.tensors.items()
        if name not in taken and not name.startswith(stack.path) and tensor.is_floating_point()
    }
    for places_before, chosen in (_norm_before(free, d_model, bias, answers), _segment(free, d_model, answers)):
        sources |= places_before
        options |= chosen
        free = {name: shape for name, shape in free.items() if name not in {s.name for s in places_before.values()}}
    found, doubts = _around(free, shapes, stack, d_model, answers)
    after = {name: free[name] for name in free if name in found}
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
        norm_first=choice(answers, "norm_first", (False, True), Message("why_torch")),
        norm_after_stack=normed,
        activation=choice(answers, "activation", ("relu", "gelu"), Message("why_torch")),
        attention_bias=biases.attention,
        norm_eps=norm_eps(answers, 1e-5),
        scale_embedding=choice(answers, "scale_embedding", scaled, why),
        causal=_causal(contents, answers),
        pad_id=special_id(answers, "pad_id", -1),
        **options,
        **head,
    )
    reasons = (
        Message("reason_encoder_layers", count=stack.count, path=stack.path),
        Message("reason_no_decoder"),
        *(() if embedding in shapes else (Message("reason_layers_alone"),)),
    )
    return Fit("encoder", config, sources, reasons, ignored=ignored, doubts=doubts)


def _causal(contents: Contents, answers: Answers) -> bool:
    """Whether the future is hidden; a stored mask above the diagonal says that it is."""
    stored = [tensor for name, tensor in contents.tensors.items() if name.endswith("mask") and tensor.ndim == 2]
    square = [tensor != tensor[0, 0] for tensor in stored if tensor.shape[0] == tensor.shape[1] > 1]
    upper = any(bool(one.triu(1).sum() == one.sum()) and bool(one[0, 1:].all()) for one in square)
    why = Message("why_stored_mask") if upper else Message("why_encoder")
    return bool(choice(answers, "causal", (upper, not upper), why))


def _embedding(ends: Ends, answers: Answers) -> str:
    """The tensor that embeds the tokens, by its name; asked where names leave it open."""
    likely = [name for name in ends.matrices if ends.embeds(name)]
    if len(likely) > 1:
        likely = [name for name in likely if names_tokens(name.removeprefix(ends.prefix))] or likely
    if len(likely) == 1:
        return likely[0]
    possible = [name for name in ends.matrices if not says_after(name_words(module_of(name.removeprefix(ends.prefix))))]
    if not possible:
        return "an embedding"
    names = tuple(dict.fromkeys([*likely, *possible, NONE]))
    found = choice(answers, "embedding", names, Message("why_names_open"))
    return "an embedding" if found == NONE else found


def _table(ends: Ends, shapes: Mapping[str, Shape], stack: Stack, answers: Answers) -> Table | None:
    """The positional table that is added before the layers; asked where there are several, or it might act later."""
    tables = {table.name: table for table in ends.tables}
    if not tables:
        return None
    names, order = tuple(tables), tuple(shapes)
    last = max(i for i, name in enumerate(order) if name.startswith(stack.path))
    clear = len(names) == 1 and order.index(names[0]) < last and not says_after(name_words(names[0]))
    why = Message("why_names_and_order_open")
    chosen = names[0] if clear else choice(answers, "position_table", (*names, NONE), why)
    return tables.get(chosen)


def _around(
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
        text = Message("question_others_after", some=_some(untold))
        if choice(answers, "others_after", (False, True), Message("why_nothing_tells"), text):
            after, untold = after | set(untold), {}
    return after, {**untold, **early, **norm}


def _some(names: Iterable[str]) -> tuple[str, ...]:
    """The first few names, and that there are more."""
    listed = tuple(names)
    return listed if len(listed) <= 3 else (*listed[:3], Message("and_others"))


def _norm_before(
    free: Mapping[str, Shape], d_model: int, bias: bool, answers: Answers
) -> tuple[dict[str, Source], dict[str, bool]]:
    """The norm between the embedding and the first layer, if it is answered that there is one.

    Without an answer it has no place here, and refuses the file: whether positions are added before or after it, and
    whether it is not the norm after the layers, no name and no shape can prove.
    """
    kinds = ("weight", "bias") if bias else ("weight",)
    modules = dict.fromkeys(module_of(name) for name in free)
    norms = [
        module
        for module in modules
        if module
        and {name for name in free if module_of(name) == module} == {f"{module}.{kind}" for kind in kinds}
        and all(free[f"{module}.{kind}"] == (d_model,) for kind in kinds)
    ]
    if not norms:
        return {}, {}
    found = choice(answers, "norm_before", (NONE, *norms), Message("why_cannot_be_proved"))
    if found == NONE:
        return {}, {}
    return linear("embedding_norm", found, has_bias=bias), {"norm_after_embedding": True}


def _segment(free: Mapping[str, Shape], d_model: int, answers: Answers) -> tuple[dict[str, Source], dict[str, bool]]:
    """The table of segments whose first row is added to every token, if it is answered that there is one."""
    tables = [
        name
        for name, shape in free.items()
        if len(shape) == 2 and shape[1] == d_model and bias_of(name) not in free
        and (is_second_embedding(name) or shape[0] <= FEW_SEGMENTS)
        and not says_after(name_words(module_of(name)))
    ]  # fmt: skip
    if not tables:
        return {}, {}
    found = choice(answers, "segment_table", (NONE, *tables), Message("why_cannot_be_proved"))
    if found == NONE:
        return {}, {}
    return {"segment": Source(found, row_of=free[found][0])}, {"segment": True}


def _with_biases(names: Iterable[str]) -> set[str]:
    return {tensor for name in names for tensor in (name, bias_of(name))}
