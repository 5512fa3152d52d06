"""Tokens: ids <-> labels that a person reads."""
