"""Our own checkpoint folders: config.json, model.safetensors, tokenizer.model, examples.json, CARD.md, history/.

`config.json` holds `architecture` (a key of `ARCHITECTURES`), `config` (the model's frozen config) and `languages`; and
what was `assumed` of a file that did not say it all.
Weights may be half precision on disk; they are read as float32. Double precision stays what it is.
Anyone can write such a folder, so it is checked like any untrusted file (`config`): sizes first, then memory.
"""

import errno
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ...attention.capture import watch
from ...attention.interventions.value import MEANS_FILE, Means
from ...errors import CheckpointError, ConfigError, InputError
from ...messages import Message
from ...safe.limits import ReadLimits, refused, refused_because, said
from ...sequences.task import SequenceTask
from ...text.base import Tokenizer
from ...text.tokenizers import TextTokenizer
from ..checkpoint import ARCHITECTURES, GUESSED, ChangedExample, Checkpoint, Model, language_called
from ..weight_files import CONFIG, WEIGHTS, is_hugging_face
from .config import checked_folder, read_json

TOKENIZER, EXAMPLES, CARD = "tokenizer.model", "examples.json", "CARD.md"

AGAIN = Message("remedy_copy_folder")
MOST_NAME = 80
"""Characters of a language's or an example's name that are read."""

ASSUMED = "assumed"
"""Where a config keeps what was assumed when it was written of a file that does not say it."""

MOST_ASSUMED, LONGEST = 100, 1_000
"""So many assumptions, and so many characters of each field, are read."""


def is_folder(path: Path) -> bool:
    """Whether `path` is laid out as one of our folders."""
    return (path / CONFIG).is_file() and (path / WEIGHTS).is_file() and not is_hugging_face(path)


def load_folder(path: Path, tokenizer_at: Callable[[Path], Tokenizer], limits: ReadLimits) -> Checkpoint:
    """The checkpoint in one of our folders. `tokenizer_at` reads its tokenizer.

    Raises:
        CheckpointError: a file is missing, too large, leads out of the folder, cannot be read, or does not fit the
            others.
    """
    about, model_type, config = checked_folder(path, limits)
    name = f"{path.name}/{CONFIG}"
    task = task_of(about["task"], config, name) if "task" in about else None
    languages = _languages(about, name)
    examples, changed, left_out = dict[str, dict[str, str]](), tuple[ChangedExample, ...](), tuple[Message, ...]()
    try:
        examples, changed = _examples(path / EXAMPLES) if (path / EXAMPLES).is_file() else (examples, changed)
    except CheckpointError as error:
        left_out = (Message("examples_left_out", reason=error.message),)
    weights = _read_weights(path / WEIGHTS)
    tokenizer = tokenizer_at(path / TOKENIZER) if (path / TOKENIZER).is_file() else None
    sizes = [getattr(config, key, None) for key in ("source_vocab", "target_vocab", "vocab")]
    rows = next((size for size in sizes if tokenizer is not None and size not in {None, len(tokenizer)}), None)
    if tokenizer is not None and rows is not None:  # a row of the embeddings without a token
        name = f"{path.name}/{TOKENIZER}"
        raise CheckpointError("vocabulary_of_other_size", name=name, tokens=len(tokenizer), rows=rows)
    brought = _means(path / MEANS_FILE) if (path / MEANS_FILE).is_file() else None
    model = filled(model_type, config, weights, f"{path.name}/{WEIGHTS}")
    return Checkpoint(
        name=path.name,
        model=watch(model, None if brought is None else brought.vectors),
        tokenizer=tokenizer,
        languages=languages,
        examples=tuple(examples),
        folder=path,
        task=task,
        means=brought,
        example_names={text: names for text, names in examples.items() if names},
        changed_examples=changed,
        left_out=left_out,
        assumptions=_assumed(about.get(ASSUMED, []), name),
    )


def _assumed(kept: Any, name: str) -> tuple[Message, ...]:
    """What a config says that was assumed when it was written."""
    found = []
    for one in kept[:MOST_ASSUMED] if isinstance(kept, list) else [kept]:
        fields = [one.get(key) for key in ("code", "name", "default")] if isinstance(one, dict) else []
        if fields[:1] != ["assumed"] or not all(type(value) is str and len(value) <= LONGEST for value in fields):
            raise refused("config_assumed", name, AGAIN)
        found.append(Message("assumed", name=fields[1], default=fields[2]))
    return tuple(found)


def described_architecture(path: Path) -> str:
    """The key of `ARCHITECTURES` that one of our folders names; nothing else of it is read.

    Raises:
        CheckpointError: its config cannot be read, or names none.
    """
    about = read_json(path / CONFIG)
    found = about.get("architecture") if isinstance(about, dict) else None
    if not isinstance(found, str) or found not in ARCHITECTURES:
        raise refused("architecture_unknown", f"{path.name}/{CONFIG}", AGAIN, known=tuple(ARCHITECTURES))
    return found


def task_of(described: Any, config: Any, name: str) -> SequenceTask:
    """The task that the file `name` describes; it has to fit the classes and letters of a model with this config.

    Raises:
        CheckpointError: it is no task, or one of another model.
    """
    try:
        task = SequenceTask.of(described)
    except ConfigError as error:
        raise refused_because(said(error), name, AGAIN) from error
    classes, vocab = getattr(config, "n_classes", len(task.classes)), getattr(config, "vocab", len(task.alphabet))
    if len(task.classes) != classes or len(task.alphabet) > vocab:
        raise refused(
            "task_does_not_fit", name, AGAIN,
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
    found = read_json(file)
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


def _means(file: Path) -> Means:
    """The mean head outputs that the folder brings."""
    name = f"{file.parent.name}/{file.name}"
    try:
        return Means.of_json(file.read_text(encoding="utf-8"), name)
    except (OSError, UnicodeError, InputError) as error:
        raise refused("no_json", name, AGAIN, error=said(error)) from error


def load_snapshot(checkpoint: Checkpoint, path: Path) -> Checkpoint:
    """The same model with other weights: one snapshot of its training, from `history/`. The means are not its own.

    Raises:
        CheckpointError: the file cannot be read, or holds another model.
    """
    if checkpoint.is_of_other_library:
        raise CheckpointError("no_snapshots", name=checkpoint.name)
    model_type = ARCHITECTURES[checkpoint.architecture][0]
    model = watch(filled(model_type, checkpoint.model.config, _read_weights(path), path.name))
    return replace(checkpoint, name=f"{checkpoint.name}@{path.stem}", model=model, means=None, changed_examples=())


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
    about: dict[str, Any] = {"architecture": architecture, "languages": languages, "config": model.config.options}
    if task is not None:
        about = {"architecture": architecture, "task": task.described(), "config": model.config.options}
    if assumed := [one.fields for one in assumptions if isinstance(one, Message) and one.code in GUESSED]:
        about[ASSUMED] = [{"code": "assumed", "name": one["name"], "default": one["default"]} for one in assumed]
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


def filled(model_type: type[Model], config: Any, weights: Mapping[str, Tensor], name: str) -> Model:
    """A model of ours in evaluation mode with these weights: in double precision, if all of them are.

    Raises:
        CheckpointError: as `fill`.
    """
    with torch.random.fork_rng(devices=[]):
        model = model_type(config)
    is_double = all(tensor.dtype == torch.float64 for tensor in weights.values())
    fill(model.double() if is_double else model, weights, name)
    return model.eval()


def fill(model: nn.Module, weights: Mapping[str, Tensor], name: str) -> None:
    """Put `weights` into every parameter of `model`.

    Raises:
        CheckpointError: a tensor is missing, unexpected, of another shape, or holds NaN or infinity.
    """
    parameters = dict(model.named_parameters())
    missing, unexpected = sorted(parameters.keys() - weights.keys()), sorted(weights.keys() - parameters.keys())
    if missing or unexpected:
        some = [str(names[:3]) if names else Message("nothing") for names in (missing, unexpected)]
        raise CheckpointError("weights_do_not_fit", name=name, missing=some[0], unexpected=some[1])
    for key, parameter in parameters.items():
        found = weights[key]
        if found.shape != parameter.shape:
            shapes = {"shape": str(tuple(found.shape)), "needed": str(tuple(parameter.shape))}
            raise CheckpointError("weight_of_other_shape", name=name, tensor=key, **shapes)
        if not bool(found.isfinite().all()):
            raise CheckpointError("weight_not_finite", name=name, tensor=key)
        parameter.data.copy_(found)


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError("no_safetensors", file=f"{path.parent.name}/{path.name}", error=str(error)) from error


FOLDER, INDEX = "history", "index.json"


@dataclass(frozen=True)
class Snapshot:
    """Weights after so many `update`s, their greedy BLEU (0 to 100) and loss (nats a token) on the validation pairs."""

    path: Path
    update: int
    epoch: int
    bleu: float
    loss: float

    @property
    def name(self) -> str:
        """What stands for it after a checkpoint's name, as in `multi30k-en-de@000400`."""
        return self.path.stem


def snapshots(checkpoint_folder: Path) -> tuple[Snapshot, ...]:
    """The snapshots of a checkpoint, the earliest first; none where it kept none.

    Raises:
        CheckpointError: the index cannot be read, or names a file that is not in the folder.
    """
    folder = checkpoint_folder / FOLDER
    index = folder / INDEX
    if not index.is_file():
        return ()
    try:
        entries: list[dict[str, Any]] = json.loads(index.read_text(encoding="utf-8"))
        numbers = {"update": int, "epoch": int, "bleu_greedy": float, "loss": float}
        found = [
            Snapshot(folder / str(entry["file"]), *(kind(entry[name]) for name, kind in numbers.items()))
            for entry in entries
        ]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError("history_unreadable", folder=checkpoint_folder.name, error=repr(error)) from error
    for snapshot in found:
        if snapshot.path.parent != folder or not snapshot.path.is_file():
            raise CheckpointError("snapshot_not_there", folder=checkpoint_folder.name, name=snapshot.path.name)
    return tuple(sorted(found, key=lambda snapshot: snapshot.update))
