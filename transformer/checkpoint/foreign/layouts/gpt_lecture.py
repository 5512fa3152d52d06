"""The language model of Karpathy's lecture "Let's build GPT": every head has maps of its own, and blocks are `blocks`.

Queries, keys and values have no bias, the map after the heads has one. The lecture itself divides scores by the root of
the model's width; the code beside it, by the root of a head's: names and shapes are the same, so it is asked.
"""

from collections.abc import Iterable, Mapping

import torch

from transformer.checkpoint.foreign.layouts.base import Fit, Joined, Source, layer_count, linear, root_of, size
from transformer.checkpoint.foreign.layouts.decoder_positions import decoder_positions, positioned, turned
from transformer.checkpoint.foreign.questions import Answers, attention_scale, choice, norm_eps, special_id
from transformer.checkpoint.safe.contents import Contents, Shape
from transformer.messages import Message
from transformer.models.decoder import DecoderConfig

_PARTS = ("query", "key", "value")


class LectureGpt:
    """`GPTLanguageModel` (once `BigramLanguageModel`) of the lecture."""

    name = "gpt-lecture"
    title: str = Message("title_gpt_lecture")

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Sizes and heads stand in names and shapes; what scores are divided by is asked."""
        shapes = contents.shapes
        root = root_of(shapes, r"blocks\.\d+\.sa\.heads\.\d+\.key\.weight")
        if root is None:
            return None
        tokens, places = f"{root}token_embedding_table.weight", f"{root}position_embedding_table.weight"
        first = f"{root}blocks.0.sa."
        d_model, n_heads = size(shapes, (tokens, 1)), max(1, layer_count(shapes, f"{first}heads."))
        vocab, kind = size(shapes, (tokens, 0)), decoder_positions(places, shapes, answers)
        options, table = positioned(kind, places, shapes)
        config = DecoderConfig(
            vocab=vocab,
            d_model=d_model,
            n_heads=n_heads,
            d_ff=size(shapes, (f"{root}blocks.0.ffwd.net.0.weight", 0)),
            n_layers=max(1, layer_count(shapes, f"{root}blocks.")),
            norm_eps=norm_eps(answers, 1e-5),
            norm_first=choice(answers, "norm_first", (True, False), Message("why_original")),
            norm_after_stack=True,
            attention_scale=attention_scale(answers, d_model, Message("why_lecture_code")),
            activation=choice(answers, "activation", ("relu", "gelu", "gelu_tanh"), Message("why_original")),
            **options,
            projection_bias=True,
            pad_id=special_id(answers, "pad_id", -1),
        )
        ignored = dict.fromkeys(_masks(contents, root), Message("ignored_mask"))
        fit = Fit(
            architecture="decoder",
            config=config,
            sources=_sources(shapes, root, config.n_layers, n_heads) | table,
            reasons=(Message("reason_gpt_lecture", layers=config.n_layers, heads=n_heads),),
            ignored=ignored,
        )
        return turned(fit, kind, answers)

    def typical_names(self) -> Iterable[str]:
        """The names of a model with one layer and one head."""
        found = [name for source in _sources({}, "", 1, 1).values() for name in source.names]
        return [*found, "position_embedding_table.weight"]


def _masks(contents: Contents, root: str) -> list[str]:
    """The stored masks over the future: ones on and below the diagonal."""
    found = []
    for name, tensor in contents.tensors.items():
        is_mask = name.startswith(f"{root}blocks.") and name.endswith(".tril") and tensor.dim() == 2
        if is_mask and torch.equal(tensor != 0, torch.ones_like(tensor).tril() != 0):
            found.append(name)
    return found


def _sources(shapes: Mapping[str, Shape], root: str, n_layers: int, n_heads: int) -> dict[str, Source]:
    """Where each of our tensors stands."""
    scored = f"{root}lm_head"
    sources = {
        "embedding.weight": Source(f"{root}token_embedding_table.weight"),
        **linear("decoder_norm", f"{root}ln_f"),
        **linear("projection", scored, has_bias=not shapes or f"{scored}.bias" in shapes),
    }
    for i in range(n_layers):
        ours, theirs = f"decoder.{i}", f"{root}blocks.{i}"
        for part in _PARTS:
            first, *others = (f"{theirs}.sa.heads.{head}.{part}.weight" for head in range(n_heads))
            sources[f"{ours}.self_attention.{part}.weight"] = Joined(first, others=tuple(others))
            sources[f"{ours}.self_attention.{part}.bias"] = Source(None)
        sources |= linear(f"{ours}.self_attention.output", f"{theirs}.sa.proj")
        sources |= linear(f"{ours}.self_residual.norm", f"{theirs}.ln1")
        sources |= linear(f"{ours}.feed_forward.widen", f"{theirs}.ffwd.net.0")
        sources |= linear(f"{ours}.feed_forward.narrow", f"{theirs}.ffwd.net.2")
        sources |= linear(f"{ours}.feed_forward_residual.norm", f"{theirs}.ln2")
    return sources
