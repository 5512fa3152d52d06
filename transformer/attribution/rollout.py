"""Attention roll-out: raw weights multiplied through the layers, with the residual counted as one half.

It is what people draw; values, their lengths and feed-forward nets are left out. Later layers multiply from the left.
For an encoder-decoder each cross-attention passes on half of its residual, and half of what it takes from the source.
Source: Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3; the recursion over a decoder
is that of Ferrando et al. 2022, section 3.3.
"""

import numpy as np
from jaxtyping import Float

from transformer.attention.record import Record
from transformer.attribution.passage import Passage, Reading
from transformer.attribution.result import Attribution, of_passage, of_reading
from transformer.attribution.shares import through, through_decoder
from transformer.attribution.weights import CROSS, DECODER, ENCODER, own_group, recorded
from transformer.messages import Message
from transformer.pictures.quantity import Quantity


def rollout(passage: Passage, record: Record) -> Attribution:
    """Shares of source and prefix at each step, from recorded weights alone; rows sum to 1.

    Raises:
        AttributionError: nothing was recorded of an encoder's or a decoder's self-attention (a recurrent model has
        none).
    """
    tables = [recorded(passage.name, record, group) for group in (ENCODER, DECODER, CROSS)]
    encoder = through((_with_residual(table) for table in tables[0]), len(passage.source))
    halves = np.full((len(passage.read), 1), 0.5)
    layers = (
        (_with_residual(own), np.concatenate([cross / 2, halves], axis=1))
        for own, cross in zip(tables[1], tables[2], strict=True)
    )
    values = through_decoder(layers, encoder, len(passage.read))
    return of_passage(passage, "rollout", values, Quantity.SHARE, [Message("note_rollout")])


def encoder_rollout(reading: Reading, record: Record) -> Attribution:
    """The same for a model that reads one text: shares of each position in each position after all layers.

    Raises:
        AttributionError: nothing was recorded of its self-attention.
    """
    tables = recorded(reading.name, record, own_group(record))
    values = through((_with_residual(table) for table in tables), len(reading.axis))
    return of_reading(reading, "rollout", values, Quantity.SHARE, [Message("note_rollout")])


def _with_residual(table: Float[np.ndarray, "position position"]) -> Float[np.ndarray, "position position"]:
    """Half of the weights and half of the position itself."""
    return (table + np.eye(len(table))) / 2
