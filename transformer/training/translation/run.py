"""How a translation checkpoint is made: a loop that can be stopped anywhere and goes on as if it had not been.

One process or several (`torchrun --nproc-per-node N -m transformer train translation ...`), CPU or GPU. Randomness is
a function of (seed, update, rank) and of (seed, epoch), so resuming needs no generator state, and another process
draws the same.

Recipe: Wu et al. 2021, "Good for Misconceived Reasons" (Multi30k, the small model); subword sampling after
Provilkov et al. 2020, "BPE-Dropout".
"""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from transformer.checkpoint import load
from transformer.checkpoint.ours.folder import TOKENIZER, fill
from transformer.decoding.search import DecodingOptions, teacher_forced
from transformer.errors import TrainingError
from transformer.runs.corpus import Bleu, bleu, translate_lines
from transformer.tokens.batch import pad
from transformer.tokens.text import TextTokenizer, train_tokenizer
from transformer.training.processes import Process, fast_products
from transformer.training.translation.architectures import Translator, new_model
from transformer.training.translation.data import Pair, ParallelText, epoch_batches, pairs
from transformer.training.translation.options import TrainingOptions
from transformer.training.translation.store import Store, is_snapshot

GREEDY = DecodingOptions(beam=1)
"""How validation translates while the model is trained."""

VALIDATION_ROWS = 100
"""Validation pairs that pass through the model together."""


class WithLoss(nn.Module):
    """The model and its loss as one module, so that several processes can share the backward pass."""

    def __init__(self, model: Translator, label_smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Summed cross-entropy (nats) of each next token; padding is not counted."""
        hidden = self.model.hidden(source, target[:, :-1])
        labels = target[:, 1:]
        real = labels != self.model.config.pad_id
        logits = self.model.logits(hidden[real][None])[0]
        return F.cross_entropy(logits, labels[real], label_smoothing=self.label_smoothing, reduction="sum")


class Run:
    """One training run: model, optimizer, place in the data, and the folder that remembers them."""

    def __init__(self, options: TrainingOptions) -> None:
        """Start, or go on from what `options.work` holds.

        Raises:
            InputError: a text cannot be read.
            TrainingError: the texts do not match, or the folder holds a run with other options.
        """
        self.options = options
        self.process = Process.join()
        torch.set_num_threads(options.threads)
        self.train_text = ParallelText.read(options.data, "train", options.languages)
        self.valid_text = ParallelText.read(options.data, "val", options.languages)
        self.store = Store(options)
        self.tokenizer = self._tokenizer()
        self.valid = self._pairs(self.valid_text)
        torch.manual_seed(options.seed)
        learner = WithLoss(self._model(), options.label_smoothing)
        self.model = learner.model.to(self.process.device)
        self.learner = DistributedDataParallel(learner) if self.process.count > 1 else learner
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.0, betas=(0.9, 0.98), fused=True)
        self.progress = self.store.load_state(self.model, self.optimizer)
        self.signal: int | None = None
        if self.process.leads:
            self.store.forget_after(self.progress.update)

    @property
    def finished(self) -> bool:
        """Whether the last update is done."""
        return self.progress.update >= self.options.updates

    def train(self) -> None:
        """Run to the last update, to `stop_after`, or to a signal (then `signal` names it); resuming needs no more."""
        last = min(self.options.updates, self.options.stop_after or self.options.updates)
        started = time.monotonic() - self.progress.seconds
        batches = self._batches()
        bar = tqdm(total=last, initial=self.progress.update, unit="update", disable=not self.process.leads)
        stop = False
        with bar, self._listening():
            while self.progress.update < last and not stop:
                loss, stop = self._update(next(batches))
                self.progress.seconds = time.monotonic() - started
                bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
                bar.update()
                self._keep()
        if self.process.leads:
            self.store.save_state(self.model, self.optimizer, self.progress)
        self.process.wait()

    def _tokenizer(self) -> TextTokenizer:
        """The run's tokenizer: first the one to take over, or one trained on the training text alone."""
        path, start = self.store.tokenizer, self.options.start
        given = start / TOKENIZER if start else self.options.tokenizer
        taken = TextTokenizer.read(given) if given else None
        if self.process.leads and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            known = taken or train_tokenizer(self.train_text.lines, self.options.vocab_size)
            path.write_bytes(known.model)
        self.process.wait()
        kept = TextTokenizer.read(path)
        if taken is not None and taken.model != kept.model:
            raise TrainingError("training_another_tokenizer", given=given, folder=path.parent)
        return kept

    def _model(self) -> Translator:
        """Random weights, or those of the checkpoint to start from."""
        model = new_model(self.options, self.tokenizer)
        if self.options.start is not None:
            start = load(self.options.start)
            fill(model, dict(start.model.named_parameters()), start.name)
        return model

    def _batches(self) -> Iterator[list[Pair]]:
        """The batches from where the run stands; `progress` says how many of its epoch were taken."""
        options, progress = self.options, self.progress
        while True:
            data = self._epoch_pairs(progress.epoch)
            batches = list(epoch_batches(data, options.batch_tokens, options.seed, progress.epoch))
            while progress.batch < len(batches):
                progress.batch += 1
                yield batches[progress.batch - 1]
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def _epoch_pairs(self, epoch: int) -> list[Pair]:
        dropout = self.options.subword_dropout if epoch < self.options.subword_epochs else 0.0
        return self._pairs(self.train_text, dropout, self.options.seed * 1_000_003 + epoch)

    def _pairs(self, text: ParallelText, subword_dropout: float = 0.0, seed: int = 0) -> list[Pair]:
        found = pairs(text, self.tokenizer, self.options.max_tokens, subword_dropout, seed)
        if not found:
            raise TrainingError("training_no_pair", most=self.options.max_tokens)
        return found

    def _update(self, batch: list[Pair]) -> tuple[float, bool]:
        """One step down the gradient of the whole batch; returns nats per token, and whether any process must stop."""
        update = self.progress.update + 1
        torch.manual_seed((self.options.seed * 1_000_003 + update) * 1_009 + self.process.rank)
        self.learner.train()
        tokens = sum(pair.n_written for pair in batch)
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.rate(update)
        self.optimizer.zero_grad()
        with fast_products(self.options.fast_products):
            summed = self.learner(*self._tensors(self.process.share(batch)))
            (summed * self.process.count / tokens).backward()  # several processes average their gradients
        if self.options.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)
        self.optimizer.step()
        loss, signals = self.process.total(summed.item(), float(self.signal or 0))
        self.progress.update = update
        self.progress.loss += loss
        self.progress.tokens += tokens
        return loss / tokens, signals > 0

    def _tensors(self, rows: Sequence[Pair]) -> tuple[Tensor, Tensor]:
        """Padded source and target; a process without rows takes part with one that has nothing to predict."""
        pad_id, bos_id, eos_id = self.tokenizer.pad_id, self.tokenizer.bos_id, self.tokenizer.eos_id
        rows = rows or [Pair([eos_id], [bos_id, pad_id])]
        source, target = pad([row.source for row in rows], pad_id), pad([row.target for row in rows], pad_id)
        return source.to(self.process.device), target.to(self.process.device)

    def _keep(self) -> None:
        """Save and measure what is due at this update."""
        update, options = self.progress.update, self.options
        if not self.process.leads:
            return
        milestone = (options.history and is_snapshot(update)) or update == options.updates
        if milestone or update % options.save_every == 0:
            self.store.save_weights(self.model, update)
        if milestone or update % options.validate_every == 0:
            self._validate()
            self.store.save_state(self.model, self.optimizer, self.progress)

    def _validate(self) -> None:
        progress = self.progress
        self.model.eval()
        entry = dict(
            update=progress.update,
            epoch=progress.epoch,
            seconds=round(progress.seconds, 1),
            rate=self.options.rate(progress.update),
            train_loss=progress.loss / progress.tokens,
            valid_loss=self._valid_loss(),
            valid_bleu_greedy=self.validation_bleu().score,
        )
        progress.loss = progress.tokens = 0.0
        self.store.log(entry)
        tqdm.write(" ".join(f"{name}={value:.6g}" for name, value in entry.items()))

    @torch.no_grad()
    def _valid_loss(self) -> float:
        """Nats per token of the validation targets."""
        total = 0.0
        for start in range(0, len(self.valid), VALIDATION_ROWS):
            source, target = self._tensors(self.valid[start : start + VALIDATION_ROWS])
            total -= teacher_forced(self.model, source, target).sum().item()
        return total / sum(pair.n_written for pair in self.valid)

    def validation_bleu(self) -> Bleu:
        """BLEU of the validation text, greedy."""
        lines = translate_lines(self.model, self.tokenizer, self.valid_text.source, GREEDY, device=self.process.device)
        return bleu([line.text for line in lines], self.valid_text.target)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Finish the update in hand when the process is asked to end."""

        def note(number: int, _frame: FrameType | None) -> None:
            self.signal = number

        before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
