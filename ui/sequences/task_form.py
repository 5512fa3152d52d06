"""What the letters and classes of a classifier are, asked where its files do not say it."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.checkpoint.foreign.bundle import TASK
from transformer.nn.kmer import KmerClassifier, KmerConfig
from transformer.sequences.alphabet import ALPHABETS
from transformer.sequences.task import SequenceTask
from ui.store import store
from ui.texts import plain, t

LETTERS, CLASSES, LENGTH, BACKGROUND = "task-letters", "task-classes", "task-length", "task-background"
"""The keys of what is asked."""

MISFIT = "task-misfit"
"""Why the last answer cannot be: a text of this page and what it is filled with."""


def is_unsaid(name: str, checkpoint: Checkpoint) -> bool:
    """Whether a classifier came without a task, and takes one from the user: a folder has its config for that."""
    lacks = isinstance(checkpoint.model, KmerClassifier) and checkpoint.task is None
    return lacks and store.bundle(name) is not None


def ask(name: str, checkpoint: Checkpoint) -> None:
    """Ask what letters and classes are; the answer is kept as those about its layout are."""
    model = checkpoint.model_as(KmerClassifier)
    st.info(t("sequences.task_missing", name=name), icon=":material/quiz:")
    fitting = [kind for kind, alphabet in ALPHABETS.items() if len(alphabet) == model.config.vocab]
    kind = str(
        st.segmented_control(
            t("sequences.task_kind"), list(ALPHABETS), default=[*fitting, "dna"][0], required=True,
            format_func=lambda one: t(f"sequences.task_{one}"), key="task-kind",
        )
    )  # fmt: skip
    config = model.config
    with st.form("task", border=True):
        st.text_input(
            t("sequences.task_letters"), ALPHABETS[kind].letters, key=f"{LETTERS}-{kind}", max_chars=100,
            help=t("sequences.task_letters_help", ids=config.vocab),
        )  # fmt: skip
        st.text_input(
            t("sequences.task_classes", count=config.n_classes), key=CLASSES, max_chars=10_000,
            placeholder=", ".join(plain("sequences.task_class", number=i + 1) for i in range(min(4, config.n_classes))),
        )  # fmt: skip
        st.number_input(
            t("sequences.task_length"), min_value=max(config.widths), max_value=config.max_length,
            value=config.max_length, step=1, key=LENGTH,
        )  # fmt: skip
        st.text_input(t("sequences.task_background"), key=BACKGROUND, max_chars=1_000)
        st.form_submit_button(t("sequences.task_use"), type="primary", on_click=_answered, args=(name, kind, config))
    if misfit := st.session_state.get(MISFIT):
        text, values = misfit
        st.error(t(f"sequences.{text}", **values))


def said_here(name: str) -> None:
    """That the user said what letters and classes are, how to keep it, and a way to say it differently."""
    answers = dict(store.answers_for(name))
    if TASK not in answers:
        return
    with st.expander(t("sequences.task_given"), icon=":material/quiz:"):
        st.markdown(t("sequences.task_config"))
        st.code(json.dumps({TASK: json.loads(answers.pop(TASK))}, indent=1, ensure_ascii=False), language="json")
        st.button(t("sequences.task_change"), on_click=store.set_answers, args=(name, answers), key="task-change")


def _answered(name: str, kind: str, config: KmerConfig) -> None:
    """Keep what was answered if it fits, and say why if it does not; runs before the page does."""
    written, alphabet = str(st.session_state[f"{LETTERS}-{kind}"]), ALPHABETS[kind]
    typed = re.sub(r"[\s,]", "", written).upper()
    letters = "".join(alphabet.aliases.get(letter, letter) for letter in typed)
    classes, background = _names(st.session_state[CLASSES]), str(st.session_state[BACKGROUND]).strip()
    misfit: tuple[str, Mapping[str, object]] | None = None
    if sorted(letters) != sorted(alphabet.letters):
        misfit = "task_letters_other", {"found": written, "letters": alphabet.letters}
    elif len(alphabet) > config.vocab:
        misfit = "task_ids_few", {"ids": config.vocab, "needed": len(alphabet)}
    elif not len(classes) == len(set(classes)) == config.n_classes:
        misfit = "task_classes_other", {"found": len(classes), "count": config.n_classes}
    elif background not in {"", *classes}:
        misfit = "task_background_other", {"name": background}
    else:
        length = int(st.session_state[LENGTH])
        task = SequenceTask(replace(alphabet, letters=letters), classes, length, background=background)
        said = json.dumps(task.described(), ensure_ascii=False)
        store.set_answers(name, {**dict(store.answers_for(name)), TASK: said})
    st.session_state[MISFIT] = misfit


def _names(text: str) -> tuple[str, ...]:
    """What is parted by commas or semicolons, those of Chinese among them."""
    return tuple(name.strip() for name in re.split("[,;\uff0c\u3001\uff1b]", text) if name.strip())
