"""What the pages list first."""

from ui.store import cached


def test_lists_start_with_the_translator_and_the_classifier_whose_consensus_is_known() -> None:
    names = cached.shipped_names()
    assert tuple(names[:2]) == cached.FIRST
    assert names[2:] == sorted(names[2:])
    assert cached.checkpoint_names("kmer")[0] == "splice-junctions"
    assert cached.checkpoint_names(*cached.TRANSLATORS)[0] == "multi30k-en-de"
