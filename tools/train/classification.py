"""How a k-mer classifier of sequences is made: labelled rows, the untrained model, the folder it ends in."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from heedmap.checkpoint import load
from heedmap.checkpoint.ours.folder import CARD, fill, save_folder
from heedmap.nn.kmer import KmerClassifier, KmerConfig
from heedmap.sequences.alphabet import Alphabet
from heedmap.sequences.table import read_rows
from heedmap.sequences.task import SequenceTask
from tools import ToolError
from tools.train.card import card, markdown_table
from tools.train.options import ClassificationOptions
from tools.train.run import TrainingRun

TABLES = ("train.tsv", "valid.tsv")

ROWS = 256
"""Rows that are answered together."""

EXAMPLE_SET = "examples.fa"
"""A small set of sequences of every class: examples of an atlas."""

EXAMPLES_EACH, SET_EACH = 2, 60
"""How many examples of a class the page offers, and how many the set holds."""


@dataclass(frozen=True)
class Scores:
    """What a confusion matrix (rows: true class, columns: predicted) says."""

    confusion: Int[np.ndarray, "true predicted"]

    @classmethod
    def of(cls, scores: Float[np.ndarray, "row classes"], labels: Int[np.ndarray, " row"]) -> "Scores":
        """Scores of the class with the highest probability (or logit)."""
        n_classes = scores.shape[1]
        pairs = labels * n_classes + scores.argmax(1)
        return cls(np.bincount(pairs, minlength=n_classes**2).reshape(n_classes, n_classes))

    @property
    def accuracy(self) -> float:
        """Share of rows that are right."""
        return float(self.confusion.trace() / self.confusion.sum())

    @property
    def recalls(self) -> tuple[float, ...]:
        """For each class, the share of its rows that was found."""
        return tuple((self.confusion.diagonal() / self.confusion.sum(axis=1).clip(min=1)).tolist())

    @property
    def mcc(self) -> float:
        """Matthews correlation for any number of classes: 1 is perfect, 0 is no better than chance.

        Source: Gorodkin 2004, "Comparing two K-category assignments by a K-category correlation coefficient".
        """
        c = self.confusion.astype(float)
        total, true, predicted = c.sum(), c.sum(axis=1), c.sum(axis=0)
        covariance = c.trace() * total - true @ predicted
        spread = (total**2 - predicted @ predicted) * (total**2 - true @ true)
        return float(covariance / np.sqrt(spread)) if spread > 0 else 0.0


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


class ClassificationTask:
    """Learning to classify: the task of a run."""

    def __init__(self, options: ClassificationOptions, device: torch.device) -> None:
        """Read the tables and draw the first weights.

        Raises:
            ToolError: the rows do not fit together, or are too few or too short for the options.
            InputError: a table cannot be read, or a sequence holds what is no letter.
            ConfigError: the background is no label.
        """
        self.options, self.device = options, device
        train, valid = (read_rows(options.data / name) for name in TABLES)
        alphabet, classes = Alphabet.of(options.alphabet), tuple(sorted({row["label"] for row in train}))
        if len(classes) < 2:
            every = f"every row of {options.data / TABLES[0]} has the label {classes[0]!r}"
            raise ToolError(f"{every}: a classifier needs two classes or more")
        length = len(alphabet.read(train[0]["sequence"]).ids)
        self.sequence_task = SequenceTask(alphabet, classes, length, background=options.background)
        self.ids = [row["id"] for row in valid]
        self.train, self.valid = (self._labelled(*one) for one in zip(TABLES, (train, valid), strict=True))
        if len(train) < options.batch:
            few = f"{len(train)} rows are left to train on, fewer than one batch of {options.batch}"
            raise ToolError(f"{few}, so nothing would be learned: give more rows")
        if (widest := max(options.window_widths)) > length:
            wide = f"a window of {widest} letters does not fit into sequences of {length}"
            raise ToolError(f"{wide}: choose narrower widths")
        torch.manual_seed(options.seed)
        self.model = KmerClassifier(self.config).to(device)
        self.loss: nn.Module = LabelLoss(self.model, options.hidden, alphabet.unknown_id)
        self.optimizer: torch.optim.Optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=0.0, weight_decay=options.decay, betas=(0.9, 0.99), fused=True
        )

    @property
    def config(self) -> KmerConfig:
        """The model that the options and the rows ask for."""
        options, task = self.options, self.sequence_task
        read = dict(vocab=len(task.alphabet), n_classes=len(task.classes), max_length=task.length)
        windows = dict(widths=options.window_widths, pooling="attention", n_questions=options.questions)
        form = dict(norm_first=True, positions="sinusoidal", scale_embedding=False)
        return KmerConfig.of(**read, **options.sizes.options, **windows, **form)

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
        self, table: str, rows: list[dict[str, str]]
    ) -> tuple[Int[Tensor, "row letter"], Int[Tensor, " row"]]:
        """Letters and labels as ids."""
        task, path = self.sequence_task, self.options.data / table
        foreign = {row["label"] for row in rows} - set(task.classes)
        if foreign:
            known = ", ".join(task.classes)
            raise ToolError(f"{path} holds the label {min(foreign)!r}: name every class ({known} are named)")
        ids = [task.alphabet.read(row["sequence"]).ids for row in rows]
        if other := next((len(row) for row in ids if len(row) != task.length), None):
            long = f"{path} holds sequences of {other} letters, but the task has {task.length}"
            raise ToolError(f"{long}: cut them to that length")
        return torch.tensor(ids), torch.tensor([task.classes.index(row["label"]) for row in rows])


def answers(model: nn.Module, letters: Int[Tensor, "row letter"]) -> Float[Tensor, "row classes"]:
    """Logits of every row, in evaluation mode."""
    model.eval()
    device = next(model.parameters()).device
    with torch.no_grad():
        return torch.cat([model(rows.to(device)).cpu() for rows in letters.split(ROWS)])


def export(run: TrainingRun[ClassificationTask], folder: Path, command: str) -> str:
    """Write the checkpoint of a finished run to `folder`; says the scores of the files as written."""
    task = run.task
    weights, averaged = run.averaged()
    model = KmerClassifier(task.config)
    fill(model, weights, "the mean of the saved weights")
    temperature = fitted_temperature(answers(model, task.valid[0]), task.valid[1])
    described = replace(task.sequence_task, temperature=round(temperature, 4))
    of_each = [(task.valid[1] == label).nonzero()[:, 0].tolist() for label in range(len(described.classes))]
    rows = of_each if task.options.rows_as_examples else []
    turns = zip(*(one[:EXAMPLES_EACH] for one in rows), strict=False)
    examples = tuple(_fasta(task, row) for turn in turns for row in turn)
    save_folder(folder, "kmer", model, examples=examples, task=described)
    if rows:
        in_set = "".join(_fasta(task, row) + "\n" for one in rows for row in one[:SET_EACH])
        (folder / EXAMPLE_SET).write_text(in_set, encoding="utf-8")
    scores = Scores.of(answers(load(folder).model, task.valid[0]).numpy(), task.valid[1].numpy())
    parts = _card_parts(task, task.options.title or folder.name, scores, temperature)
    (folder / CARD).write_text(card(run, parts, command, averaged), encoding="utf-8")
    return f"accuracy {scores.accuracy:.4f}, MCC {scores.mcc:.4f}"


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


def _fasta(task: ClassificationTask, row: int) -> str:
    alphabet, label = task.sequence_task.alphabet, int(task.valid[1][row])
    text = "".join((alphabet.letters + alphabet.unknown)[i] for i in task.valid[0][row].tolist())
    return f">{task.ids[row]} {task.sequence_task.classes[label]}\n{text}"


def _card_parts(task: ClassificationTask, title: str, scores: Scores, temperature: float) -> dict[str, str]:
    described = task.sequence_task
    confusion = [
        [name, *map(str, row), f"{recall:.3f}"]
        for name, row, recall in zip(described.classes, scores.confusion.tolist(), scores.recalls, strict=True)
    ]
    head = ["true \\ predicted", *described.classes, "recall"]
    widths = " and ".join(map(str, task.options.window_widths))
    return dict(
        title=title,
        about=f"""A k-mer classifier: windows of {widths} letters attend to each other, then decide together.
{sum(p.numel() for p in task.model.parameters()):,} parameters. It reads {described.alphabet.name} of \
{described.length} letters; codes other than
{", ".join(described.alphabet.letters)} are read as unknown letters, which it met in training.""",
        scores=f"""On the validation rows, with the files as they are here: accuracy {scores.accuracy:.4f},
Matthews correlation {scores.mcc:.4f}.

{markdown_table(head, confusion)}

Logits are divided by a temperature of {temperature:.3f}, fitted on the validation rows.""",
        counts=f"{len(task.train[1]):,} rows were trained on, {len(task.valid[1]):,} validation rows measured.",
        curve="Loss in nats per row: in training with dropout and hidden letters, in validation with neither.",
        limits=f"""Only sequences of {described.length} letters like those of the table mean anything to it.
What was not among the rows, it has not learned to tell.""",
    )
