"""Hits: the likeliest window of its neighbourhood, and the lines that genome browsers read."""

import numpy as np
import pytest

from transformer.sequences.alphabet import DNA
from transformer.sequences.hits import Hit, bed, gff3, landmark_of, peaks
from transformer.sequences.task import Landmark, SequenceTask

TASK = SequenceTask(DNA, ("EI", "a/b c", "N"), 20, landmarks=(Landmark("EI", 11, "GTA", "donor"),), background="N")


def suppressed(starts: np.ndarray, values: np.ndarray, threshold: float, apart: int) -> list[tuple[int, float]]:
    """Non-maximum suppression as its definition says: take the likeliest that is left, drop all that are near."""
    left = {int(start): float(value) for start, value in zip(starts, values, strict=True) if value >= threshold}
    kept = {}
    while left:
        best = min(left, key=lambda start: (-left[start], start))
        kept[best] = left[best]
        left = {start: value for start, value in left.items() if abs(start - best) >= apart}
    return sorted(kept.items())


@pytest.mark.parametrize(("step", "apart", "threshold"), [(1, 10, 0.5), (3, 13, 0.7), (7, 8, 0.2)])
def test_peaks_are_what_suppression_leaves_in_any_order(step, apart, threshold) -> None:
    generator = np.random.default_rng(step)
    values = generator.random(157).round(2)  # equals occur
    values[generator.integers(0, 157, 20)] = np.nan
    starts = np.arange(157) * step
    above = [(int(start), float(value)) for start, value in zip(starts, values, strict=True) if value >= threshold]
    expected = suppressed(starts, values, threshold, apart)
    assert peaks([above[i] for i in generator.permutation(len(above))], apart) == expected
    assert len(above) > len(expected)


def test_lines_of_bed_and_gff3_say_where_and_on_which_strand() -> None:
    given, other = Hit(100, 120, "+", "EI", 0.9876), Hit(103, 123, "-", "EI", 1.0)
    assert landmark_of(given, TASK) == (111, 114)
    assert landmark_of(other, TASK) == (109, 112)  # letters 11 to 13 of the other strand, counted from its start at 122
    unmarked = Hit(7, 27, "-", "a/b c", 0.5)
    assert landmark_of(unmarked, TASK) == (7, 27)
    assert bed("chr 1", [given, other, unmarked], TASK).splitlines() == [
        "chr_1\t100\t120\tEI\t987\t+\t111\t114",
        "chr_1\t103\t123\tEI\t1000\t-\t109\t112",
        "chr_1\t7\t27\ta/b_c\t500\t-\t7\t27",
    ]
    assert gff3("chr 1", [given, unmarked], "my;net").splitlines() == [
        "chr%201\tmy%3Bnet\tsequence_feature\t101\t120\t0.987600\t+\t.\tID=EI1;Name=EI",
        "chr%201\tmy%3Bnet\tsequence_feature\t8\t27\t0.500000\t-\t.\tID=a%2Fb%20c2;Name=a%2Fb%20c",
    ]
