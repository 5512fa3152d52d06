"""A few tokens run both ways: which modules attend, under which public name, and whether what is kept is exact."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from transformer.attention.capture import Recording, recording
from transformer.attention.changed import SoftmaxInputs
from transformer.attention.softmax_inputs import QueriesKeys, Weights
from transformer.checkpoint.huggingface.adopting import abandon, adopt
from transformer.checkpoint.huggingface.attention import NAME, SITE
from transformer.checkpoint.huggingface.model import HuggingFaceConfig, HuggingFaceModel
from transformer.checkpoint.huggingface.whole_attention import mend
from transformer.errors import CheckpointError, HeedmapError
from transformer.messages import Message
from transformer.sites import Site

SOURCE, TARGET, PADDED = 5, 3, 2
"""Positions of the probe's source and target, and how many of its second row are padding: all different."""

OTHER_SOURCE = 8
"""A second length: attention by offsets in a window is as wide as the window, whatever is read."""

TOLERANCE = 1e-3
"""How far weights may differ: in float32 the two ways drift apart a little from layer to layer."""


FAILURES = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""What another library's model raises where its config does not fit together."""


def adopted_sites(net: Any, config: HuggingFaceConfig) -> tuple[Site, ...]:
    """The same for families with attention of their own that is known: it runs through ours, if that is exact."""
    if not adopt(net):
        return ()
    abandon(net)
    mend(net)
    try:
        with torch.inference_mode():
            expected = _parts(net(**_inputs(config), output_attentions=True), config)
    except FAILURES:
        return ()  # what is wrong is told when it runs eagerly
    finally:
        abandon(net)
    adopt(net)
    sites, _ = lazy_sites(net, config, expected)
    if not sites:
        abandon(net)
    return sites


def lazy_sites(
    net: Any, config: HuggingFaceConfig, known: dict[Site, Tensor] | None = None
) -> tuple[tuple[Site, ...], str]:
    """The public names of `net`'s attention in the order they run, once they are found exact; else none, and why.

    Each attention module is told its name. `known` are the weights that its eager attention returns for the probe, if
    they are known already.
    """
    for name, module in net.named_modules():
        setattr(module, SITE, name)
    try:
        with torch.inference_mode():
            with recording() as seen:
                net(**_inputs(config))
            modules = _named(seen, config)
            expected = _eager(net, config) if known is None else known
    except (HeedmapError, *FAILURES) as error:
        return (), _line(error)
    finally:
        for module in net.modules():
            module.__dict__.pop(SITE, None)  # a model may have put new modules in the place of old ones while it ran
    reason = _difference(seen, modules, expected)
    if reason:
        return (), reason
    check_heads({site: seen.source(name).n_heads for site, name in modules.items()}, config.family)
    for site, name in modules.items():
        setattr(net.get_submodule(name), SITE, site)
    return tuple(modules), ""


def eager_sites(model: HuggingFaceModel) -> tuple[tuple[Site, ...], bool]:
    """The public names of the attention that an eager model returns, and whether its rows sum to 1.

    Raises:
        CheckpointError: it returns none, or what is no attention of queries to keys, or no weights (SqueezeBERT returns
            its scores).
    """
    for length in (OTHER_SOURCE, SOURCE):
        seen = _eager_run(model, length)
    rows = [
        kept.weights(0, head, slice(0, kept.n_queries), slice(0, kept.n_keys))
        for kept in map(seen.source, seen.sites)
        for head in range(kept.n_heads)
    ]
    sums, least = torch.cat([one.sum(-1) for one in rows]), min(float(one.min()) for one in rows)
    if least < -(TOLERANCE**2) or float(sums.max()) > 1 + TOLERANCE:
        raise CheckpointError("no_weights", family=model.config.family, least=least, most=float(sums.max()))
    return seen.sites, bool(((sums - 1).abs() < TOLERANCE).all())


def _eager_run(model: HuggingFaceModel, length: int) -> Recording:
    """What an eager model returns for a source of this length, once each map is found to be of queries to keys."""
    inputs = _inputs(model.config, length)
    ids, target = inputs["input_ids"], inputs.get("decoder_input_ids")
    with torch.inference_mode(), recording() as seen:
        model.run(ids, target)
    maps = [seen.source(site) for site in seen.sites]
    if not maps or not all(isinstance(kept, Weights) and kept.values.dim() == 4 for kept in maps):
        raise CheckpointError("no_attention", family=model.config.family)
    written = length if model.config.kind == "decoder" else TARGET
    for site, kept in zip(seen.sites, maps, strict=True):
        queries = length if site.stack == "encoder" else written
        keys = queries if site.kind == "self" else length
        if (kept.n_queries, kept.n_keys) != (queries, keys):
            found = {"queries": kept.n_queries, "keys": kept.n_keys}
            raise CheckpointError("attention_by_offsets", family=model.config.family, read=length, **found)
    check_heads({site: seen.source(site).n_heads for site in seen.sites}, model.config.family)
    return seen


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


def as_returned(kept: SoftmaxInputs, found: Tensor, known: Tensor) -> Tensor:
    """Weights that were kept, as a family returns the `known` ones: some leave out the part that a sink takes."""
    has_sink = isinstance(kept, QueriesKeys) and kept.sinks is not None
    without = has_sink and bool(((known.sum(-1) - 1).abs() < TOLERANCE).all())
    return found / found.sum(-1, keepdim=True) if without else found


def _inputs(config: HuggingFaceConfig, length: int = SOURCE) -> dict[str, Any]:
    """Two rows of ordinary ids, the second padded at its end; and what the decoder reads."""
    marks = {config.pad_id, config.bos_id, config.eos_id}
    ordinary = [i for i in range(min(config.source_vocab, config.target_vocab)) if i not in marks] or [0]
    ids = [ordinary[i % len(ordinary)] for i in range(length + 1)]
    source = torch.tensor([ids[:-1], ids[1:]])
    real = torch.ones_like(source)
    real[1, length - PADDED :] = 0
    inputs: dict[str, Any] = {"input_ids": source, "attention_mask": real}
    if config.kind == "seq2seq":
        inputs["decoder_input_ids"] = source[:, :TARGET]
    return inputs


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


def _eager(net: Any, config: HuggingFaceConfig) -> dict[Site, Tensor]:
    """The weights that the model's own eager attention returns for the probe, by site."""
    net.set_attn_implementation("eager")
    try:
        output = net(**_inputs(config), output_attentions=True)
    finally:
        net.set_attn_implementation(NAME)
    return _parts(output, config)


def _parts(output: Any, config: HuggingFaceConfig) -> dict[Site, Tensor]:
    """The weights that a pass returned, by site."""
    if config.kind == "seq2seq":
        parts = {
            ("encoder", "self"): output.encoder_attentions,
            ("decoder", "self"): output.decoder_attentions,
            ("decoder", "cross"): output.cross_attentions,
        }
    else:
        parts = {(config.kind, "self"): output.attentions}
    return {Site.of(stack, i, kind): w for (stack, kind), layers in parts.items() for i, w in enumerate(layers or ())}


def _line(error: Exception) -> str:
    """What an error says, in a line."""
    if isinstance(error, HeedmapError):
        return error.message
    return next(iter(str(error).splitlines()), type(error).__name__)


def _difference(seen: Recording, modules: dict[Site, str], expected: dict[Site, Tensor]) -> str:
    """Why what was kept is not what eager attention says; empty if it is. Only queries that are no padding count."""
    if not modules or modules.keys() != expected.keys():
        return Message("attention_not_through_interface", ran=len(modules), expected=len(expected))
    for site, name in modules.items():
        kept, weights = seen.source(name), expected[site]
        if weights.shape != (2, kept.n_heads, kept.n_queries, kept.n_keys):
            return Message("eager_shapes_differ", site=site)
        for batch in range(2):
            padded = batch and kept.n_queries == SOURCE
            rows, keys = slice(0, kept.n_queries - PADDED if padded else kept.n_queries), slice(0, kept.n_keys)
            for head in range(kept.n_heads):
                known = weights[batch, head, rows]
                found = as_returned(kept, kept.weights(batch, head, rows, keys), known)
                apart = (found - known).abs().max()
                if not float(apart) <= TOLERANCE:
                    return Message("eager_weights_differ", site=site, apart=float(apart))
    return ""
