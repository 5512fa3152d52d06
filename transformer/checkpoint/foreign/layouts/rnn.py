"""The PyTorch seq2seq tutorial, both generations: an encoder's file and a decoder's, or one file with both.

First generation: `attn` looks by location and `attn_combine` mixes. Second: `attention` with Wa, Ua, Va (Bahdanau).
"""

from collections.abc import Iterable

from transformer.checkpoint.foreign.layouts.base import Fit, Source, linear, root_of, size
from transformer.checkpoint.foreign.questions import Answers, special_id
from transformer.checkpoint.safe.contents import Contents
from transformer.messages import Message
from transformer.models.recurrent import RecurrentConfig

_GATES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class RnnTutorial:
    """`EncoderRNN` and `AttnDecoderRNN` of one generation of the tutorial."""

    def __init__(self, name: str, title: str, attention: str, sign: str, reason: str) -> None:
        self.name, self.title, self.attention, self.sign, self.reason = name, title, attention, sign, reason

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Every size stands in the shapes; only the special ids are asked."""
        shapes = contents.shapes
        root = root_of(shapes, rf"decoder\.{self.sign}\.weight")
        if root is None:
            return None
        hidden = size(shapes, (f"{root}decoder.gru.weight_hh_l0", 1), (f"{root}encoder.gru.weight_hh_l0", 1))
        embedding = size(shapes, (f"{root}decoder.embedding.weight", 1))
        config = RecurrentConfig(
            source_vocab=size(shapes, (f"{root}encoder.embedding.weight", 0)),
            target_vocab=size(shapes, (f"{root}decoder.embedding.weight", 0)),
            hidden=hidden,
            d_embedding=0 if embedding == hidden else embedding,
            attention="location" if self.attention == "location" else "additive",
            max_length=size(shapes, (f"{root}decoder.attn.weight", 0)) if self.attention == "location" else 512,
            pad_id=special_id(answers, "pad_id", -1),
            bos_id=special_id(answers, "bos_id", 0),
            eos_id=special_id(answers, "eos_id", 1),
        )
        return Fit("recurrent", config, _sources(root, self.attention), (self.reason,))

    def typical_names(self) -> Iterable[str]:
        """Every name that the pair has."""
        return [source.name for source in _sources("", self.attention).values() if source.name]


def _sources(root: str, attention: str) -> dict[str, Source]:
    """Where each of our tensors stands."""
    sources = {
        "source_embedding.weight": Source(f"{root}encoder.embedding.weight"),
        "target_embedding.weight": Source(f"{root}decoder.embedding.weight"),
        **{f"encoder.{gate}_l0": Source(f"{root}encoder.gru.{gate}_l0") for gate in _GATES},
        **{f"decoder.{gate}": Source(f"{root}decoder.gru.{gate}_l0") for gate in _GATES},
        **linear("projection", f"{root}decoder.out"),
    }
    if attention == "location":
        return (
            sources
            | linear("attention.where", f"{root}decoder.attn")
            | linear("combine.0", f"{root}decoder.attn_combine")
        )
    return (
        sources
        | linear("attention.query", f"{root}decoder.attention.Wa")
        | linear("attention.key", f"{root}decoder.attention.Ua")
        | linear("attention.score", f"{root}decoder.attention.Va")
    )


FIRST_TUTORIAL = RnnTutorial(
    "rnn-tutorial-1",
    Message("title_tutorial_1"),
    "location",
    "attn_combine",
    Message("reason_tutorial_1"),
)
SECOND_TUTORIAL = RnnTutorial(
    "rnn-tutorial-2",
    Message("title_tutorial_2"),
    "additive",
    r"attention\.Wa",
    Message("reason_tutorial_2"),
)
