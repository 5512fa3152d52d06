"""Measures of a checkpoint over a corpus, each kept in a file beside its weights."""
