"""Checkpoints that training begins with: those that teach beside the nets that are trained, and one to go on from."""

from collections.abc import Sequence
from pathlib import Path

from transformer.checkpoint import load
from transformer.errors import TrainingError
from transformer.models.kmer import KmerClassifier
from transformer.training.classification.plan import Plan


def read_teachers(plan: Plan, folders: Sequence[Path]) -> tuple[tuple[str, KmerClassifier], ...]:
    """The k-mer classifiers in these folders, by the folders' names.

    Raises:
        CheckpointError: a folder cannot be read, or holds no k-mer classifier.
        TrainingError: one reads other letters or lengths, or decides between other classes, than the plan.
    """
    teachers = []
    for folder in folders:
        found = load(folder)
        model, task = found.model_as(KmerClassifier), found.task
        mine = (plan.task.alphabet.letters, plan.task.classes, plan.task.length)
        if task is None or (task.alphabet.letters, task.classes, task.length) != mine:
            raise TrainingError("training_teacher_of_another_task", folder=folder, plan=plan.name)
        teachers.append((found.name, model))
    return tuple(teachers)


def read_start(plan: Plan, folder: Path) -> KmerClassifier:
    """The k-mer classifier in this folder, to be trained further.

    Raises:
        CheckpointError: the folder cannot be read, or holds no k-mer classifier.
        TrainingError: it has other letters, classes, lengths or sizes than the plan.
    """
    ((_, model),) = read_teachers(plan, [folder])
    if model.config != plan.config:
        raise TrainingError("training_start_of_other_sizes", folder=folder)
    return model
