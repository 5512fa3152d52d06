"""The sentences that a component's scripts say, in the language of the context, their fields still to be filled."""

from functools import cache
from string import Formatter

from transformer.messages import catalogue, language, speaking, words

EVERYWHERE = "canvas"
"""How the codes of sentences begin that every component says which draws a picture."""

DECIDED = {"bitext", "head_view", "heatmap"}
"""Components that show what decided a word; they say the sentences whose codes begin with `decided_`."""


def sentences(component: str) -> dict[str, str]:
    """A component's sentences by their codes without its name: `words.hint` in head_view's scripts is `head_view_hint`.

    Fields stay as they are written, such as `{count}`: the browser fills them.
    """
    return dict(_sentences(component, language()))


@cache
def _sentences(component: str, spoken: str) -> dict[str, str]:
    found = {}
    with speaking(spoken):
        for code, text in catalogue("en").items():
            for prefix in (f"{component}_", f"{EVERYWHERE}_", *(["decided_"] if component in DECIDED else ())):
                if code.startswith(prefix):
                    fields = {name: f"{{{name}}}" for _, name, _, _ in Formatter().parse(text) if name}
                    found[code.removeprefix(prefix)] = words(code, **fields)
    return found
