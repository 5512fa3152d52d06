"""Which letters of the sequence are read as one, and where they lie in it."""

import re
from dataclasses import dataclass

import streamlit as st

from transformer.errors import InputError
from transformer.sequences.fasta import FastaRecord
from transformer.sequences.task import SequenceTask
from ui.shared.address import parameter, put
from ui.texts import t

LONGER = 1.5
"""A sequence of more than so many times the letters that a classifier was trained on is scanned, not read as one."""

WINDOW = "window"
"""What the address calls the letters that are read (`538-597(+)`)."""

_WINDOW = re.compile(r"(\d{1,9})-(\d{1,9})\(([+-])\)", re.ASCII)


@dataclass(frozen=True)
class Reading:
    """The letters `text` of a record as they are read: from letter `first` to `last` (from 1), on one strand of it."""

    record: str
    text: str
    first: int
    last: int
    strand: str
    is_part: bool

    @property
    def places(self) -> range:
        """The letter of the record (from 1) that each letter read is."""
        return range(self.first, self.last + 1) if self.strand == "+" else range(self.last, self.first - 1, -1)

    @property
    def fasta(self) -> str:
        """The letters read, under the name of their record and their place in it."""
        place = f":{self.first}-{self.last}({self.strand})" if self.is_part else ""
        return f">{self.record}{place}\n{self.text}"

    @property
    def stem(self) -> str:
        """The record in the name of a file, with the place of its part."""
        return f"{self.record}-{self.first}-{self.last}{self.strand}" if self.is_part else self.record


def asked_for(record: FastaRecord, task: SequenceTask) -> Reading | None:
    """What is read as one; None where a long sequence is to be scanned.

    Raises:
        InputError: the window that the address names does not lie within the sequence.
    """
    length = len(record.sequence)
    written = parameter(WINDOW)
    if written is None:
        whole = Reading(record.id, record.sequence, 1, length, "+", is_part=False)
        return None if length > LONGER * task.length else whole
    found = _WINDOW.fullmatch(written)
    first, last = (int(found[1]), int(found[2])) if found else (0, 0)
    if found is None or not 1 <= first <= last <= length:
        raise InputError("window_elsewhere", window=f"{written:.40}", length=length)
    text = record.sequence[first - 1 : last]
    if found[3] == "-":
        text = task.alphabet.reverse_complement(task.alphabet.read(text).text)
    return Reading(record.id, text, first, last, found[3], is_part=True)


def way_back(here: Reading) -> None:
    """The button that leads back to the whole sequence, and whose letters are read."""
    st.button(t("sequences.back", name=here.record), icon=":material/arrow_back:", on_click=put, kwargs={WINDOW: None})
    st.markdown(t("sequences.part", name=here.record, first=here.first, last=here.last, strand=here.strand))
