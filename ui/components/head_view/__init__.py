"""Tokens on two sides, and lines between them."""
