"""Recognising a layout from names and shapes, holding the whole file against it, and making our model of it.

Of files that no layout explains it is said what their names tell and what to bring instead. A family of the
transformers library is read through it once its config is there: what shapes cannot tell (heads, rotary or relative
positions, how far they reach) stands in it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from ...attention.capture import watch
from ...errors import CheckpointError, ConfigError
from ...messages import Message
from ...safe.contents import Contents, Shape
from ..checkpoint import ARCHITECTURES, Checkpoint
from ..ours.config import meta_shapes
from ..ours.folder import filled
from .layouts.base import TABLE, Fit, root_of
from .layouts.published import TUTORIALS, annotated, gpt, jadore, kmer
from .layouts.torch_layers import PUBLISHED, outside, stacks_of, torch_encoder, torch_module
from .report import SETTINGS, Questionnaire, Report
from .vocabularies import names_inside, tokenizers_inside

_TORCH = r"self_attn\.in_proj_weight"
LAYOUTS: Mapping[str, tuple[str, Callable[[Contents, Questionnaire, str], Fit | None]]] = {
    "annotated": (r"(?:encoder|decoder)\.layers\.\d+\.(?:self_attn|src_attn)\.linears\.\d\.weight", annotated),
    "jadore": (r"(?:encoder|decoder)\.layer_stack\.\d+\.(?:slf_attn|enc_attn)\.w_qs\.weight", jadore),
    "torch": (_TORCH, torch_module),
    "encoder-only": (PUBLISHED, partial(torch_encoder, published=True)),
    "torch-encoder": (_TORCH, partial(torch_encoder, published=False)),
    "kmer": (r"kmer_aggregation\.convs\.\d+\.weight", kmer),
    **{code: (rf"decoder\.{sign}\.weight", tutorial) for code, (sign, tutorial) in TUTORIALS.items()},
    "gpt": (r"h\.\d+\.attn\.c_attn\.weight", gpt),
}
"""The sign of each layout (what a name in it ends with), and how contents would become our model, as well as can be
told, from what stands before that name; None where nothing looks like it after all.

They are tried in this order; the one that explains most of a file is chosen."""

WRAPPERS = frozenset({"module", "_orig_mod"})
"""What DataParallel, DistributedDataParallel, weight averaging and torch.compile put into names."""

_LOSS = re.compile(r"(?:^|\.)(?:criterion|loss\w*|metrics?|\w+_loss)\.", re.IGNORECASE)


def recognise(contents: Contents, answers: Mapping[str, Any]) -> Report:
    """The layout that explains most of `contents`, and how well.

    Raises:
        CheckpointError: an answer is no possible one, or contradicts the file.
    """
    contents = without_wrappers(contents)
    candidates: list[tuple[Questionnaire, Report]] = []
    for layout, (sign, fit_of) in LAYOUTS.items():
        root, asked = root_of(contents.tensors, sign), Questionnaire(answers, contents.settings)
        if root is None:
            continue
        try:
            fit = fit_of(contents, asked, root)
            if fit is not None:
                candidates.append((asked, _compared(contents, layout, fit, asked)))
        except ConfigError as error:  # the signs are there, but the sizes do not make a model; an answer may mend that
            reasons, questions = (error.message, *_found_in(contents)), tuple(asked.asked.values())
            broken = _report(contents, layout, reasons=reasons, unexpected=contents.shapes, questions=questions)
            candidates.append((asked, broken))
    if not candidates:
        return _unknown(contents)
    asked, report = max(candidates, key=lambda candidate: candidate[1].confidence)
    if report.fits:
        asked.check_all_used(report.config)
        _check_special_ids(asked.given, report.config)
    return report


def build(contents: Contents, report: Report, name: str) -> Checkpoint:
    """The model that was recognised. Its text is typed and shown as ids, unless a vocabulary lay beside the weights.

    Raises:
        CheckpointError: it fits no layout (the message is the report), or something must be answered first.
    """
    fit, contents = report.fit, without_wrappers(contents)
    if fit is None or not report.fits:
        raise CheckpointError("no_fit", report=report.text)
    if report.open:
        raise CheckpointError("answers_needed", source=report.source, needed=report.needed)
    model_type, _ = ARCHITECTURES[fit.architecture]
    ours = meta_shapes(model_type, fit.config)
    weights = {one: place.take(contents.tensors, ours[one]) for one, place in fit.sources.items()}
    model = filled(model_type, fit.config, weights, contents.source)
    reader, writer = tokenizers_inside(contents, fit.config)
    return Checkpoint(name, watch(model), reader, target_tokenizer=writer, assumptions=report.assumptions)


def _check_special_ids(given: Mapping[str, Any], config: Any) -> None:
    """Refuse ids that were answered and that the vocabulary has not; a default that it has not counts for none."""
    source = int(getattr(config, "source_vocab", 0) or getattr(config, "vocab", 0))
    target = int(getattr(config, "target_vocab", source))
    for name, size in {"pad_id": source, "target_pad_id": target, "bos_id": target, "eos_id": target}.items():
        if name in given and given[name] >= size:
            raise CheckpointError("answered_id_outside", name=name, id=given[name], last=size - 1)


def without_wrappers(contents: Contents) -> Contents:
    """Names without what trainers wrap around modules."""
    tensors = {}
    for name, tensor in contents.tensors.items():
        plain = ".".join(part for part in name.split(".") if part not in WRAPPERS)
        tensors[plain if plain not in tensors else name] = tensor
    return replace(contents, tensors=tensors)


def _report(contents: Contents, layout: str | None, title: str = "", **about: Any) -> Report:
    title = title or Message(f"title_{str(layout).replace('-', '_')}")
    return Report(contents.source, layout, title, **about, format=contents.format)


def _compared(contents: Contents, layout: str, fit: Fit, asked: Questionnaire) -> Report:
    """Every name of the file and of the layout, sorted into those that match and those that do not."""
    shapes = contents.shapes
    ours = meta_shapes(ARCHITECTURES[fit.architecture][0], fit.config)
    needed: dict[str, Shape] = {}  # the foreign tensors that our model needs, with the shapes that they must have
    for name, source in fit.sources.items():
        if source.name is not None:
            needed[source.name] = source.needs(ours[name], shapes.get(source.name))
    unknown = sorted(shapes.keys() - needed.keys() - set(fit.copies) - fit.ignored.keys())
    harmless = {name: why for name in unknown if (why := _harmless(name, contents.tensors[name]))}
    unexpected = {name: shapes[name] for name in unknown if name not in harmless}
    missing = {name: shape for name, shape in sorted(needed.items()) if name not in shapes}
    wrong = {n: (shape, shapes[n]) for n, shape in sorted(needed.items()) if n in shapes and shapes[n] != shape}
    matched = [n for n, shape in needed.items() if shapes.get(n) == shape] + [n for n in fit.copies if n in shapes]
    total = len(matched) + len(missing) + len(wrong) + len(unexpected)
    tables = {source.name for ours, source in fit.sources.items() if ours.endswith(TABLE)}
    strange = _found_in(contents) if missing or unexpected or wrong else ()
    share = Message("reason_share", matched=len(matched), total=total)
    questions = sorted(asked.asked.values(), key=lambda q: (q.name != "n_heads", not q.is_open))
    used = (
        Message("reason_told", name=q.name, value=repr(q.default), place=q.place)
        for q in asked.asked.values()
        if q.place and not q.is_answered
    )
    return _report(
        contents,
        layout,
        confidence=len(matched) / total if total else 0.0,
        reasons=(share, *fit.reasons, *strange, *_beside(contents, fit.config), *used),
        matched=tuple(matched),
        missing=missing,
        unexpected=unexpected,
        wrong_shape=wrong,
        ignored=dict(sorted({**fit.ignored, **harmless}.items())),
        doubt=fit.doubt if unexpected else "",
        questions=tuple(questions),  # heads before all others, then what else must be answered: nothing is shown before
        tables=tuple(name for name in missing if name in tables),
        config=fit.config,
        fit=fit,
    )


def _beside(contents: Contents, config: Any) -> tuple[str, ...]:
    """Where in the file the weights lay, and what beside them was used or passed over."""
    found = [Message("reason_place", place=contents.place)] if contents.place else []
    if contents.dropped:
        found.append(Message("reason_dropped", kinds=contents.dropped))
    names = dict.fromkeys(name for name in names_inside(contents, config) if name is not None)
    found += [Message("reason_vocabulary", name=n, count=len(contents.vocabularies[n])) for n in names]
    if contents.others:
        found.append(Message("reason_other_weights", places=contents.others))
    return tuple(found)


def _harmless(name: str, tensor: Tensor) -> str | None:
    """Why a tensor that no layer uses plays no part; None if it might."""
    if _LOSS.search(name):
        return Message("ignored_loss")
    if not tensor.shape and not tensor.is_floating_point():  # a lone real number may scale what is read
        return Message("ignored_counter")
    if name.endswith("mask") and bool(((tensor == 0) | (tensor == 1) | (tensor == -torch.inf)).all()):
        return Message("ignored_mask")
    if name.endswith("ids") and not tensor.is_floating_point():
        return Message("ignored_indices")
    return None


MOST, LONGEST = 5_000, 200
"""So many names are looked at, and so many characters of each: signs stand in every layer, at the end."""


_BLIND = Message("title_blind")
"""What a file without attention is called: nothing of it can be recorded."""

_RECURRENT = r"(?s)\A(?=.*(?:^|[.\n])embedding\.weight)(?=.*(?:^|[.\n])(?:gru|rnn|lstm)\.weight_ih_l0)"
"""The tensors of a recurrent net that reads tokens."""

_STRANGERS = {
    rf"{_RECURRENT}(?=.*(?:^|[.\n])(?:attn|attention|attn_combine|concat)\.)(?!.*(?:^|[.\n])encoder\.)": (
        Message("title_half_decoder"),
        Message("stranger_half_decoder"),
        Message("stranger_bring_encoder"),
    ),
    rf"{_RECURRENT}(?!.*att)(?!.*[.\n]concat\.)": (
        _BLIND,
        Message("stranger_blind"),
        Message("stranger_bring_decoder"),
    ),
    r"(?:encoder|decoder)\.\d+\.self_attention\.query\.weight|(?m:^decoder\.weight_hh$)": (
        Message("title_ours"),
        Message("stranger_ours"),
        Message("stranger_bring_ours"),
    ),
    r"lora_[AB]\.": (Message("title_stranger_adapter"), Message("stranger_adapter"), Message("stranger_merge")),
    (r"layernorm_before\.|patch_embed|(?:class|patch)_embedding|encoder_layer_\d+\.self_attention\.|vision_model\."): (
        Message("title_stranger_vision"),
        Message("stranger_vision"),
        Message("stranger_bring_record"),
    ),
    r"layers\.\d+\.attention\.wq\.weight": (
        Message("title_stranger", family="Llama"),
        Message("stranger_consolidated"),
        Message("stranger_convert"),
    ),
}
"""Signs in the names of files that are none of the layouts: what such a file is, why it is not run, what to bring."""

_FAMILIES = {
    r"layer\.\d+\.attention\.self\.query\.weight": "BERT, RoBERTa or ELECTRA",
    r"layer\.\d+\.attention\.q_lin\.weight": "DistilBERT",
    r"encoder\.layers\.\d+\.self_attn\.q_proj\.weight": "BART, mBART, Marian or Pegasus",
    r"block\.\d+\.layer\.\d+\.SelfAttention\.q\.weight": "T5, mT5 or UMT5",
    r"albert_layer_groups\.": "ALBERT",
    r"attention\.self\.query_proj\.weight|attention\.self\.in_proj\.weight": "DeBERTa",
    r"attention\.query_key_value\.weight": "Bloom, Falcon, GPT-NeoX",
    r"layers\.\d+\.mlp\.gate_(?:up_)?proj\.weight": "Llama, Mistral, Qwen or Gemma",
    r"decoder\.layers\.\d+\.self_attn\.q_proj\.weight": "OPT, XGLM or BioGPT",
    r"h\.\d+\.attn\.(?:attention\.)?q_proj\.weight": "GPT-J or GPT-Neo",
}
"""Signs of families of the transformers library."""


def _unknown(contents: Contents) -> Report:
    """No layout's signs are there: say what names tell of it."""
    names, lines = tuple(contents.tensors)[:3], "\n".join(name[-LONGEST:] for name in islice(contents.tensors, MOST))
    title, reason, remedy = (
        Message("title_unknown"),
        Message("reason_starts_with", names=names),
        Message("change_layout"),
    )
    unexpected = contents.shapes
    if known := next((about for sign, about in _STRANGERS.items() if re.search(sign, lines)), None):
        title, reason, remedy = known
    elif stacks := stacks_of(unexpected):
        title, reason = Message("title_stranger_torch"), Message("stranger_torch", d_model=stacks[0].width)
        remedy, unexpected = Message("stranger_bring_record"), outside(unexpected, stacks)
    elif family := next((family for sign, family in _FAMILIES.items() if re.search(sign, lines)), None):
        title, reason = Message("title_stranger", family=family), Message("stranger_library", family=family)
        remedy = Message("stranger_bring_config")
    attends = title != _BLIND
    reasons = (reason, *(_found_in(contents) if attends else ()))
    return _report(contents, None, title, reasons=reasons, remedy=remedy, attends=attends, unexpected=unexpected)


_ATTENTION = re.compile(r"att(?:n|ention)|(?:^|[._])(?:q|k|qkv|query|key|mha|in_proj|[qkv]_proj|[wW]_?[qkv])(?:$|[._])")


def _found_in(contents: Contents) -> tuple[Message, ...]:
    """How many layers and heads the names tell of, and whether attention is torch.nn.MultiheadAttention."""
    names = [name for name in islice(contents.tensors, MOST) if len(name) <= LONGEST]
    lists: dict[str, set[str]] = {}
    for name in [name for name in names if _ATTENTION.search(name)] or names:
        parts = name.split(".")
        for i in (i for i, part in enumerate(parts) if i and part.isdecimal()):
            lists.setdefault(".".join(parts[:i]), set()).add(parts[i])
    heads = [path for path in lists if re.search(r"(?:^|[._])heads?$", path)]
    layers = max((path for path in lists if path not in heads), key=lambda path: len(lists[path]), default=None)
    counted = [
        Message("found_heads_told", count=value, place=key)
        for key, value in contents.settings.items()
        if key.rpartition(".")[2] in SETTINGS["n_heads"] and type(value) is int
    ]
    counted += [Message("found_heads", count=len(lists[path]), path=path) for path in heads[:1]]
    multihead = any(name.endswith(("in_proj_weight", "q_proj_weight")) for name in names)
    return (
        *([] if layers is None else [Message("found_layers", count=len(lists[layers]), path=layers)]),
        next(iter(counted), Message("found_no_heads")),
        Message("found_multihead" if multihead else "found_no_multihead"),
    )
