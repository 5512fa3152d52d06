"""Recognising a layout from names and shapes, and holding the whole file against it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from transformer.checkpoint.checkpoint import ARCHITECTURES
from transformer.checkpoint.foreign.found import found_in
from transformer.checkpoint.foreign.inside import names_inside
from transformer.checkpoint.foreign.layouts import LAYOUTS, Fit, Layout
from transformer.checkpoint.foreign.layouts.torch_roles import shared_prefix, some
from transformer.checkpoint.foreign.questions import Answers, Question
from transformer.checkpoint.foreign.report import Report
from transformer.checkpoint.foreign.unsupported_formats import stranger
from transformer.checkpoint.meta_shapes import meta_shapes
from transformer.errors import CheckpointError, ConfigError
from transformer.messages import Message
from transformer.safe.contents import Contents, Shape

WRAPPERS = frozenset({"module", "_orig_mod"})
"""What DataParallel, DistributedDataParallel, weight averaging and torch.compile put into names."""

TABLE = "positions.table"
"""How the names of our tables of positions end."""

_MAP = re.compile(r"(?P<attention>(?:.*\.)?)(?:query|key|value|output)\.(?:weight|bias)")
_OF_ATTENTION = re.compile(
    r"att(?:n|ention)|(?:^|[._])(?:q|k|qk|query|key|mha|sinks?|rope|rotary|alibi|inv_freq)(?:$|[._])", re.IGNORECASE
)

_LOSS = re.compile(r"(?:^|\.)(?:criterion|loss\w*|metrics?|\w+_loss)\.", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Recognition:
    """What a file was taken for. `fit` is None when it has no layout's signs."""

    contents: Contents
    report: Report
    fit: Fit | None


def recognise(contents: Contents, answers: Mapping[str, Any]) -> Recognition:
    """The layout that explains most of `contents`, and how well.

    Raises:
        CheckpointError: an answer is no possible one, contradicts the file, or leaves out a part of an attention.
    """
    given = {name: answer for name, answer in answers.items() if name != "ignore"}
    patterns = answers.get("ignore", ())
    patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    contents = _without_wrappers(contents)
    candidates: list[tuple[Fit | None, Answers, Report]] = []
    for layout in LAYOUTS:
        asked = Answers.of(given, contents.settings)
        try:
            fit = layout.fit(contents, asked)
            if fit is not None:
                candidates.append((fit, asked, _compare(contents, layout, fit, asked, patterns)))
        except ConfigError as error:
            candidates.append((None, asked, _broken(contents, layout, error, asked)))
    if not candidates:
        return Recognition(contents, _unknown(contents), None)
    fit, asked, report = max(candidates, key=lambda candidate: candidate[2].confidence)
    if fit is not None:
        check_left_out(report.left_out, fit)
    if fit is not None and report.fits:
        asked.check_all_used(fit.config)
        _check_special_ids(asked.given, fit.config)
    return Recognition(contents, report, fit)


def _check_special_ids(given: Mapping[str, Any], config: Any) -> None:
    """Refuse ids that were answered and that the vocabulary has not; a default that it has not counts for none."""
    source = int(getattr(config, "source_vocab", 0) or getattr(config, "vocab", 0))
    target = int(getattr(config, "target_vocab", source))
    for name, size in {"pad_id": source, "target_pad_id": target, "bos_id": target, "eos_id": target}.items():
        if name in given and given[name] >= size:
            raise CheckpointError("answered_id_outside", name=name, id=given[name], last=size - 1)


def _without_wrappers(contents: Contents) -> Contents:
    """Names without what trainers wrap around modules."""
    tensors = {}
    for name, tensor in contents.tensors.items():
        plain = ".".join(part for part in name.split(".") if part not in WRAPPERS)
        tensors[plain if plain not in tensors else name] = tensor
    return replace(contents, tensors=tensors)


def _compare(contents: Contents, layout: Layout, fit: Fit, answers: Answers, patterns: Iterable[str]) -> Report:
    """Every name of the file and of the layout, sorted into those that match and those that do not."""
    shapes = contents.shapes
    needed = _needed(fit)
    known = needed.keys() | set(fit.copies) | fit.ignored.keys()
    ignored = dict(fit.ignored)
    unexpected, left_out = {}, []
    for name in sorted(shapes.keys() - known):
        reason = _harmless(name, contents.tensors[name])
        if reason:
            ignored[name] = reason
        elif any(fnmatchcase(name, pattern) for pattern in patterns):
            ignored[name] = Message("ignored_as_asked")
            left_out.append(name)
        else:
            unexpected[name] = shapes[name]
    missing = {name: shape for name, shape in needed.items() if name not in shapes}
    wrong = {n: (shape, shapes[n]) for n, shape in needed.items() if n in shapes and shapes[n] != shape}
    matched = [n for n, shape in needed.items() if shapes.get(n) == shape] + [n for n in fit.copies if n in shapes]
    total = len(matched) + len(missing) + len(wrong) + len(unexpected) + len(left_out)
    tables = {name for ours, source in fit.sources.items() if ours.endswith(TABLE) for name in source.names}
    without = (Message("left_out", count=len(left_out), names=some(left_out)),) if left_out else ()
    strange = found_in(contents) if missing or unexpected or wrong else ()
    share = Message("reason_share", matched=len(matched), total=total)
    return Report(
        source=contents.source,
        layout=layout.name,
        title=layout.title,
        confidence=len(matched) / total if total else 0.0,
        reasons=(share, *fit.reasons, *strange, *_lay(contents), *_read_by(contents, fit.config), *answers.told),
        matched=tuple(matched),
        missing=dict(sorted(missing.items())),
        unexpected=dict(sorted(unexpected.items())),
        wrong_shape=dict(sorted(wrong.items())),
        ignored=dict(sorted(ignored.items())),
        doubts={name: reason for name, reason in fit.doubts.items() if name in unexpected},
        questions=_heads_first(answers.asked.values()),
        open=answers.open,
        assumptions=(*answers.assumptions, *fit.assumed, *without),
        left_out=tuple(left_out),
        tables=tuple(name for name in sorted(missing) if name in tables),
        config=fit.config,
        format=contents.format,
    )


def _lay(contents: Contents) -> tuple[str, ...]:
    """Where in the file the weights lay, and what beside them was passed over."""
    found = [Message("reason_place", place=contents.place)] if contents.place else []
    if contents.dropped:
        found.append(Message("reason_dropped", kinds=contents.dropped))
    if contents.others:
        found.append(Message("reason_other_weights", places=contents.others))
    return tuple(found)


def _read_by(contents: Contents, config: Any) -> tuple[str, ...]:
    """Which vocabularies beside the weights are used."""
    names = dict.fromkeys(name for name in names_inside(contents, config) if name is not None)
    return tuple(Message("reason_vocabulary", name=n, count=len(contents.vocabularies[n])) for n in names)


def _needed(fit: Fit) -> dict[str, Shape]:
    """The foreign tensors that our model needs, with the shapes that they must have."""
    model, _ = ARCHITECTURES[fit.architecture]
    ours = meta_shapes(model, fit.config)
    found: dict[str, Shape] = {}
    for name, source in fit.sources.items():
        found |= source.needs(ours[name])
    return found


def _heads_first(questions: Iterable[Question]) -> tuple[Question, ...]:
    """The number of heads before all others, then what else must be answered: nothing is shown before."""
    return tuple(sorted(questions, key=lambda question: (question.name != "n_heads", not question.is_open)))


def check_left_out(left_out: Iterable[str], fit: Fit) -> None:
    """Refuse to leave out a part of an attention that is run: its maps would be those of another model.

    Such a part lies in the module of an attention, or in its layer under a name that speaks of one (`q_norm`, `sinks`).

    Raises:
        CheckpointError: names the tensor.
    """
    modules = _attention_modules(fit)
    layers = {f"{module.rstrip('.').rpartition('.')[0]}." for module in modules} - {"."}
    for name in left_out:
        inside = next((layer for layer in layers if name.startswith(layer)), None)
        if name.startswith(modules) or (inside and _OF_ATTENTION.search(name.removeprefix(inside))):
            raise CheckpointError("left_out_of_attention", name="ignore", tensor=name)


def _attention_modules(fit: Fit) -> tuple[str, ...]:
    """The modules of the file that compute attention, with a dot behind: each holds the maps of one of ours."""
    held: dict[str, list[str]] = {}
    for ours, source in fit.sources.items():
        if found := _MAP.fullmatch(ours):
            held.setdefault(found["attention"], []).extend(source.names)
    return tuple(prefix for names in held.values() if (prefix := shared_prefix(names)))


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


def _broken(contents: Contents, layout: Layout, error: ConfigError, answers: Answers) -> Report:
    """The layout's signs are there, but the sizes do not make a model; another answer may mend that."""
    return Report(
        contents.source,
        layout.name,
        layout.title,
        0.0,
        (error.message, *found_in(contents)),
        unexpected=contents.shapes,
        questions=tuple(answers.asked.values()),
        format=contents.format,
    )


def _unknown(contents: Contents) -> Report:
    """No layout's signs are there: say what names tell of it."""
    known = stranger(contents.tensors)
    starts = Message("reason_starts_with", names=tuple(contents.tensors)[:3])
    return Report(
        source=contents.source,
        layout=None,
        title=known.title if known else Message("title_unknown"),
        confidence=0.0,
        reasons=(known.reason if known else starts, *(() if known and not known.attends else found_in(contents))),
        remedy=known.remedy if known else "",
        attends=known is None or known.attends,
        unexpected=contents.shapes,
        format=contents.format,
    )
