"""The page Translate: the source words that a method names for a word, in every method; trust; strange requests."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from heedmap import load, translate
from heedmap.explain.attribution import methods
from heedmap.messages import LANGUAGES
from heedmap.runs.measures import faithfulness
from tests.pages.opening import address_of, fine, opened, options, said, sent
from ui.store import cache

DOGS = "Two dogs run."


def strip(page: AppTest, method: str) -> str:
    return next(part.proto.body for part in page.get("html") if f'data-testid="sources-{method}"' in part.proto.body)


def looking(**address: str) -> AppTest:
    return opened("translate", **{"view": "sources", "text": DOGS, **address})


def test_the_words_that_light_up_are_those_of_the_method() -> None:
    page = looking(word="Hunde", by="deletion", also="norms")
    checkpoint = load("checkpoints/multi30k-en-de")
    shown = translate(checkpoint, DOGS)
    for method in ("deletion", "norms"):
        answer = shown.attribution(checkpoint, method, words=True)
        row = answer.of_source[answer.steps.texts.index("Hunde")]
        assert int(np.argmax(row)) == 1
        brightest = f'#0f766e 60%, transparent)"><b>{answer.source.texts[1]}</b>'
        assert brightest in strip(page, method)
    told = said(page)
    note = "hidden from every attention of encoder and decoder"  # below the picture, which a narrow screen cuts
    assert note in sent(page, "sources-0")[0]["axis"]["notes"]
    assert told.count("It asks:") == told.count("It cannot say:") == 2
    assert "Agreement of the two" in told
    assert address_of(page)["word"] == "Hunde"


def test_looking_elsewhere_asks_no_method(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def counted(*given: object, **more: object) -> object:
        asked.append(given[2])
        return methods.attribute(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("heedmap.runs.translate.attribute", counted)
    cache.clear()
    page = fine(opened("translate", text=DOGS))
    assert not asked
    page.query_params["view"] = "sources"
    looking(also="none")
    assert asked == ["deletion"]
    looking(also="none", word="Hunde")
    assert asked == ["deletion"]


def test_methods_of_every_unit_have_a_picture() -> None:
    """Every method that the first test leaves, in both languages, with its question, its limit and its file."""
    pairs = [
        ("gradients", "rollout"), ("weights", "integrated_gradients"), ("deletion_removed", "contributions"),
    ]  # fmt: skip
    assert {method for pair in pairs for method in pair} | {"deletion", "norms"} == set(methods.METHODS)
    for number, pair in enumerate(pairs):
        language = LANGUAGES[number % 2]
        page = looking(by=pair[0], also=pair[1], lang=language)
        for method in pair:
            assert "undefined" not in strip(page, method)
            assert "无定义" not in strip(page, method)
            assert methods.METHODS[method].question.in_language(language)[1:] in said(page)
        assert not page.error


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_did_not_converge_says_so_and_names_no_word(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the heading, in the picture's place and beside the matrix; no cell is ringed, and nothing is compared."""
    monkeypatch.setattr("heedmap.explain.attribution.integrated_gradients.MOST_POINTS", 16)
    monkeypatch.setattr(faithfulness, "shipped", lambda checkpoint: None)
    cache.clear()
    page = looking(by="integrated_gradients", word="Hunde", also="deletion", lang=language)
    never = {"en": "not converged: ", "zh": "未收敛"}[language]
    heading = next(part.value for part in page.markdown if "Hunde" in part.value)
    assert never in heading
    warned = [part.value for part in page.warning if "warning" in part.icon]
    assert len(warned) == 1
    assert "Hunde" in warned[0]
    first = sent(page, "sources-0")[0]
    assert {"en": "they hold no numbers and are not ranked", "zh": "也不参与排序"}[language] in first["axis"]["notes"]
    undefined = {"en": "undefined", "zh": "无定义"}[language]
    assert undefined in strip(page, "integrated_gradients")
    assert undefined not in strip(page, "deletion")
    assert "color-mix(in srgb, #0f766e 0%" in strip(page, "integrated_gradients")
    assert "#0f766e 60%" not in strip(page, "integrated_gradients")
    assert never in first["title"]
    assert (options(page, "sources-0")["pair"] is None, options(page, "sources-1")["pair"] is None) == (True, False)
    assert not page.error
    cache.clear()


def test_a_bar_of_shares_stands_only_where_something_is_shared_out() -> None:
    """Beside the matrix of a method whose rows are shares of source and prefix; not of losses and slopes."""
    for method, bars in (("contributions", 1), ("norms", 0), ("deletion", 0), ("integrated_gradients", 0),
                         ("gradients", 0), ("weights", 0)):  # fmt: skip
        page = looking(by=method, also="none")
        drawn = [part.proto.body for part in page.get("html") if "bars-source-share" in part.proto.body]
        assert ["share of what a step received" in body for body in drawn] == [True] * bars
        assert ("speaks of the source alone" in said(page)) == (method in ("norms", "weights"))


def test_trust_is_what_lies_beside_the_checkpoint_or_is_said_to_be_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fare = faithfulness.Fare((1.0,) * 5, (0.5,) * 5, 1.25, 0.875, 0.5)
    chance = faithfulness.Fare((0.1,) * 5, (0.5,) * 5, 0.1, 0.25, float("nan"))
    fares = {"norms": fare, "random": chance, "deletion_removed": replace(fare, share=1.0)}
    known = faithfulness.Faithfulness("some captions", True, 1014, 2345, "deletion_removed", fares)
    faithfulness.FILE.write(tmp_path / faithfulness.FILE.name, known)
    kept = json.loads((tmp_path / faithfulness.FILE.name).read_text(encoding="utf-8"))
    assert (kept["sentences"], kept["words"], kept["reference"]) == (1014, 2345, "deletion_removed")
    monkeypatch.setattr(faithfulness, "shipped", lambda checkpoint: known)
    found = said(looking(by="norms", also="rollout"))
    assert all(part in found for part in ("2,345 written words of 1,014 sentences (some captions)", "88%", "25%"))
    assert found.count("was not measured for this checkpoint") == 1
    found = said(looking(by="deletion_removed", also="none"))
    assert "The other methods are measured against it." in found
    assert "100%" not in found, "what the others are held against is not praised for agreeing with itself"


@pytest.mark.parametrize(
    "address",
    [
        {"text": "Dogs"}, {"text": DOGS, "force": "."}, {"text": " ".join(["dog"] * 120), "force": "Hund"},
        {"text": DOGS, "word": "nirgends", "by": "magic", "also": "deletion"},
    ],
)  # fmt: skip
def test_small_large_and_strange_requests(address: dict[str, str]) -> None:
    page = looking(**address)
    assert "It asks:" in said(page)
    assert not page.error
