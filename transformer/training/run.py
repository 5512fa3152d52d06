"""One training run of any kind, and the options that decide it: stopped anywhere, it goes on as if it had not been.

The options are one dataclass a kind, whose fields are options of the command.

On a CPU, or on a GPU where there is one. Randomness is a function of (seed, update) and of (seed, epoch), so resuming
needs no generator state. The work folder holds `state.pt` (options, model, optimizer, progress, curve) and
`weights/UPDATE.safetensors`: the newest ones, whose mean is shipped, and the snapshots of the history.
"""

import math
import platform
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar, cast

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from transformer.checkpoint.ours.folder import save_weights
from transformer.errors import TrainingError
from transformer.messages import Message
from transformer.nn.common import Config
from transformer.nn.recurrent import Recurrent
from transformer.nn.seq2seq import Seq2Seq
from transformer.nn.stacks import Decoder
from transformer.sequences.alphabet import ALPHABETS

FIRST_SNAPSHOT = 50
"""The history holds updates 50, 100, 200, ...: doubling, so that early learning is seen as finely as late."""

NOT_RECORDED = "Origin and licence are not recorded: state them before sharing."


ELSEWHERE = ("data", "work", "threads", "stop_after", "title", "rows_as_examples")
"""Options that decide where, how fast or how long, but not which weights come out; a resumed run may change them."""

ARCHITECTURES = ("transformer", "rnn-additive", "rnn-location")
TABLES = ("sinusoidal", "learned")

RULES: dict[str, Callable[[Any], bool]] = {
    "one": lambda value: value >= 1,
    "one_or_none": lambda value: value is None or value >= 1,
    "zero": lambda value: 0 <= value < math.inf,
    "three": lambda value: value >= 3,
    "probability": lambda value: 0 <= value < 1,
    "part": lambda value: 0 <= value <= 1,
    "rate": lambda value: 0 < value < math.inf,
    "clip": lambda value: 0 <= value < math.inf,
    "widths": lambda value: re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", value, re.ASCII) is not None,
}
"""What options have to be, by the code of what is said of one that is not."""


def refused_option(name: str, value: Any, remedy: Message) -> TrainingError:
    """The refusal of an option that makes no run."""
    return TrainingError("training_option_makes_no_run", name=name, value=value, remedy=remedy)


def _option(default: Any, meaning: str, rule: str | tuple[str, ...] | None = None) -> Any:
    """An option, which has to keep a rule of `RULES` (a whole number: to be at least 1) or to be one of some words."""
    usual = "one" if type(default) is int else ""
    return field(default=default, metadata={"meaning": meaning, "rule": usual if rule is None else rule})


@dataclass(frozen=True, kw_only=True)
class Options(Config):
    """Options of the command `train`; each says what it means, and keeps its rule.

    Raises:
        TrainingError: an option makes no run.
    """

    def __post_init__(self) -> None:
        for option in fields(self):
            value, rule = getattr(self, option.name), option.metadata.get("rule", "")
            if isinstance(rule, tuple) and value not in rule:
                raise refused_option(option.name, value, Message("training_remedy_choice", choices=rule))
            if isinstance(rule, str) and rule and not RULES[rule](value):
                raise refused_option(option.name, value, Message(f"training_remedy_{rule}"))


@dataclass(frozen=True, kw_only=True)
class SizeOptions(Options):
    """How large the model is, and how much of it is dropped."""

    d_model: int = _option(128, "width of the model")
    n_heads: int = _option(4, "attention heads of each layer of a Transformer")
    d_ff: int = _option(256, "width inside a Transformer's feed-forward nets")
    n_layers: int = _option(4, "layers of a Transformer's encoder, and of its decoder")
    dropout: float = _option(0.3, "probability that a number is dropped in training", "probability")


@dataclass(frozen=True, kw_only=True)
class ScheduleOptions(Options):
    """How many updates of the weights there are, and how far each goes."""

    updates: int = _option(8000, "updates of the weights in all")
    warmup: int = _option(2000, "updates over which the learning rate rises")
    peak_rate: float = _option(0.005, "highest learning rate", "rate")
    cooldown: float = _option(0.25, "last part of the run over which the learning rate falls to zero", "part")
    clip: float = _option(0.0, "longest gradient, all weights together; a longer one is shortened (0: none is)", "clip")

    def rate(self, update: int) -> float:
        """Learning rate of the update with this number (from 1).

        It rises over `warmup`, falls with the inverse square root, and over the last `cooldown` part of the run
        falls to zero besides.
        """
        warm = min(update / self.warmup, (self.warmup / update) ** 0.5)
        left = (self.updates - update + 1) / max(1.0, self.cooldown * self.updates)
        return self.peak_rate * warm * min(1.0, left)


@dataclass(frozen=True, kw_only=True)
class SavingOptions(Options):
    """When weights are kept and measured."""

    average: int = _option(10, "saved weights whose mean is shipped")
    save_every: int = _option(100, "updates between saved weights")
    validate_every: int = _option(500, "updates between validations")
    history: bool = _option(False, "keep (a translator: ship) the weights of updates 50, 100, 200, 400, ... as well")


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Options):
    """What every kind of run has: `data` is read, `work` is where the run keeps its files."""

    data: Path = field(metadata={"meaning": "folder of the texts or rows"})
    work: Path = field(metadata={"meaning": "folder in which the run keeps its files; the same folder resumes it"})
    sizes: SizeOptions = SizeOptions()
    schedule: ScheduleOptions = ScheduleOptions()
    saving: SavingOptions = SavingOptions()
    seed: int = _option(1, "chooses the random numbers", "")
    threads: int = _option(1, "CPU threads")
    stop_after: int | None = _option(None, "stop at this update, to be resumed later", "one_or_none")

    def deciding(self) -> dict[str, Any]:
        """The options that decide the result, by name; paths as texts."""
        found = {name: value for name, value in self.options.items() if name not in ELSEWHERE}
        return {name: str(value) if isinstance(value, Path) else value for name, value in found.items()}

    def unusual(self) -> dict[str, Any]:
        """The deciding options that are not at their default, by name."""
        usual = self.flat()
        return {name: value for name, value in self.deciding().items() if value != usual[name][1]}


@dataclass(frozen=True, kw_only=True)
class TranslationOptions(TrainingOptions):
    """A translator: `data` holds train.LANGUAGE and val.LANGUAGE, line i of one for line i of the other."""

    saving: SavingOptions = SavingOptions(history=True)
    source_language: str = _option("en", "ending of the source files")
    target_language: str = _option("de", "ending of the target files")
    tokenizer: Path | None = _option(None, "SentencePiece model to take over; without one, one is trained")  # noqa: RUF009
    vocab_size: int = _option(5000, "pieces of the joint vocabulary, where one is trained")
    architecture: str = _option("transformer", "transformer, rnn-additive or rnn-location", ARCHITECTURES)
    d_embedding: int = _option(0, "width of a recurrent net's embeddings; 0: d_model, which is its state's", "zero")
    positions: str = _option("sinusoidal", "how a Transformer is told the order: sinusoidal or learned", TABLES)
    label_smoothing: float = _option(0.1, "probability spread over all tokens in the loss", "probability")
    batch_tokens: int = _option(4096, "positions in a batch, of source or of target, padding counted")
    max_tokens: int = _option(256, "longest source or target; longer pairs are left out", "three")

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.source_language, self.target_language


@dataclass(frozen=True, kw_only=True)
class ClassificationOptions(TrainingOptions):
    """A k-mer classifier: `data` holds train.tsv and valid.tsv with the columns id, sequence and label."""

    sizes: SizeOptions = SizeOptions(d_model=48, d_ff=96, n_layers=1, dropout=0.2)
    schedule: ScheduleOptions = ScheduleOptions(updates=1500, warmup=100, peak_rate=0.002, cooldown=1.0, clip=1.0)
    saving: SavingOptions = SavingOptions(save_every=20, validate_every=100)
    alphabet: str = _option("dna", f"letters of the sequences: {', '.join(ALPHABETS)}", tuple(ALPHABETS))
    background: str = _option("", "the class that says: nothing to be found")
    title: str = _option("", "what the card calls it; empty: the name of the folder")
    rows_as_examples: bool = _option(False, "ship a few validation rows as examples")
    widths: str = _option("3,11", "window widths, in letters", "widths")
    questions: int = _option(1, "averages that the pooling takes, side by side")
    hidden: float = _option(0.1, "share of the letters that are read as unknown in training", "probability")
    decay: float = _option(0.05, "weight decay", "zero")
    batch: int = _option(64, "rows of an update")

    @property
    def window_widths(self) -> tuple[int, ...]:
        """The widths as numbers."""
        return tuple(map(int, self.widths.split(",")))


class NextTokenLoss(nn.Module):
    """Summed cross-entropy (nats) of each next token of the target; padding is not counted."""

    def __init__(self, model: Seq2Seq | Recurrent | Decoder, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing

    def forward(self, *read: Tensor) -> Tensor:
        """The loss of a padded batch: of source and target, which begins with the start token, or of texts alone."""
        *source, target = read
        hidden: Tensor = cast(Any, self.model).hidden(*source, target[:, :-1])
        labels = target[:, 1:]
        real = labels != self.model.config.pad_id
        logits = self.model.logits(hidden[real][None])[0]
        return F.cross_entropy(logits, labels[real], label_smoothing=self.label_smoothing, reduction="sum")


def descend(
    loss: nn.Module,
    optimizer: torch.optim.Optimizer,
    tensors: Sequence[Tensor],
    count: int,
    *,
    rate: float,
    seed: tuple[int, int],
    clip: float = 0.0,
) -> float:
    """One step down the gradient of a loss, the sum over the `count` examples of a batch; returns that sum.

    What is drawn (dropout, hidden letters) is a function of `seed`: that of the run, and the number of the update.
    A gradient longer than `clip` is shortened (0: none is).
    """
    torch.manual_seed((seed[0] * 1_000_003 + seed[1]) * 1_009)
    loss.train()
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    summed = loss(*tensors)
    (summed / count).backward()
    if clip:
        nn.utils.clip_grad_norm_(loss.parameters(), clip)
    optimizer.step()
    return float(summed.item())


class TrainingTask(Protocol):
    """What a run learns: a model, its loss, batches of rows, and how it is measured."""

    @property
    def model(self) -> nn.Module:
        """On the run's device."""

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
            HeedmapError: the data cannot be read or used, or the folder holds a run with other options.
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

    def card(self, parts: Mapping[str, str], command: str, averaged: Sequence[int]) -> str:
        """The card of what a finished run left: what its task says in `parts`, the data, the command, and the curve.

        What `DATA.md` in the folder of the data says of their origin and licence is repeated.
        """
        notes, origin = self.options.data / "DATA.md", f"The data in `{self.options.data.name}`. {NOT_RECORDED}"
        if notes.is_file():
            origin = notes.read_text(encoding="utf-8").strip()
        place = f"CPU {platform.machine()} (threads: {self.options.threads})"
        if self.device.type == "cuda":
            place = torch.cuda.get_device_name(self.device)
        curve, seconds = self.progress.curve, self.progress.curve[-1]["seconds"]
        names = [name for name in curve[0] if name != "rate"]
        numbers = [[f"{entry[name]:,.3f}".removesuffix(".000") for name in names] for entry in curve]
        return f"""# {parts["title"]}

{parts["about"]}

## Data and licence

{origin}

{parts["counts"]}

## How it was made

```
{command}
```

{seconds:,.0f} seconds ({seconds / 3600:.1f} hours) of training, validation included, on {place}, PyTorch \
{torch.__version__.partition("+")[0]}.
The shipped weights are the mean of those after updates {", ".join(map(str, averaged))}, in half precision.
The command can be stopped at any time and resumed by the same command; on the same machine the weights come out the
same, bit for bit.

## Scores

{parts["scores"]}

## Curve

{parts["curve"]}

{markdown_table([name.replace("_", " ") for name in names], numbers)}

## Limits

{parts["limits"]}
"""

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
                    raise TrainingError(
                        "training_other_option", name=name, value=value, folder=self.options.work, before=before[name]
                    )
            self.task.model.load_state_dict(state["model"])
            self.task.optimizer.load_state_dict(state["optimizer"])
            return Progress(**state["progress"])
        except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
            raise TrainingError("training_not_resumable", path=self._state_path, reason=str(error)) from error

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


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))


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
