"""Everything that decides how a translation model is trained."""

import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from transformer.errors import TrainingError
from transformer.messages import Message

ELSEWHERE = ("data", "work", "tokenizer", "threads", "stop_after")
"""Options that say where, how fast or how long, but not what comes out; a resumed run may change them."""

POSITIONS = ("sinusoidal", "learned")
"""How a Transformer that is trained here is told the order: by the paper's table, or by one that it learns."""

ARCHITECTURES = ("transformer", "rnn-additive", "rnn-location")
"""What can be trained: the Transformer, or a recurrent net with one of two kinds of attention."""


def _option(default: Any, meaning: str) -> Any:
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True)
class TrainingOptions:
    """A run: `data` holds train.LANGUAGE and val.LANGUAGE, `work` is where the run keeps its files.

    The number of processes is no option: they share each batch, so the result is the same up to rounding and dropout.
    """

    data: Path = field(
        metadata={"meaning": "folder with train.LANGUAGE and val.LANGUAGE, line i of one for line i of the other"}
    )
    work: Path = field(metadata={"meaning": "folder in which the run keeps its files; the same folder resumes it"})
    source_language: str = _option("en", "ending of the source files")
    target_language: str = _option("de", "ending of the target files")
    tokenizer: Path | None = field(
        default=None, metadata={"meaning": "SentencePiece model to take over; without one, one is trained"}
    )
    vocab_size: int = _option(5000, "pieces of the joint vocabulary, where one is trained")
    architecture: str = _option("transformer", "transformer, rnn-additive or rnn-location")
    d_model: int = _option(128, "width of the model; of a recurrent net, its state")
    d_embedding: int = _option(0, "width of a recurrent net's embeddings; 0: that of its state")
    n_heads: int = _option(4, "attention heads of each layer of a Transformer")
    d_ff: int = _option(256, "width inside a Transformer's feed-forward nets")
    n_layers: int = _option(4, "layers of a Transformer's encoder, and of its decoder")
    positions: str = _option("sinusoidal", "how a Transformer is told the order: sinusoidal or learned")
    dropout: float = _option(0.3, "probability that a number is dropped in training")
    label_smoothing: float = _option(0.1, "probability spread over all tokens in the loss")
    subword_dropout: float = _option(0.1, "probability that a merge of pieces is skipped in training (BPE-dropout)")
    subword_epochs: int = _option(10_000, "epochs with BPE-dropout; later ones read the usual pieces")
    batch_tokens: int = _option(4096, "positions in a batch, of source or of target, padding counted")
    updates: int = _option(8000, "updates of the weights in all")
    warmup: int = _option(2000, "updates over which the learning rate rises")
    peak_rate: float = _option(0.005, "highest learning rate")
    cooldown: float = _option(0.25, "last part of the run over which the learning rate falls to zero")
    clip: float = _option(0.0, "longest gradient, all weights together; a longer one is shortened (0: none is)")
    fast_products: bool = _option(False, "let oneDNN multiply matrices: sooner, rounded otherwise")
    average: int = _option(10, "saved weights whose mean is shipped")
    save_every: int = _option(100, "updates between saved weights")
    validate_every: int = _option(500, "updates between validations")
    history: bool = _option(True, "ship the weights of updates 50, 100, 200, 400, ... as well")
    max_tokens: int = _option(256, "longest source or target; longer pairs are left out")
    seed: int = _option(1, "chooses the random numbers")
    threads: int = _option(1, "CPU threads of each process")
    stop_after: int | None = _option(None, "stop at this update, to be resumed later")
    start: Path | None = field(
        default=None, metadata={"meaning": "finished checkpoint to go on from: its weights, its tokenizer, its history"}
    )

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "n_heads", "d_ff", "n_layers", "batch_tokens", "updates", "warmup",
                     "average", "save_every", "validate_every", "threads"):  # fmt: skip
            self._require(name, getattr(self, name) >= 1, "training_remedy_one")
        for name in ("dropout", "label_smoothing", "subword_dropout"):
            self._require(name, 0 <= getattr(self, name) < 1, "training_remedy_probability")
        self._require("cooldown", 0 <= self.cooldown <= 1, "training_remedy_part")
        self._require("peak_rate", 0 < self.peak_rate < math.inf, "training_remedy_rate")
        self._require("clip", 0 <= self.clip < math.inf, "training_remedy_clip")
        self._require("d_embedding", self.d_embedding >= 0, "training_remedy_zero")
        self._require("architecture", self.architecture in ARCHITECTURES, "training_remedy_architecture")
        self._require("positions", self.positions in POSITIONS, "training_remedy_positions")
        self._require("max_tokens", self.max_tokens >= 3, "training_remedy_three")
        self._require("subword_epochs", self.subword_epochs >= 0, "training_remedy_zero")
        self._require("stop_after", self.stop_after is None or self.stop_after >= 1, "training_remedy_one_or_none")

    def _require(self, name: str, holds: bool, remedy: str) -> None:
        """Refuse an option; `remedy` is the code of what to choose instead."""
        if not holds:
            said = Message(remedy, architectures=ARCHITECTURES, positions=POSITIONS)
            raise TrainingError("training_option_makes_no_run", name=name, value=getattr(self, name), remedy=said)

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.source_language, self.target_language

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
