"""The k-mer classifier over every window of a long stretch: the answers of the model itself, with less work.

What is shared and what is rearranged, none of which changes the function that is computed:

- A convolution is linear and is not padded, so what it makes of a letter is the same in every window that holds it:
  computed once for the stretch, while its share of the positions, which count from the window's start, is added later.
- Features lie along the rows of a matrix and positions of all windows along its columns, so norms are sums of rows, a
  bias is one more column of its map, and each head's part is a view.
- Weights of attention are exp(score) / sum: the sum comes out of the same product as the mixture, as one more value
  that is 1 everywhere. Where such a sum leaves the range in which that is exact, the model itself is asked.
- Norms are folded into the maps that read them. With the norm first, what is added to a state is centred beforehand,
  since every reader centres it.

Answers differ from the model's by rounding alone.
"""

from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.layers.blocks import ACTIVATIONS, EncoderBlock
from transformer.layers.kmers import AttentionPooling
from transformer.models.kmer import KmerClassifier

TOGETHER = 16
"""Most windows that share a pass: with more, what one head needs would leave the processor's cache."""

WEIGHTS = 250_000
"""Attention weights of one head that are held at once, of all windows that share a pass, but for a single window's."""

LONGEST = 2_000
"""Windows of more positions than this are left to the model, which never holds all weights of a head."""


@dataclass(frozen=True, eq=False)
class _Layer:
    """One block's maps, each with its bias as the last column, norms before them folded in."""

    project: Tensor
    output: Tensor
    widen: Tensor
    narrow: Tensor
    after_attention: nn.LayerNorm
    after_feed_forward: nn.LayerNorm


class StretchReader:
    """Logits of windows of `width` letters that lie along a stretch; it keeps its own memory, so one thread uses it.

    Another device than the CPU, and half precision, read every window by itself: what is shared here spares a
    processor's cache.

    Raises:
        InputError: the model does not read windows of this width.
    """

    def __init__(self, model: KmerClassifier, width: int, together: int = TOGETHER) -> None:
        self.model, self.width = model, width
        self.config = config = model.config
        self._lengths = [width - k + 1 for k in config.widths]
        self._n_windows = len(model.windows(width))
        self.together = max(1, min(together, WEIGHTS // self._n_windows**2))
        weight = model.embedding.weight
        on_cpu = weight.device.type == "cpu" and weight.dtype in {torch.float32, torch.float64}
        self._is_shared = on_cpu and self._n_windows <= LONGEST
        if not self._is_shared:
            return
        self._centred = config.norm_first and config.norm_after_stack
        with torch.inference_mode():
            self._prepare_letters()
            self._layers = [self._layer(block) for block in model.encoder]
            self._prepare_memory()

    def logits(self, ids: Int[Tensor, " letter"], step: int = 1) -> Float[Tensor, "window classes"]:
        """What the model says of the letters from 0, from `step`, from 2 `step` on, as far as `ids` reaches."""
        count = (len(ids) - self.width) // step + 1
        if not self._is_shared or bool((ids == self.config.pad_id).any()):
            return self.model(ids.unfold(0, self.width, step))
        missing = -count % self.together
        padded = F.pad(ids, (0, missing * step))
        shared = self._shared(padded)
        parts = [self._some(padded, shared, first, step) for first in range(0, count, self.together)]
        return torch.cat(parts)[:count]

    def _some(self, ids: Tensor, shared: list[Tensor], first: int, step: int) -> Float[Tensor, "window classes"]:
        """Windows `first` and after, as many as go together."""
        x = self._first_states(shared, first * step, step)
        for number, layer in enumerate(self._layers):
            self._attend(x, layer, self._sums[number])
            self._feed_forward(x, layer)
        low, high = self._sums.aminmax()
        if not (self._least <= float(low) and float(high) <= 1 / self._least):  # NaN as well
            letters = ids[first * step :][: (self.together - 1) * step + self.width]
            return self.model(letters.unfold(0, self.width, step))
        return cast(Tensor, self.model.classifier(self.model.hidden(self._pooled(x)).relu()))

    def _prepare_letters(self) -> None:
        """What letters and positions bring to a window's first state."""
        model, config = self.model, self.config
        self._table = model.embedding.weight * (config.d_model**0.5 if config.scale_embedding else 1)
        before = config.position_place == "before"
        n_positions = self.width if before else self._n_windows
        places = model.positions(self._table.new_zeros(1, n_positions, config.d_model))[0].T
        convolutions = cast(list[nn.Conv1d], list(model.kmers.convolutions))
        self._kernels = [one.weight for one in convolutions]
        self._biases: list[Tensor | None] = [None if before else one.bias for one in convolutions]
        if before:
            self._places = [F.conv1d(places[None], one.weight, one.bias)[0] for one in convolutions]
            norm = model.kmers.norm
            first = torch.cat([norm.weight.diag(), norm.bias[:, None]], dim=1)
            self._first_norm = first - first.mean(0) if self._centred else first
        else:
            self._places = list(places.split(self._lengths, dim=1))

    def _shared(self, ids: Int[Tensor, " letter"]) -> list[Float[Tensor, "d_model start"]]:
        """For each width of the convolutions: what each of its windows along the stretch is, whoever holds it."""
        letters = self._table[ids].T[None]
        found = [F.conv1d(letters, *maps)[0] for maps in zip(self._kernels, self._biases, strict=True)]
        if self.config.position_place == "before":
            return found
        return [self.model.kmers.norm(one.T).T.contiguous() for one in found]

    def _layer(self, block: EncoderBlock) -> _Layer:
        attention, feed_forward = block.self_attention, block.feed_forward
        first, second = (
            cast(nn.LayerNorm, block.self_residual.norm),
            cast(nn.LayerNorm, block.feed_forward_residual.norm),
        )
        heads, d_model = self.config.n_heads, self.config.d_model
        query, key, value = (
            _folded(one, first if self.config.norm_first else None)
            for one in (attention.query, attention.key, attention.value)
        )
        one = value.new_zeros(heads, 1, d_model + 1)
        one[..., -1] = 1  # its bias: a value that is 1 everywhere, whose mixture is the sum of the weights
        value = torch.cat([value.unflatten(0, (heads, -1)), one], dim=1).flatten(0, 1)
        output, narrow = _folded(attention.output), _folded(feed_forward.narrow)
        if self._centred:
            output, narrow = output - output.mean(0), narrow - narrow.mean(0)
        return _Layer(
            torch.cat([query * attention.core.scale, key, value]),
            output,
            _folded(feed_forward.widen, second if self.config.norm_first else None),
            narrow,
            first,
            second,
        )

    def _prepare_memory(self) -> None:
        """All that a pass writes to, taken once, and the views of each head.

        What is never needed at the same time shares its place, so that a pass stays in the processor's cache.
        """
        config, n, p = self.config, self.together, self._n_windows
        d_model, heads = config.d_model, config.n_heads
        d_head, columns = d_model // heads, n * p
        new = self._table.new_empty
        n_projected = 2 * d_model + heads * (d_head + 1)
        n_large = max(n_projected, config.d_ff)
        self._x, self._row = new(d_model, columns), new(1, columns)
        self._average = torch.full_like(self._table[:1], 1 / d_model)
        self._read = self._mixed = new(d_model + 1, columns)
        large = new(n_large + 1, columns)
        self._projected, self._wide, self._scratch = large[:n_projected], large[-config.d_ff - 1 :], large[:d_model]
        self._read[-1] = large[-1] = 1  # what a bias is multiplied by
        self._weights, self._mixture = new(n, p, p), new(n, d_head + 1, p)
        self._mixed_values, self._mixed_ones = self._mixture[:, :-1], self._mixture[:, -1:]
        self._sums = new(len(self._layers), heads, n, 1, p)
        self._least = torch.finfo(self._table.dtype).tiny / torch.finfo(self._table.dtype).eps ** 2
        split = self._projected.view(-1, n, p).split([d_model, d_model, heads * (d_head + 1)])
        query, key, value = (part.unflatten(0, (heads, -1)) for part in split)
        mixed = self._mixed[:-1].view(heads, d_head, n, p)
        self._heads = [
            (key[head].permute(1, 2, 0), query[head].transpose(0, 1), value[head].transpose(0, 1),
             mixed[head].transpose(0, 1))
            for head in range(heads)
        ]  # fmt: skip

    def _first_states(self, shared: list[Tensor], start: int, step: int) -> Float[Tensor, "d_model column"]:
        x = self._x.view(-1, self.together, self._n_windows)
        parts = x.split(self._lengths, dim=2)
        for part, found, place in zip(parts, shared, self._places, strict=True):
            here = found.as_strided(part.shape, (found.stride(0), step, 1), found.storage_offset() + start)
            torch.add(here, place[:, None], out=part)
        if self.config.position_place == "before":
            self._standardised(self._x, self.config.norm_eps, self._read[:-1], False)
            torch.mm(self._first_norm, self._read, out=self._x)
        elif self._centred:
            self._x.sub_(torch.mm(self._average, self._x, out=self._row))
        return self._x

    def _attend(self, x: Tensor, layer: _Layer, sums: Tensor) -> None:
        """A block's attention and its residual; `sums` is filled with those of the weights before they are divided."""
        torch.mm(layer.project, self._reads(x), out=self._projected)
        for (key, query, value, mixed), total in zip(self._heads, sums, strict=True):
            torch.bmm(key, query, out=self._weights).exp_()
            torch.bmm(value, self._weights, out=self._mixture)
            total.copy_(self._mixed_ones)
            torch.div(self._mixed_values, total, out=mixed)
        x.addmm_(layer.output, self._mixed)
        if not self.config.norm_first:
            self._norm(x, layer.after_attention)

    def _feed_forward(self, x: Tensor, layer: _Layer) -> None:
        hidden = self._wide[:-1]
        torch.mm(layer.widen, self._reads(x), out=hidden)
        if self.config.activation == "relu":
            hidden.relu_()
        else:
            hidden.copy_(ACTIVATIONS[self.config.activation](hidden))
        x.addmm_(layer.narrow, self._wide)
        if not self.config.norm_first:
            self._norm(x, layer.after_feed_forward)

    def _reads(self, x: Tensor) -> Float[Tensor, "in_and_bias column"]:
        """What a sub-layer reads, and a row of ones for its bias."""
        if self.config.norm_first:
            self._standardised(x, self.config.norm_eps, self._read[:-1], self._centred)
        else:
            self._read[:-1].copy_(x)
        return self._read

    def _standardised(self, x: Tensor, eps: float, out: Tensor, centred: bool) -> None:
        """`x` with mean 0 and deviation 1 in each column, in `out`."""
        if not centred:
            torch.sub(x, torch.mm(self._average, x, out=self._row), out=out)
            x = out
        torch.mul(x, x, out=self._scratch)
        torch.mm(self._average, self._scratch, out=self._row)
        torch.mul(x, self._row.add_(eps).rsqrt_(), out=out)

    def _norm(self, x: Tensor, norm: nn.LayerNorm) -> None:
        """A layer norm of each column, in place."""
        self._standardised(x, norm.eps, x, centred=False)
        x.mul_(norm.weight[:, None]).add_(norm.bias[:, None])

    def _pooled(self, x: Tensor) -> Float[Tensor, "window pooled"]:
        """Averages of states whose weights sum to 1, so that the last norm's weight and bias can come after them."""
        scale, shift = x.new_ones(len(x)), x.new_zeros(len(x))
        if self.config.norm_after_stack:
            norm = cast(nn.LayerNorm, self.model.encoder_norm)
            self._standardised(x, norm.eps, x, self._centred)
            scale, shift = norm.weight, norm.bias
        shape = (self.together, self._n_windows)
        pooling = self.model.pooling
        if not isinstance(pooling, AttentionPooling):
            return x.view(-1, *shape).mean(-1).T * scale + shift
        heads = pooling.n_heads
        key = (pooling.key.weight * scale).unflatten(0, (heads, -1))
        asked = torch.matmul(pooling.question, key) * pooling.core.scale  # a key's bias moves all scores alike
        weights = torch.mm(asked.flatten(0, 1), x).view(heads, -1, *shape).softmax(-1)
        values = x.view(heads, -1, *shape)
        by_head = [
            torch.bmm(mine.transpose(0, 1), asks.permute(1, 2, 0)) for mine, asks in zip(values, weights, strict=True)
        ]
        averages = torch.stack(by_head, 1).transpose(2, 3)  # (window, head, question, feature)
        return (averages * scale.view(heads, 1, -1) + shift.view(heads, 1, -1)).flatten(1)


def _folded(layer: nn.Linear, norm: nn.LayerNorm | None = None) -> Float[Tensor, "out in_and_bias"]:
    """A map with its bias as the last column, and with the weight and bias of the norm that it reads."""
    if norm is None:
        return torch.cat([layer.weight, layer.bias[:, None]], dim=1)
    bias = layer.bias + layer.weight @ norm.bias
    return torch.cat([layer.weight * norm.weight, bias[:, None]], dim=1)
