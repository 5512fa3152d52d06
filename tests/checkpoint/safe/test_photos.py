"""Pictures that someone brings: refused by a sentence before their pixels take memory; scaled and cut as timm does."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from transformer.checkpoint.safe.photos import MOST_BYTES, read_photo
from transformer.checkpoint.worker import apart
from transformer.errors import CheckpointError
from transformer.pictures.photo import Frame, drawn, framed

FRAME = Frame(21, 35, 0.875)


def packed(image: Image.Image, kind: str = "PNG") -> bytes:
    target = io.BytesIO()
    image.save(target, kind)
    return target.getvalue()


def noise(rows: int, columns: int, *channels: int) -> Image.Image:
    generator = np.random.default_rng(3)
    return Image.fromarray(generator.integers(0, 256, (rows, columns, *channels), dtype=np.uint8))


def claiming(width: int, height: int) -> bytes:
    """A PNG of one row that claims to have other sides."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (head, b"IDAT" + zlib.compress(b"\0" * 400), b"IEND")
    packed_parts = b"".join(struct.pack(">I", len(one) - 4) + one + struct.pack(">I", zlib.crc32(one)) for one in parts)
    return b"\x89PNG\r\n\x1a\n" + packed_parts


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no readable PNG or JPEG"),
        (b"GIF89a" + bytes(60), "no readable PNG or JPEG"),
        (packed(noise(9, 9, 3), "BMP"), "no readable PNG or JPEG"),
        (packed(noise(90, 70, 3))[:900], "no readable PNG or JPEG"),
        (packed(noise(90, 70, 3), "JPEG")[:900], "no readable PNG or JPEG"),
        (claiming(60_000, 60_000), "more than 24,000,000 pixels"),
        (claiming(10_000, 10_000), "more than 24,000,000 pixels"),
        (claiming(6_000, 4_001), "more than 24,000,000 pixels"),
        (claiming(20_000, 1), "more than 20 to 1"),
        (bytes(MOST_BYTES + 1), "at most"),
    ],
    ids=[
        "empty",
        "a GIF",
        "a bitmap",
        "cut PNG",
        "cut JPEG",
        "a bomb",
        "half a bomb",
        "a little too large",
        "a strip",
        "large",
    ],
)
def test_what_is_no_picture_is_refused_by_name(data, said):
    for read in (read_photo, apart.read_photo):
        with pytest.raises(CheckpointError, match=said) as caught:
            read(data, "mine.png", FRAME)
        assert "mine.png" in str(caught.value)


@pytest.mark.parametrize("size", [(50, 90), (90, 50), (24, 40), (400, 31)])
def test_a_picture_is_scaled_and_its_middle_cut_out_as_timm_does(size):
    image = noise(*size, 3)
    # written from timm's resize and centre crop: the share of both sides, the aspect ratio kept
    rows, columns = 24, 40  # 21 / 0.875, 35 / 0.875
    times = max(rows / image.height, columns / image.width)
    width, height = int(image.width * times + 1e-9), int(image.height * times + 1e-9)
    scaled = np.asarray(image.resize((width, height), Image.Resampling.BICUBIC))
    top, left = round((height - 21) / 2), round((width - 35) / 2)
    found = read_photo(packed(image), "mine.png", FRAME).pixels
    assert np.array_equal(found, scaled[top : top + 21, left : left + 35])
    assert np.array_equal(found, apart.read_photo(packed(image), "mine.png", FRAME).pixels)


def test_grey_and_see_through_pictures_become_red_green_and_blue():
    whole = Frame(7, 7)
    grey = noise(7, 7)
    assert np.array_equal(read_photo(packed(grey), "g", whole).pixels, np.asarray(grey.convert("RGB")))
    clear = noise(7, 7, 4)
    clear.putalpha(0)
    assert (read_photo(packed(clear), "c", whole).pixels == 255).all()
    half = Image.new("RGBA", (7, 7), (100, 0, 200, 51))
    assert read_photo(packed(half), "h", whole).pixels[3, 3].tolist() == [224, 204, 244]
    assert read_photo(packed(noise(7, 7, 3), "JPEG"), "j", whole).pixels.shape == (7, 7, 3)


def test_the_picture_that_we_drew_is_the_same_everywhere():
    first, again = drawn(Frame(32, 48, 0.9)), drawn(Frame(32, 48, 0.9))
    assert np.array_equal(first.pixels, again.pixels)
    assert len(np.unique(first.pixels.reshape(-1, 3), axis=0)) > 50
    assert Image.open(io.BytesIO(first.png(12))).size == (12, 8)
    assert framed(Image.new("RGB", (3, 3)), Frame(5, 5)).shape == (5, 5, 3)
