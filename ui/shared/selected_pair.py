"""The selected pair of tokens: one query and one key, the same in every view, kept in the address by kind and words."""

from transformer.pictures.picture import Picture
from ui.shared.address import parameter, set_parameter, whole_numbers

PAIR = "pair"
"""The query parameter: kind of attention, label of the query, label of the key. Older addresses hold two positions."""


def pair(kind: str, picture: Picture) -> tuple[int, int] | None:
    """The selected (query, key), if it is one of this kind, between words that this picture has."""
    found = parameter(PAIR) or ""
    named, _, words = found.partition(":")
    if named == kind:
        queries = {label: place for place, label in enumerate(picture.queries.labels)}
        keys = {label: place for place, label in enumerate(picture.keys.labels)}
        parts = words.split("|")
        for cut in range(1, len(parts)):  # a word may hold the sign itself
            place = queries.get("|".join(parts[:cut])), keys.get("|".join(parts[cut:]))
            if place[0] is not None and place[1] is not None:
                return place[0], place[1]
    numbers = whole_numbers(found, "-")
    if numbers is None or len(numbers) != 2:
        return None
    return (numbers[0], numbers[1]) if numbers[0] < len(picture.queries) and numbers[1] < len(picture.keys) else None


def kept_pair(kind: str, picture: Picture) -> tuple[int, int] | None:
    """The selected pair; one that this picture does not have is forgotten, and an old address gets the words."""
    found = pair(kind, picture)
    set_parameter(PAIR, None if found is None else _words(kind, picture, *found))
    return found


def select_pair(kind: str, picture: Picture, query: int, key: int) -> None:
    """Mark a pair in every view; marking it again takes the mark away."""
    again = pair(kind, picture) == (query, key)
    set_parameter(PAIR, None if again else _words(kind, picture, query, key))


def forget_pair() -> None:
    """Mark nothing."""
    set_parameter(PAIR, None)


def _words(kind: str, picture: Picture, query: int, key: int) -> str:
    return f"{kind}:{picture.queries.labels[query]}|{picture.keys.labels[key]}"
