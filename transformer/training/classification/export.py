"""From finished trainings to a checkpoint folder: the best seed in half precision, examples, and a card."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from transformer.checkpoint import load
from transformer.checkpoint.ours.folder import CARD, fill, save_folder
from transformer.models.kmer import KmerClassifier
from transformer.sequences.task import SequenceTask
from transformer.training.classification.card import card
from transformer.training.classification.data import Labelled
from transformer.training.classification.outcome import Outcome
from transformer.training.classification.run import answers

EXAMPLE_SET = "examples.fa"
"""A small set of sequences of every class, for motifs."""

EXAMPLES_EACH, SET_EACH = 2, 60
"""How many examples of a class the page offers, and how many the set holds."""

MARKOV_ORDER = 4
"""How many letters before it decide a letter of a made-up example, at most."""

SEEN_EACH = 10
"""How many letters there must be for each choice that a made-up example follows; else it would repeat what was given.
"""


def export(outcome: Outcome, folder: Path, command: str) -> None:
    """Write the checkpoint folder; what the card says of the shipped seed is measured on the files as written."""
    plan, best = outcome.plan, outcome.best
    model = KmerClassifier(plan.config)
    fill(model, best.weights, "the best seed")
    task = replace(plan.task, temperature=round(outcome.temperature, 4))
    rows = _example_rows(outcome)
    examples = tuple(_fasta(task, rows, kept) for kept in _first_of_each(rows.labels, EXAMPLES_EACH))
    save_folder(folder, "kmer", model, examples=examples, task=task)
    in_set = [row for label in range(len(task.classes)) for row in _rows_of(rows.labels, label)[:SET_EACH]]
    (folder / EXAMPLE_SET).write_text("".join(_fasta(task, rows, row) + "\n" for row in in_set), encoding="utf-8")
    logits = answers(load(folder).model, outcome.valid)
    (folder / CARD).write_text(card(outcome, replace(best, logits=logits), task, command), encoding="utf-8")


def made_up(letters: Int[Tensor, "row letter"], count: int, n_letters: int) -> Int[Tensor, "made letter"]:
    """New sequences that are like `letters`: each letter is drawn by what follows the few before it, anywhere in them.

    For data that may not be passed on; the generator is fixed, so the same data give the same sequences.
    """
    generator = torch.Generator().manual_seed(0)
    known = letters.clamp(max=n_letters - 1)
    orders = (order for order in range(MARKOV_ORDER, 1, -1) if SEEN_EACH * n_letters ** (order + 1) <= known.numel())
    order = next(orders, 1)
    powers = n_letters ** torch.arange(order)
    contexts = (known.unfold(1, order, 1)[:, :-1] * powers).sum(-1)
    pairs = contexts * n_letters + known[:, order:]
    follows = pairs.flatten().bincount(minlength=n_letters ** (order + 1)).reshape(-1, n_letters) + 0.1
    starts = torch.randint(len(known), (count,), generator=generator)
    made = [known[starts, i] for i in range(order)]
    while len(made) < letters.shape[1]:
        context = (torch.stack(made[-order:], 1) * powers).sum(1)
        made.append(torch.multinomial(follows[context], 1, generator=generator)[:, 0])
    return torch.stack(made, 1)


def _example_rows(outcome: Outcome) -> Labelled:
    """Validation rows; where the data may not be passed on, made-up sequences instead."""
    plan, valid = outcome.plan, outcome.valid
    if plan.may_pass_on:
        return valid
    n_letters = len(plan.task.alphabet.letters)
    parts, labels, ids = [], [], []
    for label, name in enumerate(plan.task.classes):
        made = made_up(valid.letters[valid.labels == label], SET_EACH, n_letters)
        parts.append(made)
        labels += [label] * len(made)
        ids += [f"made-up-{name}-{i + 1}" for i in range(len(made))]
    return Labelled(tuple(ids), torch.cat(parts), torch.tensor(labels))


def _first_of_each(labels: Tensor, count: int) -> list[int]:
    """The first rows of every class in turn, so that neighbours differ."""
    each = [_rows_of(labels, label)[:count] for label in range(int(labels.max()) + 1)]
    return [row for turn in zip(*each, strict=True) for row in turn]


def _rows_of(labels: Tensor, label: int) -> Sequence[int]:
    return (labels == label).nonzero()[:, 0].tolist()


def _fasta(task: SequenceTask, rows: Labelled, row: int) -> str:
    text = "".join((task.alphabet.letters + task.alphabet.unknown)[i] for i in rows.letters[row].tolist())
    return f">{rows.ids[row]} {task.classes[int(rows.labels[row])]}\n{text}"
