"""What the caller has asked for: it belongs to its context (a thread or a task), and nothing stays behind."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from transformer.attention.interventions.value import Intervention
from transformer.errors import InputError
from transformer.messages import Message
from transformer.nn.run_context import changed_context, run_context
from transformer.sites import Site


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


@contextmanager
def intervening(interventions: Iterable[Intervention]) -> Iterator[None]:
    """Change the attention of every watched model that this thread runs inside the block.

    Models that `load` returns are watched already; for others, call `watch` once. Sites that are not named keep the
    fused attention, and heads and rows that are not named their exact output. An inner block takes over, so an empty
    one runs unchanged; other threads do not notice, and nothing stays behind, also after an exception.

    Raises:
        InputError: at the end, where no watched model ran, or one that has no such site. An exception of the block
            goes on instead, with a note where no watched model ran.
    """
    every = tuple(interventions)
    active = Active(every) if every else None
    with changed_context(interventions=active):
        try:
            yield
        except Exception as error:
            if active is not None and not active.ran:
                error.add_note(Message("nothing_watched_ran"))
            raise
    if active is not None:
        if not active.ran:
            raise InputError("nothing_watched_ran")
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
    found: Active | None = run_context().interventions
    return found


def asked_at(site: Site) -> tuple[Intervention, ...]:
    """What the caller has asked for at a site, which runs now."""
    found = active()
    return () if found is None else found.at(site)


def interventions() -> tuple[Intervention, ...]:
    """The interventions of the caller, in order."""
    found = active()
    return () if found is None else found.interventions
