"""From a finished run to a checkpoint folder: mean weights, half precision, history, scores, card."""

import json
import platform
from pathlib import Path
from typing import Any

import torch

from transformer.checkpoint import load
from transformer.checkpoint.folder import CARD, WEIGHTS, fill, save_folder, save_weights
from transformer.corpus import bleu, translate_lines, translator
from transformer.decoding import DecodingOptions
from transformer.models.seq2seq import Seq2Seq
from transformer.training.card import Facts, Scored, card
from transformer.training.corpora import Corpus, language_names
from transformer.training.store import is_snapshot
from transformer.training.translation import GREEDY, Run, model_config

LENGTH_PENALTIES = (0.0, 0.5, 1.0, 1.5)
"""Length penalties that the card compares on the validation text, with the default beam."""


def export(run: Run, folder: Path, command: str, corpus: Corpus) -> Facts:
    """Write the checkpoint of a finished run to `folder`; scores are those of the files as written.

    The default decoding of the library is scored first, then greedy and other length penalties.
    """
    weights, averaged = run.store.averaged(run.progress.update)
    model = Seq2Seq(model_config(run.options, run.tokenizer))
    fill(model, weights, "the mean of the saved weights")
    save_folder(folder, "seq2seq", model, run.tokenizer, language_names(run.options.languages), corpus.examples)
    curve = run.store.curve()
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
    """The snapshots in half precision, and an index that says when each was taken and how well it translated."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.safetensors"):
        old.unlink()
    index = []
    for entry in curve:
        if is_snapshot(entry["update"]):
            name = f"{entry['update']:06d}.safetensors"
            save_weights(folder / name, run.store.weights(entry["update"]))
            index.append({"file": name, **{key: entry[key] for key in ("update", "epoch", "seconds")},
                          "bleu_greedy": entry["valid_bleu_greedy"], "loss": entry["valid_loss"]})  # fmt: skip
    (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    return [entry["update"] for entry in index]


def _size(model: Seq2Seq, folder: Path) -> str:
    config, megabytes = model.config, (folder / WEIGHTS).stat().st_size / 1e6
    return (
        f"A Transformer of {config.n_encoder_layers} encoder and {config.n_decoder_layers} decoder layers "
        f"(d_model {config.d_model}, {config.n_heads} heads, d_ff {config.d_ff}), {config.target_vocab:,} pieces, "
        f"{sum(p.numel() for p in model.parameters()):,} parameters, {megabytes:.1f} MB."
    )


def _scores(run: Run, folder: Path) -> list[Scored]:
    model, tokenizer = translator(load(folder))
    default = DecodingOptions()
    others = [DecodingOptions(length_penalty=p) for p in LENGTH_PENALTIES if p != default.length_penalty]
    found = []
    for options in (default, GREEDY, *others):
        lines = translate_lines(model, tokenizer, run.valid_text.source, options, progress=True)
        found.append(Scored(options, bleu([line.text for line in lines], run.valid_text.target)))
    return found
