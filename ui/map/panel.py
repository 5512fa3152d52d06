"""A part, opened: what it computes, this run's numbers, and the two ways on; what comes next; all parts as a table.

The distribution at a step can be seen at another temperature: nothing is decoded again, the same logits are divided by
it. What each layer would say is `heedmap.explain.flow`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
import torch
from jaxtyping import Float

from heedmap import Checkpoint
from heedmap.attention.measures import entropy
from heedmap.explain.diagram import Node
from heedmap.plots.labels import readable
from heedmap.runs.any_model import Predictions
from heedmap.runs.continuing import chances
from ui.components.map.component import Part
from ui.map import choices
from ui.map.drawing import Drawing
from ui.map.shown import TOP, Shown, names_of, read_ids
from ui.shared import controls, files, writing
from ui.shared.address import choice, tenths
from ui.shared.files import Provenance, bars, head_prefix
from ui.shared.record_views import matrix
from ui.shared.writing import COLDEST, HOTTEST, TEMPERATURE
from ui.store import store
from ui.texts import KEY, as_text, language, plain, t

LARGEST = 256
"""Queries or keys up to which a head is drawn cell by cell."""

NEAREST, BEGINNING = 2, 3
"""Neighbours of a token that are listed, and numbers of its vector."""

Way = tuple[str, str, dict[str, str]]
"""A page, the code of the link's text, the address there."""

Measured = tuple[Mapping[str, Sequence[Any] | np.ndarray], Mapping[str, Sequence[Any] | np.ndarray]]
"""What a sentence says of a part at a position, and the columns of its table: a value a position."""

STAGES = {
    "norm": "norm", "sum": "residual", "feed_forward": "feed_forward", "embedding": "embedding", "linear": "output",
    "output": "output",
}  # fmt: skip
"""The stage of the lesson *Inside a layer* that explains a kind of part."""

WITH_STAGES = ("seq2seq", "encoder", "decoder")
"""Architectures that the lesson shows."""


def part_panel(
    name: str, checkpoint: Checkpoint, shown: Shown, text: str, found: Drawing, node: Node, step: int, source: int
) -> None:
    """The part `node`, large: what it does, what it did here, and the two ways on."""
    part = found.parts[node.name]
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        st.button(
            t("map.title"), key="close-part", on_click=choices.close_part, type="tertiary",
            icon=":material/arrow_back:", help=t("map.close_help"),
        )  # fmt: skip
        st.caption(f"/ {as_text(found.wheres[node.name])} / {as_text(part.title)}", width="content")
    st.subheader(as_text(part.title), anchor=False)
    if part.plain:
        st.markdown(as_text(part.plain))
    at = step if found.is_last(node.name) else source
    head = _head(shown, node, at)
    last_linear = [one.name for one in shown.flow.diagram.nodes if one.kind == "linear"][-1:]
    if node.kind == "attention":
        _attention(shown, node, head, at, Provenance(name, text))
    elif node.kind in {"feed_forward", "sum", "other", "norm"}:
        _measured(shown, node, at)
    elif node.kind in {"input", "embedding", "positions"}:
        _tokens(checkpoint, shown, node)
    elif node.kind == "output" or (shown.next and node.name in last_linear):
        prediction_panel(checkpoint, shown, step, is_narrow=True)
    else:
        st.caption(t("map.not_recorded"))
    if part.formula:
        st.markdown(as_text(part.formula))
    see, understand = _see(name, checkpoint, shown, text, node, head), _understand(name, shown, text, node, head)
    for label, ways in (("map.see", list(see)), ("map.understand", list(understand))):
        if ways:
            st.markdown(f"**{t(label)}**")
        for page, code, query in ways:
            st.page_link(
                f"pages/{page}.py", label=t(f"map.{code}"), query_params={**query, KEY: language()},
                icon=":material/arrow_forward:",
            )  # fmt: skip
    st.caption(as_text(plain("map.period").join(part.facts)))


def _head(shown: Shown, node: Node, step: int) -> int:
    """The head that is shown: the one that was picked, or the surest at this step; 0 where there is none."""
    if node.site is None or node.site not in shown.record:
        return 0
    attention = shown.record[node.site]
    if attention.n_heads == 1:
        return 0
    every = attention.all_weights()
    rows = every[:, step] if 0 <= step < attention.shape[0] else every.reshape(len(every), -1)
    heads, usual = [*map(str, range(attention.n_heads))], int(np.nan_to_num(rows).max(axis=-1).argmax())
    return int(choice(t("translate.head"), heads, default=heads[usual], key=choices.HEAD, text=str))


def _attention(shown: Shown, node: Node, head: int, at: int, origin: Provenance) -> None:
    if node.site is None or node.site not in shown.record:
        st.caption(t("map.not_run"))
        return
    attention = shown.record[node.site]
    if max(attention.shape) > LARGEST:
        st.caption(t("map.too_long", most=LARGEST))
        return
    picture = attention.picture(head)
    if 0 <= at < attention.shape[0]:
        key = int(np.nan_to_num(picture.values[at]).argmax())
        query, read = (readable(axis.texts[i]) for axis, i in ((picture.queries, at), (picture.keys, key)))
        st.markdown(as_text(plain("map.now_attention", word=query, head=head, key=read, share=picture.values[at, key])))
    matrix(picture, key="part-heatmap", stem=origin.stem(*head_prefix(picture)), facts=origin.facts())
    st.caption(t("translate.axes", queries=picture.queries.name, keys=picture.keys.name))


def _numbers(shown: Shown, node: Node) -> Measured | None:
    """What this run did in a part: a net's units above zero, what a norm multiplies by, or what a sum adds."""
    flow = shown.flow
    if node.kind == "feed_forward":
        units, size = flow.activity.get(node.name), dict(node.sizes).get("d_ff", 0)
        if units is None:
            return None
        strongest = [
            ", ".join(f"{unit}: {value:.2f}" for unit, value in zip(some, values, strict=True) if value > 0)
            for some, values in zip(units.units[:, :2], units.values[:, :2], strict=True)
        ]
        counts = [round(float(share) * size) for share in units.active]
        now = {"count": counts, "size": [size] * len(counts)} if size else {}
        return now, {t("map.active"): units.active, t("map.strongest"): strongest}
    if node.kind == "norm":
        scales = flow.scales.get(node.name)
        return None if scales is None else ({"scale": scales}, {t("map.scale"): scales})
    added = flow.shares.get(node.name) or flow.shares.get(node.layer)
    if added is None:
        return None
    columns = {t("map.share"): added.share, t("map.state"): added.state, t("map.found"): added.found}
    return {"found": added.found, "state": added.state, "share": added.share}, columns


def _measured(shown: Shown, node: Node, at: int) -> None:
    """What this run did in a part: at the step in a sentence, at every position as a table."""
    found = _numbers(shown, node)
    if found is None:
        st.caption(t("map.not_watched"))
        return
    now, columns = found
    count = len(next(iter(columns.values())))
    named = (shown.read if node.gives[0] == "target" else (), shown.source, shown.steps)
    labels = [readable(one) for one in next((one for one in named if len(one) == count), map(str, range(count)))]
    code = node.kind if node.kind in {"feed_forward", "norm"} else "sum"
    if now and 0 <= at < len(labels):
        here = {name: values[at] for name, values in now.items()}
        st.markdown(as_text(plain(f"map.now_{code}", word=labels[at], **here)))
    _table({t("map.token"): labels, **columns})
    if code == "sum":
        st.caption(t("map.share_note"))


def _tokens(checkpoint: Checkpoint, shown: Shown, node: Node) -> None:
    """What a part at the foot of a tower reads, with what it gives each token: the beginning of a vector.

    Of an embedding the neighbours in its table too.
    """
    labels, ids = shown.source, list(shown.ids)
    is_target = node.reads[0] == "target"
    if shown.translation is not None:
        labels = shown.read if is_target else shown.source
        ids = list(read_ids(checkpoint, shown.translation) if is_target else shown.translation.source_ids)
    columns: dict[str, Any] = {t("map.token"): list(map(readable, labels)), t("map.id"): ids}
    table = dict(checkpoint.model.named_parameters()).get(next(iter((*node.owns, *node.shares)), ""))
    part = dict(checkpoint.model.named_modules()).get(node.name)
    if node.kind == "positions" and part is not None and isinstance(node.gives[-1], int):
        columns[t("map.vector")] = _beginnings(part(torch.zeros(1, len(labels), node.gives[-1]))[0].detach())
    elif node.kind == "embedding" and table is not None and table.dim() == 2 and max(ids, default=-1) < len(table):
        rows = table.detach()[ids]
        reader = checkpoint.writer if is_target and shown.read else checkpoint.tokenizer
        if reader is not None and len(reader) == len(table):
            near = torch.nn.functional.cosine_similarity(rows[:, None], table.detach()[None], dim=-1)
            near[torch.arange(len(ids)), ids] = -1.0
            best = near.topk(NEAREST, dim=-1).indices.tolist()
            columns[t("map.nearest")] = [", ".join(map(readable, reader.labels(row))) for row in best]
        columns[t("map.vector")] = _beginnings(rows)
    _table(columns)


def _beginnings(rows: Float[torch.Tensor, "token feature"]) -> list[str]:
    """The first numbers of each row."""
    return [" ".join(f"{value:.2f}" for value in row[:BEGINNING]) + " …" for row in rows.tolist()]


def _table(columns: Mapping[str, Any]) -> None:
    config = bars({t("map.active"), t("map.share")} & columns.keys(), 2)
    height = 560 if len(next(iter(columns.values()))) > 15 else "content"
    files.table(columns, key="part-table", height=height, column_config=config)


def _see(name: str, checkpoint: Checkpoint, shown: Shown, text: str, node: Node, head: int) -> Iterator[Way]:
    if node.site is not None and node.site in shown.record:
        place = {"head": str(head)} | ({} if node.site.layer is None else {"layer": str(node.site.layer)})
        place["kind"] = node.site.group if node.site.layer is not None else "decoder.cross"
        if shown.translation is not None:
            yield "translate", "see_translate", {"model": name, "text": text, **place}
            if node.site.kind == "cross":
                yield "align", "see_align", {"first": name, "text": text}
        elif store.architecture(name) == "kmer" and checkpoint.task is not None:
            yield "sequences", "see_sequences", {"model": name, "sequence": text, "view": "heads"}
        else:
            more = {} if shown.options is None else writing.address_of(shown.options)
            query = {"model": name, "show": "attention", "input": text, **more, **place}
            yield "your_model", "see_checkpoint", query
    if node.owns or node.shares:
        yield "your_model", "see_tensors", {"model": name, "show": "tensors"}


def _understand(name: str, shown: Shown, text: str, node: Node, head: int) -> Iterator[Way]:
    target = "" if shown.translation is None else shown.translation.text
    architecture, site = store.architecture(name), node.site
    if node.kind == "attention":
        query = {"made": "shipped", "source": text}
        if architecture == "seq2seq" and site is not None:
            kind = "cross" if site.kind == "cross" else site.stack
            query |= {"attention": kind, "model": name, "at_head": str(head), "at_layer": str(site.layer)}
            query |= {} if kind == "encoder" else {"target": target}
        elif architecture == "recurrent" and node.form in {"additive", "location"}:
            query |= {"attention": node.form, "rnn": name, "target": target}
        else:
            query = {}
        yield "attention_steps", "understand_attention", query
        if site is not None and site.stack == "decoder" and site.kind == "self":
            yield "masks", "understand_mask", {"screen": "build"}
    if node.kind in STAGES and architecture in WITH_STAGES:
        yield "inside_layer", "understand_inside", _inside(name, shown, text, target, node)
    if node.kind == "positions":
        yield "positions", "understand_positions", {}


def _inside(name: str, shown: Shown, text: str, target: str, node: Node) -> dict[str, str]:
    """The lesson's address for a part: its stage, and the layer and sub-layer where the stage has them."""
    query = {"made": "shipped", "model": name, "text": text, "stage": STAGES[node.kind]}
    if target:
        query["target"] = target
    if shown.translation is not None and query["stage"] != "output":
        query["side"] = node.stack
    if node.layer:
        query["at_layer"] = str(shown.flow.diagram.layers(node.stack).index(node.layer))
        part = next((kind for kind in ("self", "cross", "feed_forward") if f".{kind}_" in f"{node.name}_"), None)
        if part and query["stage"] != "feed_forward":
            query["part"] = part
    return query


def prediction_panel(checkpoint: Checkpoint, shown: Shown, step: int, is_narrow: bool = False) -> None:
    """What comes next, and what each layer would say; unless it is narrow, the first is folded: the map shows its best.

    Of a regression its numbers.
    """
    if shown.numbers:
        st.markdown(f"**{t('your_model.numbers')}**")
        files.table([shown.numbers], key="next")
        return
    answers = shown.answers
    if answers is None:
        st.caption(t("map.no_output"))
        return

    def named(ids: Sequence[int]) -> list[str]:
        return [readable(name) for name in names_of(checkpoint, answers, ids)]

    row, title = shown.row_of(step), t(shown.what)
    with st.container() if is_narrow else st.expander(title, icon=":material/bar_chart:"):
        label = plain("map.whole_input") if answers.is_whole else readable(shown.steps[row])
        st.markdown(f"**{title}** · {t('map.at', word=label)}")
        _odds(shown, answers, row, named)
    _lens(shown, named, row, is_narrow)


def _odds(shown: Shown, answers: Predictions, row: int, named: Callable[[Sequence[int]], list[str]]) -> None:
    drawn = shown.options if shown.options is not None and shown.options.temperature else None
    if drawn is None:
        label, why = t("map.temperature"), t("map.temperature_help")
        temperature = tenths(label, COLDEST, HOTTEST, 1.0, key=TEMPERATURE, help=why)
    else:
        temperature = drawn.temperature
    before, after = answers.odds(row), answers.odds(row, temperature)
    top = answers.likeliest(row, TOP)
    columns = {t("map.output_name"): named(top), t("map.probability"): before[top]}
    if drawn is not None:
        scores = torch.from_numpy(answers.scores[row]).double()
        columns[writing.chance_title(drawn)] = chances(scores, drawn).numpy()[top]
    elif temperature != 1.0:
        columns[t("map.probability_at", temperature=temperature)] = after[top]
    files.table(columns, key="next", column_config=bars(list(columns)[1:]))
    if answers.each:
        st.caption(t("your_model.classes_each"))
        return
    entropies = [float(entropy(odds)) for odds in (before, after)]
    if temperature == 1.0:
        st.caption(t("map.entropy", nats=entropies[0]))
    else:
        st.caption(t("map.entropies", before=entropies[0], after=entropies[1], temperature=temperature))
    written = shown.written_at(row)
    if shown.continued is not None and written is not None:
        writing.then(shown.continued, written)


def _lens(shown: Shown, named: Callable[[Sequence[int]], list[str]], row: int, is_narrow: bool) -> None:
    """What each layer would say, and since when the final output is the likeliest; and where it was before."""
    st.markdown(f"**{t('map.lens')}**", help=t("map.lens_help"))
    lens = shown.flow.lens
    if lens is None:
        st.caption(controls.sentence(shown.flow.no_lens))
        return
    (final,), tops = named([int(lens.final[row])]), [int(i) for i in lens.ids[:, row, 0]]
    after = [plain("map.before_layers" if i == 0 else "map.after_layer", layer=i - 1) for i in range(len(tops))]
    columns = {
        t("map.after"): after,
        t("map.would_write"): named(tops),
        t("map.probability"): lens.probabilities[:, row, 0],
        **({} if is_narrow else {t("map.of_final", word=final): lens.final_probabilities[:, row]}),
        t("map.entropy_column"): lens.entropy[:, row],
    }
    config = bars(list(columns)[2:-1])
    config[t("map.entropy_column")] = st.column_config.NumberColumn(format="%.2f")
    files.table(pd.DataFrame(columns)[::-1], key="lens", column_config=config)  # the last layer on top, as on the map
    first = int(lens.leads_from[row])
    earlier = plain("map.and").join(after[i] for i in np.flatnonzero(lens.leads[:first, row]))
    if first == len(tops):
        st.caption(t("map.leads_only", word=final, rows=earlier) if earlier else t("map.never_leads", word=final))
    else:
        leads = t("map.leads_from", word=final, layer=first - 1) if first else t("map.leads_at_once", word=final)
        st.caption(leads)
        if earlier:
            st.caption(t("map.led_before", rows=earlier))
    if lens.note:
        st.caption(controls.sentence(lens.note))


def table_panel(found: Drawing, step: int, source: int) -> None:
    """All that the map says of its parts at this step, a row a part; folded at first, when nothing of it is made."""
    with st.expander(t("map.as_table"), icon=":material/table_rows:", key="parts-open", on_change="rerun") as shown:
        if shown.open:
            files.table(_rows(found, step, source), key="parts")


def _rows(found: Drawing, step: int, source: int) -> list[dict[str, Any]]:
    """Where each part is, what it is, its formula and shapes, what it adds, where its surest head looks."""
    adds: dict[str, float] = {}
    looks: dict[str, str] = {}
    for tower in found.towers:
        for part, added in tower.found.items():
            adds[part] = _share(added, tower.state[part], step if tower.stepped else source)
        for row in tower.rows:
            heads = row.heads
            if heads is not None and tower.stepped and 0 <= step < heads.n_queries == len(found.steps.labels):
                head, key, weight = heads.sure[step]
                looks[row.boxes[0].name] = f"H{int(head)} \N{RIGHTWARDS ARROW} {heads.keys[int(key)]} {weight:.2f}"

    def row_of(part: Part) -> dict[str, Any]:
        return {
            t("map.where"): found.wheres[part.name],
            t("map.part"): part.title,
            t("map.purpose"): part.plain,
            t("map.formula"): part.formula,
            t("map.facts"): "; ".join(part.facts),
            t("map.share"): adds.get(part.name, np.nan),
            t("map.looks"): looks.get(part.name, ""),
        }

    return list(map(row_of, found.parts.values()))


def _share(found: Float[np.ndarray, " _"], state: Float[np.ndarray, " _"], position: int) -> float:
    """What a sum adds, against that and what was there: at a position, or in the mean."""
    shares = np.divide(found, found + state, out=np.zeros_like(found), where=found + state > 0)
    return float(shares[position] if 0 <= position < len(shares) else shares.mean())
