"""What every method of attribution answers with: a matrix with its axes, and how much of each row is the source's."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float, Shaped

from transformer.errors import AttributionError
from transformer.explain.attribution.scored_sequence import Asked, Reading
from transformer.messages import Message
from transformer.plots.axes import Axis
from transformer.plots.picture import Picture
from transformer.plots.quantity import Quantity


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
    notes: tuple[Message, ...] = field(default=())

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
        if not len(self.prefix):
            return self.source
        if not len(self.source):
            return self.prefix
        return self.source.joined(self.prefix, Message("axis_parts", source=self.source.name, prefix=self.prefix.name))

    @property
    def name(self) -> Message:
        """The method's name, with the layer or head where one was chosen."""
        name = Message(f"attribution_{self.method}")
        return name if self.setting is None else Message("attribution_setting", method=name, setting=self.setting)

    def only_source(self) -> "Attribution":
        """The same without the prefix."""
        n = len(self.source)
        nothing = self.prefix.kept(())
        return replace(self, prefix=nothing, values=self.values[:, :n], visible=self.visible[:, :n])

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
        return Picture(
            Message("attribution_site"),
            self.name,
            self.values,
            self.visible,
            self.steps,
            self.parts,
            self.quantity,
            self.notes,
        )


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
    if isinstance(asked, Reading):
        steps, nothing = asked.axis, asked.axis.kept(())
        source, prefix = (nothing, asked.axis) if asked.causal else (asked.axis, nothing)
    else:
        steps, source = asked.written, asked.source
        prefix = asked.read if values.shape[1] > len(source) else asked.read.kept(())
    visible = causal_visible(len(steps), len(source), len(prefix))
    undefined = [Message("note_undefined_rows")] if np.isnan(values[visible]).any() else []
    return Attribution(method, steps, source, prefix, values, visible, quantity, setting, (*notes, *undefined))


def one_or_mean(tables: Sequence[Float[np.ndarray, "row part"]], layer: int | None) -> Float[np.ndarray, "row part"]:
    """The table of a layer, or the mean over all of them.

    Raises:
        AttributionError: there is no such layer.
    """
    if layer is None:
        return np.mean(tables, axis=0)
    if not 0 <= layer < len(tables):
        raise AttributionError("attribution_no_layer", layer=layer, last=len(tables) - 1)
    return tables[layer]


def setting_of(layer: int | None, head: int | None) -> Message:
    """Which layer and head, in words."""
    where = Message("setting_all_layers") if layer is None else Message("setting_layer", layer=layer)
    which = Message("setting_mean_of_heads") if head is None else Message("setting_head", head=head)
    return Message("setting_layer_and_head", layer=where, head=which)


def causal_visible(n_steps: int, n_source: int, n_prefix: int) -> Bool[np.ndarray, "step part"]:
    """The source is seen by every step, token i of the prefix by step i and later ones."""
    source = np.ones((n_steps, n_source), dtype=bool)
    return np.concatenate([source, np.tri(n_steps, n_prefix, dtype=bool)], axis=1)


def summed(x: Shaped[np.ndarray, "_ _"], parts: Sequence[Sequence[int]], axis: int) -> Shaped[np.ndarray, "_ _"]:
    """Sums over groups of positions along an axis; what is no number stays where it is, as in no matrix product."""
    return np.stack([x.take(list(part), axis).sum(axis) for part in parts], axis)


def groups(axis: Axis, words: bool) -> Sequence[Sequence[int]]:
    """The positions that are taken together: those of each word, or each alone."""
    if not words:
        return [[i] for i in range(len(axis))]
    return [np.flatnonzero(member).tolist() for member in axis.membership]
