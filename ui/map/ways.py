"""The two ways on from a part: where it can be seen on this sentence, and the lesson that explains it, set to it."""

import streamlit as st

from transformer import Checkpoint
from transformer.explain.diagrams.diagram import Node
from ui.map.runs import Shown
from ui.shared import writing
from ui.store import store
from ui.texts import KEY, language, t

Way = tuple[str, str, dict[str, str]]
"""A page's script, the code of the link's text, the address there."""


STAGES = {
    "norm": "norm", "sum": "residual", "feed_forward": "feed_forward", "embedding": "embedding", "linear": "output",
    "output": "output",
}  # fmt: skip
"""The stage of the lesson *Inside a layer* that explains a kind of part."""

TAKEN_APART = ("seq2seq", "encoder", "decoder")
"""Architectures that the lesson shows."""


def ways(
    name: str, checkpoint: Checkpoint, shown: Shown, text: str, node: Node, head: int
) -> tuple[list[Way], list[Way]]:
    """Where to see a part, and where to understand it."""
    return _see(name, checkpoint, shown, text, node, head), _understand(name, shown, text, node, head)


def links(found: list[Way]) -> None:
    """Draw them."""
    for page, code, query in found:
        st.page_link(
            page, label=t(f"map.{code}"), query_params={**query, KEY: language()}, icon=":material/arrow_forward:"
        )


def _see(name: str, checkpoint: Checkpoint, shown: Shown, text: str, node: Node, head: int) -> list[Way]:
    found: list[Way] = []
    if node.site is not None and node.site in shown.record:
        place = {"head": str(head)} | ({} if node.site.layer is None else {"layer": str(node.site.layer)})
        kind = {"kind": node.site.group if node.site.layer is not None else "decoder.cross"}
        if shown.translation is not None:
            found.append(("pages/translate.py", "see_translate", {"model": name, "text": text, **kind, **place}))
            if node.site.kind == "cross":
                found.append(("pages/align.py", "see_align", {"first": name, "text": text}))
        elif store.architecture(name) == "kmer" and checkpoint.task is not None:
            query = {"model": name, "sequence": text, "view": "heads"}
            found.append(("pages/sequences.py", "see_sequences", query))
        else:
            more = {} if shown.options is None else writing.address_of(shown.options)
            query = {"model": name, "show": "attention", "input": text, **more, **kind, **place}
            found.append(("pages/your_model.py", "see_checkpoint", query))
    if node.owns or node.shares:
        tensor = (node.owns or node.shares)[0]
        query = {"model": name, "show": "tensors", "tensor": tensor}
        found.append(("pages/your_model.py", "see_tensors", query))
    return found


def _understand(name: str, shown: Shown, text: str, node: Node, head: int) -> list[Way]:
    target = "" if shown.translation is None else shown.translation.text
    architecture, found = store.architecture(name), list[Way]()
    if node.kind == "attention" and architecture == "seq2seq" and node.site is not None:
        kind = "cross" if node.site.kind == "cross" else node.site.stack
        query = {"attention": kind, "made": "shipped", "model": name, "source": text, "at_head": str(head),
                 "at_layer": str(node.site.layer)}  # fmt: skip
        if kind != "encoder":
            query["target"] = target
        found.append(("pages/attention_steps.py", "understand_attention", query))
    elif node.kind == "attention" and architecture == "recurrent" and node.form in {"additive", "location"}:
        query = {"attention": node.form, "made": "shipped", "rnn": name, "source": text, "target": target}
        found.append(("pages/attention_steps.py", "understand_attention", query))
    elif node.kind == "attention":
        found.append(("pages/attention_steps.py", "understand_attention", {}))
    if node.kind == "attention" and node.site is not None and node.site.stack == "decoder" and node.site.kind == "self":
        found.append(("pages/masks.py", "understand_mask", {"screen": "build"}))
    if node.kind in STAGES and architecture in TAKEN_APART:
        found.append(("pages/inside_layer.py", "understand_inside", _inside(name, shown, text, target, node)))
    if node.kind == "positions":
        found.append(("pages/positions.py", "understand_positions", {}))
    return found


def _inside(name: str, shown: Shown, text: str, target: str, node: Node) -> dict[str, str]:
    """The lesson's address for a part: its stage, and the layer and sub-layer where the stage has them."""
    query = {"made": "shipped", "model": name, "text": text, "stage": STAGES[node.kind]}
    if target:
        query["target"] = target
    blocks = {block.name: block for block in shown.flow.diagram.blocks}
    block = blocks[node.block]
    stack = block.within or block.name
    if shown.translation is not None and query["stage"] != "output":
        query["side"] = stack
    if block.kind == "layer":
        query["at_layer"] = str([one.name for one in shown.flow.diagram.layers(stack)].index(block.name))
        part = next((kind for kind in ("self", "cross", "feed_forward") if f".{kind}_" in f"{node.name}_"), None)
        if part and query["stage"] != "feed_forward":
            query["part"] = part
    return query
