"""The short form of `python -m benchmarks load`: a few readers at once on a server that has just started."""

import pytest

from benchmarks.load import Class, Report, taught


@pytest.fixture(scope="module")
def report() -> Report:
    return taught(Class(sessions=4, seconds=3, pause=0.3, actions=("scores", "mixed")))


def test_each_reader_sees_the_head_of_its_own_sentence_that_it_asked_for(report: Report) -> None:
    assert len(report.seconds) >= 4
    assert (report.wrong, report.errors) == (0, [])


def test_an_action_sends_little_and_costs_little(report: Report) -> None:
    assert report.bytes_of_an_action <= 15_000
    assert report.drawn_again.isdisjoint({"text_area", "navigation", "heading"}), "the page, not the part alone"
    assert report.cpu_of_an_action < 0.2, "several times what it takes (README)"
