"""What may stand between an encoder's embedding and its first layer: a norm, segments, a class token, a convolution.

None of them is taken for granted. What shapes prove is used; what only a name says is asked, with what it says as the
default; and what neither proves is asked with the default that it is not there, which refuses the file.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, permutations
from typing import Any

import torch
from torch import Tensor

from transformer.checkpoint.foreign.layouts.base import Source, Unit, linear
from transformer.checkpoint.foreign.layouts.roles import is_second_embedding, module_of, name_words, says_after
from transformer.checkpoint.foreign.layouts.torch_ends import NONE, bias_of
from transformer.checkpoint.foreign.questions import Answers, Question, choice
from transformer.checkpoint.safe.contents import Contents, Shape
from transformer.layers.strides import Stride
from transformer.messages import Message

BATCH_NORM = {"weight": "weight", "bias": "bias", "mean": "running_mean", "variance": "running_var"}
"""What a batch norm after a convolution holds: our name, and torch's."""

MOST = 5
"""Of so many convolutions at most every order is looked at."""

FEW_SEGMENTS = 8
"""So many rows at most has a table of segments that is not called one."""

_CLASS = re.compile(r"cls|class")


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


def class_token(
    free: Mapping[str, Shape], embedding: Source, shapes: Mapping[str, Shape], d_model: int, answers: Answers
) -> tuple[dict[str, Source], dict[str, Any]]:
    """A learned vector before every text, if a lone parameter is called so; where its position comes from is asked."""
    found = [
        name
        for name, shape in free.items()
        if shape and shape[-1] == d_model and all(one == 1 for one in shape[:-1])
        and not module_has_others(name, shapes)
        and any(map(_CLASS.fullmatch, name_words(name.rpartition(".")[2])))
    ]  # fmt: skip
    if len(found) != 1:
        return {}, {}
    text, why = Message("question_cls_token", token=found[0]), Message("why_name_says")
    place = choice(answers, "cls_token", ("before_positions", "after_positions", NONE), why, text)
    if place == NONE:
        return {}, {}
    rows = shapes[str(embedding.name)][0]
    table = WithClassToken(embedding.name, token=found[0], token_shape=shapes[found[0]])
    options = {"vocab": rows + 1, "cls_id": rows, "cls_positioned": place == "before_positions"}
    return {"embedding.weight": table}, options


def module_has_others(name: str, shapes: Mapping[str, Shape]) -> bool:
    """Whether a tensor is the weight or the bias of a module, and so no parameter by itself."""
    last = name.rpartition(".")[2]
    return last in {"weight", "bias"} or f"{name}.weight" in shapes


@dataclass(frozen=True)
class Stem:
    """Convolutions before the layers, and the table whose rows they read (None where they read letters as ones)."""

    sources: Mapping[str, Source]
    options: Mapping[str, Any]
    embedding: str | None
    said: tuple[str, ...] = field(default=())


def convolution(contents: Contents, answers: Answers, d_model: int, has_embedding: bool) -> Stem | None:
    """Convolutions that make the layers' width out of an embedding's, or out of letters; batch norms after them.

    Shapes prove them where nothing else in the file makes vectors as wide as the model, and where the one reads what
    only the other makes; else they are asked.
    """
    shapes = contents.shapes
    chain = _chain(shapes, answers, d_model, has_embedding)
    if chain is None:
        return None
    made = [_asked(shapes, name, answers, f"_{i}" if len(chain) > 1 else "") for i, name in enumerate(chain, 1)]
    act = choice(answers, "conv_activation", ("relu", "gelu", "tanh", NONE), Message("why_most_common"))
    last, reads = made[-1], made[0].reads
    options: dict[str, Any] = {
        "conv_activation": act, "conv_pool": last.pool, "conv_width": last.width, "conv_reads": last.reads,
        "conv_stride": last.stride, "conv_padding": last.padding, "conv_dilation": last.dilation,
        "early": tuple(size for one in made[:-1] for size in one),
    }  # fmt: skip
    modules = [module_of(name) for name in chain]
    ours = [*(f"early.{i}" for i in range(len(chain) - 1)), "convolution"]
    sources: dict[str, Source] = {}
    for name, theirs in zip(ours, modules, strict=True):
        sources |= linear(name, theirs, has_bias=f"{theirs}.bias" in shapes)
    norms, normed = _batch_norms(shapes, modules, answers)
    sources |= norms
    options |= normed
    said = [
        Message("reason_convolution", name=name, width=one.width, reads=one.reads)
        for name, one in zip(modules, made, strict=True)
    ]
    tables = [
        one for one, shape in shapes.items() if len(shape) == 2 and shape[1] == reads and bias_of(one) not in shapes
    ]
    tables = [one for one in tables if not says_after(name_words(module_of(one))) and "in_proj" not in one]
    tables = [one for one in tables if not re.search(r"\d\.(?:self_attn|linear\d)", one)]
    if len(tables) > 1:
        tables = [choice(answers, "embedding", tuple(tables), Message("why_names_open"))]
    if not tables:
        sources["embedding.weight"] = Unit(None)
        said.append(Message("reason_letters", count=reads))
        return Stem(sources, {**options, "vocab": reads}, None, tuple(said))
    sources["embedding.weight"] = Source(tables[0])
    return Stem(sources, {**options, "vocab": shapes[tables[0]][0]}, tables[0], tuple(said))


def _chain(shapes: Mapping[str, Shape], answers: Answers, d_model: int, has_embedding: bool) -> tuple[str, ...] | None:
    """The weights of the convolutions in the order in which they act; None where it is answered that none does."""
    found = [name for name, shape in shapes.items() if len(shape) == 3 and name.endswith("weight")]
    found = [name for name in found if not says_after(name_words(module_of(name)))]
    last = [name for name in found if shapes[name][0] == d_model and (shapes[name][2] > 1 or len(found) > 1)]
    if not last:
        return None
    orders = [order for order in permutations(found) if _follow(shapes, order, d_model)] if len(found) <= MOST else []
    orders = orders if orders and len(found) > 1 else [(name,) for name in last]
    chains = {" > ".join(order): order for order in orders}
    proved = not has_embedding and (len(found) == 1 or len(next(iter(orders))) > 1)
    options = (*chains, NONE) if proved else (NONE, *chains)
    why = Message("why_shapes_say") if len(chains) == 1 else Message("why_order")
    chosen = choice(answers, "convolution", options, why if proved else Message("why_cannot_be_proved"))
    return None if chosen == NONE else chains[chosen]


def _follow(shapes: Mapping[str, Shape], order: Sequence[str], d_model: int) -> bool:
    """Whether each reads what the one before makes, and the last makes what the layers read."""
    fits = all(shapes[one][0] == shapes[after][1] for one, after in pairwise(order))
    return fits and shapes[order[-1]][0] == d_model


def _asked(shapes: Mapping[str, Shape], name: str, answers: Answers, number: str) -> Stride:
    """One convolution, with what its shape does not tell; of several, each is asked by its number."""
    makes, reads, width = shapes[name]

    def ask(what: str, usual: int, least: int = 0, rare: bool = False) -> int:
        text = Message(f"question_conv_{what}_of", name=module_of(name)) if number else Message(f"question_conv_{what}")
        found = Question(f"conv_{what}{number}", text, usual, why=Message("why_usual"), least=least, rare=rare)
        return int(answers.ask(found))

    stride, dilation = ask("stride", 1, 1), ask("dilation", 1, 1, rare=True)
    padding = ask("padding", (width - 1) * dilation // 2 if width % 2 else 0)
    return Stride(reads, makes, width, stride, padding, ask("pool", 1, 1), dilation)


def _batch_norms(
    shapes: Mapping[str, Shape], convolutions: Sequence[str], answers: Answers
) -> tuple[dict[str, Source], dict[str, Any]]:
    """Batch norms after the convolutions, if it is clear after which: declared right behind, or as many all together.

    Where they act is asked: before the activation, after it, or not here at all.
    """
    modules = list(dict.fromkeys(module_of(name) for name in shapes))
    norms = [
        module
        for module in modules
        if all(len(shapes.get(f"{module}.{part}", ())) == 1 for part in BATCH_NORM.values())
        and not says_after(name_words(module))
    ]
    in_file = sorted(convolutions, key=modules.index)
    places_in_file = sorted(modules.index(one) for one in (*norms, *in_file))
    together = places_in_file[-1] - places_in_file[0] + 1 == len(places_in_file) == 2 * len(norms)
    behind = {after: one for one, after in pairwise(modules) if one in in_file}
    pairs = dict(zip(norms, in_file, strict=True)) if together else behind
    after = {
        convolutions.index(pairs[norm]): norm
        for norm in norms
        if norm in pairs and shapes[f"{norm}.running_mean"][0] == shapes[f"{pairs[norm]}.weight"][0]
    }
    if not after:
        return {}, {}
    text = Message("question_conv_norm", norms=tuple(after.values()))
    places = ("before_activation", "after_activation", NONE)
    place = choice(answers, "conv_norm", places, Message("why_most_common"), text)
    if place == NONE:
        return {}, {}
    sources = {
        f"conv_norms.{i}.{ours}": Source(f"{after[number]}.{theirs}")
        for i, number in enumerate(sorted(after))
        for ours, theirs in BATCH_NORM.items()
    }
    eps = Question("conv_norm_eps", Message("question_conv_norm_eps"), 1e-5, why=Message("why_torch"), is_number=True,
                   rare=True)  # fmt: skip
    late = place == "after_activation"
    return sources, {"conv_norms": tuple(sorted(after)), "conv_norm_late": late, "conv_norm_eps": answers.ask(eps)}


def norm_before(
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


def segment(free: Mapping[str, Shape], d_model: int, answers: Answers) -> tuple[dict[str, Source], dict[str, bool]]:
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
