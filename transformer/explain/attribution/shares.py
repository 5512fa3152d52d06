"""Rows as shares of a whole, and how shares of single layers become shares of the input: the roll-out.

A decoder layer passes on what its positions held (by its own attention and residual) and adds what it takes from the
source. Source: Abnar and Zuidema 2020, section 3 (later layers multiply from the left); Ferrando et al. 2022, section
3.3 (encoder-decoder).
"""

from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Bool, Float


def normalise_rows(
    x: Float[np.ndarray, "row part"], visible: Bool[np.ndarray, "row part"] | None = None
) -> Float[np.ndarray, "row part"]:
    """Each row over its sum. A row that sees one part has that alone; any other that got nothing is NaN."""
    sums = x.sum(-1, keepdims=True)
    found = np.divide(x, sums, out=np.full_like(x, np.nan), where=sums != 0)
    if visible is not None:
        found[~visible] = 0.0
        alone = (visible.sum(-1) == 1) & ~np.isnan(sums[:, 0])
        found[alone] = visible[alone]
    return found


def residual_at_last_read(table: Float[np.ndarray, "step source_and_residual"]) -> Float[np.ndarray, "step part"]:
    """The last column, which is what the decoder carried, at the token of the prefix that each step read last."""
    return np.concatenate([table[:, :-1], np.diag(table[:, -1])], axis=1)


def compose_layers(
    layers: Iterable[Float[np.ndarray, "position position"]], n: int
) -> Float[np.ndarray, "position position"]:
    """What each position holds of each position of the input after all `layers`, in the order in which they run."""
    held = np.eye(n)
    for layer in layers:
        held = layer @ held
    return held


def compose_decoder_layers(
    layers: Iterator[tuple[Float[np.ndarray, "target target"], Float[np.ndarray, "target source_and_residual"]]],
    encoder: Float[np.ndarray, "source source"],
    n: int,
) -> Float[np.ndarray, "target part"]:
    """What each target position holds of each source token, then of each token of the prefix, after all `layers`.

    A layer is what its self-attention and what its cross-attention pass on; the latter's last column is the residual.
    Rows sum to 1 where those of the layers do.
    """
    of_source, of_prefix = np.zeros((n, len(encoder))), np.eye(n)
    for own, cross in layers:
        kept = cross[:, -1:] * own
        of_source = kept @ of_source + cross[:, :-1] @ encoder
        of_prefix = kept @ of_prefix
    return np.concatenate([of_source, of_prefix], axis=1)
