"""How likely a target is that a model was made to read, beside what the model writes itself."""

from transformer import Translation
from ui.texts import t


def likelihood(own: Translation, read: Translation) -> str:
    """Markdown: the log-probability of the model's own translation and, where it reads another text, of that too."""
    if read.text == own.text:
        return t("align.likely", own=own.log_prob)
    return t("align.likelier", own=own.log_prob, read=read.log_prob, target=read.text)
