"""Methods that follow layers, on other libraries' models: against loops over their own weights and eager attention."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.checkpoint.huggingface.families import random_model, write_folder
from tests.explain.attribution import reference
from tests.explain.attribution.reference import READ, SOURCE, WRITTEN, Attended, array
from tests.explain.attribution.test_methods import N_READ, N_SOURCE, contributions_by_hand, parts_by_hand
from transformer.attention.capture import recording
from transformer.attention.record import Record
from transformer.checkpoint.huggingface.loading import load_hugging_face
from transformer.errors import AttributionError
from transformer.explain.attribution.contributions import contributions
from transformer.explain.attribution.decomposed_sublayer import DecomposedSublayer
from transformer.explain.attribution.gradients import gradients
from transformer.explain.attribution.methods import METHODS, attribute, defined
from transformer.explain.attribution.norms import norms
from transformer.explain.attribution.scored_sequence import Reading, ScoredSequence
from transformer.explain.attribution.sublayers import asked_sublayers, decoder_sublayers
from transformer.explain.attribution.value_zeroing import value_zeroing
from transformer.messages import Message
from transformer.plots.axes import Axis

ALONE = ("bert", "gpt2", "llama")
"""Norm after the sum; norm before it, maps stored inputs first; root mean square norms, six heads that share two."""

NEAR = dict.fromkeys((*ALONE, "bart"), 1e-9) | {"llama": 2e-6}
"""How near numbers must be: Llama's own eager attention takes its softmax in single precision, whatever it is given."""

Linear = tuple[np.ndarray, np.ndarray]
"""A matrix (out, in) and a bias."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = tmp_path_factory.mktemp("traced")
    folders = {family: write_folder(place / family, family, tokenizer=False) for family in (*ALONE, "bart")}
    return {family: load_hugging_face(folder).model.double() for family, folder in folders.items()}


def eager(model: Any) -> Any:
    """The library's own model, whose attention gives its weights away."""
    net = copy.deepcopy(model.net)
    net.set_attn_implementation("eager")
    return net


def linear(module: Any) -> Linear:
    weight = array(module.weight)
    weight = weight.T if type(module).__name__ == "Conv1D" else weight
    return weight, array(module.bias, len(weight))


def third(joint: Linear) -> Linear:
    """The values' share of a joint projection of queries, keys and values."""
    size = len(joint[0]) // 3
    return joint[0][2 * size :], joint[1][2 * size :]


def attended(
    weights: torch.Tensor, keys: np.ndarray, value: Linear, out: Linear, x: np.ndarray, norm: Any, first: bool
) -> Attended:
    """One sub-layer by hand, from eager weights and the states that it read."""
    n_heads, _, n_keys = weights.shape
    d_v = out[0].shape[1] // n_heads
    shared = n_heads // (len(value[0]) // d_v)
    values = np.zeros((n_heads, n_keys, len(out[0])))
    for head in range(n_heads):
        rows = slice((head // shared) * d_v, (head // shared + 1) * d_v)
        for j in range(n_keys):
            given = value[0][rows] @ keys[j] + value[1][rows]
            values[head, j] = out[0][:, head * d_v : (head + 1) * d_v] @ given
    kept = Attended(x, weights.detach().numpy(), values, out[1], norm, first)
    kept.output = reference.finished(kept, x + out[1] + np.einsum("htj,hjd->td", kept.weights, values))
    return kept


def normed(norm: Any, x: np.ndarray) -> np.ndarray:
    return norm(torch.tensor(x)).detach().numpy()  # type: ignore[no-any-return]


def layers_of(family: str, net: Any) -> list[Attended]:
    """The self-attention of a model that reads one text, by hand."""
    output = net(torch.tensor([SOURCE]), output_attentions=True, output_hidden_states=True)
    states = [array(x[0]) for x in output.hidden_states]
    found = []
    for i, table in enumerate(output.attentions):
        x = states[i]
        if family == "bert":
            own, out = net.encoder.layer[i].attention.self, net.encoder.layer[i].attention.output
            found.append(attended(table[0], x, linear(own.value), linear(out.dense), x, out.LayerNorm, False))
        elif family == "gpt2":
            block = net.transformer.h[i]
            value, h = third(linear(block.attn.c_attn)), normed(block.ln_1, x)
            found.append(attended(table[0], h, value, linear(block.attn.c_proj), x, block.ln_1, True))
        else:
            block = net.model.layers[i]
            value, h = linear(block.self_attn.v_proj), normed(block.input_layernorm, x)
            found.append(attended(table[0], h, value, linear(block.self_attn.o_proj), x, block.input_layernorm, True))
    return found


def decoder_of(net: Any) -> tuple[Any, list[Attended], list[tuple[Attended, Attended]]]:
    """BART by hand: its output, its encoder, and both attentions of each layer of its decoder."""
    output = net(
        input_ids=torch.tensor([SOURCE]), decoder_input_ids=torch.tensor([READ]), output_attentions=True,
        output_hidden_states=True, use_cache=False,
    )  # fmt: skip

    def own(layer: Any, table: torch.Tensor, x: np.ndarray) -> Attended:
        at = layer.self_attn
        return attended(table[0], x, linear(at.v_proj), linear(at.out_proj), x, layer.self_attn_layer_norm, False)

    memory, encoder, decoder = array(output.encoder_last_hidden_state[0]), [], []
    for i, layer in enumerate(net.model.encoder.layers):
        encoder.append(own(layer, output.encoder_attentions[i], array(output.encoder_hidden_states[i][0])))
    for i, layer in enumerate(net.model.decoder.layers):
        first = own(layer, output.decoder_attentions[i], array(output.decoder_hidden_states[i][0]))
        at, norm = layer.encoder_attn, layer.encoder_attn_layer_norm
        value, out = linear(at.v_proj), linear(at.out_proj)
        decoder.append((first, attended(output.cross_attentions[i][0], memory, value, out, first.output, norm, False)))
    return output, encoder, decoder


def reading(family: str, model: Any) -> Reading:
    return Reading(family, model, SOURCE, Axis.of_tokens("token", [str(i) for i in SOURCE]), family != "bert")


def matches(layer: DecomposedSublayer, kept: Attended, near: float = 1e-9) -> None:
    by_hand = parts_by_hand(kept, layer.site.kind == "self")
    with torch.no_grad():
        for rows, parts, constant in layer.parts():
            np.testing.assert_allclose(parts, by_hand[rows], atol=near, rtol=near)
            np.testing.assert_allclose(parts.sum(1) + constant, layer.output[rows], atol=1e-9)


@pytest.mark.parametrize("family", ALONE)
def test_sub_layers_of_one_text_are_those_of_its_own_weights(family: str, models: dict[str, Any]) -> None:
    """Parts, contributions with their roll-out, norms of a head and with the residual: rows sum, nothing leaks."""
    near = NEAR[family]
    by_hand, given = layers_of(family, eager(models[family])), reading(family, models[family])
    for layer, kept in zip(asked_sublayers(given), by_hand, strict=True):
        matches(layer, kept, near)
    held = np.eye(N_SOURCE)
    for kept in by_hand:
        held = contributions_by_hand(kept, own=True) @ held
    found = contributions(given)
    np.testing.assert_allclose(found.values, held, atol=near, rtol=near)
    np.testing.assert_allclose(found.values.sum(1), 1.0, atol=1e-9)
    assert not found.values[~found.visible].any()
    one = by_hand[1]
    of_head = np.linalg.norm(one.weights[2][..., None] * one.values[2], axis=-1)
    np.testing.assert_allclose(norms(given, layer=1, head=2).values, of_head, atol=near, rtol=near)
    whole = np.linalg.norm(parts_by_hand(one, own=True), axis=-1)
    np.testing.assert_allclose(norms(given, layer=1, with_residual=True).values, whole, atol=near, rtol=near)


@pytest.mark.parametrize("family", ALONE)
def test_a_layer_is_run_again_with_one_value_zero(family: str, models: dict[str, Any]) -> None:
    """The value projection's answer is set to zero at a position, in the library's own layer and eager attention."""
    net = copy.deepcopy(models[family].net)
    at = {
        "bert": lambda i: (net.encoder.layer[i], net.encoder.layer[i].attention.self.value, slice(None)),
        "gpt2": lambda i: (net.transformer.h[i], net.transformer.h[i].attn.c_attn, slice(42, None)),
        "llama": lambda i: (net.model.layers[i], net.model.layers[i].self_attn.v_proj, slice(None)),
    }[family]
    held = np.eye(N_SOURCE)
    for i in range(2):
        block, projection, share = at(i)
        ends = list[torch.Tensor]()
        watching = block.register_forward_hook(lambda _, inputs, out, ends=ends: ends.append(first(out)))
        for key in range(-1, N_SOURCE):

            def zero(_: Any, inputs: Any, out: torch.Tensor, key: int = key, share: slice = share) -> torch.Tensor:
                out = out.clone()
                if key >= 0:
                    out[:, key, share] = 0
                return out

            changing = projection.register_forward_hook(zero)
            net(torch.tensor([SOURCE]))
            changing.remove()
        watching.remove()
        clean, changed = ends[0], torch.stack(ends[1:])
        changes = (1 - torch.cosine_similarity(changed, clean[None], dim=-1)).T.detach().numpy().clip(0)
        if family != "bert":
            changes = np.tril(changes)
        held = changes / changes.sum(1, keepdims=True) @ held
    found = value_zeroing(reading(family, models[family]))
    np.testing.assert_allclose(found.values, held, atol=1e-9)


def first(output: Any) -> torch.Tensor:
    found: torch.Tensor = output if isinstance(output, torch.Tensor) else output[0]
    return found[0]


def sequence_of(model: Any) -> tuple[ScoredSequence, Record]:
    with recording() as seen, torch.no_grad():
        model(torch.tensor([SOURCE]), torch.tensor([READ]))
    written = (model.config.forced_first_id, *WRITTEN[1:])
    return reference.scored_sequence(model, written=written), Record({site: seen.map(site) for site in seen.sites})


def test_an_encoder_decoder_of_another_library_has_every_method(models: dict[str, Any]) -> None:
    given, record = sequence_of(models["bart"])
    _, encoder, decoder = decoder_of(eager(models["bart"]))
    for (own, cross), (first_kept, second_kept) in zip(decoder_sublayers(given), decoder, strict=True):
        matches(own, first_kept)
        matches(cross, second_kept)
    held = np.eye(N_SOURCE)
    for kept in encoder:
        held = contributions_by_hand(kept, own=True) @ held
    of_source, of_prefix = np.zeros((N_READ, N_SOURCE)), np.eye(N_READ)
    for first_kept, second_kept in decoder:
        passed, taken = contributions_by_hand(first_kept, own=True), contributions_by_hand(second_kept, own=False)
        carried = taken[:, -1:] * passed
        of_source, of_prefix = carried @ of_source + taken[:, :-1] @ held, carried @ of_prefix
    found = contributions(given)
    np.testing.assert_allclose(found.values, np.concatenate([of_source, of_prefix], 1), atol=1e-9)
    np.testing.assert_allclose(found.values.sum(1), 1.0, atol=1e-9)
    last = decoder[2][1]
    lengths = np.linalg.norm(np.einsum("htj,hjd->tjd", last.weights, last.values), axis=-1)
    np.testing.assert_allclose(norms(given, layer=2).values, lengths, atol=1e-9)
    np.testing.assert_allclose(value_zeroing(given).values.sum(1), 1.0, atol=1e-9)
    assert set(METHODS) - set(defined(given, record)) == {"deletion_unknown"}
    for method in defined(given, record):
        assert np.isfinite(attribute(given, record, method).values).all()


def relevance_by_hand(logit: torch.Tensor, groups: list[list[torch.Tensor]], t: int) -> np.ndarray:
    """The causal rule, table by table, with slopes by the weights that the eager attention gave away."""
    flat = [table for group in groups for table in group]
    slopes = torch.autograd.grad(logit, flat, retain_graph=True, materialize_grads=True, allow_unused=True)
    kept = [(a * s)[0].clamp(min=0).mean(0).detach().numpy() for a, s in zip(flat, slopes, strict=True)]
    encoder, own = kept[: len(groups[0])], kept[len(groups[0]) : len(groups[0]) + len(groups[1])]
    cross = kept[len(groups[0]) + len(groups[1]) :]
    n = own[0].shape[0]
    r_ee, r_dd, r_de = np.eye(N_SOURCE), np.eye(n), np.zeros((n, N_SOURCE))
    for table in encoder:
        r_ee = r_ee + table @ r_ee
    grown = r_ee - np.eye(N_SOURCE)
    sums = grown.sum(1, keepdims=True)
    normal = np.divide(grown, sums, out=np.zeros_like(grown), where=sums != 0) + np.eye(N_SOURCE)
    for i, table in enumerate(own):
        r_dd, r_de = r_dd + table @ r_dd, r_de + table @ r_de
        r_de = r_de + cross[i] @ normal if cross else r_de
    of_prefix: np.ndarray = (r_dd - np.eye(n))[t]
    return np.concatenate([r_de[t], of_prefix]) if cross else of_prefix


@pytest.mark.parametrize("family", ["gpt2", "llama", "bart"])
def test_gradients_take_slopes_by_the_weights_of_eager_attention(family: str, models: dict[str, Any]) -> None:
    net, model = eager(models[family]), models[family]
    if family == "bart":
        given, _ = sequence_of(model)
        output, _, _ = decoder_of(net)
        groups = [list(output.encoder_attentions), list(output.decoder_attentions), list(output.cross_attentions)]
    else:
        given = reference.scored_sequence(model, source=())
        output = net(torch.tensor([READ]), output_attentions=True)
        groups = [[], list(output.attentions), []]
    by_hand = []
    for t, token in enumerate(given.written_ids):
        forced = family == "bart" and t == 0  # certain, whatever was read
        logit = (0.0 if forced else 1.0) * output.logits[0, t, token]
        by_hand.append(relevance_by_hand(logit, groups, t))
    found = gradients(given)
    np.testing.assert_allclose(found.values, by_hand, atol=NEAR[family], rtol=NEAR[family])
    assert (np.array(by_hand) > 0).any()
    assert not found.values[~found.visible].any()


def reason_of(error: AttributionError) -> str:
    """The code of the reason that a refusal gives."""
    reason = error.fields["reason"]
    assert isinstance(reason, Message)
    return reason.code


ODD: dict[str, tuple[str, dict[str, Any], Callable[[Reading], Any], str]] = {
    "a share": (
        "GraniteForCausalLM",
        dict(vocab_size=61, hidden_size=12, num_attention_heads=3, num_key_value_heads=3, intermediate_size=7)
        | dict(num_hidden_layers=1, residual_multiplier=0.5),
        lambda given: list(asked_sublayers(given)),
        "follow_no_residual",
    ),
    "normed on both sides": (
        "Gemma2ForCausalLM",
        dict(vocab_size=61, hidden_size=12, num_attention_heads=3, num_key_value_heads=3, intermediate_size=7)
        | dict(num_hidden_layers=1, head_dim=4),
        lambda given: list(asked_sublayers(given)),
        "follow_no_residual",
    ),
    "not seen": (
        "OpenAIGPTLMHeadModel",
        dict(vocab_size=61, n_embd=12, n_head=3, n_layer=1, n_positions=40),
        lambda given: list(asked_sublayers(given)),
        "follow_no_values",
    ),
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_layers_that_add_up_otherwise_are_refused_by_name(odd: str, tmp_path: Path) -> None:
    kind, options, ask, reason = ODD[odd]
    random_model(kind, options).save_pretrained(tmp_path / "odd")
    model: Any = load_hugging_face(tmp_path / "odd").model
    if odd == "not seen":
        model.places = {}
    with pytest.raises(AttributionError) as refused:
        ask(Reading("odd", model, SOURCE, Axis.of_tokens("token", [str(i) for i in SOURCE]), causal=True))
    assert refused.value.code == "attribution_not_followed"
    assert reason_of(refused.value) == reason
    if odd == "not seen":
        with pytest.raises(AttributionError) as refused:
            gradients(reference.scored_sequence(model, source=()))
        assert refused.value.code == "attribution_not_followed"


BESIDE: dict[str, dict[str, Any]] = {
    "GPTNeoXForCausalLM": dict(intermediate_size=7),
    "FalconForCausalLM": dict(),
    "PhiForCausalLM": dict(intermediate_size=7),
}
"""Families whose net reads what its attention reads, and whose sizes are below."""


@pytest.mark.parametrize("kind", BESIDE)
@torch.no_grad()
def test_a_net_beside_its_attention_is_no_part_of_its_sum(kind: str, tmp_path: Path) -> None:
    """The sub-layer is what the layer reads and what its attention gives: taken from the library's own model."""
    sizes = dict(vocab_size=61, hidden_size=24, num_attention_heads=3, num_hidden_layers=2, initializer_range=0.4)
    random_model(kind, sizes | BESIDE[kind]).save_pretrained(tmp_path / "beside")
    model: Any = load_hugging_face(tmp_path / "beside").model.double()
    given = Reading("beside", model, SOURCE, Axis.of_tokens("token", [str(i) for i in SOURCE]), causal=True)
    found = list(asked_sublayers(given))
    layers = next(part for part in model.net.modules() if isinstance(part, torch.nn.ModuleList))
    reads: list[torch.Tensor] = []
    gives: list[torch.Tensor] = []
    attends = list(model.attending().values())
    hooks = [layer.register_forward_pre_hook(lambda _, inputs: reads.append(inputs[0][0])) for layer in layers]
    hooks += [part.register_forward_hook(lambda _, __, made: gives.append(made[0][0])) for part in attends]
    model.run(torch.tensor([SOURCE]))
    for hook in hooks:
        hook.remove()
    assert len(found) == len(reads) == len(gives) == 2
    for one, read, gave in zip(found, reads, gives, strict=True):
        parts = torch.zeros_like(read)
        for rows, mine, constants in one.parts():
            parts[rows] = mine.sum(1) + constants
        np.testing.assert_allclose(parts, read + gave, atol=1e-9)
        np.testing.assert_allclose(one.x, read, atol=1e-12)
        one.clean()


def test_a_sum_that_is_not_the_models_own_is_refused(models: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by what runs, believed only where it adds up: a norm that does something more gives itself away."""
    net = models["bert"].net
    norm = net.encoder.layer[0].attention.output.LayerNorm
    usual = type(norm).forward
    monkeypatch.setattr(type(norm), "forward", lambda self, x: usual(self, x) + 1e-6 * x.pow(3))
    with pytest.raises(AttributionError) as refused:
        list(asked_sublayers(reading("bert", models["bert"])))
    assert reason_of(refused.value) == "follow_other_sum"


def test_a_model_that_is_followed_keeps_no_hooks_and_its_bits(models: dict[str, Any]) -> None:
    model = models["gpt2"]
    hooks = [(*module._forward_hooks, *module._forward_pre_hooks) for module in model.modules()]
    with torch.no_grad():
        before = model(torch.tensor([READ]))
    value_zeroing(reading("gpt2", model))
    gradients(reference.scored_sequence(model, source=()))
    with torch.no_grad():
        assert torch.equal(model(torch.tensor([READ])), before)
    assert [(*module._forward_hooks, *module._forward_pre_hooks) for module in model.modules()] == hooks
    assert all(parameter.grad is None for parameter in model.parameters())
