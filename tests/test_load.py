"""The short form of `python -m benchmarks load`: a few readers at once on a server that has just started."""

import numpy as np

from benchmarks.load import taught


def test_each_reader_sees_its_own_head_and_an_action_sends_little() -> None:
    report = taught(sessions=4, seconds=3, pause=0.3)
    assert len(report.seconds) >= 4  # each acts once at least, however long that takes
    assert (report.wrong, report.errors) == (0, [])
    assert np.median(report.bytes) <= 15_000
    assert report.kinds.isdisjoint({"text_area", "navigation", "heading"}), "the page, not the part alone"
