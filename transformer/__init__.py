"""Heedmap: run a model on what a person types, and see all of its attention.

`translate(load("checkpoints/multi30k-en-de"), "A man rides a bicycle.").record["decoder.3.cross"].figure(head=2)`
draws where head 2 of the last layer looked.
"""

from transformer.attention.capture import recording, watch
from transformer.attention.record import AttentionMap, Record
from transformer.checkpoint import Checkpoint, Report, load, report
from transformer.decoding.search import DecodingOptions
from transformer.errors import HeedmapError
from transformer.pictures.axes import Axis
from transformer.runs.parity import attention_maps
from transformer.runs.translate import Translation, follow, translate

__all__ = [
    "AttentionMap",
    "Axis",
    "Checkpoint",
    "DecodingOptions",
    "HeedmapError",
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
