"""Queries and keys of a head as points of a plane."""
