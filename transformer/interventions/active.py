"""What the caller has asked for: it belongs to its context (a thread or a task), and nothing stays behind."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from transformer.errors import InputError
from transformer.interventions.value import Intervention
from transformer.sites import Site

MeanOutputs = Mapping[Site, Float[Tensor, "head d_v"]]
"""The mean output of each head over a reference set."""


@dataclass
class Active:
    """The interventions of one caller, by site; `ran` are the sites that have run meanwhile."""

    interventions: tuple[Intervention, ...]
    ran: set[Site] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._by_site: dict[Site, tuple[Intervention, ...]] = {}
        for one in self.interventions:
            self._by_site[one.place] = (*self._by_site.get(one.place, ()), one)

    @property
    def sites(self) -> tuple[Site, ...]:
        """Sites that are changed."""
        return tuple(self._by_site)

    def at(self, site: Site) -> tuple[Intervention, ...]:
        """What is done at a site, which runs now."""
        self.ran.add(site)
        return self._by_site.get(site, ())


_active: ContextVar[Active | None] = ContextVar("interventions", default=None)
_means: ContextVar[MeanOutputs | None] = ContextVar("mean outputs", default=None)


@contextmanager
def intervening(interventions: Iterable[Intervention]) -> Iterator[None]:
    """Change the attention of every watched model that this thread runs inside the block.

    Models that `load` returns are watched already; for others, call `watch` once. Sites that are not named keep the
    fused attention, and heads and rows that are not named their exact output. An inner block takes over, so an empty
    one runs unchanged; other threads do not notice, and nothing stays behind, also after an exception.

    Raises:
        InputError: at the end, where a model ran that has no such site.
    """
    every = tuple(interventions)
    active = Active(every) if every else None
    token = _active.set(active)
    try:
        yield
    finally:
        _active.reset(token)
    if active is not None and active.ran:
        refuse_unknown_sites(active.sites, active.ran)


def refuse_unknown_sites(sites: Iterable[Site], known: Iterable[Site]) -> None:
    """Refuse interventions at sites that a model does not have.

    Raises:
        InputError: names the first of them, and those that there are.
    """
    known = set(known)
    for site in sites:
        if site not in known:
            raise InputError("site_not_in_model", site=site, sites=tuple(sorted(known)))


def active() -> Active | None:
    """What the caller has asked for; None where nothing is changed."""
    return _active.get()


def interventions() -> tuple[Intervention, ...]:
    """The interventions of the caller, in order."""
    found = _active.get()
    return () if found is None else found.interventions


@contextmanager
def with_means(means: MeanOutputs | None) -> Iterator[None]:
    """Let `mean` without a value take its vectors from here: what belongs to the checkpoint that runs inside."""
    token = _means.set(means)
    try:
        yield
    finally:
        _means.reset(token)


def mean_outputs(site: Site) -> Float[Tensor, "head d_v"]:
    """The mean output of each head at a site.

    Raises:
        InputError: nothing that runs brings them.
    """
    means = _means.get()
    if means is None or site not in means:
        raise InputError("no_mean_outputs", site=site)
    return means[site]
