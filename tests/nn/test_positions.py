"""Positions: the formula of the paper, number by number."""

import math

import torch

from transformer.nn.positions import SinusoidalPositions, TablePositions, sinusoidal_table


def test_every_entry_is_the_formula_of_the_paper() -> None:
    table = sinusoidal_table(11, 7)
    for position in range(11):
        for dimension in range(7):
            angle = position / 10_000 ** ((dimension - dimension % 2) / 7)
            expected = math.cos(angle) if dimension % 2 else math.sin(angle)
            assert abs(float(table[position, dimension]) - expected) < 1e-12


def test_start_continues_where_an_earlier_call_ended() -> None:
    x = torch.zeros(1, 5, 6, dtype=torch.float64)
    for positions in (SinusoidalPositions(6, ready=2).double(), TablePositions(6, 5, learned=True).double()):
        whole = positions(x)
        assert torch.equal(positions(x[:, 3:], start=3), whole[:, 3:])


def test_a_stored_table_is_not_trained_and_a_learned_one_is() -> None:
    assert TablePositions(4, 3, learned=True).table.requires_grad
    assert not TablePositions(4, 3, learned=False).table.requires_grad
