"""Decoding under interventions: row t acts on the step that writes token t, cached and uncached alike."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.attention.interventions.test_meaning import MEAN, donor, model
from transformer import DecodingOptions, InputError, Intervention, intervening, recording, watch
from transformer.nn.recurrent import Recurrent, RecurrentConfig
from transformer.nn.search import decode

OPTIONS = [DecodingOptions(beam=beam, max_length=5) for beam in (1, 3)]


def sources() -> Tensor:
    source = torch.randint(3, 19, (2, 7), generator=torch.Generator().manual_seed(11))
    source[1, -3:] = 0
    return source


def of_site(site: str) -> list[Intervention]:
    """One of each action, at certain steps or at all of them; step 1 has keys 0 and 1 in any attention."""
    part: dict[str, Any] = dict(heads=(0, 2), queries=(1, 3))
    return [
        Intervention(site, "knock_out", **part, keys=(0, 2)),
        Intervention(site, "cut", keys=(1,)),
        Intervention(site, "force", heads=(1,), queries=(1, 2, 3), value=(0.25, 0.75)),
        Intervention(site, "uniform", heads=(1,)),
        Intervention(site, "sharpest", **part),
        Intervention(site, "temperature", heads=(0,), value=0.2),
        Intervention(site, "zero", **part),
        Intervention(site, "mean", heads=(1,), value=MEAN),
        Intervention(site, "patch_weights", **part, value=donor()),
        Intervention(site, "patch_output", value=donor(), heads=(1,)),
    ]


@pytest.mark.parametrize("site", ["encoder.1.self", "decoder.0.self", "decoder.1.cross"])
def test_cached_decoding_is_uncached_decoding_under_every_action(site: str) -> None:
    made, source, moved = model(), sources(), 0
    if site == "encoder.1.self":
        source = source[:1]  # a donor of 7 positions stands for no shorter sentence
    for one in of_site(site):
        for options in OPTIONS if site != "encoder.1.self" else OPTIONS[1:]:
            plain = decode(made, source, options)
            with intervening([one]):
                cached, uncached = (decode(made, source, options, cached=way) for way in (True, False))
            for mine, other, before in zip(cached, uncached, plain, strict=True):
                assert [(n.parent, n.token, n.status) for n in mine.tree.nodes] == [
                    (n.parent, n.token, n.status) for n in other.tree.nodes
                ]
                assert mine.log_probs == pytest.approx(other.log_probs, abs=1e-9)
                moved += mine.log_probs != pytest.approx(before.log_probs, abs=1e-9)
    assert moved >= 10


def test_row_t_is_the_step_that_writes_token_t() -> None:
    """The unchanged steps before t write with the same probabilities; from t on another head is missing."""
    made, source = model(), sources()[:1]
    plain = decode(made, source, OPTIONS[0])[0]
    for t in range(1, 4):
        with intervening([Intervention("decoder.1.cross", "zero", queries=(t,))]):
            found = decode(made, source, OPTIONS[0])[0]
        assert found.ids[:t] == plain.ids[:t]
        assert found.log_probs[:t] == plain.log_probs[:t], "to the bit"
        assert found.log_probs[t] != pytest.approx(plain.log_probs[t], abs=1e-6)


def recurrent(attention: str) -> Recurrent:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        config = RecurrentConfig(19, 19, hidden=13, d_embedding=11, attention=attention, max_length=9, pad_id=0)
        made = Recurrent(config)
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    return watch(made.double().eval())


@pytest.mark.parametrize("attention", ["additive", "location"])
def test_recurrent_attention_is_changed_step_by_step(attention: str) -> None:
    """Weights as the formulas have them, in the record; mixed states that they make; cached as uncached."""
    made, source = recurrent(attention), sources()
    target = torch.randint(3, 19, (2, 5), generator=torch.Generator().manual_seed(12))
    with torch.inference_mode(), recording(outputs=True) as seen:
        plain = made(source, target)
    before = torch.from_numpy(seen["decoder.cross"].weights(0))  # (step, source)
    states = made.start(source).source.states[0].detach()
    site, rows = "decoder.cross", (1, 3)
    row = before[1].clone()
    row[[0, 2]] = 0
    softer = before[1] ** (1 / 0.5)
    donated = seen.donor("itself")
    expected = {
        Intervention(site, "knock_out", queries=rows, keys=(0, 2)): row / row.sum(),
        Intervention(site, "cut", queries=rows, keys=(0, 2)): row,
        Intervention(site, "force", queries=rows, keys=(2, 1), value=(0.75, 0.25)): torch.tensor(
            [0, 0.25, 0.75, *[0] * (len(row) - 3)], dtype=row.dtype
        ),
        Intervention(site, "temperature", queries=rows, value=0.5): softer / softer.sum(),
        Intervention(site, "sharpest", queries=rows): (torch.arange(len(row)) == before[1].argmax()).double(),
        Intervention(site, "uniform", queries=rows): torch.full_like(row, 1 / len(row)),
    }
    for one, weights in expected.items():
        with torch.inference_mode(), intervening([one]), recording(outputs=True) as after:
            changed = made(source, target)
        kept = torch.from_numpy(after["decoder.cross"].weights(0))
        torch.testing.assert_close(kept[0], before[0], rtol=0, atol=0)
        torch.testing.assert_close(kept[1], weights, rtol=0, atol=1e-12)
        torch.testing.assert_close(after.outputs(site)[0, 0, 1], weights @ states, rtol=0, atol=1e-12)
        assert torch.equal(changed[:, 0], plain[:, 0])
        assert not torch.allclose(changed[:, 1], plain[:, 1], rtol=0, atol=1e-9)
    with torch.inference_mode():
        with intervening([Intervention(site, "zero", queries=(1,))]), recording(outputs=True) as after:
            made(source, target)
        assert not after.outputs(site)[:, 0, 1].any()
        for action in ("patch_weights", "patch_output"):
            with intervening([Intervention(site, action, value=donated)]):
                torch.testing.assert_close(made(source, target), plain, rtol=0, atol=1e-12)
    some = [Intervention(site, "uniform", queries=(1, 2)), Intervention(site, "zero", queries=(3,))]
    with intervening(some):
        for options in OPTIONS:
            ways = [decode(made, source, options, cached=way) for way in (True, False)]
            for mine, other in zip(*ways, strict=True):
                assert mine.ids == other.ids
                assert mine.log_probs == pytest.approx(other.log_probs, abs=1e-9)


def test_a_donor_of_another_length_is_refused_with_both_lengths() -> None:
    made, source = model(), sources()[:1]
    target = torch.full((1, 4), 5)
    patch = Intervention("decoder.0.self", "patch_weights", value=donor())
    with pytest.raises(InputError, match=r"has 5 rows at decoder.0.self and this run 4"), intervening([patch]):
        made(source, target)
    shorter = source[:, :6]
    patch = Intervention("decoder.0.cross", "patch_weights", queries=(0,), value=donor())
    with pytest.raises(InputError, match=r"has 7 keys at decoder.0.cross and this run 6"), intervening([patch]):
        made(shorter, target)
    with intervening([Intervention("decoder.0.self", "patch_output", queries=(0, 1), value=donor())]):
        made(source, target)  # rows that both have
    with (
        pytest.raises(InputError, match=r"has 5 rows at decoder.0.self and this run 8"),
        intervening([Intervention("decoder.0.self", "patch_output", queries=(7,), value=donor())]),
    ):
        made(source, torch.full((1, 9), 5))


def test_what_does_not_exist_is_refused_and_says_what_does() -> None:
    made, source = model(), sources()
    target = torch.full((2, 4), 5)
    with (
        pytest.raises(InputError, match=r"no attention 'decoder.7.cross': choose one of decoder.0.cross, "),
        intervening([Intervention("decoder.7.cross", "zero")]),
    ):
        made(source, target)
    for one, told in (
        (Intervention("encoder.0.self", "zero", heads=(0, 3)), "heads of an intervention names 3, past the end"),
        (Intervention("encoder.0.self", "zero", queries=(7,)), "queries of an intervention names 7"),
        (Intervention("decoder.0.cross", "cut", keys=(7,)), "keys of an intervention names 7.*: choose 0 to 6"),
        (Intervention("decoder.0.self", "force", queries=(0,), value=(0.5, 0.5)), "puts weight on key 1 of decoder.0"),
        (Intervention("decoder.0.self", "mean"), "no mean output of decoder.0.self is known"),
        (Intervention("decoder.0.self", "mean", value=(1.0, 2.0)), "has 2 numbers, its heads have 13: give 13"),
    ):
        with pytest.raises(InputError, match=told), intervening([one]):
            made(source, target)
    with intervening([Intervention("decoder.0.self", "cut", queries=(40,), keys=(41,))]):
        made(source, target)  # a step that is not reached
