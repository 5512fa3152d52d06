"""Matrices whose cells can be picked, with where each number comes from."""
