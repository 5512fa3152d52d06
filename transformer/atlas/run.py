"""One pass over a corpus, from its files to the tables of an atlas; it can be stopped anywhere and goes on from there.

The folder holds `run.json` (what the run is of, and at its end what came of it), `parts/part-00042.npz` for each
finished chunk, and at the end `heads.parquet`, `pairs.parquet`, `words.parquet` and `examples.parquet` (see `result`).
"""

import json
import platform
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Any

from transformer.atlas import result, tables
from transformer.atlas.accumulators import Accumulator
from transformer.atlas.adapters import subject_of
from transformer.atlas.corpus import LINES_A_CHUNK, Chunk, Corpus, digest
from transformer.atlas.corpus_stats import Survey, survey
from transformer.atlas.executors import Executor
from transformer.atlas.looks import share_drawn
from transformer.atlas.summarise import KEPT, Plan, digest_of, opened
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import AtlasError, InputError
from transformer.explain.attribution.gold import gold_alignments
from transformer.runs.measures.alignment_error import Rates, alignment_errors

FORMAT = 3
"""Counts up when parts or results mean something else than before, so that old parts are not added to new ones."""

RUN, PARTS = "run.json", "parts"
OUTCOME = frozenset({"finished", "linked", "counts", "skipped", "skipped_lines", "notes", "versions"})
"""What run.json says of the end of a run; the rest is what makes it this run."""

NAMED = 20
"""Lines that run.json names, of those that were left out; the others it counts."""

ATTEMPTS = 3
"""How often workers may die one after the other before a part is finished."""

Progress = Callable[[int, int], None]
"""Told how many lines are done, and how many there are."""


@dataclass(frozen=True)
class Links:
    """Sentence pairs whose words people have linked: a folder for `gold_alignments`, the endings of its texts."""

    folder: Path
    source: str = "en"
    target: str = "de"

    @property
    def files(self) -> tuple[Path, ...]:
        """All that is read of the folder."""
        names = f"sentences.{self.source}", f"sentences.{self.target}", "links.txt"
        return tuple(self.folder / name for name in names)


@dataclass(frozen=True)
class Request:
    """What is asked for: a checkpoint (`NAME@UPDATE` is a snapshot of its training), a corpus, a folder.

    `examples` is a text to take the example sentences from, instead of the corpus; `texts` says whether they are
    written down, or only where they stand; heads of cross-attention get alignment error rates against `links`.
    """

    checkpoint: Path
    corpus: Corpus
    out: Path
    examples: Corpus | None = None
    texts: bool = True
    chunk: int = LINES_A_CHUNK
    links: Links | None = None


def make_atlas(request: Request, executor: Executor, progress: Progress | None = None) -> dict[str, Any]:
    """Run a checkpoint over a corpus, as far as that was not done before, and write the atlas; returns run.json.

    Raises:
        AtlasError: the folder holds another run or something else, or the workers are lost.
        CheckpointError: the checkpoint cannot be loaded.
        InputError: the corpus or the links are refused, or a file cannot be read or written.
    """
    checkpoint = opened(str(request.checkpoint))
    _check_kind(checkpoint, request)
    rates = (None, 0) if request.links is None else _rates(checkpoint, request.links)
    looked = survey(checkpoint, request.corpus)
    others = None if request.examples is None else survey(checkpoint, request.examples)
    about = identity(request)
    run = sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
    claim(request.out, about)
    plan = Plan(str(request.checkpoint.resolve()), about["checkpoint_sha256"], looked.counts)
    total = looked.lines + (0 if others is None else others.lines)
    n_chunks = ceil(looked.lines / request.chunk) + (0 if others is None else ceil(others.lines / request.chunk))
    missing = set(range(n_chunks))
    done = 0
    for chunk in _chunks(request, looked):
        if tables.read_part(_part(request.out, chunk.index), run) is not None:
            missing.remove(chunk.index)
            done += len(chunk.lines)
    if progress:
        progress(done, total)
    deaths = 0
    while missing:
        before = len(missing)
        wanted = (chunk for chunk in _chunks(request, looked) if chunk.index in missing)
        try:
            for chunk, part in executor.parts(plan, run, wanted):
                tables.write_aside(_part(request.out, chunk.index), part)
                missing.remove(chunk.index)
                done += len(chunk.lines)
                if progress:
                    progress(done, total)
        except BrokenProcessPool as error:
            deaths = deaths + 1 if len(missing) == before else 1
            if deaths == ATTEMPTS:
                raise AtlasError("atlas_worker_dies", times=ATTEMPTS) from error
    found = merged(request.out, run, n_chunks)
    return write(request, about, looked, found, result.Beside(subject_of(checkpoint, looked.counts).tokens, *rates))


def identity(request: Request) -> dict[str, Any]:
    """What makes a run this run and no other: hashes of what goes in, and options that change what comes out."""
    found: dict[str, Any] = {
        "format": FORMAT,
        "checkpoint": request.checkpoint.name,
        "checkpoint_sha256": digest_of(str(request.checkpoint)),
        "lines_a_chunk": request.chunk,
        "texts": request.texts,
    }
    corpora = {"": request.corpus} | ({} if request.examples is None else {"examples_": request.examples})
    for which, corpus in corpora.items():
        for name, path in corpus.files.items():
            found |= {f"{which}{name}": path.name, f"{which}{name}_sha256": digest(path)}
    if request.links is not None:
        found["links_sha256"] = [digest(path) for path in request.links.files]
    return found


def claim(out: Path, about: dict[str, Any]) -> None:
    """Make a folder this run's, if it is new or is this run's already.

    Raises:
        AtlasError: it holds another run, or files that are no run at all.
        InputError: it cannot be written.
    """
    file = out / RUN
    if file.is_file():
        try:
            before = json.loads(file.read_text(encoding="utf-8"))
            deciding = (about.keys() | before.keys()) - OUTCOME
            other = sorted(name for name in deciding if before.get(name) != about.get(name))
        except (OSError, ValueError, AttributeError):
            other = [RUN]
        if other:
            raise AtlasError("atlas_other_run", folder=str(out), differs=tuple(other))
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise AtlasError("atlas_not_empty", folder=str(out))
    tables.write_aside(file, _json(about | {"finished": False}))


def merged(out: Path, run: str, n_chunks: int) -> Accumulator:
    """All parts, added up in the order of the chunks.

    Raises:
        AtlasError: one is missing.
    """
    found = Accumulator()
    for index in range(n_chunks):
        part = tables.read_part(_part(out, index), run)
        if part is None:
            raise AtlasError("atlas_part_missing", path=str(_part(out, index)))
        found.add(part, KEPT)
    return found


def write(
    request: Request, about: dict[str, Any], looked: Survey, found: Accumulator, beside: result.Beside
) -> dict[str, Any]:
    """The tables, and last of all run.json.

    Raises:
        InputError: no line could be read, or a file cannot be written.
    """
    outcome = result.outcome_of(found, looked.notes, str(request.corpus.source))
    for name, table in result.tables_of(found, beside, request.texts).items():
        tables.write_aside(request.out / f"{name}.parquet", tables.table_bytes(table))
    whole = about | outcome | {
        "finished": True,
        "skipped": dict(sorted(Counter(code for _, code, _ in found.skipped).items())),
        "skipped_lines": outcome["skipped_lines"][:NAMED],
        "versions": {"Python": platform.python_version()}
        | {name: version(name) for name in ("torch", "numpy", "pyarrow")},
    }  # fmt: skip
    if beside.linked:
        whole["linked"] = beside.linked
    tables.write_aside(request.out / RUN, _json(whole))
    return whole


def _chunks(request: Request, looked: Survey) -> Iterator[Chunk]:
    """The chunks of the corpus, then those of the text that examples come from."""
    own = request.corpus.chunks(request.chunk, shows=request.examples is None, drawn=share_drawn(looked.lines))
    if request.examples is None:
        return own
    start = ceil(looked.lines / request.chunk)
    return chain(own, request.examples.chunks(request.chunk, start, measured=False))


def _part(out: Path, index: int) -> Path:
    return out / PARTS / f"part-{index:05d}.npz"


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def _rates(checkpoint: Checkpoint, links: Links) -> tuple[Rates, int]:
    """Of the weights alone, and of how many sentences; at once, not after hours, if the links cannot be read."""
    gold = gold_alignments(links.folder, links.source, links.target)
    return alignment_errors(checkpoint, gold, only=("weights",)), len(gold)


def _check_kind(checkpoint: Checkpoint, request: Request) -> None:
    """Refuse targets and links for a model that writes no translation."""
    if not checkpoint.translates and (request.corpus.target is not None or request.links is not None):
        raise InputError("atlas_needs_no_target", name=checkpoint.name)
