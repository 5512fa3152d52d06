"""Which heads a head view draws: the one that is chosen, or those that were switched on in it, kept in the address."""

from ui.shared.address import belong_to, parameter, set_parameter, whole_numbers

HEADS, NONE = "heads", "none"
"""The query parameter of the heads that are on where that is not the chosen one alone, and its word for no head."""


def belong_to_head(site: str, head: int | str) -> None:
    """Say in every run which head is chosen: another one is drawn alone again."""
    belong_to((site, head), HEADS)


def active_heads(chosen: int, count: int) -> list[int]:
    """The heads that are on, of so many."""
    found = parameter(HEADS) or ""
    heads = () if found == NONE else whole_numbers(found, ",")
    return [chosen] if heads is None or any(head >= count for head in heads) else sorted(set(heads))


def switch_heads(chosen: int, heads: list[int]) -> None:
    """Keep which heads were switched on."""
    set_parameter(HEADS, None if heads == [chosen] else ",".join(map(str, heads)) or NONE)
