"""A folder is untrusted: nothing in it is run, nothing is fetched, and what is not read is refused by name."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from heedmap import attention_maps, load, report
from heedmap.checkpoint import ReadLimits
from heedmap.checkpoint.huggingface.library import OFFLINE, library
from heedmap.checkpoint.worker import isolated, pool
from heedmap.errors import CheckpointError, InputError
from tests.checkpoint.huggingface.families import write_folder
from tests.safe.hostile import corpus


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "gpt2", "gpt2")


def change(file: Path, **values: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text() if file.exists() else "{}") | values))


@pytest.mark.parametrize(
    ("file", "values", "reason"),
    [
        ("config.json", {"auto_map": {"AutoModel": "evil.Model"}}, "names Python code that comes with the folder"),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.T", None]}}, "no code of a folder is ever run"),
        ("config.json", {"quantization_config": {"quant_method": "gptq"}}, "its weights are quantised"),
        ("generation_config.json", {"custom_generate": "code"}, "names Python code"),
        ("tokenizer_config.json", {"init_inputs": ["/etc/passwd"]}, "init_inputs"),
        ("config.json", {"model_type": "no-such-family"}, "does not know the model type 'no-such-family'"),
        ("config.json", {"model_type": "beit"}, r"beit is no model of text[^$]*\.record\(model='gpt2'\)\.save"),
        ("config.json", {"model_type": "vit", "image_size": 224, "patch_size": 16}, r"'gpt2', grid=\(14, 14\)\).save"),
        ("config.json", {"num_experts": 10**9}, "asks for 1,000,000,000 parts of one kind"),
        ("config.json", {"n_positions": 10**12}, "it gives n_positions as 1,000,000,000,000"),
        ("config.json", {"n_head": 0}, "the transformers library cannot read it"),
        ("config.json", {"n_inner": 23}, "of another shape"),
        ("config.json", {"n_layer": 3}, "missing .*transformer.h.2"),
        ("config.json", {"architectures": 1}, "config.json is refused: it gives architectures as 1, .* list of names"),
        ("config.json", {"architectures": [1]}, r"it gives architectures as \[1\]"),
        ("config.json", {"architectures": "GPT2"}, "it gives architectures as 'GPT2'"),
        ("config.json", {"dropout": 7}, "it gives dropout as 7, which should be a share from 0 to 1"),
        ("config.json", {"text_config": {"attention_dropout": -0.5}}, "it gives attention_dropout as -0.5"),
        ("config.json", {"relative_attention_max_distance": -1}, "it gives relative_attention_max_distance as -1"),
        ("config.json", {"relative_attention_num_buckets": 0}, "it gives relative_attention_num_buckets as 0"),
        ("config.json", {"chunk_size_feed_forward": 2}, "it gives chunk_size_feed_forward as 2, which should be 0"),
        ("tokenizer_config.json", {"model_max_length": "x"}, "tokenizer_config.json .* model_max_length as 'x'"),
        ("tokenizer_config.json", {"model_max_length": [3]}, "model_max_length as"),
        ("tokenizer_config.json", {"model_max_length": True}, "model_max_length as True"),
    ],
)
def test_it_is_refused_by_name(folder: Path, file: str, values: dict[str, Any], reason: str) -> None:
    change(folder / file, **values)
    with pytest.raises(CheckpointError, match=reason):
        load(folder)


def test_what_only_looks_odd_is_read(folder: Path) -> None:
    change(folder / "config.json", architectures=None, label2id={"dropout": 7}, resid_pdrop=0, summary_dropout=None)
    change(folder / "tokenizer_config.json", model_max_length=1e30)
    assert load(folder).model.sites


def broken_normalizer(folder: Path, charsmap: str) -> None:
    """A table of characters that the native code believes, and gives up on."""
    change(folder / "tokenizer.json", normalizer={"type": "Precompiled", "precompiled_charsmap": charsmap})


@pytest.mark.parametrize("family", ["gpt2", "bert", "t5"])
def test_a_panic_of_native_code_is_a_refusal_that_names_the_folder(tmp_path: Path, family: str) -> None:
    folder = write_folder(tmp_path / family, family)
    broken_normalizer(folder, "AAAA")
    with pytest.raises(CheckpointError, match=f"{family}'s tokenizer is refused.*native code gave up"):
        load(folder)


@pytest.mark.parametrize("method", ["encode", "source_ids", "target_ids", "pieces", "decode", "labels"])
def test_a_panic_at_work_is_told_and_no_other_end_is_taken_for_one(
    folder: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = load(folder).tokenizer
    assert tokenizer is not None
    raised: list[type[BaseException]] = [type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})]

    def give_up(*_: Any, **__: Any) -> None:
        raise raised[0]("index out of bounds")

    class Broken:
        is_fast = True
        name_or_path = str(folder)
        __call__ = decode = convert_ids_to_tokens = give_up
        __len__ = lambda _: 97  # noqa: E731

    monkeypatch.setattr(tokenizer, "library", Broken())
    text: Any = [3] if method in {"decode", "labels"} else "the dog"
    with pytest.raises(InputError, match=r"tokenizer of gpt2 cannot work on this .*index out of bounds"):
        getattr(tokenizer, method)(text)
    raised[0] = KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        getattr(tokenizer, method)(text)


def test_a_worker_tries_a_folder_before_the_server_loads_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "load_with", None)
    assert isolated.tried_folder(folder).architecture == "hugging-face-decoder"
    threads = Path(f"/proc/{pool.WORKERS.template.pid}/task")
    assert len(list(threads.iterdir())) == 1  # what has threads must not fork
    broken_normalizer(folder, "AAAA")
    with pytest.raises(CheckpointError, match="gpt2's tokenizer is refused"):
        isolated.load_folder(folder)


def test_a_folder_that_takes_too_long_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path / "marian", "marian")
    change(folder / "config.json", max_position_embeddings=100_000)  # a table made number by number
    monkeypatch.setattr(isolated, "FOLDER_SECONDS", 2)
    with pytest.raises(CheckpointError, match="marian is refused: it took more than 2 s of work"):
        isolated.load_folder(folder)


def spoiled(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["transformer.wte.weight"][3, 2] = torch.nan
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "weights of another library": (
        lambda at: (at / "model.safetensors").rename(at / "tf_model.h5"),
        r"tf_model.h5, and only safetensors and pytorch_model.bin are read.*save_pretrained",
    ),
    "a link": (lambda at: (at / "added_tokens.json").symlink_to(__file__), "a link that leads out of its folder"),
    "a tokenizer that is none": (
        lambda at: (at / "tokenizer.json").write_text('{"version": "1.0", "model": 3}'),
        "gpt2's tokenizer is refused: the transformers library cannot read it",
    ),
    "weights that are cut off": (
        lambda at: (at / "model.safetensors").write_bytes((at / "model.safetensors").read_bytes()[:-40]),
        "its header describes",
    ),
    "NaN": (spoiled, "transformer.wte.weight holds NaN or infinity"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_folder_is_refused_with_its_reason(folder: Path, kind: str) -> None:
    spoil, reason = BROKEN[kind]
    spoil(folder)
    with pytest.raises(CheckpointError, match=reason):
        load(folder)
    if "library" in kind:
        with pytest.raises(CheckpointError, match=reason):
            report(folder)


def test_pickled_weights_beside_a_config_are_read_by_the_safe_reader(folder: Path) -> None:
    expected = attention_maps(load(folder), [[3, 5, 7, 2]])
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    found = load(folder)
    maps = attention_maps(found, [[3, 5, 7, 2]])
    assert all((maps[name] == expected[name]).all() for name in expected)
    assert (found.name, found.folder) == (folder.name, folder.resolve())
    assert report(folder).fits
    kept = isolated.load_folder(folder)  # as the page does: read in one worker, tried in another
    assert kept.folder == folder
    assert all((attention_maps(kept, [[3, 5, 7, 2]])[name] == expected[name]).all() for name in expected)
    archive = Path(shutil.make_archive(str(folder.parent / "zipped"), "zip", folder))
    assert all((attention_maps(load(archive), [[3, 5, 7, 2]])[name] == expected[name]).all() for name in expected)
    halves = list(tensors.items())
    torch.save(dict(halves[:5]), folder / "pytorch_model.bin")
    torch.save(dict(halves[5:]), folder / "pytorch_model-2.bin")
    assert all((attention_maps(load(folder), [[3, 5, 7, 2]])[name] == expected[name]).all() for name in expected)


def test_a_pickle_beside_a_config_that_asks_for_code_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    marker = tmp_path / "marker"
    for _, data, reason in list(corpus(str(marker)))[::5]:
        (folder / "pytorch_model.bin").write_bytes(data)
        with pytest.raises(CheckpointError) as refused:
            load(folder)
        assert reason in str(refused.value)
        with pytest.raises(CheckpointError) as refused:
            load(shutil.make_archive(str(tmp_path / "zipped"), "zip", folder))
        assert reason in str(refused.value)
    assert not marker.exists()


def test_code_in_the_folder_is_not_run(folder: Path) -> None:
    mark = folder / "ran"
    for name in ("modeling_gpt2.py", "tokenization_gpt2.py", "configuration_gpt2.py", "__init__.py"):
        (folder / name).write_text(f"open({str(mark)!r}, 'w')\n")
    load(folder)
    assert not mark.exists()


def test_parts_are_read_and_may_not_lie_elsewhere(folder: Path) -> None:
    whole = load_file(folder / "model.safetensors")
    names = sorted(whole)
    files = {"model-1-of-2.safetensors": names[::2], "model-2-of-2.safetensors": names[1::2]}
    for file, part in files.items():
        save_file({name: whole[name] for name in part}, folder / file, metadata={"format": "pt"})
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    table = {name: file for file, part in files.items() for name in part}
    index.write_text(json.dumps({"metadata": {}, "weight_map": table}))
    assert load(folder).n_parameters == sum(tensor.numel() for tensor in whole.values())
    outside = folder.parent / "outside.safetensors"
    save_file({names[0]: whole[names[0]]}, outside)
    for wrong in ("../outside.safetensors", str(outside), "absent.safetensors", 7, ""):
        index.write_text(json.dumps({"weight_map": table | {names[0]: wrong}}))
        with pytest.raises(CheckpointError, match="which is no file of this folder"):
            load(folder)
    index.write_text("[]")
    with pytest.raises(CheckpointError, match="is no table of names"):
        load(folder)


def test_sizes_are_checked_before_anything_is_read(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="at most 1,000 are read"):
        load(folder, limits=ReadLimits(file_bytes=1000))
    (folder / "vocab.json").write_text(" " * 20_000)
    with pytest.raises(CheckpointError, match=r"vocab.json is refused: it has 20,000 bytes"):
        load(folder, limits=ReadLimits(vocabulary_bytes=19_999))


def test_nothing_is_fetched(folder: Path) -> None:
    """In a process of its own, since what the library is told by the environment it is told once."""
    change(folder / "config.json", _name_or_path="someone/somewhere", task_specific_params={})
    code = (
        "import os, socket\n"
        "def refuse(*_, **__): raise AssertionError('the network was asked')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from heedmap import load\n"
        f"print(load({str(folder)!r}).model.sites)\n"
        "print(*(os.environ[name] for name in " + repr(list(OFFLINE)) + "))"
    )
    environment = {name: value for name, value in os.environ.items() if name not in OFFLINE}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.splitlines() == ["('decoder.0.self', 'decoder.1.self')", "1 1 1"], done.stderr


def test_without_the_library_a_sentence_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    library.cache_clear()
    with pytest.raises(CheckpointError, match=r"which is not installed.*pip install -r requirements-hf\.txt"):
        load(folder)
    library.cache_clear()


def test_a_library_that_would_ignore_the_cache_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedmap.checkpoint.huggingface.library.version", lambda name: "5.23.4")
    library.cache_clear()
    with pytest.raises(CheckpointError, match=r"5\.24 or newer, and 5\.23\.4 is installed: run `pip install"):
        load(folder)


def test_answers_and_reports(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="leave out n_heads"):
        load(folder, n_heads=3)
    found = report(folder)
    assert found.fits
    assert found.title == "a Hugging Face folder: gpt2, decoder alone"
    assert (found.confidence, len(found.matched)) == (1.0, len(load_file(folder / "model.safetensors")))


def test_a_report_counts_what_matches(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "bert", "bert")
    whole = report(folder)
    assert (whole.fits, whole.confidence, whole.ignored) == (True, 1.0, {}), "its head is read too"
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["BertForNothingKnown"]}))
    found = report(folder)
    heads = {name for name in found.ignored if name.startswith("cls.")}
    assert found.fits
    assert heads == set(found.ignored) != set()
    assert found.confidence == pytest.approx(len(found.matched) / (len(found.matched) + len(heads)))
