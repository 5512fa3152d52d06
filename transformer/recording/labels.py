"""Labels for the axes of a recording: by length, or by site."""

from collections.abc import Mapping, Sequence

from transformer.errors import RecordError
from transformer.messages import Message
from transformer.pictures.axes import Axis

Labels = Axis | Sequence[str]
"""What stands at each position."""

Given = Labels | Mapping[str, Labels] | None
"""Labels for every axis of their length, or by site."""

NAMES = {"queries": Message("axis_query"), "keys": Message("axis_key")}


class Labelling:
    """Which labels an axis of a site gets: those that were given for the site, else those of its length."""

    def __init__(self, queries: Given, keys: Given) -> None:
        self._by_site = {"queries": _by_site(queries), "keys": _by_site(keys)}
        both = {"queries": queries, "keys": keys}
        self._by_length = {
            what: _axis(what, given)
            for what, given in both.items()
            if given is not None and not isinstance(given, Mapping)
        }
        self._used: set[str] = set()
        self._lengths: set[int] = set()

    def axis(self, what: str, site: str, length: int) -> Axis:
        """The labels of a site's `queries` or `keys`; positions where none were given.

        Raises:
            RecordError: labels that were given for the site do not fit, or two lists of this length differ.
        """
        self._lengths.add(length)
        own = self._by_site[what].get(site)
        if own is not None:
            axis = _axis(what, own)
            if len(axis) != length:
                raise RecordError("labels_wrong_length", what=what, site=site, found=len(axis), needed=length)
            return axis
        fitting = {name: axis for name, axis in self._by_length.items() if len(axis) == length}
        if len({axis.texts for axis in fitting.values()}) > 1:
            raise RecordError("labels_ambiguous", what=what, site=site, count=length)
        self._used |= set(fitting)
        chosen = fitting.get(what) or next(iter(fitting.values()), None)
        return chosen if chosen is not None else Axis.of_tokens(NAMES[what], [str(i) for i in range(length)])

    def refuse_unused(self) -> None:
        """Refuse labels that no axis took.

        Raises:
            RecordError: names them, and the lengths that there are.
        """
        for what, axis in self._by_length.items():
            if what not in self._used:
                lengths = tuple(map(str, sorted(self._lengths)))
                raise RecordError("labels_fit_nothing", what=what, found=len(axis), lengths=lengths)


def _axis(what: str, labels: Labels) -> Axis:
    if isinstance(labels, Axis):
        return labels
    return Axis.of_pieces(NAMES[what], list(labels), [False] * len(labels))


def _by_site(given: Given) -> Mapping[str, Labels]:
    return given if isinstance(given, Mapping) else {}
