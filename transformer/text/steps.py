"""What was written, step by step: each token with its probability and the likeliest others."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """A token that could be written next, and its probability."""

    text: str
    probability: float


@dataclass(frozen=True)
class Step:
    """One written token: its probability, its rank among all tokens (0 is the likeliest), and the likeliest ones."""

    text: str
    probability: float
    rank: int
    likeliest: tuple[Candidate, ...]
