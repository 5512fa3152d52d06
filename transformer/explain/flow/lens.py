"""What would be written if the model ended after a layer: its last norm and output layer, applied to every state.

Source: nostalgebraist 2020, "interpreting GPT: the logit lens"; here for decoders that read a source too, and for
classifiers (class probabilities by depth). The last row is the model's own output, exactly. The rows before it assume
that the output layer can read a state that was made for the next layer: where each layer norms its sum, a state has
been scaled already, and the note says so. A first token that a family forces is not forced here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer.checkpoint.huggingface.model import HuggingFaceModel
from transformer.errors import CheckpointError
from transformer.explain.diagrams.diagram import Diagram
from transformer.explain.diagrams.of_model import architecture
from transformer.explain.flow.capture import BEFORE, tracing, watch_flow
from transformer.messages import Message
from transformer.nn.decoder import Decoder
from transformer.nn.encoder import Encoder
from transformer.nn.kmer import KmerClassifier
from transformer.nn.seq2seq import Seq2Seq

TOLERANCE = 1e-4
"""How far, against the largest, the last row of another library's model may differ from that model's own logits."""


@dataclass(frozen=True, eq=False)
class Lens:
    """Logit lens: the prediction read from the state after each layer; row 0 is before the first layer.

    `ids` and `probabilities` hold the likeliest outputs, likeliest first; `entropy` is in nats. `final` is what each
    position was given as its result (a written token, a class), `final_probabilities` what each layer thought of it.
    All are of logits divided by the temperature that was asked for.
    """

    ids: Int[np.ndarray, "layer position top"]
    probabilities: Float[np.ndarray, "layer position top"]
    entropy: Float[np.ndarray, "layer position"]
    final: Int[np.ndarray, " position"]
    final_probabilities: Float[np.ndarray, "layer position"]
    note: str = ""

    @property
    def leads(self) -> Bool[np.ndarray, "layer position"]:
        """Whether the final output is the likeliest in a row."""
        found: Bool[np.ndarray, "layer position"] = self.ids[..., 0] == self.final
        return found

    @property
    def leads_from(self) -> Int[np.ndarray, " position"]:
        """The row since which the final output is the likeliest; the number of rows where the last row has another."""
        return since(self.leads)


def since(leads: Bool[np.ndarray, "row *rest"]) -> Int[np.ndarray, "*rest"]:
    """The row from which on all rows are True; the number of rows where the last one is not."""
    lost = ~leads[::-1]
    return np.where(lost.any(0), len(leads) - lost.argmax(0), 0)


def lens(
    model: nn.Module,
    source: Int[Tensor, "1 source"],
    target: Int[Tensor, "1 target"] | None = None,
    written: Sequence[int] | None = None,
    top: int = 10,
    temperature: float = 1.0,
) -> Lens:
    """Run the model once on ids and apply its output layer to the state after every layer (logit lens).

    `target` is what a decoder reads beside a source; `written` are the outputs to follow, one a position, by default
    the likeliest ones of the last row. Logits are divided by `temperature`: give that of a calibrated classifier's task
    (`model.task.temperature`) to have its own probabilities.

    Raises:
        CheckpointError: the model has no layers (a recurrent net), no output layer (an encoder alone), or one that
            cannot be taken apart from the rest.
    """
    diagram = architecture(model)
    stack = "decoder" if target is not None or diagram.kind == "decoder" else "encoder"
    layers = [block.name for block in diagram.layers(stack)]
    if not layers:
        raise CheckpointError("lens_needs_layers", family=diagram.family)
    twin = watch_flow(model, layers)
    with torch.inference_mode(), tracing() as seen:
        output = twin(source) if target is None else twin(source, target)
        states = [seen.at(f"{layers[0]}{BEFORE}", Tensor), *(seen.at(name, Tensor) for name in layers)]
        logits = torch.stack([row[0] for row in map(_reader(model, diagram, source, states[-1], output), states)])
    if logits.dim() == 2:  # one output for the whole input
        logits = logits[:, None]
    note = Message("lens_norm_after") if diagram.norms != "before" else ""
    return _looked_at(logits / temperature, written, top, note)


def _reader(
    model: nn.Module, diagram: Diagram, source: Tensor, last: Tensor, output: Tensor
) -> Callable[[Tensor], Tensor]:
    """What turns a state into logits."""
    match model:
        case Seq2Seq() | Decoder():
            return lambda state: model.logits(model.decoder_norm(state))
        case KmerClassifier():
            mask = model.mask(source)
            return lambda state: model.logits(state, mask)
        case Encoder() if model.config.head:
            return lambda state: model.logits(model.encoder_norm(state), source)
        case HuggingFaceModel() if model.config.writes:
            return _of_another_library(model, diagram, last, output)
        case HuggingFaceModel() if model.config.head:
            raise CheckpointError("lens_head_apart", family=diagram.family)
    raise CheckpointError("lens_needs_output", family=diagram.family)


def _of_another_library(
    model: HuggingFaceModel, diagram: Diagram, last: Tensor, output: Tensor
) -> Callable[[Tensor], Tensor]:
    """The norms after the layers, the output layer, and the factor between that and the model's own logits.

    Raises:
        CheckpointError: its own logits are not such a multiple, so something else stands between.
    """
    layers = {block.name for block in diagram.layers("decoder")}
    end = max(i for i, node in enumerate(diagram.nodes) if node.block in layers)
    after = [node for node in diagram.nodes[end:] if node.block == "decoder" and node.kind in {"norm", "linear"}]
    final = [model.get_submodule(node.name) for node in after]

    def read(state: Tensor) -> Tensor:
        for module in final:
            state = module(state)
        return state

    free = output.isfinite().all(-1)  # not where a first token is forced
    ours, real = read(last)[free], output[free]
    factor = float((ours * real).sum() / (ours**2).sum())
    if float((ours * factor - real).abs().max()) > TOLERANCE * float(real.abs().max()):
        raise CheckpointError("lens_is_not_exact", family=diagram.family)
    return lambda state: read(state) * factor


def _looked_at(
    logits: Float[Tensor, "layer position output"], written: Sequence[int] | None, top: int, note: str
) -> Lens:
    log_probs = logits.double().log_softmax(-1)
    probabilities = log_probs.exp()
    likeliest = probabilities.topk(min(top, probabilities.shape[-1]), dim=-1)
    final = likeliest.indices[-1, :, 0] if written is None else torch.tensor(written)
    chosen = probabilities.gather(-1, final[None, :, None].expand(len(probabilities), -1, 1))[..., 0]
    return Lens(
        likeliest.indices.numpy(),
        likeliest.values.numpy(),
        -(probabilities * log_probs.nan_to_num(neginf=0.0)).sum(-1).numpy(),
        final.numpy(),
        chosen.numpy(),
        note,
    )
