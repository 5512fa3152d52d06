"""Why this class: words add what the other library's own model says, without each of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.attention.interventions.readers import TEXT as IDS
from tests.attention.interventions.readers import reader
from tests.checkpoint.huggingface.families import CONFIGS, random_model, write_bert_tokenizer, write_gpt2_tokenizer
from transformer import Checkpoint, load, run_any
from transformer.checkpoint.huggingface.library import quiet
from transformer.errors import AttributionError
from transformer.runs.class_reasons import class_reasons, ways

TEXT = "the dog plays and xyz eats."
LABELS = {0: "sad", 1: "so", 2: "glad"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("classes")
    named = dict(id2label=LABELS, label2id={word: i for i, word in LABELS.items()})
    with quiet():
        random_model("BertForSequenceClassification", CONFIGS["bert"][1] | named).save_pretrained(place / "bert")
        many = CONFIGS["bert"][1] | named | dict(problem_type="multi_label_classification")
        random_model("BertForSequenceClassification", many).save_pretrained(place / "each")
        random_model("GPT2ForSequenceClassification", CONFIGS["gpt2"][1] | named).save_pretrained(place / "gpt2")
    for name in ("bert", "each"):
        write_bert_tokenizer(place / name)
    write_gpt2_tokenizer(place / "gpt2")
    return place


def doubled(folder: Path) -> tuple[Checkpoint, Any]:
    """A checkpoint in double precision, and the library's own model of it."""
    checkpoint = load(folder)
    checkpoint.model.double()
    with quiet():
        net = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float64).eval()
    return checkpoint, net


def odds(logits: torch.Tensor, target: int) -> torch.Tensor:
    """Of classes that exclude one another: ln p - ln (1 - p)."""
    p = logits.softmax(-1)[:, target]
    return p.log() - (1 - p).log()


def words_of(folder: Path, text: str) -> tuple[list[int], list[list[int]]]:
    """The library's ids, and which of them make up each word; marks belong to none."""
    read = transformers.AutoTokenizer.from_pretrained(folder)(text)
    groups: dict[int, list[int]] = {}
    for place, word in enumerate(read.word_ids()):
        if word is not None:
            groups.setdefault(word, []).append(place)
    return read["input_ids"], list(groups.values())


@pytest.mark.parametrize("name", ["bert", "each", "gpt2"])
def test_without_a_word_the_log_odds_lose_what_the_library_s_model_says(folder: Path, name: str) -> None:
    checkpoint, net = doubled(folder / name)
    run = run_any(checkpoint, TEXT)
    assert ways(checkpoint, run)[0] == "deletion_removed"
    ids = list(run.ids)
    axis = next(iter(run.record.values())).keys
    groups = [
        np.flatnonzero(row).tolist() for row in axis.membership if not any(axis.special[i] for i in np.flatnonzero(row))
    ]

    def asked(read: list[int]) -> float:
        with torch.inference_mode():
            logits = net(torch.tensor([read])).logits
        return float(logits[0, 1] if name == "each" else odds(logits, 1)[0])

    removed = class_reasons(checkpoint, run, 1, "deletion_removed")
    expected = [asked(ids) - asked([one for i, one in enumerate(ids) if i not in part]) for part in groups]
    np.testing.assert_allclose(removed.added, expected, atol=1e-9)
    if name != "gpt2":
        unknown = checkpoint.tokenizer.unknown_id if checkpoint.tokenizer else -1
        found = class_reasons(checkpoint, run, 1, "deletion_unknown").added
        expected = [asked(ids) - asked([unknown if i in part else one for i, one in enumerate(ids)]) for part in groups]
        np.testing.assert_allclose(found, expected, atol=1e-9)
        known = [any(ids[i] != unknown for i in part) for part in groups]
        assert not all(known)  # xyz
        with torch.no_grad():
            next(checkpoint.model.parameters()).fill_(torch.nan)
        spoilt = class_reasons(checkpoint, run, 1, "deletion_unknown").added
        np.testing.assert_array_equal(spoilt, np.where(known, np.nan, 0.0))  # what is unknown already is not tried


def test_a_classifier_of_our_own_is_asked_too_and_what_has_no_class_is_refused() -> None:
    own = reader("classes")
    run = run_any(own, IDS)
    assert ways(own, run) == ("deletion_removed",)
    told: list[float] = []
    assert np.isfinite(class_reasons(own, run, 1, "deletion_removed", told.append).added).all()
    assert told[-1] == 1.0
    assert told == sorted(told)
    states = reader("states")
    with pytest.raises(AttributionError, match="states"):
        class_reasons(states, run_any(states, IDS), 0, "deletion_removed")
