"""Tables of labelled sequences: the rows, and what is refused."""

from pathlib import Path

import pytest

from heedmap.errors import InputError
from heedmap.sequences.table import read_rows

HEAD = b"id\tsequence\tlabel\n"


def test_rows_are_read_by_the_names_of_their_columns(tmp_path: Path) -> None:
    """Whatever their order, whatever stands beside them, and with a byte order mark."""
    (tmp_path / "rows.tsv").write_bytes(b"\xef\xbb\xbflabel\tsequence\tnote\tid\r\nN\tACG\tb\tx\r\n")
    assert read_rows(tmp_path / "rows.tsv") == [{"label": "N", "sequence": "ACG", "note": "b", "id": "x"}]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read .No such file"),
        (HEAD + b"x\tA\xff\tN\n", "cannot be read .'utf-8' codec"),
        (HEAD + b"x\t" + b"A" * 200_000 + b"\tN\n", "cannot be read .field larger than"),
        (b"id\tletters\nx\tA\n", "columns id, sequence and label"),
        (HEAD, "at least one row"),
        (HEAD + b"x\tACG\tN\ny\tACG\n", "no sequence or no label in line 3"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(tmp_path: Path, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / "rows.tsv").write_bytes(content)
    with pytest.raises(InputError, match=rf"rows\.tsv .*{says}"):
        read_rows(tmp_path / "rows.tsv")
