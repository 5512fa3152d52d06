"""What the numbers of a picture are: told by a value, said in any language."""

from enum import Enum

from transformer.messages import Message


class Quantity(Enum):
    """What one cell of a picture holds."""

    WEIGHT = "weight"
    """A probability: 0 to 1, and each row sums to 1 (or to less where keys are left out)."""

    SCORE = "score"
    """A scaled dot product, before the mask."""

    BIASED_SCORE = "biased_score"
    """A scaled dot product and a bias, before the mask."""

    LOG_WEIGHT = "log_weight"
    """The natural logarithm of a weight: the softmax's input up to a constant a row."""

    DIFFERENCE = "difference"
    """A weight of one map minus that of another: -1 to 1."""

    LOG_PROB_LOST = "log_prob_lost"
    """Natural log-probability of a token that goes with a part of the input: positive where the part spoke for it."""

    LOG_PROB_ADDED = "log_prob_added"
    """Natural log-probability of a token that a part of the input adds; negative where the part speaks against it."""

    NORM = "norm"
    """The length of a vector that a part of the input gives."""

    SHARE = "share"
    """A share of all that a row received: 0 to 1, and each row sums to 1."""

    RELEVANCE = "relevance"
    """Attention weights times the slope of the written token's logit."""

    @property
    def is_probability(self) -> bool:
        """Whether the values are attention weights or shares, which lie between 0 and 1."""
        return self in (Quantity.WEIGHT, Quantity.SHARE)

    @property
    def unit(self) -> Message:
        """The quantity and its unit, for a colour bar."""
        return Message(f"quantity_{self.value}_unit")

    @property
    def noun(self) -> Message:
        """One value in a word, for the line that names it."""
        return Message(f"quantity_{self.value}_noun")
