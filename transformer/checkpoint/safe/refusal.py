"""How a file is refused: which file, why, and what its owner can do."""

from transformer.errors import CheckpointError

SAVE_WEIGHTS = (
    "where you trust the file, load it and save its weights alone: "
    "safetensors.torch.save_file(model.state_dict(), path) or torch.save(model.state_dict(), path)"
)
SAVE_AGAIN = "download it again, or save it again"

_SHOWN = 80


def refusal(source: str, reason: str, remedy: str = SAVE_AGAIN) -> CheckpointError:
    """The error that says why `source` is not read. Like every message, it ends without a full stop."""
    return CheckpointError(f"{source} is refused: {reason}. Remedy: {remedy}")


def shown(text: str) -> str:
    """A stranger's text in quotation marks, cut before it is looked at: for messages."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
