"""Tiles: a map of any length, from the whole down to single cells."""
