"""Corpora of pairs: each line as alone; importance of heads, held against weights without the head and gates."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heedmap import CheckpointError, Intervention, Site, intervening, load, translate
from heedmap.__main__ import main
from heedmap.attention.interventions.value import Means
from heedmap.checkpoint import Checkpoint
from heedmap.nn.search import DecodingOptions, decode
from heedmap.nn.seq2seq import Seq2Seq
from heedmap.runs import corpus
from heedmap.runs.corpus import TranslatedLine, bleu, mean_loss, means_of_pairs, tokenised, translate_lines
from heedmap.runs.measures import importance
from tests import toy
from tests.toy import sentences, write_checkpoint, write_sides

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
PAIRS = sentences(11, seed=5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = write_checkpoint(tmp_path_factory.mktemp("importance") / "toy")
    write_sides(place.parent, PAIRS, "val.en", "val.de")
    return place


@pytest.fixture(scope="module")
def measured(folder: Path) -> importance.Importance:
    files = ["--source", str(folder.parent / "val.en"), "--target", str(folder.parent / "val.de")]
    assert main(["measure", "means", str(folder), *files, "--size", "7", "--name", "seven"]) == 0
    out = ["--out", str(folder.parent / "out"), "--quiet"]
    assert main(["measure", "importance", str(folder), *files, *out, "--threads", "1"]) == 0
    return importance.FILE.read(folder.parent / "out")


def by_hand(checkpoint: Checkpoint) -> list[tuple[Tensor, Tensor]]:
    """Each pair alone: ids of the source, and the target with its start token."""
    model, reader, writer = checkpoint.translator()
    return [
        (torch.tensor([reader.source_ids(a)]), torch.tensor([[model.config.bos_id, *writer.source_ids(b)]]))
        for a, b in PAIRS
    ]


def nll_by_hand(model: Any, pairs: list[tuple[Tensor, Tensor]]) -> float:
    total, count = 0.0, 0
    for source, target in pairs:
        with torch.no_grad():
            log_probs = model(source, target[:, :-1]).log_softmax(-1)[0]
        total -= sum(float(log_probs[t, token]) for t, token in enumerate(target[0, 1:].tolist()))
        count += target.shape[1] - 1
    return total / count


def sublayer_of(model: Any, site: Site) -> Any:
    block = (model.encoder if site.stack == "encoder" else model.decoder)[site.layer]
    return block.self_attention if site.kind == "self" else block.cross_attention


def without_head(folder: Path, site: Site, head: int, vector: Tensor) -> Any:
    """The model with a head's columns of W_O gone and what a constant output would add put into its bias."""
    model: Any = load(folder).model
    output, here = sublayer_of(model, site).output, slice(head * len(vector), (head + 1) * len(vector))
    with torch.no_grad():
        output.bias += output.weight[:, here] @ vector
        output.weight[:, here] = 0
    return model


def test_each_head_off_is_the_model_without_its_columns(folder: Path, measured: importance.Importance) -> None:
    checkpoint = load(folder)
    pairs = by_hand(checkpoint)
    base = nll_by_hand(checkpoint.model, pairs)
    assert mean_loss(checkpoint, tokenised(checkpoint, *zip(*PAIRS, strict=True))) == pytest.approx(base, abs=1e-5)
    assert measured.about.nll["final"] == pytest.approx(base, abs=1e-5)
    assert measured.about.pairs == len(PAIRS)
    for one in measured.heads["final"]:
        vector = checkpoint.means.vectors[one.site][one.head].float()
        for found, stead in ((one.zero, torch.zeros_like(vector)), (one.mean, vector)):
            expected = nll_by_hand(without_head(folder, one.site, one.head, stead), pairs) - base
            assert found == pytest.approx(expected, abs=1e-5)
    assert max(abs(one.zero - one.mean) for one in measured.heads["final"]) > 1e-4


class Gated(nn.Module):
    """An attention core whose every head and token has a gate of 1."""

    def __init__(self, core: nn.Module) -> None:
        super().__init__()
        self.core, self.gates = core, torch.empty(0)

    def forward(self, *inputs: Any) -> Tensor:
        found = self.core(*inputs)
        self.gates = torch.ones(found.shape[:3], requires_grad=True)
        return found * self.gates[..., None]


def test_gradient_importance_is_the_derivative_by_gates(folder: Path, measured: importance.Importance) -> None:
    checkpoint = load(folder)
    model: Any = load(folder).model
    cores: dict[Site, Any] = {}
    for site in {site for site, _ in importance.heads_of(model)}:
        cores[site] = sublayer_of(model, site).core = Gated(sublayer_of(model, site).core)
    totals = {site: torch.zeros(2) for site in cores}
    for source, target in by_hand(checkpoint):
        loss = -model(source, target[:, :-1]).log_softmax(-1)[0].gather(-1, target[0, 1:, None]).sum()
        loss.backward()
        for site, core in cores.items():
            totals[site] += core.gates.grad.abs().sum((0, 2))
    found = {(one.site, one.head): one.gradient for one in measured.heads["final"]}
    for site, total in totals.items():
        for head in range(2):
            assert found[site, head] == pytest.approx(float(total[head] / total.norm()), abs=1e-4)
    pairs = tokenised(checkpoint, *zip(*PAIRS, strict=True))
    before = [len(m._forward_hooks) for m in checkpoint.model.modules()]
    importance.gradient_importance(checkpoint, pairs)
    assert [len(m._forward_hooks) for m in checkpoint.model.modules()] == before


def test_the_mean_output_is_the_mean_over_real_positions(folder: Path, measured: importance.Importance) -> None:
    checkpoint = load(folder)
    assert (checkpoint.means.reference, checkpoint.means.size) == ("seven", 7)
    kept: list[Tensor] = []
    model: Any = checkpoint.model
    core = model.decoder[0].cross_attention.core
    core.register_forward_hook(lambda _m, _i, out: kept.append(out[0].transpose(0, 1)))  # (query, head, d_v)
    every = by_hand(checkpoint)
    for source, target in [every[i * len(PAIRS) // 7] for i in range(7)]:  # evenly spread
        with torch.no_grad():
            model(source, target[:, :-1])
    mean = torch.cat(kept).mean(0).double()
    torch.testing.assert_close(checkpoint.means.vectors[Site("decoder.0.cross")], mean, rtol=1e-4, atol=1e-6)
    with intervening([Intervention("decoder.0.cross", "mean", heads=(1,))]):
        by_file = translate(checkpoint, PAIRS[0][0])
    with intervening([Intervention("decoder.0.cross", "mean", heads=(1,), value=mean[1].tolist())]):
        by_value = translate(checkpoint, PAIRS[0][0])
    assert by_file.target_ids == by_value.target_ids
    assert by_file.log_prob == pytest.approx(by_value.log_prob, abs=1e-4)
    assert by_file.log_prob != pytest.approx(translate(checkpoint, PAIRS[0][0]).log_prob, abs=1e-4)
    assert measured.about.means == "seven"


def test_removal_takes_the_least_important_first(folder: Path, measured: importance.Importance) -> None:
    heads = measured.heads["final"]
    assert [(one.site, one.head) for one in heads] == list(importance.heads_of(load(folder).model))
    order = next(plan for name, group, plan in importance.plans_of(heads) if (name, group) == ("gradient", "all"))
    gradients = {(one.site, one.head): one.gradient for one in heads}
    assert [gradients[head] for head in order] == sorted(gradients.values())
    rows = measured.removals["final"]
    assert {(one.order, one.group) for one in rows} == {
        ("gradient", "all"), ("zero", "all"), *((f"random {i}", "all") for i in (1, 2, 3)),
        *(("gradient", group) for group in ("encoder.self", "decoder.self", "decoder.cross")),
    }  # fmt: skip
    assert [one.share for one in rows[:10]] == list(importance.SHARES)
    assert [one.removed for one in rows[:10]] == [round(len(heads) * share / 100) for share in importance.SHARES]
    assert {one.nll for one in rows if one.share == 0} == {rows[0].nll}
    model = load(folder).model
    for site, head in order[: rows[5].removed]:
        with torch.no_grad():
            sublayer_of(model, site).output.weight[:, 3 * head : 3 * head + 3] = 0
    assert rows[5].nll == pytest.approx(nll_by_hand(model, by_hand(load(folder))), abs=1e-5)


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"sites": {"a": [1]}}', '{"reference": "x", "size": 1, "sites": {"a": [[NaN]]}}']
)
def test_a_folder_whose_means_cannot_be_read_says_so(folder: Path, tmp_path: Path, text: str) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "means.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"means.json.*cannot be read as mean head outputs"):
        load(tmp_path)


def test_means_of_a_padded_batch_are_those_of_its_sentences(folder: Path) -> None:
    checkpoint = load(folder)
    every = means_of_pairs(checkpoint.model, tokenised(checkpoint, *zip(*PAIRS, strict=True)), "x")
    apart = [means_of_pairs(checkpoint.model, tokenised(checkpoint, [a], [b]), "x") for a, b in PAIRS]
    lengths = [source.shape[1] for source, _ in by_hand(checkpoint)]
    site = Site("encoder.0.self")
    mean = sum(one.vectors[site] * n for one, n in zip(apart, lengths, strict=True)) / sum(lengths)
    torch.testing.assert_close(every.vectors[site], mean, rtol=0, atol=1e-6)
    again = Means.of_json(every.to_json(), "x")
    np.testing.assert_allclose(again.vectors[site].numpy(), every.vectors[site].numpy(), rtol=1e-5)
    assert math.isfinite(float(again.vectors[site].sum()))


def removal(order: str, group: str, share: int, nll: float) -> importance.Removal:
    return importance.Removal(order, group, share, share // 10, nll, 50 - 10 * nll)


def test_what_is_said_of_the_curves_is_read_off_them() -> None:
    curves = {
        "gradient": (1.0, 1.1, 1.5, 3.0), "random 1": (1.0, 1.2, 1.4, 4.0), "random 2": (1.0, 1.3, 1.9, 3.5),
    }  # fmt: skip
    rows = [removal(o, "all", 10 * i, v) for o, values in curves.items() for i, v in enumerate(values)]
    rows += [removal("gradient", "decoder.cross", 30, 2.5), removal("gradient", "encoder.self", 30, 1.2)]
    for measure in ("nll", "bleu"):
        assert importance.beats_random(rows, "gradient", measure) == (10, 30), "at 20 % one random order leaves more"
        assert importance.steepest(rows, measure) == ("decoder.cross", 30)


def test_the_shipped_measurement_holds_every_snapshot() -> None:
    """The order by importance against random ones, and the importance.steepest type, as the documents say them."""
    found = importance.FILE.read(CHECKPOINTS / "multi30k-en-de" / importance.FILE.name)
    updates = ["000050", "000100", "000200", "000400", "000800", "001600", "003200", "006400"]
    assert list(found.heads) == list(found.removals) == ["final", *updates]
    whole = found.removals["final"]
    assert importance.beats_random(whole, "zero", "bleu") == tuple(range(10, 100, 10))
    assert importance.beats_random(whole, "gradient", "bleu") == (10, 20, 30, 40, 50)
    assert importance.steepest(whole, "bleu") == importance.steepest(whole, "nll") == ("decoder.cross", 90)
    early, late = (found.removals[name] for name in ("000200", "001600"))
    at_30 = [{one.order: one.nll for one in rows if one.share == 30} for rows in (early, late)]
    assert abs(at_30[0]["gradient"] - at_30[0]["random 1"]) < 0.05, "early in training no order matters"
    assert at_30[1]["random 1"] - at_30[1]["gradient"] > 0.15, "later it does"


OPTIONS = DecodingOptions(beam=2, max_length=13)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    torch.manual_seed(0)
    return load(toy.write_checkpoint(tmp_path_factory.mktemp("checkpoints") / "toy"))


@pytest.mark.parametrize(("rows", "positions"), [(64, 4096), (3, 4096), (64, 20)])
def test_each_line_is_translated_as_it_would_be_alone(
    checkpoint: Checkpoint, rows: int, positions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "MAX_ROWS", rows)
    monkeypatch.setattr(corpus, "MAX_POSITIONS", positions)
    model, words, _ = checkpoint.translator()
    lines = [source for source, _ in toy.sentences(11, seed=5)]
    found = translate_lines(model, words, lines, OPTIONS)
    for line, result in zip(lines, found, strict=True):
        alone = decode(model, torch.tensor([words.source_ids(line)]), OPTIONS)[0]
        assert result == TranslatedLine(words.decode(alone.ids), 0, alone.finished, len(alone.ids))
    assert len({result.text for result in found}) > 5


def test_what_a_checkpoint_cannot_read_is_counted(checkpoint: Checkpoint) -> None:
    """Such a line gives the translation of its first part, and says so."""
    model, words, _ = checkpoint.translator()
    short = Seq2Seq(model.config.changed(max_length=10, positions="learned")).eval()
    long = "the dog and the cat and the bird sleeps."
    ids = words.encode(long)
    cut, whole = translate_lines(short, words, [long, "the dog"], DecodingOptions(max_length=50))
    assert cut.unread == len(ids) - 9
    assert whole.unread == 0
    alone = decode(short, torch.tensor([[*ids[:9], words.eos_id]]), DecodingOptions(max_length=10))[0]
    assert cut.text == words.decode(alone.ids)
    assert cut.finished == alone.finished


def test_bleu_is_sacrebleus() -> None:
    references = ["Ein Mann fährt mit dem Fahrrad.", "Zwei Hunde spielen im Schnee."]
    assert bleu(references, references).score == pytest.approx(100)
    found = bleu(["ein Mann fährt mit dem Fahrrad.", "Zwei Hunde spielen im Schnee."], references)
    assert 50 < found.score < 100
    assert "case:mixed" in found.signature
    assert "tok:13a" in found.signature
