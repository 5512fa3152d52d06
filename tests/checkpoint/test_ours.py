"""Our own folders: written, read back, converted from any layout, with snapshots; checked like any untrusted file."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from heedmap import Checkpoint, attention_maps, load
from heedmap.checkpoint import ReadLimits
from heedmap.checkpoint.load import convert
from heedmap.checkpoint.ours.config import RETIRED
from heedmap.checkpoint.ours.folder import load_snapshot, save_folder, save_weights, snapshots
from heedmap.errors import CheckpointError
from heedmap.nn.kmer import KmerClassifier, KmerConfig
from heedmap.nn.recurrent import Recurrent, RecurrentConfig
from heedmap.nn.seq2seq import Seq2Seq, Seq2SeqConfig, preset
from heedmap.nn.stacks import Decoder, DecoderConfig, Encoder, EncoderConfig
from heedmap.safe.contents import fingerprint, fingerprint_of
from heedmap.text.tokenizers import train_tokenizer
from tests.checkpoint.originals.common import scramble
from tests.checkpoint.references import LAYOUTS, REFERENCE, heads, reference_file
from tests.fuzzing import memory_bounded

SHIPPED = Path(__file__).resolve().parents[2] / "checkpoints"
SENTENCES = ["a dog runs in the snow", "two dogs run", "the snow is white"] * 5


@pytest.fixture
def model() -> Seq2Seq:
    sizes = dict(
        source_vocab=37, target_vocab=37, d_model=10, n_heads=2, d_ff=14, n_encoder_layers=1, n_decoder_layers=2
    )
    return Seq2Seq(preset("jadore", max_length=20, **sizes)).eval()


@pytest.fixture
def folder(tmp_path: Path, model: Seq2Seq) -> Path:
    path = tmp_path / "tiny"
    save_folder(path, "seq2seq", model, train_tokenizer(SENTENCES, 37), ("English", "German"), ("a dog",), half=False)
    return path


def outputs(model: torch.nn.Module) -> torch.Tensor:
    return model(torch.tensor([[5, 6, 3]]), torch.tensor([[2, 7]]))


def test_what_is_written_is_read_back_and_nothing_else_touched(folder: Path, model: Seq2Seq) -> None:
    torch.save(torch.nn.Linear(2, 3), folder / "model.pt")  # a pickle beside the weights
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    found = load(folder)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(outputs(found.model), outputs(model))
    assert found.model.config == model.config
    assert (found.name, found.languages, found.examples) == ("tiny", ("English", "German"), ("a dog",))
    assert found.tokenizer is not None
    assert found.tokenizer.decode(found.tokenizer.encode("two dogs run")) == "two dogs run"
    assert not found.model.training
    assert found.n_parameters == sum(p.numel() for p in model.parameters())
    with pytest.raises(CheckpointError, match="leave out n_heads"):
        load(folder, n_heads=2)


def test_a_snapshot_is_the_same_model_with_other_weights(folder: Path, model: Seq2Seq) -> None:
    now: Checkpoint = load(folder)
    earlier = Seq2Seq(model.config).eval()
    save_weights(folder / "history" / "000050.safetensors", dict(earlier.named_parameters()), half=False)
    then = load_snapshot(now, folder / "history" / "000050.safetensors")
    assert then.name == "tiny@000050"
    assert torch.equal(outputs(then.model), outputs(earlier))
    assert not torch.equal(outputs(then.model), outputs(now.model))


def test_weights_that_do_not_fit_are_named(folder: Path) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    name = "encoder.0.self_attention.query.weight"
    for change, words in (
        ({name: None}, f"missing.*{name}"),
        ({"extra": torch.zeros(2)}, "unexpected.*extra"),
        ({name: torch.zeros(3, 3)}, r"shape \(3, 3\), the config asks for \(10, 10\)"),
        ({name: torch.full((10, 10), torch.nan)}, "NaN or infinity"),
    ):
        save_file({k: v for k, v in {**weights, **change}.items() if v is not None}, path)
        with pytest.raises(CheckpointError, match=words):
            load(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": 10**12}, "gives d_model as 1000000000000"),
        ({"d_model": 2_000_000_000, "max_length": 1}, "a table of 1 positions"),
        ({"d_ff": 2_000_000_000}, "the weights hold"),
        ({"source_vocab": 2_000_000_000, "target_vocab": 2_000_000_000}, "the weights hold"),
        ({"n_encoder_layers": 1_000_000_000}, "1,000,000,000 layers"),
        ({"max_length": 2_000_000_000}, "a table of 2,000,000,000 positions"),
        ({"d_model": 1.5}, "gives d_model as 1.5"),
        ({"d_model": True}, "gives d_model as True"),
        ({"norm_first": 1}, "gives norm_first as 1"),
        ({"dropout": float("nan")}, "gives dropout as nan"),
        ({"activation": ["relu"]}, "gives activation as"),
        ({"colour": "blue"}, "holds 'colour'"),
        ({"n_heads": 3}, "does not describe a known model"),
        ({"d_ff": 41}, "the config asks for"),
    ],
)
def test_a_config_that_the_weights_cannot_be_is_refused_before_memory_is_taken(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    about = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    about["config"] |= changes
    (folder / "config.json").write_text(json.dumps(about), encoding="utf-8")
    with memory_bounded(200), pytest.raises(CheckpointError, match=message):
        load(folder)


NO_MODEL = "does not describe a known model"
DAMAGED: list[tuple[str, bytes, str]] = [
    *(("config.json", text, "cannot be read as JSON") for text in (b"", b"{", b"[" * 100_000)),
    *(("config.json", text, NO_MODEL) for text in (b"[]", b'"x"', b"{}", b'{"architecture": "x", "config": {}}')),
    ("config.json", b'{"architecture": ["seq2seq"], "config": {}}', NO_MODEL),
    ("config.json", b'{"architecture": "lstm", "config": {}}', "seq2seq"),
    *(
        ("config.json", b'{"architecture": "seq2seq", "config": %s}' % one, NO_MODEL)
        for one in (b"7", b"[1, 2]", b"{}")
    ),
    ("config.json", b'{"architecture": "seq2seq", "config": {"d_model": 3}}', NO_MODEL),
    ("model.safetensors", b"\x10" * 40, r"tiny/model\.safetensors"),
    ("tokenizer.model", b"no model", "not a SentencePiece model"),
    ("examples.json", b" " * (9 * 1024 * 1024), r"examples\.json is refused"),
]


@pytest.mark.parametrize(("file", "content", "words"), DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_files_are_refused_by_name(folder: Path, file: str, content: bytes, words: str) -> None:
    (folder / file).write_bytes(content)
    with pytest.raises(CheckpointError, match=words):
        load(folder)


def test_weights_that_are_cut_off_or_too_large_are_refused(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="at most 100 are read"):
        load(folder, limits=ReadLimits(file_bytes=100))
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:-1])
    with pytest.raises(CheckpointError, match=r"model\.safetensors is refused: its header describes"):
        load(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "CARD.md", "tokenizer.model"])
def test_links_out_of_a_folder_of_ours_are_refused(folder: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / "elsewhere"
    target.write_bytes((folder / name).read_bytes() if (folder / name).exists() else b"secret")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(target)
    with pytest.raises(CheckpointError, match="a link that leads out of its folder"):
        load(folder)


SMALL: dict[str, Any] = dict(d_model=6, n_heads=2, d_ff=10)
MODELS: dict[str, Any] = {
    "seq2seq": Seq2Seq(
        Seq2SeqConfig.of(
            source_vocab=11, target_vocab=13, **SMALL, d_k=5, d_v=7, n_encoder_layers=2, n_decoder_layers=1,
            positions="learned", max_length=17, norm_after_stack=True, activation="gelu",
        )
    ),
    "encoder": Encoder(EncoderConfig.of(vocab=11, **SMALL, n_layers=2, head=(5, 3))),
    "decoder": Decoder(DecoderConfig.of(vocab=11, **SMALL, n_layers=3, max_length=7, attention_bias=False)),
    "kmer": KmerClassifier(
        KmerConfig.of(
            vocab=11, n_classes=3, **SMALL, n_layers=1, widths=(2,), pooling="attention", n_questions=5, d_hidden=9
        )
    ),
    "recurrent": Recurrent(
        RecurrentConfig.of(
            source_vocab=11, target_vocab=13, hidden=6, d_embedding=5, bidirectional=True, deep_output=True
        )
    ),
}  # fmt: skip
"""A model of each architecture, with options that are not the usual ones."""


@pytest.mark.parametrize("name", MODELS)
def test_every_architecture_is_read_back_and_refused_without_its_config(name: str, tmp_path: Path) -> None:
    for model in (scramble(MODELS[name]), scramble(MODELS[name]).double()):
        save_folder(tmp_path, name, model, languages=("old", "new"), half=False)
        about = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
        about["config"] = RETIRED | about["config"]  # as an earlier version wrote it
        (tmp_path / "config.json").write_text(json.dumps(about), encoding="utf-8")
        found = load(tmp_path)
        assert (found.model.config, found.languages) == (model.config, ("old", "new"))
        pairs = zip(found.model.parameters(), model.parameters(), strict=True)
        assert all(one.dtype == other.dtype and torch.equal(one, other) for one, other in pairs)
    (tmp_path / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"of Heedmap\.\s+because its config\.json, which says"):
        load(tmp_path)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_converted_checkpoint_computes_the_same(name, tmp_path):
    inputs = load_file(REFERENCE / name / "expected.safetensors")
    source = inputs["source"] if "source" in inputs else inputs["input"]
    target = inputs.get("target")
    converted = convert(REFERENCE / name, tmp_path / "out", **heads(name))
    again = load(tmp_path / "out")
    assert again.model.config == converted.model.config
    assert again.guesses == converted.guesses  # a config states no assumption as a fact
    assert "assumed, since the file does not say" in again.guesses[0]
    before, after = (attention_maps(checkpoint, source, target) for checkpoint in (converted, again))
    assert before.keys() == after.keys()
    assert all((before[site] == after[site]).all() for site in before)


def test_the_card_says_where_it_comes_from_and_what_was_assumed(tmp_path):
    convert(reference_file("annotated"), tmp_path / "mine", half=True, n_heads=3)
    card = (tmp_path / "mine" / "CARD.md").read_text(encoding="utf-8")
    digest = fingerprint_of([reference_file("annotated")])
    assert digest in card
    assert digest == fingerprint([io.BytesIO(reference_file("annotated").read_bytes())])
    assert "The Annotated Transformer" in card
    assert "pad_id=0 is assumed" in card
    assert "n_heads" not in card
    config = json.loads((tmp_path / "mine" / "config.json").read_text(encoding="utf-8"))
    assert config["config"]["n_heads"] == 3
    assert load_file(tmp_path / "mine" / "model.safetensors")["projection.bias"].dtype == torch.float16
    assert next(load(tmp_path / "mine").model.parameters()).dtype == torch.float32


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "here.txt").write_text("keep me", encoding="utf-8")
    with pytest.raises(CheckpointError, match="holds something already"):
        convert(reference_file("annotated"), tmp_path)


ENTRY = {"file": "000002.safetensors", "update": 2, "epoch": 0, "seconds": 1.0, "bleu_greedy": 0.5, "loss": 7.0}


def with_index(path: Path, index: str) -> Path:
    (path / "history").mkdir()
    (path / "history" / "index.json").write_text(index, encoding="utf-8")
    for name in ("000002", "000004"):
        (path / "history" / f"{name}.safetensors").touch()
    return path


def test_the_shipped_history_rises_in_updates_and_in_bleu() -> None:
    found = snapshots(SHIPPED / "multi30k-en-de")
    assert [snapshot.update for snapshot in found] == [50 * 2**i for i in range(8)]
    assert [snapshot.name for snapshot in found][:2] == ["000050", "000100"]
    assert found[-1].bleu > 30 > found[0].bleu
    assert [snapshot.loss for snapshot in found] == sorted((snapshot.loss for snapshot in found), reverse=True)


def test_the_earliest_comes_first_whatever_the_index_says(tmp_path: Path) -> None:
    assert snapshots(tmp_path) == ()
    later = ENTRY | {"file": "000004.safetensors", "update": 4}
    found = snapshots(with_index(tmp_path, json.dumps([later, ENTRY])))
    assert [snapshot.update for snapshot in found] == [2, 4]


@pytest.mark.parametrize(
    "index",
    [
        "{", "3", '["a"]', "[{}]", json.dumps([ENTRY | {"update": "x"}]), json.dumps([ENTRY | {"file": "gone"}]),
        json.dumps([ENTRY | {"file": "../../model.safetensors"}]), "[" * 100_000,
    ],
)  # fmt: skip
def test_a_damaged_index_is_refused(tmp_path: Path, index: str) -> None:
    with pytest.raises(CheckpointError, match=r"index\.json"):
        snapshots(with_index(tmp_path, index))
