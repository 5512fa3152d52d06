"""How a k-mer classifier of sequences is made: tables of labelled rows, the untrained model, and how it is measured."""

import csv
from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.checkpoint import load
from transformer.checkpoint.ours.folder import fill
from transformer.errors import TrainingError
from transformer.nn.kmer import KmerClassifier, KmerConfig
from transformer.runs.scores import Scores
from transformer.sequences.alphabet import Alphabet
from transformer.sequences.task import SequenceTask
from transformer.training.options import ClassificationOptions

ROWS = 256
"""Rows that are answered together."""


class LabelLoss(nn.Module):
    """Summed cross-entropy (nats) of the labels of rows, some of whose letters are hidden in training."""

    def __init__(self, model: KmerClassifier, hidden: float, unknown_id: int) -> None:
        super().__init__()
        self.model, self.hidden, self.unknown_id = model, hidden, unknown_id

    def forward(self, letters: Int[Tensor, "row letter"], labels: Int[Tensor, " row"]) -> Float[Tensor, ""]:
        """The loss of a batch."""
        if self.training:
            letters = letters.masked_fill(torch.rand(letters.shape).to(letters.device) < self.hidden, self.unknown_id)
        return F.cross_entropy(self.model(letters), labels, reduction="sum")


class Classification:
    """Learning to classify: the task of a run."""

    def __init__(self, options: ClassificationOptions, device: torch.device) -> None:
        """Read the tables and draw the first weights.

        Raises:
            TrainingError: a table cannot be read or used; or its rows are too few or too short for the options.
            InputError: a sequence holds what is no letter.
            ConfigError: the background is no label.
        """
        self.options, self.device = options, device
        train, valid = (read_rows(options.data / name) for name in ("train.tsv", "valid.tsv"))
        alphabet, classes = Alphabet.of(options.alphabet), tuple(sorted({row["label"] for row in train}))
        if len(classes) < 2:
            raise TrainingError("training_one_class", path=options.data / "train.tsv", label=classes[0])
        length = len(alphabet.read(train[0]["sequence"]).ids)
        self.sequence_task = SequenceTask(alphabet, classes, length, background=options.background)
        self.ids = [row["id"] for row in valid]
        self.train = self._labelled(options.data / "train.tsv", train)
        self.valid = self._labelled(options.data / "valid.tsv", valid)
        if len(train) < options.batch:
            raise TrainingError("training_fewer_rows_than_a_batch", found=len(train), batch=options.batch)
        if max(options.window_widths) > length:
            raise TrainingError("training_window_too_wide", widest=max(options.window_widths), length=length)
        torch.manual_seed(options.seed)
        self.model = KmerClassifier(self.config)
        if options.start is not None:
            fill(self.model, dict(load(options.start).model_as(KmerClassifier).named_parameters()), options.start.name)
        self.model.to(device)
        self.loss = LabelLoss(self.model, options.hidden, alphabet.unknown_id)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=0.0, weight_decay=options.decay, betas=(0.9, 0.99), fused=True
        )

    @property
    def config(self) -> KmerConfig:
        """The model that the options and the rows ask for."""
        options, task = self.options, self.sequence_task
        return KmerConfig(
            vocab=len(task.alphabet),
            n_classes=len(task.classes),
            d_model=options.d_model,
            n_heads=options.n_heads,
            n_layers=options.n_layers,
            d_ff=options.d_ff,
            widths=options.window_widths,
            dropout=options.dropout,
            norm_first=True,
            positions="sinusoidal",
            max_length=task.length,
            scale_embedding=False,
            pooling="attention",
            n_questions=options.questions,
        )

    def batches(self, epoch: int) -> list[list[int]]:
        """Numbers of rows; the few that fill no batch wait for another epoch."""
        generator = torch.Generator().manual_seed(self.options.seed * 1_000_003 + epoch)
        order = torch.randperm(len(self.train[1]), generator=generator).split(self.options.batch)
        return [rows.tolist() for rows in order if len(rows) == self.options.batch]

    def count(self, batch: Sequence[int]) -> int:
        """Rows."""
        return len(batch)

    def tensors(self, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Letters and labels."""
        letters, labels = (array[list(rows)].to(self.device) for array in self.train)
        return letters, labels

    def validate(self) -> dict[str, float]:
        """Nats per validation row, accuracy and Matthews correlation."""
        logits, labels = answers(self.model, self.valid[0]), self.valid[1]
        scores = Scores.of(logits.numpy(), labels.numpy())
        return {"valid_loss": float(F.cross_entropy(logits, labels)), "accuracy": scores.accuracy, "mcc": scores.mcc}

    def _labelled(
        self, path: Path, rows: list[dict[str, str]]
    ) -> tuple[Int[Tensor, "row letter"], Int[Tensor, " row"]]:
        """Letters and labels as ids."""
        task = self.sequence_task
        foreign = {row["label"] for row in rows} - set(task.classes)
        if foreign:
            raise TrainingError("training_unknown_label", path=path, label=min(foreign), classes=task.classes)
        ids = [task.alphabet.read(row["sequence"]).ids for row in rows]
        if other := next((len(row) for row in ids if len(row) != task.length), None):
            raise TrainingError("training_other_length", path=path, found=other, length=task.length)
        return torch.tensor(ids), torch.tensor([task.classes.index(row["label"]) for row in rows])


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a table with columns `id`, `sequence` and `label`, divided by tabs.

    Raises:
        TrainingError: the file is missing or cannot be read, has other columns, or a row is cut short.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
    except OSError as error:
        raise TrainingError("training_unreadable", path=path, reason=error.strerror) from error
    except (UnicodeError, csv.Error) as error:
        raise TrainingError("training_unreadable", path=path, reason=str(error)) from error
    if not rows or not {"id", "sequence", "label"} <= rows[0].keys():
        raise TrainingError("training_columns", path=path)
    short = next((i for i, row in enumerate(rows) if not row["sequence"] or not row["label"]), None)
    if short is not None:
        raise TrainingError("training_cut_short", path=path, line=short + 2)
    return rows


def answers(model: nn.Module, letters: Int[Tensor, "row letter"]) -> Float[Tensor, "row classes"]:
    """Logits of every row, in evaluation mode."""
    model.eval()
    device = next(model.parameters()).device
    with torch.no_grad():
        return torch.cat([model(rows.to(device)).cpu() for rows in letters.split(ROWS)])
