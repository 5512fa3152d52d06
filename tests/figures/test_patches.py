"""Attention over a picture: what is drawn is the record's row, where its patches lie."""

import base64
import io

import numpy as np
from PIL import Image

from transformer.figures.patches import heads_over_picture, over_picture

RANDOM = np.random.default_rng(7)
WEIGHTS = RANDOM.random((3, 3, 5)) / 20
NAMES = [f"r{row}c{column}" for row in range(1, 4) for column in range(1, 6)]


def png() -> bytes:
    target = io.BytesIO()
    Image.new("RGB", (10, 6), "red").save(target, "PNG")
    return target.getvalue()


def test_one_head_over_the_picture():
    figure = over_picture(png(), WEIGHTS[1], NAMES, title="[CLS] <b>", selected=(2, 4), relative=False)
    veil, patches = figure.data
    assert np.array_equal(veil.z, WEIGHTS[1])
    assert (veil.zmin, veil.zmax) == (0, 1)
    assert 0 < veil.opacity < 1
    assert patches.name == "patches"
    assert [tuple(place) for place in patches.customdata] == [(row, column) for row in range(3) for column in range(5)]
    assert f"{WEIGHTS[1, 2, 3]:.4f}" in patches.hovertext[13]
    assert "r3c4" in patches.hovertext[13]
    assert (patches.x[13], patches.y[13]) == (3, 2)
    (image,), (box,) = figure.layout.images, figure.layout.shapes
    assert base64.b64decode(image.source.partition(",")[2]) == png()
    assert (image.x, image.y, image.sizex, image.sizey, image.layer) == (-0.5, -0.5, 5, 3, "below")
    assert figure.layout.yaxis.range == (2.5, -0.5)  # the first row on top
    assert (box.x0, box.x1, box.y0, box.y1) == (3.5, 4.5, 1.5, 2.5)
    assert "<b>" not in figure.layout.title.text
    relative = over_picture(png(), WEIGHTS[1], NAMES, title="", relative=True, dark=True)
    assert relative.data[0].zmax == WEIGHTS[1].max()
    assert relative.data[0].colorbar.title.text.endswith(f"relative: 0 to {WEIGHTS[1].max():.4g}")
    small = over_picture(png(), WEIGHTS[1] / 10**5, NAMES, title="", relative=True)
    assert float(small.data[0].colorbar.title.text.rpartition(" ")[2]) == float(f"{small.data[0].zmax:.4g}") > 0
    nothing = over_picture(png(), 0 * WEIGHTS[1], NAMES, title="", relative=True)
    assert (nothing.data[0].zmax, "relative" in nothing.data[0].colorbar.title.text) == (1, False)
    assert relative.layout.shapes == ()


def test_all_heads_have_one_scale_and_a_place_each():
    figure = heads_over_picture(png(), WEIGHTS, selected=1, per_row=2)
    veils, places = figure.data[::2], figure.data[1::2]
    assert all(np.array_equal(veil.z, weights) for veil, weights in zip(veils, WEIGHTS, strict=True))
    assert {veil.zmax for veil in veils} == {WEIGHTS.max()}
    assert [place.customdata[0][0] for place in places] == [0, 1, 2]
    axes = [figure.layout["xaxis"], figure.layout["xaxis2"], figure.layout["xaxis3"]]
    rows = [figure.layout["yaxis"], figure.layout["yaxis2"], figure.layout["yaxis3"]]
    assert axes[0].domain[1] <= axes[1].domain[0]
    assert axes[0].domain == axes[2].domain
    assert rows[2].domain[1] < rows[0].domain[0]
    assert rows[2].domain[0] >= 0
    assert [image.xref for image in figure.layout.images] == ["x", "x2", "x3"]
    assert [note.text for note in figure.layout.annotations] == ["H0", "<b>H1</b>", "H2"]
