"""A decoder alone writes on: as the library's own generation does, with what each step saw; seeds repeat it."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from heedmap import Checkpoint, Intervention, attention_maps, intervening, load, run_any, watch
from heedmap.checkpoint.huggingface.library import quiet
from heedmap.errors import CheckpointError, InputError
from heedmap.explain.diagram import architecture
from heedmap.nn.stacks import Decoder, DecoderConfig
from heedmap.runs.any_model import continues
from heedmap.runs.continuing import (
    ContinueOptions,
    continue_text,
    fill,
    filled,
    gap_effects,
    hidden,
    mask_of,
    parting,
    reread,
)
from heedmap.runs.what_if import read_under
from heedmap.text.tokenizers import id_tokenizers
from tests.checkpoint.huggingface.families import CONFIGS, LONGEST, random_model, write_bert_tokenizer, write_folder

TEXT = "the dog runs."
IDS = "5 7 11 13 17 19 23"
SIZES = dict(vocab_size=97, hidden_size=24, num_hidden_layers=2, num_attention_heads=6)
SMALL: dict[str, Any] = SIZES | dict(num_key_value_heads=2, intermediate_size=12, initializer_range=0.4)
OPT = dict(ffn_dim=11, max_position_embeddings=LONGEST, word_embed_proj_dim=24, init_std=0.4)
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "opt": ("OPTForCausalLM", SIZES | OPT),
    "mistral": ("MistralForCausalLM", SMALL | dict(sliding_window=3)),
    "gemma2": ("Gemma2ForCausalLM", SMALL | dict(head_dim=4)),
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
    config = DecoderConfig.of(vocab=29, d_model=10, n_heads=2, d_ff=14, n_layers=3, max_length=13)
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


def silence(projection: torch.nn.Module, head: slice) -> None:
    """Nothing of a head arrives where heads are put together."""

    def without(_module: Any, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        mixed = inputs[0].clone()
        mixed[..., head] = 0.0
        return mixed

    projection.register_forward_pre_hook(without)


def test_with_a_head_off_it_writes_what_a_model_without_it_writes(checkpoints: dict[str, Checkpoint]) -> None:
    checkpoint: Any = checkpoints["llama"]
    drawn = ContinueOptions(9, temperature=1.0, seed=3)
    plain = continue_text(checkpoint, TEXT, drawn)
    net, width = checkpoint.model.net, 4  # six heads
    with intervening([Intervention("decoder.1.self", "zero", heads=(2,))]):
        found = continue_text(checkpoint, TEXT, drawn)
    twin = copy.deepcopy(net)
    silence(twin.model.layers[1].self_attn.o_proj, slice(2 * width, 3 * width))
    ids, generator = list(found.run.ids[: found.prompt]), torch.Generator().manual_seed(3)
    for step in found.steps:  # all of it read anew at each step: no cache
        with torch.inference_mode():
            odds = twin(torch.tensor([ids])).logits[0, -1].softmax(-1)
        best = odds.topk(10)
        np.testing.assert_allclose([one.probability for one in step], best.values, atol=1e-5)
        ids.append(int(torch.multinomial(odds, 1, generator=generator)))
    assert list(found.written) == ids[found.prompt : -1] != list(plain.written)
    apart = parting(plain, found)
    assert plain.written[:apart] == found.written[:apart]
    assert plain.written[apart] != found.written[apart]
    assert parting(plain, plain) is None
    assert found.run.record.interventions


@pytest.mark.parametrize("family", ["llama", "own"])
def test_a_change_in_a_later_row_acts_once_it_is_there(checkpoints: dict[str, Checkpoint], family: str) -> None:
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


MASKED = "the [MASK] runs [MASK] ."
LABELS = {0: "sad", 1: "so *so*", 2: "glad"}


def with_classes(folder: Path, **options: Any) -> Checkpoint:
    with quiet():
        config = CONFIGS["bert"][1] | dict(id2label=LABELS, label2id={word: i for i, word in LABELS.items()})
        random_model("BertForSequenceClassification", config | options).save_pretrained(folder)
        write_bert_tokenizer(folder)
    return load(folder)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return load(write_folder(tmp_path_factory.mktemp("filling") / "bert", "bert"))


def test_gaps_hold_what_the_library_s_own_head_says(words: Checkpoint) -> None:
    assert mask_of(words) == "[MASK]"
    gaps = fill(words, MASKED)
    tokenizer = transformers.AutoTokenizer.from_pretrained(words.folder)
    net = transformers.AutoModelForMaskedLM.from_pretrained(words.folder, dtype=torch.float32).eval()
    inputs = tokenizer(MASKED, return_tensors="pt")
    with torch.inference_mode():
        odds = net(**inputs).logits[0].softmax(-1)
    places = (inputs.input_ids[0] == tokenizer.mask_token_id).nonzero()[:, 0].tolist()
    assert [gap.position for gap in gaps] == places == [2, 4]
    for gap, place in zip(gaps, places, strict=True):
        best = odds[place].topk(10)
        np.testing.assert_allclose([one.probability for one in gap.candidates], best.values, atol=1e-6)
        assert [words.tokenizer.labels([i])[0] for i in best.indices.tolist()] == [o.text for o in gap.candidates]
    assert fill(words, "the dog runs .") == ()
    shown = run_any(words, MASKED).record["encoder.0.self"].keys
    assert shown.texts[2].strip("▁") == "[MASK]"
    assert not shown.special[2]
    assert run_any(words, MASKED).outputs.keys() == {"hidden"}


def test_a_change_moves_the_words_of_a_gap_as_it_moves_the_library_s(words: Checkpoint) -> None:
    model: Any = words.model
    before = read_under(words, MASKED, [])
    after = read_under(words, MASKED, [Intervention("encoder.0.self", "zero", heads=(1,))])
    net, odds = copy.deepcopy(model.headed), []
    for changed in (False, True):
        if changed:  # the second of three heads of 21 numbers
            silence(net.base_model.encoder.layer[0].attention.output.dense, slice(7, 14))
        with torch.inference_mode():
            odds.append(net(input_ids=torch.tensor([before.ids])).logits[0].softmax(-1).numpy())
    effects = gap_effects(words, before, after)
    assert [effect.position for effect in effects] == [2, 4]
    names = words.tokenizer.labels(range(odds[0].shape[1]))
    for effect in effects:
        tops = [np.argsort(-one[effect.position], kind="stable")[:10] for one in odds]
        asked = [*tops[0], *(i for i in tops[1] if i not in tops[0])]
        assert list(effect.words) == [names[i] for i in asked]
        for one, theirs in zip((effect.before, effect.after), odds, strict=True):
            np.testing.assert_allclose(one, theirs[effect.position][asked], atol=1e-6)
        assert np.abs(effect.after - effect.before).max() > 1e-3


def test_the_head_stands_beside_the_encoder_and_changes_none_of_it(words: Checkpoint) -> None:
    model: Any = words.model
    plain = transformers.AutoModel.from_pretrained(words.folder, dtype=torch.float32).eval()
    ids = torch.tensor([[5, 7, 11, 13]])
    with torch.inference_mode():
        assert torch.equal(model(ids), plain(input_ids=ids).last_hidden_state)
    assert not any("not used" in str(one) for one in words.assumptions)
    diagram = architecture(model)
    assert diagram.parameters == words.n_parameters == sum(p.numel() for p in model.headed.parameters())
    stream = {node.name for node in diagram.nodes if node.kind == "norm"}
    assert not any(name.startswith("headed.") for name in stream), "the head's norm stands in no layer's way"


def test_classes_have_their_names_and_the_library_s_probabilities(tmp_path: Path) -> None:
    checkpoint = with_classes(tmp_path / "classes")
    assert checkpoint.model.config.labels == tuple(LABELS.values())
    found = run_any(checkpoint, "the dog runs .")
    net = transformers.AutoModelForSequenceClassification.from_pretrained(checkpoint.folder, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint.folder)
    with torch.inference_mode():
        logits = net.eval()(**tokenizer("the dog runs .", return_tensors="pt")).logits[0]
    np.testing.assert_allclose(found.outputs["logits"], logits, atol=1e-6)
    assert found.outputs.keys() == {"logits"}
    assert found.record.sites == ("encoder.0.self", "encoder.1.self")
    assert attention_maps(checkpoint, [[5, 6, 7]])["logits"].shape == (1, 3)
    with pytest.raises(CheckpointError, match="has no token that hides a word"):
        fill(checkpoint, MASKED)
    several = with_classes(tmp_path / "several", problem_type="multi_label_classification")
    assert not several.model.config.one_label


def test_a_head_that_the_weights_do_not_fill_is_left_out(tmp_path: Path) -> None:
    sizes = dict(vocab_size=61, hidden_size=21, num_attention_heads=3, intermediate_size=11, num_hidden_layers=2)
    with quiet():
        random_model("ElectraForPreTraining", sizes | dict(embedding_size=13)).save_pretrained(tmp_path / "electra")
    checkpoint = load(tmp_path / "electra")
    assert checkpoint.model.config.head == ""
    assert run_any(checkpoint, "5 6 7").outputs.keys() == {"hidden"}


def test_words_are_hidden_and_put_in() -> None:
    assert hidden('He said "no", twice.', "<mask>", 2) == 'He said "<mask>", twice.'
    assert hidden("a  dog.", "[MASK]", 1) == "a  [MASK]."
    assert filled("a [MASK] and a [MASK].", "[MASK]", 1, "cat") == "a [MASK] and a cat."
    assert filled("a play [MASK] dog", "[MASK]", 0, "##ing") == "a playing dog"
