"""The layers of our own Transformers, with the norms where the model has them.

Source: Vaswani et al. 2017, figure 1 (norm after the sum); Xiong et al. 2020, figure 1 (norm before the sub-layer).
"""

from collections.abc import Callable, Iterable

from torch import nn

from transformer.explain.diagrams.diagram import Shape
from transformer.explain.diagrams.sketch import Sketch
from transformer.nn.attention import MultiHeadAttention
from transformer.nn.blocks import DecoderBlock, EncoderBlock, FeedForward, Residual
from transformer.nn.norms import norm_kind
from transformer.nn.positions import SinusoidalPositions
from transformer.nn.stacks import StackConfig
from transformer.sites import Site


def encoder_layers(
    sketch: Sketch, layers: Iterable[EncoderBlock], config: StackConfig, axis: str, state: str, stack: str
) -> str:
    """The layers of one stack over positions called `axis`, from the node `state` on; the last node's name."""
    shape: Shape = (axis, config.d_model)
    for i, layer in enumerate(layers):
        block = sketch.block(f"{stack}.{i}", "layer", stack)
        site = Site.of(stack, i, "self")
        state = _sub_layer(
            sketch, f"{block}.self_residual", layer.self_residual, block, shape, state,
            _attention(sketch, f"{block}.self_attention", layer.self_attention, block, shape, axis, site),
        )  # fmt: skip
        state = _fed_forward(sketch, layer, config, block, shape, state)
    return state


def decoder_layers(
    sketch: Sketch, layers: Iterable[DecoderBlock], config: StackConfig, state: str, memory: str, stack: str
) -> str:
    """The layers of a decoder that reads the node `memory`, from the node `state` on; the last node's name."""
    shape: Shape = ("target", config.d_model)
    for i, layer in enumerate(layers):
        block = sketch.block(f"{stack}.{i}", "layer", stack)
        own, cross = Site.of("decoder", i, "self"), Site.of("decoder", i, "cross")
        state = _sub_layer(
            sketch, f"{block}.self_residual", layer.self_residual, block, shape, state,
            _attention(sketch, f"{block}.self_attention", layer.self_attention, block, shape, "target", own),
        )  # fmt: skip
        state = _sub_layer(
            sketch, f"{block}.cross_residual", layer.cross_residual, block, shape, state,
            _attention(sketch, f"{block}.cross_attention", layer.cross_attention, block, shape, "source", cross),
        )  # fmt: skip
        sketch.join(memory, f"{block}.cross_attention", "cross")
        state = _fed_forward(sketch, layer, config, block, shape, state)
    return state


def norm(sketch: Sketch, name: str, module: nn.Module, block: str, shape: Shape, state: str) -> str:
    """A layer norm, where the model has one: an `nn.Identity` in its place is no part."""
    if isinstance(module, nn.Identity):
        return state
    return sketch.part(name, "norm", block, shape, shape, [module], state, form=norm_kind(module))


def positioned(sketch: Sketch, name: str, module: nn.Module, kind: str, block: str, shape: Shape, state: str) -> str:
    """The table of positions that is added, where there is one."""
    if isinstance(module, SinusoidalPositions) and kind == "none":
        return state
    return sketch.part(name, "positions", block, shape, shape, [module], state, form=kind)


Made = Callable[[str], str]
"""Draws a sub-layer after the node of that name, and gives the sub-layer's own name."""


def _sub_layer(sketch: Sketch, name: str, residual: Residual, block: str, shape: Shape, state: str, make: Made) -> str:
    """A sub-layer and the residual connection past it."""
    read = norm(sketch, f"{name}.norm", residual.norm, block, shape, state) if residual.norm_first else state
    found = make(read)
    total = sketch.part(name, "sum", block, shape, shape, after=found)
    sketch.join(state, total, "residual")
    return total if residual.norm_first else norm(sketch, f"{name}.norm", residual.norm, block, shape, total)


def _attention(
    sketch: Sketch, name: str, module: MultiHeadAttention, block: str, shape: Shape, keys: str, site: Site
) -> Made:
    d_k, d_v = module.query.out_features // module.n_heads, module.value.out_features // module.n_heads
    sizes = [("n_heads", module.n_heads), ("d_k", d_k), ("d_v", d_v)]
    if (divisor := round(module.core.scale**-2)) != d_k:  # scores are divided by its root
        sizes.append(("divides_by", divisor))
    return lambda read: sketch.part(
        name, "attention", block, shape, shape, [module], read, site=site, form=f"over {keys}", sizes=sizes
    )


def _fed_forward(
    sketch: Sketch, layer: EncoderBlock | DecoderBlock, config: StackConfig, block: str, shape: Shape, state: str
) -> str:
    net: FeedForward = layer.feed_forward
    sizes = (("d_ff", net.widen.out_features),)
    return _sub_layer(
        sketch, f"{block}.feed_forward_residual", layer.feed_forward_residual, block, shape, state,
        lambda read: sketch.part(
            f"{block}.feed_forward", "feed_forward", block, shape, shape, [net], read,
            form=config.activation, sizes=sizes,
        ),
    )  # fmt: skip
