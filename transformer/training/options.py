"""Everything that decides how a model is trained: one dataclass a kind, whose fields are options of the command."""

import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from transformer.errors import TrainingError
from transformer.messages import Message
from transformer.sequences.alphabet import ALPHABETS

ELSEWHERE = ("data", "work", "tokenizer", "threads", "stop_after", "title", "rows_as_examples")
"""Options that decide where, how fast or how long, but not which weights come out; a resumed run may change them."""

CHOICES = {
    "architecture": ("transformer", "rnn-additive", "rnn-location"),
    "positions": ("sinusoidal", "learned"),
    "alphabet": tuple(ALPHABETS),
}
"""Options that are one of a few words."""


def _option(default: Any, meaning: str) -> Any:
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """What every kind of run has: `data` is read, `work` is where the run keeps its files.

    Raises:
        TrainingError: an option makes no run.
    """

    data: Path = field(metadata={"meaning": "folder of the texts or rows"})
    work: Path = field(metadata={"meaning": "folder in which the run keeps its files; the same folder resumes it"})
    d_model: int = _option(128, "width of the model")
    n_heads: int = _option(4, "attention heads of each layer of a Transformer")
    d_ff: int = _option(256, "width inside a Transformer's feed-forward nets")
    n_layers: int = _option(4, "layers of a Transformer's encoder, and of its decoder")
    dropout: float = _option(0.3, "probability that a number is dropped in training")
    updates: int = _option(8000, "updates of the weights in all")
    warmup: int = _option(2000, "updates over which the learning rate rises")
    peak_rate: float = _option(0.005, "highest learning rate")
    cooldown: float = _option(0.25, "last part of the run over which the learning rate falls to zero")
    clip: float = _option(0.0, "longest gradient, all weights together; a longer one is shortened (0: none is)")
    fast_products: bool = _option(False, "let oneDNN multiply matrices: sooner, rounded otherwise")
    average: int = _option(10, "saved weights whose mean is shipped")
    save_every: int = _option(100, "updates between saved weights")
    validate_every: int = _option(500, "updates between validations")
    history: bool = _option(False, "keep the weights of updates 50, 100, 200, 400, ... as well")
    seed: int = _option(1, "chooses the random numbers")
    threads: int = _option(1, "CPU threads")
    stop_after: int | None = _option(None, "stop at this update, to be resumed later")
    start: Path | None = field(
        default=None, metadata={"meaning": "finished checkpoint to go on from: its weights, its tokenizer, its history"}
    )

    def __post_init__(self) -> None:
        for name in ("d_model", "n_heads", "d_ff", "n_layers", "updates", "warmup", "average", "save_every",
                     "validate_every", "threads"):  # fmt: skip
            self._require(name, getattr(self, name) >= 1, "training_remedy_one")
        self._require("dropout", 0 <= self.dropout < 1, "training_remedy_probability")
        self._require("cooldown", 0 <= self.cooldown <= 1, "training_remedy_part")
        self._require("peak_rate", 0 < self.peak_rate < math.inf, "training_remedy_rate")
        self._require("clip", 0 <= self.clip < math.inf, "training_remedy_clip")
        self._require("stop_after", self.stop_after is None or self.stop_after >= 1, "training_remedy_one_or_none")
        for name, words in CHOICES.items():
            self._require(name, getattr(self, name, words[0]) in words, "training_remedy_choice", choices=words)

    def _require(self, name: str, holds: bool, remedy: str, **given: Any) -> None:
        """Refuse an option; `remedy` is the code of what to choose instead."""
        if not holds:
            said = Message(remedy, **given)
            raise TrainingError("training_option_makes_no_run", name=name, value=getattr(self, name), remedy=said)

    def rate(self, update: int) -> float:
        """Learning rate of the update with this number (from 1).

        It rises over `warmup`, falls with the inverse square root, and over the last `cooldown` part of the run
        falls to zero besides.
        """
        warm = min(update / self.warmup, (self.warmup / update) ** 0.5)
        left = (self.updates - update + 1) / max(1.0, self.cooldown * self.updates)
        return self.peak_rate * warm * min(1.0, left)

    def deciding(self) -> dict[str, Any]:
        """The options that decide the result, by name; the checkpoint to start from by the name of its folder."""
        found = {name: value for name, value in asdict(self).items() if name not in ELSEWHERE}
        return {**found, "start": self.start and self.start.name}

    def changed(self) -> dict[str, Any]:
        """The deciding options that are not at their default, by name."""
        usual = {option.name: option.default for option in fields(self)}
        return {name: value for name, value in self.deciding().items() if value != usual[name]}


@dataclass(frozen=True, kw_only=True)
class TranslationOptions(TrainingOptions):
    """A translator: `data` holds train.LANGUAGE and val.LANGUAGE, line i of one for line i of the other."""

    source_language: str = _option("en", "ending of the source files")
    target_language: str = _option("de", "ending of the target files")
    tokenizer: Path | None = field(
        default=None, metadata={"meaning": "SentencePiece model to take over; without one, one is trained"}
    )
    vocab_size: int = _option(5000, "pieces of the joint vocabulary, where one is trained")
    architecture: str = _option("transformer", "transformer, rnn-additive or rnn-location")
    d_embedding: int = _option(0, "width of a recurrent net's embeddings; 0: d_model, which is that of its state")
    positions: str = _option("sinusoidal", "how a Transformer is told the order: sinusoidal or learned")
    label_smoothing: float = _option(0.1, "probability spread over all tokens in the loss")
    subword_dropout: float = _option(0.1, "probability that a merge of pieces is skipped in training (BPE-dropout)")
    subword_epochs: int = _option(10_000, "epochs with BPE-dropout; later ones read the usual pieces")
    batch_tokens: int = _option(4096, "positions in a batch, of source or of target, padding counted")
    history: bool = _option(True, "ship the weights of updates 50, 100, 200, 400, ... as well")
    max_tokens: int = _option(256, "longest source or target; longer pairs are left out")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("vocab_size", "batch_tokens"):
            self._require(name, getattr(self, name) >= 1, "training_remedy_one")
        for name in ("label_smoothing", "subword_dropout"):
            self._require(name, 0 <= getattr(self, name) < 1, "training_remedy_probability")
        for name in ("d_embedding", "subword_epochs"):
            self._require(name, getattr(self, name) >= 0, "training_remedy_zero")
        self._require("max_tokens", self.max_tokens >= 3, "training_remedy_three")

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.source_language, self.target_language


@dataclass(frozen=True, kw_only=True)
class ClassificationOptions(TrainingOptions):
    """A k-mer classifier: `data` holds train.tsv and valid.tsv with the columns id, sequence and label."""

    alphabet: str = _option("dna", f"letters of the sequences: {', '.join(ALPHABETS)}")
    background: str = _option("", "the class that says: nothing to be found")
    title: str = _option("", "what the card calls it; empty: the name of the folder")
    rows_as_examples: bool = _option(False, "ship a few validation rows as examples")
    widths: str = _option("3,11", "window widths, in letters")
    questions: int = _option(1, "averages that the pooling takes, side by side")
    d_model: int = _option(48, "width of the model")
    d_ff: int = _option(96, "width inside the feed-forward nets")
    n_layers: int = _option(1, "layers")
    dropout: float = _option(0.2, "probability that a number is dropped in training")
    hidden: float = _option(0.1, "share of the letters that are read as unknown in training")
    decay: float = _option(0.05, "weight decay")
    batch: int = _option(64, "rows of an update")
    updates: int = _option(1500, "updates of the weights in all")
    warmup: int = _option(100, "updates over which the learning rate rises")
    peak_rate: float = _option(0.002, "highest learning rate")
    cooldown: float = _option(1.0, "last part of the run over which the learning rate falls to zero")
    clip: float = _option(1.0, "longest gradient, all weights together; a longer one is shortened (0: none is)")
    save_every: int = _option(20, "updates between saved weights")
    validate_every: int = _option(100, "updates between validations")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("questions", "batch"):
            self._require(name, getattr(self, name) >= 1, "training_remedy_one")
        self._require("decay", 0 <= self.decay < math.inf, "training_remedy_zero")
        self._require("hidden", 0 <= self.hidden < 1, "training_remedy_probability")
        widths = [int(one) for one in self.widths.split(",") if one.isdecimal()]
        self._require("widths", widths != [] and min(widths) >= 1 and self.widths == ",".join(map(str, widths)),
                      "training_remedy_widths")  # fmt: skip

    @property
    def window_widths(self) -> tuple[int, ...]:
        """The widths as numbers."""
        return tuple(map(int, self.widths.split(",")))
