"""One error tree: everything that a user of the library or the dashboard can meet on purpose.

Each message names the argument, the value and the remedy, so a page can show it as it is.
"""


class AttentionAtlasError(Exception):
    """Base of every deliberate error; catching it catches nothing else."""


class ConfigError(AttentionAtlasError, ValueError):
    """A model cannot be built with these sizes or options."""


class InputError(AttentionAtlasError, ValueError):
    """What was typed, or passed as input, cannot be run."""


class CheckpointError(AttentionAtlasError):
    """A checkpoint cannot be read, does not fit, or is refused."""


class RecordError(AttentionAtlasError, LookupError):
    """A record has no such site, head, position or form."""


class TrainingError(AttentionAtlasError):
    """Training cannot start, or cannot go on from what it found."""
