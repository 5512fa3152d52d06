"""A model that is ready to run, with what reads and writes its tokens."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from ..attention.interventions.value import Means
from ..errors import CheckpointError
from ..messages import Message, catalogue
from ..nn.kmer import KmerClassifier, KmerConfig
from ..nn.protocols import Decodable
from ..nn.recurrent import Recurrent, RecurrentConfig
from ..nn.seq2seq import Seq2Seq, Seq2SeqConfig
from ..nn.stacks import Decoder, DecoderConfig, Encoder, EncoderConfig
from ..plots.picture import UNSURE
from ..sequences.task import SequenceTask
from ..sites import Site
from ..text.base import Tokenizer
from .huggingface.model import HuggingFaceModel

Model = Seq2Seq | Encoder | Decoder | KmerClassifier | Recurrent
"""Every model of the library: each has a frozen `config`, `abilities`, `attention_sites()` and `outputs(...)`."""

ARCHITECTURES: dict[str, tuple[type[Model], type[Any]]] = {
    Seq2Seq.architecture: (Seq2Seq, Seq2SeqConfig),
    Encoder.architecture: (Encoder, EncoderConfig),
    Decoder.architecture: (Decoder, DecoderConfig),
    KmerClassifier.architecture: (KmerClassifier, KmerConfig),
    Recurrent.architecture: (Recurrent, RecurrentConfig),
}
"""Every architecture that a folder can hold: its model and the config that the model takes."""

M = TypeVar("M", Seq2Seq, Encoder, Decoder, KmerClassifier, Recurrent)


GUESSED = ("assumed", "assumed_because")
"""Codes of assumptions that attention depends on: an answer is the default."""


@dataclass(frozen=True)
class ChangedExample:
    """A text and interventions in their short form that change what a model makes of it; `names` by language code.

    Some of the interventions may take attention from a second text, the `donor`.
    """

    text: str
    change: str
    donor: str = ""
    names: Mapping[str, str] = field(default_factory=dict)


def language_called(name: str) -> str:
    """A language that a file names: a message where it is known, which each reader is told in their own language."""
    return Message(f"called_{name.lower()}") if catalogue("en").get(f"called_{name.lower()}") == name else name


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A model in evaluation mode whose attention can be recorded, with its tokenizers.

    `tokenizer` is None when the checkpoint brought none, `target_tokenizer` when the target is written with the
    source's. `languages` names source and target. `assumptions` says what had to be guessed about a foreign file.
    `task` is what a classifier of sequences decides, `means` what stands in for a head that is switched off.
    `example_names` says, by language code, what to look for in some of the `examples`; `changed_examples` are worth
    trying, the first one first. `left_out` says what of its folder is damaged that a run does without.
    """

    name: str
    model: Model | HuggingFaceModel
    tokenizer: Tokenizer | None = None
    languages: tuple[str, str] = ("source", "target")
    examples: tuple[str, ...] = ()
    folder: Path | None = None
    assumptions: tuple[str, ...] = ()
    task: SequenceTask | None = None
    target_tokenizer: Tokenizer | None = None
    means: Means | None = None
    example_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    changed_examples: tuple[ChangedExample, ...] = ()
    left_out: tuple[Message, ...] = ()

    def beside(self, name: str) -> Path | None:
        """A file of that name beside the weights; None where there is none, or for weights of another moment."""
        if self.folder is None or self.folder.name != self.name or not (self.folder / name).is_file():
            return None
        return self.folder / name

    @property
    def device(self) -> torch.device:
        """Where the model computes. What a run returns is on the CPU, wherever that is."""
        return next(self.model.parameters()).device

    def placed(self, device: str | torch.device = "auto", dtype: torch.dtype | None = None) -> "Checkpoint":
        """The checkpoint with its model moved to a device, and to another precision where `dtype` is given.

        `auto` is a GPU where PyTorch finds one, else the CPU. Texts are translated, sequences classified and scanned,
        anything read and recorded there; attributions and the flow of a pass are computed on the CPU alone.

        Raises:
            CheckpointError: this PyTorch has no such device; or the model is of another library, which stays as it is.
        """
        place = device_here(device)
        if self.is_of_other_library and (place.type != "cpu" or dtype is not None):
            raise CheckpointError("placed_elsewhere", name=self.name)
        self.model.to(place, dtype)
        return self

    @property
    def writer(self) -> Tokenizer | None:
        """What stands for the target's tokens: a tokenizer of its own, or the source's."""
        return self.tokenizer if self.target_tokenizer is None else self.target_tokenizer

    @property
    def architecture(self) -> str:
        """A key of `ARCHITECTURES`; or, after `HUGGING_FACE`, which stacks another library's model has."""
        return self.model.architecture

    @property
    def is_of_other_library(self) -> bool:
        """Whether the model is another library's, which stays as that library made it."""
        return isinstance(self.model, HuggingFaceModel)

    @property
    def translates(self) -> bool:
        """Whether the model reads a source and writes a target."""
        return self.model.abilities.translates

    @property
    def reads_sequences(self) -> bool:
        """Whether the model reads a sequence of letters by windows, and no text of words."""
        return self.model.abilities.reads_windows

    @property
    def guesses(self) -> tuple[Message, ...]:
        """What pictures of a file say of what it does not: see `guesses`."""
        return guesses(self.assumptions)

    def translator(self) -> tuple[Decodable, Tokenizer, Tokenizer]:
        """The model, what reads the source, and what writes the target.

        Raises:
            CheckpointError: it does not translate, or has no tokenizer.
        """
        if not self.translates:
            raise CheckpointError("no_encoder_decoder", name=self.name)
        if self.tokenizer is None or self.writer is None:
            raise CheckpointError("no_tokenizer", name=self.name)
        return cast(Decodable, self.model), self.tokenizer, self.writer

    def model_as(self, kind: type[M]) -> M:
        """The model, as one of ours of this class.

        Raises:
            CheckpointError: it is of another class.
        """
        if not isinstance(self.model, kind):
            raise CheckpointError("another_architecture", name=self.name, wanted=Message(f"noun_{kind.architecture}"))
        return self.model

    @property
    def sites(self) -> tuple[Site, ...]:
        """The names of its attention that can be recorded and changed, in the order they run."""
        return tuple(self.model.attention_sites()) or tuple(getattr(self.model, "sites", ()))

    @property
    def n_parameters(self) -> int:
        """Trained numbers, shared ones counted once."""
        return sum(p.numel() for p in self.model.parameters())


def guesses(assumptions: Iterable[str]) -> tuple[Message, ...]:
    """What attention may be wrong for: the assumed answers in one sentence, what was left out."""
    known = [one for one in assumptions if isinstance(one, Message)]
    answers = tuple(f"{one.fields['name']}={one.fields['default']}" for one in known if one.code in GUESSED)
    others = [one for one in known if one.code in UNSURE]
    return (*([Message("note_assumed", what=answers)] if answers else ()), *others)


def device_here(asked: str | torch.device) -> torch.device:
    """The device that is asked for; `auto` is a GPU where PyTorch finds one, else the CPU.

    Raises:
        CheckpointError: there is none of that name here.
    """
    found = ("cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))) if torch.cuda.is_available() else ("cpu",)
    if asked == "auto":
        return torch.device(found[min(1, len(found) - 1)])
    try:
        device = torch.device(asked)
    except RuntimeError as error:
        raise CheckpointError("device_not_here", device=str(asked), found=found) from error
    if device.type not in {"cpu", "cuda"} or (device.type == "cuda" and f"cuda:{device.index or 0}" not in found):
        raise CheckpointError("device_not_here", device=str(device), found=found)
    return device
