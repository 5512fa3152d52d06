"""From a finished run to the folder of a sequence classifier: mean weights, a temperature, examples, a card."""

from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from transformer.checkpoint import load
from transformer.checkpoint.ours.folder import CARD, fill, save_folder
from transformer.nn.kmer import KmerClassifier
from transformer.runs.scores import Scores, calibration_error, reliability
from transformer.training.card import curve_table, data_notes, how_it_was_made, table
from transformer.training.classification import Classification, answers
from transformer.training.run import Run

EXAMPLE_SET = "examples.fa"
"""A small set of sequences of every class, for motifs."""

EXAMPLES_EACH, SET_EACH = 2, 60
"""How many examples of a class the page offers, and how many the set holds."""


def export(run: Run[Classification], folder: Path, command: str) -> Scores:
    """Write the checkpoint of a finished run to `folder`; the scores are those of the files as written."""
    task = run.task
    weights, averaged = run.store.averaged(run.progress.update)
    model = KmerClassifier(task.config)
    fill(model, weights, "the mean of the saved weights")
    temperature = fitted_temperature(answers(model, task.valid[0]), task.valid[1])
    described = replace(task.sequence_task, temperature=round(temperature, 4))
    rows = _rows_of_each(task) if task.options.rows_as_examples else []
    turns = zip(*(one[:EXAMPLES_EACH] for one in rows), strict=False)
    examples = tuple(_fasta(task, row) for turn in turns for row in turn)
    save_folder(folder, "kmer", model, examples=examples, task=described)
    if rows:
        in_set = "".join(_fasta(task, row) + "\n" for one in rows for row in one[:SET_EACH])
        (folder / EXAMPLE_SET).write_text(in_set, encoding="utf-8")
    logits = answers(load(folder).model, task.valid[0])
    scores = Scores.of(logits.numpy(), task.valid[1].numpy())
    (folder / CARD).write_text(_card(run, folder, command, averaged, logits, scores, temperature), encoding="utf-8")
    return scores


def fitted_temperature(logits: Float[Tensor, "row classes"], labels: Int[Tensor, " row"]) -> float:
    """The number that logits are divided by so that the labels become likeliest; classes keep their order.

    It stays between 1/100 and 100, also where logits say nothing. Source: Guo et al. 2017, section 4.2.
    """
    log_temperature = torch.zeros((), dtype=torch.float64, requires_grad=True)
    logits = logits.detach().double()
    optimizer = torch.optim.LBFGS([log_temperature], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = F.cross_entropy(logits / log_temperature.exp(), labels)
        value.backward()
        return value

    optimizer.step(loss)
    return float(log_temperature.detach().exp().clamp(0.01, 100.0))


def calibration_errors(logits: Float[Tensor, "row classes"], labels: Int[Tensor, " row"]) -> tuple[float, float]:
    """Expected calibration error before the temperature, and after it.

    For the second, each half of the rows is divided by the temperature of the other half: no row is judged by a
    temperature that has seen it.
    """
    first = torch.arange(len(labels)) % 2 == 0
    scaled = torch.empty_like(logits)
    for half in (first, ~first):
        scaled[half] = logits[half] / fitted_temperature(logits[~half], labels[~half])
    before, after = (_calibration_error(one, labels) for one in (logits, scaled))
    return before, after


def _calibration_error(logits: Tensor, labels: Tensor) -> float:
    confidence, predicted = logits.softmax(1).max(1)
    return calibration_error(reliability(confidence.numpy(), (predicted == labels).numpy()))


def _rows_of_each(task: Classification) -> list[list[int]]:
    """The validation rows of every class."""
    return [(task.valid[1] == label).nonzero()[:, 0].tolist() for label in range(len(task.sequence_task.classes))]


def _fasta(task: Classification, row: int) -> str:
    alphabet, label = task.sequence_task.alphabet, int(task.valid[1][row])
    text = "".join((alphabet.letters + alphabet.unknown)[i] for i in task.valid[0][row].tolist())
    return f">{task.ids[row]} {task.sequence_task.classes[label]}\n{text}"


def _card(
    run: Run[Classification], folder: Path, command: str, averaged: list[int], logits: Tensor, scores: Scores,
    temperature: float,
) -> str:  # fmt: skip
    task, described = run.task, run.task.sequence_task
    before, after = calibration_errors(logits, task.valid[1])
    confusion = [
        [name, *map(str, row), f"{recall:.3f}"]
        for name, row, recall in zip(described.classes, scores.confusion.tolist(), scores.recalls, strict=True)
    ]
    head = ["true \\ predicted", *described.classes, "recall"]
    return f"""# {task.options.title or folder.name}

A k-mer classifier: windows of {" and ".join(map(str, task.options.window_widths))} letters attend to each other, then
decide together. {sum(p.numel() for p in task.model.parameters()):,} parameters. It reads {described.alphabet.name} of \
{described.length} letters; codes other than
{", ".join(described.alphabet.letters)} are read as unknown letters, which it met in training.

## Scores on the validation rows

Accuracy {scores.accuracy:.4f}, Matthews correlation {scores.mcc:.4f}, with the files as they are here.

{table(head, confusion)}

Logits are divided by a temperature of {temperature:.3f}, fitted on the validation rows. The expected calibration error
(15 bins) is {before:.4f} before and {after:.4f} after; for the second number each half of the rows was judged by the
temperature of the other half.

## Data

{data_notes(run)}

{len(task.train[1]):,} rows were trained on, {len(task.valid[1]):,} validation rows measured.

{how_it_was_made(run, command, averaged)}
## Curve

Loss in nats per row: in training with dropout and hidden letters, in validation with neither.

{curve_table(run, valid_loss=("validation loss", 3), accuracy=("accuracy", 4), mcc=("Matthews correlation", 4))}

## Limits

Only sequences of {described.length} letters like those of the table mean anything to it. What was not among the rows,
it has not learned to tell.
"""
