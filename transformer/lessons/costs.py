"""What an encoder costs, counted from its config: how far apart words are, what must wait, how much is multiplied.

Source: Vaswani et al. 2017, table 1 (self-attention and recurrent layers), here with every constant: a layer of self-
attention is counted with its feed-forward net, a gated recurrent layer with its three gates (Cho et al. 2014).
"""

from dataclasses import dataclass
from typing import Any

from ..errors import CheckpointError


@dataclass(frozen=True)
class EncoderCosts:
    """One kind of encoder. Multiply-adds of a layer are `square` n^2 + `linear` n for n tokens, biases left out.

    `recurrent` says whether a position waits for the one before it.
    """

    recurrent: bool
    layers: int
    square: int
    linear: int
    formula: str

    def multiply_adds(self, tokens: int) -> int:
        """Products that one layer (of a recurrent encoder: all of them, which differ) computes and adds up."""
        return self.square * tokens * tokens + self.linear * tokens

    def path_length(self, tokens: int) -> int:
        """Steps from the first source word to the last within a layer: 1 by attention, one a word by recurrence."""
        return tokens - 1 if self.recurrent else min(1, tokens - 1)

    def sequential_steps(self, tokens: int) -> int:
        """Steps of the whole encoder that must wait for each other; what a layer does at once counts as one."""
        return self.layers * tokens if self.recurrent else self.layers


def costs_of(model: Any, name: str) -> EncoderCosts:
    """The costs of the encoder of a checkpoint called `name`.

    Self-attention multiplies n d h (2 d_k + 2 d_v) for queries, keys, values and output, n^2 h (d_k + d_v) for scores
    and mixing, and 2 n d d_ff in the feed-forward net. A recurrent layer multiplies 3 n (d_embedding hidden + hidden^2)
    in each direction, and 4 n of them where it is an LSTM's; a further layer reads what all directions found.

    Raises:
        CheckpointError: it is neither a Transformer nor a recurrent encoder-decoder.
    """
    config = model.config
    if model.abilities.recurrent:
        hidden, gates = config.read_size, 3 if config.cell == "gru" else 4
        directions, layers = 2 if config.encoder.bidirectional else 1, config.encoder_layers
        reads = [config.embedding_size, *[directions * hidden] * (layers - 1)]
        linear = directions * gates * sum(size * hidden + hidden * hidden for size in reads)
        both = "2 · " if config.encoder.bidirectional else ""
        formula = " + ".join(f"{both}{gates}n ({size}·{hidden} + {hidden}²)" for size in reads)
        return EncoderCosts(True, layers, 0, linear, formula)
    if not (model.abilities.translates and model.abilities.blocks):
        raise CheckpointError("lesson_no_encoder_decoder", name=name)
    d_model, d_ff, heads = config.block.d_model, config.block.d_ff, config.block.attention
    wide = heads.n_heads * sum(heads.head_sizes(d_model))
    linear = 2 * d_model * wide + 2 * d_model * d_ff
    formula = f"{wide} n² + n (2·{d_model}·{wide} + 2·{d_model}·{d_ff})"
    return EncoderCosts(False, config.n_encoder_layers, wide, linear, formula)


def crossing(first: EncoderCosts, second: EncoderCosts) -> int | None:
    """The first length from which the order of the two changes: the layer that was cheaper at one token is dearer.

    None where that never happens.
    """
    square, linear = first.square - second.square, first.linear - second.linear
    if square < 0:
        square, linear = -square, -linear
    if not square or linear >= -square:  # one of them is dearer at every length
        return None
    return -linear // square + 1
