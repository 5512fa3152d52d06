"""Where a model of the library attends, found by running it on a few tokens.

Whether attention can be recorded lazily is found out, not believed: a few tokens are run both ways, with padding, and
what was recorded of fused attention is held against what the model's own eager attention says.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ...attention.capture import Recording, recording
from ...attention.recording.relay import PublicSite, Relay
from ...attention.softmax_inputs import Weights
from ...errors import CheckpointError
from ...messages import Message
from ...sites import Site
from .model import HuggingFaceConfig, HuggingFaceModel, Kind

SOURCE, TARGET, PADDED = 5, 3, 2
"""Positions of the probe's source and target, and how many of its second row are padding: all different."""

OTHER_SOURCE = 8
"""A second length: attention by offsets in a window is as wide as the window, whatever is read."""

TOLERANCE = 1e-3
"""How far weights may differ: in float32 the two ways drift apart a little from layer to layer."""

FAILURES = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""What another library's model raises where its config does not fit together."""


def find_places(model: HuggingFaceModel, fused: bool) -> str:
    """Tell a model where its attention runs, and under which public names, once they are found exact; else say why not.

    What is recorded is held against the weights that the model returns where it runs eagerly; of `fused` attention the
    model's output too.

    Raises:
        CheckpointError: what it returns as attention is none of every query to every key, or layers differ in heads.
        HeedmapError: it cannot be recorded; or one of `FAILURES`.
    """
    net, config = model.net, model.config
    inputs = _inputs(config)
    with torch.inference_mode():
        with recording() as seen, Relay(net).watching():
            output = net(**inputs) if fused else net(**inputs, output_attentions=True)
        names = _named(seen, config)
        theirs = _eager(net, inputs) if fused else output
    reason = _difference(seen, names, _returned_weights(theirs, config.kind), config.kind) or _drift(output, theirs)
    if reason and not fused:
        with torch.inference_mode():
            for length in (OTHER_SOURCE, SOURCE):
                _check_maps(net(**_inputs(config, length), output_attentions=True), config, length)
    if reason:
        return reason
    heads = {site: seen.source(name).n_heads for site, name in names.items()}
    check_heads(heads, config.family)
    model.places = {name: PublicSite(site, heads[site]) for site, name in names.items()}
    whole = [kept.values[0] for name in names.values() if isinstance(kept := seen.source(name), Weights)]
    if not all(bool(((weights.sum(-1) - 1).abs() < TOLERANCE).all()) for weights in whole):  # a sink takes a part
        model.note = Message("kept_eagerly_with_sink", note=model.note)
    return ""


def _check_maps(output: Any, config: HuggingFaceConfig, length: int) -> None:
    """Refuse a model that returns no attention of each query to each key of a source of this length."""
    found = _returned_weights(output, config.kind)
    if not found or not all(isinstance(weights, Tensor) and weights.dim() == 4 for weights in found.values()):
        raise CheckpointError("no_attention", family=config.family)
    for site, weights in found.items():
        if weights.shape[2:] != _shape(site, config.kind, length):
            _, _, queries, keys = weights.shape
            raise CheckpointError("attention_by_offsets", family=config.family, read=length, queries=queries, keys=keys)


def check_heads(heads: Mapping[Site, int], family: str) -> None:
    """Refuse layers of one kind that differ in their number of heads, given by site.

    Raises:
        CheckpointError: they do; no view here draws such a stack.
    """
    counts: dict[str, set[int]] = {}
    for site, count in heads.items():
        counts.setdefault(site.group, set()).add(count)
    uneven = next((sorted(found) for found in counts.values() if len(found) > 1), None)
    if uneven is not None:
        raise CheckpointError("heads_differ", family=family, fewest=uneven[0], most=uneven[-1])


def _inputs(config: HuggingFaceConfig, length: int = SOURCE) -> dict[str, Any]:
    """Two rows of ordinary ids, the second padded at its end; and what the decoder reads."""
    marks = {config.pad_id, config.bos_id, config.eos_id}
    ordinary = [i for i in range(min(config.source_vocab, config.target_vocab)) if i not in marks] or [0]
    ids = [ordinary[i % len(ordinary)] for i in range(length + 1)]
    source = torch.tensor([ids[:-1], ids[1:]])
    real = torch.ones_like(source)
    real[1, length - PADDED :] = 0
    inputs: dict[str, Any] = {"input_ids": source, "attention_mask": real}
    if config.kind != "encoder":
        inputs["use_cache"] = False
    if config.kind == "seq2seq":
        inputs["decoder_input_ids"] = source[:, :TARGET]
    return inputs


def _returned_weights(output: Any, kind: Kind) -> dict[Site, Any]:
    """What a pass of the library returned as attention, by site; a model without any (Mamba) has nothing so called."""
    names = {(kind, "self"): "attentions"}
    if kind == "seq2seq":
        names = {("encoder", "self"): "encoder_attentions", ("decoder", "self"): "decoder_attentions"}
        names["decoder", "cross"] = "cross_attentions"
    return {
        Site.of(stack, i, what): weights
        for (stack, what), name in names.items()
        for i, weights in enumerate(getattr(output, name, None) or ())
        if weights is not None
    }


def _named(seen: Recording, config: HuggingFaceConfig) -> dict[Site, str]:
    """The public name of each attention that ran, and the module's own: told by what asks and what answers."""
    counts, found = Counter[tuple[str, str]](), dict[Site, str]()
    for name in seen.sites:
        kept = seen.source(name)
        group = ("encoder", "self") if config.kind == "encoder" else ("decoder", "self")
        if config.kind == "seq2seq" and kept.n_queries == SOURCE:
            group = ("encoder", "self")
        elif config.kind == "seq2seq" and kept.n_keys == SOURCE:
            group = ("decoder", "cross")
        stack, kind = group
        found[Site.of(stack, counts[group], kind)] = name
        counts[group] += 1
    return found


def _eager(net: Any, inputs: Mapping[str, Any]) -> Any:
    """What the model gives where it runs eagerly, with its attention."""
    configs = {id(module.config): module.config for module in net.modules() if hasattr(module, "config")}
    before = {key: config._attn_implementation for key, config in configs.items()}
    try:
        for config in configs.values():
            config._attn_implementation = "eager"  # the library's own way refuses families without its interface
        with _alibi_added_once(net):
            return net(**inputs, output_attentions=True)
    finally:
        for key, config in configs.items():
            config._attn_implementation = before[key]


@contextmanager
def _alibi_added_once(net: nn.Module) -> Iterator[None]:
    """Let Falcon's eager attention add ALiBi once, as its fused one does: the library's adds it in the mask too."""

    def once(forward: Any, states: Tensor, alibi: Tensor | None, *others: Any, **options: Any) -> Any:
        return forward(states, None if alibi is None else torch.zeros_like(alibi), *others, **options)

    mended = [module for module in net.modules() if type(module).__name__ == "FalconAttention"]
    for module in mended:
        module.__dict__["forward"] = partial(once, module.forward)
    try:
        yield
    finally:
        for module in mended:
            del module.__dict__["forward"]


def _shape(site: Site, kind: Kind, length: int) -> tuple[int, int]:
    """Queries and keys of a site where so many tokens are read."""
    written = length if kind == "decoder" else TARGET
    queries = length if site.stack == "encoder" else written
    return queries, queries if site.kind == "self" else length


def _difference(seen: Recording, names: Mapping[Site, str], expected: Mapping[Site, Any], kind: Kind) -> str:
    """Why what was recorded is not what the model returns; empty if it is. Only queries that are no padding count."""
    if not names or names.keys() != expected.keys():
        return Message("attention_not_seen", ran=len(names), expected=len(expected))
    for site, name in names.items():
        kept, weights = seen.source(name), expected[site]
        if weights.shape != (2, kept.n_heads, *_shape(site, kind, SOURCE)):
            return Message("eager_shapes_differ", site=site)
        for batch in range(2):
            padded = batch and kept.n_queries == SOURCE
            rows, keys = slice(0, kept.n_queries - PADDED if padded else kept.n_queries), slice(0, kept.n_keys)
            for head in range(kept.n_heads):
                distance = (kept.weights(batch, head, rows, keys) - weights[batch, head, rows]).abs().max()
                if not float(distance) <= TOLERANCE:
                    return Message("eager_weights_differ", site=site, apart=float(distance))
    return ""


def _drift(output: Any, theirs: Any) -> str:
    """Why a model's output is not that of its eager attention, for the row without padding; empty if it is."""
    one, other = (each[0][0].float() for each in (output, theirs))
    distance = float((one - other).abs().max() / other.abs().max().clamp(min=1))
    return "" if distance <= TOLERANCE else Message("eager_output_differs", apart=distance)
