"""Modules around layers of torch.nn.Transformer under any names: an encoder and a decoder, or an encoder alone.

Layouts: any module around both stacks ("Language Translation with nn.Transformer", PyTorch tutorials); any module
around nn.TransformerEncoder; and the published encoder-only net (`embeding`, spelt so), which keeps its layers in a
plain list and adds positions along the batch. A linear map after an encoder (a classifier, a language model's head) is
run as well; what it reads is asked.

Around the layers stand embeddings, tables of positions, scores, and what acts after the layers. Shapes say which
tensors a role is open to. Where they leave several, it is asked; the usual names (`USUAL`) only say which answer is
proposed. What no role takes, and what the layers could read, is asked for as a whole (`others_after`).
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformer.checkpoint.foreign.layouts.base import (
    Fit,
    Source,
    Sources,
    attention,
    linear,
    linears,
    root_of,
    size,
    sizes_of,
)
from transformer.checkpoint.foreign.report import Questionnaire
from transformer.messages import Message
from transformer.nn.positions import FORMULAS
from transformer.nn.seq2seq import preset
from transformer.nn.stacks import DecoderConfig, EncoderConfig
from transformer.safe.contents import Contents, Shape

UNTOLD = Message("doubt_untold")

_LAYER = re.compile(r"^(?P<path>.*?)(?P<index>\d+)\.self_attn\.in_proj_weight$")
_LONE_LAYER = re.compile(r"^(?P<path>(?:.*\.)?[^.\d][^.]*\.)self_attn\.in_proj_weight$")


@dataclass(frozen=True)
class Stack:
    """Layers of one `width` that stand one after the other at `path` (`transformer.encoder.layers.`).

    `norm` is where torch's own container, which holds layers and a norm alone, has a norm after the last of them;
    empty where it has none: elsewhere a `norm` may as well stand before the layers. `bias` says that the maps and
    norms have biases.
    """

    path: str
    count: int
    width: int
    decodes: bool
    norm: str
    bias: bool

    def sources(self) -> Sources:
        """Where the tensors of the layers and of the norm after them stand."""
        ours, kinds = "encoder", {"self": "self_attn"}
        if self.decodes:
            ours, kinds = "decoder", kinds | {"cross": "multihead_attn"}
        names = {f"{kind}_residual.norm": f"norm{i}" for i, kind in enumerate((*kinds, "feed_forward"), start=1)}
        names |= {"feed_forward.widen": "linear1", "feed_forward.narrow": "linear2"}
        found = linear(f"{ours}_norm", self.norm, bias=self.bias) if self.norm else {}
        for i in range(self.count):
            for kind, name in kinds.items():
                theirs = f"{self.path}{i}.{name}"
                outs = f"{theirs}.in_proj_", f"{theirs}.out_proj"
                found |= attention(f"{ours}.{i}.{kind}_attention", *outs, bias=self.bias)
            found |= linears(f"{ours}.{i}.", f"{self.path}{i}.", names, bias=self.bias)
        return found

    def dialect(self, answers: Questionnaire) -> dict[str, Any]:
        """What is asked of any stack of torch's layers."""
        return {
            "n_heads": answers.heads(self.width),
            "norm_first": answers.choice("norm_first", (False, True), Message("why_torch")),
            "activation": answers.choice("activation", ("relu", "gelu"), Message("why_torch")),
            "attention_bias": self.bias,
            "norm_eps": answers.norm_eps(1e-5),
        }


def _stacks(shapes: Mapping[str, Shape]) -> list[Stack]:
    """Every stack of torch's layers, in the order of the file."""
    indices: dict[str, set[str]] = {}
    for name in shapes:
        if layer := _LAYER.match(name):
            indices.setdefault(layer["path"], set()).add(layer["index"])
    found = []
    for path, numbers in indices.items():
        decodes = any(f"{path}{i}.multihead_attn.in_proj_weight" in shapes for i in numbers)
        container = path.removesuffix("layers.")
        norm = f"{container}norm"
        beside = {name for name in shapes if name.startswith(container) and not name.startswith(path)}
        normed = path != container and beside and beside <= {f"{norm}.weight", f"{norm}.bias"}
        width = size(shapes, (f"{path}0.self_attn.in_proj_weight", 1))
        bias = f"{path}0.self_attn.in_proj_bias" in shapes
        found.append(Stack(path, len(numbers), width, decodes, norm if normed else "", bias))
    return found


def _templates(contents: Contents) -> dict[str, str]:
    """Tensors of single layers beside the stacks that nn.TransformerEncoder copied, with the reason to ignore them.

    Such a layer is never trained, so that its norms are as they were made: gains of 1, shifts of 0.
    """
    unused = []
    for path in _lone_layers(contents.tensors):
        norms = {name: tensor for name, tensor in contents.tensors.items() if name.startswith(f"{path}norm")}
        if norms and all(bool((t == float(name.endswith("weight"))).all()) for name, t in norms.items()):
            unused.append(path)
    return {name: Message("ignored_template") for name in contents.tensors if name.startswith(tuple(unused))}


def _lone_layers(names: Iterable[str]) -> tuple[str, ...]:
    """Paths of single layers beside the stacks."""
    return tuple(found["path"] for name in names if (found := _LONE_LAYER.match(name)))


def _used(sources: Mapping[str, Source]) -> set[str]:
    return {source.name for source in sources.values() if source.name}


def torch_module(contents: Contents, answers: Questionnaire, _: str) -> Fit | None:
    """An encoder-decoder: sizes and depths from shapes; heads, activation, order of the norms and scaling are asked."""
    found = {stack.decodes: stack for stack in reversed(_stacks(contents.shapes))}  # the first of each kind
    if len(found) < 2:
        return None
    encoder, decoder = found[False], found[True]
    sources, ignored = encoder.sources() | decoder.sources(), _templates(contents)
    outer = Outer(contents.shapes, _used(sources) | ignored.keys(), encoder.width, answers)
    if not outer.matrices:
        return None
    scores = outer.projection()
    source, target = outer.source_and_target(scores)
    shared = source == target or contents.same(source, target)
    tied = scores is None or contents.same(scores, target)
    sources["source_embedding.weight"] = Source(source)
    if not shared:
        sources["target_embedding.weight"] = Source(target)
    if not tied:
        sources["projection.weight"] = Source(scores)
    if scores in outer.biased:
        sources["projection.bias"] = Source(bias_of(str(scores)))
    tables = outer.position_tables()
    sources |= {f"{side}_positions.table": Source(table) for side, table in tables.items()}
    usual = tuple(FORMULAS)
    positions = kind_of(tables["source"]) if tables else answers.choice("positions", usual, Message("why_paper"))
    config = preset(
        "torch",
        **sizes_of(sources, contents.shapes),
        positions=positions,
        tie_embeddings=shared,
        tie_projection=tied,
        projection_bias=scores in outer.biased,
        **encoder.dialect(answers),
        scale_embedding=answers.scaled_embedding(),
        norm_after_stack=bool(encoder.norm or decoder.norm),
        without_norm="" if bool(encoder.norm) == bool(decoder.norm) else "decoder" if encoder.norm else "encoder",
        **answers.seq2seq_ids(),
    )
    reasons = [
        Message("reason_encoder_layers", count=encoder.count, path=encoder.path),
        Message("reason_decoder_layers", count=decoder.count, path=decoder.path),
    ]
    if config.target_length:
        reasons.append(Message("reason_two_tables", source=config.max_length, target=config.target_length))
    copies = [target] if shared and source != target else []
    copies += [scores] if scores and tied and scores != target else []
    return Fit("seq2seq", config, sources, tuple(reasons), tuple(copies), ignored, UNTOLD)


PUBLISHED = r"embeding\.weight"
"""The sign of the published encoder-only net."""


def torch_encoder(contents: Contents, answers: Questionnaire, root: str, *, published: bool) -> Fit | None:
    """Any module around nn.TransformerEncoder, or the `published` net, whose positions lie along the batch.

    Sizes and depth are told by shapes; dialect and scaling are asked. None without layers or an embedding. One that
    hides the future and scores the vocabulary from each position is a decoder alone, unless its positions lie along the
    batch.
    """
    shapes = contents.shapes
    stacks = [one for one in _stacks(shapes) if not published or one.path == f"{root}transformer_encoder."]
    is_other = any(one.decodes for one in stacks) or root_of(shapes, PUBLISHED) is not None
    if not stacks or (is_other and not published):
        return None
    stack = stacks[0]
    axes, why = ("sequence", "batch"), Message("why_tutorials")
    if published:
        axes, why = ("batch", "sequence"), Message("why_published")
    sources, ignored = stack.sources(), _templates(contents)
    outer = Outer(shapes, _used(sources) | ignored.keys(), stack.width, answers)
    embedding = outer.token_embedding()
    if embedding is None:
        return None
    vocab, own = shapes[embedding][0], dict[str, Any]()
    sources["embedding.weight"] = Source(embedding)
    table = outer.position_table(embedding)
    if table is None:
        positions = answers.choice("positions", tuple(FORMULAS), Message("why_paper"))
    else:
        positions, sources["positions.table"] = kind_of(table), Source(table)
        if len(shapes[table]) == 3 and shapes[table][0] > 1 and answers.choice("position_axis", axes, why) == "batch":
            own["position_axis"] = "batch"
    scale = answers.scaled_embedding()
    taken = _used(sources) | ignored.keys()
    free = {name: shape for name, shape in shapes.items() if name not in taken and not name.startswith(stack.path)}
    alone = _lone_layers(shapes)
    head, after, doubt = after_layers(contents, free, stack.width, alone, answers)
    rows = shapes[head][0] if head else 0
    writes = rows == vocab  # a score for each token: a language model
    if head:
        maps = linear("head.0", head.removesuffix(".weight"))
        reads = head_reads(answers, writes=writes, alone=all(name.startswith(alone) for name in after))
        if reads == "none":
            after |= {str(source.name): () for source in maps.values()}
        else:
            own |= {"head": (rows,), "head_reads": reads}
            sources |= maps
    options: dict[str, Any] = {
        **sizes_of(sources, shapes),
        "positions": positions,
        **stack.dialect(answers),
        "norm_after_stack": bool(stack.norm),
        "scale_embedding": scale,
    }
    why_causal = Message("why_writes" if writes else "why_encoder")
    causal = answers.choice("causal", (False, True), why_causal, is_open=writes)
    options["pad_id"] = answers.special_id("pad_id", -1)
    ignored |= dict.fromkeys(after, Message("ignored_after_layers"))
    reasons = (Message("reason_encoder_layers", count=stack.count, path=stack.path), Message("reason_no_decoder"))
    if not causal or own != {"head": (vocab,), "head_reads": "each"}:
        config = EncoderConfig.of(**options, **own, causal=causal)
        return Fit("encoder", config, sources, reasons, ignored=ignored, doubt=doubt)
    decoder = DecoderConfig.of(**options, projection_bias=True)
    named = {re.sub("^encoder", "decoder", one.replace("head.0", "projection")): sources[one] for one in sources}
    return Fit("decoder", decoder, named, reasons, ignored=ignored, doubt=doubt)


NONE, TIED = "none", "tied"
"""The answers that no tensor of the file plays a part, and that the target's embedding scores too."""

MOST_LISTED = 12

_SOURCE, _TARGET = r"src\w*|source\w*|enc\w*|in|inp\w*", r"tgt\w*|trg\w*|target\w*|dec\w*|outs?|outputs?"
USUAL = {
    "embedding": r"emb\w*|tok\w*|words?|wte|lut",
    "projection": r"gener\w*|proj\w*|\w*head|logits?|vocab|fc|outs?|output|linear|classifier",
    "source_embedding": _SOURCE,
    "target_embedding": _TARGET,
    "source_positions": _SOURCE,
    "target_positions": _TARGET,
    "table": r"pos|pos(?:i|e[mn]|tab)\w*|w?pe",
    "no_tokens": r"seg\w*|types?|lang\w*|speaker\w*|tags?|rel|relative",
}
"""Words that tensors of each role are usually called by."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class Outer:
    """What shapes allow outside of torch's layers, in the file's order, and which of it plays which role.

    `matrices` (rows, d_model) stand without a bias: embeddings, or what scores. `biased` ones are linear maps that read
    states. `tables` are called positions: rows that are added, perhaps with an axis for the batch.
    """

    def __init__(
        self, shapes: Mapping[str, Shape], taken: Collection[str], d_model: int, answers: Questionnaire
    ) -> None:
        free = {name: shape for name, shape in shapes.items() if name not in taken and shape[-1:] == (d_model,)}
        self.rows, self.answers = {name: shape[0] for name, shape in free.items()}, answers
        self.tables = [
            name
            for name, shape in free.items()
            if _is_called("table", name) and (len(shape) == 2 or (len(shape) == 3 and 1 in shape[:2]))
        ]
        wide = [name for name, shape in free.items() if len(shape) == 2 and name not in self.tables]
        vectors = {name: shape for name, shape in shapes.items() if name not in taken}
        self.biased = [name for name in wide if vectors.get(bias_of(name)) == free[name][:1]]
        self.matrices = [name for name in wide if name not in self.biased]

    def token_embedding(self) -> str | None:
        """The tensor that embeds the tokens of an encoder; None where there is none."""
        if not self.matrices:
            return None
        named = [name for name in self.matrices if _is_called("embedding", name)]
        if len(self.matrices) == len(named) == 1:
            return named[0]
        usual = named if len(named) == 1 else [max(self.matrices, key=self.rows.__getitem__)]
        return self._asked("embedding", [*usual, *self.matrices, NONE])

    def position_table(self, embedding: str) -> str | None:
        """The table that is added to an encoder's tokens; it may be a matrix whose name does not say so."""
        others = [name for name in self.matrices if name != embedding]
        if len(self.tables) == 1 or not (self.tables or others):
            return next(iter(self.tables), None)
        return self._asked("position_table", [*self.tables, NONE] if self.tables else [NONE, *others])

    def projection(self) -> str | None:
        """The tensor that scores the target's vocabulary; None if its embedding does.

        A map with a bias is it, if it alone has as many rows as an embedding.
        """
        vocabularies = {self.rows[name] for name in self.matrices}
        fitting = [name for name in self.biased if self.rows[name] in vocabularies]
        if len(fitting) == 1:
            return fitting[0]
        plain = fitting or [name for name in self.matrices if not _is_any(USUAL["embedding"], _words(name))]
        called = [name for name in plain if _is_any(USUAL["projection"], _words(name))]
        usual = called if len(called) == 1 else plain if len(plain) == 1 else self.matrices[2:]
        return self._asked("projection", [*usual[-1:], *(fitting or [TIED, *self.matrices])])

    def source_and_target(self, scores: str | None) -> tuple[str, str]:
        """Which embedding reads the source and which the target; one alone reads both.

        Of two, the rows of what scores tell them apart if only one has as many.
        """
        names = [name for name in self.matrices if name != scores] or ["an embedding"]
        if len(names) == 1:
            own = [scores] if scores in self.matrices and self.rows[scores] == self.rows.get(names[0]) else []
            return names[0], self._sided("target_embedding", [names[0], *own])
        fitting = [name for name in names if scores is not None and self.rows[name] == self.rows[scores]]
        if len(names) == 2 and len(fitting) == 1:
            return next(name for name in names if name != fitting[0]), fitting[0]
        source = self._sided("source_embedding", names)
        return source, self._sided("target_embedding", [name for name in names if name != source])

    def position_tables(self) -> dict[str, str]:
        """The tables whose rows are added to the `source` and to the `target`, one for both; empty where none is."""
        if not self.tables:
            return {}
        source = self._sided("source_positions", self.tables)
        others = [name for name in self.tables if name != source]
        return {"source": source, "target": self._sided("target_positions", [*others, source])}

    def _sided(self, role: str, names: Sequence[str]) -> str:
        """The one of `names` that plays a role: the only one, or what is answered; the only one called so is proposed.

        Words that all names share (a wrapper called `encoder_decoder`) say nothing.
        """
        if len(names) == 1:
            return names[0]
        shared = set.intersection(*map(_words, names))
        called = [name for name in names if _is_any(USUAL[role], _words(name) - shared)]
        return str(self._asked(role, [called[0] if len(called) == 1 else names[0], *names]))

    def _asked(self, role: str, names: Sequence[str]) -> str | None:
        """What is answered, the first of `names` if nothing is; None where no tensor plays the role."""
        found: str = self.answers.choice(role, tuple(dict.fromkeys(names)), Message("why_names_open"))
        return None if found in {NONE, TIED} else found


def after_layers(
    contents: Contents, free: Mapping[str, Shape], d_model: int, alone: tuple[str, ...], answers: Questionnaire
) -> tuple[str | None, dict[str, Shape], str]:
    """The linear map after the layers, what else of the `free` tensors acts there, and why the rest might not.

    The only map with a bias out of the model's width to another one is it: no layer can read what it makes (but a
    single number may weigh states). Of everything else it is asked, single layers at the paths `alone` included.
    """
    free = {name: shape for name, shape in free.items() if contents.tensors[name].is_floating_point()}
    maps = [name for name, shape in free.items() if len(shape) == 2 and free.get(bias_of(name)) == shape[:1]]
    wide = [name for name in maps if free[name][1] == d_model and not name.startswith(alone)]
    heads = [name for name in wide if free[name][0] not in {1, d_model}]
    head = heads[0] if len(heads) == 1 else None
    others = {name: shape for name, shape in free.items() if head is None or name not in {head, bias_of(head)}}
    if not others:
        return head, {}, ""
    biases = {bias_of(name) for name in others}
    listed = [name for name in sorted(others, key=heads.__contains__) if name not in biases]  # those in doubt first
    some = (*listed[:MOST_LISTED], *([Message("and_others")] if len(listed) > MOST_LISTED else []))
    text = Message("question_others_after", some=some)
    if answers.choice("others_after", (False, True), Message("why_nothing_tells"), text):
        return head, others, ""
    return head, {}, UNTOLD


def head_reads(answers: Questionnaire, *, writes: bool, alone: bool) -> str:
    """What the map after an encoder's layers reads: the state of `each` token, one for all, or it is not run (`none`).

    One that `writes` scores each token. Without being `alone` there, it may follow others.
    """
    usual = "none" if not alone else "each" if writes else "mean"
    why = Message("why_others_there" if not alone else "why_score_a_token" if writes else "why_one_for_all")
    options = tuple(dict.fromkeys([usual, "each", "mean", "first", "last", "none"]))
    return str(answers.choice("head", options, why, is_open=usual == "mean", after_attention=True))


def bias_of(name: str) -> str:
    """The name of the bias that belongs to a weight."""
    return f"{name.removesuffix('weight')}bias"


def kind_of(table: str) -> str:
    """Whether rows of positions are a parameter or a buffer."""
    return "learned" if table.endswith("weight") else "stored"


def _words(name: str) -> set[str]:
    """The words of a dotted name in small letters: `src_tok_emb.weight` has `src`, `tok`, `emb`, `weight`."""
    return {word.lower() for word in _WORD.findall(name)}


def _is_any(pattern: str, words: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, word) for word in words)


def _is_called(role: str, name: str) -> bool:
    """Whether a tensor is called after a role, and neither tags nor relative positions."""
    return _is_any(USUAL[role], _words(name)) and not _is_any(USUAL["no_tokens"], _words(name))
