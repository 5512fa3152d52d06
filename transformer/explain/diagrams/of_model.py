"""The diagram of any model that can be loaded."""

from torch import nn

from transformer.checkpoint.huggingface.model import HuggingFaceModel
from transformer.errors import CheckpointError
from transformer.explain.diagrams import own
from transformer.explain.diagrams.diagram import Diagram
from transformer.explain.diagrams.other import hugging_face
from transformer.nn.decoder import Decoder
from transformer.nn.encoder import Encoder
from transformer.nn.kmer import KmerClassifier
from transformer.nn.recurrent import Recurrent
from transformer.nn.seq2seq import Seq2Seq


def architecture(model: nn.Module) -> Diagram:
    """The model's parts with their shapes and parameters, and their connections, without a run.

    Nothing is run. Every parameter of the model stands in exactly one node.

    Raises:
        CheckpointError: a model that this library does not know.
    """
    match model:
        case Seq2Seq():
            return own.seq2seq(model)
        case Encoder():
            return own.encoder(model)
        case Decoder():
            return own.decoder(model)
        case KmerClassifier():
            return own.kmer(model)
        case Recurrent():
            return own.recurrent(model)
        case HuggingFaceModel():
            return hugging_face(model)
    raise CheckpointError("no_diagram", model=type(model).__name__)
