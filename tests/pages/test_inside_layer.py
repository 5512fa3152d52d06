"""The page "Inside a layer": first paint, every step, the address, trained models, what has no such layer."""

import io
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from streamlit.testing.v1 import AppTest

from tests.classifiers import sequence_checkpoint
from tests.pages.opening import address_of, fine, marked, matrices, opened, words_of
from tests.pages.tiny import save_tiny, save_tiny_recurrent, tiny_tokenizer
from transformer.checkpoint.ours.folder import save_folder
from transformer.nn.encoder import Encoder, EncoderConfig
from ui.lessons.inside_layer.controls import DEFAULTS, TRY
from ui.store import store

page = partial(opened, "inside_layer")

SHOWN = {
    "embedding": ["E", "sE", "P", "X", "U", "lsE", "lE", "lP", "g", "gU"],
    "residual": ["X", "F", "R", "lX", "lF", "lR", "c"],
    "norm": ["X", "mu", "C", "v", "s", "N", "g", "b", "Y"],
    "order": ["X", "g", "b", "F", "R", "Y", "N", "G", "Z", "lX", "lY", "lZ"],
    "feed_forward": ["H", "W_in", "b_in", "A", "B", "on", "W_out", "b_out", "F"],
    "output": ["h", "T", "b", "L", "m", "S", "G", "r", "Z", "l", "p"],
}


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
        config = EncoderConfig(
            vocab=len(tokenizer), d_model=6, n_heads=2, d_ff=7, n_layers=2, head=head, head_reads="mean",
            activation="gelu", max_length=40,
        )  # fmt: skip
        save_folder(made / name, "encoder", Encoder(config), tokenizer, examples=("two dogs run",))
    return made


@pytest.fixture
def small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", folder)


def text(at: AppTest) -> str:
    return words_of(at).replace("\\", "")


def test_the_page_starts_at_the_first_step_and_next_leads_through_all():
    at = fine(page())
    assert at.button(key="previous").disabled
    for stage, names in SHOWN.items():
        assert list(matrices(at)[0]) == names
        assert marked(at)["example"]
        assert "For example" in text(at)
        if stage != "output":
            fine(at.button(key="next").click().run())
    assert at.button(key="next").disabled
    assert address_of(at)["stage"] == "output"


@pytest.mark.parametrize(
    ("address", "said", "unsaid"),
    [
        ({}, "multiplies it by √d = √4", "as it is: the positions"),
        ({"stage": "residual"}, "(Self-attention) found is added", "pre-norm"),
        ({"stage": "residual", "norm_first": "true", "side": "decoder", "part": "cross"}, "(Cross-attention) found",
         "normalised next"),
        ({"stage": "norm"}, "divided by n (biased)", "RMSNorm is"),
        ({"stage": "norm", "form": "annotated"}, "(unbiased), as torch.std does", "under the root, with"),
        ({"stage": "norm", "norm_first": "true"}, "stands before the sub-layer", "reads the sum"),
        ({"stage": "order", "norm_first": "true"}, "This model is pre-norm: R\N{PRIME}", "is post-norm"),
        ({"stage": "order"}, "This model is post-norm: Y", "is pre-norm"),
        ({"stage": "feed_forward"}, "The activation is ReLU", "GELU"),
        ({"stage": "feed_forward", "gelu": "true"}, "The activation is GELU", "ReLU"),
        ({"stage": "output"}, "(tied weights)", "not tied"),
        ({"stage": "output", "tied": "false", "position": "2"}, "(not tied)", "(tied weights)"),
    ],
)  # fmt: skip
def test_every_step_says_what_is_shown(address: dict[str, str], said: str, unsaid: str):
    found = text(fine(page(**address)))
    assert said in found
    assert unsaid not in found


def test_the_forms_of_the_norm_stand_beside_each_other_with_their_difference():
    at = fine(page(stage="norm", form="beside", d_model="2", cell="Y.2.1"))
    names, arrays = matrices(at)
    assert list(names) == ["X", "s", "sa", "r", "Y", "Ya", "Da", "Yr", "Dr"]
    x = arrays["X"].reshape(4, 2).astype(float)
    own, other = (np.sqrt(x.var(axis=1) + 1e-5), x.std(axis=1, ddof=1) + 1e-5)
    np.testing.assert_allclose(arrays["s"].ravel(), own, rtol=1e-4)
    np.testing.assert_allclose(arrays["sa"].ravel(), other, rtol=1e-4)
    table = at.dataframe[-1].value
    assert table.iloc[0, 1] == f"{own[2]:.4f}".rstrip("0")
    assert table.iloc[1, 1] == f"{other[2]:.4f}".rstrip("0")
    assert float(table.iloc[1, 2]) == pytest.approx(np.abs(arrays["Da"]).max(), rel=1e-3)
    assert table.iloc[0, 2] == "0"


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("address", "unbiased"),
    [
        ({}, False),
        ({"d_model": "2", "seed": "2", "side": "decoder"}, False),  # its last row hardly varies
        ({"d_model": "6", "seed": "3", "norm_first": "true", "part": "feed_forward"}, False),
        ({"made": "shipped", "model": "annotated", "text": "two dogs"}, True),
    ],
)
def test_the_length_after_the_norm_is_that_of_the_rows_shown(address: dict[str, str], unbiased: bool):
    """Before gain and shift a row's length is the root of d, or of d - 1 where the deviation has n - 1, but for eps."""
    at = fine(page(stage="order", **address))
    names, arrays = matrices(at)
    d = len(names["R"]["columns"])
    rows, after = (arrays[name].reshape(-1, d).astype(float) for name in ("R", "Y"))
    centred = rows - rows.mean(axis=1, keepdims=True)
    squares = (centred**2).sum(axis=1)
    bare = np.sqrt(squares) / (np.sqrt(squares / (d - 1)) + 1e-5 if unbiased else np.sqrt(squares / d + 1e-5))
    root = f"√(d \N{MINUS SIGN} 1) = √{d - 1} = {(d - 1) ** 0.5:.2f}" if unbiased else f"√d = √{d} = {d**0.5:.2f}"
    least = f"{bare.min():.2f}"
    if root.endswith(least):
        assert f"β every row has the length {root}." in text(at)
    else:
        assert f"no row is longer than {root}; ε makes rows shorter that hardly vary, here down to {least}" in text(at)
    assert root.endswith(least) == ("seed" not in address or address["seed"] != "2")
    lengths = np.linalg.norm(after, axis=1)
    assert f" and β the lengths are {lengths.min():.2f} to {lengths.max():.2f}." in text(at)


@pytest.mark.parametrize(
    ("stage", "cell", "found"),
    [
        ("residual", "R.1.2", ["R", 1, 2]), ("norm", "R.1.2", ["Y", 1, 2]), ("order", "Y.1.2", ["Y", 1, 2]),
        ("feed_forward", "R.1.2", ["F", 1, 2]), ("norm", "X.3.1.norm", ["X", 3, 1]), ("residual", "R.9.9", ["R", 3, 3]),
    ],
)  # fmt: skip
def test_the_picked_cell_travels_from_step_to_step(stage: str, cell: str, found: list[Any]):
    at = fine(page(stage=stage, cell=cell))
    assert marked(at)["selected"] == found
    assert not marked(at)["example"]
    symbol, row, column = found
    assert rf"{symbol}[{row},{column}]" in " ".join(one.value for one in at.latex)


@pytest.mark.usefixtures("small")
def test_a_trained_model_goes_through_the_same_steps_on_what_it_wrote_itself():
    at = fine(page(made="shipped", model="annotated", stage="norm", text="two dogs", side="decoder", at_layer="0"))
    assert list(matrices(at)[0]) == ["X", "mu", "C", "va", "sa", "Na", "g", "b", "Ya"], "the model's own form"
    own = at.text_input(key="target").value
    assert "target" not in address_of(at)
    at.text_input(key="target").set_value("zwei Hunde").run()
    assert address_of(at)["target"] == "zwei Hunde"
    at.text_input(key="text").set_value("a red").run()
    assert "target" not in address_of(fine(at)), "another source has a target of its own"
    assert own is not None
    model: Any = store.checkpoint("annotated").model
    at = fine(page(made="shipped", model="annotated", stage="output", position="1", text="two dogs"))
    rows = matrices(at)[1]["T"].reshape(10, 12)
    table = model.target_embedding.weight.detach().numpy()
    assert all(np.isclose(table, row).all(1).any() for row in rows)


@pytest.mark.usefixtures("small")
def test_encoders_end_with_classes_or_say_that_they_end_with_states():
    at = fine(page(made="shipped", model="classes", stage="output"))
    assert "likeliest class of the whole input" in text(at)
    names, arrays = matrices(at)
    assert "r" not in names
    assert arrays["p"].sum() == pytest.approx(1)
    at = fine(page(made="shipped", model="states", stage="output"))
    assert "ends with its states" in at.info[0].value
    at = fine(page(made="shipped", model="states", stage="feed_forward", at_layer="1"))
    assert "The activation is GELU" in text(at)
    assert "side" not in [one.key for one in at.selectbox]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("model", "said"), [("recurrent", "is a recurrent net"), ("letters", "reads windows")])
def test_what_has_other_layers_says_so(model: str, said: str):
    at = page(made="shipped", model=model)
    assert not at.exception
    assert said in at.info[0].value


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("address", [{"text": ""}, {"text": "dogs " * 60}, {"text": "two", "target": "zwei " * 40}])
def test_a_sentence_that_cannot_be_shown_gets_a_sentence(address: dict[str, str]):
    at = page(made="shipped", model="tiny", **address)
    assert not at.exception
    assert len(at.warning) == 1


@pytest.mark.parametrize("name", TRY)
@pytest.mark.usefixtures("small")
def test_try_this_sets_the_controls_and_the_address(name: str):
    at = page(d_model="12", stage="output", cell="L.0.0")
    fine(at.menu_button(key="inside_layer.try").click(name).run())
    shown = {**DEFAULTS, **TRY[name]}
    assert {key: value for key, value in address_of(at).items() if str(DEFAULTS.get(key)) == value} == {}
    assert all(address_of(at)[key] == str(value) for key, value in TRY[name].items() if value != DEFAULTS.get(key))
    assert shown["made"] == "letters" or at.session_state["stage"] == shown["stage"]


def test_what_is_shown_can_be_taken_away_with_all_digits(monkeypatch: pytest.MonkeyPatch):
    files: dict[str, Any] = {}
    monkeypatch.setattr("streamlit.download_button", lambda _, data, name, *__, **___: files.update({name: data}))
    arrays = matrices(fine(page(stage="residual")))[1]
    (zipped,) = (name for name in files if name.endswith(".zip"))
    assert "residual" in zipped
    table = pd.read_csv(io.StringIO(files["R.csv"]()), index_col=0)
    assert len(files) == len(arrays) + 1, "every matrix has a file of its own"
    assert len({name.lower() for name in files}) == len(files), "also where case does not count"
    assert list(table.index) == ["the", "cat", "sat", "on"]
    np.testing.assert_allclose(table.to_numpy(), arrays["R"].reshape(4, 4), rtol=1e-6)
    with zipfile.ZipFile(io.BytesIO(files[zipped]())) as archive:
        assert "R.csv" in archive.namelist()
        assert "R = X + F" in archive.read("contents.csv").decode("utf-8-sig")


def test_units_that_never_fire_are_counted_and_a_toy_says_how_few_tokens_it_knows() -> None:
    at = fine(page(stage="feed_forward"))
    sent, values = matrices(at)
    hidden = next(values[name] for name, one in sent.items() if one["symbol"] == "F_2")
    assert f"{int((hidden <= 0).all(axis=0).sum())} stay at or below 0 at every position" in text(at)
    at = fine(page(stage="output"))
    assert "the likeliest next token is" in text(at)
    assert "whole vocabulary is 11 tokens" in text(at)
    assert "whole vocabulary is" not in text(fine(page(stage="output", made="shipped")))
