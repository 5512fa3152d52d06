"""The runs that the lesson "Inside a layer" takes apart: of a toy, or of a checkpoint on the reader's sentence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from torch import nn

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.lessons.run import Run, in_float64
from transformer.lessons.sentences import MAX_TOKENS, Sentence, encoder_sentence, source_sentence, target_sentence
from transformer.lessons.toy import toy_layers, toy_sentences, toy_words
from transformer.nn.search import DecodingOptions
from transformer.runs.continuing import continues
from transformer.runs.translate import Translation
from ui.lessons.shared import ToyWords
from ui.store import runs, store
from ui.store.cache import cached
from ui.store.refs import Revision


@dataclass(frozen=True, eq=False)
class Example:
    """How a run is found, which is looked up whenever it is asked for, and the sentences that it is about."""

    find: Callable[[], Run]
    sentences: tuple[str, ...]
    is_toy: bool

    @property
    def run(self) -> Run:
        """The run itself.

        Raises:
            HeedmapError: the sentences cannot be read.
        """
        return self.find()


@cached()
def toy_run(d_model: int, words: ToyWords, seed: int, norm_first: bool, gelu: bool, tied: bool) -> Run:
    """A run of a toy whose numbers are few and round."""
    _, _, target = words
    names = toy_words(target)
    model = toy_layers(d_model, seed, norm_first, gelu, tied)
    return Run(model, *toy_sentences(*words), lambda ids: [names[i] for i in ids])


def own_translation(name: str, text: str) -> Translation:
    """What a checkpoint writes for a sentence: the target that is read unless the reader types another.

    Raises:
        HeedmapError: it cannot read that.
    """
    return runs.translation(name, text, DecodingOptions(), None)


def run_of(name: str, text: str, target: str | Translation | None) -> Callable[[], Run]:
    """What finds a checkpoint's run on a sentence, and on a typed target or its own, if it reads one.

    Of what it wrote itself the first tokens are read, as many as a lesson shows.
    """
    revision = store.revision(name)
    if target is None or isinstance(target, str):
        return partial(_run, revision, text, target)
    bos: int = store.checkpoint(name).translator()[0].config.bos_id
    return partial(_run, revision, text, (bos, *target.target_ids[:-1])[:MAX_TOKENS])


@cached()
def _weights(revision: Revision) -> nn.Module:
    return in_float64(store.load(revision).model)


@cached()
def _run(revision: Revision, text: str, target: str | tuple[int, ...] | None) -> Run:
    checkpoint = store.load(revision)
    read = None
    if target is None:
        source = encoder_sentence(checkpoint, text)
    else:
        source = source_sentence(checkpoint, text)
        writer = checkpoint.translator()[2]
        if isinstance(target, str):
            read = target_sentence(checkpoint, target)
        else:
            read = Sentence.of(target, writer.labels(target))
    # A result that held the checkpoint would count its vocabulary as its own.
    return Run(_weights(revision), source, read, lambda ids: words_of(store.load(revision), ids))


def words_of(checkpoint: Checkpoint, ids: Sequence[int]) -> list[str]:
    """What a person reads for each output of a checkpoint: words; for a classifier its classes, or their numbers."""
    if (checkpoint.translates or continues(checkpoint)) and checkpoint.writer is not None:
        return checkpoint.writer.labels(ids)
    classes = checkpoint.task.classes if checkpoint.task else ()
    return [classes[i] if i < len(classes) else str(i) for i in ids]
