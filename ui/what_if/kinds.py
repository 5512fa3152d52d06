"""The kinds of models of this page: one that translates, one that classifies sequences, one that reads a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from heedmap import Checkpoint, ContinueOptions, DecodingOptions, Record, Translation
from heedmap.attention.interventions.value import to_text
from heedmap.checkpoint.checkpoint import ChangedExample
from heedmap.errors import CheckpointError
from heedmap.nn.protocols import written_length
from heedmap.plots.canvas.views import About
from heedmap.plots.labels import readable
from heedmap.runs import what_if
from heedmap.runs.any_model import ModelRun, continues, sample_text
from heedmap.runs.continuing import Continuation, mask_of, parting
from heedmap.runs.sequences.classify import Classification, classifier, read
from heedmap.runs.translate import MAX_CHARACTERS
from heedmap.sequences.fasta import parse_fasta
from heedmap.text.tokenizers import IdTokenizer
from ui.shared import address, controls, heads, record_views, sequence, subject, writing
from ui.shared import changes as changes_
from ui.shared.bars import signed
from ui.shared.changes import Changes, Group
from ui.shared.controls import Selection
from ui.shared.files import Provenance
from ui.shared.part import part
from ui.store import runs as store_runs
from ui.store import store
from ui.texts import plain, t
from ui.what_if import below, changed, views
from ui.what_if.changed import Asked
from ui.what_if.outputs import Both, outputs_panel
from ui.what_if.screen import Places, Screen

MOST_WINDOWS = 600
"""Windows of a sequence that is looked at here: its maps are computed whole."""


@dataclass(frozen=True)
class Translating(Screen):
    """The sentence before and after, what each word needed, a donor, sweeps and a corpus."""

    options: DecodingOptions
    forced: str | None

    hiding: ClassVar[str] = "for_nobody"
    has_donor: ClassVar[bool] = True
    widths: ClassVar[tuple[int, int]] = (1, 1)

    @classmethod
    def asked(cls, checkpoint: Checkpoint) -> "Translating":
        """A sentence, how it is searched, and perhaps a target."""
        longest = written_length(checkpoint.translator()[0].config)
        asked = controls.request(checkpoint, longest, changes_.opening(checkpoint))
        return cls(checkpoint.name, asked.text, asked.options, asked.forced)

    def begin(self, checkpoint: Checkpoint) -> None:
        """Translate it."""
        before = self.before
        changes_.open_with(checkpoint, self.text)
        record_views.record_notes(before.record)

    @property
    def target(self) -> Asked:
        """What names the run."""
        return self.text, self.options, self.forced

    @property
    def before(self) -> Translation:
        """What the model writes as it is."""
        return changed.before(self.revision, self.target)

    def same_target(self, changes: Changes) -> what_if.SameTarget:
        """What was written, read as the model is and under changes."""
        return changed.on_same_target(self.revision, self.target, changed.done_by(changes))

    def run(self, changes: Changes) -> Translation:
        """What was written, read under changes."""
        return self.same_target(changes).after if changes else self.before

    def tried(self, example: ChangedExample) -> None:
        """The sentence before and after."""
        asked: Asked = (example.text, self.options, None)
        after = changed.again(self.revision, asked, (example.change, example.donor))
        views.texts(" small", read=example.text, was=changed.before(self.revision, asked).text, now=after.text)

    def hidden(self, changes: Changes) -> Sequence[Group]:
        """The words of the source: one that is pressed is hidden from everybody."""
        return views.words_to_hide(self.before, changes)

    def choose(self, record: Record, kind_at: DeltaGenerator) -> Selection:
        """At first the head that agrees most often with deletion."""
        return controls.selection(record, heads.first_head(self.name, self.before), kind_at=kind_at)

    def hides(self, record: Record, site: str) -> changes_.ForNobody:
        """What hides the word of a key from everybody, where the keys of a site are those of the source."""
        return views.hides(self.before, site)

    def answer(self, changes: Changes, origin: Provenance, choice: Selection, places: Places) -> None:
        """Every token of the target and one of its steps closely; then the sentence, which needs a search."""
        with places.below, st.container(key="texts"):
            st.markdown(f"**{t('what_if.again')}**")
            sentences = st.container()
        with places.steps:
            part(partial(self.steps, changes, origin, places.effects), views.STEP)
        with sentences:
            after = self.again(changes)
            views.two_texts(self.before.text, None if after is None else after.text)
            if after is not None:
                record_views.record_notes(after.record, said_of=self.before.record)

    def steps(self, changes: Changes, origin: Provenance, effects: DeltaGenerator) -> None:
        """What became of every written token, and of one of them closely."""
        found = self.same_target(changes)
        owner = (self.name, *self.target, changed.done_by(changes))
        step = views.step_choice(found.steps, owner, written=found.before.axes.written)
        with effects:
            st.markdown(f"**{t('what_if.same_target')}**", help=t("what_if.same_target_help"))
            st.caption(t("what_if.total", total=signed(found.total)))
            views.bars(found.steps, step, origin)
        views.step_panel(found.steps[step], found.before.steps[step], found.after.steps[step])

    def again(self, changes: Changes) -> Translation | None:
        """What the model writes now; None where a target is forced. Of changes that no search takes, it is said why."""
        if self.forced is not None:
            return None

        def search(some: Changes) -> Translation:
            return changed.again(self.revision, self.target, changed.done_by(some))

        force = changes_.in_force(changes, search)
        for _, error in force.void:
            controls.explain(error)
        return search(force.changes)

    def more(self, changes: Changes, choice: Selection, action: str) -> bool:
        """The second sentence, sweeps, and what was measured on a corpus."""
        if changed.donor():
            below.donor_panel(self.revision, self.target, changed.done_by(changes), choice, changed.donor())
        goes_on = below.sweep_panel(self.revision, self.target, self.before, action)
        with st.container():
            part(partial(below.corpus_panel, self.name, changes), below.CORPUS, below.MEASURE)
        return goes_on


@dataclass(frozen=True)
class Classifying(Screen):
    """Probabilities and letters of a sequence before and after a change."""

    record_id: str

    hiding: ClassVar[str] = "window_for_nobody"
    text_key: ClassVar[str] = subject.SEQUENCE

    @classmethod
    def asked(cls, checkpoint: Checkpoint) -> "Classifying":
        """A sequence."""
        classifier(checkpoint)
        typed = sequence.typed_sequence(checkpoint, changes_.opening(checkpoint))
        return cls(checkpoint.name, typed.sequence, typed.id)

    def begin(self, checkpoint: Checkpoint) -> None:
        """Classify it."""
        model, _ = classifier(checkpoint)
        read(checkpoint, self.text, MOST_WINDOWS // len(model.config.widths))
        self.classified(())
        opening = address.parameter(self.text_key) or changes_.opening(checkpoint) or ""
        changes_.open_with(checkpoint, opening)

    @property
    def origin(self) -> str:
        """The name of the record, or its first letters."""
        return self.record_id or self.text[:12]

    def classified(self, changes: Changes) -> Classification:
        """What the model makes of the sequence under changes."""
        return changed.classified(self.revision, self.text, to_text(changes))

    def run(self, changes: Changes) -> ModelRun:
        """The record of the windows."""
        return ModelRun(self.name, self.origin, self.classified(changes).record)

    def tried(self, example: ChangedExample) -> None:
        """What a change worth trying does to the class."""
        letters = "".join(record.sequence for record in parse_fasta(example.text.split("\n")))
        both = (changed.classified(self.revision, letters, change) for change in ("", example.change))
        was, now = (f"{one.classes[one.predicted]} {one.probabilities[one.predicted]:.2f}" for one in both)
        views.texts(was=was, now=now)

    def choose(self, record: Record, kind_at: DeltaGenerator) -> Selection:
        """A layer or the pooling, as on the page of sequences."""
        return sequence.place(self.classified(()))

    def answer(self, changes: Changes, origin: Provenance, choice: Selection, places: Places) -> None:
        """Each class, and what each letter received from the chosen head, or from all heads of its site on average."""
        both = {"before": self.classified(()), "after": self.classified(changes)}
        before, after = both.values()
        now, was = after.classes[after.predicted], before.classes[before.predicted]
        same = t("what_if.class_same", name=now) if now == was else t("what_if.class_now", was=was, now=now)
        with places.above:
            st.markdown(f"**{same}**")
            logits = (np.log(one.probabilities) for one in (before, after))  # up to a constant
            views.class_table(what_if.logit_effects(before.classes, *logits), origin)
        where, stem = sequence.place_text(choice), sequence.place_prefix(choice)
        tracks = {name: sequence.letter_track(one, choice) for name, one in both.items()}
        reach = max(float((one.share.sum(axis=0) / one.even.sum(axis=0)).max()) for one in tracks.values())
        with places.effects:
            st.markdown(f"**{t('what_if.letters', place=where)}**", help=t("what_if.letters_help"))
            for name, track in tracks.items():
                st.caption(t(f"what_if.map_{name}"))
                sequence.letter_tracks(
                    before.letters.text, track, key=f"letters-{name}", file_name=origin.stem("letters", stem, name),
                    about=About(plain(f"what_if.map_{name}"), origin.facts(where)), reach=reach,
                )  # fmt: skip


@dataclass(frozen=True)
class Reading(Screen):
    """What a model of one text ends with, and what it writes on or fills in. `options`: how a decoder writes on."""

    options: ContinueOptions | None

    @classmethod
    def asked(cls, checkpoint: Checkpoint) -> "Reading":
        """A text, or ids where the checkpoint has no vocabulary."""
        reader = checkpoint.tokenizer
        if reader is None:
            raise CheckpointError("tokenizer_not_brought", name=checkpoint.name)
        by_id = isinstance(reader, IdTokenizer)
        address.belong_to(by_id, "text")
        label = t("your_model.ids", last=len(reader) - 1) if by_id else t("your_model.text")
        with st.form("request", border=False):
            text = address.lines(label, sample_text(checkpoint), key="text", height=92, longest=2 * MAX_CHARACTERS)
            st.form_submit_button(t("your_model.run"), type="primary", icon=":material/play_arrow:")
        subject.show(checkpoint.name, text)
        if mask_of(checkpoint):
            writing.words_to_hide(checkpoint, text, lambda hidden: address.put(text=hidden))
        return cls(checkpoint.name, text, writing.options_form() if continues(checkpoint) else None)

    def begin(self, checkpoint: Checkpoint) -> None:
        """Run it."""
        changes_.open_with(checkpoint, self.text)
        before = self.run(())
        if not before.record.sites:
            raise CheckpointError("nothing_to_change", name=self.name)
        record_views.record_notes(before.record)

    def run(self, changes: Changes) -> ModelRun:
        """The text under changes; with what the unchanged model writes after it, where it is asked to write on."""
        done = to_text(changes)
        if self.options is None:
            return changed.read(self.revision, self.text, done)
        return changed.continued(self.revision, self.text, self.options, done)

    @property
    def origin(self) -> str:
        """All that was read."""
        return self.run(()).input

    def answer(self, changes: Changes, origin: Provenance, choice: Selection, places: Places) -> None:
        """What is written on, words for gaps, and what the model ends with."""
        checkpoint, before, after = store.checkpoint(self.name), self.run(()), self.run(changes)
        goes_on = self.options is not None and self.options.n_tokens > 0
        if goes_on:
            done = to_text(after.record.interventions)
            with places.above, st.container(key="continued"):
                self.texts(done)
            with places.steps:
                part(partial(self.steps, done), writing.STEP)
        with places.effects:
            outputs_panel(Both(checkpoint, before, after, origin, goes_on))

    def both(self, changes: str) -> tuple[Continuation, Continuation]:
        """What the model writes after the text as it is, and under changes."""
        options = self.options or ContinueOptions()
        was, now = (store_runs.continuation(self.name, self.text, options, some) for some in ("", changes))
        return was, now

    def texts(self, changes: str) -> None:
        """What the model writes after the text as it is, and what it writes now.

        Each reads what it wrote itself. The same seed lets chance speak alike in both.
        """
        was, now = self.both(changes)
        st.markdown(f"**{t('what_if.writes_now')}**")
        views.two_texts(was.texts[-1], now.texts[-1])
        parted = parting(was, now)
        if parted is None:
            st.caption(t("what_if.never_part"))
        else:
            st.caption(t("what_if.part_at", step=parted) if parted else t("what_if.part_at_once"))
        if self.options is not None and self.options.temperature:
            st.caption(t("what_if.same_seed", seed=self.options.seed))

    def steps(self, changes: str) -> None:
        """One step of both, at first that at which they part: what could come next, and what was written."""
        both, options = self.both(changes), self.options or ContinueOptions()
        owner, last = (self.name, self.text, self.options, changes), max(len(one.written) for one in both)
        step = writing.step_choice(last, owner, parting(*both), "what_if.step_help")
        titles = ("step_before", "step_after")
        for column, title, found in zip(st.columns(2, gap="large"), titles, both, strict=True):
            with column:
                st.markdown(f"**{t(f'what_if.{title}')}**")
                if step >= len(found.steps):
                    st.caption(t("what_if.ended_before", count=len(found.written)))
                    continue
                st.caption(t("writing.next_after", token=readable(found.last(step))))
                writing.next_table(found.steps[step], options, f"next-{title}")
                writing.then(found, step)
