"""Modules around torch.nn.Transformer and its encoder. The outputs are torch's own; the maps come from its attention.

`Around` and `Pair` are put together from named parts. A state_dict tells the names; `before` alone tells what acts
before the layers.
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
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


def declare(owner: nn.Module, parts: Parts) -> None:
    """Give `owner` the parts under their names, which may be dotted."""
    for name, part in parts.items():
        holder, *rest = name.split(".")
        if rest:
            if not hasattr(owner, holder):
                setattr(owner, holder, Original())
            declare(getattr(owner, holder), {".".join(rest): part})
        elif isinstance(part, Tensor):
            owner.register_buffer(name, part)
        else:
            setattr(owner, name, part)


def act(part: Any, x: Tensor) -> Tensor:
    """What a part makes of the states (batch, position, d_model): it adds a row by place, or is called."""
    if isinstance(part, Tensor | nn.Embedding):  # positions, or fewer rows than places: segments
        rows = part.reshape(-1, x.shape[2]) if isinstance(part, Tensor) else part.weight
        places = torch.arange(x.shape[1])
        return x + rows[places if len(rows) >= len(places) else places * len(rows) // len(places)].to(x.dtype)
    found: Tensor = part(x)
    return found


class Around(Original):
    """An embedding, parts `before` the layers, nn.TransformerEncoder's layers at `core`, perhaps scores.

    Without a table among the parts, `formula` adds the sinusoidal positions. Id 0 pads if `padded`.
    """

    def __init__(
        self, parts: Parts, before: Sequence[str] = (), *, scaled: bool = False, formula: bool = False,
        token: str = "embedding", core: str = "transformer_encoder", scores: str = "", causal: bool = False,
        padded: bool = False, along_batch: bool = False,
    ):  # fmt: skip
        super().__init__()
        declare(self, parts)
        self.before, self.scaled, self.formula, self.causal, self.padded = before, scaled, formula, causal, padded
        self.names, self.along_batch = (token, core, scores), along_batch

    @step_by_step()
    def forward(self, ids: Tensor) -> Maps:
        maps: Maps = {}
        token, layers, scores = (_part(self, name) for name in self.names)
        watch_layers(getattr(layers, "layers", layers), None, maps)
        x = token(ids) * (math.sqrt(token.embedding_dim) if self.scaled else 1)
        if self.formula:
            x = act(table(*x.shape[1:]), x)
        for name in self.before:
            turned = x.transpose(0, 1) if self.along_batch else x
            x = act(_part(self, name), turned)
            x = x.transpose(0, 1) if self.along_batch else x
        options = {"src_key_padding_mask": ids == 0} if self.padded else {}
        if self.causal:
            options["mask"] = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        hidden = layers(x, **options)
        if scores is None:
            return maps | {"hidden": hidden}
        if not self.causal:
            return maps | {"hidden": hidden, "logits": scores(hidden)}
        maps = {name.replace("encoder", "decoder"): weights for name, weights in maps.items()}
        return maps | {"log_probs": scores(hidden).log_softmax(-1)}


def encoder_only(vocab: int, n: int, d_model: int, h: int, d_ff: int) -> Around:
    """The published encoder-only net: layers in a plain list, positions along the batch."""
    layers = (nn.TransformerEncoderLayer(d_model, h, d_ff, 0.0, batch_first=True) for _ in range(n))
    parts: dict[str, Part] = {
        "embeding": nn.Embedding(vocab, d_model),
        "pos_encoder.pe": table(30, d_model)[:, None].float(),
        "transformer_encoder": nn.Sequential(*layers),
    }
    return Around(parts, ["pos_encoder.pe"], token="embeding", along_batch=True)


class Pair(Original):
    """Embeddings, positions and projection under any names around nn.Transformer; id 0 pads.

    `roles` gives the part that plays each role; without a table, the sinusoidal positions are added.
    """

    def __init__(self, parts: Parts, roles: Mapping[str, str], before: Sequence[str] = ()):
        super().__init__()
        declare(self, parts)
        self.roles, self.before = roles, before

    @step_by_step()
    def forward(self, source: Tensor, target: Tensor) -> Maps:
        maps: Maps = {}
        core = _part(self, self.roles["core"])
        watch_layers(core.encoder.layers, core.decoder.layers, maps)
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        read, padded = (self._read("source", source), self._read("target", target)), source == 0
        masks = {"src_key_padding_mask": padded, "memory_key_padding_mask": padded, "tgt_key_padding_mask": target == 0}
        hidden = core(*read, tgt_mask=future, **masks)
        return maps | {"log_probs": _part(self, self.roles["scores"])(hidden).log_softmax(-1)}

    def _read(self, side: str, ids: Tensor) -> Tensor:
        embedding = _part(self, self.roles[side])
        x = embedding(ids) * math.sqrt(embedding.embedding_dim)
        place = self.roles.get(f"{side}_positions")
        for part in (
            _part(self, place) if place else table(*x.shape[1:]),
            *(_part(self, name) for name in self.before),
        ):
            x = act(part, x)
        return x


def _part(owner: nn.Module, name: str) -> Any:
    """The part or table of this name; None without a name."""
    if not name:
        return None
    tensors = dict(owner.named_buffers())
    return tensors[name] if name in tensors else owner.get_submodule(name)


NAMES = ("src_embed", "tgt_embed", "transformer", "generator")


def translator(
    source: int, target: int, n: tuple[int, int], d_model: int, h: int, d_ff: int, *,
    names: Sequence[str] = NAMES, stored: str = "", **options: Any,
) -> Pair:  # fmt: skip
    """Embeddings, nn.Transformer, a projection; perhaps a table of positions of this name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's advice on its own fast path, which the maps do without
        core = nn.Transformer(d_model, h, *n, d_ff, 0.0, batch_first=True, **options)
    made = (nn.Embedding(source, d_model), nn.Embedding(target, d_model), core)
    parts: dict[str, Part] = dict(zip(names, made, strict=False))
    parts[names[3]] = nn.Linear(d_model, target, bias=options.get("bias", True))
    roles = dict(zip(("source", "target", "core", "scores"), names, strict=True))
    if stored:
        parts[stored] = table(40, d_model)[:, None].float()
        roles |= {"source_positions": stored, "target_positions": stored}
    return Pair(parts, roles)
