"""The one attention inside of PyTorch's multi-head attention, which runs as operators below its functions."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from .axes import Softmax
from .products import Layout, Mixture

FUSED = frozenset(
    {
        "scaled_dot_product_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_attention_math",
    }
)
"""Operators of fused attention; the first result of each is what its heads give on."""


class Inside(TorchDispatchMode):
    """Tells of the one attention inside of PyTorch's multi-head attention by its operators; all else runs as it is."""

    def __init__(self, mode: Any, n_heads: int, n_batch: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.mode, self.heads = mode, (n_batch, n_heads)
        self._weights: Tensor | None = None

    def __torch_dispatch__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator, and see whether it is an attention."""
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        if name in FUSED:
            return self._fused(func, args, kwargs)
        if name == "bmm" and self._weights is not None and args[0].shape == self._weights.shape:
            weights, self._weights = self._weights, None
            (_, rows, keys), width, heads = weights.shape, args[1].shape[2], self.heads
            shapes = (*heads, rows, keys), (*heads, rows, width)
            of_weights, output = (Layout(shape, (0, 1, 2, 3), shape) for shape in shapes)
            values = Layout((keys, *heads, width), (1, 2, 0, 3), (*heads, keys, width))
            # Dropout acts on the weights in between, so untouched ones are what the product was given.
            return self.mode.written(
                Mixture(of_weights, output, values), Softmax(), weights, args[1].movedim(1, 0),
                lambda w: func(args[0] if w is weights else w.view(weights.shape), args[1]),
            )  # fmt: skip
        if name == "linear" and args[1].requires_grad and not args[0].is_contiguous():
            # Seen whole in inference mode. Outside of a mode a trained weight has its rows joined before the product.
            joined = (args[0].flatten(0, -2) @ args[1].T).unflatten(0, args[0].shape[:-1])
            return joined if len(args) < 3 or args[2] is None else joined + args[2]
        result = func(*args, **kwargs)
        if name in {"softmax", "_softmax", "_safe_softmax"}:
            self._weights = result.reshape(-1, *result.shape[-2:])
        return result

    def _fused(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = {argument.name: argument.default_value for argument in func._schema.arguments}
        given |= dict(zip(given, args, strict=False)) | kwargs
        options = {"attn_mask": given.get("attn_mask", given.get("attn_bias"))}
        options |= {name: given[name] for name in ("is_causal", "dropout_p", "scale") if name in given}
        kept: list[Any] = []

        def run() -> Tensor:
            kept.append(func(*args, **kwargs))
            return kept[0] if isinstance(kept[0], Tensor) else kept[0][0]

        first = self.mode.fused(given["query"], given["key"], given["value"], options, run)
        return first if isinstance(kept[0], Tensor) else (first, *kept[0][1:])
