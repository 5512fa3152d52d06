"""`importance`: which heads a translator needs, measured on a corpus and written as tables and a figure."""

import argparse
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from transformer.checkpoint import load
from transformer.checkpoint.ours.folder import load_snapshot
from transformer.checkpoint.ours.history import snapshots
from transformer.commands.pairs import add_pairs, both_sides
from transformer.errors import InputError
from transformer.figures.curves import removal_curves
from transformer.figures.export import html
from transformer.messages import words
from transformer.models.seq2seq import Seq2Seq
from transformer.runs.importance import (
    SHARES,
    HeadImportance,
    each_head_off,
    gradient_importance,
    heads_of,
    plans_of,
    removal_lines,
    removals,
)
from transformer.runs.importance_tables import FOLDER, RUN, WHOLE, Importance
from transformer.runs.teacher_forcing import mean_loss, tokenised

DESCRIPTION = """For each head: by how much the mean NLL of a token (nats) rises when it is off (zero; its mean output),
and its gradient importance (Michel et al. 2019, in the token version of their code). Then NLL and greedy BLEU with
0, 10 ... 90 percent of the heads off (zero): the least important first by gradient and by zeroing, by type of
attention, and in three random orders. The mean outputs are those of the checkpoint (`means`). The orders are found on
the same pairs on which they are judged, which flatters them.

Writes heads.csv, removals.csv and run.json into CHECKPOINT/importance, or where --out says. --snapshots measures each
snapshot of the training as well: gradient importance, and the NLL when heads are removed by it and in one random
order. They are written one after the other: --resume goes on after a run that was ended."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "importance",
        help="which heads of a translator matter, on a corpus",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_pairs(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the tables go (default: CHECKPOINT/importance)")
    parser.add_argument("--snapshots", action="store_true", help="measure the snapshots of its training as well")
    parser.add_argument(
        "--resume", action="store_true", help="keep what the tables there hold of these sentences, measure the rest"
    )
    parser.add_argument("--figure", type=Path, metavar="FILE", help="write the curves as a page that works offline")
    parser.add_argument(
        "--measure", choices=("bleu", "nll"), default="bleu", help="what it draws (default: %(default)s)"
    )
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: PyTorch's choice)")
    parser.add_argument("--quiet", action="store_true", help="draw no progress bar on stderr")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure; the folder of the tables goes to stdout."""
    if arguments.threads is not None:
        if arguments.threads < 1:
            raise InputError("threads_too_few", threads=arguments.threads)
        torch.set_num_threads(arguments.threads)
    checkpoint = load(arguments.checkpoint)
    checkpoint.model_as(Seq2Seq)
    out = arguments.out or (checkpoint.folder or Path()) / FOLDER
    source, reference = both_sides(arguments)
    pairs = tokenised(checkpoint, source, reference)
    measured = {WHOLE: checkpoint}
    if arguments.snapshots and checkpoint.folder is not None:
        measured |= {one.name: load_snapshot(checkpoint, one.path) for one in snapshots(checkpoint.folder)}
    about: dict[str, Any] = {
        "source": arguments.source.name,
        "reference": arguments.reference.name,
        "pairs": pairs.size,
        "left_out": pairs.left_out,
        "decoding": "greedy",
        "removed_by": "zero",
        "means": "" if checkpoint.means is None else checkpoint.means.reference,
        "nll": {},
    }
    found = _resumed(out, about) if arguments.resume else Importance({}, {}, about)
    for name, one in measured.items():
        if name in found.heads and name in found.removals:
            continue
        whole = name == WHOLE
        loss = mean_loss(one, pairs)
        gradients = gradient_importance(one, pairs)
        every = heads_of(one.model)
        with tqdm(total=2 * len(every), unit="head", desc=name, disable=arguments.quiet or not whole) as bar:
            off = each_head_off(one, pairs, bar.update) if whole else {}
        unknown = (math.nan, math.nan)
        heads = tuple(HeadImportance(s, h, *off.get((s, h), unknown), gradients[s, h]) for s, h in every)
        plans = plans_of(heads, whole)
        rows = removals(one, pairs, source, reference, plans, translating=whole)
        total = len(plans) * len(SHARES)
        left = tuple(tqdm(rows, total=total, unit="removal", desc=name, disable=arguments.quiet))
        found = found.with_one(name, heads, left, loss)
        found.write(out)  # each as it is done, so that a long run can be resumed
    if arguments.figure is not None:
        measure = arguments.measure
        figure = removal_curves(removal_lines(found.removals[WHOLE], measure), words(f"measure_{measure}"))
        arguments.figure.write_text(html(figure), encoding="utf-8")
    sys.stdout.write(f"{out}\n")
    return 0


def _resumed(folder: Path, about: Mapping[str, Any]) -> Importance:
    """What the tables of a folder hold, if it was measured on the same sentences in the same way; else nothing.

    Raises:
        InputError: it was measured on others.
        CheckpointError: the tables cannot be read.
    """
    if not (folder / RUN).is_file():
        return Importance({}, {}, about)
    found = Importance.of_folder(folder)
    for name in about:
        if name != "nll" and found.about.get(name) != about[name]:
            there = str(found.about.get(name))[:100]
            raise InputError("importance_of_others", folder=str(folder), name=name, found=there, given=str(about[name]))
    return found
