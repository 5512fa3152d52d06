"""What watching costs: forward passes that are recorded, against plain ones, of our models and of others'.

Ours is an encoder as large as BERT-base (12 layers, 12 heads, 768 wide), theirs are nanoGPT's; then what a look at a
record costs: one head, a tile, an overview. Batch 1, random weights.
"""

import copy
import statistics
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from benchmarks.measuring import Action, Result, cpu_seconds, interleaved, median_seconds, peak_growth, ratio
from heedmap import recording
from heedmap.attention.capture import Recording, watch
from heedmap.attention.capture import recording as recording_ours
from heedmap.nn.masks import Mask
from heedmap.nn.stacks import Encoder, EncoderConfig
from tests.attention.recording.modules.decoders import Decoder, NanoGPT

FORWARD = "Recording a forward pass (12 layers, 12 heads, 768 wide, batch 1)"
ANY_MODULE = "Recording any module (12 layers in nanoGPT's style, fused causal attention, batch 1)"
READING = "Looking at a record"
GOAL = 1.05
"""What a recorded pass may cost, against a plain one."""

ROUNDS = {16: 40, 64: 30, 128: 20, 512: 9, 1024: 7, 2048: 5}
ROUNDS_OF_ANY = {128: 60, 512: 20, 2_048: 6}
"""Tokens -> how often each variant runs."""

BERT_BASE = EncoderConfig.of(
    vocab=1_000, d_model=768, n_heads=12, d_ff=3_072, n_layers=12, activation="gelu", max_length=2_048
)
BASE = EncoderConfig.of(vocab=1_000, d_model=512, n_heads=8, d_ff=2_048, n_layers=6, max_length=8_192)
"""As large as the encoder of the paper's base model; causal ones are measured too, since their mask costs something."""

WIDTHS = {256: 8, 768: 12}
"""Width -> heads of the modules that are not ours."""

N_LAYERS, VOCAB = 12, 1_000


def nano_gpt(width: int) -> nn.Module:
    """A model in nanoGPT's style."""
    model = Decoder(VOCAB, width, [NanoGPT(width, WIDTHS[width], flash=True) for _ in range(N_LAYERS)])
    model.wpe = nn.Embedding(2_048, width)
    for block in model.blocks:
        block.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
    return model.eval()


def gpt2(width: int, attention: str) -> Any:
    """GPT-2 with one of the attentions of its library."""
    sizes = {"n_embd": width, "n_head": WIDTHS[width], "n_layer": N_LAYERS, "vocab_size": VOCAB, "n_positions": 2_048}
    special = {"bos_token_id": 0, "eos_token_id": 0, "use_cache": False}
    return GPT2LMHeadModel(GPT2Config(**sizes, **special, attn_implementation=attention)).eval()


def recorded(model: nn.Module, ids: Tensor) -> tuple[Tensor, Recording]:
    """One forward pass, and what was kept of it."""
    with recording_ours() if isinstance(model, Encoder) else recording(model) as seen:
        return model(ids), seen


def kept_bytes(seen: Recording) -> int:
    """Bytes of storage that a recording holds on to: whole storages, also where only a view of one was kept."""
    storages: dict[int, int] = {}
    for site in seen.sites:
        fields = vars(seen.source(site))
        mask = fields.get("mask")
        tensors = [*fields.values(), mask.keys if isinstance(mask, Mask) else None]
        kept = [one.untyped_storage() for one in tensors if isinstance(one, Tensor)]
        storages |= {one.data_ptr(): one.nbytes() for one in kept}
    return sum(storages.values())


def compared(
    section: str, name: str, plain: nn.Module, watched: nn.Module, rounds: Mapping[int, int], bound: tuple[int, str]
) -> list[Result]:
    """Time at each length, and the bytes that a recording keeps, which `bound` says in number and words."""
    results, sizes = [], {}
    for n, times in rounds.items():
        ids = torch.randint(VOCAB, (1, n))
        with torch.inference_mode():
            (found, seen), expected = recorded(watched, ids), plain(ids)
            if not torch.equal(found, expected):
                raise AssertionError(f"recording changed the output at {n} tokens")
            sizes[n] = kept_bytes(seen)
            del seen
            variants: dict[str, Action] = {"plain": partial(plain, ids), "recorded": partial(recorded, watched, ids)}
            seconds = interleaved(variants, times)
        cost, usual = ratio(seconds, "recorded", "plain"), statistics.median(seconds["plain"])
        said = f"{cost:.3f} x of {usual * 1e3:.0f} ms"
        what = f"{name}{n} tokens: recorded against plain"
        results.append(Result(section, what, said, f"at most {GOAL} x", cost <= GOAL))
    what = f"{name}bytes kept a token, at {', '.join(f'{n:,}' for n in sizes)} tokens"
    said = ", ".join(f"{size / n / 1e3:.1f} kB" for n, size in sizes.items())
    goal = f"at most {bound[0] / 1e3:.1f} kB: {bound[1]}"
    return [*results, Result(section, what, said, goal, all(size <= bound[0] * n for n, size in sizes.items()))]


def measure() -> list[Result]:
    """Passes of our encoder, whose copies differ in nothing but the hooks."""
    torch.manual_seed(0)
    plain = Encoder(BERT_BASE).eval()
    same = {id(tensor): tensor for tensor in [*plain.parameters(), *plain.buffers()]}
    d_model, n_heads = BERT_BASE.block.d_model, BERT_BASE.block.attention.n_heads
    bound = 4 * BERT_BASE.n_layers * (2 * d_model + n_heads), "4 x layers x (2 d_model + heads)"
    return compared(FORWARD, "", plain, watch(copy.deepcopy(plain, same)), ROUNDS, bound)


def measure_any() -> list[Result]:
    """Passes at each width, and of GPT-2 of the transformers library what keeping all weights costs."""
    torch.manual_seed(0)
    results = []
    for width, n_heads in WIDTHS.items():
        model, bound = nano_gpt(width), (4 * N_LAYERS * 3 * width, "4 x layers x 3 d_model")
        results += compared(ANY_MODULE, f"{width} wide, {n_heads} heads, ", model, model, ROUNDS_OF_ANY, bound)
    width, n = min(WIDTHS), 512
    fused, eager, ids = gpt2(width, "sdpa"), gpt2(width, "eager"), torch.randint(VOCAB, (1, n))
    every = partial(eager, ids, output_attentions=True)
    passes = {"fused": partial(fused, ids), "eager": partial(eager, ids), "output_attentions=True": every}
    with torch.inference_mode():
        times = interleaved(passes, ROUNDS_OF_ANY[n])
        n_bytes = sum(one.nbytes for one in every().attentions)
    kept = f" and {n_bytes / 1e6:.0f} MB"
    for name, base, more in (("eager", "fused", ""), ("output_attentions=True", "eager", kept)):
        what = f"GPT-2 of the transformers library, {width} wide, {n} tokens: {name} against {base}"
        results.append(Result(ANY_MODULE, what, f"{ratio(times, name, base):.3f} x{more}"))
    return results


def record_of(config: EncoderConfig, n: int, passes: int) -> tuple[Recording, float]:
    """The recording of one pass over random tokens, and the median CPU seconds of such a pass."""
    torch.manual_seed(0)
    model, ids = watch(Encoder(config).eval()), torch.randint(config.vocab, (1, n))
    with torch.inference_mode():
        return recorded(model, ids)[1], median_seconds(partial(recorded, model, ids), passes)


def measure_reading() -> list[Result]:
    """One head and one tile at 2,048 tokens, an overview at 8,192."""
    seen, forward = record_of(BERT_BASE, 2_048, 3)
    share = median_seconds(partial(seen["encoder.3.self"].weights, 5), 15) / forward
    what = "one head's 2,048 x 2,048 weights"
    results = [Result(READING, what, f"{share:.2%} of the forward", "at most 1 %", share <= 0.01)]
    corner = (slice(1_024, 1_280), slice(256, 512))
    heads = product(range(BERT_BASE.n_layers), range(BERT_BASE.block.attention.n_heads))

    def first_look() -> object:
        layer, head = next(heads)
        return seen[f"encoder.{layer}.self"].tile(head, *corner)

    for what, look in (
        ("a 256 x 256 tile at 2,048 tokens, first look at its rows", first_look),
        ("the same, after any look at its rows", partial(seen["encoder.11.self"].tile, 11, *corner)),
    ):
        took = 1e3 * median_seconds(look, 50)
        results.append(Result(READING, what, f"{took:.2f} ms", "under 1 ms", took < 1))
    for name, causal in (("everything visible", False), ("causal", True)):
        seen, forward = record_of(replace(BASE, causal=causal), 8_192, 1)
        overview = seen["encoder.3.self"].overview
        peak = peak_growth(partial(overview, 2))
        share = min(cpu_seconds(partial(overview, 5)) for _ in range(3)) / forward
        what = f"256 x 256 overview (block maxima) of 8,192 x 8,192, {name}"
        results += [
            Result(READING, what, f"{share:.2%} of the forward", "at most 2 %", share <= 0.02),
            Result(READING, f"{what}: extra memory", f"{peak / 1e6:.0f} MB", "under 100 MB", peak < 100e6),
        ]
    return results
