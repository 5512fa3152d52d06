"""Clark et al. 2019 ("What Does BERT Look At?", sections 3.1 to 3.3) by their own definitions, and where ours differ.

Theirs: a share is the weight on a class of keys, summed over a document and divided by the number of its tokens, and
documents count alike. Entropy is taken of 0.9999 a + 0.0001 / n. Ours: rows count alike; a position is averaged over
the rows that have it; nothing is smoothed. Up to these three, the numbers are the same.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import transformers

from tests.atlas.test_statistics import given, keys_of, value
from tests.checkpoint.huggingface.families import write_folder
from transformer.atlas.corpus import Corpus
from transformer.atlas.executors import Serial
from transformer.atlas.roles import roles_of
from transformer.atlas.run import Request, make_atlas
from transformer.atlas.statistics import text_totals
from transformer.checkpoint.huggingface.tokenizer import read_tokenizer

N = 23
CLS, SEP, COMMA = [0], [11, N - 1], [4, 17]
CENTRES = {"left": -1, "self": 0, "right": 1}


def published(attention: np.ndarray) -> dict[str, float]:
    """One document's numbers of one head, as the paper defines them: key = query - 1 is what is left of a token."""
    n = len(attention)
    found = {name: float(np.trace(attention, offset)) / n for name, offset in CENTRES.items()}
    found |= {
        name: float(attention[:, keys].sum()) / n for name, keys in (("cls", CLS), ("sep", SEP), ("punct", COMMA))
    }
    smooth = 0.9999 * attention + 0.0001 / n
    return found | {"entropy": float(-(smooth * np.log(smooth)).sum(-1).mean())}


@pytest.mark.parametrize("seed", [1, 2])
def test_shares_and_entropy_are_the_published_ones_up_to_what_is_said(seed: int) -> None:
    scores = torch.randn(1, 1, N, N, generator=torch.Generator().manual_seed(seed)) * 3
    weights = scores.softmax(-1)
    ours = text_totals(given(weights), keys_of(N, special=CLS + SEP, start=CLS, end=SEP, punctuation=COMMA))
    theirs = published(weights[0, 0].double().numpy())
    for name, offset in CENTRES.items():
        rows = N - abs(offset)  # the first token has no left one, and they count it all the same
        assert value(ours["offset"], column=16 + offset) * rows / N == pytest.approx(theirs[name], abs=1e-6)
    for mine, their in (("start", "cls"), ("end", "sep"), ("punctuation", "punct")):
        assert value(ours[mine]) == pytest.approx(theirs[their], abs=1e-6)
    assert value(ours["special"]) == pytest.approx(theirs["cls"] + theirs["sep"], abs=1e-6)
    assert value(ours["entropy"]) == pytest.approx(theirs["entropy"], abs=2e-3)


@pytest.mark.parametrize(("offset", "role"), [(-1, "half_previous"), (1, "half_next"), (0, "half_same")])
@pytest.mark.parametrize("strength", [0.46, 0.56])
def test_a_head_is_positional_where_the_published_share_passes_one_half(offset, role, strength) -> None:
    """Left and right are not exchanged: key = query - 1 is the previous token."""
    there = np.eye(N, k=offset)
    weights = strength * there + (1 - strength * there.sum(1, keepdims=True)) / N
    found = text_totals(given(torch.tensor(weights)[None, None].float()), keys_of(N))
    row = {"site": "encoder.0.self", "peak_share": 0.0, "special": 0.0, "rare": np.nan, "punctuation": 0.0}
    row |= {"normalised_entropy": 0.0, "advance": np.nan, "confidence": 0.0}
    row |= {name: value(found["offset"], column=15 + i) for i, name in enumerate(("previous", "same", "next"))}
    share = published(weights)[{-1: "left", 0: "self", 1: "right"}[offset]]
    assert (role in roles_of(row)) == (share * N / (N - abs(offset)) >= 0.5)
    assert (strength > 0.5) == (role in roles_of(row))


@pytest.mark.parametrize("family", ["bert", "marian"])
def test_a_folder_of_another_library_is_measured_as_its_own_attention_says(family: str, tmp_path: Path) -> None:
    """The whole pass against that library's eager attention, sentence by sentence, by loops."""
    folder = write_folder(tmp_path / family, family)
    lines = ["the dog eats.", "the cat and the bird sleeps.", "a man and the dog and the bird eats.", "the bird runs."]
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    target = tmp_path / "a.txt" if family == "marian" else None
    make_atlas(Request(folder, Corpus(tmp_path / "a.txt", target), tmp_path / "out"), Serial())
    heads = pd.read_parquet(tmp_path / "out" / "heads.parquet").set_index(["site", "head"])
    tokenizer = read_tokenizer(folder)
    kind = transformers.AutoModelForSeq2SeqLM if family == "marian" else transformers.AutoModelForMaskedLM
    model = kind.from_pretrained(folder, attn_implementation="eager").eval()
    maps: dict[str, list[np.ndarray]] = {}
    for text in lines:
        ids = torch.tensor([tokenizer.source_ids(text)])
        with torch.no_grad():
            if family == "bert":
                parts = {"encoder.{}.self": model(ids, output_attentions=True).attentions}
            else:
                read = torch.cat([torch.tensor([[model.config.decoder_start_token_id]]), ids[:, :-1]], dim=1)
                out = model(ids, decoder_input_ids=read, output_attentions=True)
                parts = {"encoder.{}.self": out.encoder_attentions, "decoder.{}.self": out.decoder_attentions}
                parts |= {"decoder.{}.cross": out.cross_attentions}
        for name, layers in parts.items():
            for layer, attention in enumerate(layers):
                maps.setdefault(name.format(layer), []).append(attention[0].double().numpy())
    assert set(maps) == set(heads.index.get_level_values("site"))
    for site, found in maps.items():
        for head in range(len(found[0])):
            rows = [(q, row) for one in found for q, row in enumerate(one[head])]
            seen = [(q, row[: q + 1] if site == "decoder." + site.split(".")[1] + ".self" else row) for q, row in rows]
            entropies = [-(row * np.log(np.maximum(row, 1e-30))).sum() for _, row in seen if len(row) > 1]
            row = heads.loc[site, head]
            assert row["rows"] == len(entropies)
            assert row["entropy"] == pytest.approx(np.mean(entropies), abs=1e-4)
            if site.endswith("self"):
                previous = [row[q - 1] for q, row in seen if q > 0]
                assert row["previous"] == pytest.approx(np.mean(previous), abs=1e-5)
            ends = [row[-1] for _, row in seen if len(row) > 1]
            if not site.startswith("decoder") or site.endswith("cross"):
                assert row["end"] == pytest.approx(np.mean(ends), abs=1e-5)
