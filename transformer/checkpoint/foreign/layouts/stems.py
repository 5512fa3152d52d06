"""What may stand between an encoder's embedding and its first layer: a norm, segments, a class token, a convolution.

None of them is taken for granted. What shapes prove is used; what only a name says is asked, with what it says as the
default; and what neither proves is asked with the default that it is not there, which refuses the file.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from transformer.checkpoint.foreign.layouts.base import Source, Unit, linear
from transformer.checkpoint.foreign.layouts.roles import is_second_embedding, module_of, name_words, says_after
from transformer.checkpoint.foreign.layouts.torch_ends import NONE, bias_of
from transformer.checkpoint.foreign.questions import Answers, Question, choice
from transformer.checkpoint.safe.contents import Contents, Shape
from transformer.messages import Message

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
    """A convolution before the layers, and the table whose rows it reads (None where it reads letters as ones)."""

    sources: Mapping[str, Source]
    options: Mapping[str, Any]
    embedding: str | None
    said: tuple[str, ...] = field(default=())


def convolution(contents: Contents, answers: Answers, d_model: int, has_embedding: bool) -> Stem | None:
    """A convolution that makes the layers' width out of an embedding's, or out of letters.

    Shapes prove it where nothing else in the file makes vectors as wide as the model; else it is asked.
    """
    shapes = contents.shapes
    kernels = [name for name, shape in shapes.items() if len(shape) == 3 and shape[0] == d_model and shape[2] > 1]
    kernels = [name for name in kernels if name.endswith("weight") and not says_after(name_words(module_of(name)))]
    if not kernels:
        return None
    options = (NONE, *kernels) if has_embedding or len(kernels) > 1 else (kernels[0], NONE)
    why = Message("why_cannot_be_proved") if options[0] == NONE else Message("why_shapes_say")
    name = choice(answers, "convolution", options, why)
    if name == NONE:
        return None
    _, reads, width = shapes[name]
    stride = answers.ask(Question("conv_stride", Message("question_conv_stride"), 1, why=Message("why_usual"), least=1))
    usual = width // 2 if width % 2 else 0
    padding = answers.ask(Question("conv_padding", Message("question_conv_padding"), usual, why=Message("why_usual")))
    act = choice(answers, "conv_activation", ("relu", "gelu", "tanh", NONE), Message("why_most_common"))
    pool = answers.ask(Question("conv_pool", Message("question_conv_pool"), 1, why=Message("why_usual"), least=1))
    made = {"conv_pool": pool, "conv_width": width, "conv_reads": reads, "conv_stride": stride, "conv_padding": padding}
    sources = linear("convolution", module_of(name), has_bias=bias_of(name) in shapes)
    tables = [
        one for one, shape in shapes.items() if len(shape) == 2 and shape[1] == reads and bias_of(one) not in shapes
    ]
    tables = [one for one in tables if not says_after(name_words(module_of(one))) and "in_proj" not in one]
    tables = [one for one in tables if not re.search(r"\d\.(?:self_attn|linear\d)", one)]
    said = (Message("reason_convolution", name=module_of(name), width=width, reads=reads),)
    if len(tables) > 1:
        tables = [choice(answers, "embedding", tuple(tables), Message("why_names_open"))]
    if not tables:
        letters = {"embedding.weight": Unit(None)}
        return Stem(
            sources | letters,
            {**made, "conv_activation": act, "vocab": reads},
            None,
            (*said, Message("reason_letters", count=reads)),
        )
    sources["embedding.weight"] = Source(tables[0])
    return Stem(sources, {**made, "conv_activation": act, "vocab": shapes[tables[0]][0]}, tables[0], said)


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
