"""Heedmap: run a model on what a person types, and see all of its attention.

`translate(load("multi30k-en-de"), "A man rides a bicycle.").record["decoder.3.cross"].figure(head=2)` draws where
head 2 of the last layer looked.
"""

from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[1] / "transformer"
if (_CHECKOUT / "errors.py").is_file():  # in a checkout the modules are there; installed, they are beside this file
    __path__.append(str(_CHECKOUT))

from heedmap.attention import record_methods
from heedmap.attention.capture import watch
from heedmap.attention.interventions.edits import intervening
from heedmap.attention.interventions.value import Donor, Intervention
from heedmap.attention.record import AttentionMap, Record
from heedmap.attention.recording.module import recording
from heedmap.checkpoint import Checkpoint, Report, load, report
from heedmap.distribution import version
from heedmap.errors import (
    AttributionError,
    CheckpointError,
    ConfigError,
    HeedmapError,
    InputError,
    RecordError,
    TrainingError,
)
from heedmap.explain.attribution.result import Attribution
from heedmap.explain.diagram import Diagram, architecture
from heedmap.explain.flow import Lens, Trace, lens, tracing, watch_flow
from heedmap.messages import Message, speaking
from heedmap.nn.search import DecodingOptions
from heedmap.plots.axes import Axis
from heedmap.plots.picture import Picture
from heedmap.runs.any_model import ModelRun, run_any
from heedmap.runs.check import Check, attention_maps, check, check_file
from heedmap.runs.continuing import Continuation, ContinueOptions, Gap, continue_text, fill
from heedmap.runs.sequences.classify import Classification, classify
from heedmap.runs.translate import Translation, follow, translate
from heedmap.sites import Site

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
