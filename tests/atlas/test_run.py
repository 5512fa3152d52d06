"""A pass from files to tables: the same bytes however it was computed, and a sentence for whatever cannot be."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.toy import sentences, write_checkpoint
from transformer.atlas import tables
from transformer.atlas.corpus import Corpus
from transformer.atlas.executors import Dask, Executor, Processes, Serial
from transformer.atlas.run import RUN, Request, make_atlas
from transformer.atlas.summarise import Plan, digest_of
from transformer.errors import AtlasError, CheckpointError, InputError

ROOT = Path(__file__).parents[2]
N_LINES, A_CHUNK = 53, 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random translator, a corpus of `N_LINES` pairs, and its atlas as one process makes it."""
    place = tmp_path_factory.mktemp("atlas")
    write_checkpoint(place / "toy")
    both = sentences(N_LINES, seed=5)
    for name, side in (("a.en", 0), ("a.de", 1)):
        (place / name).write_text("".join(pair[side] + "\n" for pair in both), encoding="utf-8")
    made(place, place / "serial", Serial())
    return place


def request(folder: Path, out: Path, **changes: object) -> Request:
    corpus = Corpus(folder / "a.en", folder / "a.de")
    return Request(**(dict(checkpoint=folder / "toy", corpus=corpus, out=out, chunk=A_CHUNK) | changes))


def made(folder: Path, out: Path, executor: Executor, **changes: object) -> dict[str, Any]:
    return make_atlas(request(folder, out, **changes), executor)


def files(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def test_a_killed_worker_changes_no_byte(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes, of which one is killed as soon as a chunk is done; its chunks are computed again."""
    # Processes begin with the main module, in whose place a page's test may have left its own script.
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    killed: list[int] = []

    def progress(done: int, total: int) -> None:
        if done and not killed:
            victim = multiprocessing.active_children()[0]
            os.kill(victim.pid or 0, signal.SIGKILL)
            victim.join(30)
            killed.append(victim.pid or 0)

    make_atlas(request(folder, tmp_path / "two"), Processes(2), progress)
    assert killed
    assert files(tmp_path / "two") == files(folder / "serial")


class Cluster:
    """A scheduler and workers of one thread, each a process of its own."""

    def __init__(self, place: Path) -> None:
        self.place, self.processes, known = place, list[subprocess.Popen[bytes]](), place / "scheduler.json"
        self._start("distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(known))
        deadline = time.monotonic() + 120
        while not known.exists() or not known.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        self.address = json.loads(known.read_text())["address"]

    def _start(self, *arguments: str) -> None:
        environment = dict(os.environ, PYTHONPATH=str(ROOT), DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="120s")
        command = [sys.executable, "-m", *arguments]
        self.processes.append(subprocess.Popen(command, cwd=self.place, env=environment, stderr=subprocess.DEVNULL))

    def start_workers(self, count: int) -> None:
        """Start so many, and wait until they are there."""
        from distributed import Client

        for _ in range(count):
            self._start("distributed.cli.dask_worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard")
        with Client(self.address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=120)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """One with two workers."""
    found = Cluster(tmp_path)
    try:
        found.start_workers(2)
        yield found
    finally:
        for process in reversed(found.processes):
            process.kill()
            process.wait(30)


@pytest.mark.filterwarnings("default")
def test_a_cluster_makes_the_same_bytes_and_another_goes_on_where_it_is_lost(
    folder: Path, tmp_path: Path, cluster: Cluster, monkeypatch, capfd
) -> None:
    """Every worker, and then the scheduler, is killed after the first chunk: one sentence each time."""
    made(folder, tmp_path / "dask", Dask(cluster.address))
    assert files(tmp_path / "dask") == files(folder / "serial")
    monkeypatch.setattr("transformer.atlas.executors.LOOK_SECONDS", 1.0)
    monkeypatch.setattr("transformer.atlas.executors.PATIENCE_SECONDS", 1.0)
    for code in ("atlas_workers_lost", "atlas_scheduler_lost"):
        killed = cluster.processes[:1] if code == "atlas_scheduler_lost" else cluster.processes[1:]

        def progress(done: int, _total: int, killed: list[subprocess.Popen[bytes]] = killed) -> None:
            for process in killed if done else ():
                process.kill()
                process.wait(30)

        out = tmp_path / code
        with pytest.raises(AtlasError, match="the same command then goes on") as refused:
            make_atlas(request(folder, out), Dask(cluster.address), progress)
        assert cluster.address in str(refused.value)
        assert refused.value.code == code
        assert "Traceback" not in capfd.readouterr().err
        assert 1 <= len(list((out / "parts").iterdir())) < 8
        made(folder, out, Serial())
        assert files(out) == files(folder / "serial")
        if code == "atlas_workers_lost":
            cluster.start_workers(1)


@pytest.mark.filterwarnings("default")
def test_a_scheduler_that_does_not_answer_is_one_sentence(folder: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("transformer.atlas.executors.CONNECT_SECONDS", 1)
    with pytest.raises(AtlasError, match="does not answer"):
        made(folder, tmp_path / "none", Dask("tcp://127.0.0.1:1"))


def test_what_was_stopped_goes_on_and_computes_nothing_twice(folder: Path, tmp_path: Path, monkeypatch) -> None:
    class Stopped(Serial):
        def parts(self, plan, run, chunks):
            for number, part in enumerate(super().parts(plan, run, chunks)):
                if number == 3:
                    raise KeyboardInterrupt
                yield part

    with pytest.raises(KeyboardInterrupt):
        made(folder, tmp_path / "out", Stopped())
    assert json.loads((tmp_path / "out" / RUN).read_text())["finished"] is False
    assert len(list((tmp_path / "out" / "parts").iterdir())) == 3

    asked: list[int] = []

    class Counting(Serial):
        def parts(self, plan, run, chunks):
            for chunk, part in super().parts(plan, run, chunks):
                asked.append(chunk.index)
                yield chunk, part

    (tmp_path / "out" / "parts" / "part-00001.npz").write_bytes(b"damaged")
    made(folder, tmp_path / "out", Counting())
    assert asked == [1, 3, 4, 5, 6, 7]
    assert files(tmp_path / "out") == files(folder / "serial")
    asked.clear()
    made(folder, tmp_path / "out", Counting())
    assert not asked


def test_a_full_disk_leaves_a_folder_that_goes_on(folder: Path, tmp_path: Path, monkeypatch) -> None:
    write, written = Path.write_bytes, []

    def full(path: Path, content: bytes) -> int:
        written.append(path)
        if len(written) == 4:
            write(path, content[:100])
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InputError, match=r"cannot be written \(No space left on device\).*goes on"):
        made(folder, tmp_path / "out", Serial())
    monkeypatch.undo()
    assert not list((tmp_path / "out").rglob("*.new"))
    made(folder, tmp_path / "out", Serial())
    assert files(tmp_path / "out") == files(folder / "serial")


def test_how_lines_are_cut_into_chunks_changes_no_measure(folder: Path, tmp_path: Path) -> None:
    """Chan's merge: the same numbers to rounding, and the same examples."""
    made(folder, tmp_path / "whole", Serial(), chunk=1_000)
    one, other = (pd.read_parquet(place / "heads.parquet") for place in (folder / "serial", tmp_path / "whole"))
    numbers = one.select_dtypes("number").columns
    assert np.allclose(one[numbers], other[numbers], rtol=1e-5, atol=1e-6, equal_nan=True)
    assert one["rows"].equals(other["rows"])
    first, second = (pd.read_parquet(place / "examples.parquet") for place in (folder / "serial", tmp_path / "whole"))
    drawn = [table[table["kind"] == "ordinary"][["line", "source"]].reset_index() for table in (first, second)]
    assert drawn[0].equals(drawn[1])


def test_the_tables_are_what_is_said_of_them(folder: Path) -> None:
    heads, pairs, examples = (
        pd.read_parquet(folder / "serial" / f"{name}.parquet") for name in ("heads", "pairs", "examples")
    )
    assert list(zip(heads["site"], heads["head"], strict=True)) == [
        (site, head) for site in ("encoder.0.self", "decoder.0.self", "decoder.0.cross") for head in (0, 1)
    ]
    assert (heads["sentences"] == N_LINES).all()
    assert np.allclose(heads["effective_keys"], np.exp(heads["entropy"]))
    assert {"previous_chance", "special_spread", "rare", "diagonality", "offsets", "argmax"} <= set(heads.columns)
    assert heads["previous"].isna().tolist() == [False] * 4 + [True] * 2
    assert (heads["special"] - heads["start"] - heads["end"]).abs().max() < 1e-6
    assert len(pairs) == 3
    assert np.allclose(pairs["distance"] ** 2, pairs["divergence"])
    for _, shown in examples.groupby(["site", "head"], sort=False):
        best = shown[shown["kind"] == "best"]
        assert len(best) == 10
        assert best["score"].is_monotonic_decreasing
        assert (shown["kind"] == "ordinary").sum() == 5
    lines = (folder / "a.en").read_text(encoding="utf-8").splitlines()
    assert [lines[line - 1] for line in examples["line"]] == examples["source"].tolist()
    about = json.loads((folder / "serial" / RUN).read_text())
    assert about["counts"] == {
        "lines": N_LINES,
        "sentences": N_LINES,
        "tokens": about["counts"]["tokens"],
        "skipped": 0,
    }
    assert about["finished"]
    assert set(about["versions"]) == {"Python", "torch", "numpy", "pyarrow"}


def test_without_references_the_model_writes_and_without_texts_lines_are_named(
    folder: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("transformer.atlas.vocabulary.TOP", 3)
    made(folder, tmp_path / "own", Serial(), corpus=Corpus(folder / "a.en"), texts=False)
    examples = pd.read_parquet(tmp_path / "own" / "examples.parquet")
    assert examples["source"].isna().all()
    assert examples["line"].between(1, N_LINES).all()
    heads = pd.read_parquet(tmp_path / "own" / "heads.parquet")
    assert heads["rare"].notna().tolist() == [True] * 2 + [False] * 2 + [True] * 2  # no counts of what is written


def test_examples_may_come_from_another_text_which_is_not_measured(folder: Path, tmp_path: Path) -> None:
    ours = "the dog and the cat sleeps.\nthe man and the cat and the bird eats.\n" * 4
    (tmp_path / "ours.en").write_text(ours, encoding="utf-8")
    made(folder, tmp_path / "out", Serial(), examples=Corpus(tmp_path / "ours.en"))
    one, other = (pd.read_parquet(place / "heads.parquet") for place in (folder / "serial", tmp_path / "out"))
    pd.testing.assert_frame_equal(one.drop(columns="shown_by"), other.drop(columns="shown_by"))
    sources = set(pd.read_parquet(tmp_path / "out" / "examples.parquet")["source"])
    assert sources == {"the dog and the cat sleeps.", "the man and the cat and the bird eats."}


def test_broken_lines_are_counted_and_named_and_the_rest_is_measured(folder: Path, tmp_path: Path) -> None:
    good, other = ((folder / name).read_bytes().splitlines() for name in ("a.en", "a.de"))
    good[2], good[11], good[12], good[20] = b"\xff\xfe", b"", b"x" * 1_000_000, b"the dog " * 40
    (tmp_path / "a.en").write_bytes(b"\n".join(good))
    (tmp_path / "a.de").write_bytes(b"\r\n".join(other))
    about = made(folder, tmp_path / "out", Serial(), corpus=Corpus(tmp_path / "a.en", tmp_path / "a.de"))
    assert about["counts"]["sentences"] == N_LINES - 4
    assert about["skipped"] == {
        "atlas_line_bytes": 1, "atlas_line_empty": 1, "atlas_line_long": 1, "atlas_line_tokens": 1,
    }  # fmt: skip
    assert [one["line"] for one in about["skipped_lines"]] == [3, 12, 13, 21]
    assert "not UTF-8" in about["skipped_lines"][0]["reason"]


@pytest.mark.parametrize(
    ("source", "target", "says"),
    [
        (b"", b"", "holds nothing to read"),
        (b"the dog runs.\n" * 3, b"der Hund rennt.\n" * 2, "has 3 lines, .* has 2"),
        (b"the dog runs.\n", b"der Hund rennt.\n" * 4, "has 1 lines, .* has 4"),
        (b"\xff\n\xfe\n", b"a\nb\n", "none of the 2 lines"),
        ("狗在跑步。\n".encode() * 9, b"der Hund.\n" * 9, "unknown to the checkpoint"),
        (b"a" * 1_000_000, b"der Hund.", "none of the 1 lines"),
    ],
)
def test_a_bad_corpus_is_one_sentence(folder: Path, tmp_path: Path, source: bytes, target: bytes, says: str) -> None:
    (tmp_path / "b.en").write_bytes(source)
    (tmp_path / "b.de").write_bytes(target)
    with pytest.raises(InputError, match=says):
        made(folder, tmp_path / "out", Serial(), corpus=Corpus(tmp_path / "b.en", tmp_path / "b.de"))
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_else_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(AtlasError, match=r"holds another run .*lines_a_chunk"):
        made(folder, folder / "serial", Serial(), chunk=A_CHUNK + 1)
    with pytest.raises(AtlasError, match=r"holds another run \(target, target_sha256 differ"):
        made(folder, folder / "serial", Serial(), corpus=Corpus(folder / "a.en"))
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(AtlasError, match="files that are no run"):
        made(folder, tmp_path, Serial())
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_other_weights_at_the_same_path_are_refused_by_a_worker(folder: Path, monkeypatch) -> None:
    plan = Plan(str(folder / "toy"), "0" * 64)
    chunk = next(Corpus(folder / "a.en", folder / "a.de").chunks(3))
    with pytest.raises(CheckpointError, match="another one"):
        list(Serial().parts(plan, "x", [chunk]))


def test_what_decides_a_run_is_in_its_hash_and_nothing_else_is(folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / "toy"
    shutil.copytree(folder / "toy", copied)
    before = digest_of(str(copied))
    assert before == digest_of(str(folder / "toy"))
    (copied / "examples.json").write_text('["the cat eats."]')
    (copied / "notes.json").write_text("{}")
    assert digest_of(str(copied)) == before
    for name in ("config.json", "tokenizer.model", "model.safetensors"):
        content = (copied / name).read_bytes()
        (copied / name).write_bytes(content + b" ")
        assert digest_of(str(copied)) != before
        (copied / name).write_bytes(content)


def test_memory_holds_a_chunk_and_not_the_corpus(folder: Path, tmp_path: Path) -> None:
    """Chunks are asked for one at a time, and a long line is not held whole."""
    corpus = Corpus(folder / "a.en", folder / "a.de")
    taken = corpus.chunks(A_CHUNK)
    assert [len(next(taken).lines) for _ in range(2)] == [A_CHUNK, A_CHUNK]
    (tmp_path / "long").write_bytes(b"x" * 5_000_000 + b"\nshort\n")
    longest, short = (line for line, _ in Corpus(tmp_path / "long").lines())
    assert (len(longest), short) == (10_001, b"short")


def test_a_part_is_read_as_it_was_written(folder: Path) -> None:
    file = folder / "serial" / "parts" / "part-00000.npz"
    with np.load(file) as arrays:
        run = json.loads(arrays["about"].tobytes())["run"]
    part = tables.read_part(file, run)
    assert part is not None
    assert tables.part_of(part, run) == file.read_bytes()
    assert tables.read_part(file, "another run") is None
