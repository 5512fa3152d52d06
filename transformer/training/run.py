"""One training run of any kind: it can be stopped anywhere, and goes on as if it had not been.

On a CPU, or on a GPU where there is one. Randomness is a function of (seed, update) and of (seed, epoch), so resuming
needs no generator state.
"""

import platform
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn
from tqdm import tqdm

from transformer.checkpoint.ours.folder import CARD
from transformer.errors import CheckpointError
from transformer.training.loop import Trainer
from transformer.training.options import TrainingOptions
from transformer.training.store import Store, is_snapshot


class Task(Protocol):
    """What a run learns: a model, its loss, batches of rows, and how it is measured."""

    @property
    def model(self) -> nn.Module:
        """The model, on the run's device."""

    @property
    def loss(self) -> nn.Module:
        """From the tensors of a batch to the sum of what is lost over it."""

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Over the parameters of the model; its rate is set for each update."""

    def batches(self, epoch: int) -> Sequence[Sequence[Any]]:
        """The rows of each update of an epoch."""

    def count(self, batch: Sequence[Any]) -> int:
        """How many examples the loss of a batch is the sum of."""

    def tensors(self, rows: Sequence[Any]) -> Sequence[Tensor]:
        """What `loss` takes, on the run's device."""

    def validate(self) -> dict[str, float]:
        """Measures of the model on the validation data."""


T = TypeVar("T", bound=Task)


class Run(Generic[T]):
    """One training: a task, its place in the data, and the folder that remembers both."""

    def __init__(self, options: TrainingOptions, task: Callable[[Any, torch.device], T]) -> None:
        """Start, or go on from what `options.work` holds.

        Raises:
            HeedmapError: the data cannot be read or used, or the folder holds a run with other options.
        """
        self.options = options
        told_by_start(options)  # a checkpoint without a card is refused now, not after hours
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.set_num_threads(options.threads)
        self.store = Store(options)
        self.task = task(options, self.device)
        self.trainer = Trainer(
            self.task.loss, self.task.optimizer, options.rate, options.seed, options.clip, options.fast_products,
        )  # fmt: skip
        self.progress = self.store.load_state(self.task.model, self.task.optimizer)
        self.signal: int | None = None
        self.store.forget_after(self.progress.update)

    @property
    def finished(self) -> bool:
        """Whether the last update is done."""
        return self.progress.update >= self.options.updates

    def train(self) -> None:
        """Run to the last update, to `stop_after`, or to a signal (then `signal` names it); resuming needs no more."""
        last = min(self.options.updates, self.options.stop_after or self.options.updates)
        started = time.monotonic() - self.progress.seconds
        batches = self._batches()
        bar = tqdm(total=last, initial=self.progress.update, unit="update")
        stop = False
        with bar, self._listening():
            while self.progress.update < last and not stop:
                loss, stop = self._update(next(batches))
                self.progress.seconds = time.monotonic() - started
                bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
                bar.update()
                self._keep()
        self._save_state()

    @property
    def machine(self) -> str:
        """What the run computed on."""
        if self.device.type == "cuda":
            place = torch.cuda.get_device_name(self.device)
        else:
            place = f"CPU {platform.machine()} (threads: {self.options.threads})"
        return f"{place}, PyTorch {torch.__version__.partition('+')[0]}"

    def _batches(self) -> Iterator[Sequence[Any]]:
        """The batches from where the run stands; `progress` says how many of its epoch were taken."""
        progress = self.progress
        while True:
            batches = self.task.batches(progress.epoch)
            while progress.batch < len(batches):
                progress.batch += 1
                yield batches[progress.batch - 1]
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def _update(self, batch: Sequence[Any]) -> tuple[float, bool]:
        """One step; returns the mean loss of the batch, and whether the run must stop."""
        update, count = self.progress.update + 1, self.task.count(batch)
        loss = self.trainer.step(update, self.task.tensors(batch), count)
        self.progress.update = update
        self.progress.loss += loss
        self.progress.tokens += count
        return loss / count, self.signal is not None

    def _keep(self) -> None:
        """Save and measure what is due at this update."""
        update, options = self.progress.update, self.options
        milestone = (options.history and is_snapshot(update)) or update == options.updates
        if milestone or update % options.save_every == 0:
            self.store.save_weights(self.task.model, update)
        if milestone or update % options.validate_every == 0:
            self._validate()
            self._save_state()

    def _validate(self) -> None:
        progress = self.progress
        self.task.model.eval()
        entry = dict(
            update=progress.update,
            epoch=progress.epoch,
            seconds=round(progress.seconds, 1),
            rate=self.options.rate(progress.update),
            train_loss=progress.loss / progress.tokens,
            **self.task.validate(),
        )
        progress.loss = progress.tokens = 0.0
        self.store.log(entry)
        tqdm.write(" ".join(f"{name}={value:.6g}" for name, value in entry.items()))

    def _save_state(self) -> None:
        self.store.save_state(self.task.model, self.task.optimizer, self.progress)

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


def told_by_start(options: TrainingOptions) -> str:
    """What the card of the checkpoint that a run goes on from says of its own training; empty without one.

    Raises:
        CheckpointError: the folder has no such card.
    """
    start = options.start
    if start is None:
        return ""
    try:
        sections = (start / CARD).read_text(encoding="utf-8").split("\n## ")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError("training_start_without_card", name=start.name, card=CARD, reason=str(error)) from error
    told = [section.strip() for section in sections if section.startswith(("How it was made", "Curve"))]
    return "\n\n".join(f"### {section}" for section in told)
