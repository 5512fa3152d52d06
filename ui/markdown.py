"""Text in the midst of Markdown: what a file, a name or an address says is shown letter by letter.

Streamlit reads Markdown in labels, captions, messages and tooltips. Unescaped, the name of a tensor could make the
reader's browser fetch an image from anywhere, or place a link in one of the dashboard's own sentences.
"""

import re

JOINER = "\u2060"
"""A word joiner: no width, and no line break; it parts what Streamlit looks for in text that is escaped already."""

_SPACE = re.compile(r"[\t\n\v\f\r \x85\u2028\u2029]+")
_SPECIAL = re.compile(r"[\\`*_\[\]<>#|~$&]|:(?=[\w:])")
_BLOCK = re.compile(r"^([-+=])|^(\d{1,9})([.)])")
_FOUND_IN_TEXT = re.compile(
    r"""
    (?<=:)(?=//|material/|streamlit:|[\w+-]+:)        # addresses, icons, the logo, emoji
    | (?<=www)(?=\.)                                  # addresses without a protocol
    | (?<=@)                                          # addresses of mail
    | (?<=[<>~])(?==) | (?<=-)(?=[->]) | (?<=<)(?=-)  # arrows, dashes and signs that are drawn as one
    """,
    re.VERBOSE | re.IGNORECASE,
)


def as_text(text: object) -> str:
    """Markdown that shows `text` as it is: no emphasis, formula, directive, icon, entity, link or image comes of it.

    White space becomes single spaces, as a browser shows it, and none at the ends; a word joiner, which has no width,
    parts web and mail addresses, icons and emoji, which Streamlit looks for even in escaped text.
    """
    line = _FOUND_IN_TEXT.sub(JOINER, _SPACE.sub(" ", str(text)).strip())
    return _BLOCK.sub(r"\1\2\\\3" if line[:1].isdigit() else r"\\\1", _SPECIAL.sub(r"\\\g<0>", line))


def as_code(text: object) -> str:
    """What stands between two backticks to show `text` in a row of code; a backtick in it becomes an apostrophe."""
    return _SPACE.sub(" ", str(text)).replace("`", "'").replace(":material/", f":{JOINER}material/")
