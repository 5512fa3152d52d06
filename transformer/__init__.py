"""Heedmap: run a model on what a person types, and see all of its attention.

`translate(load("checkpoints/multi30k-en-de"), "A man rides a bicycle.").record["decoder.3.cross"].figure(head=2)`
draws where head 2 of the last layer looked.
"""

from transformer.attention.capture import recording, watch
from transformer.attention.record import AttentionMap, Record
from transformer.checkpoint import Checkpoint, Report, load, report
from transformer.decoding.search import DecodingOptions
from transformer.errors import CheckpointError, ConfigError, HeedmapError, InputError, RecordError, TrainingError
from transformer.interventions.active import intervening
from transformer.interventions.donors import Donor
from transformer.interventions.value import Intervention
from transformer.messages import Message, speaking
from transformer.pictures.axes import Axis
from transformer.pictures.picture import Picture
from transformer.runs.any_model import AnyRun, run_any
from transformer.runs.classify import Classification, classify
from transformer.runs.parity import attention_maps
from transformer.runs.translate import Translation, follow, translate
from transformer.sites import Site

__all__ = [
    "AnyRun",
    "AttentionMap",
    "Axis",
    "Checkpoint",
    "CheckpointError",
    "Classification",
    "ConfigError",
    "DecodingOptions",
    "Donor",
    "HeedmapError",
    "InputError",
    "Intervention",
    "Message",
    "Picture",
    "Record",
    "RecordError",
    "Report",
    "Site",
    "TrainingError",
    "Translation",
    "attention_maps",
    "classify",
    "follow",
    "intervening",
    "load",
    "recording",
    "report",
    "run_any",
    "speaking",
    "translate",
    "watch",
]
