"""From a finished run to the folder of a translator: mean weights, half precision, history, scores, card."""

import json
import shutil
from pathlib import Path
from typing import Any

from transformer.checkpoint import load
from transformer.checkpoint.ours.folder import CARD, fill, save_folder, save_weights
from transformer.checkpoint.weight_files import WEIGHTS
from transformer.nn.search import DecodingOptions
from transformer.runs.corpus import Bleu, bleu, translate_lines
from transformer.runs.measures.head_agreement import FILE as HEADS
from transformer.runs.measures.head_agreement import head_agreement, write_agreement
from transformer.text.lines import read_lines
from transformer.training.card import curve_table, data_notes, how_it_was_made, table
from transformer.training.loop import Translator
from transformer.training.run import Run
from transformer.training.store import is_snapshot
from transformer.training.translation import GREEDY, Translation, new_model

LENGTH_PENALTIES = (0.0, 0.5, 1.0, 1.5)
"""Length penalties that the card compares on the validation text, with the default beam."""

LANGUAGES = {"cs": "Czech", "de": "German", "en": "English", "fr": "French"}
"""Languages by the ending of their files; another ending stands for itself."""


def export(run: Run[Translation], folder: Path, command: str) -> Bleu:
    """Write the checkpoint of a finished run to `folder`; the score is that of the files as written, default decoding.

    `examples.txt` in the folder of the data holds sentences to try it with; it does not need to be there.
    """
    task = run.task
    weights, averaged = run.store.averaged(run.progress.update)
    model = new_model(task.options, task.tokenizer)
    fill(model, weights, "the mean of the saved weights")
    source, target = (LANGUAGES.get(ending, ending) for ending in task.options.languages)
    sentences = task.options.data / "examples.txt"
    examples = tuple(read_lines(sentences)) if sentences.is_file() else ()
    save_folder(folder, model.architecture, model, task.tokenizer, (source, target), examples)
    if examples:
        write_agreement(folder / HEADS, head_agreement(load(folder), examples))
    snapshots = _save_history(run, folder / "history")
    scores = _scores(task, folder)
    (folder / CARD).write_text(_card(run, task, folder, command, averaged, snapshots, scores), encoding="utf-8")
    return next(iter(scores.values()))


def _save_history(run: Run[Translation], folder: Path) -> list[int]:
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
    for entry in run.store.curve():
        if is_snapshot(entry["update"]):
            name = f"{entry['update']:06d}.safetensors"
            save_weights(folder / name, run.store.weights(entry["update"]))
            index.append({"file": name, **{key: entry[key] for key in ("update", "epoch", "seconds")},
                          "bleu_greedy": entry["valid_bleu_greedy"], "loss": entry["valid_loss"]})  # fmt: skip
    (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    return [entry["update"] for entry in index]


def _scores(task: Translation, folder: Path) -> dict[str, Bleu]:
    """BLEU by the way to decode, in words; the library's default comes first."""
    model, tokenizer, _ = load(folder).translator()
    default = DecodingOptions()
    others = [DecodingOptions(length_penalty=p) for p in LENGTH_PENALTIES if p != default.length_penalty]
    found = {}
    for options in (default, GREEDY, *others):
        how = "greedy" if options.beam == 1 else f"beam {options.beam}, length penalty {options.length_penalty:g}"
        lines = translate_lines(model, tokenizer, task.valid_text.source, options, progress=True)
        found[how] = bleu([line.text for line in lines], task.valid_text.target)
    return found


def _described(model: Translator) -> str:
    """The model in a few words, and what its architecture cannot do."""
    config: Any = model.config
    if not model.abilities.recurrent:
        return (
            f"A Transformer of {config.n_encoder_layers} encoder and {config.n_decoder_layers} decoder layers "
            f"(d_model {config.d_model}, {config.n_heads} heads, d_ff {config.d_ff})"
        )
    return (
        f"A recurrent encoder-decoder with {config.attention} attention (GRU: one layer that reads both ways, one that "
        f"writes; hidden {config.hidden}, embeddings {config.embedding_size})"
    )


def _card(
    run: Run[Translation], task: Translation, folder: Path, command: str, averaged: list[int], snapshots: list[int],
    scores: dict[str, Bleu],
) -> str:  # fmt: skip
    options, model = task.options, task.model
    how, best = next(iter(scores.items()))
    source, target = options.languages
    taken_over = options.tokenizer.resolve().parent if options.tokenizer else options.start
    tokenizer = f"that of `{taken_over.name}`" if taken_over else "trained on the training pairs alone"
    kept = f" `history/` holds the weights of updates {', '.join(map(str, snapshots))}." if snapshots else ""
    return f"""# {folder.name}

{_described(model)}, {model.config.target_vocab:,} pieces, {sum(p.numel() for p in model.parameters()):,} parameters, \
{(folder / WEIGHTS).stat().st_size / 1e6:.1f} MB.

**{best.score:.1f} BLEU** on the validation split ({how}).

## Data and licence

{data_notes(run)}

{len(task.train_text):,} training pairs and {len(task.valid_text):,} validation pairs ({source} to {target}).
The tokenizer is {tokenizer}; the validation pairs only measure.

{how_it_was_made(run, command, averaged)}
## Scores

On the {len(task.valid_text):,} validation pairs, with the files as they are here:

{table(["decoding", "BLEU"], [[how, f"{one.score:.2f}"] for how, one in scores.items()])}

Signature: `{best.signature}` (cased, detokenised).

## Curve

Loss in nats per token: in training with dropout and label smoothing, in validation with neither. BLEU is greedy, with
the weights of that update, not yet averaged.{kept}

{curve_table(run, valid_loss=("validation loss", 3), valid_bleu_greedy=("BLEU", 1))}

## Limits

The model knows only texts like those that it was trained on, and was measured on nothing else.
"""
