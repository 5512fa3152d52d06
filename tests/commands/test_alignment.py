"""`alignment`: rates of every head, layer and method over sentence pairs with links."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import toy
from transformer import __main__ as command_line
from transformer.checkpoint import load
from transformer.errors import CheckpointError
from transformer.explain.attribution.gold import gold_alignments
from transformer.runs.measures.alignment_error import AlignmentErrors, alignment_errors, shipped
from transformer.runs.translate import translate

PAIRS = (
    ("the dog runs.", "der Hund läuft.", "0-0 1-1 2-2 3-3"),
    ("the cat eats.", "der Katze isst.", "0-0 1-1 2?2 3-3"),
)


def test_counts_are_of_the_largest_weight_of_each_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    folder, links = toy.write_checkpoint(tmp_path / "toy"), tmp_path / "links"
    links.mkdir()
    for name, column in (("sentences.en", 0), ("sentences.de", 1), ("links.txt", 2)):
        (links / name).write_text("".join(pair[column] + "\n" for pair in PAIRS), encoding="utf-8")
    out = tmp_path / "alignment_error.json"
    command = ["measure", "alignment", str(folder), "--links", str(links), "--out", str(out), "--quiet"]
    assert command_line.main(command) == 0
    whole = json.loads(out.read_text(encoding="utf-8"))
    assert whole["sentences"] == 2
    counts = whole["methods"]["weights.0.1"]
    found = sure = good = 0
    checkpoint = load(folder)
    for source, target, _ in PAIRS:
        picture = translate(checkpoint, source, forced=target).record["decoder.0.cross"].picture(1, words=True)
        assert picture.queries.texts[:3] == tuple(target[:-1].split())
        for row, weights in enumerate(picture.values[:-1]):
            best = int(np.argmax(weights))
            found += best < 4
            good += best == row and not (source.startswith("the cat") and row == 2)
    sure = 7
    assert counts["written"] == {
        "found": found, "sure": sure, "possible": 8, "found_sure": good,
        "found_possible": counts["written"]["found_possible"],
    }  # fmt: skip
    assert shipped(checkpoint) is None
    (folder / "alignment_error.json").write_text(out.read_text(encoding="utf-8"), encoding="utf-8")
    every = alignment_errors(checkpoint, gold_alignments(links))
    assert shipped(checkpoint) == AlignmentErrors(2, every)
    heads = {name: counts for name, counts in every.items() if name.split(".")[0] == "weights"}
    assert alignment_errors(checkpoint, gold_alignments(links), only={"weights"}) == heads
    stale = whole | {"methods": whole["methods"] | {"rollout": whole["methods"]["weights.0.1"]}}
    out.write_text(json.dumps(stale), encoding="utf-8")
    assert command_line.main([*command, "--methods", "rollout"]) == 0
    assert json.loads(out.read_text(encoding="utf-8")) == whole, "the others are kept"
    out.write_text(json.dumps(stale | {"sentences": 3}), encoding="utf-8")
    assert command_line.main([*command, "--methods", "rollout"]) == 2
    assert command_line.main([*command, "--methods", "saliency"]) == 2
    said = capsys.readouterr()
    assert "counts 3 sentence pairs, but 2 are given" in said.err
    assert "there is no method saliency" in said.err
    (folder / "alignment_error.json").write_text("[]", encoding="utf-8")
    with pytest.raises(CheckpointError, match="what `measure alignment` writes"):
        shipped(checkpoint)
    assert {line.split()[0] for line in said.out.splitlines()} == set(whole["methods"])
    assert {"norms", "norms.0", "norms.0.1", "contributions.0", "rollout", "deletion"} <= set(whole["methods"])
