"""Pages in Markdown as tests read them: their code, their headings, their links."""

import re
from pathlib import Path

from tests.imports import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
"""Everything that is written for readers."""


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def without_code(text: str) -> str:
    """A page without its code, in blocks or in lines."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


MODEL = """
import torch
from torch import nn

tokens = "the cat sat".split()
my_model = model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2).eval()
x = torch.randn(1, len(tokens), 32)
"""
"""What a reader has before a page's code: a model of their own, its input, labels."""


def notebook_names() -> dict[str, object]:
    """Names that code of a page may use without making them."""
    names: dict[str, object] = {"__name__": "page"}
    exec(MODEL, names)
    return names
