"""The lessons' LaTeX in plain characters, for canvases, files and saved pictures."""

import re

_PLAIN = (
    (r"(?<= )\{((?:[^{}]|\{[^{}]*\})*)\}", r"\1"),
    (r"\\(begin|end)\{cases\}", ""),
    (r"\\text\{([^{}]*)\}", r"\1"),
    (r"\\underbrace\{\\cdots\}_\{\d+\}", "…"),
    (r"\\\\", ";"),
    (r"\^\\top", "ᵀ"),
    (r"&", " "),
    (r"\\hat (\w)", "\\1\u0302"),
    (r"\\tilde (\w)", "\\1\u0303"),
    (r"\\(?:,|quad|enspace)", " "),
    (r"\\(?:!|left|right)(?![a-z])", ""),
    (r"\\mathrm\{([^{}]*)\}", r"\1"),
    (r"\\wedge", "∧"),
    (r"\\le\b", "≤"),
    (r"\\bar (\w)", "\\1\u0304"),
    (r"\\big/", "/"),
    (r"\\cdot", "·"),
    (r",? *\\qquad", ","),
    (r"\\approx", "≈"),
    (r"\\infty", "∞"),
    (r"\\sum_", "Σ_"),
    (r"\\max_k", "max_k"),
    (r"\\(max|ln|log)", r"\1"),
    (r"\\operatorname\{erf\}", "erf"),
    (r"\\mathbf\{1\}", "1"),
    (r"\\ell", "\N{SCRIPT SMALL L}"),
    (r"\\(tanh|cos)", r"\1"),
    (r"\\gamma", "\N{GREEK SMALL LETTER GAMMA}"),
    (r"\\beta", "β"),
    (r"\\mu", "μ"),
    (r"\\sigma", "\N{GREEK SMALL LETTER SIGMA}"),
    (r"\\epsilon", "ε"),
    (r"\\delta", "δ"),
    (r"\\Delta", "Δ"),
    (r"\\rho", "\N{GREEK SMALL LETTER RHO}"),
    (r"\\Sigma", "Σ"),
    (r"\\Omega", "Ω"),
    (r"\^2", "²"),
)
"""What stands for what, in this order."""

_FRACTION = re.compile(r"\\frac\{((?:[^{}]|\{[^{}]*\})*)\}\{((?:[^{}]|\{[^{}]*\})*)\}")
_ROOT = re.compile(r"\\sqrt\{((?:[^{}]|\{[^{}]*\})*)\}")


def readable(latex: str) -> str:
    """A symbol, a formula or an equation in plain characters; `_` and `^` stay, and mark what is set lower or higher.

    `W^Q_0` stays as it is, a fraction becomes `S_0 / √2`, or `S_0 / (0.5 · √2)`.
    """
    text = latex
    for found, written in _PLAIN:
        text = re.sub(found, written, text)
    while (simpler := _FRACTION.sub(_fraction, _ROOT.sub(_root, text))) != text:
        text = simpler
    return " ".join(re.sub(r"\{([^{}]*)\}", r"(\1)", text).split())


def _fraction(found: re.Match[str]) -> str:
    above, below = (f"({part})" if re.search(r" [-+·] ", part) else part for part in found.groups())
    return f"{above} / {below}"


def _root(found: re.Match[str]) -> str:
    return f"√{found[1]}" if re.fullmatch(r"[\w.]+", found[1]) else f"√({found[1]})"
