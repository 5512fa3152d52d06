"""The attention function that other people's models call: the fused one, which the caller's recording may watch.

It is registered with the library's attention interface, together with the function that makes its masks: without
that one the library hands over no mask at all, and padding would be looked at in silence.
"""

from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn

from transformer.attention.capture import is_recording, record_site
from transformer.attention.changed import changed_attention, kept_inputs
from transformer.attention.masks_and_biases import bias_of, mask_of
from transformer.attention.softmax_inputs import QueriesKeys
from transformer.errors import CheckpointError
from transformer.interventions.active import active
from transformer.sites import Site

NAME: Final = "heedmap"
"""What the attention is called in a model's config."""

SITE: Final = "attention_site"
"""The attribute of an attention module that holds its public name."""

CHANGES_WEIGHTS: Final = ("softcap", "s_aux", "sinks", "head_mask", "cache")
"""Arguments that change the softmax, or its inputs, in a way that queries, keys, mask and bias do not tell."""


def register(library: Any) -> None:
    """Make the function known to the library under `NAME`."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    def attend(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
    ) -> tuple[Tensor, None]:
        """The library's fused attention; what its softmax was given is kept where somebody watches."""
        unknown = [name for name in CHANGES_WEIGHTS if options.get(name) is not None]
        if unknown:
            raise CheckpointError("fused_knows_no", arguments=tuple(unknown))
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        if not is_recording() and active() is None:
            return output, None
        site = Site(getattr(module, SITE, type(module).__name__))
        kept = partial(_kept, module, query, key, attention_mask, options)
        by_head = output.transpose(1, 2)  # the library's has heads after queries
        changed = changed_attention(site, kept, value, by_head)
        if is_recording():
            record_site(site, kept_inputs(site, kept()), changed, value)
        return changed.transpose(1, 2).contiguous(), None

    library.AttentionInterface.register(NAME, attend)
    library.AttentionMaskInterface.register(NAME, sdpa_mask)


def _kept(
    module: nn.Module, query: Tensor, key: Tensor, attention_mask: Tensor | None, options: dict[str, Any]
) -> QueriesKeys:
    """The inputs of one softmax. Without a mask the module's own word decides whether the future is hidden."""
    is_causal, scaling, bias = options.get("is_causal"), options.get("scaling"), options.get("position_bias")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    causal = bool(is_causal) and query.shape[2] > 1 and attention_mask is None
    if attention_mask is not None and attention_mask.is_floating_point():  # a table that is added: hidden is very low
        visible = attention_mask > torch.finfo(attention_mask.dtype).min / 2
        added = attention_mask.masked_fill(~visible, 0.0)
        if bool(added.any()):
            bias = added if bias is None else bias + added
        attention_mask = visible
    return QueriesKeys(
        _alone(query),
        _alone(key),
        mask_of(attention_mask, causal),
        query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        bias_of(bias),
    )


def _alone(x: Tensor) -> Tensor:
    """`x` without what shares its memory: a slice of a joint projection would keep the values alive as well."""
    x = x.detach()
    return x.clone() if x.untyped_storage().nbytes() > x.nbytes else x
