"""The page Your model: bring files, choose one, and see what it is taken for."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import streamlit as st

from heedmap import Checkpoint
from heedmap.attention.record_files import ENDING, is_record
from heedmap.checkpoint.foreign.report import RECORD_FILE, Report
from heedmap.errors import CheckpointError, HeedmapError
from heedmap.messages import Message
from heedmap.runs.any_model import continues
from heedmap.runs.continuing import mask_of
from heedmap.safe.contents import shape_text
from heedmap.safe.limits import MEGABYTE
from heedmap.safe.zips import free_bytes
from ui.shared import address, controls, subject
from ui.shared.files import save_button, table
from ui.store import limits, live, store, upload_guard, uploads, user_folder
from ui.store.refs import CheckpointRef, RefSource
from ui.texts import as_text, plain, said, t

SHOW = "show"
"""The query parameter of the panel that is open."""

LIVE = live.NAME
"""What the list calls the user's own code, in addresses."""

ORDER = (RefSource.UPLOAD, RefSource.USER_FOLDER, RefSource.SHIPPED)
"""The user's own checkpoints stand first in this page's lists."""

RECORD_IT: Final = """\
from heedmap import recording
with recording(model) as seen: model(x)
seen.record().save("run.heedmap")"""

RUN_IT: Final = """\
def make(): return model, read
def read(text): return text.split(), ids(text)
make run MODEL=my_model.py:make"""

SAVE_IT: Final = """\
import torch
weights = model.state_dict()
torch.save(weights, "model.pt")"""

EXAMPLE: Final = """\
import torch
from torch import nn

def make():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.Sequential(nn.Embedding(997, 32), nn.TransformerEncoder(layer, 2)).eval()

    def read(text):
        words = text.split()
        return words, torch.tensor([[sum(word.encode()) % 997 for word in words]])

    return model, read"""
"""A file for `make run MODEL=my_model.py:make`."""


def uploader(
    title: str, key: str, endings: Sequence[str], most: int, take: Callable[[Any], list[Message]], **form: Any
) -> None:
    """An uploader of files of at most so many bytes, which are taken at once; `take` gives what is refused.

    Then it is a new one, so that the browser's copy is let go.
    """
    round_, problems = f"{key}.round", f"{key}.problems"
    number = st.session_state.setdefault(round_, 0)
    largest = max(1, most // MEGABYTE)
    files = st.file_uploader(title, endings, key=f"{key}-{number}", max_upload_size=largest, **form)
    if files:
        with st.spinner(t("your_model.reading")):
            st.session_state[problems] = take(files)
        st.session_state[round_] = number + 1
        st.rerun()
    for problem in st.session_state.pop(problems, ()):
        sentence, _, lines = said(problem).partition("\n")
        st.warning(as_text(sentence) if lines else controls.sentence(problem), icon=":material/block:")
        if lines:
            st.code(lines, language="python")


def bring_panel() -> None:
    """Choose or drop files; what was brought is listed, and can be removed.

    Raises:
        CheckpointError: the limits that the environment gives are no numbers.
    """
    most = limits.n_bytes(limits.UPLOAD)
    upload_guard.expect(max(uploads.room(), most))  # one too many gets a sentence
    uploader(
        t("your_model.bring"), "upload", [ENDING.removeprefix("."), *uploads.ENDINGS], most, _take,
        accept_multiple_files=True, help=f"{t('your_model.bring_note')} {t('your_model.bring_help')}",
    )  # fmt: skip
    now, unpacked = uploads.may_arrive(), min(limits.n_bytes(limits.SESSION), free_bytes())
    if now < most:
        st.warning(t("your_model.less_room", megabytes=now // MEGABYTE), icon=":material/hourglass_empty:")
    if unpacked < now:
        less = t("your_model.less_room_unpacked", megabytes=unpacked // MEGABYTE)
        st.warning(less, icon=":material/hourglass_empty:")
    for refused in user_folder.own_paths()[1]:
        st.warning(controls.sentence(refused), icon=":material/block:")


def is_recorded(name: str) -> bool:
    """Whether a name is that of the live model or of a record, not of a checkpoint."""
    return name == LIVE or name in store.records()


def choice() -> str:
    """What is looked at: a record, the live model, an upload, a checkpoint of the user's folder, or a shipped one.

    At first the live model, where the server was started with one. The page ends where there is nothing.
    """
    lively, known = [LIVE] if live.named() else [], store.names(*ORDER)
    names = [*store.records(), *lively, *known]
    if not names:
        _ways_panel()
        st.info(t("your_model.none"))
        address.stop()
    if address.parameter(subject.MODEL) not in names:
        controls.warn_of_unknown()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="chosen"):
        usual = subject.usual([*lively, *known] or names)
        name = address.choice(
            t("your_model.which"), names, key=subject.MODEL, form="list", text=_called, width="stretch",
            default=usual, said=store.is_upload(usual),
        )  # fmt: skip
        if store.is_upload(name):
            st.button(t("your_model.remove"), icon=":material/delete:", on_click=_remove, args=(name,), key="remove")
        _ways_panel()
    if name in known:
        subject.show(name)
    return name


def _ways_panel() -> None:
    """A record file, the user's own code, weights alone: what to write in each case."""
    with st.popover(t("your_model.ways"), icon=":material/login:"):
        for name, lines in (("record", RECORD_IT), ("live", RUN_IT), ("weights", SAVE_IT)):
            st.markdown(f"**{t(f'your_model.way_{name}')}**")
            st.code(lines, language=None)
        with st.expander(t("your_model.example"), icon=":material/code:"):
            st.caption(t("your_model.example_note"))
            st.code(EXAMPLE, language=None)


def _called(name: str) -> str:
    """What the list calls a name."""
    return plain("your_model.live_name", name=Path(live.named()).name) if name == LIVE else name


def recognition(name: str) -> tuple[Report | None, CheckpointError | None]:
    """What a checkpoint is taken for (None: its own config says everything), and an answer that cannot be right.

    Then it is taken for what it is without that answer.

    Raises:
        CheckpointError: it is refused, whatever is answered.
    """
    found, answers = store.bundle(name), dict(store.answers_for(name))
    try:
        return None if found is None else found.recognised(answers), None
    except CheckpointError as error:
        if found is None or not answers:
            raise
        others = {question: answer for question, answer in answers.items() if question != error.fields.get("name")}
        return found.recognised(others if len(others) < len(answers) else {}), error


def _take(files: Sequence[Any]) -> list[Message]:
    """Take each record, and the other files together; what is refused keeps no other from being taken."""
    records = [[file] for file in files if is_record(file.name)]
    others = [file for file in files if not is_record(file.name)]
    problems = []
    for together in filter(None, [*records, others]):
        beside = None
        if together is others and (names := store.names(*ORDER)):
            before = str(address.parameter(subject.MODEL))
            beside = CheckpointRef.parse(before if before in names else subject.usual(names))
        try:
            name = str(uploads.take(together, beside))
        except HeedmapError as error:
            problems.append(error.message)
            continue
        address.put(**{subject.MODEL: name})
        if together is others:
            subject.show(name)
    return problems


def _remove(name: str) -> None:
    uploads.forget(CheckpointRef.parse(name))
    address.put(**{subject.MODEL: None})


HEADS = ("n_heads", "num_attention_heads", "encoder_attention_heads", "n_head", "num_heads")
WIDTHS = ("d_model", "hidden_size", "hidden", "n_embd", "dim")
"""What configs call the number of heads, and the width of a position's vector."""


def report_panel(report: Report) -> None:
    """How surely and why; and what does not fit.

    Green is a file of which all is known; amber is one whose maps rest on an assumption, on tensors that were left out,
    or on an answer that is still to come.
    """
    _banner(report)
    with st.expander(t("your_model.why"), expanded=not report.fits, icon=":material/fact_check:"):
        _details(report)
    if report.is_ready:
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key="prove"):
            st.caption(t("your_model.prove"), width="content")
            st.button(
                t("your_model.prove_open"), key="open-check", type="tertiary", icon=":material/rule:",
                on_click=address.put, kwargs={SHOW: "check"},
            )  # fmt: skip


def _banner(report: Report) -> None:
    title = said(report.title)
    sure = t("your_model.sure", share=report.confidence, matched=len(report.matched))
    if not report.layout:
        st.error(t("your_model.unknown", title=title), icon=":material/help:")
        return
    if not report.fits:
        st.error(f"{t('your_model.nearest', title=title)} · {sure}", icon=":material/rule:")
        return
    known = f"**{as_text(title)}** · {as_text(said(report.format))} · {sure}"
    if report.open:
        needed = t("your_model.unanswered", names=", ".join(question.name for question in report.open))
        why = as_text(", ".join(said(question.why) for question in report.open if question.why))
        st.warning(f"{known} · {needed} ({why})" if why else f"{known} · {needed}", icon=":material/quiz:")
    elif report.guesses:
        unsure = as_text("".join(f" · {said(guess)}" for guess in report.guesses))
        st.warning(f"{known}{unsure}", icon=":material/warning:")
    else:
        st.success(known, icon=":material/check_circle:")


def _details(report: Report) -> None:
    for reason in (*report.reasons, *report.assumptions):
        st.text(f"· {said(reason)}")

    def listed(title: str, rows: Sequence[tuple[str, ...]], columns: Sequence[str], **form: Any) -> None:
        if rows:
            st.markdown(f"**{title}**")
            table(rows, [t(f"your_model.{column}") for column in columns], **form)

    tensors: dict[str, list[tuple[Any, ...]]] = {
        "missing": [(name, shape, None) for name, shape in report.missing.items()],
        "wrong": [(name, *shapes) for name, shapes in report.wrong_shape.items()],
        "unexpected": [(name, None, shape) for name, shape in report.unexpected.items()],
    }
    for code, found in tensors.items():
        shapes = [(name, *("" if one is None else said(shape_text(one)) for one in both)) for name, *both in found]
        height = "content" if len(found) < 9 else 320
        listed(f"{t(f'your_model.{code}')} ({len(found)})", shapes, ("tensor", "needed", "found"), height=height)
    if report.doubt:
        st.text(f"· {said(report.doubt)}")
    ignored = [(name, said(why)) for name, why in report.ignored.items()]
    listed(t("your_model.ignored"), ignored, ("tensor", "reason"), key="ignored")
    if not report.fits:
        st.markdown(f"**{t('your_model.changes')}**")
        for change in report.changes:
            st.text(f"· {said(change)}")
    if report.record:
        st.markdown(t("your_model.record", file=RECORD_FILE))
        st.code("\n".join(report.record), language="python")
    save_button(t("your_model.report_file"), said(report.text) + "\n", "report.txt", "text/plain")


def identity_panel(checkpoint: Checkpoint) -> None:
    """The line."""
    layers = Counter(site.group for site in checkpoint.sites)
    config: Any = checkpoint.model.config
    net = getattr(checkpoint.model, "net", None)  # another library's
    own = config.options if net is None else {one: getattr(net.config, one, None) for one in (*HEADS, *WIDTHS)}
    family = getattr(config, "family", "") or said(Message(f"noun_{checkpoint.architecture}"))
    sizes = [plain("your_model.layers", count=layers.get("encoder.self", 0) or max(layers.values(), default=0))]
    if "encoder.self" in layers and "decoder.self" in layers:
        both = {"encoder": layers["encoder.self"], "decoder": layers["decoder.self"]}
        sizes = [plain("your_model.layers_both", **both)]
    for name, known in (("heads", HEADS), ("width", WIDTHS)):
        size = next((own[one] for one in known if isinstance(own.get(one), int)), None)
        sizes += [plain(f"your_model.{name}", count=size)] if size else []
    numbers = plain("your_model.parameters", count=checkpoint.n_parameters)
    parts = [plain("your_model.times").join(sizes), numbers, _can(checkpoint)]
    rest = " · ".join(parts)
    st.markdown(f"**{as_text(family)}** · {as_text(rest)}")


def _can(checkpoint: Checkpoint) -> str:
    """What it can do with an input."""
    if checkpoint.translates:
        return plain("your_model.can_translate", source=checkpoint.languages[0], target=checkpoint.languages[1])
    if checkpoint.task is not None:
        return plain("your_model.can_classify", classes=plain("your_model.or").join(checkpoint.task.classes))
    if continues(checkpoint):
        return plain("your_model.can_write")
    if mask_of(checkpoint):
        return plain("your_model.can_fill")
    classes = plain("your_model.or").join(getattr(checkpoint.model.config, "labels", ()))
    return plain("your_model.can_classify", classes=classes) if classes else plain("your_model.can_read")
