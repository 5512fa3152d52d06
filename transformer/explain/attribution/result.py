"""What every method of attribution is asked about, and what it answers with: a matrix with its axes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from ...errors import AttributionError, NotDefinedError
from ...messages import Message
from ...plots.axes import Axis
from ...plots.picture import Picture, Quantity

POSITIONS_AT_ONCE = 4_096
"""Positions, source and target together, that share one forward pass."""


@dataclass(frozen=True, eq=False)
class ScoredSequence:
    """A source, and a target whose every token was written after reading the source and the tokens before it.

    `read_ids` is what the decoder had read by each step: the start token, then what was written. A model without a
    source has no `source_ids`.

    Raises:
        AttributionError: nothing was written.
    """

    name: str
    model: Any
    source_ids: tuple[int, ...]
    read_ids: tuple[int, ...]
    written_ids: tuple[int, ...]
    source: Axis
    read: Axis
    written: Axis

    def __post_init__(self) -> None:
        if not self.written_ids:
            raise AttributionError("attribution_nothing_written")

    def until(self, end: int) -> "ScoredSequence":
        """The same without what was written from row `end` on, which no earlier row depends on."""
        short = range(end)
        read, written = self.read.kept(short), self.written.kept(short)
        return replace(
            self, read_ids=self.read_ids[:end], written_ids=self.written_ids[:end], read=read, written=written
        )

    def log_probs(
        self,
        sources: Sequence[Sequence[int]],
        reads: Sequence[Sequence[int]],
        shown: Bool[Tensor, "row source"] | None = None,
        shown_read: Bool[Tensor, "row target"] | None = None,
        wanted: Bool[Tensor, "row target"] | None = None,
    ) -> Float[Tensor, "row target"]:
        """Natural log-probabilities of the written tokens, once a row, each with a source and a prefix of its own.

        All sources are of one length, all prefixes as long as what was written. Where `shown` (`shown_read`) is False,
        no attention sees that position. Where `wanted` is given, only those are looked up; the others are NaN.

        Raises:
            AttributionError: the model cannot hide positions.
        """
        hiding = shown is not None or shown_read is not None
        if hiding and not self.model.abilities.hides:
            raise NotDefinedError("attribution_cannot_hide", name=self.name)
        found = []
        at_once = max(1, POSITIONS_AT_ONCE // (len(sources[0]) + len(self.read_ids)))
        for start in range(0, len(sources), at_once):
            rows = slice(start, start + at_once)
            inputs = [torch.tensor(list(part[rows])) for part in ((sources, reads) if self.source_ids else (reads,))]
            hidden = (shown, shown_read) if self.source_ids else (shown_read,)
            masks = [None if table is None else table[rows] for table in hidden] if hiding else []
            with torch.no_grad():
                found.append(self._looked_up(inputs + masks, None if wanted is None else wanted[rows]))
        return torch.cat(found)

    def _looked_up(
        self, inputs: Sequence[Tensor | None], wanted: Bool[Tensor, "row target"] | None
    ) -> Float[Tensor, "row target"]:
        """Log-probabilities of the written tokens; a large vocabulary costs more than the layers, so only as wanted."""
        written: Int[Tensor, " target"] = torch.tensor(self.written_ids)
        if wanted is None or not hasattr(self.model, "hidden"):
            logits = self.model(*inputs)
            chosen = logits.gather(-1, written.expand(len(logits), -1)[..., None])[..., 0]
            return chosen.double() - logits.logsumexp(-1).double()
        logits = self.model.logits(self.model.hidden(*inputs)[wanted][None])[0]
        chosen = logits.gather(-1, written.expand(wanted.shape)[wanted][:, None])[:, 0]
        found = torch.full(wanted.shape, torch.nan, dtype=torch.float64)
        found[wanted] = chosen.double() - logits.logsumexp(-1).double()
        return found


@dataclass(frozen=True, eq=False)
class EncodedText:
    """A text that a model without a target read: an encoder, or a k-mer classifier, whose positions are windows.

    `axis` says what stands at each position of its attention. `causal` says that none sees a later one.
    """

    name: str
    model: Any
    ids: tuple[int, ...]
    axis: Axis
    causal: bool = False


Asked = ScoredSequence | EncodedText
"""What a method is asked about."""


@dataclass(frozen=True, eq=False)
class Attribution:
    """Attribution of each output token (row) to source tokens, then to tokens of the target prefix (columns).

    `method` names what was asked (a key of `messages`: `attribution_NAME`), `setting` which layer or head, if one. The
    first `len(source)` columns are the source, the others the prefix; a method that does not speak of one of them has
    an axis of no positions there. `visible` is False where a column cannot reach a row: the prefix after it.
    """

    method: str
    steps: Axis
    source: Axis
    prefix: Axis
    values: Float[np.ndarray, "step part"]
    visible: Bool[np.ndarray, "step part"]
    quantity: Quantity
    setting: Message | None = None
    notes: tuple[Message, ...] = ()

    @property
    def of_source(self) -> Float[np.ndarray, "step source"]:
        """The columns of the source alone."""
        return self.values[:, : len(self.source)]

    @property
    def of_prefix(self) -> Float[np.ndarray, "step prefix"]:
        """The columns of the target prefix alone."""
        return self.values[:, len(self.source) :]

    @property
    def source_share(self) -> Float[np.ndarray, " step"] | None:
        """The source's part of what a step received, 0 to 1; None where only one of the two is spoken of.

        None, too, of a method whose values are no shares of anything: losses, slopes and lengths of vectors. A row that
        received nothing has none (NaN).
        """
        shared = self.quantity in (Quantity.SHARE, Quantity.WEIGHT)
        if not shared or not len(self.source) or not len(self.prefix):
            return None
        whole, source = self.values.sum(1), self.of_source.sum(1)
        return np.divide(source, whole, out=np.full_like(whole, np.nan), where=whole != 0)

    @property
    def parts(self) -> Axis:
        """Every column: the source, then the prefix."""
        if not len(self.source) or not len(self.prefix):
            return self.source if len(self.source) else self.prefix
        return self.source.joined(self.prefix, Message("axis_parts", source=self.source.name, prefix=self.prefix.name))

    @property
    def name(self) -> Message:
        """The method's name, with the layer or head where one was chosen."""
        name = title(self.method)
        return name if self.setting is None else Message("attribution_setting", method=name, setting=self.setting)

    def only_source(self) -> "Attribution":
        """The same without the prefix."""
        n = len(self.source)
        return replace(self, prefix=self.prefix.kept(()), values=self.values[:, :n], visible=self.visible[:, :n])

    def merged(self) -> "Attribution":
        """In whole words: summed over the pieces of a part, averaged over the pieces of a written word."""
        rows, columns = groups(self.steps, words=True), groups(self.parts, words=True)
        sizes = np.array([len(row) for row in rows])[:, None]
        return replace(
            self,
            steps=self.steps.merged(),
            source=self.source.merged(),
            prefix=self.prefix.merged(),
            values=summed(summed(self.values, columns, 1), rows, 0) / sizes,
            visible=summed(summed(self.visible, columns, 1), rows, 0) > 0,
            notes=(*self.notes, Message("note_parts_merged")),
        )

    def picture(self) -> Picture:
        """The matrix as it will be drawn or saved."""
        axes = self.steps, self.parts
        site = Message("attribution_site")
        return Picture(site, self.name, self.values, self.visible, *axes, self.quantity, self.notes)


def answer(
    asked: Asked,
    method: str,
    values: Float[np.ndarray, "row part"],
    quantity: Quantity,
    notes: Sequence[Message] = (),
    setting: Message | None = None,
) -> Attribution:
    """A method's answer: its columns are source and prefix, or the source alone where there are no more than that.

    Of a text rows are positions, and columns too; to a causal model they are all its past.
    """
    if isinstance(asked, EncodedText):
        steps, nothing = asked.axis, asked.axis.kept(())
        source, prefix = (nothing, asked.axis) if asked.causal else (asked.axis, nothing)
    else:
        steps, source = asked.written, asked.source
        prefix = asked.read if values.shape[1] > len(source) else asked.read.kept(())
    visible = causal_visible(len(steps), len(source), len(prefix))
    undefined = [Message("note_undefined_rows")] if np.isnan(values[visible]).any() else []
    return Attribution(method, steps, source, prefix, values, visible, quantity, setting, (*notes, *undefined))


def title(method: str) -> Message:
    """What a method is called."""
    return Message(f"attribution_{method}")


def causal_visible(n_steps: int, n_source: int, n_prefix: int) -> Bool[np.ndarray, "step part"]:
    """The source is seen by every step, token i of the prefix by step i and later ones."""
    return np.concatenate([np.ones((n_steps, n_source), dtype=bool), np.tri(n_steps, n_prefix, dtype=bool)], axis=1)


def summed(x: Shaped[np.ndarray, "_ _"], parts: Sequence[Sequence[int]], axis: int) -> Shaped[np.ndarray, "_ _"]:
    """Sums over groups of positions along an axis; what is no number stays where it is, as in no matrix product."""
    return np.stack([x.take(list(part), axis).sum(axis) for part in parts], axis)


def groups(axis: Axis, words: bool) -> list[list[int]]:
    """The positions that are taken together: those of each word, or each alone."""
    if not words:
        return [[i] for i in range(len(axis))]
    return [np.flatnonzero(member).tolist() for member in axis.membership]
