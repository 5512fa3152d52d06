"""What flows through a run: watched by hooks, which belong to the caller's context and do not change the run.

The hooks are on a clone that shares the model's weights, so the model itself runs as if nobody could look. They keep
references to what the run computed anyway; numbers, of the first row of a batch, are made when they are asked for.

The logit lens is what would be written if the model ended after a layer: its last norm and output layer, applied to
every state. Source: nostalgebraist 2020, "interpreting GPT: the logit lens"; here for decoders that read a source too,
and for classifiers (class probabilities by depth). The last row is the model's own output, exactly. The rows before it
assume that the output layer can read a state that was made for the next layer: where each layer norms its sum, a state
has been scaled already, and the note says so. A first token that a family forces is not forced here.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..errors import CheckpointError, RecordError
from ..messages import Message
from ..nn.blocks import AnnotatedLayerNorm, DecoderBlock, EncoderBlock, FeedForward, Residual, deviation
from ..nn.common import changed_context, run_context, share_weights_clone
from .diagram import architecture

Kind = Literal["sum", "norm", "net", "layer"]
"""What ran: a residual connection, a layer norm, a feed-forward net, or a layer."""


class Activation(NamedTuple):
    """One run of a module: what it read, and what came of it.

    Of a sum these are the state that passed by and what the sub-layer found, of a layer the states before and after it;
    of norms and nets `found` is None, since what they compute is computed anew when somebody asks.
    """

    kind: Kind
    module: nn.Module
    read: Tensor
    found: Tensor | None = None


M = TypeVar("M", bound=nn.Module)


@dataclass
class Trace:
    """Activations of a traced run, by the names of nodes and blocks in the model's diagram."""

    _kept: dict[str, list[Activation]] = field(default_factory=dict)

    def names(self, kind: Kind) -> tuple[str, ...]:
        """The places where something of this kind ran, in order."""
        return tuple(name for name, runs in self._kept.items() if runs[0].kind == kind)

    def at(self, name: str) -> Activation:
        """What was kept at a place.

        Raises:
            RecordError: nothing ran there, or more than once (stepwise decoding).
        """
        runs = self._kept.get(name, ())
        if not runs:
            raise RecordError("nothing_flowed", name=name, names=tuple(self._kept) or Message("nothing_ran"))
        if len(runs) > 1:
            raise RecordError("flowed_often", name=name, times=len(runs))
        return runs[0]

    def states(self, layers: Sequence[str]) -> list[Tensor]:
        """The state before the first of some layers, and after each of them."""
        return [self.at(layers[0]).read, *(cast(Tensor, self.at(name).found) for name in layers)]


@contextmanager
def tracing() -> Iterator[Trace]:
    """Keep the activations of every traceable model (`watch_flow`) that this thread runs inside the block.

    Other threads are not seen, and nothing stays behind, also after an exception.
    """
    seen = Trace()
    with changed_context(trace=seen):
        yield seen


KINDS: dict[Kind, tuple[type[nn.Module], ...]] = {
    "sum": (Residual,),
    "net": (FeedForward,),
    "norm": (nn.LayerNorm, AnnotatedLayerNorm),
    "layer": (EncoderBlock, DecoderBlock),
}
"""Modules of ours whose runs are worth keeping."""


def watch_flow(model: M, layers: Collection[str] = ()) -> M:
    """A copy of the model that shares its weights and can be traced; the model itself gets no hooks.

    `layers` are the names of modules that are layers of another library's model: of these the states are kept.
    """
    clone = share_weights_clone(model)
    for name, module in clone.named_modules():
        kind = next((kind for kind, types in KINDS.items() if isinstance(module, types)), None)
        if kind or name in layers:

            def observe(
                one: nn.Module, inputs: Any, named: Any, output: Any, name: str = name, kind: Kind = kind or "layer"
            ) -> None:
                seen: Trace | None = run_context().trace
                if seen is not None:
                    read, found = inputs[0] if inputs else named["hidden_states"], None  # as other libraries call it
                    if kind == "sum":
                        found = inputs[1].detach()
                    elif kind == "layer":
                        found = (output[0] if isinstance(output, tuple) else output).detach()
                    seen._kept.setdefault(name, []).append(Activation(kind, one, read.detach(), found))

            module.register_forward_hook(observe, with_kwargs=True)
    return clone


@dataclass(frozen=True, eq=False)
class Share:
    """What a sub-layer added against what was there, at each position: Euclidean lengths.

    `share` is found / (found + state), from 0 (the sub-layer did nothing) to 1 (only it counts). Lengths do not add
    up where the two point in different directions: it is a measure of size, not of direction.
    """

    state: Float[np.ndarray, " position"]
    found: Float[np.ndarray, " position"]

    @property
    def share(self) -> Float[np.ndarray, " position"]:
        """found / (found + state); 0 where both are 0."""
        total = self.found + self.state
        return np.divide(self.found, total, out=np.zeros_like(total), where=total > 0)


@dataclass(frozen=True, eq=False)
class Activity:
    """The hidden units of a feed-forward net at each position, after their activation.

    `active` is the share of units above zero; `units` the numbers of the strongest ones, strongest first, and `values`
    what they hold.
    """

    active: Float[np.ndarray, " position"]
    units: Int[np.ndarray, "position strongest"]
    values: Float[np.ndarray, "position strongest"]


def share(trace: Trace, name: str) -> Share:
    """What the sub-layer before the residual connection `name` added, or all of a layer, and what it was added to."""
    ran = trace.at(name)
    found = cast(Tensor, ran.found)
    added = found - ran.read if ran.kind == "layer" else found
    return Share(*(part[0].norm(dim=-1).double().numpy() for part in (ran.read, added)))


def scale(trace: Trace, name: str) -> Float[np.ndarray, " position"]:
    """What the layer norm `name` multiplied each centred position by, before its gain: one over its deviation.

    As the norm itself computes it: the root of (biased variance + eps), or the unbiased deviation + eps.
    """
    normed = trace.at(name)
    return (1 / deviation(normed.module, normed.read[0].double())[:, 0]).numpy()


def activity(trace: Trace, name: str, strongest: int = 5) -> Activity:
    """What the hidden units of the feed-forward net `name` did."""
    units = trace.at(name)
    with torch.inference_mode():
        hidden = cast(FeedForward, units.module).hidden(units.read[0])
    top = hidden.topk(min(strongest, hidden.shape[-1]), dim=-1)
    return Activity((hidden > 0).double().mean(-1).numpy(), top.indices.numpy(), top.values.double().numpy())


TOLERANCE = 1e-4
"""How far, against the largest, the last row of another library's model may differ from that model's own logits."""


@dataclass(frozen=True, eq=False)
class Lens:
    """Logit lens: the prediction read from the state after each layer; row 0 is before the first layer.

    `ids` and `probabilities` hold the likeliest outputs, likeliest first; `entropy` is in nats. `final` is what each
    position was given as its result (a written token, a class), `final_probabilities` what each layer thought of it.
    All are of logits divided by the temperature that was asked for.
    """

    ids: Int[np.ndarray, "layer position top"]
    probabilities: Float[np.ndarray, "layer position top"]
    entropy: Float[np.ndarray, "layer position"]
    final: Int[np.ndarray, " position"]
    final_probabilities: Float[np.ndarray, "layer position"]
    note: str = ""

    @property
    def leads(self) -> Bool[np.ndarray, "layer position"]:
        """Whether the final output is the likeliest in a row."""
        found: Bool[np.ndarray, "layer position"] = self.ids[..., 0] == self.final
        return found

    @property
    def leads_from(self) -> Int[np.ndarray, " position"]:
        """The row since which the final output is the likeliest; the number of rows where the last row has another."""
        return since(self.leads)


def since(leads: Bool[np.ndarray, "row *rest"]) -> Int[np.ndarray, "*rest"]:
    """The row from which on all rows are True; the number of rows where the last one is not."""
    lost = ~leads[::-1]
    return np.where(lost.any(0), len(leads) - lost.argmax(0), 0)


def lens(
    model: Any,
    source: Int[Tensor, "1 source"],
    target: Int[Tensor, "1 target"] | None = None,
    written: Sequence[int] | None = None,
    top: int = 10,
    temperature: float = 1.0,
) -> Lens:
    """Run the model once on ids and apply its output layer to the state after every layer (logit lens).

    `target` is what a decoder reads beside a source; `written` are the outputs to follow, one a position, by default
    the likeliest ones of the last row. Logits are divided by `temperature`: give that of a calibrated classifier's task
    (`model.task.temperature`) to have its own probabilities.

    Raises:
        CheckpointError: the model has no layers (a recurrent net), no output layer (an encoder alone), or one that
            cannot be taken apart from the rest.
    """
    diagram = architecture(model)
    layers = diagram.layers("decoder" if target is not None or diagram.kind == "decoder" else "encoder")
    if not layers:
        raise CheckpointError("lens_needs_layers", family=diagram.family)
    if diagram["output"].form == "states":
        has_head = bool(getattr(model.config, "head", ""))
        raise CheckpointError("lens_head_apart" if has_head else "lens_needs_output", family=diagram.family)
    clone = watch_flow(model, layers)
    ran = _after(clone, layers)
    with torch.inference_mode(), tracing() as seen:
        output = clone(source) if target is None else clone(source, target)
        after = list(ran)
        states = seen.states(layers)
        if hasattr(model, "early_scores"):
            is_normed, found = diagram.norms == "before", [model.early_scores(state, source) for state in states]
        else:
            is_normed, found = len(after) > 1, _read(states, after, output, diagram.family)
        logits = torch.stack([row[0] for row in found])
    if logits.dim() == 2:  # one output for the whole input
        logits = logits[:, None]
    return _looked_at(logits / temperature, written, top, "" if is_normed else Message("lens_norm_after"))


def _after(clone: nn.Module, layers: Sequence[str]) -> list[nn.Module]:
    """What runs after the last layer, once the clone has run, in that order: norms and the output layer."""
    inside = {id(module) for layer in layers for module in clone.get_submodule(layer).modules()}
    ran: list[nn.Module] = []
    for module in clone.modules():
        if id(module) not in inside and any(True for _ in module.parameters(recurse=False)):
            module.register_forward_hook(lambda one, *_: ran.append(one))
    clone.get_submodule(layers[-1]).register_forward_hook(lambda *_: ran.clear())
    return ran


def _read(states: Sequence[Tensor], after: Sequence[nn.Module], output: Tensor, family: str) -> list[Tensor]:
    """States of another library's model through all that runs `after` its layers, times the factor of its own logits.

    Raises:
        CheckpointError: its own logits are not such a multiple, so something else stands between.
    """
    found = list(states)
    for module in after:
        found = [module(one) for one in found]
    free = output.isfinite().all(-1)  # not where a first token is forced
    ours, real = found[-1][free], output[free]
    factor = float((ours * real).sum() / (ours**2).sum())
    if float((ours * factor - real).abs().max()) > TOLERANCE * float(real.abs().max()):
        raise CheckpointError("lens_is_not_exact", family=family)
    return [one * factor for one in found]


def _looked_at(
    logits: Float[Tensor, "layer position output"], written: Sequence[int] | None, top: int, note: str
) -> Lens:
    log_probs = logits.double().log_softmax(-1)
    probabilities = log_probs.exp()
    likeliest = probabilities.topk(min(top, probabilities.shape[-1]), dim=-1)
    final = likeliest.indices[-1, :, 0] if written is None else torch.tensor(written)
    chosen = probabilities.gather(-1, final[None, :, None].expand(len(probabilities), -1, 1))[..., 0]
    return Lens(
        likeliest.indices.numpy(),
        likeliest.values.numpy(),
        -(probabilities * log_probs.nan_to_num(neginf=0.0)).sum(-1).numpy(),
        final.numpy(),
        chosen.numpy(),
        note,
    )
