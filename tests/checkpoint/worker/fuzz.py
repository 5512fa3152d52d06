"""Use mutated tokenizers and folders, five texts each, as the server does: `python -m tests.checkpoint.worker.fuzz`.

This process stands for the server: it has 4 GB, it must never fail, and what it gets must be a refusal in a sentence or
the ids that the same tokenizer gives in a process of its own. A use that takes more than 20 s is bad, too: of processor
time, which a busy machine does not change, in this process and in its workers.
"""

import argparse
import io
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

from tests.checkpoint.forked import bound_memory, in_a_process
from tests.checkpoint.huggingface.families import TEXT, write_folder
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.checkpoint.huggingface.library import library
from transformer.checkpoint.load import read_folder_tokenizer
from transformer.checkpoint.worker import isolated, vocabularies
from transformer.checkpoint.worker.pool import WORKERS
from transformer.errors import HeedmapError
from transformer.safe.limits import DEFAULT_LIMITS
from transformer.text.base import FolderTokenizer
from transformer.text.text import TextTokenizer, train_tokenizer

SECONDS = 20.0
STUCK_SECONDS = 120.0
"""By the clock, on any machine."""

TEXTS = ("the dog runs", "qqqqqqqq", "x" * 700, "A man,  2 men! 你好 😀", "")
REPORTED = 100


def ids(tokenizer: FolderTokenizer) -> list[list[int]]:
    """What it makes of every text."""
    return [tokenizer.source_ids(text) for text in TEXTS]


@cache
def folders() -> Path:
    """Small folders of three kinds of tokenizers, which mutants are made of."""
    root = Path(tempfile.mkdtemp(prefix="fuzz-"))
    for family in ("gpt2", "bert", "marian"):
        write_folder(root / family, family)
    for family in ("gpt2", "bert"):  # so that the file is what is used, and not a class of the library's
        (root / family / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return root


@cache
def sentencepiece() -> bytes:
    """A small SentencePiece model."""
    return train_tokenizer(TEXT, 61).model


def hostile_steps(draws: Random) -> dict[str, Any]:
    """A part of a tokenizer.json that does much with little."""
    long, letter = draws.choice([10, 1_000, 100_000]), draws.choice("qxa ")
    slow = f"(?:{letter}|{letter}{letter}){{20}}!"
    regex = draws.choice([slow, f"({letter}+)+$", "", "(", ".{0,1000}", r"\s*\S*x\b"])
    replace = {"type": "Replace", "pattern": {"String": letter}, "content": letter * draws.choice([2, 3, long])}
    steps = [replace] * draws.choice([1, 5, 40])
    split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": draws.random() < 0.5}
    prepend = {"type": "Prepend", "prepend": "z" * long}
    return draws.choice(
        [
            {"normalizer": {"type": "Sequence", "normalizers": steps}},
            {"normalizer": {"type": "Sequence", "normalizers": [prepend] * draws.choice([1, 30])}},
            {"normalizer": {"type": "Replace", "pattern": {"Regex": regex}, "content": "z" * long}},
            {"pre_tokenizer": split},
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split] * draws.choice([1, 50])}},
            {"decoder": {"type": "Sequence", "decoders": steps}},
            {"truncation": {"max_length": draws.choice([0, 1, 2**40]), "strategy": "LongestFirst", "stride": 7}},
            {"padding": {"strategy": {"Fixed": draws.choice([7, 10**6, 2**33])}, "pad_id": 0, "pad_token": "x"}},
            {"added_tokens": [{"id": draws.choice([0, 10**9]), "content": letter, "special": True}]},
        ]
    )


def other_numbers(settings: dict[str, Any], draws: Random) -> dict[str, Any]:
    """A config that asks for more, or less, of something."""
    names = sorted(name for name, value in settings.items() if type(value) is int)
    value = draws.choice([0, 1, 7, 100, 1_000, 30_000, 10**6, 2**31, 10**12])
    return {**settings, draws.choice(names): value}


def damaged(data: bytes, draws: Random) -> bytes:
    """Some bytes otherwise, some gone, some twice."""
    found = bytearray(data)
    for _ in range(draws.choice([1, 1, 3, 20])):
        at = draws.randrange(len(found))
        match draws.randrange(4):
            case 0:
                found[at] = draws.randrange(256)
            case 1:
                del found[at : at + draws.randrange(1, 9)]
            case 2:
                found[at:at] = found[at : at + draws.randrange(1, 99)]
            case _:
                found[at] ^= 1 << draws.randrange(8)
        if not found:
            return b"x"
    return bytes(found)


def cases(seed: int, count: int) -> Iterator[tuple[str, Callable[[], list[list[int]]], Callable[[], list[list[int]]]]]:
    """What is tried: its name, the server's way, and the same in the process that calls it."""
    for number in range(count):
        draws = Random(seed * 1_000_003 + number)
        kind = draws.choice(["steps", "steps", "bytes", "model", "model", "zip"])
        if kind == "model":
            data = damaged(sentencepiece(), draws)
            yield f"{kind} {number}", partial(of_model, data), partial(of_model_here, data)
            continue
        family = draws.choice(["gpt2", "bert"] if kind == "steps" else ["gpt2", "bert", "marian"])
        with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
            folder = Path(place) / family
            shutil.copytree(folders() / family, folder)
            inside = draws.choice(["steps", "bytes", "numbers", "whole"]) if kind == "zip" else kind
            if inside == "steps" and (file := folder / "tokenizer.json").is_file():
                file.write_text(json.dumps({**json.loads(file.read_text()), **hostile_steps(draws)}))
            elif inside == "bytes":
                names = sorted(file.name for file in folder.iterdir() if file.suffix in {".json", ".spm", ".txt"})
                file = folder / draws.choice(names)
                file.write_bytes(damaged(file.read_bytes(), draws))
            elif inside == "numbers":
                file = folder / "config.json"
                file.write_text(json.dumps(other_numbers(json.loads(file.read_text()), draws)))
            if kind == "zip":
                data = zipped(folder)
                data = damaged(data, draws) if inside == "whole" else data
                here = list if inside == "whole" else partial(of_zip_here, data)
                yield f"{kind} {number}", partial(of_zip, data), here
            else:
                yield f"{kind} {number}", partial(of_folder, folder), partial(of_folder_here, folder)


def of_model(data: bytes) -> list[list[int]]:
    """With a SentencePiece model in a worker."""
    return ids(vocabularies.sentencepiece(data, "mutated.model", DEFAULT_LIMITS))


def of_model_here(data: bytes) -> list[list[int]]:
    """With a SentencePiece model in this process."""
    return ids(TextTokenizer(data))


def of_folder(folder: Path) -> list[list[int]]:
    """With a folder's tokenizer in a worker."""
    return ids(vocabularies.folder_tokenizer(folder))


def of_folder_here(folder: Path) -> list[list[int]]:
    """With a folder's tokenizer in this process."""
    return ids(read_folder_tokenizer(folder))


def zipped(folder: Path) -> bytes:
    """A folder as a ZIP."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, f"{folder.name}/{file.name}")
    return stream.getvalue()


def of_zip(data: bytes, load: Callable[[Path], Checkpoint] = isolated.load_folder) -> list[list[int]]:
    """Unpack it, load the model in a worker and here, and cut texts."""
    folder = isolated.unpack(io.BytesIO(data), "mutated.zip", lambda _: None)
    try:
        found = load(folder.path)
        return [] if found.tokenizer is None else [found.tokenizer.source_ids(text) for text in TEXTS]
    finally:
        folder.remove()


def of_zip_here(data: bytes) -> list[list[int]]:
    """With a folder's tokenizer in this process."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place, zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(place)
        return of_folder_here(next(Path(place).iterdir()))


def expected_of(here: Callable[[], list[list[int]]]) -> list[list[int]] | None:
    """What the same tokenizer makes of the texts in a process of its own; None where it fails there."""

    def quietly() -> bytes:
        os.dup2(os.open(os.devnull, os.O_RDWR), 2)
        return json.dumps(here()).encode()

    status, data = in_a_process(quietly, int(SECONDS))
    try:
        return json.loads(data) if status == 0 else None
    except ValueError:
        return None


def work() -> float:
    """Seconds of a processor that this process took so far, and those that fork workers, with all of theirs."""
    ticks = 0
    for template in (WORKERS.plain, WORKERS.with_library):
        if template.pid is not None:
            own = Path(f"/proc/{template.pid}")
            workers = (own / f"task/{template.pid}/children").read_text().split()
            ticks += sum(map(int, _times(own)[:4]))  # of its own, and of the workers that ended
            ticks += sum(sum(map(int, _times(Path("/proc") / pid)[:2])) for pid in workers)
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def _times(process: Path) -> list[str]:
    """Of itself for the user and for the system, and of its children."""
    return (process / "stat").read_text().rpartition(")")[2].split()[11:15]


def outcome(there: Callable[[], list[list[int]]], here: Callable[[], list[list[int]]]) -> tuple[str, float]:
    """What became of one case, "bad ..." if that must not be, and how much work it was."""
    start, before = time.monotonic(), work()
    found, end = None, "right ids"
    try:
        found = there()
    except HeedmapError as error:
        end = "refused" if str(error).strip() and not str(error).startswith("Traceback") else "bad: no sentence"
        end = f"bad: {error}" if error.code == "worker_failed" else end
    except Exception:  # noqa: BLE001  (whatever it is, it must be told)
        end = "bad: " + traceback.format_exc()
    taken, worked = time.monotonic() - start, work() - before
    if worked > SECONDS or taken > STUCK_SECONDS:
        end = f"bad: {worked:.1f} s of work, {taken:.0f} s by the clock"
    if found is not None and end == "right ids":
        expected = expected_of(here)
        end = "right ids" if found == expected or not expected else f"bad: {found} instead of {expected}"
    return end, worked


def main() -> None:
    """Count what becomes of so many; exit with 1 if one was bad."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    library()
    bound_memory()
    of_model(sentencepiece()), of_folder(folders() / "gpt2")  # so that both processes that fork workers are there
    ends, longest = Counter[str](), 0.0
    for number, (name, there, here) in enumerate(cases(given.seed, given.count), 1):
        end, worked = outcome(there, here)
        longest = max(longest, worked)
        ends[f"{name.partition(' ')[0]}: {end.partition(':')[0]}"] += 1
        if end.startswith("bad"):
            sys.stdout.write(f"{name}: {end}\n")
        if number % REPORTED == 0 or number == given.count:
            sys.stdout.write(f"{number}: {dict(ends)}, the longest {longest:.1f} s of work\n")
            sys.stdout.flush()
    sys.exit(any("bad" in end for end in ends))


if __name__ == "__main__":
    main()
