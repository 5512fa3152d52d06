"""A decoder alone writes on: as the library's own generation does, with what each step saw; seeds repeat it."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from tests.checkpoint.huggingface.families import LONGEST, random_model, write_folder
from transformer import Checkpoint, Intervention, intervening, load, run_any, watch
from transformer.checkpoint.huggingface.library import quiet
from transformer.errors import CheckpointError, InputError
from transformer.nn.decoder import Decoder, DecoderConfig
from transformer.runs.continuing import ContinueOptions, continue_text, continues, parting, reread
from transformer.text.vocabulary import id_tokenizers

TEXT = "the dog runs."
IDS = "5 7 11 13 17 19 23"
SMALL: dict[str, Any] = dict(vocab_size=97, hidden_size=24, num_hidden_layers=2, num_attention_heads=6)
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "opt": (
        "OPTForCausalLM",
        SMALL | dict(ffn_dim=11, max_position_embeddings=LONGEST, word_embed_proj_dim=24, init_std=0.4),
    ),
    "mistral": (
        "MistralForCausalLM",
        SMALL | dict(num_key_value_heads=2, intermediate_size=12, sliding_window=3, initializer_range=0.4),
    ),
    "gemma2": (
        "Gemma2ForCausalLM",
        SMALL | dict(num_key_value_heads=2, head_dim=4, intermediate_size=12, initializer_range=0.4),
    ),
}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checkpoint]:
    place = tmp_path_factory.mktemp("continuing")
    found = {family: load(write_folder(place / family, family)) for family in ("gpt2", "llama", "bert")}
    with quiet():
        for family, (class_name, options) in OTHERS.items():
            random_model(class_name, options | dict(eos_token_id=1)).save_pretrained(place / family)
            found[family] = load(place / family)
    return found


def own_decoder() -> Checkpoint:
    """A decoder alone of our own definition, as a file without a config is read."""
    torch.manual_seed(3)
    config = DecoderConfig(vocab=29, d_model=10, n_heads=2, d_ff=14, n_layers=3, max_length=13)
    return Checkpoint("own", watch(Decoder(config).eval()), id_tokenizers(config)[0])


@pytest.mark.parametrize("family", ["gpt2", "llama", *OTHERS])
@pytest.mark.parametrize("drawn", [dict(), dict(temperature=0.7, top_k=5, seed=11), dict(temperature=1.3, seed=4)])
def test_it_writes_what_the_library_generates(checkpoints: dict[str, Checkpoint], family: str, drawn: Any) -> None:
    checkpoint: Any = checkpoints[family]
    found = continue_text(checkpoint, IDS if family in OTHERS else TEXT, ContinueOptions(9, **drawn))
    net = checkpoint.model.net
    prompt = torch.tensor([found.run.ids[: found.prompt]])
    sampling = dict(do_sample=True, temperature=drawn["temperature"], top_k=drawn.get("top_k", 0)) if drawn else {}
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(drawn.get("seed", 0))
        theirs = net.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=9, num_beams=1, pad_token_id=0,
            eos_token_id=checkpoint.model.config.eos_id, output_logits=True, return_dict_in_generate=True,
            **(sampling or dict(do_sample=False)),
        )  # fmt: skip
    assert list(found.written) == theirs.sequences[0, found.prompt :].tolist()
    assert len(found.written) > 1
    for step, logits, token in zip(found.steps, theirs.logits, found.written, strict=False):
        odds = logits[0].softmax(-1)
        best = odds.topk(10)
        assert [one.token for one in step] == best.indices.tolist()
        np.testing.assert_allclose([one.probability for one in step], best.values, atol=1e-5)
        tempered = (logits[0] / drawn["temperature"]) if drawn else torch.full_like(odds, -torch.inf)
        if drawn.get("top_k"):
            tempered[tempered < tempered.topk(drawn["top_k"]).values[-1]] = -torch.inf
        if not drawn:
            tempered[token] = 0.0
        np.testing.assert_allclose([one.chance for one in step], tempered.softmax(-1)[best.indices], atol=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "gemma2", "own"])
def test_each_step_shows_what_had_been_read_by_then(checkpoints: dict[str, Checkpoint], family: str) -> None:
    checkpoint = own_decoder() if family == "own" else checkpoints[family]
    text = TEXT if family == "gpt2" else IDS
    found = continue_text(checkpoint, text, ContinueOptions(4, temperature=1.0, seed=2))
    assert len(found.steps) == len(found.written) + 1 == len(found.tokens) + 1 == len(found.texts)
    for step, seen in enumerate(found.steps):
        read = found.at(step)
        count = found.prompt + step
        assert read.ids == (*found.run.ids[: found.prompt], *found.written[:step])
        alone = torch.tensor([read.ids])
        with torch.inference_mode():
            logits = checkpoint.model.outputs(alone)
        last = logits["log_probs"][0, -1].exp()
        np.testing.assert_allclose([one.probability for one in seen], last[[one.token for one in seen]], atol=1e-5)
        if family != "gpt2":  # whose ids are typed
            again = run_any(checkpoint, " ".join(map(str, read.ids)))
            for site in again.record.sites:
                assert read.record[site].shape == (count, count)
                np.testing.assert_allclose(read.record[site].all_weights(), again.record[site].all_weights(), atol=1e-5)
                assert read.record[site].keys.texts == again.record[site].keys.texts
    for step, token in enumerate(found.tokens):
        assert found.at(step + 1).record.sites == found.run.record.sites
        assert found.at(step + 1).input == found.texts[step + 1] == checkpoint.tokenizer.decode(found.at(step + 1).ids)
        place = found.prompt - 1 + step
        row = found.run.outputs["log_probs"][place]
        assert token.probability == pytest.approx(np.exp(row[found.written[step]]), abs=1e-5)
        assert token.rank == (row > row[found.written[step]]).sum()
    assert found.texts[0] == text


def test_a_longer_text_begins_with_the_shorter_one(checkpoints: dict[str, Checkpoint]) -> None:
    few, many, other = (
        continue_text(checkpoints["gpt2"], TEXT, ContinueOptions(count, temperature=1.5, seed=seed))
        for count, seed in ((3, 8), (12, 8), (12, 9))
    )
    assert many.written[:3] == few.written
    assert many.written != other.written
    assert not few.finished
    told: list[float] = []
    continue_text(checkpoints["gpt2"], TEXT, ContinueOptions(3), told.append)
    assert told == [0.25, 0.5, 0.75, 1.0]


def test_it_ends_at_the_end_mark_and_where_no_position_is_left(checkpoints: dict[str, Checkpoint]) -> None:
    checkpoint: Any = own_decoder()
    assert continues(checkpoint)
    full = continue_text(checkpoint, IDS, ContinueOptions(100))
    assert len(full.run.ids) == 13
    with pytest.raises(InputError, match="fills all 13 positions"):
        continue_text(checkpoint, " ".join(map(str, full.run.ids)), ContinueOptions(1))
    assert continue_text(checkpoint, " ".join(map(str, full.run.ids)), ContinueOptions(0)).written == ()
    gpt: Any = checkpoints["gpt2"]
    end = gpt.model.config.eos_id
    with torch.no_grad():
        gpt.model.net.lm_head.weight[end] += 1e3 * torch.sign(gpt.model.net.transformer.ln_f.bias)
        gpt.model.net.transformer.ln_f.bias *= 1e3
    ended = continue_text(gpt, TEXT, ContinueOptions(7))
    assert ended.written == (end,)
    assert ended.finished


def test_what_cannot_be_continued_is_refused(checkpoints: dict[str, Checkpoint]) -> None:
    assert not continues(checkpoints["bert"])
    with pytest.raises(CheckpointError, match="does not score what comes next"):
        continue_text(checkpoints["bert"], TEXT)
    for wrong in (dict(n_tokens=-1), dict(temperature=-0.1), dict(temperature=float("nan")), dict(top_k=-1)):
        with pytest.raises(InputError, match=next(iter(wrong))):
            ContinueOptions(**wrong)


def test_with_a_head_off_it_writes_what_the_library_s_model_writes_whose_head_gives_nothing(
    checkpoints: dict[str, Checkpoint],
) -> None:
    checkpoint: Any = checkpoints["llama"]
    drawn = ContinueOptions(9, temperature=1.0, seed=3)
    plain = continue_text(checkpoint, TEXT, drawn)
    net, width = checkpoint.model.net, 4  # six heads
    with intervening([Intervention("decoder.1.self", "zero", heads=(2,))]):
        found = continue_text(checkpoint, TEXT, drawn)

    def without(_module: Any, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        mixed = inputs[0].clone()
        mixed[..., 2 * width : 3 * width] = 0.0
        return mixed

    twin = copy.deepcopy(net)
    twin.model.layers[1].self_attn.o_proj.register_forward_pre_hook(without)
    ids, generator = list(found.run.ids[: found.prompt]), torch.Generator().manual_seed(3)
    for step in found.steps:  # all of it read anew at each step: no cache
        with torch.inference_mode():
            odds = twin(torch.tensor([ids])).logits[0, -1].softmax(-1)
        best = odds.topk(10)
        np.testing.assert_allclose([one.probability for one in step], best.values, atol=1e-5)
        ids.append(int(torch.multinomial(odds, 1, generator=generator)))
    assert list(found.written) == ids[found.prompt : -1] != list(plain.written)
    apart = parting(plain, found)
    assert apart is not None
    assert plain.written[:apart] == found.written[:apart]
    assert plain.written[apart] != found.written[apart]
    assert parting(plain, plain) is None
    assert found.run.record.interventions


@pytest.mark.parametrize("family", ["llama", "own"])
def test_a_change_in_a_row_that_is_written_later_acts_once_it_is_there(
    checkpoints: dict[str, Checkpoint], family: str
) -> None:
    checkpoint = own_decoder() if family == "own" else checkpoints[family]
    text = IDS if family == "own" else TEXT
    plain = continue_text(checkpoint, text, ContinueOptions(5, temperature=1.0, seed=2))
    row = plain.prompt + 1
    change = [Intervention(f"{next(iter(plain.run.record)).stack}.0.self", "knock_out", queries=(row,), keys=(1, row))]
    with intervening(change):
        found = continue_text(checkpoint, text, ContinueOptions(5, temperature=1.0, seed=2))
        again = reread(checkpoint, found)
    assert parting(plain, found) in (2, 3, 4, None)  # the row is read before the third token is written
    odds = torch.from_numpy(again.outputs["log_probs"]).double().softmax(-1)
    for step, seen in enumerate(found.steps):  # what a cache wrote, and one pass over all of it
        expected = odds[found.prompt - 1 + step][[one.token for one in seen]]
        np.testing.assert_allclose([one.probability for one in seen], expected, atol=1e-5)
    assert again.ids == found.run.ids
    was = torch.from_numpy(reread(checkpoint, found).outputs["log_probs"]).double().softmax(-1)
    assert float((was[row] - odds[row]).abs().max()) > 1e-3
    np.testing.assert_allclose(was[:row], odds[:row], atol=1e-6)
