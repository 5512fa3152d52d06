"""One training run of any kind: stopped anywhere, it goes on as if it had not been.

On a CPU, or on a GPU where there is one. Randomness is a function of (seed, update) and of (seed, epoch), so resuming
needs no generator state. The work folder holds `state.pt` (options, model, optimizer, progress, curve) and
`weights/UPDATE.safetensors`: the newest ones, whose mean is shipped, and the snapshots of the history.
"""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from tqdm import tqdm

from heedmap.checkpoint.ours.folder import save_weights
from heedmap.training.descent import descend
from tools import ToolError
from tools.train.options import TrainingOptions

FIRST_SNAPSHOT = 50
"""The history holds updates 50, 100, 200, ...: doubling, so that early learning is seen as finely as late."""


class TrainingTask(Protocol):
    """What a run learns: a model on the run's device, its loss summed over a batch, and how it is measured.

    The optimizer's rate is set for each update.
    """

    model: Any
    loss: nn.Module
    optimizer: torch.optim.Optimizer

    def batches(self, epoch: int) -> Sequence[Sequence[Any]]:
        """The rows of each update of an epoch."""

    def count(self, batch: Sequence[Any]) -> int:
        """How many examples the loss of a batch is the sum of."""

    def tensors(self, rows: Sequence[Any]) -> Sequence[Tensor]:
        """What `loss` takes, on the run's device."""

    def validate(self) -> dict[str, float]:
        """Measures of the model on the validation data."""


T = TypeVar("T", bound=TrainingTask)


@dataclass
class Progress:
    """Where a run stands: finished updates, where the next batch lies, and what was lost since the last validation.

    `curve` holds all validations so far.
    """

    update: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    tokens: float = 0.0
    curve: list[dict[str, Any]] = field(default_factory=list)


class TrainingRun(Generic[T]):
    """One training: a task, its place in the data, and the folder that remembers both."""

    def __init__(self, options: TrainingOptions, task: Callable[[Any, torch.device], T]) -> None:
        """Start, or go on from what `options.work` holds.

        Raises:
            HeedmapError: the data cannot be read or used.
            ToolError: they teach nothing, or the folder holds a run with other options.
        """
        self.options = options
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.set_num_threads(options.threads)
        self.task = task(options, self.device)
        self.progress = self._saved_progress()
        self.signal: int | None = None

    @property
    def finished(self) -> bool:
        """Whether the last update is done."""
        return self.progress.update >= self.options.schedule.updates

    def train(self) -> None:
        """Run to the last update, to `stop_after`, or to a signal (then `signal` names it); resuming needs no more."""
        last = min(self.options.schedule.updates, self.options.stop_after or self.options.schedule.updates)
        started = time.monotonic() - self.progress.seconds
        batches = self._batches()
        bar = tqdm(total=last, initial=self.progress.update, unit="update")
        with bar, self._listening():
            while self.progress.update < last and self.signal is None:
                loss = self._update(next(batches))
                self.progress.seconds = time.monotonic() - started
                bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
                bar.update()
                self._keep()
        self._save_state()

    @property
    def saved(self) -> list[int]:
        """Updates whose weights are kept, in order."""
        return sorted(int(path.stem) for path in (self.options.work / "weights").glob("*.safetensors"))

    def weights(self, update: int) -> dict[str, Tensor]:
        """Weights by name, as they were after this update."""
        return load_file(self._weights_path(update))

    def averaged(self) -> tuple[dict[str, Tensor], list[int]]:
        """The mean of the newest saved weights, and the updates that they are from.

        With a falling learning rate it generalises better than the last weights alone.
        """
        every, last = self.options.saving.save_every, self.progress.update
        recent = range(last - self.options.saving.average * every + 1, last + 1)
        regular = [update for update in self.saved if update in recent and (update % every == 0 or update == last)]
        chosen = regular[-self.options.saving.average :]
        loaded = [self.weights(update) for update in chosen]
        return {name: torch.stack([w[name].double() for w in loaded]).mean(0).float() for name in loaded[0]}, chosen

    def _batches(self) -> Iterator[Sequence[Any]]:
        """The batches from where the run stands; `progress` says how many of its epoch were taken."""
        progress = self.progress
        while True:
            batches = self.task.batches(progress.epoch)
            while progress.batch < len(batches):
                progress.batch += 1
                yield batches[progress.batch - 1]
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def _update(self, batch: Sequence[Any]) -> float:
        """One step; returns the mean loss of the batch."""
        update, task, schedule = self.progress.update + 1, self.task, self.options.schedule
        count = task.count(batch)
        how: dict[str, Any] = dict(rate=schedule.rate(update), seed=(self.options.seed, update), clip=schedule.clip)
        loss = descend(task.loss, task.optimizer, task.tensors(batch), count, **how)
        self.progress.update = update
        self.progress.loss += loss
        self.progress.tokens += count
        return loss / count

    def _keep(self) -> None:
        """Save and measure what is due at this update; of weights that no snapshot needs, the newest few stay."""
        update, options = self.progress.update, self.options
        milestone = (options.saving.history and is_snapshot(update)) or update == options.schedule.updates
        if milestone or update % options.saving.save_every == 0:
            with saved_whole(self._weights_path(update)) as new:
                save_weights(new, dict(self.task.model.named_parameters()), half=False)
            for old in [kept for kept in self.saved if not is_snapshot(kept)][: -options.saving.average]:
                self._weights_path(old).unlink()
        if milestone or update % options.saving.validate_every == 0:
            self._validate()
            self._save_state()

    def _validate(self) -> None:
        progress = self.progress
        self.task.model.eval()
        entry = dict(
            update=progress.update,
            epoch=progress.epoch,
            seconds=round(progress.seconds, 1),
            rate=self.options.schedule.rate(progress.update),
            train_loss=progress.loss / progress.tokens,
            **self.task.validate(),
        )
        progress.loss = progress.tokens = 0.0
        progress.curve.append(entry)
        tqdm.write(" ".join(f"{name}={value:.6g}" for name, value in entry.items()))

    def _save_state(self) -> None:
        state = {
            "options": self.options.deciding(),
            "model": self.task.model.state_dict(),
            "optimizer": self.task.optimizer.state_dict(),
            "progress": asdict(self.progress),
        }
        with saved_whole(self._state_path) as new, new.open("wb") as file:
            torch.save(state, file)

    def _saved_progress(self) -> Progress:
        """Put back what was saved last; a new run starts at update 0."""
        if not self._state_path.exists():
            return Progress()
        try:
            state = torch.load(self._state_path, weights_only=True, map_location="cpu")
            before = dict(state["options"])
            for name, value in self.options.deciding().items():
                if before.get(name, value) != value:
                    there = f"{self.options.work} holds a run with {name}={before[name]}"
                    remedy = f"resume it with {before[name]}, or choose another work folder"
                    raise ToolError(f"{name}={value}, but {there}: {remedy}")
            self.task.model.load_state_dict(state["model"])
            self.task.optimizer.load_state_dict(state["optimizer"])
            return Progress(**state["progress"])
        except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
            refusal = f"{self._state_path} cannot be resumed: delete the folder to start anew"
            raise ToolError(f"{refusal} ({error})") from error

    @property
    def _state_path(self) -> Path:
        return self.options.work / "state.pt"

    def _weights_path(self, update: int) -> Path:
        return self.options.work / "weights" / f"{update:06d}.safetensors"

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Finish the update in hand when the process is asked to end."""

        def note(number: int, _frame: FrameType | None) -> None:
            self.signal = number

        before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def is_snapshot(update: int) -> bool:
    """Whether the history keeps this update."""
    ratio, rest = divmod(update, FIRST_SNAPSHOT)
    return rest == 0 and ratio > 0 and ratio & (ratio - 1) == 0


@contextmanager
def saved_whole(path: Path) -> Iterator[Path]:
    """A file beside `path` to write, which then takes its place: a full disk costs what is being saved, never what was.

    Raises:
        ToolError: it cannot be written; what was there before still is, and nothing of the new file.
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
        remedy = "make room or check permissions; what was saved before stays, and the same command goes on from it"
        raise ToolError(f"{path} cannot be written ({reason or error}): {remedy}") from error
