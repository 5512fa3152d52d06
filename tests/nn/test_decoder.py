"""A decoder alone: against GPT-2 written out number by number, and a cache that changes nothing but the time."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from transformer import Checkpoint, Intervention, intervening, recording, run_any, watch
from transformer.checkpoint.meta_shapes import meta_shapes
from transformer.errors import ConfigError, InputError
from transformer.nn.blocks import EncoderBlock
from transformer.nn.decoder import Decoder, DecoderConfig
from transformer.text.vocabulary import id_tokenizers

GPT2: dict[str, Any] = dict(activation="gelu_tanh", tie_projection=True)
"""What GPT-2 is, beside its sizes."""


def drawn(config: DecoderConfig, seed: int = 5) -> Decoder:
    """A decoder in float64 whose every number is random, but for the rates of rotary positions."""
    torch.manual_seed(seed)
    model = Decoder(config).double().eval()
    for name, parameter in model.named_parameters():
        if name != "rotary.rates":
            torch.nn.init.normal_(parameter, std=0.4)
    watch(model)
    return model


def small(**options: Any) -> DecoderConfig:
    sizes: dict[str, Any] = dict(vocab=23, d_model=14, n_heads=2, d_ff=11, n_layers=3, max_length=19)
    return DecoderConfig(**(sizes | options))


class Reference:
    """Radford et al. 2019 from the weights of `model`, a head, a query and a key at a time."""

    def __init__(self, model: Decoder) -> None:
        self.config = model.config
        self.w = {name: tensor.detach().numpy().astype(np.float64) for name, tensor in model.named_parameters()}

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        found: np.ndarray = x @ self.w[f"{name}.weight"].T
        return found + self.w[f"{name}.bias"] if f"{name}.bias" in self.w else found

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        found: np.ndarray = centred / deviation * self.w[f"{name}.weight"] + self.w[f"{name}.bias"]
        return found

    def gelu(self, x: np.ndarray) -> np.ndarray:
        found: np.ndarray = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        return found

    def __call__(self, ids: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Log-probabilities (position, vocab) and weights (layer, head, query, key)."""
        config, n = self.config, len(ids)
        size = config.d_model // config.n_heads
        x = self.w["embedding.weight"][ids] + self.w["positions.table"][:n]
        weights = np.zeros((config.n_layers, config.n_heads, n, n))
        for i in range(config.n_layers):
            own = f"decoder.{i}.self_attention"
            read = self.norm(x, f"decoder.{i}.self_residual.norm")
            q, k, v = (self.linear(read, f"{own}.{part}") for part in ("query", "key", "value"))
            mixed = np.zeros_like(x)
            for head in range(config.n_heads):
                part = slice(head * size, (head + 1) * size)
                for t in range(n):
                    powers = np.exp([q[t, part] @ k[s, part] / math.sqrt(size) for s in range(t + 1)])
                    weights[i, head, t, : t + 1] = powers / powers.sum()
                    mixed[t, part] = weights[i, head, t] @ v[:, part]
            x = x + self.linear(mixed, f"{own}.output")
            read = self.norm(x, f"decoder.{i}.feed_forward_residual.norm")
            net = f"decoder.{i}.feed_forward"
            x = x + self.linear(self.gelu(self.linear(read, f"{net}.widen")), f"{net}.narrow")
        logits = self.norm(x, "decoder_norm") @ self.w.get("projection.weight", self.w["embedding.weight"]).T
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True)), weights


@pytest.mark.parametrize(
    "sizes",
    [
        dict(vocab=37, d_model=15, n_heads=5, d_ff=31, n_layers=2, max_length=29),
        dict(vocab=19, d_model=22, n_heads=11, d_ff=7, n_layers=3, max_length=13, tie_projection=False),
        dict(vocab=53, d_model=6, n_heads=1, d_ff=41, n_layers=4, max_length=17, attention_bias=False),
    ],
)
def test_it_is_gpt_2(sizes: dict[str, Any]) -> None:
    model = drawn(DecoderConfig(**(GPT2 | sizes)))
    ids = torch.randint(sizes["vocab"], (2, 12), generator=torch.Generator().manual_seed(1))
    with torch.no_grad(), recording() as seen:
        found = model.outputs(ids)["log_probs"]
    assert [str(site) for site in seen.sites] == [f"decoder.{i}.self" for i in range(sizes["n_layers"])]
    for row, one in enumerate(ids.tolist()):
        expected, weights = Reference(model)(one)
        assert abs(found[row].numpy() - expected).max() < 1e-12
        for i, site in enumerate(seen.sites):
            assert abs(seen.map(site, batch=row).all_weights() - weights[i]).max() < 1e-12


KINDS: dict[str, dict[str, Any]] = {
    "GPT-2": GPT2,
    "norm after, a formula, scaled": dict(
        norm_first=False, norm_after_stack=False, positions="sinusoidal", scale_embedding=True, activation="relu",
    ),
    "no positions, padding": dict(positions="none", pad_id=0, projection_bias=True, norm_after_embedding=True),
    "rotary": dict(positions="none", rotary=3, rotary_halves=True, attention_bias=False),
    "rotary neighbours beside a table": dict(rotary=2, attention_scale=0.7, norm="annotated"),
}  # fmt: skip
CHANGES = [
    Intervention("decoder.0.self", "zero", heads=(1,)),
    Intervention("decoder.1.self", "knock_out", queries=(5, 8, 11), keys=(1, 4, 8)),
    Intervention("decoder.2.self", "uniform", heads=(0,), queries=(7, 12)),
    Intervention("decoder.2.self", "temperature", heads=(1,), value=0.3),
]


@pytest.mark.parametrize("changes", [[], CHANGES], ids=["unchanged", "changed"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_cache_reads_on_is_what_one_pass_over_all_reads(kind: str, changes: list[Intervention]) -> None:
    """In pieces of several tokens and of one, rows kept, dropped and doubled on the way, under changes by rows."""
    model = drawn(small(**KINDS[kind]))
    ids = torch.randint(1, 23, (3, 13), generator=torch.Generator().manual_seed(2))
    ids[1, :2] = 0  # padding, where there is any
    ids[1, 2] = 7
    with torch.no_grad(), intervening(changes):
        whole = model(ids)
        found, cache = {}, model.begin()
        for start, stop in ((0, 5), (5, 6), (6, 9), (9, 10), (10, 11), (11, 12), (12, 13)):
            found[stop] = model.read_on(ids[:, start:stop], cache)
        for stop, logits in found.items():
            assert (logits - whole[:, stop - 1]).abs().max() < 1e-12
        again = model.begin()
        model.read_on(ids[:, :6], again)
        again.reorder(torch.tensor([2, 0, 2, 1]))
        assert (model.read_on(ids[[2, 0, 2, 1], 6:], again) - whole[[2, 0, 2, 1], -1]).abs().max() < 1e-12
    with torch.no_grad():
        assert ((model(ids) - whole).abs().max() > 1e-3) == bool(changes)


def test_it_is_the_library_s_rotary_attention_of_absolute_places() -> None:
    """Su et al. 2021: a score depends on the distance alone, so what precedes may grow without a change."""
    model = drawn(small(positions="none", rotary=3, n_layers=1))
    block: EncoderBlock = model.decoder[0]
    x = torch.randn(1, 4, 14, dtype=torch.float64)
    scores = [
        block.self_attention.queries(x, start) @ block.self_attention.keys_values(x, start).k.mT for start in (0, 9)
    ]
    torch.testing.assert_close(scores[0], scores[1], rtol=0, atol=1e-12)
    far = block.self_attention.queries(x, 9) @ block.self_attention.keys_values(x, 0).k.mT
    assert (far - scores[0]).abs().max() > 1e-2


def test_hidden_positions_are_seen_by_none_and_a_failed_step_leaves_the_cache() -> None:
    model = drawn(small(max_length=7))
    ids = torch.tensor([[3, 5, 7, 11, 13]])
    shown = torch.tensor([[True, False, True, True, True]])
    other = ids.clone()
    other[0, 1] = 2
    with torch.no_grad():
        rows = [model(one, shown)[0, [0, 2, 3, 4]] for one in (ids, other)]
        assert torch.equal(rows[0], rows[1])
        cache = model.begin()
        model.read_on(ids, cache)
        with pytest.raises(InputError, match="7"):
            model.read_on(torch.tensor([[1, 2, 3]]), cache)
        with pytest.raises(InputError, match="id 23"):
            model.read_on(torch.tensor([[23]]), cache)
        assert cache.length == 5
        expected = model(torch.tensor([[3, 5, 7, 11, 13, 17]]))[:, -1]
        assert (model.read_on(torch.tensor([[17]]), cache) - expected).abs().max() < 1e-12


def test_its_run_is_recorded_with_labels_and_attributed_to_what_was_read() -> None:
    model = drawn(small())
    checkpoint = Checkpoint("own", model, id_tokenizers(model.config)[0])
    run = run_any(checkpoint, "3 5 7 11 2")
    assert run.outputs.keys() == {"log_probs"}
    assert run.record["decoder.1.self"].keys.texts == ("3", "5", "7", "11", "2")
    found = run.attribution(checkpoint, "deletion")
    with torch.no_grad():  # the last token, where no attention sees the second
        shown = torch.tensor([[True, False, True, True]])
        less = model(torch.tensor([[3, 5, 7, 11]]), shown).log_softmax(-1)[0, -1, 2]
    assert found.values[3, 1] == pytest.approx(float(run.outputs["log_probs"][3, 2] - less), abs=1e-9)
    for method in ("norms", "contributions", "value_zeroing", "rollout", "weights"):
        assert run.attribution(checkpoint, method).values.shape == (5, 5)


def test_rotary_rates_are_the_papers_and_shapes_take_no_memory() -> None:
    rates = Decoder(small(positions="none", rotary=3)).rotary.rates  # type: ignore[union-attr]
    assert rates.tolist() == pytest.approx([1.0, 10_000 ** (-1 / 3), 10_000 ** (-2 / 3)])
    many = 10**13
    assert meta_shapes(Decoder, small(d_k=2 * many, d_v=3, rotary=many))["rotary.rates"] == (many,)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("vocab", 0, "vocab=0"),
        ("n_heads", 3, "d_model=14 cannot be split into n_heads=3"),
        ("activation", "tanh", "relu, gelu"),
        ("positions", "rotary", "sinusoidal"),
        ("norm", "rms", "torch, annotated"),
        ("rotary", 4, "4 pairs of numbers"),
        ("d_k", -1, "d_k=-1"),
        ("dropout", 1.0, "dropout=1.0"),
    ],
)
def test_config_refuses(option: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(small(), **{option: value})
