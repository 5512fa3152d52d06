"""What shapes cannot tell is asked, without a default where none is likely; what was assumed is said."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from transformer.errors import CheckpointError
from transformer.messages import Message

SETTINGS = {
    "n_heads": ("n_heads", "nhead", "n_head", "num_heads", "heads", "num_attention_heads", "attention_heads"),
    "activation": ("activation", "activation_function", "hidden_act"),
    "norm_first": ("norm_first", "pre_norm", "normalize_before"),
    "norm_eps": ("norm_eps", "layer_norm_eps"),
    "target_pad_id": ("target_pad_id", "trg_pad_idx", "tgt_pad_idx"),
    "pad_id": ("pad_id", "pad_idx", "padding_idx", "pad_token_id", "src_pad_idx"),
    "bos_id": ("bos_id", "bos_idx", "sos_id", "sos_idx", "bos_token_id"),
    "eos_id": ("eos_id", "eos_idx", "eos_token_id"),
    "causal": ("causal", "is_causal"),
    "scale_embedding": ("scale_embedding", "scale_embeddings"),
    "positions": ("positions", "positional_encoding", "position_encoding"),
}
"""What trainers call the same things in the options beside the weights, and people in their answers."""

ALIASES = {alias: name for name, aliases in SETTINGS.items() for alias in aliases}

BESIDE = "config.json"
"""Where an option stands whose name says no place."""


@dataclass(frozen=True)
class Question:
    """Something about a checkpoint that its names and shapes do not say.

    `text` asks it. `options` lists every possible answer, or is empty where any whole number of at least `least` will
    do, or any number between 0 and 1 where `is_number`; `default` is what is assumed when nobody answers, and `why`
    says so. The default of a `rare` one is what the layout's own code has, so it is no assumption; nor is one that is
    `told` by an option beside the weights (the place where it stands). An `is_open` one must be answered: its default
    is only what shapes are compared with. One that comes `after_attention` changes no map, whatever its answer.
    """

    name: str
    text: str
    default: Any
    options: tuple[Any, ...] = ()
    why: str = ""
    least: int = 0
    is_number: bool = False
    rare: bool = False
    told: str = ""
    is_open: bool = False
    after_attention: bool = False

    def check(self, answer: Any) -> Any:
        """The answer, if it is a possible one.

        Raises:
            CheckpointError: it is not; the message lists those that are.
        """
        if self.options:
            for option in self.options:
                if answer == option and isinstance(answer, bool) == isinstance(option, bool):
                    return option
            options = tuple(map(repr, self.options))
            raise CheckpointError("answer_is_no_option", name=self.name, answer=repr(answer), options=options)
        if self.is_number:
            if type(answer) in {int, float} and 0 < answer < 1:
                return float(answer)
            raise CheckpointError("answer_is_no_number", name=self.name, answer=repr(answer))
        if type(answer) is not int or not self.least <= answer < 2**31:
            raise CheckpointError("answer_is_no_count", name=self.name, answer=repr(answer), least=self.least)
        return answer


@dataclass
class Answers:
    """The answers that were given, and the questions that came up. Asking again gives the same answer.

    `settings` are options that lay beside the weights, by place and name (`model_args.n_head`): what they say holds
    where nobody answers, unless two of them differ.
    """

    given: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    asked: dict[str, Question] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> "Answers":
        """Answers under their usual names.

        Raises:
            CheckpointError: one thing is answered twice, under two names.
        """
        named: dict[str, Any] = {}
        for name, answer in given.items():
            usual = ALIASES.get(name, name)
            if named.setdefault(usual, answer) != answer:
                raise CheckpointError("answered_twice", name=usual, first=repr(named[usual]), second=repr(answer))
        return cls(named, settings or {})

    def ask(self, question: Question) -> Any:
        """The given answer, or the default.

        Raises:
            CheckpointError: the given answer is not a possible one.
        """
        question = self._told(question)
        self.asked[question.name] = question
        return question.check(self.given[question.name]) if question.name in self.given else question.default

    def _told(self, question: Question) -> Question:
        """The question, whose default is what the settings say, if that is a possible answer.

        Where two places say different things of what attention depends on, neither is believed.
        """
        said: dict[str, Any] = {}
        for key, value in self.settings.items():
            place, _, name = key.rpartition(".")
            if name in {question.name, *SETTINGS.get(question.name, ())}:
                with suppress(CheckpointError):
                    said.setdefault(place or BESIDE, question.check(value))
        if not said:
            return question
        place, told = next(iter(said.items()))
        if question.after_attention or all(value == told for value in said.values()):
            return replace(question, default=told, told=place, is_open=False, why=Message("why_settings", place=place))
        differ = tuple(Message("setting_at", place=place, value=repr(value)) for place, value in said.items())
        return replace(question, is_open=True, rare=False, why=Message("why_settings_differ", said=differ))

    def check_all_used(self, config: Any) -> None:
        """Refuse answers that nothing asked for, unless they repeat what the file says anyway.

        Raises:
            CheckpointError: names the answer and the questions there are.
        """
        for name, answer in self.given.items():
            if name in self.asked or getattr(config, name, None) == answer:
                continue
            if hasattr(config, name):
                found = repr(getattr(config, name))
                raise CheckpointError("answer_against_file", name=name, answer=repr(answer), found=found)
            usual_first = sorted(self.asked, key=lambda name: self.asked[name].rare)
            choices = tuple(usual_first) or Message("no_questions")
            raise CheckpointError("answer_to_nothing", name=name, answer=repr(answer), questions=choices)

    @property
    def open(self) -> tuple[Question, ...]:
        """The questions that nobody has answered and that have no default."""
        return tuple(q for q in self.asked.values() if q.is_open and q.name not in self.given)

    @property
    def told(self) -> tuple[str, ...]:
        """What options beside the weights said, a sentence each."""
        told = [q for q in self.asked.values() if q.told and q.name not in self.given]
        return tuple(Message("reason_told", name=q.name, value=repr(q.default), place=q.told) for q in told)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was assumed for want of an answer, a sentence each."""
        assumed = [q for q in self.asked.values() if not (q.name in self.given or q.rare or q.told or q.is_open)]
        return tuple(map(_assumption, assumed))


def _assumption(question: Question) -> Message:
    """That the default is assumed, and whether attention depends on it."""
    said = {"name": question.name, "default": repr(question.default)}
    if question.after_attention:
        return Message("assumed_after", **said)
    return Message("assumed_because", **said, why=question.why) if question.why else Message("assumed", **said)


def heads_question(d_model: int) -> Question:
    """How many heads share the width; every divisor is possible, and none is likely enough to be assumed."""
    divisors = tuple(n for n in range(1, d_model + 1) if d_model % n == 0)
    default = d_model // 64 if d_model % 64 == 0 and d_model >= 128 else max(n for n in divisors if n <= 8)
    return Question("n_heads", Message("question_n_heads"), default, divisors, is_open=len(divisors) > 1)


def scaled_embedding(answers: Answers) -> bool:
    """Ask whether embeddings are multiplied by the root of d_model, which nothing in a file tells."""
    found: bool = choice(answers, "scale_embedding", (True, False), Message("why_nothing_tells"), is_open=True)
    return found


def special_id_questions(answers: Answers, pad_id: int = 0, bos_id: int = 1, eos_id: int = 2) -> dict[str, int]:
    """Ask for the ids of padding, start and end."""
    defaults = {"pad_id": pad_id, "bos_id": bos_id, "eos_id": eos_id}
    return {name: special_id(answers, name, default) for name, default in defaults.items()}


def norm_eps(answers: Answers, default: float) -> float:
    """Ask for what LayerNorm adds to the variance (or the deviation) before it divides."""
    text, why = Message("question_norm_eps"), Message("why_original")
    return answers.ask(Question("norm_eps", text, default, why=why, is_number=True, rare=True))


def target_pad(answers: Answers, pad_id: int) -> int | None:
    """Ask for the target's own padding id; None where it is the source's."""
    text, why = Message("question_target_pad_id"), Message("why_one_padding")
    found = answers.ask(Question("target_pad_id", text, pad_id, why=why, least=-1, rare=True))
    return None if found == pad_id else found


def seq2seq_special_ids(answers: Answers) -> dict[str, Any]:
    """The special ids of an encoder-decoder, whose target may be padded with an id of its own."""
    ids = special_id_questions(answers)
    usual = -1 if ids["bos_id"] == ids["pad_id"] else ids["pad_id"]  # what starts a target is read, not hidden
    found = target_pad(answers, usual)
    return {**ids, "target_pad_id": usual if found is None and usual == -1 else found}


def special_id(answers: Answers, name: str, default: int) -> int:
    """Ask for one id; -1 says that there is none."""
    text, why, ends = Message(f"question_{name}"), Message("why_common"), name == "eos_id"
    return answers.ask(Question(name, text, default, why=why, least=-1, after_attention=ends))


def choice(
    answers: Answers,
    name: str,
    options: Sequence[Any],
    why: str,
    text: str | None = None,
    *,
    is_open: bool = False,
    after_attention: bool = False,
) -> Any:
    """Ask for one of `options`; the first is the default. `text` is the question where it needs fields."""
    text = text or Message(f"question_{name}")
    asked = Question(name, text, options[0], tuple(options), why, is_open=is_open, after_attention=after_attention)
    return answers.ask(asked)


def attention_scale(answers: Answers, d_model: int, why: str) -> float:
    """What scores are multiplied by, as configs say it: 0 stands for d_head^-0.5."""
    scales = {"d_head": 0.0, "d_model": d_model**-0.5, "nothing": 1.0}
    return scales[choice(answers, "scores_divided_by", tuple(scales), why)]
