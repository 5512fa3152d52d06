"""How a pair of sentences becomes a training example: what is read, what is to be written, what the loss counts.

The decoder reads the target without its last token and is to write the target without its first, so that at each
position it has read all tokens before the one it writes (teacher forcing). The loss is the mean over tokens, not over
positions of the batch: padding is filled in to make a rectangle, and nobody wants it written.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from torch.nn import functional as F

from ..checkpoint.checkpoint import Checkpoint
from ..errors import CheckpointError
from ..messages import Message
from ..nn.common import pad
from ..nn.protocols import written_length
from ..runs.concurrency import forward_slot
from ..runs.translate import checked_ids

REFERENCES = {
    "A man in a blue shirt is riding a bicycle down the street.": (
        "Ein Mann in einem blauen Hemd fährt mit dem Fahrrad die Straße hinunter."
    ),
    "Two dogs are playing in the snow.": "Zwei Hunde spielen im Schnee.",
    "A little girl with a red hat is eating an apple.": "Ein kleines Mädchen mit einem roten Hut isst einen Apfel.",
    "Three women are sitting on a bench in the park and talking.": (
        "Drei Frauen sitzen auf einer Bank im Park und unterhalten sich."
    ),
    "The old man who is reading a newspaper is wearing glasses.": (
        "Der alte Mann, der eine Zeitung liest, trägt eine Brille."
    ),
    "A group of people are standing in front of a large building.": (
        "Eine Gruppe von Menschen steht vor einem großen Gebäude."
    ),
    "A boy jumps into the water while his sister watches him from the beach.": (
        "Ein Junge springt ins Wasser, während seine Schwester ihm vom Strand aus zusieht."
    ),
    "Someone is cooking dinner in a small kitchen.": "Jemand kocht das Abendessen in einer kleinen Küche.",
}
"""Translations by hand of the examples that the English to German checkpoint brings along."""


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """Sentence pairs as the model meets them in training; every table has a row a pair and ends in padding.

    Both tables of the target are cut from one rectangle, so a shorter row reads its end token at a position that the
    loss does not count.

    `pad` is the label of padding. `losses` are negative log-probabilities (nats) of each label, also where the label
    is padding; `counted` says which positions the loss counts.
    """

    source: tuple[tuple[str, ...], ...]
    read: tuple[tuple[str, ...], ...]
    labels: tuple[tuple[str, ...], ...]
    pad: str
    losses: Float[np.ndarray, "pair position"]
    counted: Bool[np.ndarray, "pair position"]

    @property
    def loss(self) -> float:
        """Nats a token: the sum over counted positions, divided by how many they are."""
        return float(self.losses[self.counted].mean())

    @property
    def loss_with_padding(self) -> float:
        """What it would be if every position of the rectangle counted."""
        return float(self.losses.mean())


def training_batch(checkpoint: Checkpoint, pairs: Sequence[tuple[str, str]]) -> TrainingBatch:
    """Cut pairs of (source, target) text as training does, and let the model score every label.

    Raises:
        InputError: a sentence is empty or too long.
        CheckpointError: the checkpoint does not translate, or knows no padding.
    """
    model, reader, writer = checkpoint.translator()
    pad_id, bos_id, eos_id = model.config.pad_id, model.config.bos_id, model.config.eos_id
    if pad_id < 0:
        raise CheckpointError("lesson_no_padding", name=checkpoint.name)
    sources = [checked_ids(source, Message("noun_source"), model.config.max_length, reader) for source, _ in pairs]
    targets = [
        [bos_id, *checked_ids(target, Message("noun_target"), written_length(model.config), writer)]
        for _, target in pairs
    ]
    if any(ids[-1] != eos_id for ids in targets):
        raise CheckpointError("lesson_another_end", name=checkpoint.name)
    source, target = pad(sources, pad_id), pad(targets, pad_id)
    read, labels = target[:, :-1], target[:, 1:]
    with forward_slot():
        log_probs = F.log_softmax(model(source, read), dim=-1)
    losses = -log_probs.gather(-1, labels[..., None])[..., 0]
    tables = [
        tuple(tuple(tokenizer.labels(row)) for row in ids.tolist())
        for ids, tokenizer in ((source, reader), (read, writer), (labels, writer))
    ]
    counted, padding = (labels != pad_id).numpy(), writer.labels([pad_id])[0]
    return TrainingBatch(tables[0], tables[1], tables[2], padding, losses.double().numpy(), counted)
