"""What each intervention means, cell by cell: plain loops over numbers, and the models that are held against them."""

import copy
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from heedmap.attention.capture import recording, watch
from heedmap.attention.interventions.value import ACTIONS, Donor, Intervention
from heedmap.nn.masks import Mask
from heedmap.nn.seq2seq import Seq2Seq, preset

Numbers = list[float]


def _names(one: Intervention, head: int, t: int) -> bool:
    return (one.heads is None or head in one.heads) and (one.queries is None or t in one.queries)


def row_by_hand(
    scores: Numbers, sees: Sequence[bool], t: int, head: int, batch: int, interventions: Sequence[Intervention]
) -> Numbers:
    """The weights of one row: row t of one head."""
    here = [one for one in interventions if _names(one, head, t)]
    left = list(sees)
    for one in here:
        if one.action == "temperature":
            scores = [s / one.value for s in scores]  # type: ignore[operator]
        if one.action == "knock_out":
            left = [v and not (one.keys is None or j in one.keys) for j, v in enumerate(left)]
    highest = max((s for s, v in zip(scores, left, strict=True) if v), default=0.0)
    powers = [math.exp(s - highest) if v else 0.0 for s, v in zip(scores, left, strict=True)]
    total = sum(powers) or 1.0
    row = [p / total for p in powers]
    for one in here:
        among = [j for j, v in enumerate(left) if v and (one.keys is None or j in one.keys)]
        if one.action == "uniform":
            row = [1 / len(among) if j in among else 0.0 for j in range(len(row))]
        elif one.action == "sharpest":
            best = max(among, key=lambda j: (scores[j], -j), default=None)
            row = [1.0 if j == best else 0.0 for j in range(len(row))]
        elif one.action == "force":
            keys = range(len(one.value)) if one.keys is None else one.keys  # type: ignore[arg-type]
            given = dict(zip(keys, one.value, strict=True))  # type: ignore[arg-type]
            row = [given.get(j, 0.0) for j in range(len(row))]
        elif one.action == "patch_weights":
            donated = one.value.weights[one.site]  # type: ignore[union-attr]
            row = [float(x) for x in donated[min(batch, len(donated) - 1), head, t]]
    for one in here:
        if one.action == "cut":
            row = [0.0 if one.keys is None or j in one.keys else a for j, a in enumerate(row)]
    return row


def output_by_hand(z: Tensor, t: int, head: int, batch: int, interventions: Sequence[Intervention]) -> Tensor:
    """What one head gives on at one row."""
    for one in interventions:
        if not _names(one, head, t):
            continue
        if one.action == "zero":
            z = torch.zeros_like(z)
        elif one.action == "mean":
            z = torch.tensor(one.value, dtype=z.dtype)
        elif one.action == "patch_output":
            donated = one.value.outputs[one.site]  # type: ignore[union-attr]
            z = donated[min(batch, len(donated) - 1), head, t]
    return z


class ByHand(nn.Module):
    """Stands where an attention core stood; `seen` holds the weights of its last run (batch, head, query, key)."""

    def __init__(self, scale: float, interventions: Sequence[Intervention]) -> None:
        super().__init__()
        self.scale, self.interventions = scale, tuple(interventions)
        self.seen = torch.empty(0)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """Head outputs (batch, head, query, d_v)."""
        queries, keys = q.shape[2], k.shape[2]
        dots = q @ k.transpose(-2, -1) * self.scale
        self.seen, outputs = (
            torch.zeros(dots.shape, dtype=v.dtype),
            torch.zeros(*q.shape[:3], v.shape[3], dtype=v.dtype),
        )
        for b, h, i in np.ndindex(*q.shape[:3]):
            real = [True] * keys if mask.keys is None else mask.keys[min(b, len(mask.keys) - 1)].tolist()
            sees = [real[j] and (not mask.causal or j <= i + keys - queries) for j in range(keys)]
            row = row_by_hand(dots[b, h, i].tolist(), sees, i, h, b, self.interventions)
            self.seen[b, h, i] = torch.tensor(row, dtype=v.dtype)
            outputs[b, h, i] = output_by_hand(self.seen[b, h, i] @ v[b, h], i, h, b, self.interventions)
        return outputs


def model_by_hand(model: Any, interventions: Sequence[Intervention]) -> tuple[Any, dict[str, ByHand]]:
    """A copy whose attention is computed by hand under the interventions, and its cores by site."""
    other = copy.deepcopy(model)
    names = {id(module): name for name, module in other.named_modules()}
    cores = {}
    for site, core in other.attention_sites().items():
        parent, _, child = names[id(core)].rpartition(".")
        cores[str(site)] = ByHand(core.scale, [one for one in interventions if one.site == site])
        setattr(other.get_submodule(parent), child, cores[str(site)])
    return other, cores


BATCH, SOURCE, TARGET, HEADS, D_K, D_V, D_MODEL, VOCAB = 2, 7, 5, 3, 11, 13, 17, 19
DIALECTS = {
    "annotated": ("annotated", {}),
    "annotated, norm after": ("annotated", {"norm_first": False}),
    "jadore": ("jadore", {}),
    "torch": ("torch", {}),
    "torch, norm before": ("torch", {"norm_first": True}),
}
MEAN = tuple(0.1 * i - 0.4 for i in range(D_V))


@cache
def model(dialect: str = "torch", **changes: Any) -> Seq2Seq:
    name, options = DIALECTS[dialect]
    sizes = dict(source_vocab=VOCAB, target_vocab=VOCAB, d_model=D_MODEL, n_heads=HEADS, d_k=D_K, d_v=D_V, d_ff=23)
    depths = dict(n_encoder_layers=2, n_decoder_layers=2, max_length=29)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        made = Seq2Seq(preset(name, **(sizes | depths | options | changes)))
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=0.4)
    return watch(made.double().eval())


def inputs(seed: int = 0, batch: int = BATCH) -> tuple[Tensor, Tensor]:
    """Sources and targets; the last source of a batch has two positions of padding."""
    random = torch.Generator().manual_seed(seed)
    source = torch.randint(3, VOCAB, (batch, SOURCE), generator=random)
    target = torch.randint(3, VOCAB, (batch, TARGET), generator=random)
    if batch > 1:
        source[-1, -2:] = 0
    return source, target


@cache
def donor(dialect: str = "torch", seed: int = 5, batch: int = 1) -> Donor:
    with torch.inference_mode(), recording(outputs=True) as seen:
        model(dialect)(*inputs(seed, batch))
    return seen.donor("other")


PLACES = st.sampled_from(["encoder.0.self", "encoder.1.self", "decoder.0.self", "decoder.1.cross"])
SOME = st.one_of(st.none(), st.sets(st.integers(0, 2), min_size=1).map(sorted))
VALUES = {"temperature": 0.7, "mean": MEAN, "force": (1.0,)}
FIELDS = st.fixed_dictionaries(dict(site=PLACES, action=st.sampled_from(ACTIONS), heads=SOME, queries=SOME, keys=SOME))


def made_of(fields: dict[str, Any]) -> Intervention:
    """An intervention with a value that its action takes, and with keys only where it takes them."""
    action = fields["action"]
    value = donor() if action.startswith("patch") else VALUES.get(action)
    keys = fields["keys"] if action in {"knock_out", "cut", "uniform", "sharpest"} else None
    return Intervention(**(fields | dict(keys=keys, value=value)))
