"""Norms, contributions, gradients, roll-out and weights against loops over positions and heads."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from heedmap import load
from heedmap.attention.capture import recording, watch
from heedmap.attention.record import Record
from heedmap.explain.attribution import gradients as gradients_module
from heedmap.explain.attribution import layers as sums_module
from heedmap.explain.attribution.gradients import gradients
from heedmap.explain.attribution.layers import (
    Sublayer,
    asked_sublayers,
    contributions,
    decoder_sublayers,
    normalise_rows,
    norms,
    rollout,
    self_sublayers,
    sublayer_contributions,
    weights,
)
from heedmap.explain.attribution.result import Attribution, EncodedText, answer
from heedmap.nn.stacks import Encoder, EncoderConfig
from heedmap.plots.axes import Axis
from heedmap.plots.picture import Quantity
from heedmap.runs.any_model import ModelRun, run_ids
from tests.checkpoint.originals.common import scramble
from tests.explain.attribution import reference
from tests.explain.attribution.reference import DIALECTS, READ, SOURCE, WRITTEN, Attended, refuses
from tests.explain.attribution.test_deletion import recurrent

N_SOURCE, N_READ = len(SOURCE), len(READ)


def record_of(made: Any, *texts: tuple[int, ...]) -> Record:
    with recording() as seen, torch.no_grad():
        watch(made)(*(torch.tensor([ids]) for ids in texts or (SOURCE, READ)))
    return Record({site: seen.map(site) for site in seen.sites})


def encoder(causal: bool = False) -> EncodedText:
    """An encoder alone, or the decoder alone that it becomes with a causal mask."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        config = EncoderConfig.of(
            vocab=31, d_model=12, n_heads=2, d_ff=17, n_layers=3, norm_first=causal, causal=causal
        )
        made = Encoder(config).double().eval()
    return EncodedText("small", made, SOURCE, Axis.of_tokens("token", [str(i) for i in SOURCE]), causal)


def spread(kept: Attended, x: np.ndarray, total: np.ndarray) -> np.ndarray:
    """L(x) of Kobayashi et al. 2021, with the deviation of the total."""
    if kept.norm_first:
        return x
    return reference.array(kept.norm.weight) * (x - x.mean()) / reference.deviation(kept.norm, total)


def parts_by_hand(kept: Attended, own: bool) -> list[list[np.ndarray]]:
    """Parts of each row, after the norm where it comes after: keys, then (in cross-attention) the residual."""
    n_heads, n_queries, n_keys = kept.weights.shape
    rows = []
    for t in range(n_queries):
        parts = [sum(kept.weights[h, t, j] * kept.values[h, j] for h in range(n_heads)) for j in range(n_keys)]
        if own:
            parts[t] = parts[t] + kept.x[t]
        else:
            parts.append(kept.x[t])
        total = sum(parts) + kept.bias
        rows.append([spread(kept, part, total) for part in parts])
    return rows


def contributions_by_hand(kept: Attended, own: bool) -> np.ndarray:
    rows = []
    for t, parts in enumerate(parts_by_hand(kept, own)):
        y = kept.output[t]
        near = [max(0.0, np.abs(y).sum() - np.abs(y - part).sum()) for part in parts]
        rows.append([c / sum(near) for c in near])
    return np.array(rows)


def matches(layer: Sublayer, kept: Attended) -> None:
    """The parts of a sub-layer are those by hand, and with the constants sum to what the model computes."""
    by_hand = parts_by_hand(kept, layer.site.kind == "self")
    given = list(layer.parts())
    assert len(given) == -(-layer.shape[0] // max(1, 200 // (layer.shape[1] * layer.x.shape[1])))
    parts, constant = (torch.cat(each).detach() for each in zip(*given, strict=True))
    np.testing.assert_allclose(parts, by_hand, atol=1e-9)
    np.testing.assert_allclose(parts.sum(1) + constant, layer.output.detach(), atol=1e-9)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_parts_sum_to_the_real_output_of_every_sub_layer(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums_module, "CELLS_AT_ONCE", 200)  # groups of two rows
    made = reference.model(dialect)
    run = reference.run(made, SOURCE, READ)
    given = reference.scored_sequence(made)
    for layer, kept in zip(self_sublayers(given), run.encoder, strict=True):
        matches(layer, kept)
    for layers, both in zip(decoder_sublayers(given), run.decoder, strict=True):
        for layer, kept in zip(layers, both, strict=True):
            matches(layer, kept)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_contributions_roll_out_as_the_paper_says(dialect: str) -> None:
    made = reference.model(dialect)
    run = reference.run(made, SOURCE, READ)
    held = np.eye(N_SOURCE)
    for kept in run.encoder:
        held = contributions_by_hand(kept, own=True) @ held
    of_source, of_prefix = np.zeros((N_READ, N_SOURCE)), np.eye(N_READ)
    for own, cross in run.decoder:
        first, second = contributions_by_hand(own, own=True), contributions_by_hand(cross, own=False)
        new_source, new_prefix = np.zeros_like(of_source), np.zeros_like(of_prefix)
        for t in range(N_READ):
            residual = second[t, N_SOURCE]
            for i in range(N_READ):
                new_source[t] += residual * first[t, i] * of_source[i]
                new_prefix[t] += residual * first[t, i] * of_prefix[i]
            for j in range(N_SOURCE):
                new_source[t] += second[t, j] * held[j]
        of_source, of_prefix = new_source, new_prefix
    single = contributions(reference.scored_sequence(made), layer=1)
    by_hand = contributions_by_hand(run.decoder[1][1], own=False)
    np.testing.assert_allclose(single.of_source, by_hand[:, :-1], atol=1e-9)
    np.testing.assert_allclose(single.of_prefix, np.diag(by_hand[:, -1]), atol=1e-9)
    found = contributions(reference.scored_sequence(made))
    np.testing.assert_allclose(found.of_source, of_source, atol=1e-9)
    np.testing.assert_allclose(found.of_prefix, of_prefix, atol=1e-9)
    np.testing.assert_allclose(found.values.sum(1), 1.0, atol=1e-9)
    assert not found.values[~found.visible].any()
    np.testing.assert_allclose(found.source_share, of_source.sum(1), atol=1e-9)


@pytest.mark.parametrize("dialect", ["torch", "annotated"])
def test_norms_are_of_sums_over_heads(dialect: str) -> None:
    made = reference.model(dialect)
    given, run = reference.scored_sequence(made), reference.run(made, SOURCE, READ)
    shares = []
    for number, (_, cross) in enumerate(run.decoder):
        summed = np.zeros((N_READ, N_SOURCE))
        for t in range(N_READ):
            for j in range(N_SOURCE):
                summed[t, j] = np.linalg.norm(sum(cross.weights[h, t, j] * cross.values[h, j] for h in range(3)))
        shares.append(summed / summed.sum(1, keepdims=True))
        np.testing.assert_allclose(norms(given, layer=number).values, summed, atol=1e-9)
        single = np.linalg.norm(cross.weights[2, :, :, None] * cross.values[2], axis=-1)
        np.testing.assert_allclose(norms(given, layer=number, head=2).values, single, atol=1e-9)
    np.testing.assert_allclose(norms(given).values, np.mean(shares, axis=0), atol=1e-9)


def logits_with(made: Any, added: dict[str, torch.Tensor]) -> torch.Tensor:
    """The model's logits with something (zero) added to its tables of weights: slopes are taken by it."""
    sites, hooks = made.attention_sites(), []
    for name, more in added.items():

        def put(module: Any, inputs: Any, output: Any, more: torch.Tensor = more) -> torch.Tensor:
            q, k, v, mask = inputs
            scores = q @ k.transpose(2, 3) / np.sqrt(q.shape[-1])
            if mask.causal:
                scores = scores + torch.full(scores.shape[2:], -torch.inf, dtype=scores.dtype).triu(1)
            return (scores.softmax(-1) + more) @ v

        hooks.append(sites[name].register_forward_hook(put))
    try:
        return made(torch.tensor([SOURCE]), torch.tensor([READ]))[0]
    finally:
        for hook in hooks:
            hook.remove()


def relevance_by_hand(made: Any, record: Record) -> np.ndarray:
    rows = []
    for t, token in enumerate(WRITTEN):
        tables = {site: torch.tensor(record[site].all_weights()) for site in record.sites}
        added = {site: torch.zeros_like(table).requires_grad_() for site, table in tables.items()}
        slopes = torch.autograd.grad(logits_with(made, added)[t, token], list(added.values()))
        kept = {}
        for (site, table), slope in zip(tables.items(), slopes, strict=True):
            kept[site] = (table * slope).clamp(min=0).mean(0).numpy()

        def normal(r: np.ndarray) -> np.ndarray:
            grown = r - np.eye(len(r))
            return np.array([row / row.sum() if row.sum() else row for row in grown]) + np.eye(len(r))

        r_ee, r_dd, r_de = np.eye(N_SOURCE), np.eye(N_READ), np.zeros((N_READ, N_SOURCE))
        for number in range(2):
            r_ee = r_ee + kept[f"encoder.{number}.self"] @ r_ee
        for number in range(3):
            own, cross = kept[f"decoder.{number}.self"], kept[f"decoder.{number}.cross"]
            r_dd, r_de = r_dd + own @ r_dd, r_de + own @ r_de
            r_de = r_de + cross @ normal(r_ee)
        rows.append(np.concatenate([r_de[t], (r_dd - np.eye(N_READ))[t]]))
    return np.array(rows)


@pytest.mark.parametrize("dialect", ["torch", "jadore"])
def test_gradients_follow_the_rules_one_step_at_a_time(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = reference.model(dialect)
    given, record = reference.scored_sequence(made), record_of(made)
    monkeypatch.setattr(gradients_module, "CELLS_AT_ONCE", 1_000)  # two steps at once
    told: list[float] = []
    found = gradients(given, told.append)
    assert told[-1] == 1.0
    assert len(told) == 3
    np.testing.assert_allclose(found.values, relevance_by_hand(made, record), atol=1e-9)
    assert not found.values[~found.visible].any()
    for parameter in made.parameters():
        parameter.requires_grad_(False)
    np.testing.assert_allclose(gradients(given).values, found.values, atol=1e-12)
    assert all(parameter.grad is None for parameter in made.parameters())


def test_rollout_multiplies_later_layers_from_the_left() -> None:
    made = reference.model("torch")
    run = reference.run(made, SOURCE, READ)

    def half(weights: np.ndarray) -> np.ndarray:
        return (weights.mean(0) + np.eye(weights.shape[1])) / 2

    held = half(run.encoder[1].weights) @ half(run.encoder[0].weights)
    of_source, of_prefix = np.zeros((N_READ, N_SOURCE)), np.eye(N_READ)
    for own, cross in run.decoder:
        of_source = half(own.weights) @ of_source / 2 + cross.weights.mean(0) @ held / 2
        of_prefix = half(own.weights) @ of_prefix / 2
    found = rollout(reference.scored_sequence(made), record_of(made))
    np.testing.assert_allclose(found.values, np.concatenate([of_source, of_prefix], 1), atol=1e-9)
    np.testing.assert_allclose(found.values.sum(1), 1.0, atol=1e-9)
    assert found.quantity is Quantity.SHARE


def test_raw_weights_are_a_head_a_layer_or_the_mean() -> None:
    made = reference.model("torch")
    record, run = record_of(made), reference.run(made, SOURCE, READ)
    given = reference.scored_sequence(made)
    cross = [kept.weights for _, kept in run.decoder]
    np.testing.assert_allclose(weights(given, record, 1, 2).values, cross[1][2], atol=1e-9)
    np.testing.assert_allclose(weights(given, record, 0).values, cross[0].mean(0), atol=1e-9)
    np.testing.assert_allclose(weights(given, record).values, np.mean([c.mean(0) for c in cross], 0), atol=1e-9)
    assert weights(given, record, 1, 2).name == "raw weights, layer 1, head 2"
    for wrong, code in (((3, None), "attribution_no_layer"), ((0, 3), "attribution_no_head")):
        refuses(code, weights, given, record, *wrong)


@pytest.mark.parametrize("causal", [False, True])
def test_a_model_that_reads_one_text_has_its_own_answers(causal: bool) -> None:
    reading = encoder(causal)
    record = record_of(reading.model, SOURCE)
    answers = [method(reading) for method in (contributions, norms)]
    answers += [rollout(reading, record), weights(reading, record)]
    for found in answers:
        np.testing.assert_allclose(found.values.sum(1), 1.0, atol=1e-9)
        assert not found.values[~found.visible].any()
        assert found.source_share is None
        assert (len(found.source), len(found.prefix)) == ((0, N_SOURCE) if causal else (N_SOURCE, 0))
        assert found.visible.sum() == (N_SOURCE * (N_SOURCE + 1) // 2 if causal else N_SOURCE**2)
    layers = list(asked_sublayers(reading))
    tables = [sublayer_contributions(layer) for layer in layers]
    np.testing.assert_allclose(answers[0].values, tables[2] @ tables[1] @ tables[0], atol=1e-12)
    blocks = reading.model.text_stack(torch.tensor([SOURCE])).blocks
    for (layer, after), block in zip(pairwise(layers), blocks, strict=False):
        np.testing.assert_array_equal(block.feed(layer.output[None])[0].detach(), after.x.detach())


def test_a_row_that_received_nothing_is_undefined_and_says_so() -> None:
    table = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    found = normalise_rows(table, np.array([[True, False, False], [True, True, True], [True, True, True]]))
    np.testing.assert_array_equal(found, [[1, 0, 0], [0.25, 0, 0.75], [np.nan] * 3])
    given = reference.scored_sequence(reference.model("torch"))
    values = np.full((N_READ, N_SOURCE), np.nan)
    assert [note.code for note in answer(given, "rollout", values, Quantity.SHARE).notes] == ["note_undefined_rows"]


def test_words_are_sums_over_their_pieces_and_means_over_those_written() -> None:
    found = contributions(reference.scored_sequence(reference.model("torch")))
    source = Axis.of_pieces("source", ["▁a", "b", "▁c", "▁d", "e", "f", "</s>"], [False] * 6 + [True])
    steps = Axis.of_pieces("steps", ["▁A", "▁B", "C", "▁D", "</s>"], [False] * 4 + [True])
    pieces = Attribution("contributions", steps, source, found.prefix, found.values, found.visible, found.quantity)
    merged = pieces.merged()
    for row, steps_of in enumerate([[0], [1, 2], [3], [4]]):
        for column, parts in enumerate([[0, 1], [2], [3, 4, 5], [6]]):
            expected = np.mean([sum(found.values[t, j] for j in parts) for t in steps_of])
            assert merged.of_source[row, column] == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(merged.values.sum(1), 1.0, atol=1e-9)
    assert len(pieces.only_source().prefix) == 0


def test_one_word_and_a_start_mark_alone_have_answers() -> None:
    made = reference.model("annotated")
    given = reference.scored_sequence(made, source=(7,), read=(1,), written=(2,))
    for found in (contributions(given), gradients(given), norms(given)):
        assert np.isfinite(found.values).all()
    np.testing.assert_allclose(contributions(given).values.sum(), 1.0, atol=1e-9)


def test_weights_that_are_not_numbers_are_not_smoothed_over() -> None:
    made = reference.model("torch")
    with torch.no_grad():
        made.encoder[0].self_attention.value.weight[0, 0] = torch.nan
    given = reference.scored_sequence(made)
    for method in (contributions, norms, gradients):
        assert np.isnan(method(given).values).any()


def look_by_hand(made: Any, record: Record, step: int) -> np.ndarray:
    """A' of one step's look: a zero added to its weights, and the slope of the written token's logit by it."""
    more, looks = torch.zeros(record["decoder.cross"].source.n_keys).double().requires_grad_(), []

    def put(module: Any, inputs: Any, output: Any) -> Any:
        mixed, kept = output
        looks.append(kept[0, 0, 0].detach())
        return (mixed + more @ inputs[2].states[0], kept) if len(looks) == step + 1 else output

    with made.attention.register_forward_hook(put):
        logits = made(torch.tensor([SOURCE]), torch.tensor([READ]))[0]
    (slope,) = torch.autograd.grad(logits[step, WRITTEN[step]], more)
    found: np.ndarray = (looks[step] * slope).clamp(min=0)[:N_SOURCE].numpy()
    return found


@pytest.mark.parametrize("attention", ["additive", "location"])
def test_gradients_of_a_recurrent_decoder_are_those_of_each_step_s_look(attention: str) -> None:
    made = recurrent(attention)
    given, record = reference.scored_sequence(made), record_of(made)
    found = gradients(given)
    by_hand = np.array([look_by_hand(made, record, step) for step in range(N_READ)])
    np.testing.assert_allclose(found.values, by_hand, atol=1e-12)
    assert (by_hand > 0).any()
    assert (len(found.source), len(found.prefix)) == (N_SOURCE, 0)
    assert [note.code for note in found.notes] == ["note_gradients", "note_gradients_recurrent"]
    single = gradients(reference.scored_sequence(made, source=(7,), read=(1,), written=(2,)))
    assert single.values.shape == (1, 1)


IDS = [5, 17, 2, 30, 17, 9, 11]
N_HEADS = 3


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[ModelRun, object]]:
    folder = tmp_path_factory.mktemp("decoder")
    torch.manual_seed(5)
    config = transformers.GPT2Config(
        vocab_size=31, n_embd=15, n_layer=2, n_head=N_HEADS, n_inner=23, n_positions=29, initializer_range=0.4
    )
    original = scramble(transformers.GPT2LMHeadModel(config)).eval()
    original.save_pretrained(folder / "theirs")
    torch.save(original.state_dict(), folder / "model.bin")
    found = [load(folder / "theirs"), load(folder / "model.bin", n_heads=N_HEADS, activation="gelu_tanh")]
    pieces = [str(one) for one in IDS]
    return [(run_ids(one, "ids", IDS, pieces), one) for one in found]


@pytest.mark.parametrize("method", ["deletion", "gradients", "integrated_gradients"])
def test_each_method_says_the_same_of_both(runs, method: str) -> None:
    theirs, ours = (run.attribution(checkpoint, method) for run, checkpoint in runs)
    assert ours.values.shape == theirs.values.shape == (len(IDS) - 1, len(IDS) - 1)
    assert np.abs(np.tril(ours.values, -1)).max() > 0.01, "it is no table of nothing"
    np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-3, atol=1e-4)
