"""The screen of the lesson "Masks" that breaks a mask on purpose: what leaks in your sentences, and what it costs."""

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.lessons.breaking import AXES, Break
from transformer.lessons.expressions.board import Board
from transformer.lessons.leaks import LeakReport, allowed_in, leaking
from transformer.lessons.masks import attended, mask_view
from transformer.sites import Site
from ui.components.matrices.component import matrices
from ui.lessons import shared
from ui.lessons.masks import controls
from ui.lessons.masks.drawing import draw, matrix
from ui.lessons.masks.example import Example, ToyModel, checkpoint_of
from ui.lessons.masks.leaks import changes, site_name
from ui.texts import plain, t


def break_panel(shown: Example, bar: DeltaGenerator) -> None:
    """A mask broken on purpose: the weights with their leaks outlined, the leak test, loss and translations."""
    with bar:
        how = controls.how()
    if how == AXES:
        _across(shown, bar)
        return
    with bar:
        site = controls.site(shown)
        head, sentence = controls.head(shown), controls.row(shown.batch)
    view = mask_view(shown.batch, controls.kind_of(site), sentence)
    right = attended(shown.run("right"), shown.batch, site, head, sentence).weights
    found = attended(shown.run(how), shown.batch, site, head, sentence)
    allowed = allowed_in(shown.batch, site, sentence)
    leaks = leaking(found.weights, allowed)
    report = shown.leaks(how)
    _verdict(shown, report, (site, head, sentence))
    board = Board.of(
        [
            matrix("broken", "A'", found.weights, view.queries, view.keys, ~found.visible),
            matrix("right", "A", right, view.queries, view.keys, ~view.visible),
        ]
    )
    pictures, words = shared.columns()
    with pictures:
        draw(board, view, outlined={"broken": leaks}, said=plain(f"masks.break_{how}"))
    with words:
        outlined = _outlined(leaks, allowed, found.weights, view.queries, view.keys)
        shared.explain(f"{outlined} {changes(report, checkpoint_of(shown.model))}")
        shared.explain(t(f"masks.why_{how}"))
        _damage(shown, how)
    _translations(shown, how)


def _across(shown: Example, bar: DeltaGenerator) -> None:
    """Batch and position exchanged in the encoder's first layer: of each position, which sentence looks at which."""
    with bar:
        head = controls.head(shown)
    run, report = shown.run(AXES), shown.leaks(AXES)
    tokens, names = shown.batch.source_labels, [str(i + 1) for i in range(len(shown.batch))]
    made, titles = [], {}
    for at in range(len(tokens[0])):
        weights = run.map("encoder.0.self", batch=at).weights(head)
        labels = tuple(f"{name}: {sentence[at]}" for name, sentence in zip(names, tokens, strict=True))
        made.append(matrix(f"at{at}", "A", weights, labels, tuple(names), None))
        titles[f"at{at}"] = plain("masks.at_position", position=at)
    board, other = Board.of(made), ~np.eye(len(names), dtype=bool)
    largest = max(float((board[name].values * other).max()) for name in board)
    st.error(t("masks.leak_across", weight=largest, change=report.padding or 0.0), icon=":material/water_drop:")
    left, right = shared.columns()
    with left:
        outlined = {name: other & (board[name].values > 0) for name in board} if len(names) > 1 else {}
        matrices(
            board, list(board), None, key="across", weights=list(board), titles=titles, outlined=outlined,
            outline=plain("masks.outline_across"),
            about=shared.about("masks.screen_break", plain(f"masks.break_{AXES}"), f"encoder.0.self · {head}"),
        )  # fmt: skip
        shared.matrix_downloads(board, list(board), titles=titles)
    with right:
        shared.explain(t("masks.why_axes"))
        _damage(shown, AXES)
    _translations(shown, AXES)


def _verdict(shown: Example, report: LeakReport, here: tuple[Site, int, int]) -> None:
    """Whether anything leaks in these sentences, and which cell most; a button leads to it, if it is not shown."""
    worst = max(report.sites, key=lambda leak: leak.largest)
    if not report.leaks:
        st.success(t("masks.tight_here"), icon=":material/check:")
    elif worst.where is None or not worst.leaks:
        st.error(t("masks.leak_changed_here"), icon=":material/water_drop:")
    else:
        row, head, query, key = worst.where
        queries, keys = (shown.labels(side, row) for side in _sides(worst.site))
        said = t(
            "masks.leak_here", weight=worst.largest, site=site_name(worst.site), head=head, sentence=row + 1,
            query=queries[query], key=keys[key],
        )  # fmt: skip
        if (worst.site, head, row) == here:
            st.error(said, icon=":material/water_drop:")
            return
        st.error(said, icon=":material/water_drop:")
        st.button(t("masks.show_worst"), key="masks.worst", on_click=controls.look_at, args=(worst.site, head, row))


def _sides(site: Site) -> tuple[str, str]:
    """Whose tokens are a site's queries, and whose its keys."""
    return site.stack, "encoder" if site.kind == "cross" else site.stack


def _outlined(
    leaks: np.ndarray, allowed: np.ndarray, weights: np.ndarray, queries: tuple[str, ...], keys: tuple[str, ...]
) -> str:
    """How many forbidden cells of the matrix on screen have weight, and which has most."""
    count, forbidden = int(leaks.sum()), int((~allowed).sum())
    if not forbidden:
        return t("masks.nothing_forbidden")
    if not count:
        return t("masks.outlined_none", forbidden=forbidden)
    query, key = np.unravel_index(int(np.where(leaks, np.nan_to_num(weights, nan=np.inf), -1).argmax()), leaks.shape)
    name = "masks.outlined_one" if count == 1 else "masks.outlined"
    return t(name, count=count, forbidden=forbidden, query=queries[query], key=keys[key], weight=weights[query, key])


def _damage(shown: Example, how: Break) -> None:
    """What a break does to the loss of a trained model, and whether its translations stay."""
    if isinstance(shown.model, ToyModel):
        st.markdown(t("masks.only_shipped"))
        return
    right, wrong = shown.damage("right"), shown.damage(how)
    said = t("masks.loss", right=right.loss, broken=wrong.loss, more=wrong.loss - right.loss)
    if how != "right":
        said = f"{said} {t('masks.same_translations' if wrong.writes_like(right) else 'masks.other_translations')}"
    shared.explain(f"{said} {t('masks.loss_note')}")


def _translations(shown: Example, how: Break) -> None:
    """What a trained model writes, side by side."""
    if isinstance(shown.model, ToyModel):
        return
    texts = {
        plain("masks.translation_broken"): shown.damage(how).translations,
        plain("masks.translation_right"): shown.damage("right").translations,
    }
    st.dataframe(pd.DataFrame(texts), hide_index=True, key="translations")
