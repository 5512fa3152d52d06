"""The layouts that are recognised, each in a file of its own."""

from transformer.checkpoint.foreign.layouts.annotated import Annotated
from transformer.checkpoint.foreign.layouts.base import Fit, Layout, Source
from transformer.checkpoint.foreign.layouts.bert import BERT, DISTILBERT
from transformer.checkpoint.foreign.layouts.families import FAMILIES
from transformer.checkpoint.foreign.layouts.gpt import Gpt
from transformer.checkpoint.foreign.layouts.gpt_lecture import LectureGpt
from transformer.checkpoint.foreign.layouts.input_feeding import BasicNmt, Cs224n, OpenNmtRnn
from transformer.checkpoint.foreign.layouts.jadore import Jadore
from transformer.checkpoint.foreign.layouts.kmer import Kmer
from transformer.checkpoint.foreign.layouts.lone_attention import LoneAttention
from transformer.checkpoint.foreign.layouts.ours import Ours
from transformer.checkpoint.foreign.layouts.rnn import CHATBOT, D2L, FIRST_TUTORIAL, JOINT_TUTORIAL, SECOND_TUTORIAL
from transformer.checkpoint.foreign.layouts.t5 import T5
from transformer.checkpoint.foreign.layouts.torch_bare import TorchDecoder
from transformer.checkpoint.foreign.layouts.torch_encoder import PublishedEncoder, TorchEncoder
from transformer.checkpoint.foreign.layouts.torch_module import TorchModule
from transformer.checkpoint.foreign.layouts.vision import VISION
from transformer.checkpoint.foreign.layouts.x_rotary import RotaryXTransformers
from transformer.checkpoint.foreign.layouts.x_transformers import XTransformers

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
    JOINT_TUTORIAL,
    D2L,
    CHATBOT,
    Cs224n(),
    BasicNmt(),
    OpenNmtRnn(),
    Gpt(),
    LectureGpt(),
    BERT,
    DISTILBERT,
    *FAMILIES,
    *VISION,
    T5(),
    XTransformers(),
    RotaryXTransformers(),
    TorchDecoder(),
    LoneAttention(),
)
"""In the order in which they are tried; the one that explains most of a file is chosen."""
