"""Colours of figures: what is written in them can be read, light and dark."""

import pytest

from transformer.figures.theme import theme


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return sum(share * one for share, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["ink", "faint", "accent", "second", "chosen"])
def test_every_colour_that_letters_have_can_be_read_on_the_paper(dark: bool, name: str) -> None:
    colours = theme(dark)
    low, high = sorted([luminance(getattr(colours, name)), luminance(colours.paper)])
    assert (high + 0.05) / (low + 0.05) >= 4.5
