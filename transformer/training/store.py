"""What a run keeps in its work folder, so that it can be stopped anywhere and go on as if it had not been.

`options.json`, `state.pt` (model, optimizer, progress), `curve.jsonl` (one line a validation) and
`weights/UPDATE.safetensors`: the newest ones, whose mean is shipped, and the snapshots of the history.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from transformer.checkpoint.ours.folder import save_weights
from transformer.errors import TrainingError
from transformer.training.options import TrainingOptions

FIRST_SNAPSHOT = 50
"""The history holds updates 50, 100, 200, ...: doubling, so that early learning is seen as finely as late."""


@dataclass
class Progress:
    """Where a run stands: finished updates, where the next batch lies, and what was lost since the last validation."""

    update: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    tokens: float = 0.0


def is_snapshot(update: int) -> bool:
    """Whether the history keeps this update."""
    ratio, rest = divmod(update, FIRST_SNAPSHOT)
    return rest == 0 and ratio > 0 and ratio & (ratio - 1) == 0


class Store:
    """The work folder of one run."""

    def __init__(self, options: TrainingOptions) -> None:
        self.options = options
        self.folder = options.work

    def save_state(self, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
        """Everything that going on needs; the old state is replaced at once or not at all.

        Raises:
            TrainingError: it cannot be written, as on a full disk; the old state stays.
        """
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "progress": asdict(progress)}
        with saved_whole(self.folder / "options.json") as new:
            text = json.dumps(asdict(self.options) | self.options.deciding(), default=str, indent=1)
            new.write_text(text + "\n", encoding="utf-8")
        with saved_whole(self.folder / "state.pt") as new, new.open("wb") as file:
            torch.save(state, file)

    def load_state(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
        """Put back what was saved last; a new run starts at update 0.

        Raises:
            TrainingError: the folder holds a run with other options, or cannot be read.
        """
        if not (self.folder / "state.pt").exists():
            return Progress()
        self._check_options()
        try:
            state = torch.load(self.folder / "state.pt", weights_only=True, map_location="cpu")
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            return Progress(**state["progress"])
        except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
            raise TrainingError("training_not_resumable", path=self.folder / "state.pt", reason=str(error)) from error

    def _check_options(self) -> None:
        """Refuse to go on with options under which the run would not have come here."""
        path = self.folder / "options.json"
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise TrainingError("training_options_unreadable", path=path, reason=str(error)) from error
        usual = {option.name: option.default for option in fields(self.options)}
        for name, value in self.options.deciding().items():
            before = saved.get(name, usual[name])  # a run from before there was an option had its default
            if before != value:
                raise TrainingError("training_other_option", name=name, value=value, folder=self.folder, before=before)

    def save_weights(self, model: nn.Module, update: int) -> None:
        """Keep the weights of this update; of those that no snapshot needs, the newest `average` stay.

        Raises:
            TrainingError: they cannot be written; those that were kept stay.
        """
        with saved_whole(self._weights(update)) as new:
            save_weights(new, dict(model.named_parameters()), half=False)
        spare = [kept for kept in self.saved() if not is_snapshot(kept)]
        for old in spare[: -self.options.average]:
            self._weights(old).unlink()

    def saved(self) -> list[int]:
        """Updates whose weights are kept, in order."""
        return sorted(int(path.stem) for path in (self.folder / "weights").glob("*.safetensors"))

    def weights(self, update: int) -> dict[str, Tensor]:
        """Weights by name, as they were after this update."""
        return load_file(self._weights(update))

    def averaged(self, last: int) -> tuple[dict[str, Tensor], list[int]]:
        """The mean of the newest saved weights up to update `last`, and the updates that they are from.

        With a falling learning rate it generalises better than the last weights alone.
        """
        every = self.options.save_every
        recent = range(last - self.options.average * every + 1, last + 1)
        regular = [update for update in self.saved() if update in recent and (update % every == 0 or update == last)]
        chosen = regular[-self.options.average :]
        loaded = [self.weights(update) for update in chosen]
        return {name: torch.stack([w[name].double() for w in loaded]).mean(0).float() for name in loaded[0]}, chosen

    def log(self, entry: dict[str, Any]) -> None:
        """Add a line to the curve.

        Raises:
            TrainingError: it cannot be written; the lines before stay.
        """
        self._write_curve([*self.curve(), entry])

    def curve(self) -> list[dict[str, Any]]:
        """All validations so far."""
        path = self.folder / "curve.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def forget_after(self, update: int) -> None:
        """Drop what a process logged that was killed before it could save its state; it will be logged again."""
        self._write_curve([entry for entry in self.curve() if entry["update"] <= update])

    def _write_curve(self, entries: list[dict[str, Any]]) -> None:
        with saved_whole(self.folder / "curve.jsonl") as new:
            new.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")

    def _weights(self, update: int) -> Path:
        return self.folder / "weights" / f"{update:06d}.safetensors"


@contextmanager
def saved_whole(path: Path) -> Iterator[Path]:
    """A file beside `path` to write, which then takes its place: a full disk costs what is being saved, never what was.

    Raises:
        TrainingError: it cannot be written; what was there before still is, and nothing of the new file.
    """
    new = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield new
        new.replace(path)
    except (OSError, RuntimeError) as error:  # torch's own writer hides the system's error behind one of its own
        new.unlink(missing_ok=True)
        said = error if isinstance(error, OSError) else error.__context__
        reason = said.strerror if isinstance(said, OSError) else None
        raise TrainingError("training_cannot_write", path=path, reason=reason or str(error)) from error
