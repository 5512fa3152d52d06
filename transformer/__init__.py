"""Attention Atlas: run a model on what a person types, and see all of its attention.

    from transformer import load, translate
    record = translate(load("checkpoints/multi30k-en-de"), "A man rides a bicycle.").record
    record["decoder.3.cross"].figure(head=2)
"""

from transformer.axes import Axis
from transformer.capture import recording, watch
from transformer.checkpoint import Checkpoint, load
from transformer.decoding import DecodingOptions
from transformer.errors import AttentionAtlasError
from transformer.record import AttentionMap, Record
from transformer.run import Translation, attention_maps, follow, translate

__all__ = [
    "AttentionAtlasError",
    "AttentionMap",
    "Axis",
    "Checkpoint",
    "DecodingOptions",
    "Record",
    "Translation",
    "attention_maps",
    "follow",
    "load",
    "recording",
    "translate",
    "watch",
]
