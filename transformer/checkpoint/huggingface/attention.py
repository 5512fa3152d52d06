"""The attention function that other people's models call: the fused one, which the caller's recording may watch.

It is registered with the library's attention interface, together with the function that makes its masks: without
that one the library hands over no mask at all, and padding would be looked at in silence.
"""

from dataclasses import replace
from functools import cache, partial
from typing import Any, Final

import torch
from torch import Tensor, nn

from transformer.attention.by_rows import mixed_by_rows
from transformer.attention.capture import is_recording, record_site
from transformer.attention.changed import changed_attention, kept_inputs
from transformer.attention.masks_and_biases import bias_of, mask_of
from transformer.attention.softmax_inputs import ROWS_AT_ONCE, QueriesKeys, row_groups
from transformer.errors import CheckpointError
from transformer.interventions.active import active
from transformer.layers import log_sums
from transformer.sites import Site

NAME: Final = "heedmap"
"""What the attention is called in a model's config."""

SITE: Final = "attention_site"
"""The attribute of an attention module that holds its public name."""

UNKNOWN: Final = ("sinks", "head_mask", "cache")
"""Arguments that change the softmax, or its inputs, in a way that is not known here."""


def register(library: Any) -> None:
    """Make the function known to the library under `NAME`."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    def attend(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
    ) -> tuple[Tensor, None]:
        """What the library's fused attention gives; what its softmax was given is kept where somebody watches.

        Beside the library's own options, `positions` are vectors of relative positions. Scores that the fused
        attention does not know are computed a few rows at a time.
        """
        unknown = [name for name in UNKNOWN if options.get(name) is not None]
        if unknown:
            raise CheckpointError("fused_knows_no", arguments=tuple(unknown))
        is_fused = all(options.get(name) is None for name in ("positions", "softcap", "s_aux"))
        kept = cache(partial(_kept, module, query, key, attention_mask, options))
        sums: Tensor | None = None
        if is_fused:
            noted = _noting(module, query, key, value, attention_mask, options) if is_recording() else None
            if noted is None:
                output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
                noted = output.transpose(1, 2), None  # the library's has heads after queries
            by_head, sums = noted
        else:
            by_head, sums = mixed_by_rows(kept(), value)
        if not is_recording() and active() is None:
            return by_head.transpose(1, 2).contiguous(), None
        site = Site(getattr(module, SITE, type(module).__name__))
        alone = cache(lambda: replace(kept(), known=sums).detached())
        changed = changed_attention(site, alone, value, by_head)
        if is_recording():
            record_site(site, kept_inputs(site, alone()), changed, value)
        return changed.transpose(1, 2).contiguous(), None

    library.AttentionInterface.register(NAME, attend)
    library.AttentionMaskInterface.register(NAME, sdpa_mask)


def _noting(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, options: dict[str, Any]
) -> tuple[Tensor, Tensor] | None:
    """The same bits as the library's fused attention with the log-sum-exp of each row; None where they are not noted.

    What it is given is made as the library makes it, and a mask as torch does.
    """
    from transformers.integrations.sdpa_attention import create_position_bias_mask, repeat_kv

    shared, bias = query.shape[1] // key.shape[1], options.get("position_bias")
    is_causal = _is_causal(module, query, attention_mask, options)
    if is_causal and query.shape[2] != key.shape[2]:
        return None
    key, value = repeat_kv(key, shared), repeat_kv(value, shared)
    added = attention_mask
    if bias is not None:
        added, is_causal = create_position_bias_mask(bias, attention_mask, is_causal, query, key), False
    masked = added is not None and added.dtype == torch.bool
    mixed, sums = [], []
    for rows in row_groups(slice(0, query.shape[2]), ROWS_AT_ONCE if masked else query.shape[2]):
        part = None if added is None else added[:, :, rows if added.shape[2] > 1 else slice(0, 1)]
        if masked and part is not None:  # as torch does, but for a few rows at a time: four bytes for each of one
            part = query.new_zeros(part.shape).masked_fill(~part, -torch.inf)
        given = log_sums.attention(query[:, :, rows], key, value, is_causal, _scale(query, options), part)
        noted = log_sums.noted()
        if given is None or noted is None:
            return None
        mixed.append(given)
        sums.append(noted)
    return torch.cat(mixed, dim=2), torch.cat(sums, dim=2)


def _kept(
    module: nn.Module, query: Tensor, key: Tensor, attention_mask: Tensor | None, options: dict[str, Any]
) -> QueriesKeys:
    """The inputs of one softmax. Without a mask the module's own word decides whether the future is hidden."""
    bias, causal = options.get("position_bias"), _is_causal(module, query, attention_mask, options)
    if attention_mask is not None and attention_mask.is_floating_point():  # a table that is added: hidden is very low
        visible = attention_mask > torch.finfo(attention_mask.dtype).min / 2
        added = attention_mask.masked_fill(~visible, 0.0)
        if bool(added.any()):
            bias = added if bias is None else bias + added
        attention_mask = visible
    return QueriesKeys(
        query,
        key,
        mask_of(attention_mask, causal),
        _scale(query, options),
        bias_of(bias),
        positions=options.get("positions"),
        softcap=float(options.get("softcap") or 0.0),
        sinks=options.get("s_aux"),
    )


def _is_causal(module: Any, query: Tensor, attention_mask: Tensor | None, options: dict[str, Any]) -> bool:
    """Whether the future is hidden without a mask that says so; one query is the last position."""
    told = options.get("is_causal")
    told = getattr(module, "is_causal", True) if told is None else told
    return bool(told) and query.shape[2] > 1 and attention_mask is None


def _scale(query: Tensor, options: dict[str, Any]) -> float:
    scaling = options.get("scaling")
    return query.shape[-1] ** -0.5 if scaling is None else float(scaling)
