"""Inside `F.multi_head_attention_forward`, which no function mode can enter: its operators."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from transformer.attention.recording.axes import Softmax
from transformer.attention.recording.mixing import Mixture
from transformer.attention.recording.paths import Paths

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

SOFTMAX = frozenset({"softmax", "_softmax", "_safe_softmax"})


@runtime_checkable
class Sink(Protocol):
    """Who is told of attentions."""

    paths: Paths

    def fused(self, q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any], run: Callable[[], Tensor]) -> Tensor:
        """A call of `scaled_dot_product_attention`: what it gives on."""

    def written(
        self, layout: Mixture, softmax: Softmax, weights: Tensor, values: Tensor, run: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """A product of a softmax's result and values: what it gives on."""

    def of_heads(
        self, weights: Tensor, values: Tensor, n_heads: int, n_batch: int, run: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Attention that `multi_head_attention_forward` writes out, (batch * head, query, key): what it gives on."""

    def mapped(self) -> None:
        """A product inside of `torch.func.vmap`, whose tensors cannot be kept."""

    def idle(self, path: str, softmax: Softmax) -> None:
        """A softmax whose result mixes what is no value."""


class Inside(TorchDispatchMode):
    """Tell of the one attention that runs inside; everything else runs as it is."""

    def __init__(self, told: Sink, n_heads: int, n_batch: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.told, self.n_heads, self.n_batch = told, n_heads, n_batch
        self._weights: Tensor | None = None

    def __torch_dispatch__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator, and see whether it is an attention."""
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        if name in FUSED:
            return self._fused(func, name, args, kwargs)
        if name == "bmm" and self._weights is not None and args[0].shape == self._weights.shape:
            weights, self._weights = self._weights, None
            return self.told.of_heads(
                weights, args[1], self.n_heads, self.n_batch, lambda w: self._again(func, w, weights, args)
            )
        if name == "linear" and args[1].requires_grad and not args[0].is_contiguous():
            # Seen whole in inference mode. Outside of a mode a trained weight has its rows joined before the product.
            joined = (args[0].flatten(0, -2) @ args[1].T).unflatten(0, args[0].shape[:-1])
            return joined if len(args) < 3 or args[2] is None else joined + args[2]
        result = func(*args, **kwargs)
        if name in SOFTMAX:
            self._weights = result.reshape(-1, *result.shape[-2:])
        return result

    @staticmethod
    def _again(func: Any, weights: Tensor, before: Tensor, args: tuple[Any, ...]) -> Tensor:
        """What the product gives; dropout acts on the weights in between, so untouched ones are what it was given."""
        return func(args[0] if weights is before else weights, args[1])

    def _fused(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = {argument.name: argument.default_value for argument in func._schema.arguments}
        given |= dict(zip(given, args, strict=False)) | kwargs
        options = {
            "attn_mask": given.get("attn_mask", given.get("attn_bias")),
            "is_causal": given.get("is_causal", False),
            "dropout_p": given.get("dropout_p", 0.0),
            "scale": given.get("scale"),
        }
        kept: list[Any] = []

        def run() -> Tensor:
            kept.append(func(*args, **kwargs))
            return kept[0] if isinstance(kept[0], Tensor) else kept[0][0]

        first = self.told.fused(given["query"], given["key"], given["value"], options, run)
        return first if isinstance(kept[0], Tensor) else (first, *kept[0][1:])
