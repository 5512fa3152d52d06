"""Heedmap: run a model on what a person types, and see all of its attention.

`translate(load("checkpoints/multi30k-en-de"), "A man rides a bicycle.").record["decoder.3.cross"].figure(head=2)`
draws where head 2 of the last layer looked.
"""

from transformer.attention import record_methods
from transformer.attention.capture import watch
from transformer.attention.interventions.edits import intervening
from transformer.attention.interventions.value import Donor, Intervention
from transformer.attention.record import AttentionMap, Record
from transformer.attention.recording.module import recording
from transformer.checkpoint import Checkpoint, Report, load, report
from transformer.distribution import version
from transformer.errors import (
    AttributionError,
    CheckpointError,
    ConfigError,
    HeedmapError,
    InputError,
    RecordError,
    TrainingError,
)
from transformer.explain.attribution.result import Attribution
from transformer.explain.diagram import Diagram, architecture
from transformer.explain.flow import Lens, Trace, lens, tracing, watch_flow
from transformer.messages import Message, speaking
from transformer.nn.search import DecodingOptions
from transformer.plots.axes import Axis
from transformer.plots.picture import Picture
from transformer.runs.any_model import ModelRun, run_any
from transformer.runs.check import Check, attention_maps, check, check_file
from transformer.runs.continuing import Continuation, ContinueOptions, Gap, continue_text, fill
from transformer.runs.sequences.classify import Classification, classify
from transformer.runs.translate import Translation, follow, translate
from transformer.sites import Site

__all__ = [
    "AttentionMap", "Attribution", "AttributionError", "Axis", "Check", "Checkpoint", "CheckpointError",
    "Classification", "ConfigError", "Continuation", "ContinueOptions", "DecodingOptions", "Diagram", "Donor", "Gap",
    "HeedmapError", "InputError", "Intervention", "Lens", "Message", "ModelRun", "Picture", "Record", "RecordError",
    "Report", "Site", "Trace", "TrainingError", "Translation", "architecture", "attention_maps", "check",
    "check_file", "classify", "continue_text", "fill", "follow", "intervening", "lens", "load", "recording", "report",
    "run_any", "speaking", "tracing", "translate", "watch", "watch_flow",
]  # fmt: skip

__version__ = version()

record_methods.attach()
