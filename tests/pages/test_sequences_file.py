"""A file on the page "Sequences": a table of its records, how far it is, and what cannot be read."""

import gc
import gzip
import weakref

import numpy as np
import pytest

from tests.pages.test_sequences import fine, page, shipped
from transformer import Checkpoint
from transformer.runs.sequences.classify import classify
from ui.sequences import file
from ui.store import session_resources

__all__ = ["shipped"]  # a fixture that tests here take


def test_a_file_becomes_a_table(shipped: Checkpoint) -> None:
    at = fine(page(read="file"))
    assert "Choose a FASTA file" in at.info[0].value
    content = gzip.compress(b">one\nACGTACGT\n>bad\nAC!GTAC\n>three\nGGGTTTACG\n")
    fine(at.file_uploader(key="fasta").upload("some.fa.gz", content).run())
    table = at.dataframe[0].value
    assert list(table["id"]) == ["one", "bad", "three"]
    assert table["predicted"][1] == ""
    assert "letter 3 is '!'" in table["problem"][1]
    np.testing.assert_allclose(table["EI"][2], classify(shipped, "GGGTTTACG").probabilities[0], atol=1e-6)
    assert "The file has 3 records" in " ".join(caption.value for caption in at.caption)


def test_a_file_on_its_way_goes_with_what_the_session_computed() -> None:
    at = fine(page(read="file"))
    fine(at.file_uploader(key="fasta").upload("some.fa", b">one\nACGTACGT\n").run())
    held = at.session_state[session_resources.STATE]
    (job,) = held.results[file.JOB]._values.values()
    assert job.work.done
    gone = weakref.ref(job.work.parts)
    del job
    assert gone() is not None
    held.results.clear()  # as a removed upload and a reader who leaves do
    gc.collect()
    assert gone() is None
    fine(at.run())
    assert list(at.dataframe[0].value["id"]) == ["one"]
    fine(at.file_uploader(key="fasta").set_value([]).run())
    assert file.JOB not in held.results


def test_a_long_file_shows_how_far_it_is_and_can_be_stopped(shipped: Checkpoint) -> None:
    records = b">s\nACGTACGT\n" * 5
    job = file.Job.of(shipped, records)
    job.work.advance(0.0, job.take)
    assert (len(job.found), len(job.records), job.work.done) == (1, 5, False)
    assert list(job.table(0)["id"]) == []  # few rows are drawn while it is read
    job.work.cancel()
    assert job.work.done
    assert "1 of 5" in job.note
    assert list(job.table()["id"]) == ["s"]


def test_a_file_of_too_many_records_says_how_many_were_read(
    shipped: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "MAX_RECORDS", 3)
    job = file.Job.of(shipped, b">a\nACGTACGT\n" * 4)
    job.work.advance(60.0, job.take)
    assert job.work.done
    assert "first 3 records" in job.note


def test_a_file_without_a_sequence_says_so() -> None:
    at = fine(page(read="file"))
    fine(at.file_uploader(key="fasta").upload("none.fa", b"; nothing\n").run())
    assert "no sequence" in at.info[0].value
    assert not at.dataframe  # no table of nothing, and none to save
    assert not at.get("download_button")


def test_a_broken_file_says_so() -> None:
    at = fine(page(read="file"))
    fine(at.file_uploader(key="fasta").upload("some.gz", gzip.compress(b">a\nACGTACGT\n")[:-9]).run())
    assert "gzip file is broken" in " ".join(caption.value for caption in at.caption)
