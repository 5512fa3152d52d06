"""One attention by itself: torch.nn.MultiheadAttention, or a module of one's own under the names that people use.

Its attention follows from vectors, which no file holds: they are drawn, or brought.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from transformer.checkpoint.foreign.layouts.base import Beside, Drawn, Fit, Source, Unit
from transformer.checkpoint.foreign.layouts.torch_bare import MEMORY_SEED, drawn_vectors
from transformer.checkpoint.foreign.questions import Answers, choice, heads_question
from transformer.checkpoint.safe.contents import Contents, Shape
from transformer.messages import Message
from transformer.models.vectors import VectorConfig

MOST = 12
"""A file of one attention holds at most so many tensors."""

PARTS = ("query", "key", "value")

APART = (
    ("q_proj", "k_proj", "v_proj"), ("query", "key", "value"), ("w_qs", "w_ks", "w_vs"), ("w_q", "w_k", "w_v"),
    ("W_q", "W_k", "W_v"), ("W_Q", "W_K", "W_V"), ("wq", "wk", "wv"), ("WQ", "WK", "WV"), ("q", "k", "v"),
    ("to_q", "to_k", "to_v"), ("q_linear", "k_linear", "v_linear"), ("fc_q", "fc_k", "fc_v"),
    ("W_query", "W_key", "W_value"), ("query_proj", "key_proj", "value_proj"), ("queries", "keys", "values"),
    ("linears.0", "linears.1", "linears.2"),
)  # fmt: skip
"""What the three maps are called where they are three."""

TOGETHER = ("in_proj", "qkv", "to_qkv", "qkv_proj")
"""What they are called where they are one, query first."""

OUTPUTS = (
    "out_proj", "o_proj", "fc", "w_o", "W_o", "W_O", "wo", "WO", "o", "out", "output", "proj", "to_out", "to_out.0",
    "fc_o", "fc_out", "w_concat", "dense", "output_proj", "linears.3",
)  # fmt: skip


class LoneAttention:
    """A file that holds one attention and nothing else."""

    name = "attention"
    title: str = Message("title_attention")

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Heads are asked, and whether what looks is what is looked at, where both are as wide.

        Where keys and values are made of vectors of two widths, what is read is both side by side.
        """
        shapes = contents.shapes
        parts = _maps(shapes) if len(shapes) <= MOST else None
        if parts is None:
            return None
        root, maps = parts
        if not all(name.startswith(root) for name in shapes):
            return None
        rows, d_model = shapes[maps["query"].weight]
        rows //= maps["query"].parts
        read, given = (shapes[maps[part].weight][1] for part in ("key", "value"))
        d_memory = read if read == given else read + given
        n_heads = answers.ask(heads_question(rows))
        values = shapes[maps["value"].weight][0] // maps["value"].parts
        output = next((f"{root}{name}" for name in OUTPUTS if f"{root}{name}.weight" in shapes), None)
        own = read == given == d_model and (
            choice(answers, "attends", ("itself", "another"), Message("why_attends")) == "itself"
        )
        biased = any(name.endswith("bias") for name in shapes)
        count, seed = drawn_vectors(answers)
        config = VectorConfig(
            kind="attention" if own else "cross",
            source_vocab=count,
            target_vocab=count,
            d_model=d_model,
            n_heads=n_heads,
            d_k=0 if rows == values == d_model else rows // n_heads,
            d_v=0 if rows == values == d_model else values // n_heads,
            attention_bias=biased,
            causal=own and choice(answers, "causal", (False, True), Message("why_alone")),
            d_memory=0 if d_memory == d_model else d_memory,
        )
        sources: dict[str, Source] = {"source": Drawn(None, seed=seed)}
        if not own:
            sources["target"] = Drawn(None, seed=seed + MEMORY_SEED)
        for part, one in maps.items():
            sources[f"attention.{part}.weight"] = Source(one.weight, one.part, one.parts)
            if read != given and part != "query":
                first = 0 if part == "key" else read
                sources[f"attention.{part}.weight"] = Beside(one.weight, first=first, width=shapes[one.weight][1])
            there = one.bias in shapes
            if biased:
                place = (one.bias_part, one.bias_parts) if there else ()
                sources[f"attention.{part}.bias"] = Source(one.bias if there else None, *place)
        sources["attention.output.weight"] = Source(f"{output}.weight") if output else Unit(None)
        if biased:
            with_bias = output is not None and f"{output}.bias" in shapes
            sources["attention.output.bias"] = Source(f"{output}.bias" if with_bias else None)
        assumed = (Message("assumed_vectors", count=count, seed=seed),)
        norm = [name for name in shapes if name.startswith(f"{root}layer_norm.")]
        after = dict.fromkeys(norm, Message("ignored_after_attention"))
        reasons = [Message("reason_attention")]
        if read == given != d_model:
            reasons.append(Message("reason_memory_width", width=d_memory))
        if read != given:
            reasons.append(Message("reason_keys_beside_values", keys=read, values=given))
        return Fit("vectors", config, sources, tuple(reasons), ignored=after, assumed=assumed)

    def typical_names(self) -> Iterable[str]:
        """Those of torch.nn.MultiheadAttention."""
        return ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]


@dataclass(frozen=True)
class _Map:
    """Where the weight and the bias of one map stand; each is one of so many blocks of rows."""

    weight: str
    bias: str
    part: int = 0
    parts: int = 1
    bias_part: int = 0
    bias_parts: int = 1


def _maps(shapes: Mapping[str, Shape]) -> tuple[str, dict[str, _Map]] | None:
    """The maps to queries, keys and values, and what all names begin with; None where the names are others."""
    matrices = [name for name, shape in shapes.items() if len(shape) == 2]
    for name in matrices:
        for one in TOGETHER:
            for weight, bias in ((f"{one}.weight", f"{one}.bias"), (f"{one}_weight", f"{one}_bias")):
                root = name.removesuffix(weight)
                if root != name and _is_root(root) and shapes[name][0] == 3 * shapes[name][1]:
                    maps = {p: _Map(name, f"{root}{bias}", i, 3, i, 3) for i, p in enumerate(PARTS)}
                    return root, maps
        root = name.removesuffix("q_proj_weight")  # torch's own, where keys or values are not as wide as queries
        if root != name and _is_root(root) and all(f"{root}{one}_proj_weight" in shapes for one in "qkv"):
            bias, apart = f"{root}in_proj_bias", zip(PARTS, "qkv", strict=True)
            return root, {p: _Map(f"{root}{o}_proj_weight", bias, 0, 1, i, 3) for i, (p, o) in enumerate(apart)}
        for names in APART:
            root = name.removesuffix(f"{names[0]}.weight")
            if root != name and _is_root(root) and all(f"{root}{one}.weight" in shapes for one in names):
                parts = zip(PARTS, names, strict=True)
                return root, {part: _Map(f"{root}{one}.weight", f"{root}{one}.bias") for part, one in parts}
    return None


def _is_root(start: str) -> bool:
    """Whether a name goes on with a whole word after `start`."""
    return not start or start.endswith(".")
