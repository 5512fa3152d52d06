"""Attention Atlas: run a model on what a person types, and see all of its attention.

`translate(load("checkpoints/multi30k-en-de"), "A man rides a bicycle.").record["decoder.3.cross"].figure(head=2)`
draws where head 2 of the last layer looked.
"""

from transformer.axes import Axis
from transformer.capture import recording, watch
from transformer.checkpoint import Checkpoint, Report, load, report
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
    "Report",
    "Translation",
    "attention_maps",
    "follow",
    "load",
    "recording",
    "report",
    "translate",
    "watch",
]
