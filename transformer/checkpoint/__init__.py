"""Checkpoints: folder -> model; foreign layouts; safe reading."""

from transformer.checkpoint.folder import Checkpoint
from transformer.checkpoint.limits import ReadLimits
from transformer.checkpoint.loading import load, report
from transformer.checkpoint.report import Report

__all__ = ["Checkpoint", "ReadLimits", "Report", "load", "report"]
