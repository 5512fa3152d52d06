"""The layouts that are recognised, each in a file of its own."""

from transformer.checkpoint.foreign.layouts.annotated import Annotated
from transformer.checkpoint.foreign.layouts.base import Fit, Layout, Source
from transformer.checkpoint.foreign.layouts.gpt import Gpt
from transformer.checkpoint.foreign.layouts.jadore import Jadore
from transformer.checkpoint.foreign.layouts.kmer import Kmer
from transformer.checkpoint.foreign.layouts.ours import Ours
from transformer.checkpoint.foreign.layouts.rnn import CHATBOT, D2L, FIRST_TUTORIAL, SECOND_TUTORIAL
from transformer.checkpoint.foreign.layouts.torch_encoder import PublishedEncoder, TorchEncoder
from transformer.checkpoint.foreign.layouts.torch_module import TorchModule

__all__ = ["LAYOUTS", "Fit", "Layout", "Source"]

LAYOUTS: tuple[Layout, ...] = (
    Annotated(),
    Jadore(),
    TorchModule(),
    PublishedEncoder(),
    TorchEncoder(),
    Kmer(),
    Ours(),
    FIRST_TUTORIAL,
    SECOND_TUTORIAL,
    D2L,
    CHATBOT,
    Gpt(),
)
"""In the order in which they are tried; the one that explains most of a file is chosen."""
