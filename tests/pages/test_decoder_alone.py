"""A decoder alone of our own definition on every page that shows it: what comes next, the map, What if, lessons."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.pages.opening import chosen, fine, head_shown, matrix_sent, opened
from tests.pages.tiny import tiny_tokenizer
from transformer import ContinueOptions, continue_text, intervening, load
from transformer.attention.interventions.text import from_text
from transformer.checkpoint.ours.folder import save_folder
from transformer.nn.decoder import Decoder, DecoderConfig
from transformer.runs.continuing import parting

READ = "two dogs run"
OFF = "decoder.1.self~zero~h2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("decoders")
    tokenizer = tiny_tokenizer()
    torch.manual_seed(2)
    model = Decoder(DecoderConfig(vocab=len(tokenizer), d_model=9, n_heads=3, d_ff=7, n_layers=2, max_length=40))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.8)
    save_folder(made / "writer", "decoder", model, tokenizer, examples=(READ,), half=False)
    return made


@pytest.fixture(autouse=True)
def _small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", folder)


def test_checkpoints_writes_on_and_an_old_link_to_its_heads_shows_them(folder: Path) -> None:
    old = dict(kind="encoder.self", layer="1", head="2")
    page = fine(opened("your_model", model="writer", input=READ, more="4", words="false", **old))
    found = continue_text(load(folder / "writer"), READ, ContinueOptions(4))
    shown = next(frame.value for frame in page.dataframe if "next token" in frame.value.columns)
    np.testing.assert_allclose(shown["probability"], [one.probability for one in found.steps[4]], atol=1e-6)
    (_, layer, head), (_, drawn) = chosen(page), head_shown(page)
    assert (str(layer), str(head)) == ("1", "2")
    seen = found.run.record["decoder.1.self"]
    np.testing.assert_allclose(drawn, np.where(seen.mask(), seen.weights(2), -np.inf), atol=1e-6)


@pytest.mark.parametrize("part", ["decoder.1.self_attention", "encoder.1.self_attention"])
def test_the_map_opens_its_attention_under_the_new_and_the_old_name(part: str) -> None:
    page = fine(opened("map", text=READ, part=part, at_head="2"))
    assert "decoder.1.self \N{MIDDLE DOT} head 2" in matrix_sent(page, "part-heatmap")[0]["title"]


def test_what_if_writes_with_a_head_off(folder: Path) -> None:
    page = fine(opened("what_if", model="writer", text=READ, do=OFF, more="5"))
    checkpoint = load(folder / "writer")
    plain = continue_text(checkpoint, READ, ContinueOptions(5))
    with intervening(from_text(OFF)):
        found = continue_text(checkpoint, READ, ContinueOptions(5))
    step = parting(plain, found)
    assert step is not None
    shown = [frame.value["probability"] for frame in page.dataframe if "next token" in frame.value.columns]
    for one, table in zip((plain, found), shown, strict=True):
        np.testing.assert_allclose(table, [each.probability for each in one.steps[step]], atol=1e-6)


def test_its_mask_leaks_nothing() -> None:
    page = fine(opened("masks", screen="test", tested="writer"))
    assert page.success
    assert "nats" in " ".join(part.value for part in page.markdown)
