"""Our own checkpoint folders: config.json, model.safetensors, tokenizer.model, examples.json, CARD.md.

`config.json` holds `architecture` (a key of `ARCHITECTURES`), `config` (the model's frozen config) and `languages`; and
what was `assumed` of a file that did not say it all.
Weights may be half precision on disk; they are read as float32. Double precision stays what it is.
"""

import errno
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from transformer.attention.capture import watch
from transformer.attention.interventions import means
from transformer.checkpoint import weight_files
from transformer.checkpoint.checkpoint import ARCHITECTURES, GUESSED, ChangedExample, Checkpoint, Model, language_called
from transformer.checkpoint.ours.retired import current_options
from transformer.errors import CheckpointError, ConfigError, InputError
from transformer.messages import Message
from transformer.safe.refusal import refused, refused_because, said
from transformer.sequences.task import SequenceTask
from transformer.text.base import Tokenizer
from transformer.text.text import TextTokenizer

CONFIG, WEIGHTS = weight_files.CONFIG, weight_files.WEIGHTS
TOKENIZER, EXAMPLES, CARD = "tokenizer.model", "examples.json", "CARD.md"

AGAIN = Message("remedy_copy_folder")
MOST_NAME = 80
"""Characters of a language's or an example's name that are read."""


ASSUMED = "assumed"
"""Where a config keeps what was assumed when it was written of a file that does not say it."""

_KEPT: Mapping[str, tuple[Callable[..., Message], tuple[str, str]]] = {
    "assumed": (partial(Message, "assumed"), ("name", "default")),
    "left_out": (partial(Message, "left_out"), ("count", "names")),
}
"""What is made of each code, and of which fields."""

MOST_ASSUMED, LONGEST = 100, 1_000
"""So many assumptions, and so many characters of each field, are read."""

M = TypeVar("M", bound=nn.Module)


def is_folder(path: Path) -> bool:
    """Whether `path` is laid out as one of our folders."""
    return (path / CONFIG).is_file() and (path / WEIGHTS).is_file() and not weight_files.is_hugging_face(path)


def load_folder(path: Path, tokenizer_at: Callable[[Path], Tokenizer] = TextTokenizer.read) -> Checkpoint:
    """The checkpoint in one of our folders. `tokenizer_at` reads its tokenizer.

    Raises:
        CheckpointError: a file is missing, cannot be read, or does not fit the others.
    """
    about = _read_json(path / CONFIG)
    try:
        model_type, config_type = ARCHITECTURES[about["architecture"]]
        config = config_type(**current_options(about["architecture"], about["config"]))
    except (AttributeError, KeyError, TypeError, ConfigError) as error:
        raise CheckpointError(
            "config_of_no_model", file=f"{path.name}/{CONFIG}", error=said(error), known=tuple(ARCHITECTURES)
        ) from error
    name = f"{path.name}/{CONFIG}"
    task = task_of(about["task"], config, name) if "task" in about else None
    languages = _languages(about, name)
    examples, changed = _examples(path / EXAMPLES) if (path / EXAMPLES).is_file() else ({}, ())
    with torch.random.fork_rng(devices=[]):
        model = model_type(config)
    weights = _read_weights(path / WEIGHTS)
    fill(in_precision_of(model, weights), weights, f"{path.name}/{WEIGHTS}")
    tokenizer = tokenizer_at(path / TOKENIZER) if (path / TOKENIZER).is_file() else None
    brought = _means(path / means.FILE) if (path / means.FILE).is_file() else None
    return Checkpoint(
        name=path.name,
        model=watch(model.eval(), None if brought is None else brought.vectors),
        tokenizer=tokenizer,
        languages=languages,
        examples=tuple(examples),
        folder=path,
        task=task,
        means=brought,
        example_names={text: names for text, names in examples.items() if names},
        changed_examples=changed,
        assumptions=assumed_by(about.get(ASSUMED, []), name),
    )


def _described(assumption: Message) -> dict[str, Any]:
    """An assumption as a config keeps it: its code and plain fields."""
    code = "assumed" if assumption.code in GUESSED else assumption.code
    fields = {name: assumption.fields[name] for name in _KEPT[code][1]}
    return {"code": code} | {
        name: ", ".join(map(str, one)) if isinstance(one, tuple) else one for name, one in fields.items()
    }


def assumed_by(kept: Any, name: str) -> tuple[Message, ...]:
    """What a config says that was assumed when it was written.

    Raises:
        CheckpointError: it is no list of such assumptions.
    """
    found = []
    for one in kept[:MOST_ASSUMED] if isinstance(kept, list) else [kept]:
        code = str(one.get("code")) if isinstance(one, dict) else ""
        fields = {key: one.get(key) for key in _KEPT[code][1]} if code in _KEPT else {}
        plain = (type(value) is int or (type(value) is str and len(value) <= LONGEST) for value in fields.values())
        if not fields or not all(plain):
            raise refused("config_assumed", name, AGAIN)
        found.append(_KEPT[code][0](**fields))
    return tuple(found)


def described_architecture(path: Path) -> str:
    """The key of `ARCHITECTURES` that one of our folders names; nothing else of it is read.

    Raises:
        CheckpointError: its config cannot be read, or names none.
    """
    about = _read_json(path / CONFIG)
    found = about.get("architecture") if isinstance(about, dict) else None
    if not isinstance(found, str) or found not in ARCHITECTURES:
        raise refused("architecture_unknown", f"{path.name}/{CONFIG}", AGAIN, known=tuple(ARCHITECTURES))
    return found


def task_of(described: Any, config: Any, name: str, remedy: str = AGAIN) -> SequenceTask:
    """The task that the file `name` describes; it has to fit the classes and letters of a model with this config.

    Raises:
        CheckpointError: it is no task, or one of another model.
    """
    try:
        task = SequenceTask.of(described)
    except ConfigError as error:
        raise refused_because(said(error), name, remedy) from error
    classes, vocab = getattr(config, "n_classes", len(task.classes)), getattr(config, "vocab", len(task.alphabet))
    if len(task.classes) != classes or len(task.alphabet) > vocab:
        raise refused(
            "task_does_not_fit", name, remedy,
            classes=len(task.classes), ids=len(task.alphabet), model_classes=classes, model_ids=vocab,
        )  # fmt: skip
    return task


def _languages(about: Mapping[str, Any], name: str) -> tuple[str, str]:
    """The names of source and target."""
    found = about.get("languages", ["source", "target"])
    if not (isinstance(found, list) and len(found) == 2 and all(isinstance(one, str) for one in found)):
        raise refused("languages_no_names", name, AGAIN, kind=type(found).__name__)
    return language_called(found[0][:MOST_NAME]), language_called(found[1][:MOST_NAME])


def _examples(file: Path) -> tuple[dict[str, dict[str, str]], tuple[ChangedExample, ...]]:
    """Texts to start with, and what each is called by language code (most are called nothing); and changes to try.

    The file is a list. An entry is a text, or `{"text": TEXT, "name": {CODE: NAME}}`. One that has `"change"` too
    (interventions in their short form, perhaps with a `"donor"`) is a change to try, and no text to start with.
    """
    found = _read_json(file)
    entries = [one if isinstance(one, dict) else {"text": one} for one in found] if isinstance(found, list) else [{}]
    for entry in entries:
        names = entry.get("name", {})
        texts = [value for key, value in entry.items() if key != "name"]
        known = "text" in entry and set(entry) <= {"text", "name", *(("change", "donor") if "change" in entry else ())}
        if not (known and isinstance(names, dict) and all(isinstance(one, str) for one in [*texts, *names.values()])):
            raise refused("no_list_of_texts", f"{file.parent.name}/{file.name}", AGAIN)
    named = [(entry, {code: name[:MOST_NAME] for code, name in entry.get("name", {}).items()}) for entry in entries]
    changed = (
        ChangedExample(entry["text"], entry["change"], entry.get("donor", ""), names)
        for entry, names in named
        if "change" in entry
    )
    return {entry["text"]: names for entry, names in named if "change" not in entry}, tuple(changed)


def _means(file: Path) -> means.Means:
    """The mean head outputs that the folder brings."""
    name = f"{file.parent.name}/{file.name}"
    try:
        return means.Means.of_json(file.read_text(encoding="utf-8"), name)
    except (OSError, UnicodeError, InputError) as error:
        raise refused("no_json", name, AGAIN, error=said(error)) from error


def load_snapshot(checkpoint: Checkpoint, path: Path) -> Checkpoint:
    """The same model with other weights: one snapshot of its training, from `history/`. The means are not its own.

    Raises:
        CheckpointError: the file cannot be read, or holds another model.
    """
    if checkpoint.is_of_other_library:
        raise CheckpointError("no_snapshots", name=checkpoint.name)
    with torch.random.fork_rng(devices=[]):
        model = _like(cast(Model, checkpoint.model))
    fill(model, _read_weights(path), path.name)
    return Checkpoint(
        name=f"{checkpoint.name}@{path.stem}",
        model=watch(model.eval()),
        tokenizer=checkpoint.tokenizer,
        languages=checkpoint.languages,
        examples=checkpoint.examples,
        folder=checkpoint.folder,
        example_names=checkpoint.example_names,
    )


def _like(model: Model) -> Model:
    """A model of the same config, with weights of its own."""
    built: Model = type(model)(model.config)  # type: ignore[arg-type]  # its own config fits it
    return built


def save_folder(
    path: Path,
    architecture: str,
    model: Model,
    tokenizer: TextTokenizer | None = None,
    languages: tuple[str, str] = ("source", "target"),
    examples: tuple[str, ...] = (),
    half: bool = True,
    task: SequenceTask | None = None,
    assumptions: Iterable[str] = (),
) -> None:
    """Write a folder that `load_folder` reads; `half` stores float16. Assumptions that attention rests on are kept."""
    path.mkdir(parents=True, exist_ok=True)
    about: dict[str, Any] = {"architecture": architecture, "languages": languages, "config": asdict(model.config)}
    if task is not None:
        about = {"architecture": architecture, "task": task.described(), "config": asdict(model.config)}
    if assumed := [one for one in assumptions if isinstance(one, Message) and one.code in {*_KEPT, *GUESSED}]:
        about[ASSUMED] = [_described(one) for one in assumed]
    (path / CONFIG).write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    save_weights(path / WEIGHTS, dict(model.named_parameters()), half)
    if tokenizer is not None:
        (path / TOKENIZER).write_bytes(tokenizer.model)
    (path / EXAMPLES).write_text(json.dumps(examples, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def save_weights(path: Path, weights: Mapping[str, Tensor], half: bool = True) -> None:
    """Tensors by name as safetensors.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = {name: (w.detach().half() if half else w.detach()).cpu().contiguous() for name, w in weights.items()}
    try:
        save_file(stored, path)
    except SafetensorError as error:  # its own name for what the system refused
        raise OSError(errno.EIO, str(error), str(path)) from error


def in_precision_of(model: M, weights: Mapping[str, Tensor]) -> M:
    """The model, in double precision if that is how all of the weights were kept."""
    kept = [w.dtype for w in weights.values() if w.is_floating_point()]
    return model.double() if kept and all(dtype == torch.float64 for dtype in kept) else model


def fill(model: nn.Module, weights: Mapping[str, Tensor], name: str) -> None:
    """Put `weights` into every parameter of `model`.

    Raises:
        CheckpointError: a tensor is missing, unexpected, of another shape, or holds NaN or infinity.
    """
    parameters = dict(model.named_parameters())
    missing, unexpected = sorted(parameters.keys() - weights.keys()), sorted(weights.keys() - parameters.keys())
    if missing or unexpected:
        nothing = Message("nothing")
        raise CheckpointError(
            "weights_do_not_fit",
            name=name,
            missing=str(missing[:3]) if missing else nothing,
            unexpected=str(unexpected[:3]) if unexpected else nothing,
        )
    for key, parameter in parameters.items():
        found = weights[key]
        if found.shape != parameter.shape:
            shapes = {"shape": str(tuple(found.shape)), "needed": str(tuple(parameter.shape))}
            raise CheckpointError("weight_of_other_shape", name=name, tensor=key, **shapes)
        if not bool(found.isfinite().all()):
            raise CheckpointError("weight_not_finite", name=name, tensor=key)
        parameter.data.copy_(found)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise refused("no_json", f"{path.parent.name}/{path.name}", AGAIN, error=str(error)) from error


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError("no_safetensors", file=f"{path.parent.name}/{path.name}", error=str(error)) from error
