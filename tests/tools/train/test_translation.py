"""Translators: texts, pairs and batches, and the checkpoint that the command writes."""

import json
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heedmap import __main__ as command_line
from heedmap.checkpoint import load
from heedmap.checkpoint.ours.folder import load_snapshot
from heedmap.errors import CheckpointError, InputError
from tests import toy
from tests.tools.train.conftest import begun, trained, training_options
from tools import ToolError
from tools.train.__main__ import command, flag, main, parser
from tools.train.translation import TokenPair, epoch_batches, export, pairs

TOKENIZER = toy.tokenizer()


def test_the_command_writes_a_checkpoint_that_says_how_it_was_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = toy.write_corpus(tmp_path / "toy")
    out, work = tmp_path / "checkpoints" / "tiny", tmp_path / "run"
    wanted = training_options(data, work, updates=110, save_every=20, validate_every=40, label_smoothing=0.05)
    arguments = [part for name, value in wanted.unusual().items() for part in (flag(name), str(value))]
    base = ["translation", f"--data={data}", f"--out={out}", f"--work={work}", *arguments]

    assert main([*base, "--stop-after", "70"]) == 0
    assert "stopped after update 70 of 110: the same command goes on" in capsys.readouterr().err
    assert not out.exists()

    assert main(base) == 0
    assert re.search(rf"{out}: [\d.]+ BLEU on the validation data", capsys.readouterr().err)
    checkpoint = load(out)
    assert checkpoint.languages == ("English", "German")
    assert {path.name for path in out.iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.model", "examples.json", "CARD.md", "history",
    }  # fmt: skip
    assert all(not parameter.isnan().any() for parameter in checkpoint.model.parameters())

    index = json.loads((out / "history" / "index.json").read_text())
    assert [(one["update"], one["file"]) for one in index] == [(50, "000050.safetensors"), (100, "000100.safetensors")]
    assert all(set(entry) == {"file", "update", "epoch", "seconds", "bleu_greedy", "loss"} for entry in index)
    assert index[0]["loss"] > index[1]["loss"]
    early = load_snapshot(checkpoint, out / "history" / "000050.safetensors")
    both = zip(early.model.parameters(), checkpoint.model.parameters(), strict=True)
    assert not any(torch.equal(before, after) for before, after in both)

    card = (out / "CARD.md").read_text(encoding="utf-8")
    assert "61 training pairs and 7 validation pairs (en to de)" in card
    assert "updates 80, 100, 110, in half precision" in card
    assert "--label-smoothing 0.05" in card
    assert str(tmp_path) not in card
    assert "tok:13a" in card
    for beam, name in ((1, "greedy"), (5, "beam 5, length penalty 1")):
        texts = [f"--source={data / 'val.en'}", f"--reference={data / 'val.de'}"]
        assert command_line.main(["evaluate", str(out), *texts, f"--beam={beam}", "--quiet"]) == 0
        assert f"| {name} | {capsys.readouterr().out.split()[1]} |" in card


def test_the_command_makes_recurrent_checkpoints(tmp_path: Path) -> None:
    attention = "additive"  # the other one is trained in test_run.py
    data, taken, out = toy.write_corpus(tmp_path / "toy"), tmp_path / "other", tmp_path / "tiny"
    toy.write_checkpoint(taken)
    sizes = training_options(data, tmp_path, updates=4, d_embedding=5, max_tokens=28)
    arguments = [part for name, value in sizes.unusual().items() for part in (flag(name), str(value))]
    options = [f"--architecture=rnn-{attention}", f"--tokenizer={taken / 'tokenizer.model'}", "--no-history"]
    folders = [f"--data={data}", f"--out={out}", f"--work={tmp_path / 'run'}"]
    assert main(["translation", *folders, *arguments, *options]) == 0
    assert {path.name for path in out.iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.model", "examples.json", "CARD.md",
    }  # fmt: skip
    assert (out / "tokenizer.model").read_bytes() == (taken / "tokenizer.model").read_bytes()
    checkpoint = load(out)
    assert checkpoint.model.config.attention.kind == attention
    card = (out / "CARD.md").read_text(encoding="utf-8")
    assert f"A recurrent encoder-decoder with {attention} attention" in card
    assert f"{checkpoint.n_parameters:,} parameters" in card
    assert "The tokenizer is that of `other`;" in card
    assert "--tokenizer checkpoints/other/tokenizer.model" in card
    assert "--no-history" in card
    assert "`history/`" not in card


def test_the_command_on_the_card_is_the_command_that_was_given(tmp_path: Path) -> None:
    options = training_options(tmp_path / "corpus", tmp_path, seed=3, history=False)
    words = command("translation", options, Path("anywhere/tiny")).replace("\\\n", " ").split()
    assert words[:3] == ["python", "-m", "tools.train"]
    parsed = parser().parse_args(words[3:])
    assert parsed.out == Path("checkpoints/tiny")
    assert parsed.data.name == "corpus"
    for name, value in options.deciding().items():
        assert getattr(parsed, name) == value


def test_what_a_run_leaves_has_its_examples_and_says_where_its_data_came_from(data: Path, tmp_path: Path) -> None:
    examples = tuple(source for source, _ in toy.sentences(3, seed=5))
    (data / "examples.txt").write_text("\n".join(examples) + "\n", encoding="utf-8")
    (data / "DATA.md").write_text("Made up for a test; free.\n", encoding="utf-8")
    export(trained(data, tmp_path / "run"), tmp_path / "mine", "the command")
    made = load(tmp_path / "mine")
    assert made.examples == examples
    assert "Made up for a test; free." in (tmp_path / "mine" / "CARD.md").read_text(encoding="utf-8")


def test_a_run_takes_over_a_tokenizer(data: Path, tmp_path: Path) -> None:
    given = tmp_path / "given.model"
    given.write_bytes(toy.tokenizer().model)
    trained(data, tmp_path / "run", tokenizer=given, stop_after=1)
    assert (tmp_path / "run" / "tokenizer.model").read_bytes() == given.read_bytes()
    with pytest.raises(ToolError, match=r"tokenizer=None, but .* holds a run with tokenizer=.*given\.model"):
        begun(data, tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"absent\.model"):
        begun(data, tmp_path / "new", tokenizer=tmp_path / "absent.model")


def test_texts_that_do_not_match_are_refused(tmp_path: Path) -> None:
    folder = toy.write_corpus(tmp_path / "toy")
    with pytest.raises(ToolError, match="max_tokens=4 leaves no pair to learn from"):
        begun(folder, tmp_path / "run", max_tokens=4)
    with pytest.raises(InputError, match=r"train\.fr cannot be read"):
        begun(folder, tmp_path / "run", target_language="fr")
    (folder / "val.de").write_text("eins\n")
    with pytest.raises(InputError, match=r"val\.en has 7 lines"):
        begun(folder, tmp_path / "run")
    for language in ("en", "de"):
        (folder / f"val.{language}").write_text("")
    with pytest.raises(InputError, match=r"val\.en is empty"):
        begun(folder, tmp_path / "run")


def test_pairs_carry_their_marks_and_useless_ones_are_left_out() -> None:
    sources, targets = ["the dog", "", "the cat", "the " * 50], ["der Hund", "der Hund", "", "der"]
    (pair,) = pairs(sources, targets, TOKENIZER, max_tokens=40)
    assert pair == TokenPair(TOKENIZER.source_ids("the dog"), TOKENIZER.target_ids("der Hund"))


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1), st.integers(20, 90), st.integers(0, 9))
def test_an_epoch_holds_every_pair_once_in_batches_of_bounded_size(
    lengths: list[tuple[int, int]], tokens: int, epoch: int
) -> None:
    data = [TokenPair([i] * source, [i] * target) for i, (source, target) in enumerate(lengths)]
    batches = list(epoch_batches(data, tokens, seed=1, epoch=epoch))
    assert sorted(pair.source[0] for batch in batches for pair in batch) == list(range(len(data)))
    for batch in batches:
        width = max(max(len(pair.source), len(pair.target)) for pair in batch)
        assert width * len(batch) <= tokens
    assert batches == list(epoch_batches(data, tokens, seed=1, epoch=epoch))
    alike = [TokenPair([i] * 4, [i] * 5) for i in range(30)]  # whose companions change from epoch to epoch
    assert list(epoch_batches(alike, 50, 1, epoch)) != list(epoch_batches(alike, 50, 1, epoch + 1))
