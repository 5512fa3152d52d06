"""Records of every kind of source, of sizes that all differ; and everything that a record shows, to compare."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedmap.attention.interventions.value import Donor, Intervention
from heedmap.attention.record import AttentionMap, Record
from heedmap.attention.softmax_inputs import AttentionInputs, Weights
from heedmap.attention.tables import BiasTable, MaskTable, RelativeBias, WindowMask
from heedmap.messages import Message, say, speaking
from heedmap.nn.masks import Mask
from heedmap.plots.axes import Axis
from heedmap.sites import Site

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
BATCH = 3
WORDS = ("▁the", "the", "▁", "ing", "[CLS]", "{", "猫", "a\nb", "\u202etxt", "😀", "<b>", "")


class Samples:
    """Random parts of records; `dtype` is that of every number."""

    def __init__(self, seed: int, dtype: torch.dtype | None = None) -> None:
        self.choose = random.Random(seed)
        self.numbers = torch.Generator().manual_seed(seed)
        self.dtype = dtype or self.choose.choice(DTYPES)
        self.n_queries, self.n_keys, self.d_k = self.choose.sample(range(3, 14), 3)
        self.batch = self.choose.randrange(BATCH)

    def tensor(self, *shape: int) -> Tensor:
        """Random numbers; in memory sometimes in another order of axes."""
        order = self.choose.choice([[0, 1, 2, 3], [0, 2, 1, 3]]) if len(shape) == 4 else list(range(len(shape)))
        made = torch.randn([shape[axis] for axis in order], generator=self.numbers).to(self.dtype)
        return made.permute([order.index(axis) for axis in range(len(shape))])

    def flags(self, *shape: int) -> Tensor:
        """Random yes and no; the first of each row is yes."""
        made = torch.rand(*shape, generator=self.numbers) < 0.6
        made[..., 0] = True
        return made

    def axis(self, name: str, count: int) -> Axis:
        """Labels that repeat, words of several pieces, special positions."""
        texts = tuple(self.choose.choice(WORDS) for _ in range(count))
        words, word = [], 0
        for _ in range(count):
            word += self.choose.randrange(2)
            words.append(word)
        special = tuple(self.choose.random() < 0.2 for _ in range(count))
        return Axis(name, texts, tuple(words), special, self.choose.choice([None, (1, count - 1)]))

    def inputs(self, n_queries: int, n_keys: int, heads: int = 4, key_heads: int = 4, **more: Any) -> AttentionInputs:
        """Inputs of a softmax, of a whole batch."""
        q, k = self.tensor(BATCH, heads, n_queries, self.d_k), self.tensor(BATCH, key_heads, n_keys, self.d_k)
        return AttentionInputs(q, k, **{"mask": Mask(), "scale": 0.37, **more})

    def sources(self) -> dict[str, Any]:
        """One source of each kind, by the name of its site."""
        nq, nk = self.n_queries, self.n_keys
        table = MaskTable(visible=self.flags(BATCH, 1, nq, nk))
        shared = BiasTable(self.tensor(BATCH, 1, 1, nk).expand(BATCH, 1, nq, nk))
        relative = RelativeBias(self.tensor(1, nq + nk - 1), nq)
        hidden = self.flags(1, nk).repeat(BATCH, 1)
        hidden[:, 0] = False
        logs = self.inputs(nq, nk, mask=Mask(causal=True))
        whole = slice(0, nq), slice(0, nk)
        sums = torch.stack([logs.scores(sentence, 0, *whole).logsumexp(-1) for sentence in range(BATCH)])
        one_key_head = self.tensor(BATCH, 1, nk, self.d_k).expand(BATCH, 4, nk, self.d_k)
        return {
            "encoder.0.self": self.inputs(nq, nk, mask=Mask(self.flags(BATCH, nk))),
            "encoder.1.self": self.inputs(nq, nk, 6, 3, bias=relative),
            "encoder.2.self": self.inputs(nq, nk, 4, 2, mask=table, bias=shared),
            "encoder.3.self": self.inputs(nq, nk, 6, 2, mask=WindowMask(width=3)),
            "encoder.4.self": self.inputs(nq, nk, mask=Mask(hidden, causal=True, uniform_if_masked=True), bias=shared),
            "encoder.5.self": replace(self.inputs(nq, nk), k=one_key_head),
            "decoder.0.self": replace(logs, known=sums[:, None].expand(BATCH, 4, nq)),
            "blocks.7.attn-1": self.changed(nq, nk),
            "decoder.1.cross": replace(
                self.inputs(nq, nk), interventions=(Intervention("decoder.1.cross", "zero", 1),), first_row=2
            ),
            "pooling": Weights(self.tensor(BATCH, 3, nq, nk).abs().softmax(-1), table, ("note", self.note())),
            "decoder.2.cross": Weights(self.tensor(BATCH, 1, nq, nk).softmax(-1)),
        }

    def changed(self, nq: int, nk: int) -> AttentionInputs:
        """A softmax under interventions, one of them from a donor."""
        site = "blocks.7.attn-1"
        weights = self.tensor(BATCH, 5, nq, nk).float().softmax(-1)
        donor = Donor("other run", {Site(site): weights}, {Site(site): self.tensor(BATCH, 5, nq, 2)})
        changes = (
            Intervention(site, "knock_out", 0, keys=(1, 2)),
            Intervention(site, "temperature", 1, value=2.75),
            Intervention(site, "force", 2, queries=(0,), keys=(0, 2), value=(0.25, 0.75)),
            Intervention(site, "patch_weights", 3, value=donor),
            Intervention(site, "patch_output", 4, value=donor),
            Intervention(site, "cut", 0, queries=1, keys=0),
        )
        return replace(self.inputs(nq, nk, 5, 5), interventions=changes)

    def note(self) -> Message:
        """A note with fields of every kind."""
        return Message("mean_of_heads", count=np.int64(4))

    def record(self) -> Record:
        """A record of all of it; some axes are shorter than the padded batch."""
        sources = self.sources()
        changes = sources["blocks.7.attn-1"].interventions
        queries, keys = self.axis(Message("axis_pooling"), self.n_queries), self.axis("keys", self.n_keys - 1)
        maps = {
            Site(site): AttentionMap(Site(site), queries, keys, source, self.batch, changes, (self.note(), "plain"))
            for site, source in sources.items()
        }
        return Record(maps, "a model 猫", "what\nwas read")


def everything(record: Record) -> dict[str, Any]:
    """All that a record shows, part by part."""
    found: dict[str, Any] = {"sites": record.sites, "model": record.model, "text": record.text}
    for site, one in record.items():
        rows, keys = slice(1, one.shape[0]), slice(0, one.shape[1] - 1)
        for head in range(one.n_heads):
            numbers = {
                "tile": one.tile(head, rows, keys),
                "weights": one.weights(head),
                "scores": one.scores(head),
                "largest": one.overview(head, 3),
            }
            found |= {f"{site} {head} {name}": array.copy() for name, array in numbers.items()}
        found |= {f"{site} mask": one.mask(), f"{site} blocks": one.overview_mask(3)}
        for language in ("en", "zh"):
            with speaking(language):
                found[f"{site} {language}"] = said(one)
        found[f"{site} axes"] = (one.queries, one.keys)
    return found


def said(one: AttentionMap) -> list[Any]:
    """What stands in words beside a picture, in the language of this context."""
    words = []
    for picture in (*one.pictures(), one.picture(0, scores=True)):
        words += [say(text) for text in (picture.title, *picture.notes, *picture.changes)]
        words += [picture.quantity, picture.queries.labels, picture.keys.labels]
    return [*words, say(one.queries.name), say(one.keys.name), *(say(change.message) for change in one.interventions)]


def same(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """The parts in which they differ, bit by bit."""
    assert first.keys() == second.keys()
    return [name for name in first if not _equal(first[name], second[name])]


def _equal(first: Any, second: Any) -> bool:
    if not isinstance(first, np.ndarray):
        return bool(first == second)
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()
