"""The published k-mer classifier: convolutions of several widths, then encoder layers of torch's attention."""

from collections.abc import Mapping

from transformer.checkpoint.foreign.layouts.base import Fit, Source, layer_count, linear, root_of, size
from transformer.checkpoint.foreign.layouts.torch_layers import attention
from transformer.checkpoint.foreign.questions import Answers, choice, heads_question, norm_eps, special_id
from transformer.messages import Message
from transformer.nn.kmer import KmerConfig
from transformer.safe.contents import Contents, Shape


def kmer(contents: Contents, answers: Answers) -> Fit | None:
    """An `Encoder` with `kmer_aggregation`.

    Widths of the windows stand in the shapes; heads are asked.
    """
    shapes = contents.shapes
    root = root_of(shapes, r"kmer_aggregation\.convs\.\d+\.weight")
    if root is None:
        return None
    widths = _widths(shapes, root)
    d_model = size(shapes, (f"{root}embed.weight", 1), (f"{root}norm.weight", 0))
    stored = f"{root}pe.pe" in shapes
    d_hidden = size(shapes, (f"{root}decoder.classifier.weight", 1), (f"{root}decoder.linear_1.weight", 0))
    why = Message("why_published")
    config = KmerConfig(
        vocab=size(shapes, (f"{root}embed.weight", 0)),
        n_classes=size(shapes, (f"{root}decoder.classifier.weight", 0)),
        d_model=d_model,
        n_heads=answers.ask(heads_question(d_model)),
        n_layers=max(1, layer_count(shapes, f"{root}layers.")),
        d_ff=size(shapes, (f"{root}layers.0.ff.linear_1.weight", 0)),
        widths=widths or (1,),
        d_hidden=0 if d_hidden == d_model else d_hidden,
        norm_eps=norm_eps(answers, 1e-5),
        norm_first=choice(answers, "norm_first", (False, True), why),
        activation=choice(answers, "activation", ("relu", "gelu"), why),
        positions="stored" if stored else choice(answers, "positions", ("doubled", "sinusoidal"), why),
        max_length=size(shapes, (f"{root}pe.pe", 1)) if stored else 200,
        scale_embedding=choice(answers, "scale_embedding", (True, False), why),
        pad_id=special_id(answers, "pad_id", -1),
    )
    return Fit(
        architecture="kmer",
        config=config,
        sources=_sources(root, config.n_layers, len(config.widths), stored),
        reasons=(Message("reason_kmer", widths=widths),),
    )


def _widths(shapes: Mapping[str, Shape], root: str) -> tuple[int, ...]:
    """The width of each convolution, in order."""
    count = layer_count(shapes, f"{root}kmer_aggregation.convs.")
    return tuple(size(shapes, (f"{root}kmer_aggregation.convs.{i}.weight", 2)) for i in range(count))


def _sources(root: str, n_layers: int, n_widths: int, stored: bool) -> dict[str, Source]:
    """Where each of our tensors stands."""
    sources = {
        "embedding.weight": Source(f"{root}embed.weight"),
        **linear("kmers.norm", f"{root}kmer_aggregation.norm"),
        **linear("encoder_norm", f"{root}norm"),
        **linear("hidden", f"{root}decoder.linear_1"),
        **linear("classifier", f"{root}decoder.classifier"),
    }
    if stored:
        sources["positions.table"] = Source(f"{root}pe.pe", extra_axis=0)
    for i in range(n_widths):
        sources |= linear(f"kmers.convolutions.{i}", f"{root}kmer_aggregation.convs.{i}")
    for i in range(n_layers):
        ours, theirs = f"encoder.{i}", f"{root}layers.{i}"
        sources |= attention(f"{ours}.self_attention", f"{theirs}.attn", bias=True)
        sources |= linear(f"{ours}.self_residual.norm", f"{theirs}.norm_1")
        sources |= linear(f"{ours}.feed_forward.widen", f"{theirs}.ff.linear_1")
        sources |= linear(f"{ours}.feed_forward.narrow", f"{theirs}.ff.linear_2")
        sources |= linear(f"{ours}.feed_forward_residual.norm", f"{theirs}.norm_2")
    return sources
