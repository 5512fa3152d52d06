"""BERT and its kin without their config: BERT, RoBERTa, ELECTRA and DistilBERT, under the transformers library's names.

A norm follows the embeddings and each sub-layer. Every token is of the first segment. RoBERTa counts its positions from
2. What stands after the layers (a pooler, heads) is not run.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from transformer.checkpoint.foreign.layouts.base import Fit, Source, layer_count, linear, root_of, size
from transformer.checkpoint.foreign.questions import Answers, Question, choice, heads_question, norm_eps, special_id
from transformer.checkpoint.safe.contents import Contents
from transformer.messages import Message
from transformer.models.encoder import EncoderConfig

_AFTER = re.compile(
    r"(?:.*\.)?(?:pooler|cls|classifier|pre_classifier|qa_outputs|lm_head|vocab_\w+|score|generator_\w+|discriminator_\w+)\..*"
)
"""Modules of the library's own models around the layers, all of which read their last states."""

_OFFSET = ("roberta", "xlm_roberta", "camembert", "longformer")
"""Families that number positions from 2."""


@dataclass(frozen=True)
class _Names:
    """What one family calls the parts of a layer, below `layers` and a number."""

    layers: str
    query: str
    key: str
    value: str
    output: str
    norm: str
    widen: str
    narrow: str
    last_norm: str


_BERT = _Names(
    layers="encoder.layer.",
    query="attention.self.query",
    key="attention.self.key",
    value="attention.self.value",
    output="attention.output.dense",
    norm="attention.output.LayerNorm",
    widen="intermediate.dense",
    narrow="output.dense",
    last_norm="output.LayerNorm",
)
_DISTIL = _Names(
    layers="transformer.layer.",
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    output="attention.out_lin",
    norm="sa_layer_norm",
    widen="ffn.lin1",
    narrow="ffn.lin2",
    last_norm="output_layer_norm",
)


class Bert:
    """An encoder as BERT, RoBERTa, ELECTRA (`Bert`) or DistilBERT saves it."""

    def __init__(self, name: str, title: str, names: _Names) -> None:
        self.name, self.title, self.names = name, title, names

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Sizes from shapes; heads are asked."""
        shapes, names = contents.shapes, self.names
        root = root_of(shapes, rf"{re.escape(names.layers)}\d+\.{re.escape(names.query)}\.weight")
        if root is None or f"{root}embeddings.word_embeddings.weight" not in shapes:
            return None
        tokens, places = f"{root}embeddings.word_embeddings.weight", f"{root}embeddings.position_embeddings.weight"
        segments = f"{root}embeddings.token_type_embeddings.weight"
        d_model = size(shapes, (tokens, 1))
        n_layers = max(1, layer_count(shapes, f"{root}{names.layers}"))
        counts_from_2 = root.rstrip(".").rpartition(".")[2] in _OFFSET or shapes.get(segments, ())[:1] == (1,)
        first = _first_position(answers, 2 if counts_from_2 else 0)
        has_segment = segments in shapes
        config = EncoderConfig(
            vocab=size(shapes, (tokens, 0)),
            d_model=d_model,
            n_heads=answers.ask(heads_question(d_model)),
            d_ff=size(shapes, (f"{root}{names.layers}0.{names.widen}.weight", 0)),
            n_layers=n_layers,
            norm_eps=norm_eps(answers, 1e-5 if counts_from_2 else 1e-12),
            activation=choice(answers, "activation", ("gelu", "gelu_tanh", "relu"), Message("why_original")),
            segment=has_segment,
            norm_after_embedding=True,
            positions="learned",
            max_length=max(1, size(shapes, (places, 0)) - first),
            pad_id=special_id(answers, "pad_id", 1 if counts_from_2 else 0),
        )
        sources = _sources(
            root, names, n_layers, "gamma" if f"{root}embeddings.LayerNorm.gamma" in shapes else "weight"
        )
        sources["positions.table"] = Source(places, first_row=first)
        if has_segment:
            sources["segment"] = Source(segments, row_of=max(1, size(shapes, (segments, 0))))
        after = {name: Message("ignored_after_layers") for name in shapes if _AFTER.fullmatch(name)}
        return Fit(
            architecture="encoder",
            config=config,
            sources=sources,
            reasons=(
                Message("reason_bert", count=n_layers, path=f"{root}{names.layers}"),
                *((Message("reason_first_segment"),) if has_segment else ()),
                *((Message("reason_positions_from", first=first),) if first else ()),
            ),
            ignored=after,
        )

    def typical_names(self) -> Iterable[str]:
        """The names of a model with one layer."""
        return [source.name for source in _sources("", self.names, 1, "weight").values() if source.name]


def _first_position(answers: Answers, usual: int) -> int:
    """Which row of the table of positions the first token gets; it can be asked for, as no shape tells."""
    text, why = Message("question_first_position"), Message("why_original")
    found: int = answers.ask(Question("first_position", text, usual, (usual, 2 - usual), why, rare=True))
    return found


def _sources(root: str, names: _Names, n_layers: int, gain: str) -> dict[str, Source]:
    """Where each of our tensors stands; early files call a norm's two `gamma` and `beta`."""
    shift = "beta" if gain == "gamma" else "bias"
    sources = {
        "embedding.weight": Source(f"{root}embeddings.word_embeddings.weight"),
        **linear("embedding_norm", f"{root}embeddings.LayerNorm", gain, shift),
    }
    for i in range(n_layers):
        ours, theirs = f"encoder.{i}", f"{root}{names.layers}{i}"
        for part in ("query", "key", "value", "output"):
            sources |= linear(f"{ours}.self_attention.{part}", f"{theirs}.{getattr(names, part)}")
        sources |= linear(f"{ours}.self_residual.norm", f"{theirs}.{names.norm}", gain, shift)
        sources |= linear(f"{ours}.feed_forward.widen", f"{theirs}.{names.widen}")
        sources |= linear(f"{ours}.feed_forward.narrow", f"{theirs}.{names.narrow}")
        sources |= linear(f"{ours}.feed_forward_residual.norm", f"{theirs}.{names.last_norm}", gain, shift)
    return sources


BERT = Bert("bert", Message("title_bert"), _BERT)
DISTILBERT = Bert("distilbert", Message("title_distilbert"), _DISTIL)
