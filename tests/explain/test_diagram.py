"""Diagrams against the models that they draw: no part missing, none twice, in the order of a real run."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from heedmap import architecture, load
from heedmap.errors import CheckpointError
from heedmap.explain.diagram import Diagram
from heedmap.nn.kmer import KmerClassifier, KmerConfig
from heedmap.nn.recurrent import Recurrent, RecurrentConfig
from heedmap.nn.seq2seq import Seq2Seq, preset
from heedmap.nn.stacks import Decoder, DecoderConfig, Encoder, EncoderConfig
from tests.checkpoint.huggingface.families import CONFIGS, write_folder

SIZES: dict[str, Any] = dict(
    source_vocab=29, target_vocab=29, d_model=15, n_heads=3, d_k=7, d_v=11, d_ff=13, n_encoder_layers=2,
    n_decoder_layers=3, max_length=17,
)  # fmt: skip
IDS = torch.tensor([[3, 5, 4, 6, 2]])
TARGET = torch.tensor([[1, 6, 4]])

TEXT: dict[str, Any] = dict(vocab=23, d_model=15, n_heads=5, d_ff=11, n_layers=3)
KMER: dict[str, Any] = dict(vocab=7, n_classes=5, d_model=14, n_heads=2, d_ff=11)
PAIR: dict[str, Any] = dict(source_vocab=29, target_vocab=31, hidden=13)
ALONE: dict[str, Any] = dict(positions="none", norm_first=False, projection_bias=True)
CHATBOT: dict[str, Any] = dict(attention="general", bidirectional=True, sum_directions=True, copy_states=True)
DEEP: dict[str, Any] = dict(d_embedding=11, bidirectional=True, deep_output=True, tie_embeddings=True)
OWN: dict[str, nn.Module] = {
    "annotated": Seq2Seq(preset("annotated", **SIZES)),
    "jadore": Seq2Seq(preset("jadore", **SIZES)),
    "torch, learned, norm first": Seq2Seq(preset("torch", positions="learned", norm_first=True, **SIZES)),
    "torch, no positions": Seq2Seq(preset("torch", positions="none", attention_bias=False, **SIZES)),
    "chatbot": Recurrent(RecurrentConfig.of(**PAIR, **CHATBOT, attend_after=True, n_layers=2, cell="lstm")),
    "encoder": Encoder(EncoderConfig.of(**TEXT, norm_after_stack=True)),
    "encoder with a head": Encoder(EncoderConfig.of(**TEXT, head=(7, 3), norm_first=True, positions="learned")),
    "decoder": Decoder(DecoderConfig.of(**TEXT, tie_projection=True)),
    "decoder, no positions": Decoder(DecoderConfig.of(**TEXT | {"n_heads": 3}, **ALONE)),
    "kmer, mean": KmerClassifier(KmerConfig.of(**KMER, widths=(2, 3), d_hidden=9)),
    "kmer, attention": KmerClassifier(
        KmerConfig.of(**KMER, widths=(3,), pooling="attention", n_questions=3, positions="learned", norm_first=True)
    ),
    "location": Recurrent(RecurrentConfig.of(**PAIR, attention="location")),
    "additive": Recurrent(RecurrentConfig.of(**PAIR | {"target_vocab": 29}, **DEEP, tie_projection=True)),
}


def check_every_parameter(diagram: Diagram, model: nn.Module) -> None:
    """Each parameter of the model stands in exactly one node, and the numbers add up."""
    owned = [name for node in diagram.nodes for name in node.owns]
    assert sorted(owned) == sorted(name for name, _ in model.named_parameters())
    assert diagram.parameters == sum(p.numel() for p in model.parameters())
    names = [node.name for node in diagram.nodes]
    assert len(set(names)) == len(names)
    assert {node.also_reads for node in diagram.nodes} <= {"", *names}


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
def test_every_parameter_has_one_place_and_sites_are_the_models_own(name: str) -> None:
    model: Any = OWN[name]
    check_every_parameter(architecture(model), model)
    assert architecture(model).sites == tuple(model.attention_sites())


@pytest.mark.parametrize("name", [name for name in OWN if not name.startswith(("location", "additive", "chatbot"))])
def test_parts_stand_in_the_order_of_a_run(name: str) -> None:
    model = OWN[name].eval()
    inputs = (IDS, TARGET) if isinstance(model, Seq2Seq) else (IDS,)
    check_order(architecture(model), run_order(model, *inputs))


def test_norms_stand_where_the_model_has_them() -> None:
    before, after = architecture(OWN["annotated"]), architecture(OWN["jadore"])
    assert (before.norms, after.norms) == ("before", "after")
    named = [[node.name for node in diagram.nodes if node.layer == "encoder.0"] for diagram in (before, after)]
    assert named[0][:3] == [f"encoder.0.{part}" for part in ("self_residual.norm", "self_attention", "self_residual")]
    assert named[1][:3] == [f"encoder.0.{part}" for part in ("self_attention", "self_residual", "self_residual.norm")]


def test_the_encoder_reaches_every_layer_of_the_decoder() -> None:
    read = {node.name: node.also_reads for node in architecture(OWN["annotated"]).nodes if node.also_reads}
    assert read == {f"decoder.{i}.cross_attention": "encoder_norm" for i in range(3)}
    assert architecture(OWN["additive"])["attention"].also_reads == "encoder"


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


@pytest.mark.parametrize("family", CONFIGS)
def test_a_family_of_another_library(tmp_path: Path, family: str) -> None:
    model: Any = load(write_folder(tmp_path / family, family, tokenizer=False)).model
    diagram = architecture(model)
    check_every_parameter(diagram, model)
    assert diagram.sites == model.sites
    assert all(diagram[f"{layer}.parts"].parameters for layer in diagram.layers())


def test_a_model_of_nobody_is_refused() -> None:
    with pytest.raises(CheckpointError, match="Linear has no diagram"):
        architecture(nn.Linear(2, 3))


def test_what_scores_are_divided_by_is_told_where_it_is_not_the_heads_width() -> None:
    config = EncoderConfig.of(vocab=23, d_model=15, n_heads=5, d_ff=11, n_layers=1)
    usual, other = (architecture(Encoder(one)) for one in (config, config.changed(attention_scale=15**-0.5)))
    sizes = [dict(node.sizes) for made in (usual, other) for node in made.nodes if node.kind == "attention"]
    assert sizes == [{"n_heads": 5, "d_k": 3, "d_v": 3}, {"n_heads": 5, "d_k": 3, "d_v": 3, "divides_by": 15}]
