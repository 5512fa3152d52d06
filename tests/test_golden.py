"""The shipped translator says today what it said when it was shipped.

Made by `python -m transformer translate checkpoints/multi30k-en-de < tests/golden/sentences.txt >
tests/golden/translations.txt`; made anew whenever the checkpoint is replaced.
"""

from pathlib import Path

import numpy as np

from transformer import load, translate

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
CHECKPOINT = HERE.parent / "checkpoints" / "multi30k-en-de"


def test_translations_are_the_golden_ones() -> None:
    checkpoint = load(CHECKPOINT)
    sentences = (GOLDEN / "sentences.txt").read_text("utf-8").splitlines()
    expected = (GOLDEN / "translations.txt").read_text("utf-8").splitlines()
    assert [translate(checkpoint, sentence).text for sentence in sentences] == expected


def test_the_strongest_cross_attention_follows_the_words() -> None:
    """“Hunde” is written while some head of some layer looks at “dogs” more than at all else together."""
    run = translate(load(CHECKPOINT), "Three dogs are running through the snow.")
    sites = [site for site in run.record.sites if site.endswith("cross")]
    pictures = [
        run.record[site].picture(head, words=True) for site in sites for head in range(run.record[site].n_heads)
    ]
    query, key = pictures[0].queries.texts.index("Hunde"), pictures[0].keys.texts.index("dogs")
    assert max(np.max(picture.values[query, key]) for picture in pictures) > 0.5
