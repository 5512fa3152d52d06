"""The sites of a recording: paths of modules, numbered where one attends more than once, heads of a list as one."""

from collections.abc import Mapping, Sequence

from transformer.attention.recording.calls import Attention, Chain, side_by_side
from transformer.sites import Site


def named(chains: Mapping[str, Sequence[Chain]]) -> dict[Site, Attention]:
    """The calls by site: steps joined, heads side by side; `#1`, `#2` where one module attends more than once."""
    found: dict[str, Attention] = {}
    for path, several in chains.items():
        for i, each in enumerate(several):
            found[path if len(several) == 1 else f"{path}#{i + 1}"] = each.whole()
    return _grouped(found)


def _grouped(found: dict[str, Attention]) -> dict[Site, Attention]:
    """One map where several modules of a list are a head each."""
    groups: dict[tuple[str, object], list[tuple[int, str]]] = {}
    for name, call in found.items():
        path, mark, number = name.partition("#")
        if call.source.n_heads != 1:
            continue
        for inside in call.inside:
            container, _, index = inside.path.rpartition(".")
            if inside.side is not None:
                rest = path.removeprefix(inside.path)
                key = (container + rest + mark + number, inside.side)
                groups.setdefault(key, []).append((int(index), name))
    site_of: dict[str, str] = {}
    members: dict[str, list[str]] = {}
    for (site, _), heads in groups.items():
        shapes = {(found[name].source.n_queries, found[name].source.n_keys) for _, name in heads}
        if len(heads) > 1 and len(shapes) == 1 and site not in found and not any(name in site_of for _, name in heads):
            members[site] = [name for _, name in sorted(heads)]
            site_of.update({name: site for _, name in heads})
    result: dict[Site, Attention] = {}
    for name, call in found.items():
        site = site_of.get(name, name)
        if Site(site) not in result:
            result[Site(site)] = side_by_side([found[one] for one in members[site]]) if site in members else call
    return result


def places_in_lists(path: str) -> Sequence[tuple[str, str, int]]:
    """The ways to read a path as a head of a list: what stands before its number, behind it, and the number."""
    parts = path.split(".")
    return [
        (".".join(parts[:i]), "".join(f".{part}" for part in parts[i + 1 :]), int(part))
        for i, part in enumerate(parts)
        if i and part.isdigit()
    ]
