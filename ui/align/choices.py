"""The choices of the Align page, and the runs that they ask for; every choice writes itself to the address."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from transformer import DecodingOptions, Translation
from transformer.attention.alignment import (
    AlignmentComparison,
    Head,
    alignment,
    best_agreeing,
    compared,
    heads_of,
)
from transformer.attention.record import Record
from transformer.errors import HeedmapError, InputError
from transformer.explain.attribution.methods import defined
from transformer.messages import Message
from transformer.plots.picture import Picture
from transformer.text.text import TextTokenizer
from ui.shared import controls, heads
from ui.shared.address import choice, renamed
from ui.shared.subject import MODEL
from ui.store import runs, store
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import plain, t

AUTO = "auto"
"""The head that is chosen by what it does: the largest weights, or the best agreement with the other model."""

Words = Literal["first", "second", "own"]
WORDS: tuple[Words, ...] = ("first", "second", "own")
"""Whose translation both maps have for rows; or each its own."""

SCREENS = ("side", "agreement", "changes", "downloads")
"""The page's screens, in order."""

METHODS = ("contributions", "norms", "value_zeroing", "gradients", "rollout")
"""Methods of attribution that can stand for an alignment: their values are none below 0, so rows can be compared."""

Standing = Head | str
"""What stands for a model's alignment: the attention of a head, or one of `METHODS`."""

MOST_TRIED = 4
"""Examples that are looked at for one to open with."""

WORD, MARK = "word", "mark"
"""The query parameters of the marked target word and of its panel, from 0; older addresses hold both in the second."""


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two models on the sentence: what it wrote itself, and its pass through the target that both read.

    `label` is its file's name, `title` what kind of model it is.
    """

    name: str
    label: str
    title: str
    own: Translation
    read: Translation


@dataclass(frozen=True, eq=False)
class Pair:
    """Both models on one sentence; `target` is what both read, and `origin` says in words whose it is.

    `options` are those that each model searched its own translation with.
    """

    first: Side
    second: Side
    target: str
    origin: str
    options: DecodingOptions

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both."""
        return self.first, self.second


@dataclass(frozen=True, eq=False)
class Aligned:
    """What stands for each model, in words and why it was chosen, and the alignments of the common target."""

    heads: tuple[Standing, Standing]
    notes: tuple[str, str]
    comparison: AlignmentComparison


def models() -> list[str]:
    """Everything that can be aligned: checkpoints that translate, and the snapshots of their training after each."""
    found: list[str] = []
    for name in store.checkpoint_names(*store.TRANSLATORS):
        if vocabulary(name) is not None:
            found += [name, *store.snapshots(name)]
    return found


def vocabulary(name: str) -> int | None:
    """The same number for checkpoints that share a tokenizer, so that their tokens line up.

    None for one without a tokenizer, and for one that cannot be read: the page Your model says why. Folders of the
    user's are not loaded for it: equal files are the same tokenizer.
    """
    return _vocabulary(name, store.revision(name))


@cached()
def _vocabulary(name: str, revision: Revision) -> int | None:  # noqa: ARG001  (part of the cache key)
    try:
        files = store.vocabulary_files(name)
        if files is not None:
            read = [hash(file.read_bytes()) for file in files]
            return hash(tuple(read * 2 if len(read) == 1 else read)) if read else None  # one reads and writes
        checkpoint = store.checkpoint(name)
    except HeedmapError:
        return None
    keys = []
    for tokenizer in (checkpoint.tokenizer, checkpoint.writer):
        if tokenizer is None:
            return None
        if isinstance(tokenizer, TextTokenizer):
            keys.append(hash(tokenizer.model))
        else:
            keys.append(hash(tuple(tokenizer.labels(range(len(tokenizer))))))
    return hash(tuple(keys))


def label(name: str) -> str:
    """What a model is called on the page."""
    base = store.base(name)
    found = store.snapshots(base).get(name)
    return name if found is None else plain("align.snapshot", name=base, update=found.update, bleu=found.bleu)


def titles(names: tuple[str, str]) -> tuple[str, str]:
    """What kind of model each of the two is; of two of a kind, what its training had reached or its file's name."""
    kinds = [plain(f"align.kind_{_kind(store.base(name))}") for name in names]
    if kinds[0] != kinds[1]:
        return kinds[0], kinds[1]
    first, second = (_own_title(name, kind) for name, kind in zip(names, kinds, strict=True))
    return (first, second) if first != second else (label(names[0]), label(names[1]))


def _own_title(name: str, kind: str) -> str:
    found = store.snapshots(store.base(name)).get(name)
    return kind if found is None else plain("align.kind_snapshot", kind=kind, update=found.update)


def _kind(name: str) -> str:
    return "recurrent" if store.architecture(name) == "recurrent" else "transformer"


def opening(names: tuple[str, str]) -> str | None:
    """The first example that the two models translate otherwise; None where they bring none, or none of the first."""
    for text in store.checkpoint(names[0]).examples[:MOST_TRIED]:
        first, second = (runs.translation(name, text, DecodingOptions(), None) for name in names)
        if first.text != second.text:
            return text
    return None


def model_choice(names: Sequence[str]) -> tuple[str, str]:
    """Two models that share a tokenizer; at first a Transformer beside an RNN, or a snapshot of its training."""
    renamed(first=MODEL)
    first = choice(t("align.first"), names, key=MODEL, text=label, form="list", width="stretch")
    same = vocabulary(store.base(first))
    fitting = [name for name in names if name != first and vocabulary(store.base(name)) == same]
    recurrent = [name for name in store.checkpoint_names("recurrent") if name in fitting]
    snapshots = [name for name in fitting if store.is_snapshot(name)]
    usual = next(iter([*recurrent, *snapshots[len(snapshots) // 2 :], *fitting]), first)
    second = choice(
        t("align.second"), fitting or [first], key="second", text=label, default=usual, form="list", width="stretch"
    )
    return first, second


def screen() -> str:
    """Which of the page's screens is open."""
    return choice(t("align.screen"), SCREENS, key="screen", bare=True, text=lambda name: plain(f"align.screen_{name}"))


def words_choice() -> Words:
    """Whose words the rows of both maps are."""
    found = choice(
        t("align.words"), WORDS, key="target", form="list", width="stretch",
        text=lambda words: plain(f"align.words_{words}"),
    )  # fmt: skip
    return cast(Words, found)


def pair(first: str, second: str, request: controls.Request, words: Words) -> Pair:
    """Both models on the sentence, each once for its own translation and once through the common target.

    Raises:
        InputError: nothing to read, too much, or no model wrote anything.
    """
    own = [runs.translation(name, request.text, request.options, None) for name in (first, second)]
    target, origin = common_target(request.forced, own, (first, second), words)
    read = [runs.translation(name, request.text, request.options, target) for name in (first, second)]
    named = zip((first, second), titles((first, second)), own, read, strict=True)
    sides = [Side(name, label(name), title, mine, ours) for name, title, mine, ours in named]
    return Pair(sides[0], sides[1], target, origin, request.options)


def head_choice(shown: Pair) -> Aligned:
    """Which attention stands for each model's alignment; a model with but one map has nothing to choose."""
    records = [side.read.record for side in shown.sides]
    chosen: list[Standing | None] = []
    for number, (side, record) in enumerate(zip(shown.sides, records, strict=True), 1):
        options = [*head_options(record), *methods_of(side)]
        if len(options) == 1:
            chosen.append(head_of(options[0]))
            continue
        code = choice(
            t(f"align.head{number}", model=side.title), options, key=f"head{number}", form="list", width="stretch",
            text=option_text if len(record.sites) > 1 else _only_text,
        )  # fmt: skip
        chosen.append(None if code == AUTO else code if code in METHODS else head_of(code))
    return _aligned(shown, (records[0], records[1]), (chosen[0], chosen[1]))


def own_alignments(shown: Pair, aligned: Aligned) -> tuple[Picture, Picture]:
    """The same two while each model writes its own translation."""
    first, second = (
        _standing_for(side, side.own, shown.options, None, one)
        for side, one in zip(shown.sides, aligned.heads, strict=True)
    )
    return first, second


def methods_of(side: Side) -> list[str]:
    """The methods that can stand for a model."""
    known = defined(side.read.scored_sequence(store.checkpoint(side.name)), side.read.record)
    return [method for method in METHODS if method in known]


def _standing_for(
    side: Side, shown: Translation, options: DecodingOptions, target: str | None, standing: Standing
) -> Picture:
    """The alignment of one translation: a head's map, or the source's part of what a method answers."""
    if isinstance(standing, Head):
        return alignment(shown.record, standing)
    answer = runs.attribution(side.name, shown.input, options, target, None, standing)
    return answer.only_source().picture()


def _aligned(shown: Pair, records: tuple[Record, Record], chosen: tuple[Standing | None, Standing | None]) -> Aligned:
    """Fill in the heads that are chosen by what they do: the first model's is its truest, whatever stands beside it.

    The second model's is the one that agrees best with the first's.
    """
    notes = [_note(record, head) for record, head in zip(records, chosen, strict=True)]
    first, second = chosen
    if first is None:
        first, notes[0] = _first_head(shown.first)

    def picture(number: int, standing: Standing) -> Picture:
        side = shown.sides[number]
        return _standing_for(side, side.read, shown.options, shown.target, standing)

    if second is None:
        second, mean = best_agreeing(records[1], picture(0, first))
        model = shown.first.title
        notes[1] = plain("align.note_best", head=head_text(second), model=model, mean=mean)
    comparison = compared(picture(0, first), picture(1, second))
    return Aligned((first, second), (notes[0], notes[1]), comparison)


def _first_head(side: Side) -> tuple[Head, str]:
    """The head that a model starts with, as on Translate, and why; a snapshot starts with its finished model's."""
    name = store.base(side.name)
    found, head = heads.agreement(name), Head(*heads.first_head(name, side.read))
    if found is None or not found.rows:
        return head, plain("align.note_strongest", head=head_text(head))
    return head, plain("align.note_truest", head=head_text(head), agreement=found.best.agreement)


def _note(record: Record, chosen: Standing | None) -> str:
    """What is said of what the user chose, or of the only one."""
    if chosen is None:
        return ""
    return head_text(chosen) if len(record.sites) > 1 else plain("align.only_attention")


def common_target(
    forced: str | None, own: Sequence[Translation], names: tuple[str, str], words: Words
) -> tuple[str, str]:
    """The target that both models read, and whose it is.

    Raises:
        InputError: neither model wrote a word.
    """
    if forced is not None:
        return forced, plain("align.origin_typed")
    order = (1, 0) if words == "second" else (0, 1)
    for side in order:
        if own[side].text.strip():
            return own[side].text, plain("align.origin_model", model=titles(names)[side])
    raise InputError("align_nothing_written")


def head_options(record: Record) -> list[str]:
    """What can stand for a model's alignment, as codes: `AUTO`, every head and every layer's mean; or its one map."""
    codes = [f"{head.layer}.{head.head}" for head in heads_of(record)]
    return [AUTO, *codes] if len(codes) > 1 else codes


def head_of(code: str) -> Head:
    """The head that a code of `head_options` other than `AUTO` stands for."""
    layer, _, head = code.partition(".")
    return Head(int(layer), "mean" if head == "mean" else int(head))


def head_text(head: Standing) -> str:
    """A layer and head, or a method, in words."""
    if not isinstance(head, Head):
        return plain("align.method", method=Message(f"attribution_{head}"))
    if head.head == "mean":
        return plain("align.head_mean", layer=head.layer)
    return plain("align.head_one", layer=head.layer, head=head.head)


def _only_text(code: str) -> str:
    """The same of a model whose attention has one map."""
    return option_text(code) if code in METHODS else plain("align.only_attention")


def option_text(code: str) -> str:
    """What a code of `head_options` is called."""
    if code == AUTO:
        return plain("align.head_auto")
    return head_text(code if code in METHODS else head_of(code))
