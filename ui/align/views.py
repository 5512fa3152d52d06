"""Align: two models on one sentence; the choices, and the panels that show what they ask for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan

import pandas as pd
import streamlit as st

from transformer import DecodingOptions, Record, Translation
from transformer.attention.alignments import (
    AlignmentComparison,
    Head,
    alignment,
    best_agreeing,
    compared,
    heads_of,
    on_one_axis,
)
from transformer.errors import HeedmapError, InputError
from transformer.lessons.costs import costs_of, crossing
from transformer.plots.canvas.views import About
from transformer.plots.charts import curves
from transformer.plots.export import archive, file_name, plot_config, table_csv
from transformer.plots.picture import Picture
from transformer.runs.attribution import forgotten
from transformer.runs.what_if import aligned_words
from transformer.text.tokenizers import TextTokenizer
from ui.components.alignments.component import Marked, Moment, Panel, alignments
from ui.shared import controls, heads
from ui.shared.address import choice, named, parameter, set_parameter
from ui.shared.bars import Bar, bars, is_dark
from ui.shared.files import save_button
from ui.shared.heads import likelihood
from ui.shared.record_views import matrix
from ui.shared.subject import MODEL
from ui.shared.writing import token_strip
from ui.store import runs, store
from ui.store.refs import Revision
from ui.store.store import of_checkpoint
from ui.texts import as_text, plain, t

AUTO = "auto"
"""The head that is chosen by what it does: the largest weights, or the best agreement with the other model."""

MOST_TRIED = 4
"""Examples that are looked at for one to open with."""

WORD, MARK = "word", "mark"
"""The query parameters of the marked target word and of its panel, from 0."""

FOLDED, BEGINNING = 32, 200
"""From more tokens on, a translation is folded up; and how many characters of a folded one are shown."""

MOST = 3
"""Words that the finding names."""

FORMULA = (
    r"1 - \sqrt{\tfrac12 \sum_s p_s \log_2 \tfrac{2 p_s}{p_s + q_s} + "
    r"\tfrac12 \sum_s q_s \log_2 \tfrac{2 q_s}{p_s + q_s}}"
)
"""The agreement of two rows p and q over source words s."""

COSTS = ("path_length", "path_growth", "sequential", "sequential_growth", "multiply_adds", "formula", "layers")
"""The rows of the table of costs."""

PLOTTED = tuple(sorted({round(2 ** (power / 4)) for power in range(4, 49)}))
"""Lengths of the curves: 2 to 4,096 tokens."""


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
    return head, plain("align.note_truest", head=heads.head_text(head), agreement=found.best.agreement)


def finding(shown: Pair) -> None:
    """A word that one model forgets; or else where they part, or that both write the same: from the run."""
    texts = [side.own.text for side in shown.sides]
    for keeps, loses in (shown.sides, shown.sides[::-1]) if all(text.strip() for text in texts) else ():
        both = (keeps, loses)
        decided = [runs.deciding(side.name, shown.text, shown.options, None, None) for side in both]
        found = forgotten([side.own for side in both], decided)
        if found:
            words, first = _quoted([one.word for one in found[:MOST]]), found[0]
            st.subheader(as_text(plain("align.forgets", model=loses.title, words=words)), anchor=False)
            st.caption(
                t(
                    "align.forgets_why", word=first.word, model=loses.title, lost=max(0.0, first.needed[1]),
                    other=keeps.title, written=" ".join(first.written), needed=first.needed[0],
                )
            )  # fmt: skip
            return
    parts = [[word.text for word in words if word.changed][:MOST] for words in aligned_words(*texts)]
    if not any(parts):
        st.subheader(t("align.same_translation"), anchor=False)
        st.caption(as_text(texts[0]))
        return
    empty = plain("align.empty")
    one, two = (_quoted(words) if words else empty for words in parts)
    st.subheader(as_text(plain("align.parts", **shown.titles(), one=one, two=two)), anchor=False)
    st.caption(as_text(plain("align.both", first=texts[0] or empty, second=texts[1] or empty)))


def _quoted(words: list[str]) -> str:
    return plain("align.between").join(plain("align.quoted", word=word) for word in words)


def translations(shown: Pair) -> None:
    """What each model wrote, token by token, a long one folded up; beside it how likely the common target is."""
    st.markdown(f"**{t('align.translations')}**")
    for column, side in zip(st.columns(2, gap="large"), shown.sides, strict=True):
        text, steps = side.own.text or plain("align.empty"), side.own.steps
        with column:
            st.markdown(f"**{as_text(side.title)}** · {as_text(side.label)}")
            st.caption(likelihood(side.own, side.read))
            if len(steps) <= FOLDED:
                st.text(text)
                token_strip(steps)
                continue
            st.text(f"{text[:BEGINNING]} …" if len(text) > BEGINNING else text)
            with st.expander(t("align.all_tokens", count=len(steps))):
                token_strip(steps)


def side_by_side(shown: Pair) -> None:
    """Two maps over the same source words; pointing at a target word marks its source words in both."""
    own, comparison = shown.is_own, shown.comparison
    pictures = on_one_axis(*shown.own_alignments()) if own else (comparison.first, comparison.second)
    st.caption(t("align.look_own") if own else t("align.look_same", origin=shown.origin))
    panels = []
    for side, picture in zip(shown.sides, pictures, strict=True):
        decided = runs.deciding(side.name, shown.text, shown.options, None if own else shown.target, None)
        panels.append(
            Panel(
                title=side.title, rows=picture.queries.labels, weights=picture.values, visible=picture.visible,
                note=plain("align.of_file", file=side.label, note=side.note), decided=tuple(decided.columns.tolist()),
            )
        )  # fmt: skip
    title = plain("align.about_title", first=shown.sides[0].label, second=shown.sides[1].label)
    sentence, target = shown.about
    alignments(
        [Moment("", tuple(panels))], pictures[0].keys.labels, key="alignments", same_rows=not own,
        marked=_marked(pictures), file_name=shown.stem("alignments"),
        about=About(title, [sentence, plain("align.look_own") if own else target]),
        on_mark=lambda word: _mark(word, pictures),
    )  # fmt: skip


def _marked(panels: Sequence[Picture]) -> Marked | None:
    """The word in the address, if these panels have it; one that they have not is forgotten."""
    number, word = parameter(MARK), parameter(WORD) or ""
    in_order = sorted(enumerate(panels), key=lambda one: str(one[0]) != number)
    places = ((panel, one.queries.labels) for panel, one in in_order)
    found = next(((panel, labels.index(word)) for panel, labels in places if word in labels), None)
    _mark(found, panels)
    return found


def _mark(word: Marked | None, panels: Sequence[Picture]) -> None:
    """Put a word into the address, or take it out."""
    set_parameter(WORD, None if word is None else panels[word[0]].queries.labels[word[1]])
    set_parameter(MARK, str(word[0]) if word and word[0] else None)


def agreement_panel(shown: Pair) -> None:
    """The agreement of each target word, and the difference of the two maps."""
    comparison, words = shown.comparison, shown.comparison.first.queries
    st.caption(t("align.look_agreement"))
    why = f"{t('align.measure_why')}\n\n$${FORMULA}$$"
    st.metric(t("align.mean_agreement"), f"{comparison.mean:.3f}", help=why, width="content")
    mean = None if isnan(comparison.mean) else comparison.mean
    keys, rows = comparison.first.keys.labels, list[Bar]()
    for text, word, special, value, row in zip(
        words.texts, words.labels, words.special, comparison.agreement.tolist(), comparison.difference.values,
        strict=True,
    ):  # fmt: skip
        more, less = row.argmax(), row.argmin()
        largest = {"more": keys[more], "less": keys[less], "above": row[more], "below": -row[less]}
        note = plain("align.apart", **shown.titles(), **largest)
        number = "-" if isnan(value) else f"{value:.3f}"
        rows.append(Bar(text, value, number, f"{word}: {value:.4f}. {note}", "faint" if special else "", point=mean))
    line = f"{plain('align.mean')} {comparison.mean:.2f}"
    left, right = st.columns(2, gap="large")
    with left:
        bars(rows, plain("align.agreement"), key="agreement", legend=[] if mean is None else [("line", line)])
        st.caption(t("align.look_bars", origin=shown.origin))
    with right:
        st.markdown(f"**{t('align.difference', **shown.titles())}**")
        matrix(comparison.difference, key="difference", stem=shown.stem("difference"))
        st.caption(t("align.look_difference", **shown.titles()))


def changes_panel(shown: Pair) -> None:
    """Counted from the configs for the sentence that was typed, and drawn for all lengths."""
    tokens = len(shown.sides[0].own.source_ids)
    costs = [costs_of(store.checkpoint(side.name).model, side.title) for side in shown.sides]
    st.markdown(f"**{t('align.look_changes', tokens=tokens)}**", help=t("align.look_changes_help"))
    columns = [
        (
            f"{cost.path_length(tokens):,}", "n-1" if cost.recurrent else "1", f"{cost.sequential_steps(tokens):,}",
            ("n" if cost.layers == 1 else f"{cost.layers}n") if cost.recurrent else str(cost.layers),
            f"{cost.multiply_adds(tokens):,}", cost.formula, str(cost.layers),
        )
        for cost in costs
    ]  # fmt: skip
    names = [f"{i}. {side.title}" for i, side in enumerate(shown.sides, 1)]
    table = pd.DataFrame(dict(zip(names, columns, strict=True)), index=[t(f"align.{row}") for row in COSTS])
    wide = {name: st.column_config.TextColumn(width=270) for name in names}
    st.dataframe(table, width="content", column_config=wide, key="costs", placeholder="-")
    st.markdown(f"**{t('align.counted')}**")
    lines = {name: [float(cost.multiply_adds(n)) for n in PLOTTED] for name, cost in zip(names, costs, strict=True)}
    figure = curves(
        lines, t("align.tokens"), t("align.multiply_adds"), x=PLOTTED, log_x=True, log_y=True, mark=float(tokens),
        mark_name=t("align.your_sentence", tokens=tokens), dashed=True, dark=is_dark(),
    )  # fmt: skip
    st.plotly_chart(figure, key="counted", config=plot_config("multiply-adds"))
    where = crossing(*costs)
    st.caption(t("align.crossing", tokens=where) if where else t("align.no_crossing"))


def downloads_panel(shown: Pair) -> None:
    """Every number of the page: all tables in one ZIP; below, the maps, which leave as pictures."""
    save_button(
        t("align.download_all"), partial(_all, shown), f"{shown.stem('alignments')}.zip", "application/zip",
        type="primary", icon=":material/folder_zip:", help=t("align.download_all_help"),
    )  # fmt: skip
    side_by_side(shown)
    st.caption(t("align.look_downloads"))


def _all(shown: Pair) -> bytes:
    """The maps of the page, each with a note that says whose it is and whose words its rows are, and the agreement."""
    comparison, labels = shown.comparison, [side.label for side in shown.sides]
    difference = plain("align.difference", first=labels[0], second=labels[1])
    maps = {"difference": (comparison.difference, difference)}
    both = zip(("first", "second"), labels, (comparison.first, comparison.second), shown.own_alignments(), strict=True)
    for name, model, read, own in both:
        maps[name] = read, plain("align.file_read", model=model, origin=shown.origin)
        maps[f"{name}-own-words"] = own, plain("align.file_own", model=model)
    noted = {name: replace(picture, notes=(*picture.notes, note)) for name, (picture, note) in maps.items()}
    chosen = [plain("align.about_head", model=side.label, head=side.note) for side in shown.sides]
    keys, header = comparison.first.keys.labels, ("word", "agreement", "more", "less")
    rows = [
        (word, float(value), keys[row.argmax()], keys[row.argmin()])
        for word, value, row in zip(
            comparison.first.queries.labels, comparison.agreement, comparison.difference.values, strict=True
        )
    ]
    table = table_csv([plain(f"align.table_{column}") for column in header], rows)
    return archive(noted, {"agreement": (plain("align.table_is"), table)}, [*shown.about, *chosen])


PANELS: dict[str, Callable[[Pair], None]] = {
    "side": side_by_side,
    "agreement": agreement_panel,
    "changes": changes_panel,
    "downloads": downloads_panel,
}
"""The page's screens, in order."""
