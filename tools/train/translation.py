"""How a translator is made: parallel text as batches of like length, the untrained model, and the folder it ends in.

Recipe: Wu et al. 2021, "Good for Misconceived Reasons" (Multi30k, the small model).
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heedmap.checkpoint import load
from heedmap.checkpoint.ours.folder import CARD, TOKENIZER, fill, save_folder, save_weights
from heedmap.checkpoint.weight_files import WEIGHTS
from heedmap.nn.common import pad
from heedmap.nn.recurrent import Recurrent, RecurrentConfig
from heedmap.nn.search import DecodingOptions, teacher_forced
from heedmap.nn.seq2seq import Seq2Seq, Seq2SeqConfig
from heedmap.runs.corpus import Bleu, bleu, translate_lines
from heedmap.text.base import both_sides, read_lines
from heedmap.text.tokenizers import TextTokenizer, train_tokenizer
from heedmap.training.descent import NextTokenLoss
from tools import ToolError
from tools.train.card import card, markdown_table
from tools.train.options import TranslationOptions
from tools.train.run import TrainingRun, is_snapshot

Translator = Seq2Seq | Recurrent

GREEDY = DecodingOptions(beam=1)
"""How validation translates while the model is trained."""

VALIDATION_ROWS = 100
"""Validation pairs that pass through the model together."""

LANGUAGES = {"cs": "Czech", "de": "German", "en": "English", "fr": "French"}
"""Languages by the ending of their files; another ending stands for itself."""


@dataclass(frozen=True)
class TokenPair:
    """One training example: source with its end token; target with start and end token."""

    source: list[int]
    target: list[int]


def pairs(sources: Sequence[str], targets: Sequence[str], tokenizer: TextTokenizer, max_tokens: int) -> list[TokenPair]:
    """Encode both sides; pairs with an empty or an over-long side teach nothing and are left out.

    Raises:
        ToolError: no pair is left.
    """
    both = ((tokenizer.encode(s), tokenizer.encode(t)) for s, t in zip(sources, targets, strict=True))
    framed = (TokenPair([*s, tokenizer.eos_id], [tokenizer.bos_id, *t, tokenizer.eos_id]) for s, t in both)
    found = [p for p in framed if 1 < len(p.source) <= max_tokens and 2 < len(p.target) <= max_tokens]
    if not found:
        raise ToolError(f"max_tokens={max_tokens} leaves no pair to learn from: choose more")
    return found


def epoch_batches(data: list[TokenPair], tokens: int, seed: int, epoch: int) -> Iterator[list[TokenPair]]:
    """All pairs once, in batches of at most `tokens` source and `tokens` target positions (padding counted).

    Lengths are jittered before sorting, so that companions change from epoch to epoch.
    """
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    jitter = torch.rand(len(data), 2, generator=generator).tolist()
    order = sorted(
        range(len(data)), key=lambda i: (len(data[i].target) + jitter[i][0], len(data[i].source) + 2 * jitter[i][1])
    )
    groups: list[list[int]] = [[]]
    width = 0
    for i in order:
        wider = max(width, len(data[i].source), len(data[i].target))
        if groups[-1] and wider * (len(groups[-1]) + 1) > tokens:
            groups.append([])
            wider = max(len(data[i].source), len(data[i].target))
        groups[-1].append(i)
        width = wider
    for group in torch.randperm(len(groups), generator=generator).tolist():
        yield [data[i] for i in groups[group]]


def new_model(options: TranslationOptions, tokenizer: TextTokenizer) -> Translator:
    """The untrained model that `options` describe, with one vocabulary for both languages.

    A Transformer has a norm before each sub-layer. Recurrent nets are as in Bahdanau et al. 2015, with either
    attention, so that two runs differ in nothing else.
    """
    sizes, n_tokens = options.sizes, len(tokenizer)
    ids = dict(pad_id=tokenizer.pad_id, bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id)
    shared: dict[str, Any] = dict(
        source_vocab=n_tokens, target_vocab=n_tokens, tie_embeddings=True, tie_projection=True, **ids
    )
    shared |= dict(dropout=sizes.dropout, max_length=options.max_tokens)
    kind, _, attention = options.architecture.partition("-")
    if kind == "rnn":
        shared |= dict(hidden=sizes.d_model, d_embedding=options.d_embedding, attention=attention)
        return Recurrent(RecurrentConfig.of(bidirectional=True, deep_output=True, **shared))
    shared |= dict(d_model=sizes.d_model, n_heads=sizes.n_heads, d_ff=sizes.d_ff, positions=options.positions)
    shared |= dict(n_encoder_layers=sizes.n_layers, n_decoder_layers=sizes.n_layers)
    return Seq2Seq(Seq2SeqConfig.of(norm_first=True, norm_after_stack=True, **shared))


class TranslationTask:
    """Learning to translate: the task of a run."""

    def __init__(self, options: TranslationOptions, device: torch.device) -> None:
        """Read the texts, make or take over the tokenizer, and draw the first weights.

        Raises:
            InputError: a text cannot be read or is empty, or the sides differ in length.
            ToolError: no pair is short enough.
        """
        self.options, self.device = options, device
        train, self.valid_text = (
            both_sides(*(options.data / f"{split}.{language}" for language in options.languages))
            for split in ("train", "val")
        )
        self.n_train_lines = len(train[0])
        self.tokenizer = self._tokenizer([*train[0], *train[1]])
        self.train, self.valid = (pairs(*text, self.tokenizer, options.max_tokens) for text in (train, self.valid_text))
        torch.manual_seed(options.seed)
        self.model: Translator = new_model(options, self.tokenizer).to(device)
        self.loss: nn.Module = NextTokenLoss(self.model, options.label_smoothing)
        self.optimizer: torch.optim.Optimizer = torch.optim.Adam(
            self.model.parameters(), lr=0.0, betas=(0.9, 0.98), fused=True
        )

    def batches(self, epoch: int) -> list[list[TokenPair]]:
        """Pairs of like length together."""
        return list(epoch_batches(self.train, self.options.batch_tokens, self.options.seed, epoch))

    def count(self, batch: Sequence[TokenPair]) -> int:
        """Tokens to predict: all of a target but the start token."""
        return sum(len(pair.target) - 1 for pair in batch)

    def tensors(self, rows: Sequence[TokenPair]) -> tuple[Tensor, Tensor]:
        """Padded source and target."""
        pad_id = self.tokenizer.pad_id
        source, target = pad([row.source for row in rows], pad_id), pad([row.target for row in rows], pad_id)
        return source.to(self.device), target.to(self.device)

    def validate(self) -> dict[str, float]:
        """Nats per token of the validation targets, and greedy BLEU."""
        lines = translate_lines(self.model, self.tokenizer, self.valid_text[0], GREEDY, device=self.device)
        score, lost = bleu([line.text for line in lines], self.valid_text[1]).score, 0.0
        with torch.no_grad():
            for start in range(0, len(self.valid), VALIDATION_ROWS):
                source, target = self.tensors(self.valid[start : start + VALIDATION_ROWS])
                lost -= teacher_forced(self.model, source, target).sum().item()
        return {"valid_loss": lost / self.count(self.valid), "valid_bleu_greedy": score}

    def _tokenizer(self, lines: list[str]) -> TextTokenizer:
        """The run's tokenizer: first the one to take over, or one trained on the training text alone."""
        path, given = self.options.work / TOKENIZER, self.options.tokenizer
        if not path.exists():
            known = TextTokenizer.read(given) if given else train_tokenizer(lines, self.options.vocab_size)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(known.model)
        return TextTokenizer.read(path)


def export(run: TrainingRun[TranslationTask], folder: Path, command: str) -> str:
    """Write the checkpoint of a finished run to `folder`; says the score of the files as written, default decoding.

    `examples.txt` in the folder of the data holds sentences to try it with; it does not need to be there.
    """
    task = run.task
    weights, averaged = run.averaged()
    model = new_model(task.options, task.tokenizer)
    fill(model, weights, "the mean of the saved weights")
    source, target = (LANGUAGES.get(ending, ending) for ending in task.options.languages)
    sentences = task.options.data / "examples.txt"
    examples = tuple(read_lines(sentences)) if sentences.is_file() else ()
    save_folder(folder, model.architecture, model, task.tokenizer, (source, target), examples)
    snapshots = _save_history(run, folder / "history")
    scores = _scores(task, folder)
    parts = _card_parts(task, folder, snapshots, scores)
    (folder / CARD).write_text(card(run, parts, command, averaged), encoding="utf-8")
    return f"{next(iter(scores.values())).score:.2f} BLEU"


def _save_history(run: TrainingRun[TranslationTask], folder: Path) -> list[int]:
    """The snapshots in half precision, and an index that says when each was taken and how well it translated."""
    if folder.is_dir():
        shutil.rmtree(folder)  # of another run
    if not run.options.saving.history:
        return []
    folder.mkdir()
    index = []
    for entry in run.progress.curve:
        if is_snapshot(entry["update"]):
            name = f"{entry['update']:06d}.safetensors"
            save_weights(folder / name, run.weights(entry["update"]))
            index.append({"file": name, **{key: entry[key] for key in ("update", "epoch", "seconds")},
                          "bleu_greedy": entry["valid_bleu_greedy"], "loss": entry["valid_loss"]})  # fmt: skip
    (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    return [entry["update"] for entry in index]


def _scores(task: TranslationTask, folder: Path) -> dict[str, Bleu]:
    """BLEU by the way to decode, in words; the library's default comes first."""
    model, tokenizer, _ = load(folder).translator()
    usual = DecodingOptions()
    found = {}
    for how, options in ((f"beam {usual.beam}, length penalty {usual.length_penalty:g}", usual), ("greedy", GREEDY)):
        lines = translate_lines(model, tokenizer, task.valid_text[0], options, progress=True)
        found[how] = bleu([line.text for line in lines], task.valid_text[1])
    return found


def _described(model: Translator) -> str:
    """The model in a few words, and what its architecture cannot do."""
    config: Any = model.config
    if not model.abilities.recurrent:
        block = config.block
        return (
            f"A Transformer of {config.n_encoder_layers} encoder and {config.n_decoder_layers} decoder layers "
            f"(d_model {block.d_model}, {block.attention.n_heads} heads, d_ff {block.d_ff})"
        )
    return (
        f"A recurrent encoder-decoder with {config.attention.kind} attention (GRU: one layer that reads both ways, one "
        f"that writes; hidden {config.decoder.hidden}, embeddings {config.embedding_size})"
    )


def _card_parts(task: TranslationTask, folder: Path, snapshots: list[int], scores: dict[str, Bleu]) -> dict[str, str]:
    model, options = task.model, task.options
    (how, best), n_valid = next(iter(scores.items())), len(task.valid_text[0])
    source, target = options.languages
    taken_over = options.tokenizer and options.tokenizer.resolve().parent.name
    tokenizer = f"that of `{taken_over}`" if taken_over else "trained on the training pairs alone"
    kept = f" `history/` holds the weights of updates {', '.join(map(str, snapshots))}." if snapshots else ""
    return dict(
        title=folder.name,
        about=f"""{_described(model)}, {model.config.target_vocab:,} pieces,
{sum(p.numel() for p in model.parameters()):,} parameters, {(folder / WEIGHTS).stat().st_size / 1e6:.1f} MB.

**{best.score:.1f} BLEU** on the validation split ({how}).""",
        scores=f"""On the {n_valid:,} validation pairs, with the files as they are here:

{markdown_table(["decoding", "BLEU"], [[how, f"{one.score:.2f}"] for how, one in scores.items()])}

Signature: `{best.signature}` (cased, detokenised).""",
        counts=f"""{task.n_train_lines:,} training pairs and {n_valid:,} validation pairs ({source} to {target}).
The tokenizer is {tokenizer}; the validation pairs only measure.""",
        curve=f"""Loss in nats per token: in training with dropout and label smoothing, in validation with neither.
BLEU is greedy, with the weights of that update, not yet averaged.{kept}""",
        limits="The model knows only texts like those that it was trained on, and was measured on nothing else.",
    )
