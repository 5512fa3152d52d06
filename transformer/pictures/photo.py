"""A picture that a model looks at: its pixels, cut and scaled to what the model reads; and one that we drew.

Scaling and cutting are those of timm's evaluation: the shorter side becomes size / `crop` pixels (rounded down) by
Pillow's bicubic filter, and the middle is cut out.
"""

import io
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from transformer.messages import Message

Pixels = UInt8[np.ndarray, "row column channel"]
"""Red, green and blue from 0 to 255."""

DRAWN = 256
"""Pixels along a side of the picture that we drew."""


@dataclass(frozen=True)
class Frame:
    """What a model reads of a picture: rows and columns of pixels, and the share of the shorter side that is kept."""

    rows: int
    columns: int
    crop: float = 1.0


@dataclass(frozen=True, eq=False)
class Photo:
    """A picture as a model reads it, under the name of its file."""

    name: str
    pixels: Pixels

    def png(self, side: int = 0) -> bytes:
        """The pixels as a PNG; with at most `side` along the longer side, where that is given."""
        image = Image.fromarray(self.pixels)
        if side:
            image.thumbnail((side, side), Image.Resampling.BICUBIC)
        target = io.BytesIO()
        image.save(target, "PNG")
        return target.getvalue()


def framed(image: Any, frame: Frame) -> Pixels:
    """A picture of Pillow (red, green and blue) as a model reads it."""
    rows, columns = math.floor(frame.rows / frame.crop), math.floor(frame.columns / frame.crop)
    if rows * image.width >= columns * image.height:
        size = (int(rows * image.width / image.height), rows)
    else:
        size = (columns, int(columns * image.height / image.width))
    scaled = image.resize(size, Image.Resampling.BICUBIC)
    top, left = round((size[1] - frame.rows) / 2), round((size[0] - frame.columns) / 2)
    return np.asarray(scaled.crop((left, top, left + frame.columns, top + frame.rows)), dtype=np.uint8)


def drawn(frame: Frame) -> Photo:
    """A picture that we drew, for a first look: a sky, a sun, a house and a hill, each of a colour of its own."""
    rows, columns = np.mgrid[0:DRAWN, 0:DRAWN] / DRAWN
    pixels = np.stack([90 + 120 * rows, 150 + 70 * rows, 235 - 20 * rows], axis=-1)  # a sky
    shapes = (
        ((rows - 0.2) ** 2 + (columns - 0.78) ** 2 < 0.11**2, (255, 214, 64)),  # a sun
        (rows > 0.72 + 0.1 * np.sin(columns * 5), (70, 140, 60)),  # a hill
        ((abs(columns - 0.36) < 0.18) & (rows > 0.45) & (rows < 0.86), (196, 92, 64)),  # a house
        ((rows > 0.26) & (rows < 0.45) & (abs(columns - 0.36) < (rows - 0.26) * 1.2), (92, 50, 46)),  # its roof
        ((abs(columns - 0.36) < 0.05) & (rows > 0.64) & (rows < 0.86), (60, 40, 36)),  # its door
    )
    for where, colour in shapes:
        pixels[where] = colour
    image = Image.fromarray(pixels.astype(np.uint8))
    return Photo(Message("photo_drawn"), framed(image, frame))
