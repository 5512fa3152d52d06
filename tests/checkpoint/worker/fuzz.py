"""Use mutated tokenizers and folders, five texts each, as the server does: `python -m tests.checkpoint.worker.fuzz`.

This process stands for the server: it has 4 GB, it must never fail, and what it gets must be a refusal in a sentence or
the ids that the same tokenizer gives in a process of its own. A use that takes more than 20 s is bad, too: of processor
time, which a busy machine does not change, in this process and in its workers.
"""

import io
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

from heedmap.checkpoint.huggingface.library import library
from heedmap.checkpoint.load import read_folder_tokenizer
from heedmap.checkpoint.worker import isolated, remote_tokenizer
from heedmap.checkpoint.worker.pool import WORKERS
from heedmap.errors import HeedmapError
from heedmap.text.tokenizers import TextTokenizer, train_tokenizer
from tests.checkpoint.huggingface.families import TEXT, write_folder
from tests.fuzzing import SECONDS, bound_memory, children, count_ends, damaged, in_a_process, processor_seconds

STUCK_SECONDS = 120.0
"""By the clock, on any machine."""

TEXTS = ("the dog runs", "qqqqqqqq", "x" * 700, "A man,  2 men! 你好 😀", "")
REFUSED, RIGHT = GOOD = "refused", "right ids"

Uses = Callable[[], list[list[int]]]


def ids(read: Callable[..., Any], *given: Any) -> list[list[int]]:
    """What the tokenizer that is read makes of every text."""
    tokenizer = read(*given)
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


def case(draws: Random, kind: str, place: Path) -> tuple[Uses, Uses]:
    """What is tried, with files at a place of its own: the server's way, and the same in the process that calls it."""
    if kind == "model":
        data = damaged(draws, sentencepiece())
        return partial(ids, remote_tokenizer.sentencepiece, data, "mutated.model"), partial(ids, TextTokenizer, data)
    family = draws.choice(["gpt2", "bert"] if kind == "steps" else ["gpt2", "bert", "marian"])
    folder = place / family
    shutil.copytree(folders() / family, folder)
    inside = draws.choice(["steps", "bytes", "numbers", "whole"]) if kind == "zip" else kind
    if inside == "steps" and (file := folder / "tokenizer.json").is_file():
        file.write_text(json.dumps({**json.loads(file.read_text()), **hostile_steps(draws)}))
    elif inside == "bytes":
        file = draws.choice(sorted(file for file in folder.iterdir() if file.suffix in {".json", ".spm", ".txt"}))
        file.write_bytes(damaged(draws, file.read_bytes()))
    elif inside == "numbers":
        file = folder / "config.json"
        file.write_text(json.dumps(other_numbers(json.loads(file.read_text()), draws)))
    if kind != "zip":
        return partial(ids, remote_tokenizer.folder_tokenizer, folder), partial(ids, read_folder_tokenizer, folder)
    data = Path(shutil.make_archive(str(folder), "zip", place, family)).read_bytes()
    data = damaged(draws, data) if inside == "whole" else data
    return partial(of_zip, data), list if inside == "whole" else partial(of_zip_here, data)


def of_zip(data: bytes) -> list[list[int]]:
    """Unpack it, load the model in a worker and here, and cut texts."""
    folder = isolated.unpack(io.BytesIO(data), "mutated.zip", lambda _: None)
    try:
        found = isolated.load_folder(folder.path)
        return [] if found.tokenizer is None else [found.tokenizer.source_ids(text) for text in TEXTS]
    finally:
        folder.remove()


def of_zip_here(data: bytes) -> list[list[int]]:
    """With a folder's tokenizer in this process."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place, zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(place)
        return ids(read_folder_tokenizer, next(Path(place).iterdir()))


def expected_of(here: Uses) -> list[list[int]] | None:
    """What the same tokenizer makes of the texts in a process of its own; None where it fails there."""

    def quietly() -> bytes:
        os.dup2(os.open(os.devnull, os.O_RDWR), 2)
        return json.dumps(here()).encode()

    status, data = in_a_process(quietly, SECONDS)
    try:
        return json.loads(data) if status == 0 else None
    except ValueError:
        return None


def work() -> float:
    """Seconds of a processor that this process took so far, and those that fork workers, with all of theirs."""
    template = WORKERS.template.pid
    processes = [] if template is None else [template, *children(template)]
    ended = 0.0 if template is None else processor_seconds(template, of_ended=True)
    return time.process_time() + ended + sum(map(processor_seconds, processes))


def outcome(number: int) -> tuple[str, str]:
    """The kind of the case of this number, and what became of it."""
    draws = Random(number)
    kind = draws.choice(["steps", "steps", "bytes", "model", "model", "zip"])
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        return kind, end_of(*case(draws, kind, Path(place)))


def end_of(there: Uses, here: Uses) -> str:
    """What became of one case: a good end, or what must not be."""
    start, before = time.monotonic(), work()
    found, end = None, RIGHT
    try:
        found = there()
    except HeedmapError as error:
        end = REFUSED if str(error).strip() and not str(error).startswith("Traceback") else "no sentence"
        end = str(error) if error.code == "worker_failed" else end
    except Exception:  # noqa: BLE001  (whatever it is, it must be told)
        end = traceback.format_exc()
    taken, worked = time.monotonic() - start, work() - before
    if worked > SECONDS or taken > STUCK_SECONDS:
        end = f"{worked:.1f} s of work, {taken:.0f} s by the clock"
    if found is not None and end == RIGHT:
        expected = expected_of(here)
        end = RIGHT if found == expected or not expected else f"{found} instead of {expected}"
    return end


if __name__ == "__main__":
    library()
    bound_memory()
    ids(remote_tokenizer.folder_tokenizer, folders() / "gpt2")  # so that the process that forks workers is there
    sys.exit(count_ends(__doc__, outcome, GOOD))
