"""Where a model computes and how exactly: what is chosen, what is refused, what comes back, and how far off half is.

No GPU is needed here: a model on PyTorch's `meta` device, which has shapes and no numbers, refuses whatever was made
in another place than its own. `make test-gpu` compares the numbers of a real one.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heedmap import load
from heedmap.attention.capture import watch
from heedmap.attention.zoom import Zoom
from heedmap.checkpoint.checkpoint import Checkpoint
from heedmap.checkpoint.huggingface.model import HuggingFaceConfig, HuggingFaceModel
from heedmap.errors import CheckpointError
from heedmap.nn import masks
from heedmap.nn.masks import Mask
from heedmap.nn.stacks import Encoder, EncoderConfig
from heedmap.runs.any_model import run_any
from heedmap.runs.flow import flow
from heedmap.runs.sequences.classify import classify, mutations, verdicts
from heedmap.runs.sequences.scan import plan_scan
from heedmap.runs.translate import translate
from heedmap.sequences.fasta import FastaRecord
from tests.classifiers import sequence_checkpoint
from tests.toy import tokenizer, write_checkpoint

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
LETTERS = "ACGTAGGTNACCATTGACAGGTA"
SENTENCE = "Two young girls in red dresses are riding bicycles in front of a church."

BOUNDS = {torch.float64: (2e-6, 1e-5), torch.float16: (4e-3, 5e-3), torch.bfloat16: (3e-2, 4e-2)}
"""How far weights and probabilities may lie from those in single precision."""


def with_gpus(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


@pytest.mark.parametrize(
    ("gpus", "asked", "expected"),
    [(0, "auto", "cpu"), (0, "cpu", "cpu"), (1, "auto", "cuda:0"), (2, "auto", "cuda:0"), (2, "cuda:1", "cuda:1"),
     (1, "cuda", "cuda"), (2, "cpu", "cpu")],
)  # fmt: skip
def test_a_gpu_is_chosen_where_there_is_one(gpus: int, asked: str, expected: str, monkeypatch) -> None:
    moved: list[tuple[Any, ...]] = []
    checkpoint = sequence_checkpoint()
    with_gpus(gpus, monkeypatch)
    monkeypatch.setattr(checkpoint.model, "to", lambda *where: moved.append(where))
    assert checkpoint.placed(asked) is checkpoint
    assert moved == [(torch.device(expected), None)]


@pytest.mark.parametrize(("asked", "gpus"), [("cuda", 0), ("cuda:1", 1), ("meta", 1), ("nowhere", 0), ("", 0)])
def test_a_device_that_is_not_here_is_refused(asked: str, gpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(gpus, monkeypatch)
    with pytest.raises(CheckpointError, match=rf"no device {asked} here: choose auto or one of cpu{', cuda:0' * gpus}"):
        load(CHECKPOINTS / "splice-junctions", device=asked)


def test_a_model_of_another_library_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = Checkpoint("theirs", HuggingFaceModel(HuggingFaceConfig("bert", "encoder", 7, 7, 9), nn.Linear(1, 1)))
    with_gpus(1, monkeypatch)
    for asked in ({"device": "cuda"}, {"device": "cpu", "dtype": torch.float16}):
        with pytest.raises(CheckpointError, match="theirs is a model of another library and stays on the CPU"):
            checkpoint.placed(**asked)  # type: ignore[arg-type]
    assert checkpoint.placed("cpu") is checkpoint


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read from the `meta` device is zeros; and no number of it is looked at before."""
    plain = Tensor.cpu

    def read(x: Tensor) -> Tensor:
        return torch.zeros(x.shape, dtype=x.dtype, device="cpu") if x.is_meta else plain(x)

    monkeypatch.setattr(Tensor, "cpu", read)
    monkeypatch.setattr(masks, "padding", lambda ids, pad, shown=None: Mask(keys=ids != pad))
    monkeypatch.setattr(masks, "causal", lambda ids, pad, shown=None: Mask(keys=ids != pad, causal=True))


@pytest.mark.usefixtures("elsewhere")
def test_a_classifier_runs_where_it_is_and_answers_on_the_cpu() -> None:
    checkpoint = sequence_checkpoint()
    checkpoint.model.to("meta")
    run = classify(checkpoint, LETTERS)
    assert run.probabilities.tolist() == [1 / 3] * 3
    assert {one.source.q.device.type for one in run.record.values()} == {"meta"}  # type: ignore[union-attr]
    assert [one.problem for one in verdicts(checkpoint, [FastaRecord("a", "", LETTERS)] * 3)] == [""] * 3
    (block,) = plan_scan(checkpoint, checkpoint.task.alphabet.read(LETTERS * 2)).blocks()
    assert block.probabilities.shape[0] == 2
    assert torch.zeros(1).device.type == "cpu"  # nothing stays behind
    read = checkpoint.task.alphabet.read(LETTERS)
    with pytest.raises(CheckpointError, match="computed on the CPU alone, and the model is on meta"):
        mutations(checkpoint, read, 1)


@pytest.mark.usefixtures("elsewhere")
def test_a_translator_runs_where_it_is_and_answers_on_the_cpu(tmp_path: Path) -> None:
    checkpoint = load(write_checkpoint(tmp_path / "toy"))
    checkpoint.model.to("meta")
    run = translate(checkpoint, "the dog runs.", forced="der Hund läuft.")
    evenly = 1 / len(checkpoint.tokenizer)  # logits are read as zeros
    with pytest.raises(CheckpointError, match="computed on the CPU alone"):
        run.attribution(checkpoint, "rollout")
    with pytest.raises(CheckpointError, match="computed on the CPU alone"):
        flow(checkpoint, run.source_ids, run.target_ids)
    assert [step.probability for step in run.steps] == pytest.approx([evenly] * len(run.steps))
    assert {one.source.q.device.type for one in run.record.values()} == {"meta"}  # type: ignore[union-attr]


@pytest.mark.usefixtures("elsewhere")
def test_an_encoder_runs_where_it_is_in_half_precision_and_answers_in_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedmap.nn.stacks.check_ids", lambda *named: None)  # it looks at numbers
    words = tokenizer()
    model = Encoder(EncoderConfig.of(vocab=len(words), d_model=6, n_heads=2, n_layers=1, d_ff=7, max_length=19))
    checkpoint = Checkpoint("small", watch(model.eval()), words)
    checkpoint.model.to("meta", torch.bfloat16)
    run = run_any(checkpoint, "the dog runs.")
    assert {name: str(value.dtype) for name, value in run.outputs.items()} == dict.fromkeys(run.outputs, "float32")


Said = tuple[str, list[np.ndarray], np.ndarray]
"""What a run said: its text, weights of its record, and probabilities."""


def said_by(checkpoint: Checkpoint, forced: str | None = None) -> Said:
    """Of the first example, which is classified, or of a sentence, which is translated."""
    if checkpoint.task is not None:
        found = classify(checkpoint, checkpoint.examples[0].partition("\n")[2])
        return "", [one.all_weights() for one in found.record.values()], found.probabilities
    run = translate(checkpoint, SENTENCE, forced=forced)
    probabilities = np.array([step.probability for step in run.steps])
    return run.text, [one.all_weights() for one in run.record.values()], probabilities


def long_look(checkpoint: Checkpoint) -> Said:
    """Of a sequence that is long enough to be kept in levels, and of one of its heads near and far."""
    run = classify(checkpoint, "".join("ACGT"[i * i % 7 % 4] for i in range(1_100)))
    zoom = Zoom.of(run.record[run.record.sites[0]], 1)
    return "", [zoom.whole().values, zoom.view(slice(700, 763), slice(11, 90)).values], run.probabilities


def distances(one: Said, other: Said) -> tuple[float, float]:
    """The largest difference of a weight, and of a probability."""
    maps = max(float(np.abs(a - b).max()) for a, b in zip(one[1], other[1], strict=True))
    return maps, float(np.abs(one[2] - other[2]).max())


LOOKS = {
    "splice-junctions": said_by, "multi30k-en-de": said_by, "multi30k-en-de-rnn-location": said_by,
    "core-promoters": long_look,
}  # fmt: skip


@pytest.fixture(scope="module", params=LOOKS)
def usual(request: pytest.FixtureRequest) -> tuple[str, Said]:
    return request.param, LOOKS[request.param](load(CHECKPOINTS / request.param))


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
def test_half_and_double_precision_say_what_single_says(usual: tuple[str, Said], dtype: torch.dtype) -> None:
    """The same translation is found, and what is recorded of it can be read, near and far."""
    name, one = usual
    checkpoint = load(CHECKPOINTS / name, dtype=dtype)
    assert {p.dtype for p in checkpoint.model.parameters()} == {dtype}
    other = LOOKS[name](checkpoint)
    assert other[0] == one[0]
    maps, probabilities = distances(one, other)
    assert 0 < maps < BOUNDS[dtype][0]
    assert 0 <= probabilities < BOUNDS[dtype][1]
