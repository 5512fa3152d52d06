"""Diagrams of this library's own models: encoder-decoders, encoders, decoders, k-mer classifiers, recurrent nets."""

from typing import Literal

from transformer.explain.diagrams.diagram import Diagram, Shape
from transformer.explain.diagrams.layers import decoder_layers, encoder_layers, norm, positioned
from transformer.explain.diagrams.sketch import Sketch
from transformer.nn.decoder import Decoder
from transformer.nn.encoder import Encoder
from transformer.nn.kmer import KmerClassifier
from transformer.nn.recurrent import Recurrent
from transformer.nn.seq2seq import Seq2Seq
from transformer.sites import Site

SCALED = "scaled"
"""The form of an embedding whose rows are multiplied by the root of d_model."""


def seq2seq(model: Seq2Seq) -> Diagram:
    """Two stacks, and cross-attention from every layer of the decoder to the encoder's end."""
    config, sketch = model.config, Sketch(model)
    source: Shape = ("source", config.d_model)
    target: Shape = ("target", config.d_model)
    scaled = SCALED if config.scale_embedding else ""
    encoder, decoder = sketch.block("encoder", "encoder"), sketch.block("decoder", "decoder")
    read = sketch.part("source", "input", encoder, ("source",), ("source",), sizes=[("vocab", config.source_vocab)])
    x = sketch.part("source_embedding", "embedding", encoder, ("source",), source, [model.source_embedding], read,
                    form=scaled)  # fmt: skip
    x = positioned(sketch, "source_positions", model.source_positions, config.positions, encoder, source, x)
    x = norm(sketch, "source_norm", model.source_norm, encoder, source, x)
    x = encoder_layers(sketch, model.encoder, config, "source", x, encoder)
    memory = norm(sketch, "encoder_norm", model.encoder_norm, encoder, source, x)
    read = sketch.part("target", "input", decoder, ("target",), ("target",), sizes=[("vocab", config.target_vocab)])
    y = sketch.part("target_embedding", "embedding", decoder, ("target",), target, [model.target_embedding], read,
                    form=scaled)  # fmt: skip
    y = positioned(sketch, "target_positions", model.target_positions, config.positions, decoder, target, y)
    y = norm(sketch, "target_norm", model.target_norm, decoder, target, y)
    y = decoder_layers(sketch, model.decoder, config, y, memory, decoder)
    y = norm(sketch, "decoder_norm", model.decoder_norm, decoder, target, y)
    words: Shape = ("target", config.target_vocab)
    y = sketch.part("projection", "linear", decoder, target, words, [model.projection], y)
    sketch.part("output", "output", decoder, words, words, after=y, form="softmax")
    return _diagram(model.architecture, "seq2seq", config.norm_first, causal=True, sketch=sketch)


def encoder(model: Encoder) -> Diagram:
    """One stack, and a head of linear maps where there is one."""
    config, sketch = model.config, Sketch(model)
    states: Shape = ("source", config.d_model)
    block = sketch.block("encoder", "encoder")
    read = sketch.part("source", "input", block, ("source",), ("source",), sizes=[("vocab", config.vocab)])
    x = sketch.part("embedding", "embedding", block, ("source",), states, [model.embedding], read,
                    form=SCALED if config.scale_embedding else "")  # fmt: skip
    x = positioned(sketch, "positions", model.positions, config.positions, block, states, x)
    x = encoder_layers(sketch, model.encoder, config, "source", x, block)
    x = norm(sketch, "encoder_norm", model.encoder_norm, block, states, x)
    shape = states
    if config.head and config.head_reads != "each":
        shape = (config.d_model,)
        x = sketch.part("head_reads", "pooling", block, states, shape, after=x, form=config.head_reads)
    for i, linear in enumerate(model.head):
        reads, shape = shape, (*shape[:-1], config.head[i])
        form = config.head_activation if i else ""
        x = sketch.part(f"head.{i}", "linear", block, reads, shape, [linear], x, form=form)
    sketch.part("output", "output", block, shape, shape, after=x, form="logits" if config.head else "states")
    return _diagram(model.architecture, "encoder", config.norm_first, config.causal, sketch)


def decoder(model: Decoder) -> Diagram:
    """One stack that reads its own past, and the scores of the token that comes next."""
    config, sketch = model.config, Sketch(model)
    states: Shape = ("target", config.d_model)
    block = sketch.block("decoder", "decoder")
    read = sketch.part("target", "input", block, ("target",), ("target",), sizes=[("vocab", config.vocab)])
    x = sketch.part("embedding", "embedding", block, ("target",), states, [model.embedding], read,
                    form=SCALED if config.scale_embedding else "")  # fmt: skip
    x = positioned(sketch, "positions", model.positions, config.positions, block, states, x)
    x = norm(sketch, "embedding_norm", model.embedding_norm, block, states, x)
    x = encoder_layers(sketch, model.decoder, config, "target", x, block)
    x = norm(sketch, "decoder_norm", model.decoder_norm, block, states, x)
    words: Shape = ("target", config.vocab)
    x = sketch.part("projection", "linear", block, states, words, [model.projection], x)
    sketch.part("output", "output", block, words, words, after=x, form="softmax")
    return _diagram(model.architecture, "decoder", config.norm_first, causal=True, sketch=sketch)


def kmer(model: KmerClassifier) -> Diagram:
    """Convolutions make windows of letters; layers over windows; pooling; a small classifier."""
    config, sketch = model.config, Sketch(model)
    letters: Shape = ("letter", config.d_model)
    windows: Shape = ("window", config.d_model)
    block = sketch.block("encoder", "encoder")
    read = sketch.part("source", "input", block, ("letter",), ("letter",), sizes=[("vocab", config.vocab)])
    x = sketch.part("embedding", "embedding", block, ("letter",), letters, [model.embedding], read,
                    form=SCALED if config.scale_embedding else "")  # fmt: skip
    x = positioned(sketch, "positions", model.positions, config.positions, block, letters, x)
    convolved = [
        sketch.part(f"kmers.convolutions.{i}", "convolution", block, letters, windows, [convolution], x,
                    sizes=[("width", width)])
        for i, (convolution, width) in enumerate(zip(model.kmers.convolutions, config.widths, strict=True))
    ]  # fmt: skip
    x = sketch.part("kmers", "windows", block, windows, windows, after=convolved)
    x = norm(sketch, "kmers.norm", model.kmers.norm, block, windows, x)
    x = encoder_layers(sketch, model.encoder, config, "window", x, block)
    x = norm(sketch, "encoder_norm", model.encoder_norm, block, windows, x)
    attends = config.pooling == "attention"
    sizes = [("n_heads", config.n_heads), ("n_queries", config.n_questions)] if attends else []
    pooled: Shape = (model.hidden.in_features,)
    x = sketch.part("pooling", "attention" if attends else "pooling", block, windows, pooled, [model.pooling], x,
                    site=Site("pooling") if attends else None, form=config.pooling, sizes=sizes)  # fmt: skip
    hidden: Shape = (model.hidden.out_features,)
    x = sketch.part("hidden", "linear", block, pooled, hidden, [model.hidden], x, form="relu")
    classes: Shape = (config.n_classes,)
    x = sketch.part("classifier", "linear", block, hidden, classes, [model.classifier], x)
    sketch.part("output", "output", block, classes, classes, after=x, form="softmax")
    return _diagram(model.architecture, "classifier", config.norm_first, causal=False, sketch=sketch)


def recurrent(model: Recurrent) -> Diagram:
    """Two recurrent nets; at each step the decoder's last state says where to look in the source."""
    config, sketch = model.config, Sketch(model)
    features, width = config.source_features, config.embedding_size
    combines = bool(len(model.combine))
    source, target = sketch.block("encoder", "encoder"), sketch.block("decoder", "decoder")
    read = sketch.part("source", "input", source, ("source",), ("source",), sizes=[("vocab", config.source_vocab)])
    x = sketch.part("source_embedding", "embedding", source, ("source",), ("source", width), [model.source_embedding],
                    read)  # fmt: skip
    states = sketch.part("encoder", "recurrence", source, ("source", width), ("source", features), [model.encoder], x,
                         form="both ways" if config.bidirectional else "forward")  # fmt: skip
    sketch.join(states, states, "recurrence")
    first = states
    if config.bridges:
        first = sketch.part("bridge", "linear", source, (2 * config.read_size,), (config.hidden,), [model.bridge],
                            states, form="tanh")  # fmt: skip
    read = sketch.part("target", "input", target, ("target",), ("target",), sizes=[("vocab", config.target_vocab)])
    embedded = sketch.part("target_embedding", "embedding", target, ("target",), ("target", width),
                           [model.target_embedding], read)  # fmt: skip
    looks = "attention"
    if not config.attend_after:
        _look(sketch, model, target, embedded, states)
    heard: tuple[str, ...] = (embedded,) if config.attend_after else (embedded, looks)
    if combines:
        heard = (
            sketch.part("combine", "linear", target, ("target", width + features), ("target", config.hidden),
                        [model.combine], heard, form="relu"),
        )  # fmt: skip
    reads: Shape = ("target", model.decoder.weight_ih.shape[1])
    state = sketch.part("decoder", "recurrence", target, reads, ("target", config.hidden),
                        [model.decoder, model.upper], heard, form="forward")  # fmt: skip
    sketch.join(first, state)
    sketch.join(state, state, "recurrence")
    if config.attend_after:
        _look(sketch, model, target, state, states)
    else:
        sketch.join(state, looks, "recurrence")
    scored: tuple[str, ...] = (state,)
    if config.attend_after or config.deep_output:
        seen: Shape = ("target", config.hidden + features + (0 if config.attend_after else width))
        found = (state, looks) if config.attend_after else (state, embedded, looks)
        deep: Shape = ("target", config.output_size)
        scored = (sketch.part("deepen", "linear", target, seen, deep, [model.deepen], found, form="tanh"),)
    shape: Shape = ("target", config.output_size)
    words: Shape = ("target", config.target_vocab)
    y = sketch.part("projection", "linear", target, shape, words, [model.projection], scored)
    sketch.part("output", "output", target, words, words, after=y, form="softmax")
    return Diagram(
        model.architecture, "recurrent", "none", True, tuple(sketch.nodes), tuple(sketch.edges), tuple(sketch.blocks)
    )


def _look(sketch: Sketch, model: Recurrent, block: str, read: str, states: str) -> None:
    """The attention of a recurrent decoder: where it looks, its state says, and by location what it reads too."""
    config = model.config
    hears = config.attention == "location" or config.attend_after
    shape: Shape = ("target", config.source_features)
    sketch.part("attention", "attention", block, ("target", config.hidden), shape, [model.attention],
                read if hears else (), site=Site("decoder.cross"), form=config.attention,
                sizes=[("n_heads", 1)])  # fmt: skip
    sketch.join(states, "attention", "cross")


def _diagram(
    family: str,
    kind: Literal["seq2seq", "encoder", "decoder", "classifier"],
    norm_first: bool,
    causal: bool,
    sketch: Sketch,
) -> Diagram:
    norms: Literal["before", "after"] = "before" if norm_first else "after"
    return Diagram(family, kind, norms, causal, tuple(sketch.nodes), tuple(sketch.edges), tuple(sketch.blocks))
