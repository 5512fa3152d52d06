"""The class that a record's header names, where it names one."""

import re
from collections.abc import Sequence

from transformer.sequences.fasta import FastaRecord

_NAMED = re.compile(r"\b(?:label|class)[=:]\s*(\S+)", re.IGNORECASE)


def label_of(record: FastaRecord, classes: Sequence[str]) -> str:
    """The class in a header; empty where there is none.

    It is looked for as `label=CLASS` or `class=CLASS` anywhere, as the first word after the name, and after the last
    `|` of the name, in this order. Only what is written exactly as a class counts.
    """
    named = _NAMED.search(record.description)
    first, last = record.description.partition(" ")[0], record.id.rpartition("|")[2]
    places = [named[1].rstrip(";,") if named else "", first, last if "|" in record.id else ""]
    return next((word for word in places if word in classes), "")
