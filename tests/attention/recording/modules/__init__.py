"""Modules that nobody wrote for a recording, each with its reference."""

from tests.attention.recording.case import CASES
from tests.attention.recording.modules import decoders, encoders, forms, recurrent

MODULES = (decoders, encoders, forms, recurrent)
NAMES = tuple(CASES)
