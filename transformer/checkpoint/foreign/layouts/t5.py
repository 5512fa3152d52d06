"""T5, mT5, Flan-T5 and UMT5 without their config, under the names of the transformers library, which runs them.

Sizes, the number of heads and of buckets follow from shapes: the first layer's table of relative positions has a row a
bucket and a column a head. From how far on distances share the last bucket is asked. A projection that is the embedding
is scaled by d_model^-0.5, one of its own is not (Raffel et al. 2020; the code of version 1.1).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from transformer.checkpoint.foreign.layouts.base import Fit, layer_count, root_of, size
from transformer.checkpoint.foreign.questions import Answers, Question, choice, norm_eps, special_id_questions
from transformer.checkpoint.safe.contents import Contents, Shape
from transformer.messages import Message

_TABLE = "layer.0.SelfAttention.relative_attention_bias.weight"
_GATED = {"gelu_tanh": "gated-gelu", "silu": "gated-silu", "relu": "gated-relu"}
_PLAIN = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new"}
_UNREAD = re.compile(r"decoder\.block\.\d+\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight")
"""A table that early files hold and no version of the code reads."""


@dataclass(frozen=True)
class LibraryModel:
    """A model of the transformers library, as its own config would describe it: `settings` are that config's.

    Names of its weights begin with `root`; `embedding` is the one that embeds tokens. Where `tied`, it scores them too,
    and what is scored is `scaled` by d_model^-0.5 before.
    """

    family: str
    kind: Literal["seq2seq", "encoder"]
    maker: str
    settings: Mapping[str, Any]
    root: str
    embedding: str
    tied: bool
    scaled: bool
    source_vocab: int
    target_vocab: int
    pad_id: int
    bos_id: int
    eos_id: int


class T5:
    """An encoder-decoder, or its encoder alone."""

    name = "t5"
    title: str = Message("title_t5")

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Sizes from shapes; what is left is asked."""
        shapes = contents.shapes
        root = root_of(shapes, r"encoder\.block\.\d+\.layer\.0\.SelfAttention\.q\.weight")
        if root is None:
            return None
        return _Found(contents, root, answers).fit()

    def typical_names(self) -> Iterable[str]:
        """The names of an encoder with one layer."""
        parts = [f"layer.0.SelfAttention.{part}.weight" for part in "qkvo"]
        others = [_TABLE, "layer.0.layer_norm.weight", "layer.1.DenseReluDense.wo.weight", "layer.1.layer_norm.weight"]
        return ["shared.weight", *(f"encoder.block.0.{part}" for part in (*parts, *others))]


@dataclass
class _Found:
    contents: Contents
    root: str
    answers: Answers

    def fit(self) -> Fit:
        shapes, root, answers = self.contents.shapes, self.root, self.answers
        first = f"{root}encoder.block.0."
        embedding = next(
            (name for name in (f"{root}shared.weight", f"{root}encoder.embed_tokens.weight") if name in shapes),
            f"{root}shared.weight",
        )
        vocab, d_model = size(shapes, (embedding, 0)), size(shapes, (embedding, 1))
        n_buckets, n_heads = size(shapes, (first + _TABLE, 0)), size(shapes, (first + _TABLE, 1))
        width = size(shapes, (f"{first}layer.0.SelfAttention.q.weight", 0))
        stacks = {stack: layer_count(shapes, f"{root}{stack}.block.") for stack in ("encoder", "decoder")}
        decodes = stacks["decoder"] > 0
        net = f"{first}layer.1.DenseReluDense."
        gated = f"{net}wi_0.weight" in shapes
        d_ff = size(shapes, (f"{net}{'wi_0' if gated else 'wi'}.weight", 0))
        own_tables = f"{root}encoder.block.1.{_TABLE}" in shapes
        activations = _GATED if gated else _PLAIN
        activation = choice(answers, "activation", tuple(activations), Message("why_original"))
        copies = self._copies(embedding, f"{root}lm_head.weight")
        tied = f"{root}lm_head.weight" not in shapes or f"{root}lm_head.weight" in copies
        asked = Question(
            "scale_output", Message("question_scale_output"), tied, (True, False), Message("why_original"),
            rare=not (tied and gated),  # version 1.1, which is gated, ties and scales nothing
        )  # fmt: skip
        scaled = answers.ask(asked) if decodes else False
        reach = Question("max_distance", Message("question_max_distance"), 128, (), Message("why_original"), least=1)
        ids = special_id_questions(answers, 0, 0, 1)
        settings = {
            "vocab_size": vocab,
            "d_model": d_model,
            "d_kv": max(1, width // n_heads),
            "d_ff": d_ff,
            "num_layers": stacks["encoder"],
            "num_decoder_layers": max(1, stacks["decoder"]),
            "num_heads": n_heads,
            "relative_attention_num_buckets": n_buckets,
            "relative_attention_max_distance": answers.ask(reach),
            "layer_norm_epsilon": norm_eps(answers, 1e-6),
            "feed_forward_proj": activations[activation],
            **{f"{name.removesuffix('_id')}_token_id": i for name, i in ids.items()},
            "decoder_start_token_id": ids["bos_id"],
        }
        family = "umt5" if own_tables else "t5"
        prefix = "UMT5" if own_tables else "T5"
        model = LibraryModel(
            family=family,
            kind="seq2seq" if decodes else "encoder",
            maker=f"{prefix}ForConditionalGeneration" if decodes else f"{prefix}EncoderModel",
            settings=settings,
            root=root,
            embedding=embedding,
            tied=tied,
            scaled=scaled,
            source_vocab=vocab,
            target_vocab=vocab,
            **ids,
        )
        needed = {embedding: (vocab, d_model)} | self._layers("encoder", stacks["encoder"], width, d_ff, gated)
        needed |= self._layers("decoder", stacks["decoder"], width, d_ff, gated)
        tables = [
            f"{root}{stack}.block.{i}.{_TABLE}"
            for stack, n in stacks.items()
            for i in range(n if own_tables else n > 0)
        ]
        needed |= dict.fromkeys(tables, (n_buckets, n_heads))
        needed |= {} if tied else {f"{root}lm_head.weight": (vocab, d_model)}
        unread = [name for name in shapes if _UNREAD.fullmatch(name.removeprefix(root))]
        scored = Message("reason_tied_to_tokens") if tied else Message("reason_not_tied")
        return Fit(
            architecture=f"hugging-face-{model.kind}",
            config=model,
            sources={},
            reasons=(
                Message("reason_t5", encoder=stacks["encoder"], decoder=stacks["decoder"]),
                Message("reason_t5_table", heads=n_heads, buckets=n_buckets),
                *((scored,) if decodes else ()),
            ),
            copies=copies,
            ignored=dict.fromkeys(unread, Message("ignored_unread_table")),
            needed={name: shape for name, shape in needed.items() if name not in copies},
        )

    def _copies(self, embedding: str, projection: str) -> tuple[str, ...]:
        """Tables that hold the embedding's own numbers."""
        tensors, root = self.contents.tensors, self.root
        names = [f"{root}encoder.embed_tokens.weight", f"{root}decoder.embed_tokens.weight", projection]
        return tuple(
            name
            for name in names
            if name != embedding and name in tensors and embedding in tensors
            and torch.equal(tensors[name], tensors[embedding])
        )  # fmt: skip

    def _layers(self, stack: str, count: int, width: int, d_ff: int, gated: bool) -> dict[str, Shape]:
        """The shapes of a stack's tensors; its tables of relative positions aside."""
        if not count:
            return {}
        d_model = size(
            self.contents.shapes, (f"{self.root}shared.weight", 1), (f"{self.root}encoder.embed_tokens.weight", 1)
        )
        attentions = ["layer.0.SelfAttention", *(["layer.1.EncDecAttention"] if stack == "decoder" else [])]
        last = len(attentions)
        one: dict[str, Shape] = {f"layer.{i}.layer_norm.weight": (d_model,) for i in range(last + 1)}
        for attention in attentions:
            one |= {f"{attention}.{part}.weight": (width, d_model) for part in "qkv"}
            one[f"{attention}.o.weight"] = (d_model, width)
        net = f"layer.{last}.DenseReluDense"
        one |= {f"{net}.{part}.weight": (d_ff, d_model) for part in (("wi_0", "wi_1") if gated else ("wi",))}
        one[f"{net}.wo.weight"] = (d_model, d_ff)
        path = f"{self.root}{stack}."
        found = {f"{path}block.{i}.{name}": shape for i in range(count) for name, shape in one.items()}
        return found | {f"{path}final_layer_norm.weight": (d_model,)}
