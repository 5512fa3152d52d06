"""Modules around torch.nn.Transformer and its layers. The outputs are torch's own; the maps come from its attention.

`Around` and `Pair` are put together from named parts in any order of declaration. A state_dict tells that order; the
order of use is told by `before` alone.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tests.checkpoint.originals.common import Maps, Original, table


def keep_weights(module: nn.Module, maps: Maps, name: str) -> None:
    """Make one torch attention keep its weights by head under `name`."""
    run = module.forward

    def watched(*args, **kwargs):
        output, weights = run(*args, **(kwargs | {"need_weights": True, "average_attn_weights": False}))
        maps[name] = weights
        return output, weights

    module.forward = watched


@contextmanager
def step_by_step() -> Iterator[None]:
    """torch's fast path skips the attention modules, so no weights could be seen."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def watch_layers(encoder: Any, decoder: Any, maps: Maps) -> None:
    for i, layer in enumerate(encoder):
        keep_weights(layer.self_attn, maps, f"encoder.{i}.self")
    for i, layer in enumerate(decoder or ()):
        keep_weights(layer.self_attn, maps, f"decoder.{i}.self")
        keep_weights(layer.multihead_attn, maps, f"decoder.{i}.cross")


Part = nn.Module | Tensor
Parts = Mapping[str, Part]
Outputs = Callable[[Tensor, Tensor], Maps]


def declare(owner: nn.Module, parts: Parts) -> None:
    """Give `owner` the parts under their names, which may be dotted."""
    for name, part in parts.items():
        holder, *rest = name.split(".")
        if rest:
            if not hasattr(owner, holder):
                setattr(owner, holder, Original())
            declare(getattr(owner, holder), {".".join(rest): part})
        elif isinstance(part, Tensor) and not isinstance(part, nn.Parameter):
            owner.register_buffer(name, part)
        else:
            setattr(owner, name, part)


def act(part: Part, x: Tensor) -> Tensor:
    """What a part does to the states (batch, position, d_model)."""
    if isinstance(part, nn.Embedding):  # rows by place: positions, or segments of two halves
        rows = part.num_embeddings
        places = torch.arange(x.shape[1])
        return x + part(places if rows >= x.shape[1] else places * rows // x.shape[1])
    if isinstance(part, Tensor):  # a token in front, a table that is added along the batch or the text, or a scale
        if part.shape[:2] == (1, 1):
            return torch.cat([part.expand(len(x), 1, -1), x], 1)
        return x * part if part.ndim < 3 else x + (part[: len(x)] if part.shape[1] == 1 else part[:, : x.shape[1]])
    if isinstance(part, nn.Conv1d):
        return part(x.transpose(1, 2)).transpose(1, 2)
    if isinstance(part, nn.Linear) and part.out_features == 1:
        return x * torch.sigmoid(part(x))
    return part(x)


class Around(Original):
    """An embedding, parts before the layers, nn.TransformerEncoder's layers, parts after them.

    `outputs` makes what the model ends with of the hidden states and of which ids are real, where id 0 pads.
    """

    def __init__(
        self, parts: Parts, before: Sequence[str], scaled: bool, positions: bool, *,
        token: str = "token", encoder: str = "encoder", padded: bool = False, causal: bool = False,
        outputs: Outputs | None = None,
    ):  # fmt: skip
        super().__init__()
        declare(self, parts)
        self.use, self.scaled, self.formula, self.padded, self.outputs = before, scaled, positions, padded, outputs
        self.names, self.causal = (token, encoder), causal

    @step_by_step()
    def forward(self, ids: Tensor) -> Maps:
        maps: Maps = {}
        token, layers = map(self.get_submodule, self.names)
        watch_layers(getattr(layers, "layers", layers), None, maps)
        x = token(ids) * (math.sqrt(token.embedding_dim) if self.scaled else 1)
        if self.formula:
            x = x + table(x.shape[1], x.shape[2]).to(x.dtype)
        for name in self.use:
            x = act(_part(self, name), x)
        options = {"src_key_padding_mask": ids == 0} if self.padded else {}
        if self.causal:
            options["mask"] = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        hidden = layers(x, **options)
        if self.causal:
            maps = {name.replace("encoder", "decoder"): weights for name, weights in maps.items()}
        return maps if self.outputs is None else maps | self.outputs(hidden, ids != 0)


def encoder_only(vocab: int, n: int, d_model: int, h: int, d_ff: int) -> Around:
    """The published encoder-only net: layers in a plain list, positions along the batch."""
    layers = (nn.TransformerEncoderLayer(d_model, h, d_ff, 0.0, batch_first=True) for _ in range(n))
    parts: dict[str, Part] = {
        "embeding": nn.Embedding(vocab, d_model),
        "pos_encoder.pe": table(30, d_model)[:, None].float(),
    }
    parts["transformer_encoder"] = nn.Sequential(*layers)
    names = {"token": "embeding", "encoder": "transformer_encoder"}
    return Around(parts, ["pos_encoder.pe"], False, False, **names, outputs=lambda hidden, _: {"hidden": hidden})


READS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": lambda row, real: row[real].mean(0),
    "last": lambda row, real: row[real][-1],
    "first": lambda row, real: row[0],
    "each": lambda row, real: row,
}
"""What a head reads of one text's states, and of which of its tokens are real."""


def classifier(vocab: int, n: int, d_model: int, h: int, d_ff: int, norm_first: bool, reads: str = "mean") -> Around:
    """A module around nn.TransformerEncoder, with a template layer left over and a head after it."""
    layer = nn.TransformerEncoderLayer(d_model, h, d_ff, 0.0, "gelu", batch_first=True, norm_first=norm_first)
    layers = nn.TransformerEncoder(layer, n, nn.LayerNorm(d_model), enable_nested_tensor=False)
    head = nn.Linear(d_model, 3)
    parts: dict[str, Part] = {
        "word_embedding": nn.Embedding(vocab, d_model),
        "position_embedding": nn.Embedding(30, d_model),
    }
    parts |= {"one_layer": layer, "backbone": layers, "head": head}

    def outputs(hidden: Tensor, real: Tensor) -> Maps:
        read = torch.stack([READS[reads](*row) for row in zip(hidden, real, strict=True)])
        return {"hidden": hidden, "logits": head(read)}

    names = {"token": "word_embedding", "encoder": "backbone"}
    return Around(parts, ["position_embedding"], False, False, **names, padded=True, outputs=outputs)


class Pair(Original):
    """Embeddings, positions and projection under any names and in any order around nn.Transformer; id 0 pads."""

    def __init__(self, parts: Parts, roles: Mapping[str, str], before: Sequence[str] = ()):
        super().__init__()
        declare(self, parts)
        self.roles, self.before = roles, before

    @step_by_step()
    def forward(self, source: Tensor, target: Tensor) -> Maps:
        maps: Maps = {}
        core = self.get_submodule(self.roles["core"])
        watch_layers(core.encoder.layers, core.decoder.layers, maps)
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        read, padded = (self._read("source", source), self._read("target", target)), source == 0
        masks = {"src_key_padding_mask": padded, "memory_key_padding_mask": padded, "tgt_key_padding_mask": target == 0}
        hidden = core(*read, tgt_mask=future, **masks)
        scores = _part(self, self.roles["projection"])
        logits = hidden @ scores.weight.T + (scores.bias if getattr(scores, "bias", None) is not None else 0)
        return maps | {"log_probs": logits.log_softmax(-1)}

    def _read(self, side: str, ids: Tensor) -> Tensor:
        embedding = _part(self, self.roles[f"{side}_embedding"])
        x = embedding(ids) * math.sqrt(embedding.embedding_dim)
        for name in self.before:
            x = act(_part(self, name), x)
        if f"{side}_positions" not in self.roles:
            return x + table(x.shape[1], x.shape[2]).to(x.dtype)
        rows = _part(self, self.roles[f"{side}_positions"])
        return x + (rows[:, 0].to(x.dtype) if isinstance(rows, Tensor) else rows.weight)[: x.shape[1]]


def _part(owner: nn.Module, name: str) -> Any:
    tensors = {**dict(owner.named_parameters(remove_duplicate=False)), **dict(owner.named_buffers())}
    return tensors[name] if name in tensors else owner.get_submodule(name)


def translator(
    source: int, target: int, n: tuple[int, int], d_model: int, h: int, d_ff: int, *,
    names: Sequence[str] = ("src_embed", "tgt_embed", "transformer", "generator"), stored: bool = False, **options: Any,
) -> Pair:  # fmt: skip
    """Embeddings (one where both have one name), nn.Transformer, a projection; perhaps a table of positions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's advice on its own fast path, which the maps do without
        core = nn.Transformer(d_model, h, *n, d_ff, 0.0, batch_first=True, **options)
    made = (nn.Embedding(source, d_model), nn.Embedding(target, d_model), core)
    parts: dict[str, Part] = dict(zip(reversed(names[:3]), reversed(made), strict=True))
    parts[names[3]] = nn.Linear(d_model, target, bias=options.get("bias", True))
    roles = dict(zip(("source_embedding", "target_embedding", "core", "projection"), names, strict=True))
    if stored:
        parts["pos_embedding"] = table(40, d_model)[:, None].float()
        roles |= {"source_positions": "pos_embedding", "target_positions": "pos_embedding"}
    return Pair(parts, roles)
