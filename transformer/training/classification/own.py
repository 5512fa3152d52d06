"""The plan for a table of one's own: what its rows say, and sizes that suit a few thousand short sequences."""

from pathlib import Path

from transformer.errors import TrainingError
from transformer.models.kmer import KmerConfig
from transformer.sequences.alphabet import Alphabet
from transformer.sequences.task import SequenceTask
from transformer.training.classification.data import Labelled, held_out, read_labelled, read_rows
from transformer.training.classification.plan import Distillation, Hyperparameters, Plan

EPOCHS = 30
"""Rounds over the rows, where nothing else is asked for."""

VALID = 0.2
"""The share of rows that become validation rows, where no table of these is given."""


def plan_of(train: Path, alphabet: Alphabet, title: str, background: str, may_pass_on: bool) -> Plan:
    """The plan for the rows of a table: its labels are the classes, its length is the task's.

    Raises:
        TrainingError: the table is missing or has other columns, or all of its rows have one label.
        ConfigError: `background` is no label.
    """
    rows = read_rows(train)
    classes = tuple(sorted({row["label"] for row in rows}))
    if len(classes) < 2:
        raise TrainingError("training_one_class", path=train, label=classes[0])
    length = len(alphabet.read(rows[0]["sequence"]).ids)
    task = SequenceTask(alphabet=alphabet, classes=classes, length=length, background=background)
    return Plan(
        name=train.stem,
        title=title,
        task=task,
        config=KmerConfig(
            vocab=len(alphabet),
            n_classes=len(classes),
            d_model=48,
            n_heads=4,
            n_layers=1,
            d_ff=96,
            widths=(3, 11),
            dropout=0.2,
            norm_first=True,
            positions="sinusoidal",
            max_length=length,
            scale_embedding=False,
            pooling="attention",
        ),
        hyperparameters=Hyperparameters(epochs=EPOCHS, batch=64, rate=2e-3, average=0.99, unknown=0.1, decay=0.05),
        provenance=f"The table `{train.name}` and its validation rows, as they were given.",
        limits=(
            f"Only sequences of {length} letters like those of the table mean anything to it. What was not among the "
            "rows, it has not learned to tell."
        ),
        may_pass_on=may_pass_on,
        distillation=Distillation(epochs=EPOCHS, crossed=0.5),
    )


def read_tables(plan: Plan, train: Path, valid: Path | None) -> tuple[Labelled, Labelled]:
    """The rows to train on and the validation rows; without a table of these, a fifth of the others.

    Rows that share `plan.family_width` letters in a row stay on one side of such a division.

    Raises:
        TrainingError: as `read_labelled`; sequences have another length than the plan's, or are shorter than its
            widest window; or no fifth can be taken.
    """
    rows = read_labelled(train, plan.task.alphabet, plan.task.classes)
    if valid is None:
        rows, others = held_out(rows, VALID, plan.family_width, seed=0)
        if not len(rows) or not len(others):
            raise TrainingError("training_nothing_held_out", found=len(rows) + len(others), width=plan.family_width)
    else:
        others = read_labelled(valid, plan.task.alphabet, plan.task.classes)
    for path, table in ((train, rows), (valid or train, others)):
        found = table.letters.shape[1]
        if found != plan.task.length:
            raise TrainingError("training_other_length", path=path, found=found, length=plan.task.length)
    if max(plan.config.widths) > plan.task.length:
        raise TrainingError("training_window_too_wide", widest=max(plan.config.widths), length=plan.task.length)
    return rows, others
