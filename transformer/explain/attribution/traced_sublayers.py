"""Attention sub-layers of other libraries' models, found by what runs and believed only where their parts add up.

One pass through a twin of the model is watched. The values of each attention are recorded; the projection after it is
the module that reads what its heads gave on; the residual is what was added to the projection's answer before the next
module read it, and either what the attention read (the norm comes after the sum) or what the norm before it read. Then
everything is put together from these parts (Kobayashi et al. 2021, equations 5 to 8) and compared with what the model
computed: where it differs, the model is refused by name.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.attention.capture import Recording, recording
from transformer.attention.softmax_inputs import AttentionInputs, Weights
from transformer.errors import NotDefinedError
from transformer.explain.attribution.decomposed_sublayer import DecomposedSublayer, linear_part, shift
from transformer.messages import Message
from transformer.nn.common import share_weights_clone
from transformer.nn.masks import Mask
from transformer.nn.norms import deviation
from transformer.nn.protocols import Attending
from transformer.sites import Site

TOLERANCES = {torch.float64: 1e-9}
"""How far parts may miss the model's own numbers, as a share of the largest: by what the weights are held as."""

USUAL_TOLERANCE = 1e-4


@dataclass
class _Call:
    """What one attention read and what came of it, filled in while the pass runs."""

    read: Tensor
    before: Tensor | None
    block: "_Block"
    projection: nn.Module | None = None
    projected: Tensor | None = None
    after: nn.Module | None = None
    total: Tensor | None = None
    norm_last: bool = False
    normed: Tensor | None = None


@dataclass
class _Block:
    """One layer as it was called, and what it ended with."""

    module: nn.Module
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    output: Tensor | None = None

    def __call__(self, count: int) -> Tensor:
        """Run it again, `count` times in one batch."""

        def wide(given: Any) -> Any:
            states = isinstance(given, Tensor) and given.dim() == 3 and len(given) == 1
            return given.expand(count, -1, -1) if states else given

        options = {name: wide(given) for name, given in self.options.items()}
        return _first(self.module(*(wide(given) for given in self.inputs), **options))


@dataclass(frozen=True, eq=False)
class TracedSublayer(DecomposedSublayer):
    """One attention sub-layer of another library's model, as it ran."""

    name: str
    softmax: AttentionInputs | Weights
    values: Float[Tensor, "key_head key d_v"]
    call: _Call

    @property
    def shape(self) -> tuple[int, int]:
        """Queries, keys."""
        return self.softmax.n_queries, self.softmax.n_keys

    @property
    def constant(self) -> Float[Tensor, " d_model"]:
        """What the output projection makes of nothing."""
        return self._projected(self._flat(1))[0].double()

    @property
    def norm(self) -> nn.Module | None:
        """The norm after the sum, where it comes there."""
        return self.call.after if self.call.norm_last else None

    @property
    def output(self) -> Float[Tensor, "query d_model"]:
        """What the model itself computed."""
        found = self.call.normed if self.call.norm_last else self.call.total
        return cast(Tensor, found).reshape(self.x.shape)

    def weights(self) -> Float[Tensor, "head query key"]:
        """Attention weights; each row of each head sums to 1."""
        rows, keys = slice(0, self.softmax.n_queries), slice(0, self.softmax.n_keys)
        return torch.stack([self.softmax.weights(0, head, rows, keys) for head in range(self.softmax.n_heads)])

    def given(self) -> Float[Tensor, "head key d_model"]:
        """What each key would give through each head with a weight of 1, without the projection's bias."""
        nothing, found = self.constant, []
        d_v = self.values.shape[2]
        for head in range(self.softmax.n_heads):
            alone = self._flat(self.shape[1])
            alone[:, head * d_v : (head + 1) * d_v] = self._values_of(head)
            found.append(self._projected(alone).double() - nothing)
        return torch.stack(found)

    def changed(self, keys: Sequence[int]) -> Float[Tensor, "key query d_model"]:
        """What the whole layer ends with where the values of one of `keys` are zero in every head, for each of them."""
        return self._again(torch.stack([self._taken(key) for key in keys]))

    def clean(self) -> Float[Tensor, "query d_model"]:
        """What the whole layer ends with.

        Raises:
            AttributionError: run again by itself, it ends with something else.
        """
        output = cast(Tensor, self.call.block.output)[0]
        nothing = self.x.new_zeros(1, self.shape[0], self._flat(1).shape[1])
        try:
            same = _apart(self._again(nothing)[0], output) <= _tolerance(output)
        except RuntimeError:  # a layer that keeps what it read reads it twice
            same = False
        if not same:
            raise NotDefinedError("attribution_layer_alone", name=self.name, site=self.site)
        return output

    def _again(self, less: Float[Tensor, "key query features"]) -> Float[Tensor, "key query d_model"]:
        """Run the layer with something taken from what its heads give on."""
        projection = cast(nn.Module, self.call.projection)
        hook = projection.register_forward_pre_hook(lambda _, inputs: (inputs[0] - less.view_as(inputs[0]),))
        try:
            return self.call.block(len(less)).view(len(less), *self.x.shape)
        finally:
            hook.remove()

    def _taken(self, key: int) -> Float[Tensor, "query features"]:
        """What one key adds to what the heads give on."""
        rows = slice(0, self.shape[0])
        each = [
            self.softmax.weights(0, head, rows, slice(0, self.shape[1]))[:, key, None] * self._values_of(head)[key]
            for head in range(self.softmax.n_heads)
        ]
        return torch.cat(each, dim=1)

    def _values_of(self, head: int) -> Float[Tensor, "key d_v"]:
        """The values that a head mixes, which neighbours may share (Ainslie et al. 2023)."""
        return self.values[head // (self.softmax.n_heads // len(self.values))]

    def _flat(self, n: int) -> Float[Tensor, "row features"]:
        return self.values.new_zeros(n, self.softmax.n_heads * self.values.shape[2])

    def _projected(self, x: Float[Tensor, "row features"]) -> Float[Tensor, "row d_model"]:
        found: Tensor = cast(nn.Module, self.call.projection)(x[None])
        return found[0]


@torch.no_grad()
def traced(name: str, model: Attending, *inputs: Tensor) -> dict[Site, TracedSublayer]:
    """Every attention sub-layer of one run on one text, by site, in the order in which they ran.

    Raises:
        AttributionError: its attention, its projection or its residual are not to be found, or what they add up is not
            what the model computed.
    """
    twin: Any = share_weights_clone(cast(nn.Module, model))
    sites: Mapping[Site, nn.Module] = twin.attending()
    if not sites:
        raise NotDefinedError("attribution_not_followed", name=name, reason=Message("follow_no_values"))
    watcher = _Watcher(sites)
    with recording(mixing=True) as seen, watcher.hooked(twin, seen):
        twin(*inputs)
    found = {}
    for site in sites:
        found[site] = _checked(name, site, watcher.calls.get(site), seen)
    return found


def _checked(name: str, site: Site, call: _Call | None, seen: Recording) -> TracedSublayer:
    """A sub-layer, once its parts add up to what ran."""
    mixed = seen.mixed(site)
    if call is None or len(mixed) != 1:
        raise NotDefinedError("attribution_not_followed", name=name, reason=Message("follow_no_values_of", site=site))
    softmax = seen.source(site)
    if call.projection is None or not isinstance(softmax, AttentionInputs | Weights):
        raise NotDefinedError("attribution_not_followed", name=name, reason=Message("follow_no_projection", site=site))
    if call.total is None:
        raise NotDefinedError("attribution_not_followed", name=name, reason=Message("follow_no_residual", site=site))
    carried = call.read if call.norm_last else cast(Tensor, call.before)
    x = carried.reshape(-1, carried.shape[-1])
    found = TracedSublayer(site, x, softmax.mask or Mask(), name, softmax, mixed[0].values[0], call)
    total = torch.einsum("htj,hjd->td", found.weights().double(), found.given()) + found.constant + x.double()
    if found.norm is not None:
        total = linear_part(found.norm, total, deviation(found.norm, total)) + shift(found.norm)
    if _apart(total, found.output) > _tolerance(found.output):
        raise NotDefinedError("attribution_not_followed", name=name, reason=Message("follow_other_sum", site=site))
    return found


class _Watcher:
    """What the hooks of one pass find, by site."""

    def __init__(self, sites: Mapping[Site, nn.Module]) -> None:
        self.calls: dict[Site, _Call] = {}
        self._site_of = {module: site for site, module in sites.items()}
        self._recent: list[tuple[Tensor, Tensor]] = []
        self._made_since: list[Tensor] = []
        self._open: Site | None = None
        self._block: _Block | None = None

    @contextmanager
    def hooked(self, twin: nn.Module, seen: Recording) -> Iterator[None]:
        """Hooks on every layer, every attention and every module without parts of its own."""
        hooks = []
        for block in _blocks(twin, self._site_of):
            hooks.append(block.register_forward_pre_hook(self._enters_block, with_kwargs=True))
            hooks.append(block.register_forward_hook(self._leaves_block))
        hooks += [m.register_forward_pre_hook(self._enters_attention, with_kwargs=True) for m in self._site_of]
        for module in twin.modules():
            if not any(True for _ in module.children()):
                hooks.append(module.register_forward_pre_hook(self._reads(seen)))
                hooks.append(module.register_forward_hook(self._made))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _enters_block(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        self._block = _Block(module, inputs, options)

    def _leaves_block(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if self._block is None or self._block.module is not module:
            return
        self._block.output = _first(output)
        call = None if self._open is None else self.calls[self._open]
        if call is not None and call.block is self._block and call.total is None:
            self._ends_beside(call, self._block.output)

    def _ends_beside(self, call: _Call, output: Tensor) -> None:
        """Find the residual of a layer whose net reads beside its attention (GPT-J, GPT-NeoX, Falcon, Phi).

        No module reads that sum: it counts where it and what another module made are what the layer ends with.
        """
        if call.before is None or call.projected is None or call.before.numel() != call.projected.numel():
            return
        total = call.projected.reshape(-1) + call.before.reshape(-1)
        beside = (made for made in reversed(self._made_since) if made.numel() == total.numel())
        if any(_apart(total + made.reshape(-1), output.reshape(-1)) <= _tolerance(output) for made in beside):
            call.total = total.view_as(call.before)

    def _enters_attention(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        read = next((x for x in (*inputs, options.get("hidden_states")) if isinstance(x, Tensor)), None)
        if read is None or self._block is None:
            return
        before = next((given for given, made in reversed(self._recent) if _same(made, read)), None)
        self._open = self._site_of[module]
        self.calls[self._open] = _Call(read, before, self._block)
        self._recent.clear()
        self._made_since.clear()

    def _reads(self, seen: Recording) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def reads(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            call = None if self._open is None else self.calls[self._open]
            if call is None or not inputs or not isinstance(inputs[0], Tensor):
                return
            given = inputs[0]
            if call.projection is None:
                mixed = seen.mixed(cast(Site, self._open))
                if mixed and _weight_axes(module) == 2 and _same(given, mixed[-1].output.transpose(1, 2).flatten(2)):
                    call.projection = module
            elif call.projected is not None and call.total is None and given.numel() == call.projected.numel():
                for carried, last in ((call.read, True), (call.before, False)):
                    if carried is not None and _is_sum(given, call.projected, carried):
                        call.total, call.after = given, module
                        call.norm_last = last and _weight_axes(module) == 1
                        if last and not call.norm_last:
                            call.before = carried  # no norm at all
                        return

        return reads

    def _made(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if not inputs or not isinstance(inputs[0], Tensor) or not isinstance(output, Tensor):
            return
        call = None if self._open is None else self.calls[self._open]
        if call is not None and module is call.projection and call.projected is None:
            call.projected = output
        elif call is not None and module is call.after and call.normed is None:
            call.normed = output
        if call is not None and output is not call.projected:
            self._made_since.append(output.clone())  # some add to it in place
        if inputs[0].shape == output.shape:
            self._recent.append((inputs[0], output))


def _blocks(twin: nn.Module, attending: Mapping[nn.Module, Site]) -> list[nn.Module]:
    """The layers: of each attention the outermost member of a list of modules that it lies in."""
    names = dict(twin.named_modules())
    found = dict[nn.Module, None]()
    for name, module in names.items():
        if module in attending:
            parts = name.split(".")
            above = [".".join(parts[:i]) for i in range(1, len(parts) + 1)]
            lists = [inner for outer, inner in pairwise(above) if isinstance(names[outer], nn.ModuleList)]
            found |= {names[inner]: None for inner in lists[:1]}
    return list(found)


def _first(output: Any) -> Tensor:
    """The states that a layer ends with; some give more beside."""
    found: Tensor = output if isinstance(output, Tensor) else output[0]
    return found


def _weight_axes(module: nn.Module) -> int:
    """2 of a linear map, 1 of a norm, 0 of what has no weights."""
    weight = getattr(module, "weight", None)
    return weight.dim() if isinstance(weight, Tensor) else 0


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same numbers, in whatever shape."""
    return one is other or (one.numel() == other.numel() and torch.equal(one.reshape(-1), other.reshape(-1)))


def _is_sum(total: Tensor, one: Tensor, other: Tensor) -> bool:
    """Whether a residual was added: the sum is near, where rounding may differ."""
    if one.numel() != other.numel():
        return False
    return _apart(one.reshape(-1) + other.reshape(-1), total.reshape(-1)) <= _tolerance(total)


def _apart(found: Tensor, real: Tensor) -> float:
    """The largest difference as a share of the largest number; 0 where there are none that are finite."""
    apart, largest = (found.double() - real.double()).abs(), real.double().abs()
    known = apart.isfinite()
    if not bool(known.any()):
        return 0.0
    return float(apart[known].max() / largest[known].max().clamp(min=torch.finfo(torch.float64).tiny))


def _tolerance(real: Tensor) -> float:
    return TOLERANCES.get(real.dtype, USUAL_TOLERANCE)
