"""The page "Inside a layer": forms of the norm, trained models of every kind, what they cannot show, files."""

import io
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from heedmap.checkpoint.ours.folder import save_folder
from heedmap.nn.stacks import Encoder, EncoderConfig
from tests.classifiers import sequence_checkpoint
from tests.pages.opening import Files, address_of, fine, matrices, opened, text
from tests.pages.tiny import save_tiny, save_tiny_recurrent, tiny_tokenizer
from ui.store import store

inside = partial(opened, "inside_layer")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator in two dialects, encoders with and without an output layer, and what has other layers."""
    made = tmp_path_factory.mktemp("checkpoints")
    save_tiny(made)
    save_tiny(made / "more", norm="annotated", norm_first=False, projection_bias=True, tie_projection=True)
    (made / "more" / "tiny").rename(made / "annotated")
    (made / "more").rmdir()
    save_tiny_recurrent(made, "additive", "recurrent")
    small = sequence_checkpoint()
    save_folder(made / "letters", "kmer", small.model, task=small.task, examples=("ACGTTGCAAGTGTCAGTTGACGTACC",))
    tokenizer = tiny_tokenizer()
    for name, head in (("classes", (5, 3)), ("states", ())):
        torch.manual_seed(2)
        config = EncoderConfig.of(
            vocab=len(tokenizer), d_model=6, n_heads=2, d_ff=7, n_layers=2, head=head,
            activation="gelu", max_length=40,
        )  # fmt: skip
        save_folder(made / name, "encoder", Encoder(config), tokenizer, examples=("two dogs run",))
    return made


@pytest.fixture
def small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", folder)


def test_the_forms_of_the_norm_stand_beside_each_other_with_their_difference():
    at = fine(inside(stage="norm", form="beside", d_model="2", cell="Y.2.1"))
    names, arrays = matrices(at)
    assert list(names) == ["X", "s", "sa", "r", "Y", "Ya", "Da", "Yr", "Dr"]
    x = arrays["X"].reshape(4, 2).astype(float)
    own, other = (np.sqrt(x.var(axis=1) + 1e-5), x.std(axis=1, ddof=1) + 1e-5)
    np.testing.assert_allclose(arrays["s"].ravel(), own, rtol=1e-4)
    np.testing.assert_allclose(arrays["sa"].ravel(), other, rtol=1e-4)
    np.testing.assert_allclose(arrays["Da"], arrays["Ya"] - arrays["Y"], atol=1e-6)


@pytest.mark.usefixtures("small")
def test_a_trained_model_goes_through_the_same_steps_on_what_it_wrote_itself():
    at = fine(inside(made="shipped", model="annotated", stage="norm", text="two dogs", side="decoder", at_layer="0"))
    assert list(matrices(at)[0]) == ["X", "mu", "C", "va", "sa", "Na", "g", "b", "Ya"], "the model's own form"
    own = at.text_input(key="target").value
    assert "target" not in address_of(at)
    at.text_input(key="target").set_value("zwei Hunde").run()
    assert address_of(at)["target"] == "zwei Hunde"
    at.text_input(key="text").set_value("a red").run()
    assert "target" not in address_of(fine(at)), "another source has a target of its own"
    assert own is not None
    model: Any = store.checkpoint("annotated").model
    at = fine(inside(made="shipped", model="annotated", stage="output", position="1", text="two dogs"))
    rows = matrices(at)[1]["T"].reshape(10, 12)
    table = model.target_embedding.weight.detach().numpy()
    assert all(np.isclose(table, row).all(1).any() for row in rows)


@pytest.mark.usefixtures("small")
def test_encoders_end_with_classes_or_say_that_they_end_with_states():
    at = fine(inside(made="shipped", model="classes", stage="output", position="1", text="two dogs"))
    assert "the likeliest class is" in text(at)
    names, arrays = matrices(at)
    assert "r" not in names
    assert arrays["p"].sum() == pytest.approx(1)
    at = fine(inside(made="shipped", model="states", stage="output"))
    assert "ends with its states" in at.info[0].value
    at = fine(inside(made="shipped", model="states", stage="feed_forward", at_layer="1"))
    assert "The activation is GELU" in text(at)
    assert "side" not in [one.key for one in at.selectbox]


@pytest.mark.usefixtures("small")
def test_what_has_other_layers_says_so_and_a_sentence_that_cannot_be_shown_gets_a_sentence():
    for model, said in (("recurrent", "is a recurrent net"), ("letters", "reads windows")):
        assert said in fine(inside(made="shipped", model=model)).info[0].value
    for address in ({"text": ""}, {"text": "dogs " * 60}, {"text": "two", "target": "zwei " * 40}):
        at = inside(made="shipped", model="tiny", **address)
        assert not at.exception
        assert len(at.warning) == 1


def test_what_is_shown_can_be_taken_away_with_all_digits(files: Files):
    arrays = matrices(fine(inside(stage="residual")))[1]
    name, made = files["zip"]
    assert "residual" in name
    with zipfile.ZipFile(io.BytesIO(made())) as archive:
        names = archive.namelist()
        table = pd.read_csv(io.BytesIO(archive.read("R.csv")), index_col=0)
        assert "R = X + F" in archive.read("contents.csv").decode("utf-8-sig")
    assert len(names) == len(arrays) + 1, "every matrix has a file of its own"
    assert len({name.lower() for name in names}) == len(names), "also where case does not count"
    assert list(table.index) == ["the", "cat", "sat", "on"]
    np.testing.assert_allclose(table.to_numpy(), arrays["R"].reshape(4, 4), rtol=1e-6)


def test_units_that_never_fire_are_counted_and_a_toy_says_how_few_tokens_it_knows() -> None:
    at = fine(inside(stage="feed_forward"))
    sent, values = matrices(at)
    hidden = next(values[name] for name, one in sent.items() if one["symbol"] == "F_2")
    assert f"{int((hidden <= 0).all(axis=0).sum())} stay at or below 0 at every position" in text(at)
    at = fine(inside(stage="output"))
    assert "the likeliest next token is" in text(at)
    assert "whole vocabulary is 11 tokens" in text(at)
    assert "whole vocabulary is" not in text(fine(inside(stage="output", made="shipped")))
