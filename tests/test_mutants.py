"""The list of mutations stays applicable; `python -m tests.mutants` runs it."""

from tests.imports import ROOT
from tests.mutants import mutants


def test_every_mutation_still_applies_and_names_tests_that_exist() -> None:
    names = [mutant.name for mutant in mutants()]
    assert len(set(names)) == len(names) >= 60
    for mutant in mutants():
        text = (ROOT / mutant.file).read_text(encoding="utf-8")
        assert mutant.broken(text) != text
        assert (ROOT / mutant.tests.partition("::")[0]).exists(), mutant.name
