"""A model of the `transformers` library as this library sees models: its sizes, its outputs, its decoding."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ...attention.capture import current_recording
from ...attention.interventions.edits import active
from ...attention.recording.relay import PublicSite, Relay
from ...errors import CheckpointError, InputError
from ...nn.common import changed_context, check_ids, log_probs
from ...nn.masks import Mask
from ...nn.protocols import Abilities, TokenInterface
from ...sites import Site

HUGGING_FACE = "hugging-face-"
"""What the architectures of another library's models are called, before `seq2seq`, `encoder` or `decoder`."""

COUNT_BY_MASK: Final = ("opt", "bloom", "falcon", "biogpt", "prophetnet")
"""Families that count their positions by the mask: a hidden token would move all later ones."""

Kind = Literal["seq2seq", "encoder", "decoder"]
"""What a model is made of: both stacks, the encoder alone (BERT), or the decoder alone (GPT-2, Llama)."""

Head = Literal["", "words", "classes", "scores", "tokens"]
"""What a model of one text was saved with on its states: nothing that is known here, scores of hidden words, of classes
of the text, numbers that are no probabilities (a regression), or scores of classes of each token.
"""


Ids = Int[Tensor, "batch position"]
Real = Bool[Tensor, "batch position"] | None
TargetIds = Int[Tensor, "batch target"]
ShownTarget = Bool[Tensor, "batch target"] | None


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
class HuggingFaceCache:
    """What is kept of a text that goes on: the library's cache, and how many tokens it holds.

    A decoder alone keeps `ids`, for families that cache nothing, which read the whole text anew. An encoder-decoder
    keeps the encoded source, and which of it is real.
    """

    past: Any = None
    length: int = 0
    ids: Ids | None = None
    memory: Float[Tensor, "batch source d_model"] | None = None
    real: Bool[Tensor, "batch source"] | None = None

    def reorder(self, rows: Int[Tensor, " row"]) -> None:
        """Keep `rows` of the batch, in that order."""
        if self.past is not None:
            self.past.reorder_cache(rows)
        kept = (None if one is None else one[rows] for one in (self.ids, self.memory, self.real))
        self.ids, self.memory, self.real = kept


class HuggingFaceModel(nn.Module):
    """Ids in, the library's outputs out; its attention is recorded where the library's code runs.

    `places` are the public names of its attention by the modules in which it runs, in that order. `note` is what a
    reader of its attention has to know: that its weights are written out. `headed`, if there is one, is the library's
    whole model, of which `net` is the part below the head.
    """

    def __init__(self, config: HuggingFaceConfig, net: nn.Module, headed: nn.Module | None = None) -> None:
        super().__init__()
        self.config = config
        self.net: Any = net
        self.headed: Any = headed
        self.places: Mapping[str, PublicSite] = {}
        self.note: str = ""

    @property
    def sites(self) -> tuple[Site, ...]:
        """The public names of its attention, in the order they run."""
        return tuple(place.site for place in self.places.values())

    @property
    def architecture(self) -> str:
        """Which stacks it has, after `HUGGING_FACE`."""
        return f"{HUGGING_FACE}{self.config.kind}"

    @property
    def abilities(self) -> Abilities:
        """Its masks are its own; an encoder-decoder translates, a decoder alone goes on unless it answers otherwise."""
        translates, hides = self.config.kind == "seq2seq", self.config.family not in COUNT_BY_MASK
        return Abilities(translates=translates, hides=hides, continues=self.config.writes and not translates)

    @property
    def embedding(self) -> nn.Embedding:
        """The table of what each token means to the model before it reads."""
        return self.net.get_input_embeddings()

    def attention_sites(self) -> dict[Site, nn.Module]:
        """None: its attention is not watched through hooks of ours, and needs no `watch`."""
        return {}

    def attending(self) -> dict[Site, nn.Module]:
        """The modules inside which attention runs, by site."""
        return {place.site: self.net.get_submodule(name.partition("#")[0]) for name, place in self.places.items()}

    @contextmanager
    def watched(self, real: Real = None) -> Iterator[None]:
        """Inside, the caller's recording sees what attention `net` runs, and interventions act on it.

        `real` marks what of the source is no padding, which masks of written-out weights are made from.
        """
        if current_recording() is None and active() is None:
            yield
            return

        def mask_of(site: Site) -> Mask | None:
            """Who sees whom by what kind of attention it is, where it is known which ids are real."""
            if site.group == "decoder.self" and self.config.kind == "seq2seq":
                return Mask(causal=True)
            keys = None if real is None or bool(real.all()) else real
            return None if real is None else Mask(keys, causal=site.stack == "decoder" and site.kind == "self")

        with Relay(self.net, self.places, mask_of, (self.note,) if self.note else ()).watching():
            yield

    def run(
        self,
        ids: Ids,
        target: TargetIds | None = None,
        shown: Real = None,
        shown_target: ShownTarget = None,
        *,
        with_head: bool = False,
    ) -> Any:
        """One forward pass without a cache: the library's output. Padding is hidden from every query.

        So is what `shown` (`shown_target`) marks False; the mask is the library's own, which some families also count
        their positions by. `with_head` goes through the head that an encoder was saved with.

        Raises:
            InputError: an id that the vocabulary lacks, or more positions than the model has.
        """
        self._check("inputs", ids, self.config.source_vocab)
        real = ids != self.config.pad_id
        real = real if shown is None else real & shown
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": real.long()}
        if self.config.kind != "encoder":
            inputs["use_cache"] = False
        if target is not None:
            self._check("targets", target, self.config.target_vocab)
            inputs["decoder_input_ids"] = target
        net = self.headed if with_head else self.net
        if shown_target is not None:
            inputs["decoder_attention_mask"] = shown_target.long()
        with self.watched(real):
            return net(**inputs)

    def outputs(self, ids: Ids, target: TargetIds | None = None) -> dict[str, Tensor]:
        """`hidden` (batch, position, d_model) of an encoder; else `log_probs` of the token after each position (nats).

        One with a head of classes ends with its `logits` alone, of the text (batch, class) or of each token (batch,
        position, class); one with a head of numbers with its `scores` (batch, number).

        Raises:
            InputError: as `run`; or an encoder-decoder got no target, or another model one.
        """
        if (target is None) == (self.config.kind == "seq2seq"):
            raise InputError("needs_target_ids" if target is None else "reads_no_target", family=self.config.family)
        head = self.config.head
        output = self.run(ids, target, with_head=head not in {"", "words"})
        if head not in {"", "words"}:
            return {"scores" if head == "scores" else "logits": output.logits}
        if self.config.kind == "encoder":
            return {"hidden": output.last_hidden_state}
        return {"log_probs": log_probs(output.logits)}

    def token_interface(self) -> TokenInterface:
        """The modules where tokens are embedded and scored.

        Raises:
            CheckpointError: the model has no scores of tokens: an encoder alone.
        """
        projection = self.net.get_output_embeddings()
        if projection is None:
            raise CheckpointError("no_token_scores", family=self.config.family)
        if self.config.kind != "seq2seq":
            return TokenInterface((self.embedding,), projection)
        stacks = (self.net.get_encoder(), self.net.get_decoder())
        return TokenInterface(tuple(stack.get_input_embeddings() for stack in stacks), projection)

    def _check(self, what: str, ids: Tensor, vocab: int, start: int = 0) -> None:
        check_ids(what, ids, vocab)
        if start + ids.shape[1] > self.config.max_length:
            found, most = start + ids.shape[1], self.config.max_length
            raise InputError("past_the_checkpoint", what=what, found=found, most=most)


class HuggingFaceReader(HuggingFaceModel):
    """An encoder or a decoder alone: it reads one text."""

    def forward(self, ids: Ids, shown: Real = None) -> Float[Tensor, "batch position features"]:
        """Hidden states; of a decoder that writes, logits of the next token."""
        output = self.run(ids, shown=shown)
        return output.logits if self.config.writes else output.last_hidden_state

    def begin(self) -> HuggingFaceCache:
        """Stand before the first token of a text."""
        return HuggingFaceCache()

    def read_on(self, new: Int[Tensor, "batch new"], cache: HuggingFaceCache) -> Float[Tensor, "batch vocab"]:
        """Logits of the token after `new`; the library's cache is used, in families that have one.

        Raises:
            InputError: an id that the vocabulary lacks, or more positions than the model has.
        """
        self._check("inputs", new, self.config.source_vocab, cache.length)
        cache.ids = new if cache.ids is None else torch.cat([cache.ids, new], dim=1)
        cached = cache.past is not None
        cache.length += new.shape[1]
        with changed_context(position_offset=cache.length - new.shape[1] if cached else 0), self.watched():
            output = self.net(
                input_ids=new if cached else cache.ids,
                attention_mask=torch.ones_like(cache.ids),
                cache=cache.past,
                use_cache=True,
            )
        cache.past = getattr(output, "cache", None)
        return output.logits[:, -1]

    def word_scores(self, ids: Ids) -> Float[Tensor, "batch position vocab"]:
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
        target: TargetIds,
        shown: Bool[Tensor, "batch source"] | None = None,
        shown_target: ShownTarget = None,
    ) -> Float[Tensor, "batch target vocab"]:
        """Logits of the token after each target position (teacher forcing), a forced first token taken into account."""
        logits = self.run(source, target, shown, shown_target).logits
        return torch.cat([self._forced(logits[:, :1]), logits[:, 1:]], dim=1)

    def start(self, source: Int[Tensor, "batch source"]) -> HuggingFaceCache:
        """Encode the source and stand before the first target token."""
        from transformers import DynamicCache, EncoderDecoderCache

        self._check("inputs", source, self.config.source_vocab)
        real = source != self.config.pad_id
        with self.watched(real):
            memory = self.net.get_encoder()(input_ids=source, attention_mask=real.long()).last_hidden_state
        return HuggingFaceCache(EncoderDecoderCache(DynamicCache(), DynamicCache()), memory=memory, real=real)

    def step(self, new: Int[Tensor, "batch new"], cache: HuggingFaceCache) -> Float[Tensor, "batch vocab"]:
        """Logits of the token after `new`, which continue what `cache` holds; the cache grows by them."""
        from transformers.modeling_outputs import MoEModelOutput  # some decoders ask for the memory by name

        self._check("targets", new, self.config.target_vocab, cache.length)
        with changed_context(position_offset=cache.length), self.watched(cache.real):
            logits = self.net(
                encoder_outputs=MoEModelOutput(last_hidden_state=cache.memory),
                attention_mask=cast(Tensor, cache.real).long(),
                decoder_input_ids=new,
                cache=cache.past,
                use_cache=True,
            ).logits[:, -1:]
        cache.length += new.shape[1]
        return (self._forced(logits) if cache.length == new.shape[1] else logits)[:, 0]

    def _forced(self, logits: Float[Tensor, "batch 1 vocab"]) -> Float[Tensor, "batch 1 vocab"]:
        """The first token's logits: only the forced one can be written, if there is one."""
        forced = self.config.forced_first_id
        if forced < 0:
            return logits
        only = torch.full_like(logits, -torch.inf)
        only[..., forced] = 0.0
        return only
