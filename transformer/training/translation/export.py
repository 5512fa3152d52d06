"""From a finished run to a checkpoint folder: mean weights, half precision, history, scores, card."""

import json
import platform
import shutil
from pathlib import Path
from typing import Any

import torch

from transformer.checkpoint import load
from transformer.checkpoint.ours.folder import CARD, fill, save_folder, save_weights
from transformer.checkpoint.weight_files import WEIGHTS
from transformer.decoding.search import DecodingOptions
from transformer.errors import CheckpointError
from transformer.runs.corpus import bleu, translate_lines
from transformer.runs.head_agreement import FILE as HEADS
from transformer.runs.head_agreement import head_agreement, write_agreement
from transformer.training.translation.architectures import Translator, described, folder_name, limits, new_model
from transformer.training.translation.card import Facts, Scored, card
from transformer.training.translation.corpora import Corpus, language_names
from transformer.training.translation.options import TrainingOptions
from transformer.training.translation.run import GREEDY, Run
from transformer.training.translation.store import is_snapshot

LENGTH_PENALTIES = (0.0, 0.5, 1.0, 1.5)
"""Length penalties that the card compares on the validation text, with the default beam."""


def export(run: Run, folder: Path, command: str, corpus: Corpus) -> Facts:
    """Write the checkpoint of a finished run to `folder`; scores are those of the files as written.

    The default decoding of the library is scored first, then greedy and other length penalties.
    """
    weights, averaged = run.store.averaged(run.progress.update)
    model = new_model(run.options, run.tokenizer)
    fill(model, weights, "the mean of the saved weights")
    save_folder(
        folder, folder_name(model), model, run.tokenizer, language_names(run.options.languages), corpus.examples
    )
    if corpus.examples:
        write_agreement(folder / HEADS, head_agreement(load(folder), corpus.examples))
    curve = run.store.curve()
    before = before_start(run.options.start)
    snapshots = _save_history(run, folder / "history", curve)
    facts = Facts(
        name=folder.name,
        command=command,
        machine=machine(run),
        corpus=corpus,
        languages=run.options.languages,
        pairs=(len(run.train_text), len(run.valid_text)),
        size=_size(model, folder),
        averaged=averaged,
        snapshots=snapshots,
        curve=curve,
        scores=_scores(run, folder),
        tokenizer=_tokenizer_of(run.options),
        limits=limits(model),
        before=before,
    )
    (folder / CARD).write_text(card(facts), encoding="utf-8")
    return facts


def machine(run: Run) -> str:
    """What the run computed on."""
    if run.process.device.type == "cuda":
        place = f"{run.process.count} x {torch.cuda.get_device_name(run.process.device)}"
    else:
        place = f"CPU {platform.machine()} (processes: {run.process.count}, threads of each: {run.options.threads})"
    return f"{place}, PyTorch {torch.__version__.partition('+')[0]}"


def _save_history(run: Run, folder: Path, curve: list[dict[str, Any]]) -> list[int]:
    """The snapshots in half precision, and an index that says when each was taken and how well it translated.

    A run that went on from a checkpoint keeps the history of that one: its own updates belong to learned weights.
    """
    start = run.options.start
    if start is not None:
        if (start / "history").is_dir() and start.resolve() != folder.parent.resolve():
            shutil.copytree(start / "history", folder, dirs_exist_ok=True)
        return []
    if folder.is_dir():
        shutil.rmtree(folder)  # of another run
    if not run.options.history:
        return []
    folder.mkdir()
    index = []
    for entry in curve:
        if is_snapshot(entry["update"]):
            name = f"{entry['update']:06d}.safetensors"
            save_weights(folder / name, run.store.weights(entry["update"]))
            index.append({"file": name, **{key: entry[key] for key in ("update", "epoch", "seconds")},
                          "bleu_greedy": entry["valid_bleu_greedy"], "loss": entry["valid_loss"]})  # fmt: skip
    (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    return [entry["update"] for entry in index]


def before_start(start: Path | None) -> str:
    """What the card of the checkpoint that a run went on from says of its own training; empty without one.

    Raises:
        CheckpointError: the folder has no such card.
    """
    if start is None:
        return ""
    try:
        sections = (start / CARD).read_text(encoding="utf-8").split("\n## ")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError("training_start_without_card", name=start.name, card=CARD, reason=str(error)) from error
    told = [section.strip() for section in sections if section.startswith(("How it was made", "Curve"))]
    return "\n\n".join(f"### {section}" for section in told)


def _tokenizer_of(options: TrainingOptions) -> str | None:
    """The checkpoint whose tokenizer the run took over, if any."""
    folder = options.tokenizer.resolve().parent if options.tokenizer else options.start
    return None if folder is None else folder.name


def _size(model: Translator, folder: Path) -> str:
    megabytes = (folder / WEIGHTS).stat().st_size / 1e6
    return (
        f"{described(model)}, {model.config.target_vocab:,} pieces, "
        f"{sum(p.numel() for p in model.parameters()):,} parameters, {megabytes:.1f} MB."
    )


def _scores(run: Run, folder: Path) -> list[Scored]:
    model, tokenizer, _ = load(folder).translator()
    default = DecodingOptions()
    others = [DecodingOptions(length_penalty=p) for p in LENGTH_PENALTIES if p != default.length_penalty]
    found = []
    for options in (default, GREEDY, *others):
        lines = translate_lines(model, tokenizer, run.valid_text.source, options, progress=True)
        found.append(Scored(options, bleu([line.text for line in lines], run.valid_text.target)))
    return found
