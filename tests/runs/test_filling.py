"""Hidden words are filled in, and classes told, as the library's own heads say."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.checkpoint.huggingface.families import CONFIGS, random_model, write_bert_tokenizer, write_folder
from transformer import Checkpoint, Intervention, attention_maps, load, run_any
from transformer.checkpoint.huggingface.library import quiet
from transformer.errors import CheckpointError
from transformer.explain.diagrams.of_model import architecture
from transformer.runs.filling import fill, filled, gap_effects, hidden, mask_of
from transformer.runs.what_if import read_under

TEXT = "the [MASK] runs [MASK] ."
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
    gaps = fill(words, TEXT)
    tokenizer = transformers.AutoTokenizer.from_pretrained(words.folder)
    net = transformers.AutoModelForMaskedLM.from_pretrained(words.folder, dtype=torch.float32).eval()
    inputs = tokenizer(TEXT, return_tensors="pt")
    with torch.inference_mode():
        odds = net(**inputs).logits[0].softmax(-1)
    places = (inputs.input_ids[0] == tokenizer.mask_token_id).nonzero()[:, 0].tolist()
    assert [gap.position for gap in gaps] == places == [2, 4]
    for gap, place in zip(gaps, places, strict=True):
        best = odds[place].topk(10)
        np.testing.assert_allclose([one.probability for one in gap.candidates], best.values, atol=1e-6)
        assert [words.tokenizer.labels([i])[0] for i in best.indices.tolist()] == [o.text for o in gap.candidates]
    assert fill(words, "the dog runs .") == ()
    shown = run_any(words, TEXT).record["encoder.0.self"].keys
    assert shown.texts[2].strip("▁") == "[MASK]"
    assert not shown.special[2]
    assert run_any(words, TEXT).outputs.keys() == {"hidden"}


def test_a_change_moves_the_words_of_a_gap_as_it_moves_the_library_s(words: Checkpoint) -> None:
    model: Any = words.model
    before = read_under(words, TEXT, [])
    after = read_under(words, TEXT, [Intervention("encoder.0.self", "zero", heads=(1,))])
    net = copy.deepcopy(model.headed)

    def without(_module: Any, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        mixed = inputs[0].clone()
        mixed[..., 7:14] = 0.0  # the second of three heads of 21 numbers
        return mixed

    odds = []
    for changed in (False, True):
        if changed:
            net.base_model.encoder.layer[0].attention.output.dense.register_forward_pre_hook(without)
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
        fill(checkpoint, TEXT)
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
