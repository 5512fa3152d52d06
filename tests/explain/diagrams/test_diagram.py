"""Diagrams against the models that they draw: no part missing, none twice, in the order of a real run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.checkpoint.huggingface.families import CONFIGS, write_folder
from transformer import architecture, load
from transformer.errors import CheckpointError
from transformer.explain.diagrams.diagram import Diagram
from transformer.nn.decoder import Decoder, DecoderConfig
from transformer.nn.encoder import Encoder, EncoderConfig
from transformer.nn.kmer import KmerClassifier, KmerConfig
from transformer.nn.recurrent import Recurrent, RecurrentConfig
from transformer.nn.seq2seq import Seq2Seq, preset

SIZES: dict[str, Any] = dict(
    source_vocab=29, target_vocab=29, d_model=15, n_heads=3, d_k=7, d_v=11, d_ff=13, n_encoder_layers=2,
    n_decoder_layers=3, max_length=17,
)  # fmt: skip
IDS = torch.tensor([[3, 5, 4, 6, 2]])
TARGET = torch.tensor([[1, 6, 4]])

OWN: dict[str, nn.Module] = {
    "annotated": Seq2Seq(preset("annotated", **SIZES)),
    "jadore": Seq2Seq(preset("jadore", **SIZES)),
    "torch, learned, norm first": Seq2Seq(preset("torch", positions="learned", norm_first=True, **SIZES)),
    "torch, no positions": Seq2Seq(preset("torch", positions="none", attention_bias=False, **SIZES)),
    "chatbot": Recurrent(
        RecurrentConfig(source_vocab=29, target_vocab=31, hidden=13, attention="general", bidirectional=True,
                        sum_directions=True, copy_states=True, attend_after=True, n_layers=2, cell="lstm")
    ),
    "encoder": Encoder(EncoderConfig(vocab=23, d_model=15, n_heads=5, d_ff=11, n_layers=3, norm_after_stack=True)),
    "encoder with a head": Encoder(
        EncoderConfig(vocab=23, d_model=15, n_heads=5, d_ff=11, n_layers=2, head=(7, 3), head_reads="mean",
                      norm_first=True, positions="learned")
    ),
    "decoder": Decoder(DecoderConfig(vocab=23, d_model=15, n_heads=5, d_ff=11, n_layers=3, tie_projection=True)),
    "decoder, rotary": Decoder(
        DecoderConfig(vocab=23, d_model=15, n_heads=3, d_ff=11, n_layers=2, positions="none", rotary=2,
                      norm_first=False, norm_after_embedding=True, projection_bias=True)
    ),
    "kmer, mean": KmerClassifier(
        KmerConfig(vocab=7, n_classes=5, d_model=14, n_heads=2, d_ff=11, widths=(2, 3), d_hidden=9)
    ),
    "kmer, attention": KmerClassifier(
        KmerConfig(vocab=7, n_classes=5, d_model=14, n_heads=2, d_ff=11, widths=(3,), pooling="attention",
                   n_questions=3, positions="learned", norm_first=True)
    ),
    "location": Recurrent(RecurrentConfig(source_vocab=29, target_vocab=31, hidden=13, attention="location")),
    "additive": Recurrent(
        RecurrentConfig(source_vocab=29, target_vocab=29, hidden=13, d_embedding=11, bidirectional=True,
                        deep_output=True, tie_embeddings=True, tie_projection=True)
    ),
}  # fmt: skip


def check_every_parameter(diagram: Diagram, model: nn.Module) -> None:
    """Each parameter of the model stands in exactly one node, and the numbers add up."""
    owned = [name for node in diagram.nodes for name in node.owns]
    assert sorted(owned) == sorted(name for name, _ in model.named_parameters())
    assert diagram.parameters == sum(p.numel() for p in model.parameters())
    assert len({node.name for node in diagram.nodes}) == len(diagram.nodes)
    names, frames = {node.name for node in diagram.nodes}, {block.name for block in diagram.blocks}
    assert {end for edge in diagram.edges for end in (edge.start, edge.end)} <= names
    assert {node.block for node in diagram.nodes} <= frames


def run_order(model: nn.Module, *inputs: torch.Tensor) -> list[str]:
    """The names of parameters in the order in which a run first calls the modules that hold them."""
    calls: list[str] = []
    hooks = [
        module.register_forward_pre_hook(
            lambda *_, name=name, held=module: calls.extend(
                f"{name}.{key}" for key, _ in held.named_parameters(recurse=False)
            )
        )
        for name, module in model.named_modules()
    ]  # fmt: skip
    with torch.inference_mode():
        model(*inputs)
    for hook in hooks:
        hook.remove()
    return list(dict.fromkeys(calls))


def check_order(diagram: Diagram, calls: list[str]) -> None:
    """The nodes stand in the order in which the run reached the last of their parameters.

    The last one, since cross-attention projects the source before its layer runs.
    """
    place = {name: i for i, name in enumerate(calls)}
    reached = [
        (node.name, max(place[name] for name in node.owns if name in place))
        for node in diagram.nodes
        if any(name in place for name in node.owns)
    ]
    assert len(reached) > 5
    assert [name for name, _ in reached] == [name for name, _ in sorted(reached, key=lambda pair: pair[1])]


@pytest.mark.parametrize("name", OWN)
def test_every_parameter_has_one_place(name: str) -> None:
    check_every_parameter(architecture(OWN[name]), OWN[name])


@pytest.mark.parametrize("name", [name for name in OWN if not name.startswith(("location", "additive", "chatbot"))])
def test_parts_stand_in_the_order_of_a_run(name: str) -> None:
    model = OWN[name].eval()
    inputs = (IDS, TARGET) if isinstance(model, Seq2Seq) else (IDS,)
    check_order(architecture(model), run_order(model, *inputs))


@pytest.mark.parametrize("name", OWN)
def test_sites_are_the_models_own(name: str) -> None:
    model: Any = OWN[name]
    assert architecture(model).sites == tuple(model.attention_sites())


def test_norms_stand_where_the_model_has_them() -> None:
    before, after = architecture(OWN["annotated"]), architecture(OWN["jadore"])
    assert (before.norms, after.norms) == ("before", "after")
    flows = {(edge.start, edge.end, edge.kind) for edge in before.edges}
    assert ("encoder.0.self_residual.norm", "encoder.0.self_attention", "data") in flows
    assert ("source_positions", "encoder.0.self_residual", "residual") in flows
    flows = {(edge.start, edge.end, edge.kind) for edge in after.edges}
    assert ("source_norm", "encoder.0.self_attention", "data") in flows
    assert ("encoder.0.self_residual", "encoder.0.self_residual.norm", "data") in flows
    assert ("encoder.0.self_residual.norm", "encoder.0.feed_forward_residual", "residual") in flows


def test_the_encoder_reaches_every_layer_of_the_decoder() -> None:
    cross = [edge for edge in architecture(OWN["annotated"]).edges if edge.kind == "cross"]
    assert [(edge.start, edge.end) for edge in cross] == [
        ("encoder_norm", f"decoder.{i}.cross_attention") for i in range(3)
    ]


def test_a_shared_table_counts_once() -> None:
    diagram = architecture(OWN["jadore"])
    assert diagram["source_embedding"].parameters == 29 * 15
    assert diagram["target_embedding"].shares == diagram["projection"].shares == ("source_embedding.weight",)
    assert diagram["target_embedding"].parameters == diagram["projection"].parameters == 0


def test_shapes_are_those_of_a_run() -> None:
    model = OWN["annotated"].eval()
    diagram, axes = architecture(model), {"source": IDS.shape[1], "target": TARGET.shape[1]}
    seen: dict[str, torch.Size] = {}
    hooks = [
        module.register_forward_hook(lambda _, __, output, name=name: seen.update({name: output.shape}))
        for name, module in model.named_modules()
    ]
    model(IDS, TARGET)
    for hook in hooks:
        hook.remove()
    checked = [node for node in diagram.nodes if node.name in seen and node.kind not in {"input", "output"}]
    assert len(checked) > 30
    for node in checked:
        assert seen[node.name] == (1, *(axes.get(str(size), size) for size in node.gives)), node.name


def test_recurrence_goes_from_step_to_step() -> None:
    flows = {(edge.start, edge.end) for edge in architecture(OWN["additive"]).edges if edge.kind == "recurrence"}
    assert flows == {("encoder", "encoder"), ("decoder", "decoder"), ("decoder", "attention")}


@pytest.mark.parametrize("family", CONFIGS)
def test_a_family_of_another_library(tmp_path: Path, family: str) -> None:
    model: Any = load(write_folder(tmp_path / family, family, tokenizer=False)).model
    diagram = architecture(model)
    check_every_parameter(diagram, model)
    assert diagram.sites == model.sites
    layers = [block.name for block in diagram.blocks if block.kind == "layer"]
    assert all(diagram[f"{layer}.parts"].parameters for layer in layers)
    assert diagram.norms == ("after" if family in NORMS_AFTER else "before")


NORMS_AFTER = {"bert", "roberta", "distilbert", "electra", "camembert", "bart", "marian", "mbert", "xlm-roberta"}
"""Families of `CONFIGS` that norm each residual sum."""


def test_a_model_of_nobody_is_refused() -> None:
    with pytest.raises(CheckpointError, match="Linear has no diagram"):
        architecture(nn.Linear(2, 3))


def test_what_scores_are_divided_by_is_told_where_it_is_not_the_heads_width() -> None:
    config = EncoderConfig(vocab=23, d_model=15, n_heads=5, d_ff=11, n_layers=1)
    usual, other = (architecture(Encoder(one)) for one in (config, replace(config, attention_scale=15**-0.5)))
    sizes = [dict(node.sizes) for made in (usual, other) for node in made.nodes if node.kind == "attention"]
    assert sizes == [{"n_heads": 5, "d_k": 3, "d_v": 3}, {"n_heads": 5, "d_k": 3, "d_v": 3, "divides_by": 15}]
