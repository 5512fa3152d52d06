"""A folder as a ZIP is read as the folder; an archive that is built to mislead is refused before it costs anything."""

import asyncio
import io
import os
import shutil
import stat
import struct
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from heedmap import attention_maps, load
from heedmap.checkpoint import report
from heedmap.checkpoint.load import read
from heedmap.checkpoint.worker import isolated
from heedmap.errors import CheckpointError
from heedmap.safe import zips as places
from heedmap.safe.limits import DEFAULT_LIMITS, ReadLimits
from heedmap.safe.zips import PrivateFolder, unpacked, zip_bytes, zip_entries
from tests.checkpoint.huggingface.families import write_folder
from tests.full_disk import at_most
from tests.safe.hostile import zip_of
from ui import serving

WEIGHTS, CONFIG = b"weights" * 300, b'{"model_type": "bert"}'


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders are made where the test can count them."""
    found = tmp_path / "memory"
    found.mkdir()
    monkeypatch.setattr(places, "MEMORY", found)
    return found


def folder(*more: tuple[str, bytes]) -> bytes:
    return zip_of(("config.json", CONFIG), ("model.safetensors", WEIGHTS), *more)


def opened(data: bytes, limits: ReadLimits = DEFAULT_LIMITS) -> dict[str, bytes]:
    """Every file of the archive, as the reader unpacks it."""
    stream = io.BytesIO(data)
    entries = zip_entries(stream, len(data), "some.zip", limits)
    return {name: b"".join(zip_bytes(stream, name, line, "some.zip")) for name, line in entries.items()}


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
    inner = zip_of(("vocab.txt", b"hidden"), packed=False)
    record, line = inner[: inner.find(CENTRAL)], inner[inner.find(CENTRAL) : inner.find(END)]
    data = zip_of(("config.json", CONFIG), ("model.safetensors", record), packed=False)
    table, end = data[data.find(CENTRAL) : data.rfind(END)], data[data.rfind(END) :]
    inside = data.find(record)
    table += line[:42] + struct.pack("<I", inside) + line[46:]
    here, count, length = struct.unpack_from("<8xHHI", end)
    end = end[:8] + struct.pack("<HHI", here + 1, count + 1, length + len(line)) + end[16:]
    return data[: data.find(CENTRAL)] + table + end


def linked() -> bytes:
    data = folder(("tokenizer.json", b"/etc/passwd"))
    last = data.rfind(CENTRAL)
    return data[:last] + patched(data[last:], (CENTRAL, 38, "<I", (stat.S_IFLNK | 0o777) << 16))


def second_table() -> bytes:
    """An archive with another one's end in its comment: two programs would read two tables."""
    data = folder()
    hidden = zip_of(("config.json", b"{}"), ("model.safetensors", b"other"))
    whole = data + hidden
    at = len(data) - 22
    return whole[: at + 20] + struct.pack("<H", len(hidden)) + whole[at + 22 :]


def lying(offset: int, form: str, value: int) -> bytes:
    """An archive whose every entry has this value in both of its headers: the table's fields stand two bytes later."""
    return patched(folder(), (LOCAL, offset, form, value), (CENTRAL, offset + 2, form, value))


ATTACKS: dict[str, tuple[bytes, str]] = {
    "leads out": (folder(("../evil.json", b"{}")), "leads elsewhere"),
    "absolute": (folder(("/etc/evil.json", b"{}")), "leads elsewhere"),
    "of Windows": (folder(("C:evil.json", b"{}")), "leads elsewhere"),
    "backslashes": (folder(("..\\evil.json", b"{}")).replace(b"../evil", b"..\\evil"), "leads elsewhere"),
    "line break": (folder(("a\nb.json", b"{}")), "leads elsewhere"),
    "twice": (folder(("Config.json", b"{}")), "two entries of one name"),
    "folder and file": (folder(("tokenizer.json", b"{}"), ("tokenizer.json/", b"")), "two entries of one name"),
    "link": (linked(), "is a link"),
    "device": (patched(folder(), (CENTRAL, 38, "<I", 0o020666 << 16)), "neither a file nor a folder"),
    "nested by name": (folder(("more.zip", zip_of(("a", b"b")))), "another archive, 'more.zip'"),
    "nested by content": (folder(("vocab.txt", zip_of(("a", b"b")))), "another archive, 'vocab.txt'"),
    "encrypted": (lying(6, "<H", 1), "is encrypted"),
    "strongly encrypted": (lying(6, "<H", 0x40), "is encrypted"),
    "with an encrypted table": (lying(6, "<H", 0x2000), "is encrypted"),
    "another method": (lying(8, "<H", 12), "packed by method 12"),
    "overlapping": (overlapping(), "overlaps another"),
    "two tables": (second_table(), "two programs may read two things"),
    "many": (folder(*((f"v{i}.txt", b"") for i in range(999))), "1,001 entries, at most 1,000"),
    "large format": (patched(folder(), (CENTRAL, 24, "<I", 0xFFFFFFFF)), "ZIP64"),
    "cut off": (folder()[:-30], "no table of contents"),
    "hidden before its end": (folder()[:-22] + b"x" + folder()[-22:], "two programs may read two things"),
    "headers differ": (patched(folder(), (LOCAL, 22, "<I", 5), every=False), "differently in its two headers"),
    "past the table": (lying(18, "<I", 10**6), "ends past the file"),
    "other weights": (zip_of(("config.json", CONFIG), ("weights.bin", b"PK\x03\x04")), "weights.bin"),
    "nothing": (zip_of(), "no file at all"),
    "no archive": (b"no archive at all" * 9, "no table of contents"),
    "declares less": (lying(22, "<I", 20), "more bytes than the 20"),
    "declares more": (lying(22, "<I", 99_999), "is damaged"),
    "another checksum": (lying(14, "<I", 5), "is damaged"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_misleads_is_refused_with_its_reason(attack: str, tmp_path: Path, place: Path) -> None:
    data, reason = ATTACKS[attack]
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
    bomb = zip_of(("model.safetensors", bytes(64 * 1024 * 1024)), ("config.json", CONFIG))
    assert len(bomb) < 100_000
    with pytest.raises(CheckpointError, match="bytes unpacked"):
        opened(bomb, ReadLimits(file_bytes=2 * 1024 * 1024))
    lying = patched(bomb, (CENTRAL, 24, "<I", 1000), (LOCAL, 22, "<I", 1000), every=False)
    stream = io.BytesIO(lying)
    line = zip_entries(stream, len(lying), "some.zip", DEFAULT_LIMITS)["model.safetensors"]
    made = list[bytes]()
    with pytest.raises(CheckpointError, match="more bytes than the 1,000"):
        made.extend(zip_bytes(stream, "model.safetensors", line, "some.zip"))
    assert not made


def test_it_is_unpacked_to_the_byte_whatever_wrote_it() -> None:
    plain = {"config.json": CONFIG, "model.safetensors": WEIGHTS, "vocab.txt": b""}
    assert opened(zip_of(*plain.items())) == plain
    assert opened(zip_of(*plain.items(), packed=False)) == plain
    inside = zip_of(*((f"my model/{name}", data) for name, data in plain.items()), ("my model/onnx/model.json", b"{}"),
                    ("__MACOSX/my model/._config.json", b"x"), ("my model/README.md", b"x"))  # fmt: skip
    assert opened(inside) == plain
    assert opened(zip_of(*plain.items(), ("pytorch_model.bin", b"PK\x03\x04"))) == plain
    pickled = {"config.json": CONFIG, "pytorch_model-00001-of-00001.bin": b"PK\x03\x04"}
    assert opened(zip_of(*pickled.items())) == pickled
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
    data = zip_of(*((f"bert/{file.name}", file.read_bytes()) for file in path.iterdir()))
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


def test_a_server_begins_and_ends_without_folders_of_the_dead_or_its_own_and_leaves_others(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one of a server that was killed and had the same number, as in a container."""
    for name in (
        "gc.freeze", "gc.set_threshold", "log.begin", "render_slots.begin", "session_resources.HOUSEKEEPER.begin",
        "limits.raise_open_files",
    ):  # fmt: skip
        monkeypatch.setattr(f"ui.serving.{name}", lambda *_: None)
    folders = [place / f"heedmap-{owner}-left" for owner in (999999999, os.getpid(), os.getppid())]
    for folder in folders:
        folder.mkdir()
    link = place / "heedmap-999999999-link"
    link.symlink_to(place)

    async def served() -> None:
        async with serving.life(None):
            assert {*place.iterdir()} == {folders[2], link}
            folders[1].mkdir()

    with ThreadPoolExecutor(1) as elsewhere:  # where no browser's loop runs
        elsewhere.submit(asyncio.run, served()).result()
    assert {*place.iterdir()} == {folders[2], link}


def test_a_folder_without_space_is_refused_by_name_and_leaves_nothing(place: Path) -> None:
    """The second file is too large for what the system lets be written; nothing of the first stays."""
    data = zip_of(("config.json", CONFIG), ("model.safetensors", WEIGHTS))
    for opens in (
        lambda: unpacked(io.BytesIO(data), "bert.zip", len(data), "bert"),
        lambda: isolated.unpack(io.BytesIO(data), "bert.zip", lambda _size: None),
    ):
        assert opens().path.is_dir()  # the workers' template is there from now on, and is not bound
        with at_most(len(WEIGHTS) - 1), pytest.raises(CheckpointError, match=r"^model.safetensors is refused: .*large"):
            opens()
        assert not list(place.iterdir())
    more = shutil.disk_usage(places.MEMORY).total + 1
    with pytest.raises(CheckpointError, match=r"^bert.zip is refused: its files have .* bytes, and .* are free"):
        places.check_room(more, "bert.zip")
    places.check_room(0, "bert.zip")
