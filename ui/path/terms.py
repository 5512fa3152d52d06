"""The glossary's names for the script that underlines them in captions."""

import json
from pathlib import Path

from transformer.messages import LANGUAGES
from transformer.teaching.data import terms
from ui.texts import in_language


def script() -> str:
    """`terms.js` with the terms by their names in every language."""
    names = {in_language(code, f"glossary.{name}").lower(): name for code in LANGUAGES for name in terms()}
    text = (Path(__file__).parent / "terms.js").read_text(encoding="utf-8")
    return text.replace("/* names */ {}", json.dumps(names, ensure_ascii=True))
