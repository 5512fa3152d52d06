"""The queries and keys of one head over many sentences, made comparable and laid into one plane.

What a head's weights leave open is used to bring queries and keys together, and changes no weight: all keys may be
moved by one vector (it adds one number to each row of scores), and queries may be stretched while keys are shrunk.
So keys get the queries' usual length and their centre. Then both go through one PCA. Source: Yeh et al. 2023,
"AttentionViz"; the factor is the one that equalises the lengths, the square root of keys' over queries'.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from transformer.atlas.adapters import Counts, Reading, TranslatorSubject
from transformer.atlas.maps import batch_weights
from transformer.atlas.summarise import batches
from transformer.atlas.vocabulary import Vocabulary
from transformer.attention.softmax_inputs import AttentionInputs
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import AtlasError, CheckpointError, InputError
from transformer.sites import Site

MOST_POINTS = 10_000
"""Queries and keys together; sentences beyond are left out."""

CLASSES = ("special", "punctuation", "number", "first_piece", "piece")
"""What a token can be: the first of these that it is; `piece` is what goes on with a word."""


@dataclass(frozen=True, eq=False)
class Spoken:
    """One sentence of the plane: the tokens of its queries and keys, and the weights between them (rows sum to 1).

    A decoder's query is called after the token that it writes, as in a record; its keys after the tokens it has read.
    """

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: Float[np.ndarray, "query key"]


@dataclass(frozen=True, eq=False)
class Vectors:
    """All queries and keys of a head, sentence after sentence; `classes` are places in `CLASSES`.

    `query` and `key` hold the vectors as the softmax gets them, its `scale` apart.
    """

    sentences: tuple[Spoken, ...]
    query: Float[np.ndarray, "query d_k"]
    key: Float[np.ndarray, "key d_k"]
    query_classes: Int[np.ndarray, " query"]
    key_classes: Int[np.ndarray, " key"]
    scale: float


@dataclass(frozen=True, eq=False)
class Plane:
    """Places of queries and keys in one plane, and the share (0 to 1) of all their variance that its axes hold."""

    query: Float[np.ndarray, "query 2"]
    key: Float[np.ndarray, "key 2"]
    shares: tuple[float, float]


def vectors(checkpoint: Checkpoint, site: Site, head: int, pairs: Sequence[tuple[str, str]]) -> Vectors:
    """The queries and keys of one head while a translator reads sentences, with their translations forced.

    Raises:
        CheckpointError: the checkpoint does not translate.
        AtlasError: this attention's scores are not the products of queries and keys alone.
        InputError: a sentence cannot be run, or there is none.
    """
    if not checkpoint.translates:
        raise CheckpointError("atlas_match_translators", name=checkpoint.name)
    if not pairs:
        raise InputError("atlas_match_nothing")
    subject = TranslatorSubject(checkpoint, Counts())
    readings = [subject.read(i, source, target) for i, (source, target) in enumerate(pairs)]
    found: dict[int, tuple[Spoken, np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = {}
    scale = 1.0
    with torch.inference_mode():
        for batch in batches(_few_enough(readings), subject.mixed):
            seen, _, _ = subject.recorded(batch)
            kept = seen.source(site)
            if not isinstance(kept, AttentionInputs) or kept.bias is not None:
                raise AtlasError("atlas_no_vectors", site=str(site))
            weights, scale = batch_weights(kept)[:, head], kept.scale
            shared = kept.n_heads // kept.k.shape[1]  # grouped queries: Ainslie et al. 2023
            for i, reading in enumerate(batch):
                sides = _sides(subject, site, reading)
                n_queries, n_keys = (len(labels) for labels, _ in sides)
                spoken = Spoken(sides[0][0], sides[1][0], weights[i, :n_queries, :n_keys].numpy())
                q, k = kept.q[i, head, :n_queries], kept.k[i, head // shared, :n_keys]
                found[reading.number] = spoken, q.float().numpy(), k.float().numpy(), sides[0][1], sides[1][1]
    ordered = [found[number] for number in sorted(found)]
    query, key, query_classes, key_classes = (np.concatenate([one[i] for one in ordered]) for i in range(1, 5))
    return Vectors(tuple(one[0] for one in ordered), query, key, query_classes, key_classes, scale)


def comparable(
    query: Float[np.ndarray, "query d_k"], key: Float[np.ndarray, "key d_k"]
) -> tuple[Float[np.ndarray, "query d_k"], Float[np.ndarray, "key d_k"]]:
    """Queries and keys with one usual length and one centre; every softmax over keys has the weights that it had."""
    lengths = [float(np.median(np.linalg.norm(side, axis=1))) for side in (query, key)]
    factor = np.sqrt(lengths[1] / lengths[0]) if min(lengths) > 0 else 1.0
    queries, keys = query.astype(np.float64) * factor, key.astype(np.float64) / factor
    return queries, keys + queries.mean(axis=0) - keys.mean(axis=0)


def plane(found: Vectors) -> Plane:
    """Both sides in the plane of their largest common variance; each axis has its largest loading positive."""
    queries, keys = comparable(found.query, found.key)
    both = np.concatenate([queries, keys])
    both = both - both.mean(axis=0)
    values, axes = np.linalg.eigh(both.T @ both)
    top = np.argsort(-values, kind="stable")[:2]
    chosen = axes[:, top]
    strongest = np.abs(chosen).argmax(axis=0)
    chosen = chosen * np.where(chosen[strongest, np.arange(chosen.shape[1])] < 0, -1, 1)
    places = both @ chosen
    whole = max(float(values.clip(min=0).sum()), np.finfo(float).tiny)
    first, second = (float(max(values[i], 0.0)) / whole for i in top)
    return Plane(places[: len(queries)], places[len(queries) :], (first, second))


def _few_enough(readings: Sequence[Reading]) -> list[Reading]:
    """The first readings whose positions are no more than what is drawn; both sides of one are at most its tokens."""
    kept: list[Reading] = []
    points = 0
    for reading in readings:
        points += 2 * max(reading.size)
        if kept and points > MOST_POINTS:
            break
        kept.append(reading)
    return kept


def _sides(
    subject: TranslatorSubject, site: Site, reading: Reading
) -> tuple[tuple[tuple[str, ...], np.ndarray], tuple[tuple[str, ...], np.ndarray]]:
    """The tokens of queries and keys, and what each is."""
    read = (subject.model.config.bos_id, *reading.target[:-1])
    queries = (subject.reader, reading.source) if site.stack == "encoder" else (subject.writer, reading.target)
    keys = (subject.writer, read) if site.group == "decoder.self" else (subject.reader, reading.source)
    first, second = (_named(*side) for side in (queries, keys))
    return first, second


def _named(vocabulary: Vocabulary, ids: Sequence[int]) -> tuple[tuple[str, ...], Int[np.ndarray, " token"]]:
    row = torch.tensor([ids])
    marks, _ = vocabulary.classes(row, torch.ones_like(row, dtype=torch.bool))
    table = torch.stack([marks[name][0] for name in CLASSES[:-1]] + [torch.ones(len(ids), dtype=torch.bool)])
    return tuple(vocabulary.tokenizer.labels(ids)), table.int().argmax(0).numpy()
