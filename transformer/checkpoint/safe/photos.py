"""A picture that someone brings: PNG or JPEG, whose size is checked before its pixels take memory."""

import io
import warnings

from PIL import Image

from transformer.checkpoint.safe.limits import MEGABYTE
from transformer.checkpoint.safe.refusal import refused
from transformer.errors import CheckpointError
from transformer.messages import Message
from transformer.pictures.photo import Frame, Photo, framed

FORMATS = ("PNG", "JPEG")
ENDINGS = ("png", "jpg", "jpeg")

MOST_BYTES = 16 * MEGABYTE
MOST_PIXELS = 24_000_000
"""What a picture may have, packed and unpacked: a camera's."""

MOST_STRETCH = 20
"""How many times as long as its other side a picture may be."""

_SAVE_PICTURE = Message("remedy_save_picture")


def read_photo(data: bytes, source: str, frame: Frame) -> Photo:
    """The picture in a file, cut and scaled to `frame`; what is see-through lies on white. `source` names it.

    Raises:
        CheckpointError: it is too large, damaged, or neither PNG nor JPEG.
    """
    if len(data) > MOST_BYTES:
        raise refused("file_large", source, _SAVE_PICTURE, found=len(data), most=MOST_BYTES)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Pillow warns of what is damaged, or unpacks to too much
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                _check_size(image.size, source)
                image.verify()
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                pixels = framed(_opaque(image), frame)
    except CheckpointError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(source) from error
    except Exception as error:  # a decoder may raise anything on a damaged file
        raise refused("photo_unreadable", source, _SAVE_PICTURE, error=type(error).__name__) from error
    return Photo(source, pixels)


def _check_size(size: tuple[int, int], source: str) -> None:
    width, height = size
    if width * height > MOST_PIXELS:
        raise _too_large(source)
    if max(size) > MOST_STRETCH * min(size):
        raise refused("photo_long", source, _SAVE_PICTURE, width=width, height=height, most=MOST_STRETCH)


def _too_large(source: str) -> CheckpointError:
    return refused("photo_large", source, _SAVE_PICTURE, most=MOST_PIXELS)


def _opaque(image: Image.Image) -> Image.Image:
    """The picture in red, green and blue, on white where it is see-through."""
    if image.mode in {"RGBA", "LA", "PA"} or "transparency" in image.info:
        above = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)
    return image.convert("RGB")
