"""Vision Transformers without their config: under timm's names, torchvision's, or those of the transformers library.

timm's are those of DeiT, DINO, DINOv2 and MAE too. Sizes of patches and pictures follow from shapes: a table of
positions is taken for a square of patches, where it can be one. What stands after the layers and is no head (a
projection, a decoder that paints) is not run; whatever else has no place here might act before them, and is refused.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from transformer.checkpoint.foreign.layouts.base import Fit, Source, layer_count, linear, root_of, size
from transformer.checkpoint.foreign.questions import Answers, Question, choice, heads_question, norm_eps
from transformer.checkpoint.safe.contents import Contents, Shape
from transformer.messages import Message
from transformer.models.vision import VisionConfig

NORMALISATIONS: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "none": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
}
"""What is taken from a channel between 0 and 1, and what it is divided by then: of red, green and blue."""

WIDE_HEADS = {1280: 16, 1408: 16, 1664: 16}
"""Heads of the largest published models (ViT-H, g and G) by their width: these have more than 64 numbers a head."""


@dataclass(frozen=True)
class Stacked(Source):
    """Foreign tables of `counts` rows each, one under the other, each with an axis of length 1 before its rows."""

    tables: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return self.tables

    def needs(self, ours: Shape) -> dict[str, Shape]:
        """Each with its own number of rows."""
        return {name: (1, count, *ours[1:]) for name, count in zip(self.tables, self.counts, strict=True)}

    def take(self, tensors: Mapping[str, Tensor], ours: Shape) -> Tensor:
        """All of them; without any, a table of no rows."""
        return torch.cat([tensors[name][0] for name in self.tables]) if self.tables else torch.zeros(ours)


@dataclass(frozen=True)
class _Names:
    """What one library calls the parts of a model, below its root; those of a layer below `layers` and a number.

    `qkv` are one map (weight and bias) of three parts, or three maps. `gains` are the scales of a layer's two parts.
    """

    sign: str
    layers: str
    patches: str
    positions: str
    class_row: str
    qkv: tuple[tuple[str, str], ...]
    output: str
    norms: tuple[str, str]
    widen: str
    narrow: str
    last_norm: str
    head: str
    distilled_head: str = ""
    distillation_row: str = ""
    registers: str = ""
    first_norm: str = ""
    head_norm: str = ""
    hidden: str = ""
    gains: tuple[tuple[str, str], ...] = ()
    head_in_root: bool = True
    after: str = ""
    unused: tuple[str, ...] = ()
    eps: float = 1e-6
    normalisation: str = "half"
    crop: float = 0.9


TIMM_NAMES = _Names(
    sign=r"blocks\.\d+\.attn\.qkv\.weight",
    layers="blocks.",
    patches="patch_embed.proj",
    positions="pos_embed",
    class_row="cls_token",
    distillation_row="dist_token",
    registers="reg_token",
    qkv=(("attn.qkv.weight", "attn.qkv.bias"),),
    output="attn.proj",
    norms=("norm1", "norm2"),
    widen="mlp.fc1",
    narrow="mlp.fc2",
    gains=(("ls1.gamma", "ls2.gamma"), ("gamma_1", "gamma_2")),
    first_norm="norm_pre",
    last_norm="norm",
    head_norm="fc_norm",
    head="head",
    distilled_head="head_dist",
    hidden="pre_logits.fc",
    after=r"head\.\w+\..*|attn_pool\..*|decoder_(?:embed|blocks|norm|pred)\..*|decoder_pos_embed",
    unused=("mask_token",),
)
TORCHVISION_NAMES = _Names(
    sign=r"encoder\.layers\.encoder_layer_\d+\.self_attention\.in_proj_weight",
    layers="encoder.layers.encoder_layer_",
    patches="conv_proj",
    positions="encoder.pos_embedding",
    class_row="class_token",
    qkv=(("self_attention.in_proj_weight", "self_attention.in_proj_bias"),),
    output="self_attention.out_proj",
    norms=("ln_1", "ln_2"),
    widen="mlp.0",
    narrow="mlp.3",
    last_norm="encoder.ln",
    head="heads.head",
    hidden="heads.pre_logits",
    normalisation="imagenet",
    crop=0.875,
)
OLD_TORCHVISION_NAMES = replace(
    TORCHVISION_NAMES,
    sign=r"encoder\.layers\.encoder_layer_\d+\.mlp\.linear_1\.weight",
    widen="mlp.linear_1",
    narrow="mlp.linear_2",
)
LIBRARY_NAMES = _Names(
    sign=r"encoder\.layer\.\d+\.layernorm_before\.weight",
    layers="encoder.layer.",
    patches="embeddings.patch_embeddings.projection",
    positions="embeddings.position_embeddings",
    class_row="embeddings.cls_token",
    distillation_row="embeddings.distillation_token",
    qkv=tuple(
        (f"attention.attention.{part}.weight", f"attention.attention.{part}.bias") for part in ("query", "key", "value")
    ),
    output="attention.output.dense",
    norms=("layernorm_before", "layernorm_after"),
    widen="intermediate.dense",
    narrow="output.dense",
    last_norm="layernorm",
    head="classifier",
    head_in_root=False,
    after=r"pooler\..*",
    unused=("embeddings.mask_token",),
    eps=1e-12,
    crop=1.0,
)
NEW_LIBRARY_NAMES = replace(
    LIBRARY_NAMES,
    sign=r"layers\.\d+\.layernorm_before\.weight",
    layers="layers.",
    qkv=tuple((f"attention.{part}_proj.weight", f"attention.{part}_proj.bias") for part in "qkv"),
    output="attention.o_proj",
    widen="mlp.fc1",
    narrow="mlp.fc2",
)


class Vision:
    """A Vision Transformer under the names of one library."""

    def __init__(self, name: str, title: str, names: _Names) -> None:
        self.name, self.title, self.names = name, title, names

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Sizes from shapes; heads, and how pixels are normalised, are asked."""
        root = root_of(contents.shapes, self.names.sign)
        if root is None or f"{root}{self.names.patches}.weight" not in contents.shapes:
            return None
        return _Found(self.names, root, contents.shapes, answers).fit()

    def typical_names(self) -> Iterable[str]:
        """The names of a model with one layer."""
        names = self.names
        parts = (names.output, *names.norms, names.widen, names.narrow)
        maps = [*(f"{names.layers}0.{part}" for part in parts), names.patches, names.last_norm, names.head]
        vectors = [*(f"{names.layers}0.{one}" for pair in names.qkv for one in pair), names.positions]
        return [*vectors, names.class_row, *(f"{one}.{kind}" for one in maps for kind in ("weight", "bias"))]


@dataclass
class _Found:
    """A file under the names of one library, and where its tensors go."""

    names: _Names
    root: str
    shapes: Mapping[str, Shape]
    answers: Answers
    sources: dict[str, Source] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)

    def fit(self) -> Fit:
        """How the file becomes one of our models."""
        names, shapes = self.names, self.shapes
        patches = self._full(names.patches)
        d_model = size(shapes, (f"{patches}.weight", 0))
        n_layers = max(1, layer_count(shapes, self._full(names.layers)))
        self.reasons.append(Message("reason_vision", count=n_layers, path=self._full(names.layers)))
        self.sources |= linear("patches", patches, has_bias=self._has(f"{names.patches}.bias"))
        options = self._tokens() | self._head()
        for i in range(n_layers):
            self._layer(i)
        question = heads_question(d_model)
        if d_model in WIDE_HEADS:
            question = replace(question, default=WIDE_HEADS[d_model])
        patch = (size(shapes, (f"{patches}.weight", 2)), size(shapes, (f"{patches}.weight", 3)))
        config = VisionConfig(
            patch=patch,
            n_channels=size(shapes, (f"{patches}.weight", 1)),
            d_model=d_model,
            n_heads=self.answers.ask(question),
            d_ff=size(shapes, (self._full(f"{names.layers}0.{names.widen}.weight"), 0)),
            n_layers=n_layers,
            norm_eps=norm_eps(self.answers, 1e-5 if self._has(f"{names.first_norm}.weight") else names.eps),
            activation=choice(self.answers, "activation", ("gelu", "gelu_tanh", "relu"), Message("why_original")),
            gain=any(self._has(f"{names.layers}0.{first}") for first, _ in names.gains),
            **self._normed("norm_after_embedding", "embedding_norm", names.first_norm),
            **self._normed("norm_after_stack", "encoder_norm", names.last_norm),
            **options,
            **self._pixels(size(shapes, (f"{patches}.weight", 1))),
        )
        height, width = config.picture
        grid = f"{config.grid[0]} x {config.grid[1]}"
        self.reasons.append(Message("reason_picture", height=height, width=width, grid=grid))
        self.ignored |= {
            name: Message("ignored_after_layers")
            for name in shapes
            if names.after and re.fullmatch(rf"(?:{names.after})", name.removeprefix(self.root))
        }
        self.ignored |= {self._full(name): Message("ignored_mask_token") for name in names.unused if self._has(name)}
        taken = {name for source in self.sources.values() for name in source.names} | self.ignored.keys()
        doubts = {name: Message("doubt_vision") for name in shapes if name not in taken}
        return Fit("vision", config, self.sources, tuple(self.reasons), ignored=self.ignored, doubts=doubts)

    def _full(self, name: str) -> str:
        return f"{self.root}{name}"

    def _has(self, name: str) -> bool:
        return bool(name) and self._full(name) in self.shapes

    def _normed(self, option: str, ours: str, theirs: str) -> dict[str, Any]:
        """Whether there is a norm."""
        there = self._has(f"{theirs}.weight")
        if there:
            self.sources |= linear(ours, self._full(theirs))
        return {option: there}

    def _tokens(self) -> dict[str, Any]:
        """The tokens before the patches, the positions, and how many patches there are in a row and a column."""
        names, shapes = self.names, self.shapes
        tables = {
            self._full(name): size(shapes, (self._full(name), 1))
            for name in (names.class_row, names.distillation_row, names.registers)
            if self._has(name)
        }
        has_class, has_distilled = self._has(names.class_row), self._has(names.distillation_row)
        n_leading = sum(tables.values())
        self.sources["leading"] = Stacked(None, tables=tuple(tables), counts=tuple(tables.values()))
        self.sources["positions"] = Source(self._full(names.positions), extra_axis=0)
        n_rows = size(shapes, (self._full(names.positions), 1))
        placed = self._placed(n_rows, {"all": n_leading, "class": int(has_class), "none": 0})
        n_patches = max(1, n_rows - {"all": n_leading, "class": int(has_class), "none": 0}[placed])
        rows = self._rows(n_patches)
        return {
            "class_token": has_class,
            "distillation_token": has_distilled,
            "n_registers": n_leading - has_class - has_distilled,
            "placed": placed,
            "grid": (rows, n_patches // rows),
        }

    def _placed(self, n_rows: int, counts: Mapping[str, int]) -> str:
        """Which tokens before the patches have a position: what leaves a square; asked where that is open."""
        options = [name for i, (name, count) in enumerate(counts.items()) if count not in list(counts.values())[:i]]
        options = [name for name in options if counts[name] < n_rows] or ["all"]
        square = [name for name in options if math.isqrt(n_rows - counts[name]) ** 2 == n_rows - counts[name]]
        if len(options) == 1 or len(square) == 1:
            usual = (square or options)[0]
            order = (usual, *(name for name in options if name != usual))
            question = Question("placed", Message("question_placed"), usual, order, Message("why_square"), rare=True)
            told: str = self.answers.ask(question)
            return told
        first = square or options
        order = (*first, *(name for name in options if name not in first))
        found: str = choice(self.answers, "placed", order, Message("why_most_common"))
        return found

    def _rows(self, n_patches: int) -> int:
        """Patches in a column: a square where that can be."""
        divisors = tuple(n for n in range(1, n_patches + 1) if n_patches % n == 0)
        usual = max(n for n in divisors if n * n <= n_patches)
        is_square = usual * usual == n_patches
        why = Message("why_square") if is_square else Message("why_nearest_square")
        text = Message("question_grid_rows", count=n_patches)
        found: int = self.answers.ask(Question("grid_rows", text, usual, divisors, why, rare=is_square))
        return found

    def _head(self) -> dict[str, Any]:
        """The head: what it reads, and its widths; none where the file has no map to classes."""
        names, shapes = self.names, self.shapes
        prefix = self.root if names.head_in_root else self.root.removesuffix("vit.").removesuffix("deit.")
        distilled = bool(names.distilled_head) and self._has(f"{names.distilled_head}.weight")
        head, second = f"{prefix}{names.head}", f"{prefix}{names.distilled_head}"
        if f"{prefix}cls_classifier.weight" in shapes and not names.head_in_root:  # DeiT with its two heads
            head, second, distilled = f"{prefix}cls_classifier", f"{prefix}distillation_classifier", True
        pools = any(name.startswith(self._full("attn_pool.")) for name in shapes)
        if pools or len(shapes.get(f"{head}.weight", ())) != 2:
            parts = (head, second, self._full(names.head_norm), self._full(names.hidden))
            after = [name for name in shapes if name.startswith(tuple(f"{part}." for part in parts if part))]
            self.ignored |= dict.fromkeys(after, Message("ignored_after_layers"))
            return {}
        maps = [*([self._full(names.hidden)] if self._has(f"{names.hidden}.weight") else []), head]
        for i, name in enumerate(maps):
            self.sources |= linear(f"head.{i}", name, has_bias=f"{name}.bias" in shapes)
        if distilled:
            self.sources |= linear("distilled_head", second, has_bias=f"{second}.bias" in shapes)
        normed = self._normed("head_norm", "head_norm", names.head_norm)
        found: dict[str, Any] = {"head": tuple(size(shapes, (f"{name}.weight", 0)) for name in maps)}
        if not self._has(names.class_row):
            return found | normed | {"head_reads": "mean", "distilled_head": distilled}
        order = ("mean", "first") if normed["head_norm"] else ("first", "mean")
        reads = choice(self.answers, "head_reads", order, Message("why_published"), after_attention=True)
        return found | normed | {"head_reads": reads, "distilled_head": distilled}

    def _layer(self, i: int) -> None:
        """One layer."""
        names, ours = self.names, f"encoder.{i}"
        theirs = f"{self.root}{names.layers}{i}"
        parts = len(names.qkv)
        for number, part in enumerate(("query", "key", "value")):
            weight, bias = names.qkv[number % parts]
            cut: dict[str, Any] = {"part": number, "parts": 3} if parts == 1 else {}
            there = f"{theirs}.{bias}" in self.shapes
            self.sources[f"{ours}.self_attention.{part}.weight"] = Source(f"{theirs}.{weight}", **cut)
            self.sources[f"{ours}.self_attention.{part}.bias"] = Source(f"{theirs}.{bias}" if there else None, **cut)
        gains = next((pair for pair in names.gains if f"{theirs}.{pair[0]}" in self.shapes), ())
        for part, gain in zip(("self_residual", "feed_forward_residual"), gains, strict=False):
            self.sources[f"{ours}.{part}.gain"] = Source(f"{theirs}.{gain}")
        self.sources |= linear(f"{ours}.self_attention.output", f"{theirs}.{names.output}")
        self.sources |= linear(f"{ours}.feed_forward.narrow", f"{theirs}.{names.narrow}")
        self.sources |= linear(f"{ours}.self_residual.norm", f"{theirs}.{names.norms[0]}")
        self.sources |= linear(f"{ours}.feed_forward.widen", f"{theirs}.{names.widen}")
        self.sources |= linear(f"{ours}.feed_forward_residual.norm", f"{theirs}.{names.norms[1]}")

    def _pixels(self, n_channels: int) -> dict[str, Any]:
        """How pixels are made numbers: by what the library's own code does, which no shape tells."""
        usual = self.names.normalisation
        if self._has(self.names.distillation_row) or self._has(f"{self.names.layers}0.ls1.gamma"):
            usual = "imagenet"  # DeiT, DINOv2
        order = (usual, *(name for name in NORMALISATIONS if name != usual))
        mean, deviation = NORMALISATIONS[choice(self.answers, "normalisation", order, Message("why_published"))]
        text = Message("question_crop")
        shares = dict.fromkeys((self.names.crop, 0.875, 0.9, 1.0))
        crop = self.answers.ask(
            Question("crop", text, self.names.crop, tuple(shares), Message("why_original"), rare=True)
        )
        return {"mean": mean[:n_channels], "deviation": deviation[:n_channels], "crop": crop}


TIMM = Vision("vit-timm", Message("title_vit_timm"), TIMM_NAMES)
TORCHVISION = Vision("vit-torchvision", Message("title_vit_torchvision"), TORCHVISION_NAMES)
OLD_TORCHVISION = Vision("vit-torchvision-old", Message("title_vit_torchvision"), OLD_TORCHVISION_NAMES)
LIBRARY = Vision("vit", Message("title_vit_library"), LIBRARY_NAMES)
NEW_LIBRARY = Vision("vit-new", Message("title_vit_library"), NEW_LIBRARY_NAMES)

VISION = (TIMM, TORCHVISION, OLD_TORCHVISION, LIBRARY, NEW_LIBRARY)
"""All of them."""
