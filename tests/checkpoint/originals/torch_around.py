"""Modules around torch's layers, put together from named parts in any order of declaration.

A state_dict tells the order of declaration; the order of use is told by `before` and `after` alone.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from tests.checkpoint.originals.common import Maps, Original, table
from tests.checkpoint.originals.torch_modules import step_by_step, watch_layers

Part = nn.Module | nn.Parameter
Parts = Mapping[str, Part]
Use = Callable[[Part, Tensor], Tensor]


def declare(owner: nn.Module, parts: Parts) -> None:
    """Give `owner` the parts under their names, which may be dotted."""
    for name, part in parts.items():
        holder, *rest = name.split(".")
        if rest:
            if not hasattr(owner, holder):
                setattr(owner, holder, Original())
            declare(getattr(owner, holder), {".".join(rest): part})
        else:
            setattr(owner, name, part)


def act(part: Part, x: Tensor) -> Tensor:
    """What a part does to the states (batch, position, d_model)."""
    if isinstance(part, nn.Embedding):  # rows by place: positions, or segments of two halves
        rows = part.num_embeddings
        places = torch.arange(x.shape[1])
        return x + part(places if rows >= x.shape[1] else places * rows // x.shape[1])
    if isinstance(part, nn.Parameter):  # a token in front, a table that is added, or a scale
        if part.ndim == 3 and part.shape[1] == 1:
            return torch.cat([part.expand(len(x), 1, -1), x], 1)
        return x + part[:, : x.shape[1]] if part.ndim == 3 else x * part
    if isinstance(part, nn.Conv1d):
        return part(x.transpose(1, 2)).transpose(1, 2)
    if isinstance(part, nn.Linear) and part.out_features == 1:
        return x * torch.sigmoid(part(x))
    return part(x)


class Around(Original):
    """An embedding, parts before the layers, nn.TransformerEncoder's layers, parts after them."""

    def __init__(self, parts: Parts, before: Sequence[str], scaled: bool, positions: bool):
        super().__init__()
        declare(self, parts)
        self.use, self.scaled, self.formula = before, scaled, positions

    @step_by_step()
    def forward(self, ids: Tensor) -> Maps:
        maps: Maps = {}
        token, layers = self.get_submodule("token"), self.get_submodule("encoder")
        watch_layers(layers.layers, None, maps)
        x = token(ids) * (math.sqrt(token.embedding_dim) if self.scaled else 1)
        if self.formula:
            x = x + table(x.shape[1], x.shape[2]).to(x.dtype)
        for name in self.use:
            x = act(_part(self, name), x)
        layers(x)
        return maps


class Pair(Original):
    """Embeddings, learned positions and projection under any names and in any order around nn.Transformer."""

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
        hidden = core(self._read("source", source), self._read("target", target), tgt_mask=future)
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
        return x + _part(self, self.roles[f"{side}_positions"]).weight[: x.shape[1]]


def _part(owner: nn.Module, name: str) -> Part:
    parameters = dict(owner.named_parameters(remove_duplicate=False))
    return parameters[name] if name in parameters else owner.get_submodule(name)
