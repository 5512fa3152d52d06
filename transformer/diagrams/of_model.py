"""The diagram of any model that can be loaded."""

from torch import nn

from transformer.checkpoint.huggingface.model import HuggingFaceModel
from transformer.diagrams import own
from transformer.diagrams.diagram import Diagram
from transformer.diagrams.other import hugging_face
from transformer.errors import CheckpointError
from transformer.models.decoder import Decoder
from transformer.models.encoder import Encoder
from transformer.models.kmer import KmerClassifier
from transformer.models.recurrent import Recurrent
from transformer.models.seq2seq import Seq2Seq


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
