"""The layouts that are recognised, each in a file of its own."""

from transformer.checkpoint.foreign.layouts.annotated import annotated
from transformer.checkpoint.foreign.layouts.base import Fit, Layout, Source
from transformer.checkpoint.foreign.layouts.gpt import gpt
from transformer.checkpoint.foreign.layouts.jadore import jadore
from transformer.checkpoint.foreign.layouts.kmer import kmer
from transformer.checkpoint.foreign.layouts.ours import ours
from transformer.checkpoint.foreign.layouts.rnn import TUTORIALS
from transformer.checkpoint.foreign.layouts.torch_encoder import published_encoder, torch_encoder
from transformer.checkpoint.foreign.layouts.torch_module import torch_module
from transformer.messages import Message

__all__ = ["LAYOUTS", "Fit", "Layout", "Source"]

LAYOUTS = (
    Layout("annotated", Message("title_annotated"), annotated),
    Layout("jadore", Message("title_jadore"), jadore),
    Layout("torch", Message("title_torch"), torch_module),
    Layout("encoder-only", Message("title_encoder_only"), published_encoder),
    Layout("torch-encoder", Message("title_torch_encoder"), torch_encoder),
    Layout("kmer", Message("title_kmer"), kmer),
    Layout("ours", Message("title_ours"), ours),
    *TUTORIALS,
    Layout("gpt", Message("title_gpt"), gpt),
)
"""In the order in which they are tried; the one that explains most of a file is chosen."""
