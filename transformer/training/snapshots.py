"""A small training as it goes: after chosen updates, the weights, every attention map of one example, and measures.

Measures and maps are those of the weights as they are kept, in half precision: of the model that a page opens.
"""

import copy
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors.torch import load, save
from torch import Tensor

from transformer.attention.capture import Recording, recording, watch
from transformer.checkpoint.ours.folder import CARD, fill, save_folder
from transformer.training.loop import NextTokenLoss, Trainer
from transformer.training.tasks import N_SPECIAL, SMOOTHING, Settings, new_model

SCHEDULE = (*range(0, 100, 10), *range(100, 200, 25), *range(200, 1000, 50), *range(1000, 4001, 100))
"""Updates of which a snapshot is taken: early learning is seen most finely."""

LOOKED_AT = 50
"""Unseen sequences over which weights on the right position are averaged."""

EXAMPLES = 4
"""Unseen sequences that a checkpoint offers as examples."""


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
        optimizer = torch.optim.Adam(trained, lr=0.0, betas=(0.9, 0.98), fused=True)
        loss = NextTokenLoss(self.model, SMOOTHING * settings.smoothing)
        self._trainer = Trainer(loss, optimizer, settings.rate_of, settings.seed)
        self._losses: list[float] = []

    def advance(self, to: int) -> None:
        """Train up to this update."""
        start = process_time()
        while self.update < to:
            self.update += 1
            tensors = self.settings.tensors(self.settings.batch(self.update))
            count = tensors[-1][:, 1:].numel()
            self._losses.append(self._trainer.step(self.update, tensors, count) / count)
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
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).item()
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

Made by `python -m transformer train task {said} --updates {found.update} --out FILE` in {found.seconds:.1f} seconds of
a processor. The sequences are drawn from the seed; there are no other data.

Of 200 sequences that it was not trained on {found.accuracy:.1%} are right, and {found.token_accuracy:.1%} of the \
tokens; loss {found.loss:.4f} nats a token, mean largest probability {found.top:.3f}.
"""
