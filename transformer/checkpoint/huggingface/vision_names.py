"""Vision Transformers under the names of the transformers library: ViT and DeiT, of its fourth version and its fifth.

Sizes of patches and pictures follow from shapes: a table of positions is taken for a square of patches, where it can be
one. The pooler after the layers is not run; whatever else has no place here might act before them, and is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
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

PATCHES = "embeddings.patch_embeddings.projection"
POSITIONS = "embeddings.position_embeddings"
CLASS_ROW, DISTILLATION_ROW = "embeddings.cls_token", "embeddings.distillation_token"
LAST_NORM, POOLER, MASK = "layernorm", "pooler.", "embeddings.mask_token"


@dataclass(frozen=True)
class Stacked(Source):
    """Foreign rows of shape (1, 1, width), one under the other."""

    rows: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return self.rows

    def needs(self, ours: Shape) -> dict[str, Shape]:
        """Each is one of our rows."""
        return dict.fromkeys(self.rows, (1, 1, *ours[1:]))

    def take(self, tensors: Mapping[str, Tensor], ours: Shape) -> Tensor:
        """All of them."""
        return torch.cat([tensors[name][0] for name in self.rows])


@dataclass(frozen=True)
class _Names:
    """What one version of the library calls the parts of a layer, below `layers` and the layer's number."""

    layers: str
    qkv: tuple[str, str, str]
    output: str
    widen: str
    narrow: str


_VERSION_4 = _Names(
    layers="encoder.layer.",
    qkv=("attention.attention.query", "attention.attention.key", "attention.attention.value"),
    output="attention.output.dense",
    widen="intermediate.dense",
    narrow="output.dense",
)
_VERSION_5 = _Names(
    layers="layers.",
    qkv=("attention.q_proj", "attention.k_proj", "attention.v_proj"),
    output="attention.o_proj",
    widen="mlp.fc1",
    narrow="mlp.fc2",
)


class Vision:
    """A Vision Transformer under the names of one version."""

    title: str = Message("title_vit_library")

    def __init__(self, name: str, names: _Names) -> None:
        self.name, self.names = name, names

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Sizes from shapes; heads, and how pixels are normalised, are asked."""
        sign = self.names.layers.replace(".", r"\.") + r"\d+\.layernorm_before\.weight"
        root = root_of(contents.shapes, sign)
        if root is None or f"{root}{PATCHES}.weight" not in contents.shapes:
            return None
        return _Found(self.names, root, contents.shapes, answers).fit()


@dataclass
class _Found:
    """A file under the names of one version, and where its tensors go."""

    names: _Names
    root: str
    shapes: Mapping[str, Shape]
    answers: Answers
    sources: dict[str, Source] = field(default_factory=dict)

    def fit(self) -> Fit:
        """How the file becomes one of our models."""
        names, shapes, root = self.names, self.shapes, self.root
        patches = f"{root}{PATCHES}"
        d_model = size(shapes, (f"{patches}.weight", 0))
        n_layers = max(1, layer_count(shapes, f"{root}{names.layers}"))
        self.sources |= linear("patches", patches, has_bias=f"{patches}.bias" in shapes)
        self.sources |= linear("encoder_norm", f"{root}{LAST_NORM}")
        options = self._tokens() | self._head()
        for i in range(n_layers):
            self._layer(i)
        config = VisionConfig(
            patch=(size(shapes, (f"{patches}.weight", 2)), size(shapes, (f"{patches}.weight", 3))),
            n_channels=size(shapes, (f"{patches}.weight", 1)),
            d_model=d_model,
            n_heads=self.answers.ask(heads_question(d_model)),
            d_ff=size(shapes, (f"{root}{names.layers}0.{names.widen}.weight", 0)),
            n_layers=n_layers,
            norm_eps=norm_eps(self.answers, 1e-12),
            activation=choice(self.answers, "activation", ("gelu", "gelu_tanh", "relu"), Message("why_original")),
            **options,
            **self._pixels(size(shapes, (f"{patches}.weight", 1))),
        )
        height, width = config.picture
        reasons = (
            Message("reason_vision", count=n_layers, path=f"{root}{names.layers}"),
            Message("reason_picture", height=height, width=width, grid=f"{config.grid[0]} x {config.grid[1]}"),
        )
        ignored: dict[str, str] = {
            name: Message("ignored_after_layers") for name in shapes if name.startswith(f"{root}{POOLER}")
        }
        if f"{root}{MASK}" in shapes:
            ignored[f"{root}{MASK}"] = Message("ignored_mask_token")
        taken = {name for source in self.sources.values() for name in source.names} | ignored.keys()
        doubts = {name: Message("doubt_vision") for name in shapes if name not in taken}
        return Fit("vision", config, self.sources, reasons, ignored=ignored, doubts=doubts)

    def _tokens(self) -> dict[str, Any]:
        """The tokens before the patches, the positions, and how many patches there are in a row and a column."""
        rows = [f"{self.root}{CLASS_ROW}"]
        distilled = f"{self.root}{DISTILLATION_ROW}"
        if distilled in self.shapes:
            rows.append(distilled)
        self.sources["leading"] = Stacked(None, rows=tuple(rows))
        self.sources["positions"] = Source(f"{self.root}{POSITIONS}", extra_axis=0)
        n_patches = max(1, size(self.shapes, (f"{self.root}{POSITIONS}", 1)) - len(rows))
        in_column = self._rows(n_patches)
        return {"distillation_token": len(rows) > 1, "grid": (in_column, n_patches // in_column)}

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
        """The head over classes, if the file has one; DeiT has two, whose scores are averaged."""
        above = self.root.removesuffix("vit.").removesuffix("deit.")
        head, second = f"{above}classifier", f"{above}distillation_classifier"
        distilled = f"{above}cls_classifier.weight" in self.shapes
        head = f"{above}cls_classifier" if distilled else head
        if len(self.shapes.get(f"{head}.weight", ())) != 2:
            return {}
        self.sources |= linear("head.0", head, has_bias=f"{head}.bias" in self.shapes)
        if distilled:
            self.sources |= linear("distilled_head", second, has_bias=f"{second}.bias" in self.shapes)
        return {"head": (size(self.shapes, (f"{head}.weight", 0)),), "distilled_head": distilled}

    def _layer(self, i: int) -> None:
        """One layer."""
        names, ours, theirs = self.names, f"encoder.{i}", f"{self.root}{self.names.layers}{i}"
        for part, name in zip(("query", "key", "value"), names.qkv, strict=True):
            has_bias = f"{theirs}.{name}.bias" in self.shapes
            self.sources |= linear(f"{ours}.self_attention.{part}", f"{theirs}.{name}", has_bias=has_bias)
        self.sources |= linear(f"{ours}.self_attention.output", f"{theirs}.{names.output}")
        self.sources |= linear(f"{ours}.feed_forward.widen", f"{theirs}.{names.widen}")
        self.sources |= linear(f"{ours}.feed_forward.narrow", f"{theirs}.{names.narrow}")
        self.sources |= linear(f"{ours}.self_residual.norm", f"{theirs}.layernorm_before")
        self.sources |= linear(f"{ours}.feed_forward_residual.norm", f"{theirs}.layernorm_after")

    def _pixels(self, n_channels: int) -> dict[str, Any]:
        """How pixels are made numbers: by what the library's own code does, which no shape tells."""
        usual = "imagenet" if f"{self.root}{DISTILLATION_ROW}" in self.shapes else "half"
        order = (usual, *(name for name in NORMALISATIONS if name != usual))
        mean, deviation = NORMALISATIONS[choice(self.answers, "normalisation", order, Message("why_published"))]
        return {"mean": mean[:n_channels], "deviation": deviation[:n_channels]}


VISION = (Vision("vit", _VERSION_4), Vision("vit-new", _VERSION_5))
"""Both versions."""
