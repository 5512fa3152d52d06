"""Where tensors around torch's layers act, as far as names and shapes tell: before the layers, after them, or not told.

A wrong guess here would show wrong attention in silence, so the rule is narrow. A module around the layers stands after
them, and may be left out, only if

- a word of its name says so (`head`, `classifier`, `pooler`, `out`, `final` ...) and none says the opposite (`input`,
  `emb`, `stem`, `pre` ...); words that the layers' own path begins with are no evidence;
- or it is a linear map (with a bias, which no embedding has, or called `linear`, `fc` or `dense`) whose result is not
  as wide as the model, so that the layers cannot read it, and it is declared after the layers, or called `fc`; or a
  norm of that result.

A name is evidence, and no proof: where the layers could read what such a module makes (a norm or a square map as wide
as the model), what its name says is put as a question, whose answer is assumed.

Everything else might act before the last attention, and is not told: a norm or a square map as wide as the model, a
matrix without bias (it may be an embedding), a lone parameter, a convolution, a second stack. The order of declaration
alone never decides.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from transformer.checkpoint.safe.contents import Shape
from transformer.messages import Message

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_BEFORE = re.compile(
    r"in|inp|inputs?|src|source|emb\w*|tok\w*|words?|lut|seg\w*|types?|patch\w*|stem|front\w*|pre|before|first|init\w*|"
    r"conv\w*|cnn|pos|positions?|positional|pe|wpe|wte|gat(?:e|es|ing)|attn|attention"
)
_AFTER = re.compile(
    r"heads?|classif\w*|cls|pool\w*|logits?|generat\w*|dec|decod\w*|lm|mlm|nsp|scor\w*|pred\w*|outs?|output\w*|final|last|"
    r"post|after|regress\w*|readout|unembed\w*"
)
_EMBEDDING = re.compile(r"emb\w*|tok\w*|words?|lut|wte|lookup")
_TOKEN = re.compile(r"tok|token|tokens|words?|wte|vocab\w*")
_SECOND_EMBEDDING = re.compile(r"seg\w*|types?|lang\w*|speaker\w*|tags?|rel|relative|ids?")
_POSITION = re.compile(r"pos|pos(?:i|e[mn]|tab)\w*|w?pe")
_VAGUE = re.compile(r"outs?|output\w*|post|after|last")
_OF_ANYTHING = re.compile(r"\w*norm\w*|ln|bn|proj\w*|conv\w*|embed\w*")
_LINEAR = frozenset({"linear", "lin", "fc", "dense"})

UNTOLD = Message("doubt_untold")
EARLY = Message("doubt_early")
SECOND = Message("doubt_second")
ANSWERED = Message("doubt_answered")


def name_words(name: str) -> tuple[str, ...]:
    """The words of a dotted name in small letters: `src_tok_emb.weight` is `src`, `tok`, `emb`, `weight`."""
    return tuple(word.lower() for word in _WORD.findall(name))


def module_of(name: str) -> str:
    """The module that a tensor belongs to; empty for a parameter that lies at the top."""
    return name.rpartition(".")[0]


def shared_prefix(names: Iterable[str]) -> str:
    """The modules that all `names` lie in, with their dots: a wrapper called `encoder_decoder` says nothing of any."""
    paths = [name.split(".")[:-1] for name in names]
    shared: list[str] = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return "".join(f"{part}." for part in shared)


def some(names: Iterable[str]) -> tuple[str, ...]:
    """The first few names, and that there are more."""
    listed = tuple(names)
    return listed if len(listed) <= 3 else (*listed[:3], Message("and_others"))


def is_position(name: str) -> bool:
    """Whether a table's name says that it holds places, added to what is read (not relative ones, no tags)."""
    said = name_words(name)
    return any(_POSITION.fullmatch(word) for word in said) and not any(map(_SECOND_EMBEDDING.fullmatch, said))


def is_second_embedding(name: str) -> bool:
    """Whether a matrix's name says that it embeds something beside the tokens, such as segments."""
    return any(map(_SECOND_EMBEDDING.fullmatch, name_words(name)))


def is_embedding(name: str) -> bool:
    """Whether a matrix's name says that it embeds what is read, and not that it scores what is written."""
    said = name_words(module_of(name) or name)
    return any(map(_EMBEDDING.fullmatch, said)) and not is_second_embedding(name) and not says_after(said)


def mentions_embedding(name: str) -> bool:
    """Whether a word of a name is one that embeddings have, whatever the others say: `emb_out`, `embed_out`."""
    return any(map(_EMBEDDING.fullmatch, name_words(module_of(name) or name)))


def names_tokens(name: str) -> bool:
    """Whether an embedding's name says that it embeds the tokens themselves."""
    return any(map(_TOKEN.fullmatch, name_words(name)))


def says_before(said: Iterable[str]) -> bool:
    """Whether words place a module before the layers."""
    return any(map(_BEFORE.fullmatch, said))


def says_linear(said: Collection[str]) -> bool:
    """Whether a module is called a linear map."""
    return not _LINEAR.isdisjoint(said)


def says_after(said: Collection[str]) -> bool:
    """Whether words place a module after the layers.

    `ln_f` is what language models call their last norm; `out_norm` and `proj_out` may follow an embedding as well.
    """
    telling = {word for word in said if _AFTER.fullmatch(word)}
    if any(map(_OF_ANYTHING.fullmatch, said)):
        telling = {word for word in telling if not _VAGUE.fullmatch(word)}
    return bool(telling) or {"ln", "f"} <= set(said)


@dataclass(frozen=True)
class Places:
    """What stands around an encoder's layers and has no part yet: `after` them, or refused, with the reason of each.

    `named` are those of `after` that only a name places there: the layers could read what they make. `untold` may stand
    after the layers, if the owner says so; `early` may not.
    """

    after: tuple[str, ...]
    named: tuple[str, ...]
    untold: Mapping[str, str]
    early: Mapping[str, str]


def places(free: Mapping[str, Shape], names: Iterable[str], path: str, d_model: int) -> Places:
    """Where the tensors `free` act around the layers at `path`; `names` are all of the file, in its order.

    See the rule at the top of this file.
    """
    order = {name: i for i, name in enumerate(names)}
    last = max(i for name, i in order.items() if name.startswith(path))
    modules: dict[str, dict[str, Shape]] = {}
    for name, shape in free.items():
        modules.setdefault(module_of(name) or name, {})[name] = shape
    after: list[str] = []
    named: list[str] = []
    untold: dict[str, str] = {}
    early: dict[str, str] = {}
    widths: set[int] = set()
    for module, tensors in sorted(modules.items(), key=lambda entry: min(order[name] for name in entry[1])):
        said = set(name_words(_own_part(module, path)))
        if all(len(shape) < 2 for shape in tensors.values()):  # whatever it is called
            said.add("norm")
        late = says_after(said) and module not in tensors  # a lone parameter's name says what it is, not where it acts
        soon = says_before(said - {"pre", "first"} if late else said)
        declared_after = min(order[name] for name in tensors) > last
        weight = _linear(module, tensors)
        if late and not soon:
            after += tensors
            if d_model in {shape[0] for shape in tensors.values() if shape}:
                named += tensors
        elif soon and not late:
            early |= dict.fromkeys(tensors, EARLY)
        elif not soon and (
            ((declared_after or "fc" in said) and _reads_and_leaves(weight, d_model, widths))
            or (declared_after and _norm_width(tensors) in widths)
        ):
            after += tensors
        else:
            untold |= dict.fromkeys(tensors, UNTOLD)
            continue
        if weight is not None and weight[0] != d_model:
            widths.add(weight[0])
    return Places(tuple(after), tuple(named), untold, early)


def _own_part(module: str, path: str) -> str:
    """A module's name without what it shares with the layers' path: a wrapper called `classifier` says nothing."""
    parts, shared = module.split("."), path.split(".")
    count = 0
    while count < min(len(parts), len(shared)) and parts[count] == shared[count]:
        count += 1
    return ".".join(parts[count:])


def _linear(module: str, tensors: Mapping[str, Shape]) -> Shape | None:
    """The weight's shape, of a linear map: it has a bias, or is called one."""
    weight, bias = tensors.get(f"{module}.weight", ()), tensors.get(f"{module}.bias", ())
    called = len(tensors) == 1 and not _LINEAR.isdisjoint(name_words(module))
    return weight if len(weight) == 2 and (called or (len(tensors) == 2 and bias == weight[:1])) else None


def _reads_and_leaves(weight: Shape | None, d_model: int, widths: set[int]) -> bool:
    """Whether a linear map reads states, or what such a map made of them, and makes what no layer can read."""
    return weight is not None and weight[0] != d_model and weight[1] in widths | {d_model}


def _norm_width(tensors: Mapping[str, Shape]) -> int | None:
    """The width of a norm, which holds vectors of one length and perhaps a counter."""
    shapes = {shape for shape in tensors.values() if shape}
    return next(iter(shapes))[0] if len(shapes) == 1 and len(next(iter(shapes))) == 1 else None
