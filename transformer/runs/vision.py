"""A run of a Vision Transformer: (checkpoint, picture) -> all attention between patches, and what it took it for."""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transformer.attention.capture import recording
from transformer.attention.record import Record
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.messages import Message
from transformer.models.common import readable
from transformer.models.vision import VisionConfig, VisionTransformer
from transformer.pictures.axes import Axis
from transformer.pictures.photo import Frame, Photo
from transformer.runs.any_model import AnyRun
from transformer.runs.changed import run_of


def frame_of(checkpoint: Checkpoint) -> Frame:
    """What the checkpoint reads of a picture.

    Raises:
        CheckpointError: it reads no pictures.
    """
    config = checkpoint.model_as(VisionTransformer).config
    return Frame(*config.picture, config.crop)


def run_photo(checkpoint: Checkpoint, photo: Photo) -> AnyRun:
    """Run the checkpoint on a picture, which was cut to what it reads (`frame_of`).

    Raises:
        CheckpointError: it reads no pictures.
        InputError: the picture is of another size.
    """
    model = checkpoint.model_as(VisionTransformer)
    with run_of(checkpoint), recording() as seen:
        outputs = model.outputs(pixels_of(photo, model.config))
    axis, notes = patch_axis(model.config), (*reading_notes(model.config), *checkpoint.guesses)
    maps = {site: replace(seen.map(site, axis, axis), notes=notes) for site in seen.sites}
    found = {name: readable(value[0]).numpy() for name, value in outputs.items()}
    return AnyRun(checkpoint.name, photo.name, Record(maps, checkpoint.name, photo.name), outputs=found)


def pixels_of(photo: Photo, config: VisionConfig) -> Float[Tensor, "1 channel height width"]:
    """The picture as numbers: of each channel its mean is taken, then it is divided by its deviation.

    A model of grey pictures reads the luma of ITU-R 601.
    """
    pixels = photo.pixels.astype(np.float64) / 255
    if config.n_channels == 1:
        pixels = pixels @ np.array([[0.299], [0.587], [0.114]])
    normed = (pixels - np.array(config.mean)) / np.array(config.deviation)
    return torch.tensor(normed.transpose(2, 0, 1)[None], dtype=torch.get_default_dtype())


def reading_notes(config: VisionConfig) -> tuple[Message, ...]:
    """What was done to a picture before the model read it."""
    rows, columns = config.picture
    numbers = {name: ", ".join(f"{value:g}" for value in getattr(config, name)) for name in ("mean", "deviation")}
    return Message("photo_framed", rows=rows, columns=columns, share=config.crop), Message(
        "photo_normalised", **numbers
    )


def patch_axis(config: VisionConfig) -> Axis:
    """The tokens: those before the patches are special, and each patch is named by its row and column."""
    tokens, n_leading = config.tokens, len(config.leading)
    rows, columns = config.grid
    special = tuple(i < n_leading for i in range(len(tokens)))
    return Axis(Message("axis_patch"), tokens, tuple(range(len(tokens))), special, (rows, columns))


def on_patches(weights: Float[np.ndarray, "*any key"], config: VisionConfig) -> Float[np.ndarray, "*any row column"]:
    """What keys receive, as the picture's patches lie; the tokens before the patches are left out."""
    return weights[..., len(config.leading) :].reshape(*weights.shape[:-1], *config.grid)
