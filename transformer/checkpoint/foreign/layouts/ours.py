"""Our own weights beside their config.json (an upload of a whole folder), which says everything."""

from transformer.checkpoint.checkpoint import ARCHITECTURES
from transformer.checkpoint.foreign.layouts.base import Fit, Source
from transformer.checkpoint.foreign.questions import Answers
from transformer.checkpoint.meta_shapes import meta_shapes
from transformer.checkpoint.ours.folder import ASSUMED, assumed_by
from transformer.checkpoint.ours.validate import checked_config
from transformer.messages import Message
from transformer.safe.contents import Contents


def ours(contents: Contents, _answers: Answers) -> Fit | None:
    """A `model.safetensors` of this project with its config.json.

    What the config says; None without one.
    """
    if not {"architecture", "config"} <= contents.settings.keys():
        return None
    architecture, config = checked_config(contents.settings, "config.json", contents.shapes)
    model_type, _ = ARCHITECTURES[architecture]
    sources = {name: Source(name) for name in meta_shapes(model_type, config)}
    assumed = assumed_by(contents.settings.get(ASSUMED, []), "config.json")
    return Fit(architecture, config, sources, (Message("reason_config"),), assumed=assumed)
