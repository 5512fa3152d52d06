"""Checkpoints: folder -> model; foreign layouts; safe reading."""

from ..safe.limits import ReadLimits
from .checkpoint import Checkpoint
from .foreign.report import Report
from .load import load, report

__all__ = ["Checkpoint", "ReadLimits", "Report", "load", "report"]
