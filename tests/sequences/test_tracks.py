"""Tracks as text: what a spreadsheet and a genome browser read back is what was there."""

import csv
import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transformer.sequences import tracks

values = st.lists(st.sampled_from([0.0, 0.25, 1.5, -2.0]), min_size=1, max_size=23)


@given(values)
def test_bedgraph_covers_every_letter_once_with_its_value(track):
    lines = tracks.intervals("chr 1", np.array(track), start=100).splitlines()
    read, place = [], 100
    for line in lines:
        name, start, stop, value = line.split("\t")
        assert name == "chr_1"
        assert int(start) == place < int(stop)
        place = int(stop)
        read += [float(value)] * (int(stop) - int(start))
    assert read == track


def test_bedgraph_leaves_out_what_is_not_known():
    text = tracks.bedgraph("", {"x": np.array([1.0, np.nan, np.nan, 1.0])}, range(1, 5))
    assert text.splitlines() == ['track type=bedGraph name="x"', "sequence\t0\t1\t1", "sequence\t3\t4\t1"]
    text = tracks.bedgraph("x", {"x": np.array([1.0, 2.0, 2.0])}, range(12, 9, -1))  # of the other strand
    assert text.splitlines()[1:] == ["x\t9\t11\t2", "x\t11\t12\t1"]


@given(values)
def test_csv_gives_the_same_numbers_back(track):
    text = tracks.csv(
        "A" * len(track), {"attention": np.array(track), "effect": np.array(track) / 3}, range(5, 5 + len(track))
    )
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["place"] for row in rows] == [str(i + 5) for i in range(len(track))]
    assert [float(row["effect"]) for row in rows] == (np.array(track) / 3).tolist()


def test_no_cell_of_a_table_is_a_formula_and_no_number_is_empty() -> None:
    text = tracks.csv("A", {"=1+1": np.array([np.nan]), "-1": np.array([-0.5])}, [1])
    assert text == "place,letter,'=1+1,'-1\n1,A,,-0.5\n"
