"""Attribution of what a checkpoint did: (checkpoint, translation, method) -> a matrix with axes."""

from transformer.attribution.deletion import How, Progress
from transformer.attribution.deletion import deletion as deleted
from transformer.attribution.passage import Passage
from transformer.attribution.result import Attribution
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.runs.concurrency import forward_slot
from transformer.runs.translate import Translation


def passage_of(checkpoint: Checkpoint, translation: Translation) -> Passage:
    """What a translation is, as methods of attribution ask about it.

    Raises:
        CheckpointError: the checkpoint does not translate text.
    """
    model, reader, writer = checkpoint.translator()
    return Passage(
        name=checkpoint.name,
        model=model,
        source_ids=translation.source_ids,
        read_ids=(model.config.bos_id, *translation.target_ids[:-1]),
        written_ids=translation.target_ids,
        source=translation.axes.source,
        read=translation.axes.read,
        written=translation.axes.written,
        unknown_source_id=reader.unknown_id,
        unknown_target_id=writer.unknown_id,
    )


def deletion(
    checkpoint: Checkpoint,
    translation: Translation,
    how: How = "hidden",
    words: bool = False,
    prefix: bool = True,
    progress: Progress | None = None,
) -> Attribution:
    """What each written token loses without each part of the input: `transformer.attribution.deletion`.

    Raises:
        AttributionError: not defined for this model.
        CheckpointError: the checkpoint does not translate text.
    """
    passage = passage_of(checkpoint, translation)
    with forward_slot():
        return deleted(passage, how, words, prefix, progress)
