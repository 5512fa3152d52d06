"""A model of the `transformers` library as this library sees models: its sizes, its outputs, its decoding."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer.attention.capture import is_recording, record_site
from transformer.attention.softmax_inputs import Weights
from transformer.checkpoint.checkpoint import HUGGING_FACE, OtherModel
from transformer.errors import CheckpointError, InputError
from transformer.interventions.active import active
from transformer.layers.masks import Mask, causal, padding
from transformer.layers.rows import rows_from
from transformer.models.common import check_ids, log_probs
from transformer.models.protocols import Abilities, Ends
from transformer.sites import Site

COUNT_BY_MASK: Final = ("opt", "bloom", "falcon", "biogpt", "prophetnet")
"""Families that count their positions by the mask: a hidden token would move all later ones."""

Kind = Literal["seq2seq", "encoder", "decoder"]
"""What a model is made of: both stacks, the encoder alone (BERT), or the decoder alone (GPT-2, Llama)."""

Head = Literal["", "words", "classes", "scores", "tokens"]
"""What a model of one text was saved with on its states: nothing that is known here, scores of hidden words, of classes
of the text, numbers that are no probabilities (a regression), or scores of classes of each token.
"""

HEADED: Final = "headed"
"""The name, in a model here, of the library's whole model: the encoder, and the head that reads its states."""


@dataclass(frozen=True)
class HuggingFaceConfig:
    """What has to be known of another library's model.

    `family` is the library's name for the architecture. `bos_id` is what a decoder reads first; `forced_first_id`, if
    not -1, is what it then has to write (BART's start mark). Ids of -1 stand for no such mark. `max_length` is the
    number of positions that it is made for. `labels` are what a head of classes decides among (or what its numbers are
    called), by the config's own names; with `one_label` they exclude one another (softmax), otherwise each is a yes or
    no (sigmoid).
    """

    family: str
    kind: Kind
    source_vocab: int
    target_vocab: int
    max_length: int
    pad_id: int = -1
    bos_id: int = -1
    eos_id: int = -1
    forced_first_id: int = -1
    head: Head = ""
    labels: tuple[str, ...] = ()
    one_label: bool = True

    @property
    def writes(self) -> bool:
        """Whether it scores the token after each position: not with a head of another kind in that one's place."""
        return self.kind != "encoder" and not self.head


@dataclass
class HuggingFaceText:
    """What is kept of a text that goes on: the library's cache, and how much of the text it holds.

    `ids` are kept for families that cache nothing, which read the whole text anew.
    """

    past: Any = None
    length: int = 0
    ids: Int[Tensor, "batch position"] | None = None

    def reorder(self, rows: Int[Tensor, " row"]) -> None:
        """Keep `rows` of the batch, in that order."""
        if self.past is not None:
            self.past.reorder_cache(rows)
        self.ids = None if self.ids is None else self.ids[rows]


@dataclass
class HuggingFaceCache:
    """What cached decoding keeps between steps: the encoded source, which of it is real, and the library's cache."""

    memory: Float[Tensor, "batch source d_model"]
    real: Bool[Tensor, "batch source"]
    past: Any
    length: int = 0

    def reorder(self, rows: Int[Tensor, " row"]) -> None:
        """Keep `rows` of the batch, in that order."""
        self.memory, self.real = self.memory[rows], self.real[rows]
        self.past.reorder_cache(rows)


class HuggingFaceModel(OtherModel):
    """Ids in, the library's outputs out; its attention is recorded lazily, or as it computed it (`eager`).

    `sites` are the public names of its attention in the order they run. `note` is what a reader of its attention has
    to know. `headed`, if there is one, is the library's whole model, of which `net` is the part below the head.
    """

    def __init__(
        self,
        config: HuggingFaceConfig,
        net: nn.Module,
        sites: Sequence[Site] = (),
        note: str = "",
        headed: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.net: Any = net
        self.headed: Any = headed
        self.sites = tuple(sites)
        self.note = note

    @property
    def architecture(self) -> str:
        """Which stacks it has, after `HUGGING_FACE`."""
        return f"{HUGGING_FACE}{self.config.kind}"

    @property
    def abilities(self) -> Abilities:
        """Its masks are its own; an encoder-decoder translates."""
        return Abilities(translates=self.config.kind == "seq2seq", hides=self.config.family not in COUNT_BY_MASK)

    @property
    def eager(self) -> bool:
        """Whether the weights are kept as the model's own attention computed them, since that alone has them."""
        return bool(self.note)

    @property
    def embedding(self) -> nn.Embedding:
        """The table of what each token means to the model before it reads."""
        return self.net.get_input_embeddings()

    def attention_sites(self) -> dict[Site, nn.Module]:
        """None: its attention is not watched through hooks of ours, and needs no `watch`."""
        return {}

    def attending(self) -> dict[Site, nn.Module]:
        """The modules inside which attention runs, by site; none where it is recorded eagerly."""
        named = {getattr(module, "attention_site", ""): module for module in self.net.modules()}
        return {} if self.eager else {site: named[site] for site in self.sites if site in named}

    def run(
        self,
        ids: Int[Tensor, "batch position"],
        target: Int[Tensor, "batch target"] | None = None,
        shown: Bool[Tensor, "batch position"] | None = None,
        shown_target: Bool[Tensor, "batch target"] | None = None,
        *,
        with_head: bool = False,
    ) -> Any:
        """One forward pass without a cache: the library's output. Padding is hidden from every query.

        So is what `shown` (`shown_target`) marks False; the mask is the library's own, which some families also count
        their positions by. `with_head` goes through the head that an encoder was saved with.

        Raises:
            InputError: an id that the vocabulary lacks, or more positions than the model has.
            CheckpointError: the caller's interventions would change attention that is kept eagerly.
        """
        self._check("inputs", ids, self.config.source_vocab)
        real = self._real(ids) if shown is None else self._real(ids) & shown
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": real.long(), "use_cache": False}
        if self.config.kind == "encoder":
            del inputs["use_cache"]
        if target is not None:
            self._check("targets", target, self.config.target_vocab)
            inputs["decoder_input_ids"] = target
        self._check_changes()
        net = self.headed if with_head else self.net
        if shown_target is not None:
            inputs["decoder_attention_mask"] = shown_target.long()
        if not (self.eager and is_recording()):
            return net(**inputs)
        output = net(**inputs, output_attentions=True)
        self._keep_weights(output, ids, target)
        return output

    def outputs(
        self, ids: Int[Tensor, "batch position"], target: Int[Tensor, "batch target"] | None = None
    ) -> dict[str, Tensor]:
        """`hidden` (batch, position, d_model) of an encoder; else `log_probs` of the token after each position (nats).

        One with a head of classes ends with its `logits` alone, of the text (batch, class) or of each token (batch,
        position, class); one with a head of numbers with its `scores` (batch, number).

        Raises:
            InputError: as `run`; or an encoder-decoder got no target, or another model one.
        """
        if (target is None) == (self.config.kind == "seq2seq"):
            if target is None:
                raise InputError("needs_target_ids", family=self.config.family)
            raise InputError("reads_no_target", family=self.config.family)
        head = self.config.head
        output = self.run(ids, target, with_head=head not in {"", "words"})
        if head not in {"", "words"}:
            return {"scores" if head == "scores" else "logits": output.logits}
        if self.config.kind == "encoder":
            return {"hidden": output.last_hidden_state}
        return {"log_probs": log_probs(output.logits)}

    def ends(self) -> Ends:
        """The modules where tokens are embedded and scored.

        Raises:
            CheckpointError: the model has no scores of tokens: an encoder alone.
        """
        projection = self.net.get_output_embeddings()
        if projection is None:
            raise CheckpointError("no_token_scores", family=self.config.family)
        if self.config.kind != "seq2seq":
            return Ends((self.embedding,), projection)
        stacks = (self.net.get_encoder(), self.net.get_decoder())
        return Ends(tuple(stack.get_input_embeddings() for stack in stacks), projection)

    def _check_changes(self) -> None:
        if self.eager and active() is not None:
            raise CheckpointError("eager_cannot_be_changed", family=self.config.family)

    def _real(self, ids: Int[Tensor, "batch position"]) -> Bool[Tensor, "batch position"]:
        """Which ids are no padding."""
        return ids != self.config.pad_id

    def _check(self, what: str, ids: Tensor, vocab: int, start: int = 0) -> None:
        check_ids(what, ids, vocab)
        if start + ids.shape[1] > self.config.max_length:
            found, most = start + ids.shape[1], self.config.max_length
            raise InputError("past_the_checkpoint", what=what, found=found, most=most)

    def _keep_weights(self, output: Any, ids: Tensor, target: Tensor | None) -> None:
        """Hand the weights that eager attention returned to whoever watches, with the masks that they were made by."""
        source, past = padding(ids, self.config.pad_id), Mask(causal=True)
        if self.config.kind == "seq2seq":
            self._keep("encoder", "self", output, "encoder_attentions", source)
            self._keep("decoder", "self", output, "decoder_attentions", past)
            self._keep("decoder", "cross", output, "cross_attentions", source)
        elif self.config.kind == "encoder":
            self._keep("encoder", "self", output, "attentions", source)
        else:
            self._keep("decoder", "self", output, "attentions", causal(ids, self.config.pad_id))

    def _keep(self, stack: str, kind: str, output: Any, name: str, mask: Mask) -> None:
        """Keep what a model calls so; one without attention (Mamba) has nothing of that name."""
        for i, weights in enumerate(getattr(output, name, None) or ()):
            if weights is None:
                continue
            if not isinstance(weights, Tensor):
                raise CheckpointError("no_attention", family=self.config.family)
            record_site(Site.of(stack, i, kind), Weights(weights.detach(), mask, (self.note,)), weights[..., :0])


class HuggingFaceReader(HuggingFaceModel):
    """An encoder or a decoder alone: it reads one text."""

    def forward(
        self, ids: Int[Tensor, "batch position"], shown: Bool[Tensor, "batch position"] | None = None
    ) -> Float[Tensor, "batch position features"]:
        """Hidden states; of a decoder that writes, logits of the next token."""
        output = self.run(ids, shown=shown)
        return output.logits if self.config.writes else output.last_hidden_state

    @property
    def continues(self) -> bool:
        """Whether it scores the token after each position: a decoder alone, but for one that answers otherwise."""
        return self.config.writes

    def begin(self) -> HuggingFaceText:
        """Stand before the first token of a text."""
        return HuggingFaceText()

    def read_on(self, new: Int[Tensor, "batch new"], cache: HuggingFaceText) -> Float[Tensor, "batch vocab"]:
        """Logits of the token after `new`; the library's cache is used, in families that have one.

        Raises:
            InputError: an id that the vocabulary lacks, or more positions than the model has.
            CheckpointError: the caller's interventions would change attention that is kept eagerly.
        """
        self._check("inputs", new, self.config.source_vocab, cache.length)
        self._check_changes()
        cache.ids = new if cache.ids is None else torch.cat([cache.ids, new], dim=1)
        cached = cache.past is not None
        cache.length += new.shape[1]
        with rows_from(cache.length - new.shape[1] if cached else 0):
            output = self.net(
                input_ids=new if cached else cache.ids,
                attention_mask=torch.ones_like(cache.ids),
                past_key_values=cache.past,
                use_cache=True,
            )
        cache.past = getattr(output, "past_key_values", None)
        return output.logits[:, -1]

    def word_scores(self, ids: Int[Tensor, "batch position"]) -> Float[Tensor, "batch position vocab"]:
        """Logits of the word that stands at each position, of a model that fills in hidden words.

        Raises:
            InputError: as `run`.
            CheckpointError: it was saved without a head that scores words.
        """
        if self.config.head != "words":
            raise CheckpointError("no_word_head", family=self.config.family)
        return self.run(ids, with_head=True).logits


class HuggingFaceTranslator(HuggingFaceModel):
    """An encoder-decoder: what it has read tells what it writes. Our own search decodes it, with the library's cache.

    Of the folder's generation settings, the start mark and a forced first token are followed; the rest (lengths,
    repetition, its own beam width) is the searcher's choice.
    """

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
        shown: Bool[Tensor, "batch source"] | None = None,
        shown_target: Bool[Tensor, "batch target"] | None = None,
    ) -> Float[Tensor, "batch target vocab"]:
        """Logits of the token after each target position (teacher forcing), a forced first token taken into account."""
        logits = self.run(source, target, shown, shown_target).logits
        return torch.cat([self._forced(logits[:, :1]), logits[:, 1:]], dim=1)

    def start(self, source: Int[Tensor, "batch source"]) -> HuggingFaceCache:
        """Encode the source and stand before the first target token."""
        from transformers import DynamicCache, EncoderDecoderCache

        self._check("inputs", source, self.config.source_vocab)
        real = self._real(source)
        memory = self.net.get_encoder()(input_ids=source, attention_mask=real.long()).last_hidden_state
        return HuggingFaceCache(memory, real, EncoderDecoderCache(DynamicCache(), DynamicCache()))

    def step(self, new: Int[Tensor, "batch new"], cache: HuggingFaceCache) -> Float[Tensor, "batch vocab"]:
        """Logits of the token after `new`, which continue what `cache` holds; the cache grows by them."""
        from transformers.modeling_outputs import MoEModelOutput  # some decoders ask for the memory by name

        self._check("targets", new, self.config.target_vocab, cache.length)
        with rows_from(cache.length):
            logits = self.net(
                encoder_outputs=MoEModelOutput(last_hidden_state=cache.memory),
                attention_mask=cache.real.long(),
                decoder_input_ids=new,
                past_key_values=cache.past,
                use_cache=True,
            ).logits[:, -1:]
        first = cache.length == 0
        cache.length += new.shape[1]
        return (self._forced(logits) if first else logits)[:, 0]

    def _forced(self, logits: Float[Tensor, "batch 1 vocab"]) -> Float[Tensor, "batch 1 vocab"]:
        """The first token's logits: only the forced one can be written, if there is one."""
        forced = self.config.forced_first_id
        if forced < 0:
            return logits
        only = torch.full_like(logits, -torch.inf)
        only[..., forced] = 0.0
        return only
