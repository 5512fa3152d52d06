"""The layouts that are recognised, each in a file of its own."""

from transformer.checkpoint.layouts.annotated import Annotated
from transformer.checkpoint.layouts.base import Fit, Layout, Source, meta_shapes
from transformer.checkpoint.layouts.jadore import Jadore
from transformer.checkpoint.layouts.kmer import Kmer
from transformer.checkpoint.layouts.ours import Ours
from transformer.checkpoint.layouts.rnn import FIRST_TUTORIAL, SECOND_TUTORIAL
from transformer.checkpoint.layouts.torch_encoder import PublishedEncoder, TorchEncoder
from transformer.checkpoint.layouts.torch_module import TorchModule

__all__ = ["LAYOUTS", "Fit", "Layout", "Source", "meta_shapes"]

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
)
"""In the order in which they are tried; the one that explains most of a file is chosen."""
