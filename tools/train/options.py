"""The options of a training: one dataclass a kind, whose fields are options of the command."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from heedmap.nn.common import Config
from heedmap.sequences.alphabet import ALPHABETS
from heedmap.training.tasks import noam
from tools import ToolError

ELSEWHERE = ("data", "work", "threads", "stop_after", "title", "rows_as_examples")
"""Options that decide where, how fast or how long, but not which weights come out; a resumed run may change them."""

ARCHITECTURES = ("transformer", "rnn-additive", "rnn-location")

Rule = tuple[Callable[[Any], bool], str]
"""What an option has to be, and what is said of one that is not."""

ANYTHING: Rule = lambda _: True, ""
AT_LEAST_0: Rule = lambda value: 0 <= value < math.inf, "choose at least 0"
AT_LEAST_1: Rule = lambda value: value >= 1, "choose at least 1"
AT_LEAST_1_OR_NONE: Rule = lambda value: value is None or value >= 1, "choose at least 1, or leave it out"
AT_LEAST_3: Rule = lambda value: value >= 3, "choose at least 3: a start token, a piece and an end token"
PROBABILITY: Rule = lambda value: 0 <= value < 1, "choose a probability from 0 to below 1"
PART: Rule = lambda value: 0 <= value <= 1, "choose a part from 0 to 1"
RATE: Rule = lambda value: 0 < value < math.inf, "choose a positive rate, such as 0.005"
WIDTHS: Rule = (
    lambda value: re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", value, re.ASCII) is not None,
    "choose numbers with commas between them, such as 3,11",
)


def one_of(*choices: str) -> Rule:
    """To be one of some words."""
    return lambda value: value in choices, f"choose one of {', '.join(choices)}"


def _option(default: Any, meaning: str, rule: Rule | None = None) -> Any:
    """An option that has to keep a rule (a whole number: to be at least 1)."""
    usual = AT_LEAST_1 if type(default) is int else ANYTHING
    return field(default=default, metadata={"meaning": meaning, "rule": rule or usual})


@dataclass(frozen=True, kw_only=True)
class Options(Config):
    """Options of a command; each says what it means, and keeps its rule.

    Raises:
        ToolError: an option makes no run.
    """

    def __post_init__(self) -> None:
        for option in fields(self):
            value, (holds, remedy) = getattr(self, option.name), option.metadata.get("rule", ANYTHING)
            if not holds(value):
                raise ToolError(f"{option.name}={value} makes no run: {remedy}")


@dataclass(frozen=True, kw_only=True)
class SizeOptions(Options):
    """How large the model is, and how much of it is dropped."""

    d_model: int = _option(128, "width of the model")
    n_heads: int = _option(4, "attention heads of each layer of a Transformer")
    d_ff: int = _option(256, "width inside a Transformer's feed-forward nets")
    n_layers: int = _option(4, "layers of a Transformer's encoder, and of its decoder")
    dropout: float = _option(0.3, "probability that a number is dropped in training", PROBABILITY)


@dataclass(frozen=True, kw_only=True)
class ScheduleOptions(Options):
    """How many updates of the weights there are, and how far each goes."""

    updates: int = _option(8000, "updates of the weights in all")
    warmup: int = _option(2000, "updates over which the learning rate rises")
    peak_rate: float = _option(0.005, "highest learning rate", RATE)
    cooldown: float = _option(0.25, "last part of the run over which the learning rate falls to zero", PART)
    clip: float = _option(0.0, "longest gradient of all weights; a longer one is shortened (0: none is)", AT_LEAST_0)

    def rate(self, update: int) -> float:
        """Learning rate of the update with this number (from 1).

        It rises over `warmup`, falls with the inverse square root, and over the last `cooldown` part of the run
        falls to zero besides.
        """
        left = (self.updates - update + 1) / max(1.0, self.cooldown * self.updates)
        return self.peak_rate * noam(update, self.warmup) * min(1.0, left)


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
    seed: int = _option(1, "chooses the random numbers", ANYTHING)
    threads: int = _option(1, "CPU threads")
    stop_after: int | None = _option(None, "stop at this update, to be resumed later", AT_LEAST_1_OR_NONE)

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
    architecture: str = _option("transformer", "transformer, rnn-additive or rnn-location", one_of(*ARCHITECTURES))
    d_embedding: int = _option(0, "width of a recurrent net's embeddings; 0: d_model, which is its state's", AT_LEAST_0)
    positions: str = _option(
        "sinusoidal", "how a Transformer is told the order: sinusoidal or learned", one_of("sinusoidal", "learned")
    )
    label_smoothing: float = _option(0.1, "probability spread over all tokens in the loss", PROBABILITY)
    batch_tokens: int = _option(4096, "positions in a batch, of source or of target, padding counted")
    max_tokens: int = _option(256, "longest source or target; longer pairs are left out", AT_LEAST_3)

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
    alphabet: str = _option("dna", f"letters of the sequences: {', '.join(ALPHABETS)}", one_of(*ALPHABETS))
    background: str = _option("", "the class that says: nothing to be found")
    title: str = _option("", "what the card calls it; empty: the name of the folder")
    rows_as_examples: bool = _option(False, "ship a few validation rows as examples")
    widths: str = _option("3,11", "window widths, in letters", WIDTHS)
    questions: int = _option(1, "averages that the pooling takes, side by side")
    hidden: float = _option(0.1, "share of the letters that are read as unknown in training", PROBABILITY)
    decay: float = _option(0.05, "weight decay", AT_LEAST_0)
    batch: int = _option(64, "rows of an update")

    @property
    def window_widths(self) -> tuple[int, ...]:
        """The widths as numbers."""
        return tuple(map(int, self.widths.split(",")))
