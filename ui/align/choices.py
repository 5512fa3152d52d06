"""Two models and one sentence: which can stand beside each other, the choices, and what both make of the sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

from heedmap import DecodingOptions, Record, Translation
from heedmap.attention.alignments import AlignmentComparison, Head, alignment, best_agreeing, compared, heads_of
from heedmap.errors import HeedmapError, InputError
from heedmap.plots.export import file_name
from heedmap.plots.picture import Picture
from heedmap.text.tokenizers import TextTokenizer
from ui.shared import controls, heads
from ui.shared.address import choice, named
from ui.shared.subject import MODEL
from ui.store import runs, store
from ui.store.refs import Revision
from ui.store.store import of_checkpoint
from ui.texts import plain, t

AUTO = "auto"
"""The head that is chosen by what it does: the largest weights, or the best agreement with the other model."""

MOST_TRIED = 4
"""Examples that are looked at for one to open with."""


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two models on the sentence: what it wrote itself, and its pass through the target that both read.

    `label` is its file's name, `title` what kind of model it is; `head` stands for it, and `note` says why.
    """

    name: str
    label: str
    title: str
    own: Translation
    read: Translation
    head: Head
    note: str


@dataclass(frozen=True, eq=False)
class Pair:
    """Both models on one sentence; `target` is what both read, and `origin` says in words whose it is.

    `options` are those that each model searched its own translation with. `is_own` says that each map has its own
    model's translation for rows, and not the common target.
    """

    sides: tuple[Side, Side]
    target: str
    origin: str
    options: DecodingOptions
    comparison: AlignmentComparison
    is_own: bool

    @property
    def text(self) -> str:
        """The sentence."""
        return self.sides[0].own.input

    @property
    def about(self) -> list[str]:
        """What a saved picture or file says of the sentence and of the target."""
        read = plain("align.about_target", target=self.target, origin=self.origin)
        return [plain("align.about_sentence", text=self.text), read]

    def titles(self) -> dict[str, str]:
        """What both are called in texts."""
        return {"first": self.sides[0].title, "second": self.sides[1].title}

    def own_alignments(self) -> tuple[Picture, Picture]:
        """Both alignments while each model writes its own translation."""
        first, second = (alignment(side.own.record, side.head) for side in self.sides)
        return first, second

    def stem(self, *parts: str) -> str:
        """A file's name without its ending: the sentence's first words, both models, and `parts`."""
        return file_name(*(side.name for side in self.sides), *parts, text=self.text)


def models() -> list[str]:
    """Everything that can be aligned: checkpoints that translate, and the snapshots of their training after each."""
    known = [name for name in store.checkpoint_names(*store.TRANSLATORS) if vocabulary(name) is not None]
    return [one for name in known for one in (name, *store.snapshots(name))]


@of_checkpoint()
def vocabulary(revision: Revision) -> int | None:
    """The same number for checkpoints that share a tokenizer, so that their tokens line up.

    None for one without a tokenizer, and for one that cannot be read: the page Your model says why. Folders of the
    user's are not loaded for it: equal files are the same tokenizer.
    """
    try:
        files = store.vocabularies(str(revision.ref))
        if files is not None:
            read = [hash(file.read_bytes()) for file in files]
            return hash(tuple(read * 2 if len(read) == 1 else read)) if read else None  # one reads and writes
        checkpoint = store.load(revision)
    except HeedmapError:
        return None
    keys = []
    for tokenizer in (checkpoint.tokenizer, checkpoint.writer):
        if tokenizer is None:
            return None
        pieces = tokenizer.model if isinstance(tokenizer, TextTokenizer) else tokenizer.labels(range(len(tokenizer)))
        keys.append(hash(pieces if isinstance(pieces, bytes) else tuple(pieces)))
    return hash(tuple(keys))


def label(name: str) -> str:
    """What a model is called on the page."""
    base = store.base(name)
    found = store.snapshots(base).get(name)
    return name if found is None else plain("align.snapshot", name=base, update=found.update, bleu=found.bleu)


def titles(names: tuple[str, str]) -> tuple[str, str]:
    """What kind of model each of the two is; of two of a kind, what its training had reached or its file's name."""
    kinds, own = [], []
    for name in names:
        base = store.base(name)
        is_recurrent = store.architecture(base) == "recurrent"
        kinds.append(plain(f"align.kind_{'recurrent' if is_recurrent else 'transformer'}"))
        found = store.snapshots(base).get(name)
        own.append(kinds[-1] if found is None else plain("align.kind_snapshot", kind=kinds[-1], update=found.update))
    first, second = next((one for one in (kinds, own) if one[0] != one[1]), list(map(label, names)))
    return first, second


def opening(names: tuple[str, str]) -> str | None:
    """The first example that the two models translate otherwise; None where they bring none, or none of the first."""
    for text in store.checkpoint(names[0]).examples[:MOST_TRIED]:
        first, second = (runs.translation(name, text, DecodingOptions(), None) for name in names)
        if first.text != second.text:
            return text
    return None


def model_choice(names: Sequence[str]) -> tuple[str, str]:
    """Two models that share a tokenizer; at first a Transformer beside an RNN, or a snapshot of its training."""
    first = choice(t("align.first"), names, key=MODEL, text=label, form="list", width="stretch")
    same = vocabulary(store.base(first))
    fitting = [name for name in names if name != first and vocabulary(store.base(name)) == same]
    recurrent = [name for name in store.checkpoint_names("recurrent") if name in fitting]
    snapshots = [name for name in fitting if store.base(name) != name]
    usual = next(iter([*recurrent, *snapshots[len(snapshots) // 2 :], *fitting]), first)
    second = choice(
        t("align.second"), fitting or [first], key="second", text=label, default=usual, form="list", width="stretch"
    )
    return first, second


def pair(names: tuple[str, str], request: controls.Request) -> Pair:
    """Both models on the sentence, each once for its own translation and once through the common target.

    The choices of whose words are shown, and of which head stands for each model, are drawn here. A head that is chosen
    by what it does is the first model's truest, whatever stands beside it, and the second model's that agrees best with
    the first's.

    Raises:
        InputError: nothing to read, too much, or no model wrote anything.
    """
    is_own = named("align.words", ("first", "own"), key="target", form="list", width="stretch") == "own"
    called = titles(names)
    own = [runs.translation(name, request.text, request.options, None) for name in names]
    target, origin = common_target(request.forced, own, called)
    read = [runs.translation(name, request.text, request.options, target) for name in names]
    one, two = (run.record for run in read)
    (first, why), (second, then) = (_chosen_head(f"head{i + 1}", called[i], run.record) for i, run in enumerate(read))
    if first is None:
        first, why = _truest_head(names[0], read[0])
    picture = alignment(one, first)
    if second is None:
        second, mean = best_agreeing(two, picture)
        then = plain("align.note_best", head=heads.head_text(second), model=called[0], mean=mean)
    sides = (
        Side(names[0], label(names[0]), called[0], own[0], read[0], first, why),
        Side(names[1], label(names[1]), called[1], own[1], read[1], second, then),
    )
    return Pair(sides, target, origin, request.options, compared(picture, alignment(two, second)), is_own)


def common_target(forced: str | None, own: Sequence[Translation], names: tuple[str, str]) -> tuple[str, str]:
    """The target that both models read, and whose it is: a typed one, the first model's, or the second's.

    Raises:
        InputError: neither model wrote a word.
    """
    if forced is not None:
        return forced, plain("align.origin_typed")
    for found, model in zip(own, names, strict=True):
        if found.text.strip():
            return found.text, plain("align.origin_model", model=model)
    raise InputError("align_nothing_written")


def _chosen_head(key: str, model: str, record: Record) -> tuple[Head | None, str]:
    """The head that the reader chose, or the only one, and what is said of it; None to choose it by what it does."""
    known = {f"{head.layer}.{head.head}": head for head in heads_of(record)}
    if len(known) == 1:
        return next(iter(known.values())), plain("align.only_attention")
    code = choice(
        t(f"align.{key}", model=model), [AUTO, *known], key=key, form="list", width="stretch",
        text=lambda code: plain("align.head_auto") if code == AUTO else heads.head_text(known[code]),
    )  # fmt: skip
    return (None, "") if code == AUTO else (known[code], heads.head_text(known[code]))


def _truest_head(name: str, read: Translation) -> tuple[Head, str]:
    """The head that a model starts with, as on Translate, and why; a snapshot starts with its finished model's."""
    found, head = heads.agreement(store.base(name)), Head(*heads.first_head(store.base(name), read))
    if found is None or not found.rows:
        return head, plain("align.note_strongest", head=heads.head_text(head))
    fields = dict(agreement=found.best.agreement, rows=found.rows)
    return head, plain("align.note_truest", head=heads.head_text(head), **fields)
