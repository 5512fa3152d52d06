"""Controls of the Sequences page; each writes itself to the address, in words that no translation changes."""

from typing import Final

from ui.shared.address import choice
from ui.texts import plain, t


def what_to_read() -> str:
    """One sequence (`one`), a long one in windows (`scan`), a file of many (`file`), or a set for motifs (`motifs`)."""
    return choice(
        t("sequences.read"),
        ["one", "scan", "file", "motifs"],
        key="read",
        text=lambda name: plain(f"sequences.read_{name}"),
    )


def view() -> str:
    """Which view of the run: over `letters`, over `windows`, or `heads` as lines."""
    return choice(
        t("sequences.view"),
        ["letters", "windows", "heads"],
        key="view",
        text=lambda name: plain(f"sequences.view_{name}"),
        bare=True,
    )


OLD_RELATIVE: Final = "relative-windows"
"""What older addresses call the scale that ends at the largest weight."""

OLD_THRESHOLD: Final = "view-threshold"
"""What older addresses call the weight below which there is no line."""
