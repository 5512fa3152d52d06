"""Heedmap under its own name: `import heedmap` gives all that `import transformer` gives."""

from transformer import *  # noqa: F403
from transformer import __all__ as __all__
from transformer import __version__ as __version__
