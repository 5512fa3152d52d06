"""A small training as it goes: after chosen updates, the weights, every attention map of one example, and measures.

Measures and maps are those of the weights as they are kept, in half precision: of the model that a page opens.

`python -m heedmap.training.snapshots FD` is the process that trains beside a server, which `Child` starts. It has
its own random numbers and its own interpreter, and runs after everything else that wants the processor. What it is told
(settings, and the update to train up to) and what it answers (processor seconds, and a recording of at most one
snapshot) come through one pipe, at whose end it ends. Ended at any moment, it makes the same run again.
"""

import copy
import io
import json
import os
import subprocess
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors.torch import load, save
from torch import Tensor
from torch.nn import functional as F

from ..attention.capture import Recording, recording, watch
from ..checkpoint.ours.folder import CARD, fill, save_folder
from .descent import NextTokenLoss, descend
from .tasks import N_SPECIAL, SMOOTHING, Settings, new_model

SCHEDULE = (*range(0, 100, 10), *range(100, 200, 25), *range(200, 1000, 50), *range(1000, 4001, 100))
"""Updates of which a snapshot is taken: early learning is seen most finely."""

LOOKED_AT = 50
"""Unseen sequences over which weights on the right position are averaged."""

EXAMPLES = 4
"""Unseen sequences that a checkpoint offers as examples."""

KEPT_RUNS = 32
"""Runs that can go on where they stand; another one begins anew."""

NICENESS = 10
"""How far it stands back for others."""


@dataclass(frozen=True)
class Measures:
    """What is known of a run after so many updates and processor seconds, all of sequences that it never trained on.

    `train_loss` is the mean of the updates since the last snapshot, with smoothing and the mask as in training; `loss`
    has neither (both nats a token). `accuracy` is the share of whole sequences that it writes right, of a repeated
    pattern that of the repeated letters; `token_accuracy` counts single tokens. `top` is the mean largest probability.
    `focus` is the mean weight on the right positions by site, a number a head.
    """

    update: int
    seconds: float
    rate: float
    train_loss: float | None
    loss: float
    accuracy: float
    token_accuracy: float
    top: float
    focus: Mapping[str, Sequence[float]]

    @property
    def sharpest(self) -> tuple[str, int, float] | None:
        """Site, head and mean weight of the head that looks at the right positions most; None where none is right."""
        found = [(site, head, one) for site, heads in self.focus.items() for head, one in enumerate(heads)]
        return max(found, key=lambda one: one[2], default=None)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Measures, the maps of the first unseen sequence by site, and weights in half precision (empty: not kept)."""

    measures: Measures
    maps: Mapping[str, Float[np.ndarray, "head query key"]]
    weights: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def n_bytes(self) -> int:
        """Bytes of its numbers."""
        return sum(one.nbytes for one in self.maps.values()) + sum(one.nbytes for one in self.weights.values())


class Learning:
    """One run: the same settings make the same snapshots, however its updates are asked for."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.update, self.seconds = settings, 0, 0.0
        self.model = new_model(settings)
        self._kept = watch(copy.deepcopy(self.model)).eval()
        trained = [one for one in self.model.parameters() if one.requires_grad]
        self._optimizer = torch.optim.Adam(trained, lr=0.0, betas=(0.9, 0.98), fused=True)
        self._loss = NextTokenLoss(self.model, SMOOTHING * settings.smoothing)
        self._losses: list[float] = []

    def advance(self, to: int) -> None:
        """Train up to this update."""
        start, settings = process_time(), self.settings
        while self.update < to:
            self.update += 1
            tensors = settings.tensors(settings.batch(self.update))
            count, rate = tensors[-1][:, 1:].numel(), settings.rate_of(self.update)
            seed = (settings.seed, self.update)
            self._losses.append(descend(self._loss, self._optimizer, tensors, count, rate=rate, seed=seed) / count)
        self.seconds += process_time() - start

    def snapshot(self, keeps: bool = True) -> Snapshot:
        """What the run is now; without its weights unless it `keeps` them."""
        weights = {name: one.detach().half() for name, one in self.model.named_parameters()}
        fill(self._kept, weights, "a snapshot")
        settings, losses = self.settings, self._losses
        self._losses = []
        *source, target = settings.tensors(settings.held_out())
        with torch.inference_mode(), recording() as seen:
            logits = self._kept(*source, target[:, :-1]).double()
        labels, right = target[:, 1:], settings.right_places(settings.held_out())
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten()).item()
        most, chosen = logits.softmax(-1).max(-1)
        hits = chosen == labels
        if settings.learned.target is None and right is not None:  # letters that occur for the first time are luck
            again = right.any(2)
            accuracy, most, hits = hits[again].double().mean().item(), most[again], hits[again]
        else:
            accuracy = hits.all(1).double().mean().item()
        measures = Measures(
            update=self.update,
            seconds=self.seconds,
            rate=settings.rate_of(max(1, self.update)),
            train_loss=sum(losses) / len(losses) if losses else None,
            loss=loss,
            accuracy=accuracy,
            token_accuracy=hits.double().mean().item(),
            top=most.mean().item(),
            focus={} if right is None else dict(_focus(seen, right)),
        )
        return Snapshot(measures, {site: seen[site].all_weights() for site in seen.sites}, weights if keeps else {})


def _focus(seen: Recording, right: Tensor) -> Iterator[tuple[str, list[float]]]:
    """The mean weight on the right positions by site; only of sites whose keys the right positions are."""
    _, n_queries, n_keys = right.shape
    for site in seen.sites:
        queries, keys = seen[site].shape
        if (queries, keys) == (n_queries, n_keys) or site.kind == "cross":
            maps = torch.stack([torch.from_numpy(seen.map(site, batch=row).all_weights()) for row in range(LOOKED_AT)])
            places = right[:LOOKED_AT]
            weight = (maps[:, :, :n_queries, :n_keys] * places[:, None]).sum(3)
            yield site, [weight[:, head][places.any(2)].mean().item() for head in range(maps.shape[1])]


def texts(settings: Settings) -> list[str]:
    """Unseen sequences as texts, letters with spaces between; the first one is that of the maps."""
    return [_text(settings, row) for row in settings.held_out()[:EXAMPLES]]


def labels(settings: Settings) -> tuple[list[str], list[str]]:
    """What each row and each column of the shown map stands for: written and read letters, or one text twice."""
    task, rows = settings.learned, settings.held_out()[:1]
    read = _text(settings, rows[0]).split()
    if task.target is None:
        return read[:-1], read[:-1]
    return [*_text(settings, task.target(rows)[0]).split(), "</s>"], [*read, "</s>"]


def _text(settings: Settings, row: Int[Tensor, " letter"]) -> str:
    return settings.learned.tokenizer.decode((row + N_SPECIAL).tolist())


def packed(settings: Settings, snapshots: Iterable[Snapshot]) -> bytes:
    """A run as one safetensors file; its header holds settings and measures."""
    tensors, measures = dict[str, Tensor](), []
    for number, one in enumerate(snapshots):
        measures.append(asdict(one.measures))
        tensors |= {f"{number}.map.{site}": torch.from_numpy(values) for site, values in one.maps.items()}
        tensors |= {f"{number}.weight.{name}": values for name, values in one.weights.items()}
    return save(tensors, {"settings": json.dumps(asdict(settings)), "measures": json.dumps(measures)})


def unpacked(data: bytes) -> tuple[Settings, list[Snapshot]]:
    """The run in a file of `packed`, which this program wrote."""
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    measures, tensors = json.loads(header["measures"]), load(data)
    parts: list[tuple[dict[str, Any], dict[str, Any]]] = [({}, {}) for _ in measures]
    for key, tensor in tensors.items():
        number, kind, name = key.split(".", 2)
        parts[int(number)][kind == "weight"][name] = tensor.numpy() if kind == "map" else tensor
    found = [Snapshot(Measures(**one), *part) for one, part in zip(measures, parts, strict=True)]
    return Settings(**json.loads(header["settings"])), found


def checkpoint(settings: Settings, snapshot: Snapshot) -> bytes:
    """A snapshot as one of our checkpoint folders, in a ZIP: what our own reader, and the page Your model, read."""
    model, task = new_model(settings), settings.learned
    fill(model, snapshot.weights, "a snapshot")
    made = io.BytesIO()
    with TemporaryDirectory() as place, zipfile.ZipFile(made, "w") as target:
        folder = Path(place)
        save_folder(folder, model.architecture, model, task.tokenizer, ("input", "output"), tuple(texts(settings)))
        (folder / CARD).write_text(card(settings, snapshot.measures), encoding="utf-8")
        for path in sorted(folder.iterdir()):
            target.writestr(path.name, path.read_bytes())
    return made.getvalue()


def card(settings: Settings, found: Measures) -> str:
    """How a checkpoint was made, and what was measured."""
    said = " ".join(f"{name}={str(value).lower()}" for name, value in asdict(settings).items())
    return f"""# {settings.task}, {found.update:,} updates

Made by `python -m tools.train task {said} --updates {found.update} --out FILE` in {found.seconds:.1f} seconds of
a processor. The sequences are drawn from the seed; there are no other data.

Of 200 sequences that it was not trained on {found.accuracy:.1%} are right, and {found.token_accuracy:.1%} of the \
tokens; loss {found.loss:.4f} nats a token, mean largest probability {found.top:.3f}.
"""


def smoothed_target(smoothing: float, vocab: int) -> Float[np.ndarray, " vocab"]:
    """The probabilities that training with label smoothing aims at; the right token is the first one.

    Source: Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4.
    """
    target = np.full(vocab, smoothing / vocab)
    target[0] += 1.0 - smoothing
    return target


def smoothed_losses(right: Float[np.ndarray, " point"], smoothing: float, vocab: int) -> Float[np.ndarray, " point"]:
    """The loss (nats) of a model that gives the right token these probabilities, and the others equal ones."""
    given = torch.from_numpy(right)[:, None]
    others = ((1 - given) / (vocab - 1)).expand(-1, vocab - 1)
    logits = torch.cat([given, others], dim=1).log()
    labels = torch.zeros(len(right), dtype=torch.long)
    return F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="none").numpy()


def at_start(settings: Settings) -> tuple[Snapshot, float]:
    """A run before its first update, and the length of its first gradient, all weights together."""
    run = Learning(settings)
    loss = NextTokenLoss(run.model, SMOOTHING * settings.smoothing).eval()
    tensors = settings.tensors(settings.batch(1))
    with torch.enable_grad():
        (loss(*tensors) / tensors[-1][:, 1:].numel()).backward()
    squares = [float(one.grad.square().sum()) for one in run.model.parameters() if one.grad is not None]
    return run.snapshot(keeps=False), float(np.sqrt(sum(squares)))


class Child:
    """The process as its server knows it; started by the first question."""

    def __init__(self) -> None:
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None

    def ask(self, settings: Settings, update: int) -> None:
        """Have it train up to an update; `answer` tells when it did."""
        if self._running is None:
            ours, theirs = Pipe()
            threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
            process = subprocess.Popen(  # noqa: S603  (our own program)
                [sys.executable, "-P", "-m", __name__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, **threads, "PYTHONPATH": str(Path(__file__).parents[2])},
                start_new_session=True,  # the terminal's Ctrl-C is the server's
            )
            theirs.close()
            self._running = process, ours
        self._running[1].send((settings, update))

    def answer(self, seconds: float) -> tuple[float, Snapshot | None] | None:
        """Processor seconds that it took, and the snapshot at that update, if one is due; None if it is not done yet.

        Raises:
            ConnectionError: it has ended.
        """
        if self._running is None:
            raise ConnectionError
        pipe = self._running[1]
        try:
            if not pipe.poll(seconds):
                return None
            taken, found = pipe.recv()
        except EOFError as error:
            raise ConnectionError from error
        return taken, unpacked(found)[1][0] if found else None

    def end(self) -> None:
        """End it, whatever it does."""
        if self._running is not None:
            process, pipe = self._running
            process.kill()
            process.wait()
            pipe.close()
        self._running = None


def main(pipe: Connection) -> None:
    """Answer until nobody asks any more."""
    runs = OrderedDict[Settings, Learning]()
    with suppress(EOFError, ConnectionError):  # the server has ended
        while True:
            settings, update = pipe.recv()
            run = runs.pop(settings, None)
            if run is None or run.update > update:
                run = Learning(settings)
            runs[settings] = run
            while len(runs) > KEPT_RUNS:
                runs.popitem(last=False)
            before = run.seconds
            run.advance(update)
            found = packed(settings, [run.snapshot()]) if run.update in SCHEDULE else b""
            pipe.send((run.seconds - before, found))


if __name__ == "__main__":
    torch.set_num_threads(1)
    with suppress(OSError):  # where niceness cannot be set, it is as any other process
        os.nice(NICENESS)
    main(Connection(int(sys.argv[1])))
