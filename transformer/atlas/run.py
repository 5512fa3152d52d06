"""One pass over a corpus: its chunks are summed up one after another, added in order, and made into tables.

A folder that a pass writes holds `heads.parquet`, `pairs.parquet`, `words.parquet`, `examples.parquet` (see `result`)
and `run.json`, which says what the atlas is of.
"""

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Any

import torch

from ..checkpoint.checkpoint import Checkpoint
from ..checkpoint.load import load
from ..checkpoint.ours.folder import load_snapshot
from ..distribution import extra
from ..errors import AtlasError, InputError
from ..runs.concurrency import forward_slot
from . import result
from .corpus import LINES_A_CHUNK, Chunk, Corpus, digest, survey
from .statistics import share_drawn
from .subjects import Subject, subject_of

with extra("atlas"):
    import pyarrow as pa
    import pyarrow.parquet as pq
from .summarise import KEPT, Accumulator, sums_of

RUN = "run.json"

NAMED = 20
"""Lines that run.json names, of those that were left out; the others it counts."""

LINES_A_STEP = 16
"""Lines of a text in memory between two looks at whether to go on."""

SNAPSHOT = "@"
"""Parts a checkpoint's folder from the snapshot of its training, as in `checkpoints/multi30k-en-de@000400`."""

Progress = Callable[[int, int], None]
"""Told how many lines are done, and how many there are."""

Parts = Iterator[tuple[Chunk, Accumulator]]
"""Each chunk with its sums, in order."""


def make_atlas(
    folder: Path,
    corpus: Corpus,
    out: Path,
    *,
    examples: Corpus | None = None,
    chunk: int = LINES_A_CHUNK,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run a checkpoint over a corpus and write the atlas; returns run.json.

    `folder` is a checkpoint (`NAME@UPDATE` is a snapshot of its training), `out` a new folder, `examples` a text to
    take the example sentences from, instead of the corpus.

    Raises:
        AtlasError: the folder holds something.
        CheckpointError: the checkpoint cannot be loaded.
        InputError: the corpus is refused, or a file cannot be read.
        OSError: a file cannot be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise AtlasError("atlas_not_empty", folder=str(out))
    checkpoint = opened(str(folder))
    if not checkpoint.translates and corpus.target is not None:
        raise InputError("atlas_needs_no_target", name=checkpoint.name)
    making = Making(checkpoint, corpus)
    n_lines, found = making.looked.lines, making.found
    total = n_lines + (0 if examples is None else survey(checkpoint, examples).lines)
    chunks: Iterable[Chunk] = corpus.chunks(chunk, shows=examples is None, drawn=share_drawn(n_lines))
    if examples is not None:
        chunks = chain(chunks, examples.chunks(chunk, ceil(n_lines / chunk), measured=False))
    done, about = 0, dict[str, Any](checkpoint=folder.name, weights_sha256=weights_digest(checkpoint))
    for which, each in (("", corpus), ("examples_", examples)):
        for name, path in ({} if each is None else each.files).items():
            about |= {f"{which}{name}": path.name, f"{which}{name}_sha256": digest(path)}
    for some, part in _computed(making.subject, chunks):
        found.add(part, KEPT)
        done += len(some.lines)
        if progress:
            progress(done, total)
    tables, outcome = making.tables()
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        path = out / f"{name}.parquet"
        pq.write_table(table.replace_schema_metadata({}), path, compression="zstd")  # nothing says when
    whole = outcome | about | {
        "skipped": dict(sorted(Counter(code for _, code, _ in found.skipped).items())),
        "skipped_lines": outcome["skipped_lines"][:NAMED],
        "versions": {"Python": platform.python_version()}
        | {name: version(name) for name in ("torch", "numpy", "pyarrow")},
    }  # fmt: skip
    (out / RUN).write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return whole


class Making:
    """An atlas on its way: what a survey `looked` at, the sums that were `found` so far, and the tables of them."""

    def __init__(self, checkpoint: Checkpoint, corpus: Corpus) -> None:
        self.looked = survey(checkpoint, corpus)
        self.total, self.found = self.looked.lines, Accumulator()
        self.subject = subject_of(checkpoint, self.looked.counts)
        self._checkpoint, self._corpus = checkpoint.name, corpus

    def steps(self) -> Iterator[int]:
        """Measure a text in memory, a few lines at a time, and say after each step how many lines that were."""
        for chunk in self._corpus.chunks(LINES_A_STEP):
            with forward_slot():
                self.found.add(sums_of(self.subject, chunk), KEPT)
            yield len(chunk.lines)

    def tables(self) -> tuple[dict[str, pa.Table], dict[str, Any]]:
        """The four tables (see `result`) of what was done, and what `run.json` says of them.

        That is the names of checkpoint and files, counts, lines that were left out, and notes.

        Raises:
            InputError: no line could be run.
        """
        found, skipped = self.found, self.found.skipped
        if not found.counts.get("sentences"):
            raise InputError("atlas_no_line", path=str(self._corpus.source), reason=skipped[0][2])
        about = {"checkpoint": self._checkpoint, **{side: path.name for side, path in self._corpus.files.items()}}
        heads = result.heads_table(found)
        tables = {"heads": heads, "pairs": result.pairs_table(found)}
        tables["words"] = result.words_table(found, self.subject.tokens)
        tables["examples"] = result.examples_table(found, heads)
        return tables, about | {
            "counts": dict(found.counts) | {"skipped": len(skipped)},
            "skipped_lines": [{"line": line + 1, "reason": reason} for line, _, reason in skipped],
            "notes": [{"code": code, "fields": fields} for code, fields in self.looked.notes],
        }


def opened(path: str) -> Checkpoint:
    """The checkpoint at a path, or after an `@` the snapshot of its training."""
    whole = Path(path)
    name, at, snapshot = whole.name.rpartition(SNAPSHOT)
    if not at or whole.exists():
        return load(whole)
    folder = whole.with_name(name)
    return load_snapshot(load(folder), folder / "history" / f"{snapshot}.safetensors")


def weights_digest(checkpoint: Checkpoint) -> str:
    """The SHA-256 of all weights with their names."""
    total = hashlib.sha256()
    for name, tensor in sorted(checkpoint.model.state_dict().items()):
        total.update(name.encode() + tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def _computed(subject: Subject, chunks: Iterable[Chunk]) -> Parts:
    """With one thread, as everywhere the same; gives the threads back afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for chunk in chunks:
            yield chunk, sums_of(subject, chunk)
    finally:
        torch.set_num_threads(threads)
