"""How a translation checkpoint is made: a loop that can be stopped anywhere and goes on as if it had not been.

One process or several (`torchrun --nproc-per-node N -m transformer train ...`), CPU or GPU. Randomness is a
function of (seed, update, rank) and of (seed, epoch), so resuming needs no generator state.

Recipe: Wu et al. 2021, "Good for Misconceived Reasons" (Multi30k, the small model); subword sampling after
Provilkov et al. 2020, "BPE-Dropout".
"""

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import sacrebleu
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, distributed, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from transformer.decoding import greedy
from transformer.errors import TrainingError
from transformer.models.seq2seq import Seq2Seq, Seq2SeqConfig
from transformer.tokens.text import TextTokenizer, train_tokenizer
from transformer.training.data import Batch, Pair, epoch_batches, pad, pairs, read_parallel

FIRST_SNAPSHOT = 50
"""The history holds updates 50, 100, 200, ...: doubling, so that early learning is seen as finely as late."""


@dataclass(frozen=True)
class TrainingOptions:
    """Everything that decides the result, and where the run keeps its files (`work`)."""

    data: Path
    work: Path
    source_language: str = "en"
    target_language: str = "de"
    vocab_size: int = 5000
    d_model: int = 128
    n_heads: int = 4
    d_ff: int = 256
    n_layers: int = 4
    dropout: float = 0.3
    label_smoothing: float = 0.1
    subword_dropout: float = 0.1
    batch_tokens: int = 4096
    updates: int = 8000
    warmup: int = 2000
    peak_rate: float = 0.005
    cooldown: float = 0.25
    average: int = 10
    save_every: int = 100
    validate_every: int = 500
    max_tokens: int = 256
    seed: int = 1
    stop_after: int | None = None

    def rate(self, update: int) -> float:
        """Learning rate of the update with this number (from 1).

        It rises over `warmup`, falls with the inverse square root, and over the last `cooldown` part of the run
        falls to zero besides.
        """
        warm = min(update / self.warmup, (self.warmup / update) ** 0.5)
        left = (self.updates - update + 1) / max(1.0, self.cooldown * self.updates)
        return self.peak_rate * warm * min(1.0, left)


@dataclass(frozen=True)
class Process:
    """This process among those that train together."""

    rank: int
    count: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes files and shows progress."""
        return self.rank == 0


def join_processes() -> Process:
    """Take the place that torchrun assigned, or train alone; on a GPU where there is one."""
    cuda = torch.cuda.is_available()
    if "RANK" not in os.environ:
        return Process(0, 1, torch.device("cuda" if cuda else "cpu"))
    distributed.init_process_group("nccl" if cuda else "gloo")
    local = int(os.environ["LOCAL_RANK"])
    return Process(distributed.get_rank(), distributed.get_world_size(), torch.device(f"cuda:{local}" if cuda else "cpu"))


def prepare_tokenizer(options: TrainingOptions, text: list[str], process: Process) -> TextTokenizer:
    """The run's tokenizer; trained on the training text alone the first time."""
    path = options.work / "tokenizer.model"
    if process.leads and not path.exists():
        options.work.mkdir(parents=True, exist_ok=True)
        path.write_bytes(train_tokenizer(text, options.vocab_size).model)
    if process.count > 1:
        distributed.barrier()
    return TextTokenizer.read(path)


def model_config(options: TrainingOptions, tokenizer: TextTokenizer) -> Seq2SeqConfig:
    """Norm before each sub-layer and one vocabulary for both languages, shared by embeddings and projection."""
    return Seq2SeqConfig(
        source_vocab=len(tokenizer),
        target_vocab=len(tokenizer),
        d_model=options.d_model,
        n_heads=options.n_heads,
        d_ff=options.d_ff,
        n_encoder_layers=options.n_layers,
        n_decoder_layers=options.n_layers,
        dropout=options.dropout,
        norm_first=True,
        norm_after_stack=True,
        tie_embeddings=True,
        tie_projection=True,
        max_length=options.max_tokens,
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
    )


class WithLoss(nn.Module):
    """The model and its loss as one module, so that several processes can share the backward pass."""

    def __init__(self, model: Seq2Seq, label_smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Summed cross-entropy (nats) of each next token; padding is not counted."""
        memory, source_mask = self.model.encode(source)
        hidden = self.model.decode(target[:, :-1], memory, source_mask)
        labels = target[:, 1:]
        real = labels != self.model.config.pad_id
        return F.cross_entropy(
            self.model.logits(hidden[real]), labels[real], label_smoothing=self.label_smoothing, reduction="sum"
        )


@dataclass
class Progress:
    """Where a run stands: finished updates, and where in which epoch the next batch lies."""

    update: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0


class Run:
    """One training run: model, optimizer, place in the data, and the folder that remembers them."""

    def __init__(self, options: TrainingOptions) -> None:
        self.options = options
        self.process = join_processes()
        languages = (options.source_language, options.target_language)
        self.train_text = read_parallel(options.data, "train", languages)
        self.valid_text = read_parallel(options.data, "val", languages)
        self.tokenizer = prepare_tokenizer(options, [*self.train_text[0], *self.train_text[1]], self.process)
        self.valid = pairs(*self.valid_text, self.tokenizer, options.max_tokens)
        torch.manual_seed(options.seed)
        config = model_config(options, self.tokenizer)
        self.learner: nn.Module = WithLoss(Seq2Seq(config), options.label_smoothing).to(self.process.device)
        self.model: Seq2Seq = self.learner.model
        if self.process.count > 1:
            self.learner = DistributedDataParallel(self.learner)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.0, betas=(0.9, 0.98), fused=True)
        self.progress = Progress()
        self.stop_asked = False
        self._resume()

    def train(self) -> None:
        """Run to the last update, or to a signal; either way the folder holds what resuming needs."""
        self._listen()
        last = min(self.options.updates, self.options.stop_after or self.options.updates)
        bar = tqdm(total=last, initial=self.progress.update, unit="update", disable=not self.process.leads)
        started = time.monotonic() - self.progress.seconds
        losses: list[float] = []
        for batch in self._batches():
            if self.progress.update >= last or self._stop_wanted():
                break
            losses.append(self._update(batch))
            self.progress.update += 1
            self.progress.seconds = time.monotonic() - started
            bar.update()
            bar.set_postfix(loss=f"{losses[-1]:.3f}")
            self._keep(losses)
        bar.close()
        self._save_state()
        if self.process.count > 1:
            distributed.destroy_process_group()

    def _batches(self) -> Iterator[Batch]:
        while True:
            data = self._epoch_pairs(self.progress.epoch)
            batches = list(
                epoch_batches(
                    data, self.options.batch_tokens, self.tokenizer.pad_id, self.options.seed, self.progress.epoch
                )
            )
            share = batches[self.process.rank : len(batches) // self.process.count * self.process.count : self.process.count]
            while self.progress.batch < len(share):
                self.progress.batch += 1
                yield share[self.progress.batch - 1]
            self.progress.epoch, self.progress.batch = self.progress.epoch + 1, 0

    def _epoch_pairs(self, epoch: int) -> list[Pair]:
        if not self.options.subword_dropout:
            return pairs(*self.train_text, self.tokenizer, self.options.max_tokens)
        seed = self.options.seed * 1_000_003 + epoch
        text = [*self.train_text[0], *self.train_text[1]]
        ids = self.tokenizer.sample(text, self.options.subword_dropout, seed)
        half = len(self.train_text[0])
        tokenizer, longest = self.tokenizer, self.options.max_tokens
        rows = (
            Pair([*s, tokenizer.eos_id], [tokenizer.bos_id, *t, tokenizer.eos_id])
            for s, t in zip(ids[:half], ids[half:], strict=True)
        )
        return [row for row in rows if 1 < len(row.source) <= longest and 2 < len(row.target) <= longest]

    def _update(self, batch: Batch) -> float:
        update = self.progress.update + 1
        torch.manual_seed((self.options.seed * 1_000_003 + update) * 1_009 + self.process.rank)
        self.learner.train()
        tokens = (batch.target[:, 1:] != self.tokenizer.pad_id).sum().to(self.process.device)
        if self.process.count > 1:
            distributed.all_reduce(tokens)
        total = self.learner(batch.source.to(self.process.device), batch.target.to(self.process.device))
        loss = total * self.process.count / tokens
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.rate(update)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def _keep(self, losses: list[float]) -> None:
        update, options = self.progress.update, self.options
        if not self.process.leads:
            return
        snapshot = is_snapshot(update)
        if update % options.save_every == 0 or snapshot:
            self._save_weights(update)
        if update % options.validate_every == 0 or update == options.updates or snapshot:
            bleu = validation_bleu(self.model, self.tokenizer, *self.valid_text)
            entry = dict(
                update=update,
                epoch=self.progress.epoch,
                seconds=round(self.progress.seconds, 1),
                rate=options.rate(update),
                train_loss=sum(losses) / len(losses),
                valid_loss=self._valid_loss(),
                valid_bleu_greedy=bleu,
            )
            losses.clear()
            with (options.work / "curve.jsonl").open("a") as log:
                log.write(json.dumps(entry) + "\n")
            tqdm.write(json.dumps(entry))
        if update % options.validate_every == 0:
            self._save_state()

    @torch.no_grad()
    def _valid_loss(self) -> float:
        self.learner.eval()
        total, tokens = 0.0, 0
        plain = WithLoss(self.model, 0.0)
        for start in range(0, len(self.valid), 100):
            rows = self.valid[start : start + 100]
            source = pad([r.source for r in rows], self.tokenizer.pad_id).to(self.process.device)
            target = pad([r.target for r in rows], self.tokenizer.pad_id).to(self.process.device)
            total += plain(source, target).item()
            tokens += sum(len(r.target) - 1 for r in rows)
        return total / tokens

    def _save_weights(self, update: int) -> None:
        folder = self.options.work / "weights"
        folder.mkdir(exist_ok=True)
        save_file(weights(self.model), folder / f"{update:06d}.safetensors")
        kept = sorted(folder.glob("*.safetensors"))
        spare = [p for p in kept if not is_snapshot(int(p.stem))]
        for path in spare[: -self.options.average]:
            path.unlink()

    def _save_state(self) -> None:
        if not self.process.leads:
            return
        state = dict(
            model=self.model.state_dict(), optimizer=self.optimizer.state_dict(), progress=asdict(self.progress)
        )
        path = self.options.work / "state.pt"
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)
        (self.options.work / "options.json").write_text(json.dumps(asdict(self.options), default=str, indent=1) + "\n")

    def _resume(self) -> None:
        path = self.options.work / "state.pt"
        if not path.exists():
            return
        state: dict[str, Any] = torch.load(path, weights_only=True, map_location=self.process.device)
        try:
            self.model.load_state_dict(state["model"])
        except RuntimeError as error:
            raise TrainingError(
                f"{path} holds a model of other sizes: use the same options, or another work folder ({error})"
            ) from error
        self.optimizer.load_state_dict(state["optimizer"])
        self.progress = Progress(**state["progress"])

    def _listen(self) -> None:
        def stop(signum: int, frame: FrameType | None) -> None:
            self.stop_asked = True

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)

    def _stop_wanted(self) -> bool:
        if self.process.count == 1:
            return self.stop_asked
        wanted = torch.tensor(int(self.stop_asked), device=self.process.device)
        distributed.all_reduce(wanted, distributed.ReduceOp.MAX)
        return bool(wanted)


def is_snapshot(update: int) -> bool:
    """Whether the history keeps this update."""
    ratio, rest = divmod(update, FIRST_SNAPSHOT)
    return rest == 0 and ratio > 0 and ratio & (ratio - 1) == 0


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters by name, shared ones once."""
    return {name: p.detach().cpu().contiguous() for name, p in model.named_parameters()}


def averaged(paths: list[Path]) -> dict[str, Tensor]:
    """The mean of several saved weights; with a falling rate it generalises better than the last."""
    loaded = [load_file(path) for path in paths]
    return {name: torch.stack([w[name].double() for w in loaded]).mean(0).float() for name in loaded[0]}


def validation_bleu(model: Seq2Seq, tokenizer: TextTokenizer, source: list[str], target: list[str]) -> float:
    """Greedy sacrebleu (13a, cased, detokenised) of the validation set."""
    model.eval()
    device = next(model.parameters()).device
    order = sorted(range(len(source)), key=lambda i: len(source[i]))
    output = [""] * len(source)
    for start in range(0, len(order), 256):
        rows = order[start : start + 256]
        ids = pad([tokenizer.source_ids(source[i]) for i in rows], tokenizer.pad_id).to(device)
        for i, tokens in zip(rows, greedy(model, ids, max_length=100), strict=True):
            output[i] = tokenizer.decode(tokens)
    return float(sacrebleu.corpus_bleu(output, [target]).score)
