"""What the dashboard remembers between reruns, for all sessions: checkpoints and runs.

Keys are plain values (checkpoint name, revision, text, options); values are shared, so they are read-only.
"""

from pathlib import Path

from transformer import Checkpoint, DecodingOptions, Translation, follow, load, translate
from transformer.checkpoint.huggingface.model import HUGGING_FACE
from transformer.checkpoint.ours.folder import WEIGHTS, described_architecture, is_folder, load_snapshot
from transformer.checkpoint.ours.history import FOLDER, Snapshot
from transformer.checkpoint.ours.history import snapshots as snapshots_in
from transformer.errors import CheckpointError
from transformer.runs.any_model import AnyRun, run_any
from ui.store import user_checkpoints
from ui.store.cache import kept

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
"""Where the shipped checkpoints lie."""

TRANSLATORS = ("seq2seq", "recurrent", f"{HUGGING_FACE}seq2seq")
"""The architectures that read one text and write another."""

MOMENT = "@"
"""Parts a shipped checkpoint's name from the moment of its training that is meant: `multi30k-en-de@000400`."""


FIRST = ("multi30k-en-de", "splice-junctions")
"""What a page starts with, where it has the choice: the translator, and the classifier with a known consensus."""


def shipped_names() -> list[str]:
    """Every shipped checkpoint: those of `FIRST`, then by name."""
    names = [path.name for path in CHECKPOINTS.iterdir() if is_folder(path)] if CHECKPOINTS.is_dir() else []
    return sorted(names, key=lambda name: (name not in FIRST, name))


def checkpoint_names(*architectures: str) -> list[str]:
    """Every checkpoint of these architectures by name: shipped ones, then the reader's own."""
    shipped = [name for name in shipped_names() if _described(name) in architectures]
    return [*shipped, *user_checkpoints.names_of(*architectures)]


def unreadable() -> list[CheckpointError]:
    """Why shipped folders are in no list: their config cannot be read."""
    return [found for name in shipped_names() if isinstance(found := _described(name), CheckpointError)]


def is_known(name: str) -> bool:
    """Whether a name from an address is empty, or that of a checkpoint that is here and can be listed."""
    folder = name.partition(MOMENT)[0]
    return (
        not folder
        or name in user_checkpoints.names()
        or (folder in shipped_names() and isinstance(_described(folder), str))
    )


def _described(name: str) -> str | CheckpointError:
    """The architecture that a shipped folder names, or why none can be read: one broken folder spoils no page."""
    try:
        return described_architecture(CHECKPOINTS / name)
    except CheckpointError as error:
        return error


def revision(name: str) -> int:
    """Changes when a checkpoint's weights do.

    Raises:
        CheckpointError: there is no such checkpoint.
    """
    if user_checkpoints.holds(name):
        return user_checkpoints.revision(name)
    try:
        return weights_path(name).stat().st_mtime_ns
    except OSError as error:
        raise CheckpointError(f"checkpoint {name!r} is not here: choose one from the list") from error


def checkpoint(name: str) -> Checkpoint:
    """A checkpoint; a shipped one, or a moment of its training, is loaded once for all sessions."""
    if user_checkpoints.holds(name):
        return user_checkpoints.checkpoint(name)
    return _snapshot(name, revision(name)) if MOMENT in name else _checkpoint(name, revision(name))


def snapshots(name: str) -> tuple[Snapshot, ...]:
    """The moments of a shipped checkpoint's training, the earliest first; `NAME@MOMENT` is a name of each.

    Raises:
        CheckpointError: their index is damaged.
    """
    return () if user_checkpoints.holds(name) or MOMENT in name else snapshots_in(CHECKPOINTS / name)


def translation(name: str, text: str, options: DecodingOptions, forced: str | None) -> Translation:
    """A sentence's run; it runs once, whatever is looked at."""
    return _translation(name, revision(name), text, options, forced)


def hypothesis(name: str, text: str, options: DecodingOptions, best: Translation, node: int | None) -> Translation:
    """The same sentence with another hypothesis of its beam; `best` itself when `node` is its own or None."""
    if node is None or node == best.node:
        return best
    return _followed(name, revision(name), text, options, node)


def hypothesis_texts(name: str, text: str, options: DecodingOptions) -> dict[int, str]:
    """What every hypothesis of a sentence's beam has written, by its place in the tree."""
    return _hypothesis_texts(name, revision(name), text, options)


def seen(name: str, text: str, options: DecodingOptions, forced: str | None) -> AnyRun:
    """What a checkpoint of any kind did with a text; it runs once, whatever is looked at."""
    return _look(name, revision(name), text, options, forced)


def weights_path(name: str) -> Path:
    """Where the weights of a shipped checkpoint, or of a moment of its training, lie."""
    folder, _, moment = name.partition(MOMENT)
    return CHECKPOINTS / folder / (f"{FOLDER}/{moment}.safetensors" if moment else WEIGHTS)


@kept(max_entries=64)
def _hypothesis_texts(name: str, revision: int, text: str, options: DecodingOptions) -> dict[int, str]:
    tokenizer, tree = checkpoint(name).writer, _translation(name, revision, text, options, None).tree
    if tokenizer is None or tree is None:
        return {}
    return {node.id: tokenizer.decode(tree.path(node.id)) for node in tree.nodes[1:]}


@kept(max_entries=8, show_spinner="Loading the checkpoint …")
def _checkpoint(name: str, revision: int) -> Checkpoint:  # noqa: ARG001  (part of the cache key)
    return load(CHECKPOINTS / name)


@kept(max_entries=12, show_spinner="Loading a moment of the training …")
def _snapshot(name: str, revision: int) -> Checkpoint:  # noqa: ARG001  (part of the cache key)
    return load_snapshot(checkpoint(name.partition(MOMENT)[0]), weights_path(name))


@kept(max_entries=128, show_spinner="Translating …")
def _translation(
    name: str,
    revision: int,  # noqa: ARG001  (part of the cache key)
    text: str,
    options: DecodingOptions,
    forced: str | None,
) -> Translation:
    return translate(checkpoint(name), text, options, forced)


@kept(max_entries=128, show_spinner="Looking at that hypothesis …")
def _followed(name: str, revision: int, text: str, options: DecodingOptions, node: int) -> Translation:
    return follow(checkpoint(name), _translation(name, revision, text, options, None), node)


@kept(max_entries=64, show_spinner="Running the checkpoint …")
def _look(
    name: str,
    revision: int,  # noqa: ARG001  (part of the cache key)
    text: str,
    options: DecodingOptions,
    forced: str | None,
) -> AnyRun:
    return run_any(checkpoint(name), text, options, forced)
