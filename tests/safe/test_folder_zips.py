"""A folder as a ZIP is read as the folder; an archive that is built to mislead is refused before it costs anything."""

import io
import shutil
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.checkpoint.huggingface.families import write_folder
from tests.full_disk import at_most
from transformer import attention_maps, load
from transformer.checkpoint import report
from transformer.checkpoint.load import read
from transformer.checkpoint.worker import isolated
from transformer.errors import CheckpointError
from transformer.safe import unpacked as places
from transformer.safe.limits import DEFAULT_LIMITS, ReadLimits
from transformer.safe.unpacked import PrivateFolder, unpacked
from transformer.safe.zips import zip_bytes, zip_entries

WEIGHTS, CONFIG = b"weights" * 300, b'{"model_type": "bert"}'


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders are made where the test can count them."""
    found = tmp_path / "memory"
    found.mkdir()
    monkeypatch.setattr(places, "MEMORY", found)
    return found


def zipped(*files: tuple[str, bytes], packed: bool = True) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        for name, data in files:
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, data)
    return made.getvalue()


def folder(*more: tuple[str, bytes]) -> bytes:
    return zipped(("config.json", CONFIG), ("model.safetensors", WEIGHTS), *more)


def opened(data: bytes, limits: ReadLimits = DEFAULT_LIMITS) -> dict[str, bytes]:
    """Every file of the archive, as the reader unpacks it."""
    stream = io.BytesIO(data)
    entries = zip_entries(stream, len(data), "some.zip", limits)
    return {entry.name: b"".join(zip_bytes(stream, entry, "some.zip")) for entry in entries}


def patched(data: bytes, *changes: tuple[bytes, int, str, int], every: bool = True) -> bytes:
    """The archive with fields of its headers overwritten: (mark, offset in the header, struct format, value)."""
    found = bytearray(data)
    for mark, offset, form, value in changes:
        at = found.find(mark)
        while at >= 0:
            struct.pack_into(form, found, at + offset, value)
            at = found.find(mark, at + 4) if every else -1
    return bytes(found)


LOCAL, CENTRAL, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"


def overlapping() -> bytes:
    """One entry lies inside of another one's bytes, with a header of its own that agrees with the table."""
    inner = zipped(("vocab.txt", b"hidden"), packed=False)
    record, line = inner[: inner.find(CENTRAL)], inner[inner.find(CENTRAL) : inner.find(END)]
    data = zipped(("config.json", CONFIG), ("model.safetensors", record), packed=False)
    table, end = data[data.find(CENTRAL) : data.rfind(END)], data[data.rfind(END) :]
    inside = data.find(record)
    table += line[:42] + struct.pack("<I", inside) + line[46:]
    here, count, length = struct.unpack_from("<8xHHI", end)
    end = end[:8] + struct.pack("<HHI", here + 1, count + 1, length + len(line)) + end[16:]
    return data[: data.find(CENTRAL)] + table + end


def linked() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("config.json", CONFIG)
        archive.writestr("model.safetensors", WEIGHTS)
        link = zipfile.ZipInfo("tokenizer.json")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    return made.getvalue()


def second_table() -> bytes:
    """An archive with another one's end in its comment: two programs would read two tables."""
    data = folder()
    hidden = zipped(("config.json", b"{}"), ("model.safetensors", b"other"))
    whole = data + hidden
    at = len(data) - 22
    return whole[: at + 20] + struct.pack("<H", len(hidden)) + whole[at + 22 :]


SIZE = len(WEIGHTS)
ATTACKS: dict[str, tuple[Callable[[], bytes], str]] = {
    "leads out": (lambda: folder(("../evil.json", b"{}")), "leads elsewhere"),
    "absolute": (lambda: folder(("/etc/evil.json", b"{}")), "leads elsewhere"),
    "of Windows": (lambda: folder(("C:evil.json", b"{}")), "leads elsewhere"),
    "backslashes": (lambda: folder(("..\\evil.json", b"{}")).replace(b"../evil", b"..\\evil"), "leads elsewhere"),
    "line break": (lambda: folder(("a\nb.json", b"{}")), "leads elsewhere"),
    "twice": (lambda: folder(("Config.json", b"{}")), "two entries of one name"),
    "folder and file": (lambda: folder(("tokenizer.json", b"{}"), ("tokenizer.json/", b"")), "two entries of one name"),
    "link": (linked, "is a link"),
    "device": (lambda: patched(folder(), (CENTRAL, 38, "<I", 0o020666 << 16)), "neither a file nor a folder"),
    "nested by name": (lambda: folder(("more.zip", zipped(("a", b"b")))), "another archive, 'more.zip'"),
    "nested by content": (lambda: folder(("vocab.txt", zipped(("a", b"b")))), "another archive, 'vocab.txt'"),
    "encrypted": (lambda: patched(folder(), (LOCAL, 6, "<H", 1), (CENTRAL, 8, "<H", 1)), "is encrypted"),
    "strongly encrypted": (lambda: patched(folder(), (LOCAL, 6, "<H", 0x40), (CENTRAL, 8, "<H", 0x40)), "is encrypted"),
    "with an encrypted table": (
        lambda: patched(folder(), (LOCAL, 6, "<H", 0x2000), (CENTRAL, 8, "<H", 0x2000)), "is encrypted"
    ),
    "another method": (lambda: patched(folder(), (LOCAL, 8, "<H", 12), (CENTRAL, 10, "<H", 12)), "packed by method 12"),
    "overlapping": (overlapping, "overlaps another"),
    "two tables": (second_table, "two programs may read two things"),
    "many": (lambda: folder(*((f"v{i}.txt", b"") for i in range(999))), "1,001 entries, at most 1,000"),
    "large format": (lambda: patched(folder(), (CENTRAL, 24, "<I", 0xFFFFFFFF)), "ZIP64"),
    "cut off": (lambda: folder()[:-30], "no table of contents"),
    "hidden before its end": (lambda: folder()[:-22] + b"x" + folder()[-22:], "two programs may read two things"),
    "headers differ": (lambda: patched(folder(), (LOCAL, 22, "<I", 5), every=False), "differently in its two headers"),
    "past the table": (
        lambda: patched(
            folder(), (LOCAL, 18, "<I", 10**6), (CENTRAL, 20, "<I", 10**6)
        ),
        "ends past the file",
    ),
    "other weights": (lambda: zipped(("config.json", CONFIG), ("weights.bin", b"PK\x03\x04")), "weights.bin"),
    "nothing": (zipped, "no file at all"),
    "no archive": (lambda: b"no archive at all" * 9, "no table of contents"),
    "declares less": (
        lambda: patched(folder(), (LOCAL, 22, "<I", 20), (CENTRAL, 24, "<I", 20)), "more bytes than the 20",
    ),
    "declares more": (
        lambda: patched(folder(), (LOCAL, 22, "<I", 99_999), (CENTRAL, 24, "<I", 99_999)), "is damaged",
    ),
    "another checksum": (lambda: patched(folder(), (LOCAL, 14, "<I", 5), (CENTRAL, 16, "<I", 5)), "is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_misleads_is_refused_with_its_reason(attack: str, tmp_path: Path, place: Path) -> None:
    data, reason = ATTACKS[attack][0](), ATTACKS[attack][1]
    with pytest.raises(CheckpointError, match=reason) as refused:
        opened(data)
    assert "some.zip" in refused.value.message
    (tmp_path / "some.zip").write_bytes(data)
    with pytest.raises(CheckpointError, match=reason):
        read(tmp_path / "some.zip", DEFAULT_LIMITS)
    assert not list(place.iterdir()), "what was unpacked by then is gone"
    assert not (tmp_path / "evil.json").exists()


def test_a_bomb_costs_no_more_than_it_declares() -> None:
    """Declared honestly it is too large; declared small, unpacking ends with the first byte beyond."""
    zeros = bytes(64 * 1024 * 1024)
    bomb = zipped(("config.json", CONFIG), ("model.safetensors", zeros))
    assert len(bomb) < 100_000
    with pytest.raises(CheckpointError, match="bytes unpacked"):
        opened(bomb, ReadLimits(file_bytes=2 * 1024 * 1024))
    lying = bytearray(bomb)
    at = bomb.find(CENTRAL, bomb.find(CENTRAL) + 4)
    struct.pack_into("<I", lying, at + 24, 1000)
    start = bomb.find(LOCAL, 4)
    struct.pack_into("<I", lying, start + 22, 1000)
    stream = io.BytesIO(bytes(lying))
    entry = next(e for e in zip_entries(stream, len(lying), "some.zip", DEFAULT_LIMITS) if "model" in e.name)
    made = list[bytes]()
    with pytest.raises(CheckpointError, match="more bytes than the 1,000"):
        made.extend(zip_bytes(stream, entry, "some.zip"))
    assert not made


def test_it_is_unpacked_to_the_byte_whatever_wrote_it() -> None:
    plain = {"config.json": CONFIG, "model.safetensors": WEIGHTS, "vocab.txt": b""}
    assert opened(zipped(*plain.items())) == plain
    assert opened(zipped(*plain.items(), packed=False)) == plain
    inside = zipped(*((f"my model/{name}", data) for name, data in plain.items()), ("my model/onnx/model.json", b"{}"),
                    ("__MACOSX/my model/._config.json", b"x"), ("my model/README.md", b"x"))  # fmt: skip
    assert opened(inside) == plain
    assert opened(zipped(*plain.items(), ("pytorch_model.bin", b"PK\x03\x04"))) == plain
    pickled = {"config.json": CONFIG, "pytorch_model-00001-of-00001.bin": b"PK\x03\x04"}
    assert opened(zipped(*pickled.items())) == pickled
    streamed = io.BytesIO()

    class Pipe(io.RawIOBase):
        """Cannot seek, so sizes stand behind the bytes."""

        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]
            return streamed.write(data)

    with zipfile.ZipFile(Pipe(), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in plain.items():
            archive.writestr(name, data)
    assert opened(streamed.getvalue()) == plain


def test_a_zipped_folder_is_loaded_as_the_folder_and_leaves_nothing(tmp_path: Path, place: Path) -> None:
    path = write_folder(tmp_path / "bert", "bert")
    data = zipped(*((f"bert/{file.name}", file.read_bytes()) for file in path.iterdir()))
    (tmp_path / "bert.zip").write_bytes(data)
    whole, packed = load(path), load(tmp_path / "bert.zip")
    assert packed.folder is None
    assert (packed.name, packed.model.config) == ("bert", whole.model.config)
    ours, theirs = (attention_maps(one, [[5, 7, 9]]) for one in (packed, whole))
    assert all(torch.equal(torch.as_tensor(ours[name]), torch.as_tensor(theirs[name])) for name in theirs)
    assert report(tmp_path / "bert.zip").title == report(path).title
    assert read(tmp_path / "bert.zip", DEFAULT_LIMITS).tensors.keys() == read(path, DEFAULT_LIMITS).tensors.keys()
    assert not list(place.iterdir())
    told: list[int] = []
    beside = isolated.unpack(io.BytesIO(data), "bert.zip", told.append)
    assert {file.name: file.read_bytes() for file in beside.path.iterdir()} == opened(data)
    assert told == [sum(file.stat().st_size for file in beside.path.iterdir())]
    with pytest.raises(CheckpointError, match="is a link"):
        isolated.unpack(io.BytesIO(linked()), "link.zip", told.append)
    assert [beside.path.parent] == list(place.iterdir())
    beside.remove()
    assert not list(place.iterdir())


def test_a_private_folder_goes_with_its_last_reference_and_sweeps_up_after_the_dead(place: Path) -> None:
    dead = place / "heedmap-999999999-left"
    dead.mkdir()
    held = PrivateFolder("name")
    assert not dead.exists()
    assert stat.S_IMODE(held.path.parent.stat().st_mode) == 0o700
    for name in ("../out.json", "a/b.json", "..", ""):
        with pytest.raises(ValueError, match="is no name of a file"):
            held.put(name, [b""])
    del held
    assert not list(place.iterdir())


def test_a_folder_without_space_is_refused_by_name_and_leaves_nothing(place: Path) -> None:
    """The second file is too large for what the system lets be written; nothing of the first stays."""
    data = zipped(("config.json", CONFIG), ("model.safetensors", WEIGHTS))
    for opens in (
        lambda: unpacked(io.BytesIO(data), "bert.zip", len(data), "bert"),
        lambda: isolated.unpack(io.BytesIO(data), "bert.zip", lambda _size: None),
    ):
        assert opens().path.is_dir()  # the workers' template is there from now on, and is not bound
        with at_most(len(WEIGHTS) - 1), pytest.raises(CheckpointError, match=r"^model.safetensors is refused: .*large"):
            opens()
        assert not list(place.iterdir())


def test_what_is_larger_than_the_free_space_is_refused_before_it_is_written() -> None:
    more = shutil.disk_usage(places.MEMORY).total + 1
    with pytest.raises(CheckpointError, match=r"^bert.zip is refused: its files have .* bytes, and .* are free"):
        places.check_room(more, "bert.zip")
    places.check_room(0, "bert.zip")
