"""Deletion: what the written tokens lose when one part of the input is not there. The others are measured against it.

For each source word j: log p(y_t | x, y_<t) - log p(y_t | x without j, y_<t), teacher forced, in nats. Positive: the
word spoke for the token. Three ways to be without: hidden from every attention, replaced by the unknown token, or taken
out and all read again. Source: Zeiler and Fergus 2014, section 4.2 (occlusion); Li et al. 2016, "Understanding neural
networks through representation erasure".
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transformer.errors import NotDefinedError
from transformer.explain.attribution.result import Attribution, causal_visible, groups, summed
from transformer.explain.attribution.scored_sequence import POSITIONS_AT_ONCE, ScoredSequence
from transformer.messages import Message
from transformer.plots.quantity import Quantity

How = Literal["hidden", "unknown", "removed"]
"""How a part is not there: hidden from every attention, replaced by the unknown token, or taken out and read again."""

Progress = Callable[[float], None]
"""Told what share of the work is done, from 0 to 1; it may raise to stop."""


def untold(done: float) -> None:
    """Nobody asks how much is done."""


PARTS_AT_ONCE = 64
"""Most parts that are taken away between two reports of progress; of long texts fewer."""


def deletion(
    sequence: ScoredSequence,
    how: How = "hidden",
    words: bool = False,
    prefix: bool = True,
    progress: Progress | None = None,
) -> Attribution:
    """What each written token loses without each source token, and without each token of the target prefix.

    `words` takes all pieces of a word away together, and adds up the log-probabilities of a written word's pieces: the
    exact loss of words, which no sum over pieces gives. `prefix=False` leaves the prefix out. Taking out and reading
    again moves every later position, so it is done to the source alone. Costs one run a part, in batches.

    A hidden token is no key any more; at its own position the model still holds it, so the step that read it last loses
    only what attention gave. A step loses exactly 0 with what it had not read yet, and with an unknown token that is
    replaced by itself. Where nothing would be left to read, the column is not visible.

    Raises:
        AttributionError: the model reads its source in order, so hiding does not take a word away; the vocabulary has
            no unknown token; or there is no source to take words out of.
    """
    _check(sequence, how, prefix)
    source_parts = groups(sequence.source, words)
    with_prefix = prefix and how != "removed"
    read_parts = groups(sequence.read, words) if with_prefix else []
    parts: list[tuple[list[int], list[int]]] = [(list(part), []) for part in source_parts] + [
        ([], list(part)) for part in read_parts
    ]
    rows, found = [([], []), *parts], []  # the first is the whole
    size = max(1, min(PARTS_AT_ONCE, 2 * POSITIONS_AT_ONCE // (len(sequence.source_ids) + len(sequence.read_ids))))
    for start in range(0, len(rows), size):
        found.append(_without(sequence, how, rows[start : start + size]))
        if progress:
            progress(min(1.0, (start + size) / len(rows)))
    log_probs = torch.cat(found)
    lost = (log_probs[:1] - log_probs[1:]).T.numpy()  # (step, part)
    axis = sequence.read if with_prefix else sequence.read.kept(())
    seen = causal_visible(len(sequence.written), len(sequence.source), len(axis))
    shifted = [[i + len(sequence.source) for i in part] for part in read_parts]
    visible = summed(seen, [*source_parts, *shifted], 1) > 0  # (step, part)
    lost = np.where(visible & _changes(sequence, how, parts), lost, 0.0)  # not what rounding left of it
    if words:
        steps = groups(sequence.written, words)
        lost, visible = summed(lost, steps, 0), summed(visible, steps, 0) > 0
    if how == "removed":  # of a source that is one word nothing would be left
        visible &= [len(part) < len(sequence.source_ids) for part in source_parts]
    notes = [Message(f"note_deletion_{how}")]
    notes += [Message("note_deletion_prefix")] if with_prefix and how == "hidden" else []
    notes += [Message("note_deletion_words")] if words else []
    return Attribution(
        method="deletion" if how == "hidden" else f"deletion_{how}",
        steps=sequence.written.merged() if words else sequence.written,
        source=sequence.source.merged() if words else sequence.source,
        prefix=axis.merged() if words else axis,
        values=lost,
        visible=visible,
        quantity=Quantity.LOG_PROB_LOST,
        notes=tuple(notes),
    )


def without(
    sequence: ScoredSequence,
    how: How,
    hidden: Sequence[Sequence[int]],
    wanted: Bool[Tensor, "row target"] | None = None,
) -> Float[Tensor, "row target"]:
    """Log-probabilities (nats) of the written tokens without some source positions, once for each list of positions.

    NaN where nothing would be left to read, and where `wanted` is given and False.

    Raises:
        AttributionError: as `deletion`.
    """
    _check(sequence, how, prefix=False)
    return _without(sequence, how, [(list(positions), []) for positions in hidden], wanted)


def _check(sequence: ScoredSequence, how: How, prefix: bool) -> None:
    if how == "hidden" and not sequence.abilities.hides:
        raise NotDefinedError("attribution_cannot_hide", name=sequence.name)
    if how == "removed" and not sequence.source_ids:
        raise NotDefinedError("attribution_no_source_to_cut", name=sequence.name)
    needed = (sequence.unknown_source_id,) if sequence.source_ids else ()
    needed = (*needed, sequence.unknown_target_id) if prefix else needed
    if how == "unknown" and min(needed) < 0:
        raise NotDefinedError("attribution_no_unknown", name=sequence.name)


def _without(
    sequence: ScoredSequence,
    how: How,
    parts: Sequence[tuple[list[int], list[int]]],
    wanted: Bool[Tensor, "part target"] | None = None,
) -> Float[Tensor, "part target"]:
    """Log-probabilities without each part, which is a list of source positions and one of prefix positions."""
    n_source, n_read = len(sequence.source_ids), len(sequence.read_ids)
    if how == "hidden":
        shown, shown_read = torch.ones(len(parts), n_source).bool(), torch.ones(len(parts), n_read).bool()
        for row, (source, read) in enumerate(parts):
            shown[row, source], shown_read[row, read] = False, False
        sources: list[Sequence[int]] = [sequence.source_ids] * len(parts)
        reads: list[Sequence[int]] = [sequence.read_ids] * len(parts)
        return sequence.log_probs(sources, reads, shown, shown_read, wanted)
    if how == "unknown":
        sources = [_replaced(sequence.source_ids, source, sequence.unknown_source_id) for source, _ in parts]
        reads = [_replaced(sequence.read_ids, read, sequence.unknown_target_id) for _, read in parts]
        return sequence.log_probs(sources, reads, wanted=wanted)
    by_length: dict[int, list[int]] = defaultdict(list)
    for row, (source, _) in enumerate(parts):
        by_length[n_source - len(source)].append(row)
    found = torch.full((len(parts), n_read), torch.nan, dtype=torch.float64)
    for length, rows in by_length.items():
        if length:
            left = [[id_ for i, id_ in enumerate(sequence.source_ids) if i not in parts[row][0]] for row in rows]
            asked = None if wanted is None else wanted[rows]
            found[rows] = sequence.log_probs(left, [sequence.read_ids] * len(rows), wanted=asked)
    return found


def _changes(
    sequence: ScoredSequence, how: How, parts: Sequence[tuple[list[int], list[int]]]
) -> Bool[np.ndarray, " part"]:
    """Whether to be without a part changes what is read: an unknown token that replaces itself changes nothing."""
    if how != "unknown":
        return np.ones(len(parts), dtype=bool)
    known = [i != sequence.unknown_source_id for i in sequence.source_ids]
    known_read = [i != sequence.unknown_target_id for i in sequence.read_ids]
    return np.array([any(known[i] for i in a) or any(known_read[i] for i in b) for a, b in parts], dtype=bool)


def _replaced(ids: Sequence[int], positions: Sequence[int], by: int) -> list[int]:
    return [by if i in positions else id_ for i, id_ in enumerate(ids)]
