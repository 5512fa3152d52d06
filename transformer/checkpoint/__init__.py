"""Checkpoints: folder -> model; foreign layouts; safe reading."""

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.checkpoint.foreign.report import Report
from transformer.checkpoint.load import load, report
from transformer.safe.limits import ReadLimits

__all__ = ["Checkpoint", "ReadLimits", "Report", "load", "report"]
