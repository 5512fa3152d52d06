"""The batch that the lesson "Masks" looks at, and the model that reads it; what they give is worked out once."""

from dataclasses import dataclass
from typing import NamedTuple

from transformer import Checkpoint, watch
from transformer.attention.capture import Recording
from transformer.lessons.breaking import Break, Damage, broken, damage
from transformer.lessons.leaks import LeakReport, leak_test
from transformer.lessons.masks import Batch, batch_run
from transformer.lessons.sentences import source_sentence, target_sentence
from transformer.lessons.toy import toy_batch, toy_transformer
from transformer.nn.seq2seq import Seq2Seq
from ui.store import store
from ui.store.cache import cached
from ui.store.refs import Revision


class ToyModel(NamedTuple):
    """A toy whose vocabulary is as large as the words of its batch need."""

    vocab: int


class TrainedModel(NamedTuple):
    """A checkpoint, by its name and the revision of its weights."""

    name: str
    revision: Revision

    @classmethod
    def of(cls, name: str) -> "TrainedModel":
        """The checkpoint called `name`, as it is now."""
        return cls(name, store.revision(name))


Model = ToyModel | TrainedModel
"""What caches know a model by; tuples, since a cache looks into its keys for the names of uploads."""

Lines = tuple[tuple[str, ...], tuple[str, ...]]
"""Source sentences and target sentences as they were typed."""


@dataclass(frozen=True)
class Example:
    """The batch, and the model that reads it; model and lines are what caches know them by."""

    batch: Batch
    model: Model
    lines: Lines

    @property
    def n_heads(self) -> int:
        """Heads of the model's attention."""
        return seq2seq(self.model).config.n_heads

    def layers(self, stack: str) -> int:
        """Layers of the model's encoder or decoder."""
        return len(getattr(seq2seq(self.model), stack))

    def labels(self, side: str, row: int) -> tuple[str, ...]:
        """The tokens of sentence `row`: of its source on the side `encoder`, else of its target."""
        return (self.batch.source_labels if side == "encoder" else self.batch.target_labels)[row]

    def leaks(self, how: Break) -> LeakReport:
        """The leak test of the model with this mask, on this batch."""
        return _leaks(self.model, self.lines, how)

    def run(self, how: Break) -> Recording:
        """The attention of the whole batch with this mask; it runs once, whatever is looked at."""
        return _run(self.model, self.lines, how)

    def damage(self, how: Break) -> Damage:
        """What this mask does to the loss and the translations of a trained model."""
        return _damage(self.model, self.lines, how)

    @classmethod
    def of_toy(cls, lines: Lines) -> "Example":
        """A toy reads the typed words.

        Raises:
            InputError: as `toy_batch`.
        """
        batch, vocab = toy_batch(*lines)
        return cls(batch, ToyModel(vocab), lines)

    @classmethod
    def of_checkpoint(cls, name: str, lines: Lines) -> "Example":
        """A trained translator reads the typed sentences.

        Raises:
            InputError: a sentence is empty or too long, or there are too many.
        """
        return cls(_trained_batch(name, lines), TrainedModel.of(name), lines)


def seq2seq(model: Model) -> Seq2Seq:
    """The encoder-decoder itself."""
    return checkpoint_of(model).model_as(Seq2Seq)


@cached()
def tested(model: Model) -> LeakReport:
    """The leak test of a model as it is, on random sentences."""
    return leak_test(checkpoint_of(model))


def checkpoint_of(model: Model) -> Checkpoint:
    """The checkpoint that a model is, the toy too."""
    return _toy(model.vocab) if isinstance(model, ToyModel) else store.checkpoint(model.name)


@cached()
def _toy(vocab: int) -> Checkpoint:
    return Checkpoint(name="toy", model=watch(toy_transformer(4, 2, seed=1, vocab=vocab)))


def _batch(model: Model, lines: Lines) -> Batch:
    return toy_batch(*lines)[0] if isinstance(model, ToyModel) else _trained_batch(model.name, lines)


def _trained_batch(name: str, lines: Lines) -> Batch:
    checkpoint = store.checkpoint(name)
    read = [source_sentence(checkpoint, line) for line in lines[0]]
    written = [target_sentence(checkpoint, line) for line in lines[1]]
    return Batch.for_model(read, written, checkpoint.model_as(Seq2Seq))


def _masked(model: Model, how: Break) -> Checkpoint:
    checkpoint = checkpoint_of(model)
    return checkpoint if how == "right" else broken(checkpoint, how)


@cached()
def _run(model: Model, lines: Lines, how: Break) -> Recording:
    return batch_run(_masked(model, how).model_as(Seq2Seq), _batch(model, lines))


@cached()
def _leaks(model: Model, lines: Lines, how: Break) -> LeakReport:
    return leak_test(_masked(model, how), _batch(model, lines))


@cached()
def _damage(model: Model, lines: Lines, how: Break) -> Damage:
    return damage(checkpoint_of(model), _batch(model, lines), how)
